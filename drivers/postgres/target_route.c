/* How changes are dealt to several lanes, as recorded on the target.
 *
 * DESIGN
 * 1. A routing is written where every lane stands at one seq, together with exactly the lane rows that it needs. So there is never a mark
 * without the routing it was written under.
 * 2. Locks in the order of the state file: lane rows, then the state row. A takeover before us fences us; one behind us raises the new rows
 * too. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/fault.h"
#include "engine/base/mem.h"

int tg_route_read(struct target *t, const char *stream_id, struct target_route *r, bool *found, struct err *e) {
    PGresult *res = NULL;
    char *sql = tg_sql("target_route_read", t->ctl, NULL, NULL, e);
    int rc = -1;
    *found = false;
    memset(r, 0, sizeof *r);
    if (sql == NULL || pg_query(t->c, sql, 1, &stream_id, "read the lanes' routing", &res, e) < 0) goto out;
    if (PQntuples(res) == 0) {
        rc = 0;
        goto out;
    }
    r->route_epoch = (uint64_t)pg_i64(res, 0, 0);
    r->lanes = (unsigned)pg_i64(res, 0, 1);
    r->hash_version = (int)pg_i64(res, 0, 2);
    r->seq = (uint64_t)pg_i64(res, 0, 3);
    r->strangers = (uint64_t)pg_i64(res, 0, 5);
    if ((r->rules = mem_strdup(pg_text(res, 0, 4), e)) == NULL) goto out;
    *found = true;
    rc = 0;
out:
    PQclear(res);
    mem_free(sql);
    return rc;
}

#define WHAT "write the lanes' routing"

/* Lane rows are locked, the state row is held: do they allow it? */
static int check(struct target *t, const struct target_state *st, const struct target_route *r, struct err *e) {
    char epoch[24], seq[24];
    const char *p[3] = {st->stream_id, tg_u64(epoch, st->epoch), tg_u64(seq, r->seq)};
    char *wait = tg_sql("target_takeover_wait", t->ctl, NULL, NULL, e),
         *hold = wait ? tg_sql("target_epoch_hold", t->ctl, NULL, NULL, e) : NULL;
    char *strays = hold ? tg_sql("target_route_strays", t->ctl, NULL, NULL, e) : NULL;
    PGresult *res = NULL;
    long n = 0;
    int rc = -1;
    if (strays == NULL || tg_count(t->c, wait, 1, p, WHAT, &n, e) < 0 || tg_count(t->c, hold, 2, p, WHAT, &n, e) < 0) goto out;
    if (n != 1) {
        err_set(e, CODE_FENCED, "another process took stream '%s' over: epoch %s is no longer in force", st->stream_id, epoch);
        err_hint(e, "see which host runs this stream (sluice_cdc_state on the target), and stop one of them");
        goto out;
    }
    if (pg_query(t->c, strays, 3, p, WHAT, &res, e) < 0) goto out;
    if (PQntuples(res) > 0) {
        err_set(e, CODE_MARK_MISMATCH, "lane %s of stream '%s' stands at %s, and the routing is to change at %s", pg_text(res, 0, 0),
                st->stream_id, pg_text(res, 0, 1), seq);
        err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
        goto out;
    }
    rc = 0;
out:
    PQclear(res);
    mem_free(wait);
    mem_free(hold);
    mem_free(strays);
    return rc;
}

static int run(struct target *t, const char *name, int n, const char *const *p, struct err *e) {
    long rows;
    char *sql = tg_sql(name, t->ctl, NULL, NULL, e);
    int rc = sql == NULL ? -1 : tg_count(t->c, sql, n, p, WHAT, &rows, e);
    mem_free(sql);
    return rc;
}

int tg_route_write(struct target *t, const struct target_state *st, const struct target_route *r, struct err *e) {
    char epoch[24], route[24], lanes[24], version[24], seq[24];
    bool one = r->lanes == 1;
    tg_u64(epoch, st->epoch);
    tg_u64(route, one ? 0 : r->route_epoch);
    tg_u64(lanes, r->lanes);
    tg_u64(version, (uint64_t)r->hash_version);
    tg_u64(seq, r->seq);
    const char *rule[6] = {st->stream_id, route, lanes, version, seq, r->rules}, *lane[5] = {st->stream_id, epoch, route, seq, lanes};
    const char *beyond[2] = {st->stream_id, lanes};
    int rc = -1;
    if (tg_begin(t->c, e) < 0) return -1;
    if (check(t, st, r, e) < 0 || run(t, "target_route_old", 1, rule, e) < 0) goto out;
    if (!one && run(t, "target_route_new", 6, rule, e) < 0) goto out;
    if (run(t, "target_route_lanes", 5, lane, e) < 0 || run(t, "target_route_beyond", 2, beyond, e) < 0) goto out;
    if (FAULT("postgres.route_before_commit", e) < 0) goto out;
    rc = tg_commit(t->c, e);
out:
    tg_rollback(t->c);
    return rc;
}
