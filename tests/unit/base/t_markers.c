/* Which refusals a supervisor never restarts, which arrive inside others, and which it restarts on purpose. */
#include "engine/base/err.h"

#include "tests/tap.h"

static const char *const never[] = {
    "UNFORWARDED-SCHEMA-CHANGE",
    "ADD-COLUMN-BACKFILL-INCOMPLETE",
    "SLOT-ACKED-PAST-TARGET-POSITION",
    "SHARDED-TARGET-VINDEX-UPDATE",
    "APPLY-MARK-MISMATCH",
    "CHARSET-NOT-DECODABLE",
    "DSN-TIME-ZONE-NOT-UTC",
    "KEY-SCOPED-WRITE-MATCHED-MULTIPLE-ROWS",
    "CHANGE-LOG-WATERMARK-STALLED",
    "HEARTBEAT-TABLE-NOT-SLUICES",
    "RESUME-SCHEMA-DIVERGENCE",
    "SCHEMA-CHANGE-REFUSED",
    "COLUMN-ORDER-CHANGED",
    "DEFERRED-SCHEMA-CHANGE",
    "COLUMN-IDENTITY-CHANGED",
    "KEY-COLLATION-MERGE",
    "UNIQUE-KEY-CONFLICT-OTHER-ROW",
    "SOURCE-UNIQUE-KEY-ABSENT",
    "INCLUDE-TABLE-SCOPE-DRIFT",
};
static const char *const inside[][2] = {
    {"ADD-COLUMN-BACKFILL-INCOMPLETE", "UNFORWARDED-SCHEMA-CHANGE"}, {"AMBIGUOUS-SCHEMA-BOUNDARY", "SCHEMA-CHANGE-REFUSED"},
    {"KEY-COLLATION-CHANGED", "RESUME-SCHEMA-DIVERGENCE"},           {"COLLATION-CHANGE-UNANNOUNCED", "DEFERRED-SCHEMA-CHANGE"},
    {"COLUMN-IDENTITY-UNREAD", "COLUMN-IDENTITY-CHANGED"},           {"KEY-COLLATION-GUARD-UNSUPPORTED", "KEY-COLLATION-MERGE"},
    {"KEY-COLLATION-HISTORY-UNORDERED", "KEY-COLLATION-MERGE"},      {"KEY-COLLATION-VERSION-NAMESPACE", "KEY-COLLATION-MERGE"},
    {"LIVE-ADDED-TABLE-EXCLUDED", "INCLUDE-TABLE-SCOPE-DRIFT"},      {"TABLE-IDENTITY-CHANGED", "INCLUDE-TABLE-SCOPE-DRIFT"},
    {"COLD-START-INCOMPLETE", "INCLUDE-TABLE-SCOPE-DRIFT"},
};
static const char *const restarted[] = {
    "INTERNAL",
    "PRE-ALTER-REPLAY-WEDGE",
    "KEY-COLLATION-REPLAY-AMBIGUOUS",
    "SOURCE-UNIQUE-KEY-RECHECK-FAILED",
    "INCLUDE-TABLE-ADD-IN-PROGRESS",
    "INCLUDE-TABLE-NARROWING-UNRECORDED",
    "SLUICE-E-CDC-REPLICATION-HEADROOM",
    "DEFERRED-KEY-CHECK-FAILED-AT-COMMIT",
};

int main(void) {
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        enum marker m = marker_find(never[i]);
        ok(m != MARKER_NONE && !marker_restartable(m), "%s is never restarted", never[i]);
    }
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        enum marker m = marker_find(inside[i][0]);
        is_str(marker_parent(m), inside[i][1], "%s arrives inside", inside[i][0]);
        ok(m != MARKER_NONE && !marker_restartable(m), "%s is classified with it", inside[i][0]);
    }
    for (size_t i = 0; i < sizeof restarted / sizeof *restarted; i++) {
        enum marker m = marker_find(restarted[i]);
        ok(m != MARKER_NONE && marker_restartable(m), "%s is restarted", restarted[i]);
    }
    int whole = 0, known_parents = 0, twice = 0;
    for (int m = MARKER_NONE + 1; m < MARKER_COUNT; m++) {
        const char *parent = marker_parent((enum marker)m);
        whole += *marker_name((enum marker)m) && *marker_meaning((enum marker)m) && *marker_remedy((enum marker)m);
        known_parents += !*parent || (marker_find(parent) != MARKER_NONE && !*marker_parent(marker_find(parent)));
        twice += marker_find(marker_name((enum marker)m)) != (enum marker)m;
    }
    is_int(whole, MARKER_COUNT - 1, "each marker has a name, a meaning and a remedy");
    is_int(known_parents, MARKER_COUNT - 1, "each parent is a marker that stands alone");
    is_int(twice, 0, "no name stands twice");
    return done_testing();
}
