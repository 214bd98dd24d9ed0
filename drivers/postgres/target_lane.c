/* A lane: applies windows on a connection of its own.
 *
 * DESIGN
 * 1. A window and its mark are one transaction, sent as one pipeline: BEGIN, mark, runs, COMMIT, one sync. Nothing waits for an answer in between.
 * 2. The mark comes first and fails inside the server when the epoch is no longer ours, so the COMMIT behind it never takes effect. Marks of lanes that have
 *    nothing to do move with it.
 * 3. Where a key may match several rows (no unique index on the target), the counts are read before the COMMIT is sent.
 * 4. After any error the transaction is rolled back and the lane can be used again, unless the connection broke.
 * 5. A prepared statement is used only after the server has confirmed it; a name is never used twice.
 * 6. Sequences go forward before the transaction: they are not transactional, and a value that is ahead loses nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define PART_BYTES MiB(8)   /* of parameters in one statement */
#define PART_ROWS 20000
#define STMTS_MAX 512       /* prepared at a time */

struct lane_stmt {
    uint64_t key;           /* of table, kind, flags and mask */
    char name[24];
    bool sent, confirmed;
    struct param *p; size_t np;
};

enum op_kind { OP_PLAIN, OP_TRUNCATE, OP_PREPARE, OP_MARK, OP_STATE, OP_ROWS, OP_COUNTED, OP_FULL, OP_COMMIT, OP_SYNC };
struct lane_op {
    enum op_kind kind;
    size_t run, n;          /* n rows sent */
    size_t stmt;
};

/* ---- opening --------------------------------------------------------------------------------------------------------- */

void tg_lane_close(struct lane *l) {
    if (l == NULL) return;
    pg_close(&l->c);
    mem_free(l->ctl);
    mem_free(l->stream_id);
    mem_free(l->default_ns);
    mem_free(l->mark_sql);
    mem_free(l->state_sql);
    mem_free(l->look_sql);
    for (size_t i = 0; i < l->nstmts; i++) mem_free(l->stmts[i].p);
    mem_free(l->stmts);
    mem_free(l->ops);
    for (size_t i = 0; i < l->nparams_cap; i++) buf_free(&l->params[i]);
    mem_free(l->params);
    mem_free(l->pv);
    mem_free(l->pl);
    mem_free(l->pf);
    buf_free(&l->sql);
    buf_free(&l->later);
    arena_free(l->arena);
    mem_free(l);
}

int tg_lane_open(struct target *t, const struct target_state *st, unsigned lane, struct lane **out, struct err *e) {
    char no[24], epoch[24], seq[24];
    long n = 0;
    char *row = NULL, *hold = NULL;
    struct lane *l = mem_alloc(sizeof *l, e);
    int rc = -1;
    *out = NULL;
    if (l == NULL) return -1;
    l->sql = BUF_INIT(MiB(4));
    l->later = BUF_INIT(MiB(64));
    l->epoch = st->epoch;
    l->number = lane;
    if ((l->ctl = mem_strdup(t->ctl, e)) == NULL || (l->stream_id = mem_strdup(st->stream_id, e)) == NULL ||
        (l->default_ns = mem_strdup(t->default_ns, e)) == NULL || (l->mark_sql = tg_sql("target_lane_mark", t->ctl, NULL, NULL, e)) == NULL ||
        (l->state_sql = tg_sql("target_lane_state", t->ctl, NULL, NULL, e)) == NULL ||
        (l->look_sql = tg_sql("target_lane_look", t->ctl, NULL, NULL, e)) == NULL || (l->arena = arena_new(KiB(256), e)) == NULL ||
        (row = tg_sql("target_lane_row", t->ctl, NULL, NULL, e)) == NULL || (hold = tg_sql("target_epoch_hold", t->ctl, NULL, NULL, e)) == NULL)
        goto out;
    if (tg_connect_writer(t->dsn, &l->c, &l->replica, e) < 0) goto out;
    const char *p[4] = {st->stream_id, tg_u64(no, lane), tg_u64(epoch, st->epoch), tg_u64(seq, st->seq)}, *h[2] = {st->stream_id, epoch};
    if (tg_begin(l->c, e) < 0 || tg_count(l->c, row, 4, p, "open a lane's mark", &n, e) < 0) goto out;
    if (n == 1 && tg_count(l->c, hold, 2, h, "open a lane's mark", &n, e) < 0) goto out;
    if (n != 1) {
        err_set(e, CODE_FENCED, "another process took stream '%s' over: epoch %s is no longer in force", st->stream_id, epoch);
        err_hint(e, "see which host runs this stream (sluice_cdc_state on the target), and stop one of them");
        goto out;
    }
    if (FAULT("postgres.lane_open_before_commit", e) < 0 || tg_commit(l->c, e) < 0) goto out;
    *out = l;
    l = NULL;
    rc = 0;
out:
    if (l != NULL) tg_rollback(l->c);
    mem_free(row);
    mem_free(hold);
    tg_lane_close(l);
    return rc;
}

