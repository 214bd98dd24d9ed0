/* Beginning a tick: the view, the shapes in force in it, the keys that were touched.
 *
 * See DESIGN in stream.c. */
#include <string.h>
#include <strings.h>

#include "drivers/sqlite/stream.h"
#include "engine/base/embed.h"
#include "engine/base/text.h"

#define REARM_TRIES 20

/* ---- shapes and tables ------------------------------------------------------------------------------------------------------ */

int sqs_keep_shape(struct stream *st, struct shape *s, struct err *e) { /* takes s */
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

struct stream_table *sqs_find_table(struct stream *st, int64_t n) {
    for (size_t i = 0; i < st->nt; i++)
        if (st->t[i].n == n) return &st->t[i];
    return NULL;
}

struct stream_table *sqs_add_table(struct stream *st, int64_t n, struct err *e) {
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

void sqs_table_reset(struct stream_table *t) {
    sqlite3_finalize(t->gone);
    sqlite3_finalize(t->present);
    sqlite3_finalize(t->all);
    t->gone = t->present = t->all = NULL;
}

/* Tables that others refer to come first, so that rows come parents first and go children first. Rings stay as they are. */
static int order_tables(struct stream *st, struct err *e) {
    int *depth = mem_alloc((st->nt + 1) * sizeof *depth, e);
    if (!depth) return -1;
    bool moved = true;
    for (size_t round = 0; moved && round < st->nt; round++) {
        moved = false;
        for (size_t i = 0; i < st->nt; i++)
            for (uint16_t k = 0; st->t[i].now && k < st->t[i].now->nkeys; k++) {
                const struct key *f = &st->t[i].now->keys[k];
                for (size_t p = 0; f->kind == KEY_FOREIGN && p < st->nt; p++)
                    if (p != i && st->t[p].now && strcasecmp(st->t[p].now->name, f->ref_table) == 0 && depth[i] <= depth[p]) {
                        depth[i] = depth[p] + 1;
                        moved = true;
                    }
            }
    }
    for (size_t i = 1; i < st->nt; i++) /* few tables, mostly in order */
        for (size_t k = i; k > 0 && depth[k - 1] > depth[k]; k--) {
            struct stream_table t = st->t[k];
            int d = depth[k];
            st->t[k] = st->t[k - 1];
            st->t[k - 1] = t;
            depth[k] = depth[k - 1];
            depth[k - 1] = d;
        }
    mem_free(depth);
    return 0;
}

/* What capture says now. A shape that equals what was told before stays the same object. */
static int take_shapes(struct stream *st, struct err *e) {
    for (size_t i = 0; i < st->nt; i++) {
        struct sq_captured *c = sq_capture_find(&st->cap, st->t[i].n);
        if (!c && st->t[i].now) sqs_table_reset(&st->t[i]);
        if (!c) st->t[i].now = NULL;
    }
    for (size_t i = 0; i < st->cap.n; i++) {
        struct sq_captured *c = &st->cap.v[i];
        struct stream_table *t = sqs_find_table(st, c->n);
        if (!t && !(t = sqs_add_table(st, c->n, e))) return -1;
        if (t->now && strcmp(t->now->digest, c->shape->digest) == 0) continue;
        if (t->told && strcmp(t->told->digest, c->shape->digest) == 0) {
            t->now = t->told;
        } else {
            struct shape *s = shape_copy(c->shape, e);
            if (!s || sqs_keep_shape(st, s, e) < 0) return -1;
            s->oid = c->n;
            s->table = t->told ? t->told->table : 0;
            t->now = s;
        }
        sqs_table_reset(t);
    }
    return order_tables(st, e);
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

/* ---- beginning a tick --------------------------------------------------------------------------------------------------------- */

/* temp.sluice_touch: one row a touched key; made anew when the log has more key columns than it. */
static int make_touch(struct stream *st, struct err *e) {
    struct buf sql = BUF_INIT(MiB(1));
    int64_t keys;
    int rc = -1;
    if (sq_int(st->db, embed_sql("sqlite/capture_key_columns"), &keys, e) < 0) return -1;
    if (st->touch_keys == keys) return 0;
    for (size_t i = 0; i < st->nt; i++)
        sqs_table_reset(&st->t[i]);
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

/* existed: 1 the row was there at our position, 0 it was not, NULL unknown (invariant 4). Key columns follow, then WHERE and GROUP BY. */
static const char touch_fill[] =
    "INSERT INTO temp.sluice_touch SELECT t, CASE WHEN count(CASE op WHEN 'i' THEN 1 END) = 0 THEN 1 "
    "WHEN min(CASE op WHEN 'i' THEN id END) = min(id) AND min(id) > coalesce((SELECT value FROM main.sluice_meta "
    "WHERE key = 'snapshot_id'), 0) THEN 0 END";

/* In order of t, so that a table's rows are a range. */
static int fill_touch(struct stream *st, struct err *e) {
    struct buf sql = BUF_INIT(MiB(1));
    sqlite3_stmt *fill = NULL;
    int rc = -1;
    if (sq_exec(st->db, "DELETE FROM temp.sluice_touch", e) < 0 || buf_adds(&sql, touch_fill, e) < 0) goto out;
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
        if ((t = sqs_find_table(st, sqlite3_column_int64(q, 0)))) t->copy = t->now != NULL;
    if (got == 0 && (got = sq_prepare(st->db, "SELECT t, min(rowid), max(rowid) FROM temp.sluice_touch GROUP BY t", &q, e)) == 0)
        while ((got = sq_step(q, e)) > 0)
            if ((t = sqs_find_table(st, sqlite3_column_int64(q, 0))) && t->now) {
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
        err_set(e, CODE_SOURCE_CHANGED,
                "the source's change log ends at %lld, before our position %lld: the file was replaced or restored from an older copy",
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
    for (size_t i = 0; i < st->cap.n && !any; i++)
        any = sq_identity_may_be_null(st->cap.v[i].shape);
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
int sqs_begin_tick(struct stream *st, struct err *e) {
    sqlite3 *db = st->db;
    int64_t version;
    bool nulls;
    for (int tries = 0;; tries++) {
        if (sq_begin(db, false, e) < 0 || schema_version(st, &version, e) < 0 || log_end(st, &st->end, e) < 0 ||
            null_keys(st, &nulls, e) < 0)
            return -1;
        if (version == st->cap.schema_version && !nulls) break;
        if (nulls) st->nulls_until = st->end.id;
        sq_rollback(db);
        if (tries == REARM_TRIES)
            return err_set_class(e, ERR_RETRY, CODE_SHAPE_CHANGED, "the schema of '%s' changes faster than capture can follow",
                                 st->s->path);
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
