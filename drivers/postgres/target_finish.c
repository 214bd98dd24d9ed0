/* Keys, indexes and foreign keys of a table on the target, made after its rows.
 *
 * DESIGN
 * 1. Repeatable: what is there and asks the same stays, whatever its name; the same name with another meaning is refused.
 * 2. What this driver read is made from its own definition; what another engine's driver read is built from its columns, and what cannot be built
 *    (expressions, conditions, checks) is said and left out. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

typedef const char *(*map_fn)(void *arg, const char *ns);

static const char *index_tail(const char *def) {
    const char *p = def != NULL ? strstr(def, " USING ") : NULL;
    return p != NULL ? p : "";
}

static const char *ref_ns(const struct shape *src, const struct key *k, const char *ns, map_fn map_ns, void *arg) {
    const char *r = k->ref_ns != NULL ? k->ref_ns : src->ns;
    if (map_ns != NULL) return map_ns(arg, r);
    return strcmp(r, src->ns) == 0 ? ns : r;
}

static bool same_columns(const struct shape *a, const struct key *x, const struct shape *b, const struct key *y) {
    if (x->ncols != y->ncols) return false;
    for (uint16_t i = 0; i < x->ncols; i++)
        if (strcmp(a->cols[x->cols[i]].name, b->cols[y->cols[i]].name) != 0) return false;
    return true;
}

static bool same_action(const char *a, const char *b) {
    return strcmp(a != NULL && *a != 0 ? a : "NO ACTION", b != NULL && *b != 0 ? b : "NO ACTION") == 0;
}

static bool same_foreign(const struct shape *src, const struct key *k, const struct shape *dst, const struct key *d, map_fn map_ns, void *arg) {
    if (d->ref_ns == NULL || d->ref_table == NULL || k->ref_table == NULL || !same_columns(src, k, dst, d)) return false;
    if (strcmp(d->ref_table, k->ref_table) != 0 || strcmp(d->ref_ns, ref_ns(src, k, dst->ns, map_ns, arg)) != 0) return false;
    for (uint16_t i = 0; i < k->nref; i++)
        if (i >= d->nref || strcmp(d->ref_cols[i], k->ref_cols[i]) != 0) return false;
    return same_action(k->on_delete, d->on_delete) && same_action(k->on_update, d->on_update);
}

bool tg_key_same(const struct shape *src, const struct key *k, const struct shape *dst, const struct key *d, map_fn map_ns, void *arg) {
    if (k->kind != d->kind) return false;
    if (k->kind == KEY_FOREIGN) return same_foreign(src, k, dst, d, map_ns, arg);
    if (!tg_native(src)) return !d->partial && !d->expression && k->kind != KEY_CHECK && same_columns(src, k, dst, d);
    if (k->constraint != d->constraint || k->def == NULL || d->def == NULL) return false;
    return strcmp(k->constraint ? k->def : index_tail(k->def), d->constraint ? d->def : index_tail(d->def)) == 0;
}

static int columns(struct buf *b, const struct shape *src, const struct key *k, struct err *e) {
    if (buf_addc(b, '(', e) < 0) return -1;
    for (uint16_t i = 0; i < k->ncols; i++)
        if ((i > 0 && buf_adds(b, ", ", e) < 0) || text_ident(b, src->cols[k->cols[i]].name, e) < 0) return -1;
    return buf_addc(b, ')', e);
}

static int foreign_key(struct buf *b, const struct shape *src, const struct key *k, const char *ns, map_fn map_ns, void *arg, struct err *e) {
    const char *to = ref_ns(src, k, ns, map_ns, arg);
    if (k->def != NULL && tg_native(src) && k->ref_ns != NULL && strcmp(to, k->ref_ns) == 0) return buf_adds(b, k->def, e);
    if (buf_adds(b, "FOREIGN KEY ", e) < 0 || columns(b, src, k, e) < 0 || buf_adds(b, " REFERENCES ", e) < 0 || pg_qualified(b, to, k->ref_table, e) < 0) return -1;
    for (uint16_t i = 0; i < k->nref; i++)
        if (buf_adds(b, i > 0 ? ", " : " (", e) < 0 || text_ident(b, k->ref_cols[i], e) < 0) return -1;
    if (k->nref > 0 && buf_addc(b, ')', e) < 0) return -1;
    if (k->def != NULL && strstr(k->def, ") MATCH FULL") != NULL && buf_adds(b, " MATCH FULL", e) < 0) return -1;
    if (k->on_delete != NULL && *k->on_delete != 0 && buf_addf(b, e, " ON DELETE %s", k->on_delete) < 0) return -1;
    if (k->on_update != NULL && *k->on_update != 0 && buf_addf(b, e, " ON UPDATE %s", k->on_update) < 0) return -1;
    if (k->deferrable && buf_addf(b, e, " DEFERRABLE%s", k->initially_deferred ? " INITIALLY DEFERRED" : "") < 0) return -1;
    return tg_native(src) && k->def != NULL && strstr(k->def, " NOT VALID") != NULL ? buf_adds(b, " NOT VALID", e) : 0;
}

static bool all_not_null(const struct shape *src, const struct key *k) {
    for (uint16_t i = 0; i < k->ncols; i++)
        if (!src->cols[k->cols[i]].not_null) return false;
    return true;
}

/* The whole statement. *skip: it cannot be carried, which was said. */
static int key_sql(struct buf *b, const struct shape *src, uint16_t no, const char *ns, const char *name, map_fn map_ns, void *arg, bool *skip, struct err *e) {
    const struct key *k = &src->keys[no];
    bool native = tg_native(src);
    *skip = false;
    if (native && k->name != NULL && tg_name_check("key's", k->name, e) < 0) return -1;
    if (native && !k->constraint && k->kind != KEY_FOREIGN) {
        if (buf_addf(b, e, "CREATE %sINDEX ", k->kind == KEY_UNIQUE ? "UNIQUE " : "") < 0 || text_ident(b, k->name, e) < 0 || buf_adds(b, " ON ", e) < 0 ||
            pg_qualified(b, ns, name, e) < 0)
            return -1;
        return buf_adds(b, index_tail(k->def), e);
    }
    if (!native && (k->partial || k->expression || k->kind == KEY_CHECK || k->kind == KEY_EXCLUDE || k->ncols == 0)) {
        *skip = true;
        log_warn("a key of another engine is not carried over", KV_STR("table", src->name), KV_STR("kind", key_kind_name(k->kind)),
                 KV_STR("key", k->name != NULL ? k->name : ""));
        return 0;
    }
    if (k->kind == KEY_INDEX) {
        if (buf_adds(b, "CREATE INDEX ON ", e) < 0 || pg_qualified(b, ns, name, e) < 0) return -1;
        return columns(b, src, k, e);
    }
    if (buf_adds(b, "ALTER TABLE ", e) < 0 || pg_qualified(b, ns, name, e) < 0 || buf_adds(b, " ADD ", e) < 0) return -1;
    if (native && (buf_adds(b, "CONSTRAINT ", e) < 0 || text_ident(b, k->name, e) < 0 || buf_addc(b, ' ', e) < 0)) return -1;
    if (k->kind == KEY_FOREIGN) return foreign_key(b, src, k, ns, map_ns, arg, e);
    if (native) return buf_adds(b, k->def, e);
    /* a primary key here forbids NULL, which another engine's may hold */
    bool primary = k->kind == KEY_PRIMARY && (src->identity == (int16_t)no || all_not_null(src, k));
    if (buf_adds(b, primary ? "PRIMARY KEY " : "UNIQUE ", e) < 0) return -1;
    return columns(b, src, k, e);
}