int tg_lane_fk_enforced(struct lane *l, bool *yes, struct err *e) {
    (void)e;
    *yes = !l->replica;
    return 0;
}

/* ---- marks ----------------------------------------------------------------------------------------------------------- */

static int fenced(const struct lane *l, const struct mark *m, struct err *e) {
    err_set(e, CODE_FENCED, "another process took stream '%s' over: epoch %llu is no longer in force", l->stream_id, (unsigned long long)m->epoch);
    return err_hint(e, "see which host runs this stream (sluice_cdc_state on the target), and stop one of them");
}

/* The i-th of the lanes whose marks move: our own among the others, in ascending order, so that no two transactions lock them in a circle. */
static unsigned marked_lane(const struct lane *l, const struct mark *m, unsigned i) {
    unsigned before = 0;
    while (before < m->nalso && m->also[before] < l->number) before++;
    return i < before ? m->also[i] : i == before ? l->number : m->also[i - 1];
}

int lane_mark_missed(struct lane *l, const struct mark *m, struct err *e) {
    char no[24];
    const char *p[2] = {l->stream_id, no};
    for (unsigned i = 0; i <= m->nalso; i++) {
        PGresult *r = NULL;
        tg_u64(no, marked_lane(l, m, i));
        if (pg_query(l->c, l->look_sql, 2, p, "read the lane's mark", &r, e) < 0) return -1;
        bool ours = PQntuples(r) == 1 && (uint64_t)pg_i64(r, 0, 0) == m->epoch;
        bool past = ours && (uint64_t)pg_i64(r, 0, 1) > m->seq;
        if (past) {
            err_set(e, CODE_MARK_MISMATCH, "lane %s of stream '%s' stands at %s on the target, past the mark %llu that was to be written", no, l->stream_id,
                    pg_text(r, 0, 1), (unsigned long long)m->seq);
            err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
        }
        PQclear(r);
        if (past) return -1;
        if (!ours) break;
    }
    return fenced(l, m, e);
}

struct mark_params { char lane[24], epoch[24], route[24], seq[24], state_seq[24]; const char *mark[5], *state[4]; };
static void mark_params(struct mark_params *p, const struct lane *l, unsigned lane, const struct mark *m) {
    p->mark[0] = l->stream_id;
    p->mark[1] = tg_u64(p->lane, lane);
    p->mark[2] = tg_u64(p->epoch, m->epoch);
    p->mark[3] = tg_u64(p->route, m->route_epoch);
    p->mark[4] = tg_u64(p->seq, m->seq);
    p->state[0] = l->stream_id;
    p->state[1] = p->epoch;
    p->state[2] = m->link_id;
    p->state[3] = tg_u64(p->state_seq, m->state_seq);
}

int lane_mark(struct lane *l, const struct mark *m, struct err *e) {
    struct mark_params p;
    bool missed = false;
    int rc = 0;
    for (unsigned i = 0; i <= m->nalso && rc == 0; i++) {
        mark_params(&p, l, marked_lane(l, m, i), m);
        PGresult *r = PQexecParams(l->c, l->mark_sql, 5, NULL, p.mark, NULL, NULL, 0);
        missed = pg_sqlstate_is(r, "22012");
        rc = PQresultStatus(r) == PGRES_TUPLES_OK ? 0 : pg_err(e, l->c, r, "cannot write the lane's mark");
        PQclear(r);
    }
    if (rc == 0 && m->link_id != NULL) {
        PGresult *r = PQexecParams(l->c, l->state_sql, 4, NULL, p.state, NULL, NULL, 0);
        missed = pg_sqlstate_is(r, "22012");
        rc = PQresultStatus(r) == PGRES_TUPLES_OK ? 0 : pg_err(e, l->c, r, "cannot write the stream's state");
        PQclear(r);
    }
    if (missed) {
        tg_rollback(l->c);
        rc = lane_mark_missed(l, m, e);
    }
    return rc;
}

