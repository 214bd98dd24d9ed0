/* The control tables on the target: where each stream stands, and who may write.
 *
 * DESIGN
 * 1. One stream, one writer. The state row holds the epoch; takeover raises it there and in every lane row, and so waits for what is in flight.
 * 2. Locks are taken in one order, lane rows before the state row, so a takeover and a lane never wait for each other in a circle.
 * 3. Loaders and the opening of lanes hold the state row FOR KEY SHARE: that stops a takeover, but not our own updates of the row.
 * 4. The advisory lock decides nothing; it lets a second process say who is running instead of the two fencing each other in turn. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/clock.h"
#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"
#include "engine/base/text.h"

#define FORMAT 1
#define POLITE_US INT64_C(5000000)  /* a killed process's session may need a moment to end */

#define ALL_TABLES "sluice_cdc_meta,sluice_cdc_state,sluice_cdc_lane,sluice_cdc_copy,sluice_cdc_route,sluice_cdc_ddl"
#define ALL_COUNT 6

/* How many of the named (comma-parted) tables are there? */
static int present(struct target *t, const char *names, long *n, struct err *e) {
    const char *p[2] = {t->ctl_ns, names};
    char *sql = tg_sql("target_control_present", t->ctl, NULL, NULL, e);
    int rc = tg_count(t->c, sql, 2, p, "look for sluice's control tables", n, e);
    mem_free(sql);
    return rc;
}

static int format_check(struct target *t, struct err *e) {
    char v[32];
    char *sql = tg_sql("target_control_format", t->ctl, NULL, NULL, e);
    int rc = sql == NULL ? -1 : pg_scalar(t->c, sql, 0, NULL, "read the control tables' format", v, sizeof v, NULL, e);
    mem_free(sql);
    int64_t f = 0;
    if (rc < 0 || *v == 0) return rc;
    if (text_i64(v, &f) < 0 || f > FORMAT) {
        err_set(e, CODE_FORMAT_UNSUPPORTED, "the control tables in schema '%s' have format %s, and this sluice knows format %d", t->ctl_ns, v, FORMAT);
        return err_hint(e, "use a newer sluice, or name another --control-schema");
    }
    return 0;
}

int tg_control_ensure(struct target *t, struct err *e) {
    long n = 0, ns = 0;
    char *sql = NULL, *lock = NULL;
    int rc = -1;
    if (present(t, ALL_TABLES, &n, e) < 0) return -1;
    if (n == ALL_COUNT) return format_check(t, e);
    if (tg_begin(t->c, e) < 0) return -1;
    const char *p[1] = {t->ctl_ns};
    if ((lock = tg_sql("target_control_lock", t->ctl, NULL, NULL, e)) == NULL || pg_do(t->c, lock, "create the control tables", e) < 0) goto out;
    if (present(t, "sluice_cdc_meta", &n, e) < 0 || (n > 0 && format_check(t, e) < 0)) goto out;
    if (tg_count(t->c, embed_sql("postgres/target_schema_present"), 1, p, "look for the control schema", &ns, e) < 0) goto out;
    if (ns == 0 && pg_dof(t->c, "create the control schema", e, "CREATE SCHEMA %s", t->ctl) < 0) goto out;
    if ((sql = tg_sql("target_control_create", t->ctl, NULL, NULL, e)) == NULL) goto out;
    if (pg_do(t->c, sql, "create the control tables", e) < 0) {
        if (e->code == CODE_PRIVILEGE)
            err_hint(e, "GRANT CREATE, USAGE ON SCHEMA %s TO %s; or name another schema with --control-schema", t->ctl, PQuser(t->c));
        goto out;
    }
    rc = tg_commit(t->c, e);
out:
    tg_rollback(t->c);
    mem_free(lock);
    mem_free(sql);
    return rc;
}

/* ---- state ----------------------------------------------------------------------------------------------------------- */

