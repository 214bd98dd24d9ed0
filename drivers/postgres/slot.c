/* The replication slot of a chain: made, checked, dropped. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/source.h"
#include "engine/base/clock.h"
#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"

enum { R_PLUGIN, R_HERE, R_DB, R_PID, R_TEMPORARY, R_TWO_PHASE, R_CONFIRMED, R_RESTART, R_STATUS, R_RETAINED, R_KEEP, R_SAFE, R_TYPE };

#define SLOT_WAIT_US (10 * INT64_C(1000000)) /* for the server to notice that a reader died */

static int slot_row(struct source *s, PGresult **r, struct err *e) {
    const char *p[1] = {s->o.slot_name};
    if (s->o.slot_name == NULL) return err_set(e, CODE_INTERNAL, "no slot was named");
    return pg_query(s->c, embed_sql("postgres/slot_row"), 1, p, "read the replication slot", r, e);
}

int source_anchor_absent(struct source *s, struct err *e) {
    PGresult *r;
    if (slot_row(s, &r, e) < 0) return -1;
    int there = PQntuples(r);
    PQclear(r);
    if (there == 0) return 0;
    err_set(e, CODE_SLOT_EXISTS, "replication slot '%s' exists already", s->o.slot_name);
    return err_hint(e, "choose another --slot-name, or, when nothing needs it: SELECT pg_drop_replication_slot('%s')", s->o.slot_name);
}

int slot_create(PGconn *c, const char *name, bool temporary, struct pos *p, char snapshot[128], struct err *e) {
    char sql[256];
    PGresult *r;
    snprintf(sql, sizeof sql, "CREATE_REPLICATION_SLOT \"%s\"%s LOGICAL pgoutput %s", name, temporary ? " TEMPORARY" : "",
             pg_version(c) >= 150000 ? "(SNAPSHOT 'export')" : "EXPORT_SNAPSHOT");
    if (pg_exec_wait(c, sql, "create a replication slot", "the slot waits until every transaction that was open on the source has ended",
                     &r, e) < 0) {
        if (e->code == CODE_HEADROOM) {
            err_hint(e, "drop an unused slot, or raise max_replication_slots and restart the server");
            return err_mark(e, MARKER_CDC_REPLICATION_HEADROOM, MARKER_NONE);
        }
        return -1;
    }
    int rc = -1;
    if (PQntuples(r) != 1 || PQnfields(r) < 4)
        err_set_class(e, ERR_RETRY, CODE_SERVER, "the server made slot '%s' and did not say where it begins", name);
    else {
        snprintf(snapshot, 128, "%s", pg_text(r, 0, 2));
        rc = pos_set(p, "postgres", pg_text(r, 0, 1), e);
    }
    PQclear(r);
    return rc;
}

int slot_confirmed(struct source *s, uint64_t *lsn, struct err *e) {
    PGresult *r;
    *lsn = 0;
    if (slot_row(s, &r, e) < 0) return -1;
    if (PQntuples(r) == 1) pos_lsn_parse(pg_text(r, 0, R_CONFIRMED), lsn);
    PQclear(r);
    return 0;
}

/* Wait until nobody reads the slot. The row as it is then; no row is fine. */
static int wait_free(struct source *s, PGresult **r, struct err *e) {
    int64_t end = clock_mono_us() + SLOT_WAIT_US;
    for (;;) {
        if (slot_row(s, r, e) < 0) return -1;
        if (PQntuples(*r) == 0 || pg_null(*r, 0, R_PID)) return 0;
        if (clock_mono_us() >= end || stop_asked()) break;
        PQclear(*r);
        stop_wait(100 * 1000);
    }
    err_set(e, CODE_SLOT_ACTIVE, "replication slot '%s' is being read by another connection (server process %s)", s->o.slot_name,
            pg_text(*r, 0, R_PID));
    err_hint(e, "stop that consumer, or end its connection with SELECT pg_terminate_backend(%s)", pg_text(*r, 0, R_PID));
    PQclear(*r);
    *r = NULL;
    return -1;
}

/* Is it a slot as an anchor of this database makes it? */
static int is_ours(struct source *s, const PGresult *r, struct err *e) {
    const char *what = NULL;
    if (strcmp(pg_text(r, 0, R_TYPE), "logical") != 0) what = "a physical slot";
    else if (strcmp(pg_text(r, 0, R_PLUGIN), "pgoutput") != 0) what = "a slot of another output plugin";
    else if (!pg_bool(r, 0, R_HERE)) what = "a slot of another database";
    else if (pg_bool(r, 0, R_TWO_PHASE)) what = "a two-phase slot, which sends prepared transactions before they commit";
    else if (pg_bool(r, 0, R_TEMPORARY)) what = "a temporary slot";
    if (what == NULL) return 0;
    return err_set(e, CODE_SLOT_FOREIGN, "replication slot '%s' is %s (plugin '%s', database '%s')", s->o.slot_name, what,
                   pg_text(r, 0, R_PLUGIN), pg_text(r, 0, R_DB));
}