/* ---- the pipeline's bookkeeping -------------------------------------------------------------------------------------- */

static int op_add(struct lane *l, enum op_kind kind, size_t run, size_t n, size_t stmt, struct err *e) {
    if (l->nops == l->ops_cap) {
        size_t cap = l->ops_cap ? l->ops_cap * 2 : 64;
        struct lane_op *v = mem_resize(l->ops, cap * sizeof *v, e);
        if (v == NULL) return -1;
        l->ops = v;
        l->ops_cap = cap;
    }
    l->ops[l->nops++] = (struct lane_op){kind, run, n, stmt};
    return 0;
}

static int send_plain(struct lane *l, enum op_kind kind, const char *sql, int n, const char *const *params, struct err *e) {
    if (PQsendQueryParams(l->c, sql, n, NULL, params, NULL, NULL, 0) != 1) return pg_err(e, l->c, NULL, "cannot send to the target");
    return op_add(l, kind, 0, 0, 0, e);
}

static int room_for_params(struct lane *l, size_t n, struct err *e) {
    if (n <= l->nparams_cap) return 0;
    struct buf *b = mem_resize(l->params, n * sizeof *b, e);
    if (b == NULL) return -1;
    l->params = b;
    for (size_t i = l->nparams_cap; i < n; i++) b[i] = BUF_INIT((size_t)1 << 30);
    l->nparams_cap = n;
    void *p;
    if ((p = mem_resize(l->pv, n * sizeof *l->pv, e)) == NULL) return -1;
    l->pv = p;
    if ((p = mem_resize(l->pl, n * sizeof *l->pl, e)) == NULL) return -1;
    l->pl = p;
    if ((p = mem_resize(l->pf, n * sizeof *l->pf, e)) == NULL) return -1;
    l->pf = p;
    return 0;
}

/* Between windows: forget what the server forgot, and start over when there are too many. */
static int trim_stmts(struct lane *l, struct err *e) {
    size_t keep = 0;
    bool all = l->nstmts >= STMTS_MAX;
    if (all && pg_do(l->c, "DEALLOCATE ALL", "forget old statements", e) < 0) return -1;
    if (all) l->prepared = false;
    for (size_t i = 0; i < l->nstmts; i++) {
        if (all || !l->stmts[i].confirmed) mem_free(l->stmts[i].p);
        else l->stmts[keep++] = l->stmts[i];
    }
    l->nstmts = keep;
    return 0;
}

/* Find or send the statement of this table, shape and mask. */
static int get_stmt(struct lane *l, const struct run *run, size_t run_no, const struct stmt_shape *s, size_t *at, struct err *e) {
    const struct target_table *tt = run->table;
    uint64_t head[5] = {tt->serial, (uint64_t)s->kind, s->rekey, s->counted, tt->toggle};
    uint64_t key = hash64(head, sizeof head, run->mask != NULL ? hash64(run->mask, tt->src->ncols, 7) : 1);
    for (size_t i = 0; i < l->nstmts; i++)
        if (l->stmts[i].key == key && l->stmts[i].sent) {
            *at = i;
            return 0;
        }
    if (l->nstmts == l->stmts_cap) {
        size_t cap = l->stmts_cap ? l->stmts_cap * 2 : 32;
        struct lane_stmt *v = mem_resize(l->stmts, cap * sizeof *v, e);
        if (v == NULL) return -1;
        l->stmts = v;
        l->stmts_cap = cap;
    }
    struct lane_stmt *st = &l->stmts[l->nstmts];
    memset(st, 0, sizeof *st);
    if ((st->p = mem_alloc((size_t)tt->src->ncols * 2 * sizeof *st->p + 1, e)) == NULL) return -1;
    st->key = key;
    snprintf(st->name, sizeof st->name, "s%llu", (unsigned long long)l->next_name++);
    *at = l->nstmts++;
    if (tg_stmt_text(&l->sql, tt, s, run->mask, st->p, &st->np, e) < 0) return -1;
    st->sent = true;
    if (l->sql.n == 0) { /* nothing to do: an update that touches an identity column alone */
        st->confirmed = true;
        return 0;
    }
    const char *sql = buf_str(&l->sql, e);
    if (sql == NULL) return -1;
    if (PQsendPrepare(l->c, st->name, sql, 0, NULL) != 1) return pg_err(e, l->c, NULL, "cannot send to the target");
    return op_add(l, OP_PREPARE, run_no, 0, *at, e);
}