static int text_into(char *out, size_t out_n, const PGresult *r, int row, int col, struct err *e) {
    const char *s = pg_text(r, row, col);
    if (strlen(s) >= out_n) return err_set(e, CODE_LIMIT, "column '%s' of sluice_cdc_state holds %zu bytes, at most %zu were expected",
                                           PQfname(r, col), strlen(s), out_n - 1);
    memcpy(out, s, strlen(s) + 1);
    return 0;
}

static int state_row(const PGresult *r, int i, struct target_state *st, struct err *e) {
    memset(st, 0, sizeof *st);
    if (text_into(st->stream_id, sizeof st->stream_id, r, i, 0, e) < 0 || text_into(st->lineage, sizeof st->lineage, r, i, 1, e) < 0 ||
        text_into(st->source_identity, sizeof st->source_identity, r, i, 2, e) < 0 || text_into(st->link_id, sizeof st->link_id, r, i, 3, e) < 0 ||
        text_into(st->phase, sizeof st->phase, r, i, 7, e) < 0 || text_into(st->detail, sizeof st->detail, r, i, 8, e) < 0 ||
        text_into(st->refusal, sizeof st->refusal, r, i, 10, e) < 0)
        return -1;
    st->seq = (uint64_t)pg_i64(r, i, 4);
    st->epoch = (uint64_t)pg_i64(r, i, 5);
    st->format = (int)pg_i64(r, i, 6);
    st->stop_requested_us = pg_i64(r, i, 9);
    st->updated_us = pg_i64(r, i, 11);
    if (st->format > FORMAT) return err_set(e, CODE_FORMAT_UNSUPPORTED, "stream '%s' was written by a newer sluice (format %d)", st->stream_id, st->format);
    return 0;
}

/* stream_id NULL: all. *r is NULL when there are no control tables. */
static int state_rows(struct target *t, const char *stream_id, PGresult **r, struct err *e) {
    long n = 0;
    *r = NULL;
    if (present(t, "sluice_cdc_state", &n, e) < 0) return -1;
    if (n == 0) return 0;
    char *sql = tg_sql("target_state_read", t->ctl, NULL, NULL, e);
    int rc = sql == NULL ? -1 : pg_query(t->c, sql, 1, &stream_id, "read the streams' state on the target", r, e);
    mem_free(sql);
    return rc;
}

int tg_state_read(struct target *t, const char *stream_id, struct target_state *st, bool *found, struct err *e) {
    PGresult *r;
    *found = false;
    if (state_rows(t, stream_id, &r, e) < 0) return -1;
    if (r == NULL) return 0;
    int rc = 0;
    if (PQntuples(r) > 0) {
        rc = state_row(r, 0, st, e);
        *found = rc == 0;
    }
    PQclear(r);
    return rc;
}

int tg_state_list(struct target *t, struct arena *a, struct target_state **st, size_t *n, struct err *e) {
    PGresult *r;
    *st = NULL;
    *n = 0;
    if (state_rows(t, NULL, &r, e) < 0) return -1;
    if (r == NULL || PQntuples(r) == 0) {
        PQclear(r);
        return 0;
    }
    int rc = (*st = arena_alloc(a, (size_t)PQntuples(r) * sizeof **st, e)) == NULL ? -1 : 0;
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        rc = state_row(r, i, &(*st)[i], e);
        if (rc == 0) ++*n;
    }
    PQclear(r);
    return rc;
}

static int fenced(struct err *e, const char *stream_id, uint64_t epoch) {
    err_set(e, CODE_FENCED, "another process took stream '%s' over: epoch %llu is no longer in force", stream_id, (unsigned long long)epoch);
    return err_hint(e, "see which host runs this stream (sluice_cdc_state on the target), and stop one of them");
}

