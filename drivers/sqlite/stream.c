/* The log of a SQLite source, read tick by tick.
 *
 * DESIGN
 * 1. A tick is one read transaction: the log's rows behind our position and the current rows of the keys they name, so what it tells is the net
 *    effect up to one consistent view. It ends in one commit whose position is the last log row of that view.
 * 2. A tick may span many batches; the transaction and one statement stay open between them. Memory is bounded by the batch: the touched keys lie
 *    in a temporary table (on disk when it grows).
 * 3. Order inside a tick: truncates of tables that are copied whole (under their old shapes), shape changes, deletes of keys that are gone, updates
 *    and inserts, whole copies, commit. So a unique value may move from a row that is gone to another one.
 * 4. What a key's notes say: no NEW: the row existed; first note NEW: it did not; NEW behind another note: unknown, so a present row is told as
 *    delete and insert, which is right in both cases.
 * 5. Between ticks no transaction is open, so the WAL can be reset; an idle tick writes nothing. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "drivers/sqlite/source.h"
#include "engine/base/clock.h"
#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/base/text.h"

#define POLL_MIN_US 5000
#define POLL_MAX_US 100000
#define ACK_ROWS 1000
#define REARM_TRIES 20

enum phase { PHASE_IDLE, PHASE_TRUNCATE, PHASE_SHAPES, PHASE_DELETES, PHASE_ROWS, PHASE_COPIES, PHASE_COMMIT, PHASE_BROKEN };

struct stream_table {
    int64_t n;
    struct shape *told;      /* what downstream knows; NULL: nothing yet */
    struct shape *now;       /* in force in this tick */
    bool copy;               /* this tick copies it whole */
    int64_t first, last;     /* its rows in temp.sluice_touch; first = 0: none */
    sqlite3_stmt *gone, *present, *all;
};

struct stream {
    struct source *s;
    sqlite3 *db;             /* of its own: a tick's transaction stays open between calls */
    struct sq_place at;      /* everything up to here was delivered */
    struct sq_place end;     /* of the tick that is open */
    struct sq_capture cap;
    struct stream_table *t; size_t nt, cap_t;
    struct shape **kept; size_t nkept, cap_kept; /* every shape that a change may point to: until the stream ends */
    enum phase phase;
    size_t table;            /* where the phase stands */
    bool running;            /* the table's statement is under way */
    uint64_t told;           /* changes in this tick */
    int touch_keys;          /* key columns of temp.sluice_touch; 0: not made yet */
    sqlite3_stmt *end_st, *version_st, *data_version_st;
    int64_t data_version;
    int64_t nulls_until;     /* NULL keys noted up to here have led to a look at the shapes */
    int64_t checked_version; /* schema version that st->t is true for; 0: none */
};

/* ---- shapes and tables ------------------------------------------------------------------------------------------------------ */

static int keep_shape(struct stream *st, struct shape *s, struct err *e) { /* takes s */
    if (st->nkept == st->cap_kept) {
        size_t cap = st->cap_kept ? st->cap_kept * 2 : 32;
        struct shape **v = mem_resize(st->kept, cap * sizeof(struct shape *), e);
        if (!v) {
            shape_free(s);
            return -1;
        }
        st->kept = v;
        st->cap_kept = cap;
    }
    st->kept[st->nkept++] = s;
    return 0;
}

static struct stream_table *find_table(struct stream *st, int64_t n) {
    for (size_t i = 0; i < st->nt; i++)
        if (st->t[i].n == n) return &st->t[i];
    return NULL;
}

static struct stream_table *add_table(struct stream *st, int64_t n, struct err *e) {
    if (st->nt == st->cap_t) {
        size_t cap = st->cap_t ? st->cap_t * 2 : 32;
        struct stream_table *v = mem_resize(st->t, cap * sizeof *v, e);
        if (!v) return NULL;
        st->t = v;
        st->cap_t = cap;
    }
    struct stream_table *t = &st->t[st->nt++];
    *t = (struct stream_table){.n = n};
    return t;
}

static void table_reset(struct stream_table *t) {
    sqlite3_finalize(t->gone);
    sqlite3_finalize(t->present);
    sqlite3_finalize(t->all);
    t->gone = t->present = t->all = NULL;
}