static int stage_of(enum key_kind k) {
    switch (k) {
    case KEY_PRIMARY: case KEY_UNIQUE: case KEY_EXCLUDE: return 0;
    case KEY_FOREIGN: return 2;
    default: return 1;
    }
}

/* The replica identity goes along, so that this target can be a source itself. */
static int replica_identity(PGconn *c, const struct shape *src, const char *ns, const char *name, map_fn map_ns, void *arg, struct err *e) {
    struct shape *dst = NULL;
    struct buf b = BUF_INIT(KiB(4));
    int rc = -1;
    if (src->identity < 0 && !src->full_image) return 0;
    if (pg_table_shape(c, ns, name, &dst, e) < 0) return -1;
    bool by_index = !src->full_image && src->identity != src->primary;
    const char *index = NULL;
    for (uint16_t d = 0; dst != NULL && by_index && d < dst->nkeys && index == NULL; d++)
        if (tg_key_same(src, &src->keys[src->identity], dst, &dst->keys[d], map_ns, arg)) index = dst->keys[d].name;
    bool same = dst == NULL || (by_index ? index == NULL || (dst->identity >= 0 && !dst->full_image && strcmp(dst->keys[dst->identity].name, index) == 0)
                                         : dst->full_image == src->full_image && (src->full_image || dst->identity == dst->primary));
    rc = 0;
    if (!same) {
        rc = buf_adds(&b, "ALTER TABLE ", e) < 0 || pg_qualified(&b, ns, name, e) < 0 ||
                     buf_adds(&b, src->full_image ? " REPLICA IDENTITY FULL" : by_index ? " REPLICA IDENTITY USING INDEX " : " REPLICA IDENTITY DEFAULT", e) < 0 ||
                     (by_index && text_ident(&b, index, e) < 0) ? -1 : 0;
        const char *sql = rc == 0 ? buf_str(&b, e) : NULL;
        rc = sql == NULL ? -1 : pg_do(c, sql, "set a table's replica identity", e);
    }
    shape_free(dst);
    buf_free(&b);
    return rc;
}