/* ---- sending runs ---------------------------------------------------------------------------------------------------- */

static const struct value *value_of(const struct change *c, const struct param *p) {
    switch (p->from) {
    case PARAM_BEFORE: return &c->before[p->col];
    case PARAM_AFTER:
        if (c->after[p->col].kind == VALUE_UNCHANGED && c->before != NULL) return &c->before[p->col];
        return &c->after[p->col];
    case PARAM_KEY:
        if (c->before != NULL && c->before_image != IMAGE_NONE) return &c->before[p->col];
        return &c->after[p->col];
    }
    return NULL;
}

static const struct value *row_of(const struct change *c) { return c->before != NULL && c->after == NULL ? c->before : c->after; }

/* Arrays of changes [from, to) for one statement. */
static int fill(struct lane *l, const struct run *run, const struct lane_stmt *st, size_t from, size_t to, struct err *e) {
    const struct target_table *tt = run->table;
    if (room_for_params(l, st->np, e) < 0) return -1;
    arena_reset(l->arena);
    for (size_t i = 0; i < st->np; i++) {
        struct buf *b = &l->params[i];
        const struct param *p = &st->p[i];
        bool checked = tt->cols[p->col].checked;
        buf_reset(b);
        if (array_begin(b, p->wire, to - from, e) < 0) return -1;
        for (size_t r = from; r < to; r++) {
            const struct change *c = run->changes[r];
            const struct value *v = value_of(c, p);
            struct value conv;
            if (v->kind == VALUE_UNCHANGED)
                return err_set(e, CODE_INTERNAL, "table '%s', column '%s': a change does not hold the value it must set", tt->label, tt->src->cols[p->col].name);
            if (checked) {
                if (tg_value(tt, p->col, v, row_of(c), l->arena, &conv, e) < 0) return -1;
                v = &conv;
            }
            if (array_put(b, p->wire, v, e) < 0) return err_wrap(e, "table '%s', column '%s'", tt->label, tt->src->cols[p->col].name);
        }
        l->pv[i] = b->p;
        l->pl[i] = (int)b->n;
        l->pf[i] = 1;
    }
    return 0;
}

static size_t change_bytes(const struct change *c, uint16_t ncols) {
    size_t n = 0;
    for (uint16_t i = 0; i < ncols; i++) n += (c->after != NULL ? c->after[i].len : 0) + (c->before != NULL ? c->before[i].len : 0) + 8;
    return n;
}

static int send_toggle(struct lane *l, const struct target_table *tt, bool open, struct err *e) {
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        if (!tt->cols[c].always) continue;
        buf_reset(&l->sql);
        if (buf_addf(&l->sql, e, "ALTER TABLE %s ALTER COLUMN %s SET GENERATED %s", tt->name, tt->cols[c].ident, open ? "BY DEFAULT" : "ALWAYS") < 0) return -1;
        const char *sql = buf_str(&l->sql, e);
        if (sql == NULL || send_plain(l, OP_PLAIN, sql, 0, NULL, e) < 0) return -1;
    }
    return 0;
}

static int send_stmt(struct lane *l, const struct run *run, size_t run_no, const struct stmt_shape *s, enum op_kind kind, struct err *e) {
    size_t at;
    if (get_stmt(l, run, run_no, s, &at, e) < 0) return -1;
    if (l->stmts[at].np == 0) return 0;
    for (size_t from = 0; from < run->n;) {
        size_t to = from, bytes = 0;
        while (to < run->n && to - from < PART_ROWS) {
            size_t b = change_bytes(run->changes[to], run->table->src->ncols);
            if (to > from && bytes + b > PART_BYTES) break;
            bytes += b;
            to++;
        }
        struct lane_stmt *st = &l->stmts[at];
        if (fill(l, run, st, from, to, e) < 0) return -1;
        if (PQsendQueryPrepared(l->c, st->name, (int)st->np, l->pv, l->pl, l->pf, 0) != 1) return pg_err(e, l->c, NULL, "cannot send to the target");
        if (op_add(l, kind, run_no, to - from, at, e) < 0) return -1;
        from = to;
        for (size_t i = 0; i < st->np; i++) /* one huge value must not stay for good */
            if (l->params[i].cap > PART_BYTES * 2) buf_free(&l->params[i]);
    }
    return 0;
}