int tg_state_write(struct target *t, struct target_state *st, struct err *e) {
    char seq[24], epoch[24], format[24];
    const char *p[10] = {st->stream_id, st->lineage, st->source_identity, st->link_id, tg_u64(seq, st->seq), tg_u64(epoch, st->epoch),
                         tg_u64(format, st->format > 0 ? (uint64_t)st->format : FORMAT), st->phase, st->detail, st->refusal};
    PGresult *r = NULL;
    int rc = -1;
    char *sql = tg_sql("target_state_write", t->ctl, NULL, NULL, e);
    if (sql == NULL || FAULT("postgres.state_before", e) < 0 || pg_query(t->c, sql, 10, p, "write the stream's state on the target", &r, e) < 0) goto out;
    if (PQntuples(r) != 1) {
        fenced(e, st->stream_id, st->epoch);
        goto out;
    }
    st->updated_us = pg_i64(r, 0, 0);
    rc = FAULT("postgres.state_after", e);
out:
    PQclear(r);
    mem_free(sql);
    return rc;
}

int tg_stop_request(struct target *t, const char *stream_id, int64_t us, struct err *e) {
    char v[24];
    long n = 0;
    snprintf(v, sizeof v, "%lld", (long long)us);
    const char *p[2] = {stream_id, v};
    char *sql = tg_sql("target_stop_request", t->ctl, NULL, NULL, e);
    int rc = tg_count(t->c, sql, 2, p, "ask the stream to stop", &n, e);
    mem_free(sql);
    if (rc == 0 && n == 0) rc = err_set(e, CODE_STREAM_UNKNOWN, "the target has no stream '%s'", stream_id);
    return rc;
}

/* ---- takeover -------------------------------------------------------------------------------------------------------- */

static int polite(struct target *t, const char *stream_id, struct err *e) {
    if (t->polite != NULL && strcmp(t->polite, stream_id) == 0) return 0;
    char *sql = tg_sql("target_polite_lock", t->ctl, NULL, NULL, e), *who = NULL, got[8];
    int64_t end = clock_mono_us() + POLITE_US;
    int rc = -1;
    if (sql == NULL) return -1;
    for (;;) {
        if (pg_scalar(t->c, sql, 1, &stream_id, "lock the stream", got, sizeof got, NULL, e) < 0) goto out;
        if (got[0] == 't') break;
        if (clock_mono_us() >= end) {
            PGresult *r = NULL;
            if ((who = tg_sql("target_polite_holder", t->ctl, NULL, NULL, e)) == NULL ||
                pg_query(t->c, who, 1, &stream_id, "see who runs the stream", &r, e) < 0) goto out;
            bool known = PQntuples(r) > 0;
            err_set(e, CODE_FENCED, "another process runs stream '%s' on this target%s%s%s%s", stream_id, known ? ": server process " : "",
                    known ? pg_text(r, 0, 0) : "", known ? " from " : "", known ? pg_text(r, 0, 1) : "");
            err_hint(e, "stop that one; if it is gone and only its session is left: SELECT pg_terminate_backend(%s)", known ? pg_text(r, 0, 0) : "PID");
            PQclear(r);
            goto out;
        }
        if (stop_wait(50000)) {
            err_set(e, CODE_INTERRUPTED, "stopped while waiting for stream '%s'", stream_id);
            goto out;
        }
    }
    mem_free(t->polite);
    rc = (t->polite = mem_strdup(stream_id, e)) == NULL ? -1 : 0;
out:
    mem_free(sql);
    mem_free(who);
    return rc;
}

