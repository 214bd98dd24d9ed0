/* A lane: windows applied on a connection of its own.
 *
 * DESIGN
 * 1. A window's rows, its mark and, at a link's end, the state row commit in one transaction that begins by looking at the lane's epoch.
 * 2. A mark never goes back, and rows come with a later one only: a window that the lane's mark covers is refused before its first row.
 * 3. A change by identity touches at most one row; more is a refusal, none is counted. A change by full image touches exactly one row or is
 *    counted.
 * 4. An upsert replaces the row of the same identity only; a row in the way on any other unique key rolls the window back
 *    (CODE_UNIQUE_CONFLICT).
 * 5. After any error the transaction is rolled back and the lane is usable.
 * Statements are prepared once per table, kind and mask, and bound per row: no allocation, no text per row. */
#include <stdio.h>
#include <string.h>

#include "drivers/sqlite/target_impl.h"
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

enum variant { V_PLAIN, V_KEYS /* the identity's columns are set too */, V_INSERT /* the insert behind an upsert without arbiter */ };

/* ---- opening ---- */

static int lane_row(struct lane *l, const struct target_state *st, struct err *e) {
    sqlite3_stmt *s = NULL;
    if (sqt_named(l->db, "sqlite/target_lane_open", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":stream_id", l->stream_id, e) < 0 || sqt_bind_i64(s, ":lane", l->lane, e) < 0 ||
                     sqt_bind_i64(s, ":epoch", (int64_t)st->epoch, e) < 0 || sqt_bind_i64(s, ":seq", (int64_t)st->seq, e) < 0
                 ? -1
                 : sqt_done(s, e);
    sqlite3_finalize(s);
    return rc;
}

int sqt_lane_open(struct target *t, const struct target_state *st, unsigned lane, struct lane **out, struct err *e) {
    *out = NULL;
    struct lane *l = mem_alloc(sizeof *l, e);
    if (!l) return -1;
    l->t = t;
    l->lane = lane;
    snprintf(l->stream_id, sizeof l->stream_id, "%s", st->stream_id);
    if (sqt_connect(t->dsn, &l->db, e) < 0 || sq_begin(l->db, true, e) < 0) goto fail;
    if (sqt_epoch_check(l->db, l->stream_id, st->epoch, false, e) < 0 || lane_row(l, st, e) < 0 ||
        FAULT("sqlite.lane_open_before_commit", e) < 0 || sq_commit(l->db, e) < 0)
        goto fail;
    if (sqt_named(l->db, "sqlite/target_lane_mark", &l->mark, e) < 0 || sqt_named(l->db, "sqlite/target_state_follow", &l->state, e) < 0)
        goto fail;
    *out = l;
    return 0;
fail:
    sqt_lane_close(l);
    return -1;
}

void sqt_lane_forget(struct lane *l) {
    for (size_t i = 0; i < LANE_STMTS; i++) {
        sqlite3_finalize(l->cache[i].s);
        mem_free(l->cache[i].mask);
        memset(&l->cache[i], 0, sizeof l->cache[i]);
    }
}

void sqt_lane_close(struct lane *l) {
    if (!l) return;
    sqt_lane_forget(l);
    sqlite3_finalize(l->mark);
    sqlite3_finalize(l->state);
    if (l->db) sq_rollback(l->db);
    sq_close(l->db);
    mem_free(l);
}

int sqt_lane_fk_enforced(struct lane *l, bool *yes, struct err *e) {
    (void)l;
    (void)e;
    *yes = false;
    return 0;
}

/* ---- marks ---- */

/* The mark did not move: fenced, or behind what is there? */
static int mark_refused(struct lane *l, const struct mark *m, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool row = false;
    if (sqt_named(l->db, "sqlite/target_lane_read", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":stream_id", l->stream_id, e) < 0 || sqt_bind_i64(s, ":lane", l->lane, e) < 0 ? -1 : sqt_step(s, &row, e);
    uint64_t epoch = row ? (uint64_t)sqlite3_column_int64(s, 0) : 0, seq = row ? (uint64_t)sqlite3_column_int64(s, 1) : 0;
    sqlite3_finalize(s);
    if (rc < 0) return -1;
    if (!row || epoch != m->epoch) return sqt_fenced(l->stream_id, e);
    err_set(e, CODE_MARK_MISMATCH, "stream '%s': the target's mark is at seq %llu, a window up to %llu comes too late", l->stream_id,
            (unsigned long long)seq, (unsigned long long)m->seq);
    err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
    return err_hint(e, "rebuild with --reset-target-data");
}

int sqt_lane_begin(struct lane *l, const struct mark *m, bool writes, struct err *e) {
    if (sq_begin(l->db, true, e) < 0) return -1;
    if (sqt_bind_str(l->mark, ":stream_id", l->stream_id, e) == 0 && sqt_bind_i64(l->mark, ":lane", l->lane, e) == 0 &&
        sqt_bind_i64(l->mark, ":epoch", (int64_t)m->epoch, e) == 0 &&
        sqt_bind_i64(l->mark, ":route_epoch", (int64_t)m->route_epoch, e) == 0 && sqt_bind_i64(l->mark, ":seq", (int64_t)m->seq, e) == 0 &&
        sqt_bind_i64(l->mark, ":rows", writes, e) == 0 && sqt_done(l->mark, e) == 0) {
        if (sqlite3_changes(l->db) == 1) return 0;
        mark_refused(l, m, e);
    }
    sq_rollback(l->db);
    return -1;
}

int sqt_lane_end(struct lane *l, const struct mark *m, struct err *e) {
    if (m->link_id) {
        if (sqt_bind_str(l->state, ":stream_id", l->stream_id, e) < 0 || sqt_bind_str(l->state, ":link_id", m->link_id, e) < 0 ||
            sqt_bind_i64(l->state, ":seq", (int64_t)m->state_seq, e) < 0 || sqt_bind_i64(l->state, ":epoch", (int64_t)m->epoch, e) < 0 ||
            sqt_bind_i64(l->state, ":updated_us", clock_wall_us(), e) < 0 || sqt_done(l->state, e) < 0)
            goto fail;
        if (sqlite3_changes(l->db) != 1) {
            sqt_fenced(l->stream_id, e);
            goto fail;
        }
    }
    if (FAULT("sqlite.lane_before_commit", e) < 0) goto fail;
    if (sq_commit(l->db, e) < 0) return -1;
    return FAULT("sqlite.lane_after_commit", e);
fail:
    sq_rollback(l->db);
    return -1;
}

/* ---- statements ---- */

static bool fits(const struct lane_stmt *c, const struct target_table *tt, uint8_t kind, uint8_t variant, const uint8_t *mask) {
    if (!c->s || c->table != tt->id || c->kind != kind || c->variant != variant || !c->mask != !mask) return false;
    return !mask || memcmp(c->mask, mask, c->nmask) == 0;
}

static int sql_for(const struct target_table *tt, enum run_kind kind, enum variant v, const uint8_t *mask, struct buf *b, struct err *e) {
    switch (kind) {
    case RUN_INSERT: return sqt_insert_sql(tt, false, b, e);
    case RUN_UPSERT:
        if (v == V_INSERT) return sqt_insert_sql(tt, false, b, e);
        return tt->arbiter ? sqt_insert_sql(tt, true, b, e) : sqt_update_sql(tt, NULL, true, false, b, e);
    case RUN_UPDATE: return sqt_update_sql(tt, mask, v == V_KEYS, false, b, e);
    case RUN_UPDATE_FULL: return sqt_update_sql(tt, mask, true, true, b, e);
    case RUN_DELETE: return sqt_delete_sql(tt, false, b, e);
    case RUN_DELETE_FULL: return sqt_delete_sql(tt, true, b, e);
    default: return err_set(e, CODE_INTERNAL, "a run of kind %d has no statement", kind);
    }
}

static int statement(struct lane *l, const struct target_table *tt, enum run_kind kind, enum variant v, const uint8_t *mask,
                     sqlite3_stmt **out, struct err *e) {
    struct lane_stmt *at = &l->cache[0];
    struct buf b = BUF_INIT(MiB(1));
    const char *sql;
    l->clock++;
    for (size_t i = 0; i < LANE_STMTS; i++) {
        struct lane_stmt *c = &l->cache[i];
        if (fits(c, tt, (uint8_t)kind, (uint8_t)v, mask)) {
            c->used = l->clock;
            *out = c->s;
            return 0;
        }
        if (c->used < at->used) at = c;
    }
    sqlite3_finalize(at->s);
    mem_free(at->mask);
    memset(at, 0, sizeof *at);
    if (mask && !(at->mask = mem_alloc(tt->src->ncols, e))) return -1;
    if (mask) memcpy(at->mask, mask, tt->src->ncols);
    at->nmask = tt->src->ncols;
    if (sql_for(tt, kind, v, mask, &b, e) < 0 || !(sql = buf_str(&b, e)) || sqt_prepare(l->db, sql, &at->s, e) < 0) {
        buf_free(&b);
        return err_wrap(e, "table '%s'", tt->label);
    }
    buf_free(&b);
    at->table = tt->id;
    at->kind = (uint8_t)kind;
    at->variant = (uint8_t)v;
    at->used = l->clock;
    *out = at->s;
    return 0;
}

/* ---- rows ---- */

static int bind_set(struct target_table *tt, sqlite3_stmt *s, const uint8_t *mask, bool keys, const struct value *after, int *at,
                    struct err *e) {
    for (uint16_t c = 0; c < tt->src->ncols; c++)
        if (sqt_sets(tt, mask, keys, c) && sqt_bind_value(tt, s, ++*at, c, &after[c], 0, after, e) < 0) return -1;
    return 0;
}

static int bind_key(struct target_table *tt, sqlite3_stmt *s, const struct value *id, int *at, struct err *e) {
    for (uint16_t i = 0; i < tt->key->ncols; i++)
        if (sqt_bind_value(tt, s, ++*at, tt->key->cols[i], &id[tt->key->cols[i]], 1, id, e) < 0) return -1;
    return 0;
}

static int bind_full(struct target_table *tt, sqlite3_stmt *s, const struct value *before, int *at, struct err *e) {
    for (uint16_t c = 0; c < tt->src->ncols; c++)
        if (tt->conv[c] != CONV_NONE && sqt_bind_value(tt, s, ++*at, c, &before[c], 1, before, e) < 0) return -1;
    return 0;
}

/* Step a data statement. *n: rows it touched. */
static int run_row(struct target_table *tt, sqlite3_stmt *s, const struct value *row, int64_t *n, struct err *e) {
    int rc = sqlite3_step(s);
    if (rc == SQLITE_DONE) {
        *n = sqlite3_changes64(sqlite3_db_handle(s));
        sqlite3_reset(s);
        return 0;
    }
    char key[300], doing[512];
    sqt_row_key(tt, row, key, sizeof key);
    snprintf(doing, sizeof doing, "table '%s', row %s", tt->label, key);
    sqt_err(sqlite3_db_handle(s), doing, e);
    sqlite3_reset(s);
    return -1;
}

static int too_many(const struct target_table *tt, const struct value *id, int64_t n, struct err *e) {
    char key[300];
    sqt_row_key(tt, id, key, sizeof key);
    err_set(e, CODE_CDC_KEY_MATCHED_MULTIPLE_ROWS, "one change of table '%s', row %s, matched %lld rows of the target", tt->label, key,
            (long long)n);
    err_mark(e, MARKER_KEY_SCOPED_WRITE_MATCHED_MULTIPLE_ROWS, MARKER_NONE);
    return err_hint(e, "the target's table lacks that unique key and holds duplicates; re-copy with --reset-target-data");
}

static const struct value *identity_of(const struct change *c) {
    return c->before ? c->before : c->after;
}

static int upsert(struct lane *l, const struct run *r, const struct change *c, sqlite3_stmt *s, struct apply_result *res, struct err *e) {
    struct target_table *tt = r->table;
    int at = 0;
    int64_t n = 0;
    if (tt->arbiter) {
        for (uint16_t i = 0; i < tt->src->ncols; i++)
            if (tt->conv[i] != CONV_NONE && sqt_bind_value(tt, s, ++at, i, &c->after[i], 0, c->after, e) < 0) return -1;
        res->rows++;
        return run_row(tt, s, c->after, &n, e);
    }
    if (bind_set(tt, s, NULL, true, c->after, &at, e) < 0 || bind_key(tt, s, c->after, &at, e) < 0 || run_row(tt, s, c->after, &n, e) < 0)
        return -1;
    if (n > 1) return too_many(tt, c->after, n, e);
    res->rows++;
    if (n == 1) return 0;
    at = 0;
    if (statement(l, tt, RUN_UPSERT, V_INSERT, NULL, &s, e) < 0 || bind_set(tt, s, NULL, true, c->after, &at, e) < 0) return -1;
    return run_row(tt, s, c->after, &n, e);
}

/* hop 7/8: one change becomes a row of the target; s is the run's statement. */
static int run_change(struct lane *l, const struct run *r, const struct change *c, sqlite3_stmt *s, struct apply_result *res,
                      struct err *e) {
    struct target_table *tt = r->table;
    const struct value *id = identity_of(c);
    int at = 0;
    int64_t n = 0;
    switch (r->kind) {
    case RUN_UPSERT: return upsert(l, r, c, s, res, e);
    case RUN_INSERT:
        if (bind_set(tt, s, NULL, true, c->after, &at, e) < 0) return -1;
        res->rows++;
        return run_row(tt, s, c->after, &n, e);
    case RUN_UPDATE:
        if (c->before && statement(l, tt, RUN_UPDATE, V_KEYS, r->mask, &s, e) < 0) return -1;
        if (bind_set(tt, s, r->mask, c->before != NULL, c->after, &at, e) < 0 || bind_key(tt, s, id, &at, e) < 0) return -1;
        break;
    case RUN_DELETE:
        if (bind_key(tt, s, id, &at, e) < 0) return -1;
        break;
    case RUN_UPDATE_FULL:
        if (bind_set(tt, s, r->mask, true, c->after, &at, e) < 0 || bind_full(tt, s, c->before, &at, e) < 0) return -1;
        break;
    case RUN_DELETE_FULL:
        if (bind_full(tt, s, c->before, &at, e) < 0) return -1;
        break;
    default: return err_set(e, CODE_INTERNAL, "a run of kind %d holds a row", r->kind);
    }
    if (run_row(tt, s, id, &n, e) < 0) return -1;
    if (n > 1) return too_many(tt, id, n, e);
    if (n == 1) res->rows++;
    else res->missing++;
    return 0;
}

static int truncate_table(struct lane *l, const struct target_table *tt, uint32_t flags, struct apply_result *res, struct err *e) {
    struct buf b = BUF_INIT(KiB(8));
    int64_t there = 0;
    sqlite3_stmt *s = NULL;
    const char *sql;
    int rc = -1;
    if (buf_adds(&b, "DELETE FROM main.", e) < 0 || text_ident(&b, tt->name, e) < 0 || !(sql = buf_str(&b, e)) ||
        sq_exec(l->db, sql, e) < 0)
        goto out;
    res->rows += (uint64_t)sqlite3_changes64(l->db);
    if (flags & TRUNCATE_RESTART_IDENTITY) {
        if (sqt_count(l->db, "sqlite/target_sequence_there", &there, e) < 0) goto out;
        if (there && (sqt_named(l->db, "sqlite/target_sequence_restart", &s, e) < 0 || sqt_bind_str(s, ":name", tt->name, e) < 0 ||
                      sqt_done(s, e) < 0))
            goto out;
    }
    rc = 0;
out:
    sqlite3_finalize(s);
    buf_free(&b);
    return rc;
}

static int run_one(struct lane *l, const struct run *r, struct apply_result *res, struct err *e) {
    sqlite3_stmt *s = NULL;
    if (r->kind == RUN_TRUNCATE) {
        for (uint32_t i = 0; i < r->ntables; i++)
            if (truncate_table(l, r->tables[i], r->n ? r->changes[0]->flags : 0, res, e) < 0) return -1;
        return 0;
    }
    if (r->kind == RUN_SEQUENCE) {
        for (size_t i = 0; i < r->n; i++)
            if (sqt_sequence_forward(l->db, r->changes[i]->seq_name, r->changes[i]->seq_value, e) < 0) return -1;
        return 0;
    }
    if (!r->table) return err_set(e, CODE_INTERNAL, "a run of kind %d has no table", r->kind);
    if (r->table->key == NULL && (r->kind == RUN_UPSERT || r->kind == RUN_UPDATE || r->kind == RUN_DELETE))
        return err_set(e, CODE_INTERNAL, "table '%s' has no key to find a row by", r->table->label);
    if (statement(l, r->table, r->kind, V_PLAIN, r->mask, &s, e) < 0) return -1;
    for (size_t i = 0; i < r->n; i++)
        if (run_change(l, r, r->changes[i], s, res, e) < 0) return -1;
    return 0;
}

int sqt_lane_apply(struct lane *l, const struct run *runs, size_t nruns, const struct mark *m, struct apply_result *r, struct err *e) {
    memset(r, 0, sizeof *r);
    if (sqt_lane_begin(l, m, nruns > 0, e) < 0) return -1;
    for (size_t i = 0; i < nruns; i++)
        if (run_one(l, &runs[i], r, e) < 0) {
            sq_rollback(l->db);
            return -1;
        }
    return sqt_lane_end(l, m, e);
}