static bool rekeys(const struct run *run) {
    const struct target_table *tt = run->table;
    for (size_t i = 0; i < run->n; i++) {
        const struct change *c = run->changes[i];
        if (c->before == NULL || c->before_image == IMAGE_NONE) continue;
        for (uint16_t k = 0; k < tt->src->ncols; k++)
            if (tt->cols[k].key && c->after[k].kind != VALUE_UNCHANGED && !value_equal(&c->before[k], &c->after[k])) return true;
    }
    return false;
}

/* CASCADE is spelled out by the list: the source names every table it emptied, and no other may be emptied here. A table that another one refers to
 * cannot be truncated alone; where foreign keys are off in our session its rows are deleted instead (`by_delete`): nothing hangs on them then. */
static int send_truncate(struct lane *l, const struct run *run, struct err *e) {
    bool first = true, restart = run->changes[0]->flags & TRUNCATE_RESTART_IDENTITY, by_delete = l->by_delete && !restart;
    const char *sql;
    buf_reset(&l->sql);
    for (uint32_t i = 0; i < run->ntables; i++) {
        const struct target_table *tt = run->tables[i];
        if (tt == NULL) continue;
        if (by_delete) {
            buf_reset(&l->sql);
            if (buf_addf(&l->sql, e, "DELETE FROM %s%s", tt->only, tt->name) < 0 || (sql = buf_str(&l->sql, e)) == NULL ||
                send_plain(l, OP_PLAIN, sql, 0, NULL, e) < 0) return -1;
            continue;
        }
        if (buf_addf(&l->sql, e, "%s%s%s", first ? "TRUNCATE TABLE " : ", ", tt->only, tt->name) < 0) return -1;
        first = false;
    }
    if (first) return 0;
    if (restart && buf_adds(&l->sql, " RESTART IDENTITY", e) < 0) return -1;
    return (sql = buf_str(&l->sql, e)) == NULL ? -1 : send_plain(l, OP_TRUNCATE, sql, 0, NULL, e);
}

/* A truncate of this transaction set sequences back to their start: what they stood at behind it is set again, in the same transaction. */
static int send_sequences(struct lane *l, const struct run *run, struct err *e) {
    const char *at = l->later.p;
    for (size_t k = 0; l->later.n > 0 && k < run->n; k++) {
        const struct change *c = run->changes[k];
        const char *sql = at, *seq = sql + strlen(sql) + 1;
        char v[32];
        at = seq + strlen(seq) + 1;
        snprintf(v, sizeof v, "%lld", (long long)c->seq_value);
        const char *p[3] = {seq, v, c->seq_called ? "t" : "f"};
        if (*sql != 0 && send_plain(l, OP_PLAIN, sql, 3, p, e) < 0) return -1;
    }
    return 0;
}