/* What capture says now. A shape that equals what was told before stays the same object. */
static int take_shapes(struct stream *st, struct err *e) {
    for (size_t i = 0; i < st->nt; i++) {
        struct sq_captured *c = sq_capture_find(&st->cap, st->t[i].n);
        if (!c && st->t[i].now) table_reset(&st->t[i]);
        if (!c) st->t[i].now = NULL;
    }
    for (size_t i = 0; i < st->cap.n; i++) {
        struct sq_captured *c = &st->cap.v[i];
        struct stream_table *t = find_table(st, c->n);
        if (!t && !(t = add_table(st, c->n, e))) return -1;
        if (t->now && strcmp(t->now->digest, c->shape->digest) == 0) continue;
        if (t->told && strcmp(t->told->digest, c->shape->digest) == 0) {
            t->now = t->told;
        } else {
            struct shape *s = shape_copy(c->shape, e);
            if (!s || keep_shape(st, s, e) < 0) return -1;
            s->oid = c->n;
            s->table = t->told ? t->told->table : 0;
            t->now = s;
        }
        table_reset(t);
    }
    return 0;
}

static int schema_version(struct stream *st, int64_t *v, struct err *e) {
    int got = sq_step(st->version_st, e);
    *v = got > 0 ? sqlite3_column_int64(st->version_st, 0) : 0;
    sqlite3_reset(st->version_st);
    return got < 0 ? -1 : 0;
}

static int log_end(struct stream *st, struct sq_place *p, struct err *e) {
    int got = sq_step(st->end_st, e);
    *p = (struct sq_place){0};
    if (got > 0) {
        p->id = sqlite3_column_int64(st->end_st, 0);
        if (sqlite3_column_bytes(st->end_st, 1) == 8) text_hex(sqlite3_column_blob(st->end_st, 1), 8, p->nonce);
    }
    sqlite3_reset(st->end_st);
    if (got == 0) return err_set(e, CODE_SLOT_LOST, "the change log of the SQLite source is empty: someone deleted it");
    return got < 0 ? -1 : 0;
}

/* ---- opening ---------------------------------------------------------------------------------------------------------------- */

static int take_known(struct stream *st, struct shape *const *known, size_t n, struct err *e) {
    for (size_t i = 0; i < n; i++) {
        int64_t number = known[i]->oid;
        for (size_t c = 0; number <= 0 && c < st->cap.n; c++)
            if (strcasecmp(st->cap.v[c].shape->name, known[i]->name) == 0) number = st->cap.v[c].n;
        struct shape *s = shape_copy(known[i], e);
        if (!s || keep_shape(st, s, e) < 0) return -1;
        if (number <= 0) {
            log_warn("a table of the chain is no longer captured", KV_STR("table", s->name));
            continue;
        }
        s->oid = number;
        struct stream_table *t = find_table(st, number);
        if (!t && !(t = add_table(st, number, e))) return -1;
        t->told = s;
    }
    return 0;
}

int sq_stream_open(struct source *s, const struct pos *from, struct shape *const *known, size_t nknown, struct stream **out, struct err *e) {
    struct stream *st = mem_alloc(sizeof *st, e);
    bool there;
    *out = NULL;
    if (!st) return -1;
    st->s = s;
    if (sq_open(s->dsn, 0, &st->db, e) < 0 || sq_capture_is(st->db, &there, e) < 0) goto fail;
    if (!there) {
        err_set(e, CODE_SLOT_MISSING, "the SQLite source '%s' has no change log (table sluice_log)", s->path);
        err_hint(e, "begin a new chain: `sluice backup full --chain-slot --force-overwrite`");
        goto fail;
    }
    if (sq_place_of(from, &st->at, e) < 0 || sq_log_has(st->db, &st->at, &there, e) < 0 || sq_capture_load(st->db, &st->cap, e) < 0 ||
        take_known(st, known, nknown, e) < 0 || sq_prepare(st->db, embed_sql("sqlite/log_end"), &st->end_st, e) < 0 ||
        sq_prepare(st->db, "PRAGMA main.schema_version", &st->version_st, e) < 0 || sq_prepare(st->db, "PRAGMA main.data_version", &st->data_version_st, e) < 0)
        goto fail;
    *out = st;
    return 0;
fail:
    sq_stream_close(st);
    return -1;
}

