/* What a tick tells, phase by phase; one statement is under way between two batches.
 *
 * See DESIGN in stream.c. */
#include <string.h>

#include "drivers/sqlite/stream.h"
#include "engine/base/clock.h"
#include "engine/base/text.h"

/* ---- statements over the touched keys ------------------------------------------------------------------------------------------ */

static const char *collation(enum equality q) {
    return q == EQ_NOCASE ? "NOCASE" : q == EQ_RTRIM ? "RTRIM" : "BINARY";
}

/* The row whose key has exactly these bytes: found by the index's collation, then compared by all of it. */
static int match_key(struct buf *b, const struct shape *s, struct err *e) {
    const struct key *k = &s->keys[s->identity];
    for (uint16_t i = 0; i < k->ncols; i++) {
        const struct column *c = &s->cols[k->cols[i]];
        if ((i && buf_adds(b, " AND ", e) < 0) || buf_adds(b, "r.", e) < 0 || text_ident(b, c->name, e) < 0 ||
            buf_addf(b, e, " COLLATE %s = g.k%d", collation(k->equality[i]), i + 1) < 0)
            return -1;
        bool text = k->equality[i] == EQ_NOCASE || k->equality[i] == EQ_RTRIM;
        if (text &&
            (buf_adds(b, " AND r.", e) < 0 || text_ident(b, c->name, e) < 0 || buf_addf(b, e, " COLLATE BINARY = g.k%d", i + 1) < 0))
            return -1;
        if (k->equality[i] == EQ_NUMERIC &&
            (buf_adds(b, " AND typeof(r.", e) < 0 || text_ident(b, c->name, e) < 0 || buf_addf(b, e, ") = typeof(g.k%d)", i + 1) < 0))
            return -1;
    }
    return 0;
}

static int prepare_gone(struct stream *st, struct stream_table *t, struct err *e) {
    struct buf b = BUF_INIT(MiB(4));
    const struct shape *s = t->now;
    int rc = buf_adds(&b, "SELECT g.existed", e);
    for (int i = 1; rc == 0 && i <= s->keys[s->identity].ncols; i++)
        rc = buf_addf(&b, e, ", g.k%d", i);
    if (rc == 0 &&
        buf_adds(&b,
                 " FROM temp.sluice_touch AS g WHERE g.rowid BETWEEN ?1 AND ?2 AND g.existed IS NOT 0 AND (g.existed IS NULL OR NOT EXISTS "
                 "(SELECT 1 FROM main.",
                 e) == 0 &&
        text_ident(&b, s->name, e) == 0 && buf_adds(&b, " AS r WHERE ", e) == 0 && match_key(&b, s, e) == 0 && buf_adds(&b, "))", e) == 0 &&
        buf_str(&b, e))
        rc = sq_prepare(st->db, b.p, &t->gone, e);
    else rc = -1;
    buf_free(&b);
    return rc;
}

static int prepare_present(struct stream *st, struct stream_table *t, struct err *e) {
    struct buf b = BUF_INIT(MiB(8));
    const struct shape *s = t->now;
    int rc = -1;
    if (buf_adds(&b, "SELECT g.existed, ", e) == 0 && sq_columns(&b, s, "r.", e) == 0 &&
        buf_adds(&b, " FROM temp.sluice_touch AS g CROSS JOIN main.", e) == 0 && text_ident(&b, s->name, e) == 0 &&
        buf_adds(&b, " AS r ON ", e) == 0 && match_key(&b, s, e) == 0 && buf_adds(&b, " WHERE g.rowid BETWEEN ?1 AND ?2", e) == 0 &&
        buf_str(&b, e))
        rc = sq_prepare(st->db, b.p, &t->present, e);
    buf_free(&b);
    return rc;
}

static int prepare_all(struct stream *st, struct stream_table *t, struct err *e) {
    struct buf b = BUF_INIT(MiB(8));
    int rc = -1;
    if (buf_adds(&b, "SELECT ", e) == 0 && sq_columns(&b, t->now, "", e) == 0 && buf_adds(&b, " FROM main.", e) == 0 &&
        text_ident(&b, t->now->name, e) == 0 && buf_str(&b, e))
        rc = sq_prepare(st->db, b.p, &t->all, e);
    buf_free(&b);
    return rc;
}