static int send_run(struct lane *l, const struct run *run, size_t no, bool *check, struct err *e) {
    struct target_table *tt = run->table;
    struct stmt_shape s = {0};
    if (run->n == 0) return 0;
    if (run->kind == RUN_SEQUENCE) return send_sequences(l, run, e);
    if (run->kind == RUN_TRUNCATE) return send_truncate(l, run, e);
    /* Constraints that are checked at the end are not checked at all in replica mode: such a table is written in ordinary mode. */
    bool ordinary = l->replica && tt->deferrable;
    if (ordinary && send_plain(l, OP_PLAIN, "SET LOCAL session_replication_role = origin", 0, NULL, e) < 0) return -1;
    if (tt->deferrable && send_plain(l, OP_PLAIN, "SET CONSTRAINTS ALL DEFERRED", 0, NULL, e) < 0) return -1;
    bool counted = !tt->unique;
    if (run->kind == RUN_UPDATE) {
        s.rekey = rekeys(run);
        for (uint16_t c = 0; s.rekey && c < tt->src->ncols; c++)
            if (tt->cols[c].key && tt->cols[c].always) tt->toggle = true;
    }
    if (tt->toggle && send_toggle(l, tt, true, e) < 0) return -1;
    int rc = -1;
    switch (run->kind) {
    case RUN_UPSERT:
        s.kind = STMT_UPSERT;
        if (tt->arbiter) {
            rc = send_stmt(l, run, no, &s, OP_ROWS, e);
            break;
        }
        /* No index that ON CONFLICT could use: what an earlier delivery left is taken out first. */
        s.kind = STMT_DELETE;
        if (tt->nkey > 0 && send_stmt(l, run, no, &s, OP_PLAIN, e) < 0) break;
        s.kind = STMT_INSERT;
        rc = send_stmt(l, run, no, &s, OP_ROWS, e);
        break;
    case RUN_INSERT:
        s.kind = STMT_INSERT;
        rc = send_stmt(l, run, no, &s, OP_ROWS, e);
        break;
    case RUN_UPDATE: case RUN_DELETE:
        s.kind = run->kind == RUN_UPDATE ? STMT_UPDATE : STMT_DELETE;
        s.counted = counted;
        *check |= counted;
        rc = send_stmt(l, run, no, &s, counted ? OP_COUNTED : OP_FULL, e);
        break;
    case RUN_UPDATE_FULL: case RUN_DELETE_FULL:
        s.kind = run->kind == RUN_UPDATE_FULL ? STMT_UPDATE_FULL : STMT_DELETE_FULL;
        rc = send_stmt(l, run, no, &s, OP_FULL, e);
        break;
    case RUN_TRUNCATE: case RUN_SEQUENCE: break;
    }
    if (rc < 0) return -1;
    if (tt->toggle && send_toggle(l, tt, false, e) < 0) return -1;
    return ordinary ? send_plain(l, OP_PLAIN, "SET LOCAL session_replication_role = replica", 0, NULL, e) : 0;
}

/* ---- answers --------------------------------------------------------------------------------------------------------- */

static int too_many(const struct run *run, bool committed, struct err *e) {
    err_set(e, CODE_CDC_KEY_MATCHED_MULTIPLE_ROWS, "table '%s': a change addressed by its key matched more than one row of the target; %s", run->table->label,
            committed ? "its transaction was committed before that was seen" : "its transaction was rolled back");
    err_hint(e, "make the key unique on the target, then rebuild with --reset-target-data");
    return err_mark(e, MARKER_KEY_SCOPED_WRITE_MATCHED_MULTIPLE_ROWS, MARKER_NONE);
}

static int answer_err(struct lane *l, const struct lane_op *op, const struct run *runs, const PGresult *r, struct err *e) {
    const char *state = pg_sqlstate(r);
    bool zero = strcmp(state, "22012") == 0;
    switch (op->kind) {
    case OP_MARK: case OP_STATE:
        l->missed = zero;
        return pg_err(e, l->c, r, "cannot write the stream's mark");
    case OP_COMMIT:
        tg_row_err(e, l->c, r, NULL);
        if (strncmp(state, "23", 2) == 0) {
            struct err inner = *e;
            err_set(e, CODE_CONSTRAINT, "a deferred constraint refused at commit: %s", inner.msg);
            err_mark(e, MARKER_DEFERRED_KEY_CHECK_FAILED_AT_COMMIT, MARKER_NONE);
        }
        return -1;
    case OP_ROWS: case OP_COUNTED: case OP_FULL: case OP_PREPARE:
        l->guard = zero;
        return tg_row_err(e, l->c, r, runs[op->run].table != NULL ? runs[op->run].table->label : NULL);
    case OP_TRUNCATE:
        l->referenced = strcmp(state, "0A000") == 0;
        tg_row_err(e, l->c, r, NULL);
        if (l->referenced && !l->replica)
            err_hint(e, "GRANT SET ON PARAMETER session_replication_role TO %s (PostgreSQL 15), so that its rows can be deleted without what refers to them", PQuser(l->c));
        return -1;
    default: return tg_row_err(e, l->c, r, NULL);
    }
}

static int answer_ok(const struct lane_op *op, const struct run *runs, const PGresult *r, struct apply_result *res, bool committed, struct err *e) {
    uint64_t rows = 0;
    const struct run *run = &runs[op->run];
    switch (op->kind) {
    case OP_ROWS:
        res->rows += op->n; /* an upsert that changed nothing is written all the same */
        break;
    case OP_FULL:
        if (text_u64(PQcmdTuples((PGresult *)(uintptr_t)r), &rows) < 0) rows = 0;
        res->rows += rows;
        if (rows > op->n) return too_many(run, committed, e);
        res->missing += op->n - rows;
        break;
    case OP_COUNTED: {
        uint64_t hit = (uint64_t)pg_i64(r, 0, 1);
        rows = (uint64_t)pg_i64(r, 0, 0);
        if (rows > hit) return too_many(run, committed, e);
        res->rows += rows;
        res->missing += op->n - hit;
        break;
    }
    case OP_COMMIT:
        if (strcmp(PQcmdStatus((PGresult *)(uintptr_t)r), "COMMIT") != 0) return err_set(e, CODE_INTERNAL, "the target rolled back what should have been committed");
        break;
    default: break;
    }
    return 0;
}