int tg_takeover(struct target *t, struct target_state *st, struct err *e) {
    char id[sizeof st->stream_id], epoch[24];
    const char *p[2] = {id, epoch};
    char *wait = NULL, *lock = NULL, *raise = NULL, *lanes = NULL;
    long n = 0;
    bool found = false;
    int rc = -1;
    memcpy(id, st->stream_id, sizeof id);
    if (polite(t, id, e) < 0) return -1;
    if ((wait = tg_sql("target_takeover_wait", t->ctl, NULL, NULL, e)) == NULL || (lock = tg_sql("target_takeover_state", t->ctl, NULL, NULL, e)) == NULL ||
        (raise = tg_sql("target_takeover_raise", t->ctl, NULL, NULL, e)) == NULL || (lanes = tg_sql("target_takeover_lanes", t->ctl, NULL, NULL, e)) == NULL)
        goto out;
    if (tg_begin(t->c, e) < 0 || pg_do(t->c, "SET LOCAL lock_timeout = '60s'", NULL, e) < 0) goto out;
    if (tg_count(t->c, wait, 1, p, "wait for the stream's transactions in flight", &n, e) < 0) goto out;
    if (tg_count(t->c, lock, 1, p, "wait for the stream's transactions in flight", &n, e) < 0) goto out;
    if (n == 0) {
        err_set(e, CODE_STREAM_UNKNOWN, "the target has no saved position for stream '%s'", id);
        goto out;
    }
    if (pg_scalar(t->c, raise, 1, p, "take the stream over", epoch, sizeof epoch, NULL, e) < 0 ||
        tg_count(t->c, lanes, 2, p, "take the stream's lanes over", &n, e) < 0 || FAULT("postgres.takeover_before_commit", e) < 0 || tg_commit(t->c, e) < 0)
        goto out;
    if (tg_state_read(t, id, st, &found, e) < 0) goto out;
    rc = found ? 0 : err_set(e, CODE_STREAM_UNKNOWN, "stream '%s' vanished while it was taken over", id);
out:
    tg_rollback(t->c);
    mem_free(wait);
    mem_free(lock);
    mem_free(raise);
    mem_free(lanes);
    return rc;
}

/* ---- marks ----------------------------------------------------------------------------------------------------------- */

int tg_marks_read(struct target *t, const char *stream_id, uint64_t *lane_seq, size_t *nlanes, struct err *e) {
    long n = 0;
    size_t room = *nlanes;
    PGresult *r = NULL;
    *nlanes = 0;
    if (present(t, "sluice_cdc_lane", &n, e) < 0) return -1;
    if (n == 0) return 0;
    char *sql = tg_sql("target_marks_read", t->ctl, NULL, NULL, e);
    int rc = sql == NULL ? -1 : pg_query(t->c, sql, 1, &stream_id, "read the stream's marks", &r, e);
    mem_free(sql);
    if (rc < 0) return -1;
    for (int i = 0; i < PQntuples(r) && rc == 0; i++) {
        uint64_t lane = (uint64_t)pg_i64(r, i, 0);
        if (lane >= room || lane != (uint64_t)i)
            rc = err_set(e, CODE_MARK_MISMATCH, "stream '%s' has a mark of lane %llu, which was not expected", stream_id, (unsigned long long)lane);
        else lane_seq[lane] = (uint64_t)pg_i64(r, i, 1), *nlanes = (size_t)lane + 1;
    }
    PQclear(r);
    return rc;
}

int tg_marks_clear(struct target *t, const struct target_state *st, struct err *e) {
    char epoch[24];
    const char *p[2] = {st->stream_id, tg_u64(epoch, st->epoch)};
    char *lane = tg_sql("target_marks_clear_lane", t->ctl, NULL, NULL, e), *copy = lane ? tg_sql("target_marks_clear_copy", t->ctl, NULL, NULL, e) : NULL;
    char *hold = copy ? tg_sql("target_epoch_hold", t->ctl, NULL, NULL, e) : NULL, *route = hold ? tg_sql("target_route_old", t->ctl, NULL, NULL, e) : NULL;
    long n = 0;
    int rc = -1;
    if (route == NULL || tg_begin(t->c, e) < 0) goto out;
    if (tg_count(t->c, lane, 1, p, "clear the stream's marks", &n, e) < 0 || tg_count(t->c, route, 1, p, "clear the stream's routing", &n, e) < 0 ||
        tg_count(t->c, copy, 1, p, "clear the stream's marks", &n, e) < 0 ||
        tg_count(t->c, hold, 2, p, "clear the stream's marks", &n, e) < 0)
        goto out;
    if (n == 0) {
        fenced(e, st->stream_id, st->epoch);
        goto out;
    }
    if (FAULT("postgres.marks_clear_before_commit", e) < 0) goto out;
    rc = tg_commit(t->c, e);
out:
    tg_rollback(t->c);
    mem_free(lane);
    mem_free(copy);
    mem_free(hold);
    mem_free(route);
    return rc;
}