int source_unanchor(struct source *s, struct err *e) {
    PGresult *r = NULL;
    const char *p[1] = {s->o.slot_name};
    if (wait_free(s, &r, e) < 0) return -1;
    int rc = -1;
    if (PQntuples(r) == 1) {
        if (is_ours(s, r, e) < 0) goto out;
        PQclear(r);
        if (pg_query(s->c, "SELECT pg_catalog.pg_drop_replication_slot($1)", 1, p, "drop the replication slot", &r, e) < 0) return -1;
    }
    rc = FAULT("postgres.unanchor_slot", e) < 0 ? -1 : publication_drop(s, e);
out:
    PQclear(r);
    return rc;
}

static void warn_of_wal(struct source *s, const PGresult *r) {
    uint64_t retained = (uint64_t)pg_i64(r, 0, R_RETAINED);
    int64_t keep = pg_i64(r, 0, R_KEEP);
    const char *status = pg_text(r, 0, R_STATUS);
    if (strcmp(status, "unreserved") == 0)
        log_warn("the slot's WAL may be removed at the next checkpoint: extend the chain now", KV_STR("slot", s->o.slot_name),
                 KV_U64("retained_bytes", retained));
    else if (keep > 0 && retained > (uint64_t)keep / 2)
        log_warn("the slot holds more than half of the WAL that max_slot_wal_keep_size allows", KV_STR("slot", s->o.slot_name),
                 KV_U64("retained_bytes", retained), KV_I64("allowed_bytes", keep));
    else if (keep < 0 && retained > UINT64_C(10) << 30)
        log_warn("the slot holds much WAL on the source, and nothing bounds it", KV_STR("slot", s->o.slot_name),
                 KV_U64("retained_bytes", retained));
}

int source_check(struct source *s, const struct pos *from, const struct pos *covered, struct err *e) {
    PGresult *r = NULL;
    uint64_t from_lsn, covered_lsn, confirmed = 0, end_lsn;
    struct pos end;
    int rc = -1;
    if (!pos_lsn_parse(from->token, &from_lsn)) return err_set(e, CODE_INTERNAL, "'%s' is no position of PostgreSQL", from->token);
    covered_lsn = from_lsn;
    if (covered != NULL && pos_is_set(covered) && !pos_lsn_parse(covered->token, &covered_lsn))
        return err_set(e, CODE_INTERNAL, "'%s' is no position of PostgreSQL", covered->token);
    if (covered_lsn < from_lsn) covered_lsn = from_lsn;
    if (slot_row(s, &r, e) < 0) return -1;
    if (PQntuples(r) == 0) {
        err_set(e, CODE_SLOT_MISSING, "replication slot '%s' does not exist on the source: the changes after %s are not kept",
                s->o.slot_name, from->token);
        err_hint(e, "take a new full with --chain-slot");
        goto out;
    }
    if (is_ours(s, r, e) < 0) goto out;
    if (strcmp(pg_text(r, 0, R_STATUS), "lost") == 0 || pg_null(r, 0, R_RESTART) || pg_null(r, 0, R_CONFIRMED)) {
        err_set(e, CODE_SLOT_LOST, "replication slot '%s' lost the WAL it needs: the changes after %s are gone", s->o.slot_name,
                from->token);
        err_hint(e, "take a new full with --chain-slot, and raise max_slot_wal_keep_size or extend the chain more often");
        goto out;
    }
    pos_lsn_parse(pg_text(r, 0, R_CONFIRMED), &confirmed);
    if (confirmed > covered_lsn) {
        char c[32];
        pos_lsn_format(covered_lsn, c);
        err_set(e, CODE_SLOT_ADVANCED,
                "replication slot '%s' stands at %s, past %s, the chain's end: changes between may be lost (another reader acknowledged "
                "them, or the slot was made anew)",
                s->o.slot_name, pg_text(r, 0, R_CONFIRMED), c);
        err_hint(e, "take a new full with --chain-slot");
        err_mark(e, MARKER_SLOT_ACKED_PAST_TARGET_POSITION, MARKER_NONE);
        goto out;
    }
    warn_of_wal(s, r);
    if (pg_scalar(s->c, embed_sql("postgres/source_end"), 0, NULL, "read the log's end", end.token, sizeof end.token, NULL, e) < 0)
        goto out;
    if (pos_lsn_parse(end.token, &end_lsn) && end_lsn < from_lsn) {
        err_set(e, CODE_SOURCE_CHANGED,
                "the source's log ends at %s, before %s, where the chain ends: the source was restored from an older copy", end.token,
                from->token);
        goto out;
    }
    PQclear(r);
    r = NULL;
    rc = wait_free(s, &r, e);
out:
    PQclear(r);
    return rc;
}