/* Read the answers to everything sent since `from`, up to the sync. The first failure is kept; the rest is drained. */
static int drain(struct lane *l, size_t from, const struct run *runs, struct apply_result *res, struct err *e) {
    int rc = 0;
    for (size_t i = from; i < l->nops; i++) {
        const struct lane_op *op = &l->ops[i];
        PGresult *r = PQgetResult(l->c);
        if (r == NULL) return rc < 0 ? rc : pg_err(e, l->c, NULL, "the target did not answer");
        ExecStatusType st = PQresultStatus(r);
        if (st == PGRES_FATAL_ERROR) {
            if (rc == 0) rc = answer_err(l, op, runs, r, e);
        } else if (st == PGRES_COMMAND_OK || st == PGRES_TUPLES_OK) {
            if (op->kind == OP_PREPARE) l->stmts[op->stmt].confirmed = true;
            if (rc == 0) rc = answer_ok(op, runs, r, res, l->nops > 1 && l->ops[l->nops - 2].kind == OP_COMMIT, e);
        } else if (st != PGRES_PIPELINE_ABORTED && st != PGRES_PIPELINE_SYNC && rc == 0) rc = pg_err(e, l->c, r, "an unexpected answer");
        PQclear(r);
        if (PQstatus(l->c) == CONNECTION_BAD) return rc < 0 ? rc : pg_err(e, l->c, NULL, "the connection to the target was lost");
        if (op->kind != OP_SYNC) PQclear(PQgetResult(l->c)); /* the NULL that ends one command's results */
    }
    return rc;
}

static int sync_pipeline(struct lane *l, struct err *e) {
    if (PQpipelineSync(l->c) != 1) return pg_err(e, l->c, NULL, "cannot send to the target");
    return op_add(l, OP_SYNC, 0, 0, 0, e);
}

static int send_marks(struct lane *l, const struct mark *m, struct err *e) {
    for (unsigned i = 0; i <= m->nalso; i++) {
        struct mark_params p;
        mark_params(&p, l, marked_lane(l, m, i), m);
        if (PQsendQueryPrepared(l->c, "mark", 5, p.mark, NULL, NULL, 0) != 1) return pg_err(e, l->c, NULL, "cannot send to the target");
        if (op_add(l, OP_MARK, 0, 0, 0, e) < 0) return -1;
    }
    return 0;
}

static int send_state(struct lane *l, const struct mark *m, struct err *e) {
    struct mark_params p;
    mark_params(&p, l, l->number, m);
    if (PQsendQueryPrepared(l->c, "state", 4, p.state, NULL, NULL, 0) != 1) return pg_err(e, l->c, NULL, "cannot send to the target");
    return op_add(l, OP_STATE, 0, 0, 0, e);
}