int tg_table_finish_on(PGconn *c, const struct shape *src, const char *ns, const char *name, int stage, map_fn map_ns, void *arg, struct err *e) {
    struct buf b = BUF_INIT(MiB(4));
    struct shape *dst = NULL;
    int rc = -1;
    for (uint16_t i = 0; i < src->nkeys; i++) {
        const struct key *k = &src->keys[i];
        if (stage_of(k->kind) != stage) continue;
        /* read anew each time: a key of a partitioned table makes those of its partitions, and the other way round */
        shape_free(dst);
        dst = NULL;
        if (pg_table_shape(c, ns, name, &dst, e) < 0) goto out;
        if (dst == NULL) {
            err_set(e, CODE_SHAPE_CHANGED, "the target has no table '%s.%s'", ns, name);
            goto out;
        }
        bool there = false;
        for (uint16_t d = 0; d < dst->nkeys && !there; d++) {
            there = tg_key_same(src, k, dst, &dst->keys[d], map_ns, arg) || (!tg_native(src) && k->kind == KEY_PRIMARY && dst->keys[d].kind == KEY_UNIQUE &&
                                                                             same_columns(src, k, dst, &dst->keys[d]));
            if (!there && tg_native(src) && k->name != NULL && strcmp(k->name, dst->keys[d].name) == 0) {
                err_set(e, CODE_TARGET_KEYS, "table '%s.%s' on the target has a key '%s' that is not the source's: '%s' there, '%s' here", ns, name, k->name,
                        dst->keys[d].def, k->def);
                err_hint(e, "drop it on the target, then run it again");
                goto out;
            }
        }
        bool skip;
        buf_reset(&b);
        if (there) continue;
        if (key_sql(&b, src, i, ns, name, map_ns, arg, &skip, e) < 0) goto out;
        const char *sql = skip ? NULL : buf_str(&b, e);
        if (skip) continue;
        if (sql == NULL) goto out;
        PGresult *r = PQexec(c, sql);
        bool ok = PQresultStatus(r) == PGRES_COMMAND_OK, optional = !tg_native(src) && k->kind == KEY_FOREIGN && PQtransactionStatus(c) == PQTRANS_IDLE;
        if (!ok) {
            tg_row_err(e, c, r, NULL);
            err_wrap(e, "cannot make key '%s' of table '%s.%s'", k->name != NULL ? k->name : key_kind_name(k->kind), ns, name);
        }
        PQclear(r);
        if (!ok && optional && e->class == ERR_REFUSE) { /* another engine may not have enforced it */
            log_warn("a foreign key is not carried over", KV_STR("table", name), KV_STR("references", k->ref_table), KV_STR("reason", e->msg));
            err_clear(e);
            ok = true;
        }
        if (!ok) goto out;
    }
    rc = stage == 1 && tg_native(src) ? replica_identity(c, src, ns, name, map_ns, arg, e) : 0;
out:
    shape_free(dst);
    buf_free(&b);
    return rc;
}

int tg_table_finish(struct target *t, const struct shape *src, const char *ns, const char *name, int stage, map_fn map_ns, void *arg, struct err *e) {
    return tg_table_finish_on(t->c, src, ns, name, stage, map_ns, arg, e);
}