/* ---- telling changes ------------------------------------------------------------------------------------------------------------ */

static struct change *tell(struct stream *st, struct batch *b, uint8_t op, const struct shape *s, struct err *e) {
    struct change *c = batch_add(b, e);
    if (!c) return NULL;
    st->told++;
    c->op = op;
    c->shape = s;
    c->table = s ? s->table : 0;
    return c;
}

/* The stored columns from result column `at` on; generated ones are UNCHANGED. */
static struct value *row_values(sqlite3_stmt *q, int at, const struct shape *s, struct arena *a, struct err *e) {
    struct value *v = arena_alloc(a, (s->ncols + 1u) * sizeof *v, e);
    for (uint16_t i = 0; v && i < s->ncols; i++) {
        if (s->cols[i].generated) v[i] = (struct value){NULL, 0, VALUE_UNCHANGED};
        else if (sq_value(q, at++, &s->cols[i], true, a, &v[i], e) < 0) return NULL;
    }
    return v;
}

static struct value *key_values(sqlite3_stmt *q, int at, const struct shape *s, struct arena *a, struct err *e) {
    struct value *v = arena_alloc(a, (s->ncols + 1u) * sizeof *v, e);
    const struct key *k = &s->keys[s->identity];
    for (uint16_t i = 0; v && i < s->ncols; i++)
        v[i] = (struct value){NULL, 0, VALUE_UNCHANGED};
    for (uint16_t i = 0; v && i < k->ncols; i++)
        if (sq_value(q, at + i, &s->cols[k->cols[i]], true, a, &v[k->cols[i]], e) < 0) return NULL;
    return v;
}

static int tell_truncate(struct stream *st, struct batch *b, struct err *e) {
    size_t n = 0;
    for (size_t i = 0; i < st->nt; i++)
        n += st->t[i].copy && st->t[i].told;
    if (!n) return 0;
    const struct shape **tables = arena_alloc(b->arena, n * sizeof *tables, e);
    if (!tables) return -1;
    n = 0;
    for (size_t i = 0; i < st->nt; i++)
        if (st->t[i].copy && st->t[i].told) tables[n++] = st->t[i].told;
    struct change *c = tell(st, b, CHANGE_TRUNCATE, tables[0], e);
    if (!c) return -1;
    c->tables = tables;
    c->ntables = (uint32_t)n;
    return 0;
}

/* Tables that are gone, before any that took their names. */
static int tell_drops(struct stream *st, struct batch *b, struct err *e) {
    for (size_t i = 0; i < st->nt; i++) {
        struct stream_table *t = &st->t[i];
        if (t->now || !t->told) continue;
        struct change *c = tell(st, b, CHANGE_SHAPE, NULL, e);
        if (!c) return -1;
        c->old_shape = t->told;
        c->table = t->told->table;
        t->told = NULL;
    }
    return 0;
}

static int tell_shapes(struct stream *st, struct batch *b, struct err *e) {
    if (tell_drops(st, b, e) < 0) return -1;
    for (size_t i = 0; i < st->nt; i++) {
        struct stream_table *t = &st->t[i];
        if (!t->now || t->told == t->now) continue;
        struct change *c = tell(st, b, CHANGE_SHAPE, t->now, e);
        if (!c) return -1;
        c->old_shape = t->told;
        t->told = t->now;
    }
    return 0;
}

