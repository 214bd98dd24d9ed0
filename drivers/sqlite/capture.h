/* What capture puts into a source, and keeping it true when the schema changes. See DESIGN in capture.c and rearm.c. */
#ifndef SLUICE_DRIVERS_SQLITE_CAPTURE_H
#define SLUICE_DRIVERS_SQLITE_CAPTURE_H

#include "drivers/sqlite/sqlite.h"

/* ---- capture.c ------------------------------------------------------------------------------------------------------------- */

/* Ops in sluice_log: the row with this key was there (before an update, before a delete, about to be displaced), is new, or nothing is
 * known (copy the table whole; a NULL came into the identity: look at the table's shape again). Beside those 'A' (anchor) and 'S' (a shape
 * changed). */
#define SQ_OP_UPDATE 'u'
#define SQ_OP_DELETE 'd'
#define SQ_OP_DISPLACED 'x'
#define SQ_OP_NEW 'i'
#define SQ_OP_DIRTY 'D'
#define SQ_OP_NULL_KEY 'N'

/* True if the table is only marked dirty and copied whole: no identity, or a unique key that triggers cannot watch. */
bool sq_copied_whole(const struct shape *s);

struct sq_triggers { /* texts in one buffer */
    struct buf text;
    struct sq_trigger {
        char name[32];
        size_t at, n;
    } v[5];
    int n;
};
/* The triggers of table number n. Frees nothing on failure but its own; free with buf_free(&t->text). */
int sq_triggers_make(struct sq_triggers *t, const struct shape *s, int64_t n, struct err *e);
int sq_triggers_create(sqlite3 *db, const struct sq_triggers *t, struct err *e);
int sq_triggers_drop(sqlite3 *db, int64_t n, struct err *e); /* those that are there */

int sq_capture_is(sqlite3 *db, bool *there, struct err *e);
/* Inside a write transaction. identity: at most 127 bytes. */
int sq_capture_create(sqlite3 *db, const char *identity, struct err *e);
int sq_capture_drop(sqlite3 *db, struct err *e);
int sq_capture_keys(sqlite3 *db, int need, struct err *e); /* widen the log to this many key columns */
int sq_capture_put(sqlite3 *db, int64_t n, const struct shape *s, int64_t next_column, struct err *e);
int sq_capture_note(sqlite3 *db, int64_t n, char op, struct err *e);
int sq_meta_int(sqlite3 *db, const char *key, int64_t *v, struct err *e); /* 0 when absent */
int sq_meta_set_int(sqlite3 *db, const char *key, int64_t v, struct err *e);
int sq_meta_identity(sqlite3 *db, char out[128], struct err *e);

/* The log's place: id and the nonce of its row. */
struct sq_place {
    int64_t id;
    char nonce[17];
};
int sq_log_end(sqlite3 *db, struct sq_place *p, struct err *e);
int sq_place_of(const struct pos *p, struct sq_place *out, struct err *e); /* nonce empty when the position has none */
int sq_pos_of(const struct sq_place *p, struct pos *out, struct err *e);
/* Is the row of `p` still in the log, and the same one? *there tells; a row with another nonce is CODE_SOURCE_CHANGED. */
int sq_log_has(sqlite3 *db, const struct sq_place *p, bool *there, struct err *e);

/* ---- rearm.c --------------------------------------------------------------------------------------------------------------- */

struct sq_captured { /* one table of the capture */
    int64_t n, next_column;
    struct shape *shape; /* oid = n */
};
struct sq_capture {
    struct sq_captured *v;
    size_t n, cap;
    int64_t schema_version; /* what v is true for */
};
void sq_capture_free(struct sq_capture *c);
int sq_capture_load(sqlite3 *db, struct sq_capture *c, struct err *e);
struct sq_captured *sq_capture_find(struct sq_capture *c, int64_t n);

/* How a captured table's shape follows from the one before. Gives `now` its column ids. */
enum sq_verdict { SQ_SAME, SQ_FOLLOW, SQ_COPY };
int sq_shape_follow(const struct shape *before, struct shape *now, int64_t *next_column, enum sq_verdict *v, struct err *e);

/* Compare capture with the schema and make it true again, in one write transaction: triggers made anew, tables numbered, what must be
 * copied whole marked in the log. Leaves c loaded. */
int sq_rearm(sqlite3 *db, const struct table_filter *f, uint64_t keyless_max, struct sq_capture *c, struct err *e);
/* Refuses a table that is copied whole by every change when its rows take more than `max` bytes. */
int sq_keyless_check(sqlite3 *db, const struct shape *s, uint64_t max, struct err *e);

/* ---- doubt.c --------------------------------------------------------------------------------------------------------------- */

int sq_schema_remember(sqlite3 *db, struct err *e);
/* How many steps of schema_version since version_before does the schema itself not explain? */
int sq_schema_unexplained(sqlite3 *db, int64_t version_before, int64_t *steps, struct err *e);
/* May a column of table number n have been dropped and added again since the log stood at `after`, its values gone? */
int sq_may_have_lost_values(sqlite3 *db, const struct shape *before, const struct shape *now, int64_t n, int64_t after, bool *yes,
                            struct err *e);

#endif