void sq_stream_close(struct stream *st) {
    if (!st) return;
    for (size_t i = 0; i < st->nt; i++) table_reset(&st->t[i]);
    sqlite3_finalize(st->end_st);
    sqlite3_finalize(st->version_st);
    sqlite3_finalize(st->data_version_st);
    sq_rollback(st->db);
    sq_close(st->db);
    for (size_t i = 0; i < st->nkept; i++) shape_free(st->kept[i]);
    sq_capture_free(&st->cap);
    mem_free(st->kept);
    mem_free(st->t);
    mem_free(st);
}

/* ---- beginning a tick --------------------------------------------------------------------------------------------------------- */

/* temp.sluice_touch: one row a touched key; made anew when the log has more key columns than it. */
static int make_touch(struct stream *st, struct err *e) {
    struct buf sql = BUF_INIT(MiB(1));
    int64_t keys;
    int rc = -1;
    if (sq_int(st->db, embed_sql("sqlite/capture_key_columns"), &keys, e) < 0) return -1;
    if (st->touch_keys == keys) return 0;
    for (size_t i = 0; i < st->nt; i++) table_reset(&st->t[i]);
    if (buf_adds(&sql, "DROP TABLE IF EXISTS temp.sluice_touch; CREATE TEMP TABLE sluice_touch(t, existed", e) < 0) goto out;
    for (int i = 1; i <= keys; i++)
        if (buf_addf(&sql, e, ", k%d", i) < 0) goto out;
    if (buf_adds(&sql, ")", e) < 0 || !buf_str(&sql, e) || sq_exec(st->db, sql.p, e) < 0) goto out;
    st->touch_keys = (int)keys;
    rc = 0;
out:
    buf_free(&sql);
    return rc;
}

/* existed: 1 the row was there at our position, 0 it was not, NULL unknown (invariant 4). In order of t, so that a table's rows are a range. */
static int fill_touch(struct stream *st, struct err *e) {
    struct buf sql = BUF_INIT(MiB(1));
    sqlite3_stmt *fill = NULL;
    int rc = -1;
    if (sq_exec(st->db, "DELETE FROM temp.sluice_touch", e) < 0 || buf_adds(&sql, "INSERT INTO temp.sluice_touch SELECT t, CASE min(CASE op WHEN 'i' THEN id END) WHEN min(id) THEN 0 ELSE CASE count(CASE op WHEN 'i' THEN 1 END) WHEN 0 THEN 1 END END", e) < 0)
        goto out;
    for (int i = 1; i <= st->touch_keys; i++)
        if (buf_addf(&sql, e, ", k%d", i) < 0) goto out;
    if (buf_adds(&sql, " FROM main.sluice_log WHERE id > ?1 AND id <= ?2 AND op IN ('u', 'd', 'x', 'i') GROUP BY t", e) < 0) goto out;
    for (int i = 1; i <= st->touch_keys; i++)
        if (buf_addf(&sql, e, ", typeof(k%d), k%d", i, i) < 0) goto out;
    if (buf_adds(&sql, " ORDER BY t", e) < 0 || !buf_str(&sql, e) || sq_prepare(st->db, sql.p, &fill, e) < 0) goto out;
    sqlite3_bind_int64(fill, 1, st->at.id);
    sqlite3_bind_int64(fill, 2, st->end.id);
    rc = sq_run(fill, e);
out:
    sqlite3_finalize(fill);
    buf_free(&sql);
    return rc;
}