/* One row of a phase's statement as a change. A statement that yields none of its kind adds nothing. */
static int tell_row(struct stream *st, struct batch *b, struct stream_table *t, sqlite3_stmt *q, struct err *e) {
    struct change *c;
    struct value *v;
    if (st->phase == PHASE_DELETES) {
        if (!(c = tell(st, b, CHANGE_DELETE, t->now, e)) || !(v = key_values(q, 1, t->now, b->arena, e))) return -1;
        c->before = v;
        c->before_image = IMAGE_KEY;
        return 0;
    }
    bool update = st->phase == PHASE_ROWS && sqlite3_column_type(q, 0) != SQLITE_NULL && sqlite3_column_int(q, 0) == 1;
    if (!(c = tell(st, b, update ? CHANGE_UPDATE : CHANGE_INSERT, t->now, e))) return -1;
    if (!(v = row_values(q, st->phase == PHASE_ROWS ? 1 : 0, t->now, b->arena, e))) return -1;
    c->after = v;
    return 0;
}

static sqlite3_stmt **statement_of(struct stream *st, struct stream_table *t) {
    return st->phase == PHASE_DELETES ? &t->gone : st->phase == PHASE_ROWS ? &t->present : &t->all;
}

static bool concerns(struct stream *st, const struct stream_table *t) {
    if (!t->now) return false;
    if (st->phase == PHASE_COPIES) return t->copy;
    return !t->copy && t->first > 0 && t->now->identity >= 0;
}

/* Rows of the phase's tables until the batch is full. 1: the phase is done. */
static int tell_rows(struct stream *st, struct batch *b, size_t max_bytes, struct err *e) {
    char label[160];
    for (; st->table < st->nt; st->table++) {
        struct stream_table *t = &st->t[st->phase == PHASE_DELETES ? st->nt - 1 - st->table : st->table];
        sqlite3_stmt **q = statement_of(st, t);
        int got = 0;
        if (!concerns(st, t)) continue;
        if (!st->running) {
            if (!*q && (st->phase == PHASE_DELETES ? prepare_gone(st, t, e)
                        : st->phase == PHASE_ROWS  ? prepare_present(st, t, e)
                                                   : prepare_all(st, t, e)) < 0)
                return -1;
            if (st->phase != PHASE_COPIES) {
                sqlite3_bind_int64(*q, 1, t->first);
                sqlite3_bind_int64(*q, 2, t->last);
            }
            st->running = true;
        }
        while (arena_bytes(b->arena) < max_bytes && (got = sq_step(*q, e)) > 0)
            if (tell_row(st, b, t, *q, e) < 0) return err_wrap(e, "cannot read a row of '%s'", shape_label(t->now, label));
        if (got < 0) return err_wrap(e, "cannot read changes of '%s'", shape_label(t->now, label));
        if (arena_bytes(b->arena) >= max_bytes) return 0;
        sqlite3_reset(*q);
        st->running = false;
    }
    st->table = 0;
    return 1;
}

static int end_tick(struct stream *st, struct batch *b, struct pos *seen, struct err *e) {
    struct pos *p = arena_zalloc(b->arena, sizeof *p, e);
    if (!p || sq_pos_of(&st->end, p, e) < 0) return -1;
    if (st->told > 0) { /* else every touched row came and went: nothing to tell */
        struct change *c = tell(st, b, CHANGE_COMMIT, NULL, e);
        if (!c) return -1;
        c->pos = p;
        c->time_us = clock_wall_us();
        b->ends_at_commit = true;
    }
    if (sq_commit(st->db, e) < 0) return -1; /* nothing but temporary data was written */
    st->at = st->end;
    st->phase = PHASE_IDLE;
    *seen = *p;
    return 0;
}

int sqs_go_on(struct stream *st, struct batch *b, size_t max_bytes, struct pos *seen, struct err *e) {
    int done;
    for (;;) {
        switch (st->phase) {
        case PHASE_TRUNCATE:
            if (tell_truncate(st, b, e) < 0) return -1;
            break;
        case PHASE_SHAPES:
            if (tell_shapes(st, b, e) < 0) return -1;
            break;
        case PHASE_DELETES:
        case PHASE_ROWS:
        case PHASE_COPIES:
            if ((done = tell_rows(st, b, max_bytes, e)) < 0) return -1;
            if (!done) return 0;
            break;
        default: return end_tick(st, b, seen, e);
        }
        st->phase++;
        st->table = 0;
    }
}