static int apply_once(struct lane *l, const struct run *runs, size_t nruns, const struct mark *m, struct apply_result *res, struct err *e) {
    bool check = false;
    size_t done = 0;
    int rc = -1;
    l->nops = 0;
    l->missed = l->guard = l->referenced = false;
    if (PQenterPipelineMode(l->c) != 1) return pg_err(e, l->c, NULL, "cannot send to the target");
    if (send_plain(l, OP_PLAIN, "BEGIN", 0, NULL, e) < 0 || send_plain(l, OP_PLAIN, "SET LOCAL synchronous_commit = on", 0, NULL, e) < 0) goto out;
    if (!l->replica && send_plain(l, OP_PLAIN, "SET CONSTRAINTS ALL DEFERRED", 0, NULL, e) < 0) goto out;
    if (send_marks(l, m, e) < 0) goto out;
    for (size_t i = 0; i < nruns; i++)
        if (send_run(l, &runs[i], i, &check, e) < 0) goto out;
    if (m->link_id != NULL && send_state(l, m, e) < 0) goto out;
    if (check || fault_on) { /* a fault between rows and COMMIT must find the rows sent */
        if (sync_pipeline(l, e) < 0 || drain(l, 0, runs, res, e) < 0) goto out;
        done = l->nops;
        if (FAULT("postgres.lane_before_commit", e) < 0) goto out;
    }
    if (send_plain(l, OP_COMMIT, "COMMIT", 0, NULL, e) < 0 || sync_pipeline(l, e) < 0) goto out;
    if (drain(l, done, runs, res, e) < 0) goto out;
    rc = FAULT("postgres.lane_after_commit", e);
out:
    if (PQstatus(l->c) == CONNECTION_OK) {
        if (PQexitPipelineMode(l->c) != 1) { /* something of ours failed half way: what was sent must be answered first */
            struct err ignored = {0};
            if (sync_pipeline(l, &ignored) == 0) {
                struct apply_result none = {0};
                drain(l, done, runs, &none, &ignored);
            }
            if (PQexitPipelineMode(l->c) != 1) pg_close(&l->c);
        }
        tg_rollback(l->c);
        if (l->missed) rc = lane_mark_missed(l, m, e);
    }
    return rc;
}

static int prepare_marks(struct lane *l, struct err *e) {
    if (l->prepared) return 0;
    PGresult *r = PQprepare(l->c, "mark", l->mark_sql, 0, NULL);
    int rc = PQresultStatus(r) == PGRES_COMMAND_OK ? 0 : pg_err(e, l->c, r, "cannot prepare the lane");
    PQclear(r);
    if (rc < 0) return -1;
    r = PQprepare(l->c, "state", l->state_sql, 0, NULL);
    rc = PQresultStatus(r) == PGRES_COMMAND_OK ? 0 : pg_err(e, l->c, r, "cannot prepare the lane");
    PQclear(r);
    l->prepared = rc == 0;
    return rc;
}

static void toggle_tables(const struct run *runs, size_t nruns, bool on) {
    for (size_t i = 0; i < nruns; i++) {
        struct target_table *tt = runs[i].table;
        for (uint16_t c = 0; tt != NULL && c < tt->src->ncols; c++)
            if (tt->cols[c].always) tt->toggle = on;
    }
}

static bool any_always(const struct run *runs, size_t nruns) {
    for (size_t i = 0; i < nruns; i++)
        for (uint16_t c = 0; runs[i].table != NULL && c < runs[i].table->src->ncols; c++)
            if (runs[i].table->cols[c].always) return true;
    return false;
}

int tg_lane_apply(struct lane *l, const struct run *runs, size_t nruns, const struct mark *m, struct apply_result *r, struct err *e) {
    int rc = -1;
    if (l->c == NULL || PQstatus(l->c) != CONNECTION_OK) return err_set(e, CODE_UNREACHABLE, "the lane's connection is closed");
    bool restarts = false;
    buf_reset(&l->later);
    for (size_t i = 0; i < nruns; i++) {
        restarts |= runs[i].kind == RUN_TRUNCATE && runs[i].n > 0 && (runs[i].changes[0]->flags & TRUNCATE_RESTART_IDENTITY);
        for (size_t k = 0; runs[i].kind == RUN_SEQUENCE && k < runs[i].n; k++) {
            const struct change *c = runs[i].changes[k];
            if (restarts ? tg_sequence_later(l->c, c->seq_ns, l->default_ns, c->seq_name, &l->later, e) < 0
                         : tg_sequence_forward(l->c, c->seq_ns, l->default_ns, c->seq_name, c->seq_value, c->seq_called != 0, e) < 0)
                return -1;
        }
    }
    l->by_delete = false;
    for (int attempt = 0; attempt < 3; attempt++) {
        memset(r, 0, sizeof *r);
        if (trim_stmts(l, e) < 0 || prepare_marks(l, e) < 0) break;
        rc = apply_once(l, runs, nruns, m, r, e);
        if (rc == 0 || l->c == NULL || PQstatus(l->c) != CONNECTION_OK) break;
        bool open = l->guard && any_always(runs, nruns), empty = l->referenced && l->replica && !l->by_delete;
        if (!open && !empty) break;
        if (open) toggle_tables(runs, nruns, true); /* an identity column GENERATED ALWAYS got another value */
        if (empty) l->by_delete = true;
        err_clear(e);
    }
    toggle_tables(runs, nruns, false);
    return rc;
}