/* Which tables the tick concerns, and how. */
static int look_at_tables(struct stream *st, struct err *e) {
    sqlite3_stmt *q = NULL;
    struct stream_table *t;
    int got;
    for (size_t i = 0; i < st->nt; i++) {
        st->t[i].copy = false;
        st->t[i].first = st->t[i].last = 0;
    }
    if (sq_prepare(st->db, embed_sql("sqlite/log_dirty"), &q, e) < 0) return -1;
    sqlite3_bind_int64(q, 1, st->at.id);
    sqlite3_bind_int64(q, 2, st->end.id);
    while ((got = sq_step(q, e)) > 0)
        if ((t = find_table(st, sqlite3_column_int64(q, 0)))) t->copy = t->now != NULL;
    if (got == 0 && (got = sq_prepare(st->db, "SELECT t, min(rowid), max(rowid) FROM temp.sluice_touch GROUP BY t", &q, e)) == 0)
        while ((got = sq_step(q, e)) > 0)
            if ((t = find_table(st, sqlite3_column_int64(q, 0))) && t->now) {
                t->first = sqlite3_column_int64(q, 1);
                t->last = sqlite3_column_int64(q, 2);
            }
    sqlite3_finalize(q);
    for (size_t i = 0; i < st->nt; i++)
        if (st->t[i].now && !st->t[i].told) st->t[i].copy = true; /* downstream has nothing of it */
    return got;
}

/* The row at our position must be the one we read, unless it was acknowledged away by us (it never is: acknowledging keeps it). */
static int check_place(struct stream *st, struct err *e) {
    bool there;
    if (st->end.id < st->at.id) {
        err_set(e, CODE_SOURCE_CHANGED, "the source's change log ends at %lld, before our position %lld: the file was replaced or restored from an older copy",
                (long long)st->end.id, (long long)st->at.id);
        return err_hint(e, "begin a new chain: `sluice backup full --chain-slot --force-overwrite`");
    }
    return sq_log_has(st->db, &st->at, &there, e); /* absent is for check() to judge */
}

/* Was a NULL written into an identity since we last looked? Then the table may have to be identified otherwise. */
static int null_keys(struct stream *st, bool *yes, struct err *e) {
    sqlite3_stmt *q = NULL;
    bool any = false;
    int got;
    *yes = false;
    for (size_t i = 0; i < st->cap.n && !any; i++) any = sq_identity_may_be_null(st->cap.v[i].shape);
    if (!any) return 0;
    if (sq_prepare(st->db, embed_sql("sqlite/log_null_keys"), &q, e) < 0) return -1;
    sqlite3_bind_int64(q, 1, st->at.id > st->nulls_until ? st->at.id : st->nulls_until);
    sqlite3_bind_int64(q, 2, st->end.id);
    got = sq_step(q, e);
    *yes = got > 0;
    sqlite3_finalize(q);
    return got < 0 ? -1 : 0;
}

/* Open the read transaction with capture true to the schema in it. 1: there is a tick to tell. */
static int begin_tick(struct stream *st, struct err *e) {
    sqlite3 *db = st->db;
    int64_t version;
    bool nulls;
    for (int tries = 0;; tries++) {
        if (sq_begin(db, false, e) < 0 || schema_version(st, &version, e) < 0 || log_end(st, &st->end, e) < 0 || null_keys(st, &nulls, e) < 0) return -1;
        if (version == st->cap.schema_version && !nulls) break;
        if (nulls) st->nulls_until = st->end.id;
        sq_rollback(db);
        if (tries == REARM_TRIES) return err_set_class(e, ERR_RETRY, CODE_SHAPE_CHANGED, "the schema of '%s' changes faster than capture can follow", st->s->path);
        if (sq_rearm(db, &st->s->filter, st->s->keyless_max, &st->cap, e) < 0) return -1;
        st->checked_version = 0;
    }
    if (st->end.id == st->at.id) {
        if (st->end.nonce[0] && st->at.nonce[0] && strcmp(st->end.nonce, st->at.nonce) != 0 && check_place(st, e) < 0) return -1;
        sq_rollback(db);
        return 0;
    }
    if (check_place(st, e) < 0) return -1;
    if (st->checked_version != version && take_shapes(st, e) < 0) return -1;
    st->checked_version = version;
    if (make_touch(st, e) < 0 || fill_touch(st, e) < 0 || look_at_tables(st, e) < 0) return -1;
    st->phase = PHASE_TRUNCATE;
    st->table = 0;
    st->running = false;
    st->told = 0;
    return 1;
}

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
        if (text && (buf_adds(b, " AND r.", e) < 0 || text_ident(b, c->name, e) < 0 || buf_addf(b, e, " COLLATE BINARY = g.k%d", i + 1) < 0)) return -1;
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
    for (int i = 1; rc == 0 && i <= s->keys[s->identity].ncols; i++) rc = buf_addf(&b, e, ", g.k%d", i);
    if (rc == 0 && buf_adds(&b, " FROM temp.sluice_touch AS g WHERE g.rowid BETWEEN ?1 AND ?2 AND g.existed IS NOT 0 AND (g.existed IS NULL OR NOT EXISTS (SELECT 1 FROM main.", e) == 0 &&
        text_ident(&b, s->name, e) == 0 && buf_adds(&b, " AS r WHERE ", e) == 0 && match_key(&b, s, e) == 0 && buf_adds(&b, "))", e) == 0 && buf_str(&b, e))
        rc = sq_prepare(st->db, b.p, &t->gone, e);
    else
        rc = -1;
    buf_free(&b);
    return rc;
}

static int prepare_present(struct stream *st, struct stream_table *t, struct err *e) {
    struct buf b = BUF_INIT(MiB(8));
    const struct shape *s = t->now;
    int rc = -1;
    if (buf_adds(&b, "SELECT g.existed, ", e) == 0 && sq_columns(&b, s, "r.", e) == 0 && buf_adds(&b, " FROM temp.sluice_touch AS g CROSS JOIN main.", e) == 0 &&
        text_ident(&b, s->name, e) == 0 && buf_adds(&b, " AS r ON ", e) == 0 && match_key(&b, s, e) == 0 &&
        buf_adds(&b, " WHERE g.rowid BETWEEN ?1 AND ?2", e) == 0 && buf_str(&b, e))
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
    for (uint16_t i = 0; v && i < s->ncols; i++) v[i] = (struct value){NULL, 0, VALUE_UNCHANGED};
    for (uint16_t i = 0; v && i < k->ncols; i++)
        if (sq_value(q, at + i, &s->cols[k->cols[i]], true, a, &v[k->cols[i]], e) < 0) return NULL;
    return v;
}

static int tell_truncate(struct stream *st, struct batch *b, struct err *e) {
    size_t n = 0;
    for (size_t i = 0; i < st->nt; i++) n += st->t[i].copy && st->t[i].told;
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

static int tell_shapes(struct stream *st, struct batch *b, struct err *e) {
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
        struct stream_table *t = &st->t[st->table];
        sqlite3_stmt **q = statement_of(st, t);
        int got = 0;
        if (!concerns(st, t)) continue;
        if (!st->running) {
            if (!*q && (st->phase == PHASE_DELETES ? prepare_gone(st, t, e) : st->phase == PHASE_ROWS ? prepare_present(st, t, e) : prepare_all(st, t, e)) < 0) return -1;
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

static int go_on(struct stream *st, struct batch *b, size_t max_bytes, struct pos *seen, struct err *e) {
    int done;
    for (;;) {
        switch (st->phase) {
        case PHASE_TRUNCATE:
            if (tell_truncate(st, b, e) < 0) return -1;
            break;
        case PHASE_SHAPES:
            if (tell_shapes(st, b, e) < 0) return -1;
            break;
        case PHASE_DELETES: case PHASE_ROWS: case PHASE_COPIES:
            if ((done = tell_rows(st, b, max_bytes, e)) < 0) return -1;
            if (!done) return 0;
            break;
        default:
            return end_tick(st, b, seen, e);
        }
        st->phase++;
        st->table = 0;
    }
}

/* ---- the contract's functions ---------------------------------------------------------------------------------------------------- */

static int data_version(struct stream *st, int64_t *v, struct err *e) {
    int got = sq_step(st->data_version_st, e);
    *v = got > 0 ? sqlite3_column_int64(st->data_version_st, 0) : 0;
    sqlite3_reset(st->data_version_st);
    return got < 0 ? -1 : 0;
}

int sq_stream_next(struct stream *st, struct batch *b, size_t max_bytes, int64_t wait_us, struct pos *seen, struct err *e) {
    int64_t until = clock_mono_us() + wait_us, pause = POLL_MIN_US, version;
    int r = 0;
    b->ends_at_commit = false;
    if (st->phase == PHASE_BROKEN) return err_set_class(e, ERR_RETRY, CODE_SERVER, "the stream of '%s' failed before; open it anew", st->s->path);
    while (st->phase == PHASE_IDLE) {
        if (data_version(st, &version, e) < 0) goto broken;
        if (version != st->data_version || st->data_version == 0) {
            if ((r = begin_tick(st, e)) < 0) goto broken;
            if (r > 0) break;
            st->data_version = version; /* read before the tick: a change in between is seen next time */
        }
        int64_t left = until - clock_mono_us();
        if (left <= 0) return sq_pos_of(&st->at, seen, e);
        if (stop_wait(pause < left ? pause : left)) return sq_pos_of(&st->at, seen, e);
        if ((pause *= 2) > POLL_MAX_US) pause = POLL_MAX_US;
    }
    if (go_on(st, b, max_bytes, seen, e) == 0) {
        if (st->phase != PHASE_IDLE) return sq_pos_of(&st->at, seen, e);
        return 0;
    }
broken:
    for (size_t i = 0; i < st->nt; i++) table_reset(&st->t[i]);
    sq_rollback(st->db);
    st->touch_keys = 0; /* its making may have been rolled back */
    if (st->phase != PHASE_IDLE) st->phase = PHASE_BROKEN; /* a part was delivered: only a new stream can tell it again */
    return -1;
}

int sq_stream_ack(struct stream *st, const struct pos *p, struct err *e) {
    struct sq_place to;
    sqlite3_stmt *q = NULL;
    int rc = 0;
    struct err busy = {0};
    if (sq_place_of(p, &to, e) < 0) return -1;
    if (st->phase != PHASE_IDLE) return 0; /* inside a read transaction: next time */
    if (to.id > st->at.id) return err_set(e, CODE_INTERNAL, "position %s was acknowledged before it was delivered", p->token);
    if (sq_prepare(st->db, embed_sql("sqlite/log_forget"), &q, e) < 0) return -1;
    sqlite3_bind_int64(q, 1, to.id); /* the row itself stays: its nonce proves the file */
    sqlite3_bind_int64(q, 2, ACK_ROWS);
    /* not synced: what a power failure brings back is forgotten again later */
    if (sq_exec(st->db, "PRAGMA main.synchronous=NORMAL", e) < 0) { sqlite3_finalize(q); return -1; }
    sqlite3_busy_timeout(st->db, 0);
    do {
        if ((rc = sq_run(q, &busy)) < 0) {
            if (busy.class != ERR_RETRY) *e = busy;
            else rc = 0; /* the application writes: forgetting can wait */
            break;
        }
        if (FAULT("sqlite.ack", e) < 0) { rc = -1; break; }
    } while (sqlite3_changes(st->db) == ACK_ROWS);
    sqlite3_busy_timeout(st->db, SQ_BUSY_MS);
    sqlite3_finalize(q);
    if (sq_exec(st->db, "PRAGMA main.synchronous=FULL", rc < 0 ? &busy : e) < 0) rc = -1;
    return rc;
}

int sq_stream_sequences(struct stream *st, struct arena *a, struct object **o, size_t *n, struct err *e) {
    return sq_stream_sequences_of(st->db, &st->cap, a, o, n, e);
}

int sq_stream_uncaptured(struct stream *st, struct arena *a, const char ***lines, size_t *n, struct err *e) {
    sqlite3_stmt *q = NULL;
    size_t cap = 0;
    int got;
    *lines = NULL;
    *n = 0;
    if (sq_prepare(st->db, embed_sql("sqlite/source_tables"), &q, e) < 0) return -1;
    while ((got = sq_step(q, e)) > 0) {
        const char *name = (const char *)sqlite3_column_text(q, 0);
        bool captured = !table_filter_match(&st->s->filter, SQ_NS, name);
        for (size_t i = 0; i < st->cap.n && !captured; i++) captured = strcasecmp(st->cap.v[i].shape->name, name) == 0;
        if (captured) continue;
        if (*n == cap) {
            const char **more = arena_alloc(a, (cap = cap ? cap * 2 : 16) * sizeof *more, e);
            if (!more) { got = -1; break; }
            if (*n) memcpy(more, *lines, *n * sizeof *more);
            *lines = more;
        }
        if (!((*lines)[*n] = arena_printf(a, e, SQ_NS ".%s: not captured yet, or bigger than --keyless-max-bytes without a usable key", name))) { got = -1; break; }
        ++*n;
    }
    sqlite3_finalize(q);
    return got;
}
