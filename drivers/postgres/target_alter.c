/* Following one shape change on the target, in one transaction with its mark.
 *
 * DESIGN
 * 1. Columns are told apart by their identity (attnum, or the number the source gave them), so a rename is a rename and never a drop and an add.
 * 2. Nothing is guessed: what would give existing rows other values than the source's (a default that is computed, a retyping that loses
 *    something, two columns that exchanged their names) is refused before anything is changed.
 * 3. A partition has its parent's columns: what happens to them happens to the topmost table, once, whichever of them tells of it first; the others
 *    find it done.
 * 4. Order: the table's name, columns renamed, dropped, keys dropped, NOT NULL relaxed, types widened, columns added, NOT NULL set, keys made. */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/convert.h"
#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

struct alter {
    PGconn *c;
    const struct shape *before, *after;
    const char *ns, *name;      /* the table as it is called now */
    char label[160];
    const char *top_ns, *top_name; /* whose columns they are: the topmost table of a partition, else the table itself */
    struct shape *is;           /* a partition or its parents: as the target has it now; else NULL */
    PGresult *top;
    bool empty;                 /* the target's table has no rows */
    struct buf sql;
    struct err *e;
};

static int refuse(struct alter *a, enum marker sub, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int refuse(struct alter *a, enum marker sub, const char *fmt, ...) {
    char text[900];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_set(a->e, CODE_SHAPE_CHANGED, "table '%s' changed on the source and cannot be followed: %s", a->label, text);
    err_hint(a->e, "make the same change on the target and give it the source's values, or rebuild with --reset-target-data");
    return err_mark(a->e, MARKER_SCHEMA_CHANGE_REFUSED, sub);
}

/* ---- columns --------------------------------------------------------------------------------------------------------- */

static bool have_ids(const struct shape *s) {
    for (uint16_t i = 0; i < s->ncols; i++)
        if (s->cols[i].id == 0) return false;
    return s->ncols > 0;
}
static bool by_id(const struct alter *a) { return have_ids(a->before) && have_ids(a->after); }

/* The ordinal in `in` of the same column as c, -1 if it is gone (or new). */
static int counterpart(const struct alter *a, const struct shape *in, const struct column *c) {
    if (!by_id(a)) return shape_col(in, c->name);
    for (uint16_t i = 0; i < in->ncols; i++)
        if (in->cols[i].id == c->id) return i;
    return -1;
}

/* Two names that stand for each other's columns now: names alone cannot show it, so it is never applied by name. */
static int check_order(struct alter *a) {
    const struct shape *b = a->before, *n = a->after;
    for (uint16_t i = 0; i < n->ncols; i++) {
        int bi = shape_col(b, n->cols[i].name);
        if (bi < 0 || counterpart(a, b, &n->cols[i]) < 0) continue;
        for (uint16_t k = (uint16_t)(i + 1); k < n->ncols; k++) {
            int bk = shape_col(b, n->cols[k].name);
            if (bk < 0 || bk > bi || counterpart(a, b, &n->cols[k]) < 0) continue;
            err_set(a->e, CODE_SHAPE_CHANGED, "table '%s': columns '%s' and '%s' changed places or names on the source", a->label, n->cols[i].name, n->cols[k].name);
            err_hint(a->e, "make the same change on the target and start again, or rebuild with --reset-target-data");
            return err_mark(a->e, MARKER_COLUMN_ORDER_CHANGED, MARKER_NONE);
        }
    }
    return 0;
}

/* ALTER TABLE ns.name … ; the rest is formatted, %s of identifiers already quoted. */
static int alter_on(struct alter *a, const char *ns, const char *name, const char *what, const char *ident, const char *rest) {
    buf_reset(&a->sql);
    if (buf_adds(&a->sql, "ALTER TABLE ", a->e) < 0 || pg_qualified(&a->sql, ns, name, a->e) < 0 || buf_adds(&a->sql, what, a->e) < 0) return -1;
    if (ident != NULL && text_ident(&a->sql, ident, a->e) < 0) return -1;
    if (rest != NULL && buf_adds(&a->sql, rest, a->e) < 0) return -1;
    const char *sql = buf_str(&a->sql, a->e);
    if (sql == NULL) return -1;
    PGresult *r = PQexec(a->c, sql);
    int rc = 0;
    if (PQresultStatus(r) != PGRES_COMMAND_OK) {
        rc = tg_row_err(a->e, a->c, r, NULL);
        if (a->e->class == ERR_REFUSE && a->e->code != CODE_PRIVILEGE) {
            struct err inner = *a->e;
            rc = refuse(a, MARKER_NONE, "%s", inner.msg);
        }
    }
    PQclear(r);
    return rc;
}

static int alter(struct alter *a, const char *what, const char *ident, const char *rest) { return alter_on(a, a->ns, a->name, what, ident, rest); }
/* … the columns of the table, and so of all that share them */
static int alter_column(struct alter *a, const char *what, const char *ident, const char *rest) {
    return alter_on(a, a->top_ns, a->top_name, what, ident, rest);
}

static int find_top(struct alter *a) {
    const char *p[2] = {a->ns, a->name};
    PQclear(a->top);
    a->top = NULL;
    shape_free(a->is);
    a->is = NULL;
    a->top_ns = a->ns;
    a->top_name = a->name;
    if (pg_query(a->c, embed_sql("postgres/target_partition_top"), 2, p, "look for a partition's parent", &a->top, a->e) < 0) return -1;
    if (PQntuples(a->top) == 0) return 0;
    a->top_ns = pg_text(a->top, 0, 0);
    a->top_name = pg_text(a->top, 0, 1);
    return pg_table_shape(a->c, a->ns, a->name, &a->is, a->e);
}

/* The target's column of that name, where another table of the same tree may have brought it. */
static const struct column *shared(const struct alter *a, const char *name) {
    int i = a->is != NULL ? shape_col(a->is, name) : -1;
    return i >= 0 ? &a->is->cols[i] : NULL;
}

static int rename_table(struct alter *a, const char *ns, const char *name) {
    struct buf q = BUF_INIT(KiB(1));
    int rc = 0;
    if (strcmp(a->ns, ns) != 0) {
        rc = tg_schema_ensure(a->c, ns, a->e) < 0 ? -1 : alter(a, " SET SCHEMA ", ns, NULL);
        a->ns = ns;
    }
    if (rc == 0 && strcmp(a->name, name) != 0) {
        if (tg_name_check("table's", name, a->e) < 0) rc = -1;
        else rc = alter(a, " RENAME TO ", name, NULL);
        a->name = name;
    }
    buf_free(&q);
    return rc;
}

static int rename_columns(struct alter *a) {
    if (!by_id(a)) return 0;
    char tmp[32];
    /* first away from every name that is still in use, then to the new one */
    for (int pass = 0; pass < 2; pass++)
        for (uint16_t i = 0; i < a->after->ncols; i++) {
            const struct column *n = &a->after->cols[i];
            int b = counterpart(a, a->before, n);
            if (b < 0 || strcmp(a->before->cols[b].name, n->name) == 0) continue;
            if (a->is != NULL && shared(a, a->before->cols[b].name) == NULL && shared(a, n->name) != NULL) continue;
            if (tg_name_check("column's", n->name, a->e) < 0) return -1;
            bool taken = shape_col(a->before, n->name) >= 0;
            struct buf to = BUF_INIT(KiB(1));
            snprintf(tmp, sizeof tmp, "sluice_renamed_%u", i);
            const char *from = pass == 0 ? a->before->cols[b].name : tmp, *into = pass == 0 && taken ? tmp : n->name;
            int rc = 0;
            if (pass == 0 || taken) {
                if (buf_adds(&to, " TO ", a->e) < 0 || text_ident(&to, into, a->e) < 0) rc = -1;
                const char *t = rc == 0 ? buf_str(&to, a->e) : NULL;
                rc = t == NULL ? -1 : alter_column(a, " RENAME COLUMN ", from, t);
            }
            buf_free(&to);
            if (rc < 0) return -1;
        }
    return 0;
}

static int drop_columns(struct alter *a) {
    for (uint16_t i = 0; i < a->before->ncols; i++) {
        const struct column *b = &a->before->cols[i];
        if (counterpart(a, a->after, b) >= 0) continue;
        if (b->generated != NULL && !tg_native(a->before)) continue;
        if (a->is != NULL && shared(a, b->name) == NULL) continue;
        if (alter_column(a, " DROP COLUMN ", b->name, NULL) < 0) return -1;
    }
    return 0;
}

/* Keys of the target that the source had and has no more. */
static int drop_keys(struct alter *a) {
    struct shape *dst = NULL;
    int rc = -1;
    if (pg_table_shape(a->c, a->ns, a->name, &dst, a->e) < 0) return -1;
    if (dst == NULL) return refuse(a, MARKER_NONE, "the target has no table '%s.%s'", a->ns, a->name);
    for (int foreign = 1; foreign >= 0; foreign--)
        for (uint16_t d = 0; d < dst->nkeys; d++) {
            const struct key *k = &dst->keys[d];
            bool had = false, has = false;
            if ((k->kind == KEY_FOREIGN) != (foreign == 1)) continue;
            for (uint16_t i = 0; i < a->after->nkeys && !has; i++) has = tg_key_same(a->after, &a->after->keys[i], dst, k, NULL, NULL);
            for (uint16_t i = 0; i < a->before->nkeys && !had; i++)
                had = tg_native(a->before) ? a->before->keys[i].name != NULL && strcmp(a->before->keys[i].name, k->name) == 0
                                           : tg_key_same(a->before, &a->before->keys[i], dst, k, NULL, NULL);
            if (has || !had) continue;
            if (k->constraint) {
                if (alter(a, " DROP CONSTRAINT ", k->name, NULL) < 0) goto out;
                continue;
            }
            buf_reset(&a->sql);
            if (buf_adds(&a->sql, "DROP INDEX ", a->e) < 0 || pg_qualified(&a->sql, a->ns, k->name, a->e) < 0) goto out;
            const char *sql = buf_str(&a->sql, a->e);
            if (sql == NULL || pg_do(a->c, sql, "drop an index", a->e) < 0) goto out;
        }
    rc = 0;
out:
    shape_free(dst);
    return rc;
}

static bool same_text(const char *a, const char *b) { return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0; }

static int retype(struct alter *a, uint16_t at, const struct column *b) {
    const struct column *n = &a->after->cols[at];
    struct buf was = BUF_INIT(KiB(4)), is = BUF_INIT(KiB(4)), rest = BUF_INIT(KiB(4));
    int rc = -1, ob = counterpart(a, a->before, n);
    if (tg_type_text(&was, a->before, (uint16_t)ob, a->e) < 0 || tg_type_text(&is, a->after, at, a->e) < 0) goto out;
    if (was.n == is.n && memcmp(was.p, is.p, was.n) == 0) {
        rc = 0;
        goto out;
    }
    const struct column *has = shared(a, n->name);
    if (has != NULL && same_text(has->native, n->native) && same_text(has->collation, n->collation)) {
        rc = 0;
        goto out;
    }
    bool key = tg_in_key(a->after, at) || tg_in_key(a->before, (uint16_t)ob);
    if (!same_text(b->collation, n->collation) || b->equality != n->equality) {
        bool type_same = same_text(b->native, n->native);
        if (!same_text(b->collation, n->collation) || type_same) {
            rc = refuse(a, key ? MARKER_KEY_COLLATION_CHANGED : MARKER_NONE, "the collation of column '%s' changed", n->name);
            goto out;
        }
    }
    if (!a->empty && (b->type == LT_NATIVE || n->type == LT_NATIVE || tg_fit(a->before, b, n) != CONVERT_ALWAYS)) {
        rc = refuse(a, MARKER_NONE, "column '%s' went from type '%s' to '%s', which rows that are there cannot be shown to follow", n->name, b->native, n->native);
        goto out;
    }
    const char *type = buf_str(&is, a->e);
    if (type == NULL || buf_addf(&rest, a->e, " TYPE %s USING ", type) < 0 || text_ident(&rest, n->name, a->e) < 0 || buf_addf(&rest, a->e, "::%s", type) < 0) goto out;
    const char *r = buf_str(&rest, a->e);
    rc = r == NULL ? -1 : alter_column(a, " ALTER COLUMN ", n->name, r);
out:
    buf_free(&was);
    buf_free(&is);
    buf_free(&rest);
    return rc;
}

static int set_default(struct alter *a, const struct column *b, const struct column *n) {
    if (!tg_native(a->after)) return 0;
    if (b->ident != n->ident) {
        if (b->ident != IDENT_NONE && n->ident != IDENT_NONE)
            return alter(a, " ALTER COLUMN ", n->name, n->ident == IDENT_ALWAYS ? " SET GENERATED ALWAYS" : " SET GENERATED BY DEFAULT");
        if (b->ident != IDENT_NONE && alter(a, " ALTER COLUMN ", n->name, " DROP IDENTITY") < 0) return -1;
    }
    if (!same_text(b->default_sql, n->default_sql)) {
        if (n->default_sql == NULL) {
            if (alter(a, " ALTER COLUMN ", n->name, " DROP DEFAULT") < 0) return -1;
        } else {
            struct buf d = BUF_INIT(MiB(1));
            const char *t = buf_addf(&d, a->e, " SET DEFAULT %s", n->default_sql) < 0 ? NULL : buf_str(&d, a->e);
            int rc = t == NULL ? -1 : alter(a, " ALTER COLUMN ", n->name, t);
            buf_free(&d);
            if (rc < 0) return -1;
        }
    }
    if (b->ident == IDENT_NONE && n->ident != IDENT_NONE)
        return alter(a, " ALTER COLUMN ", n->name, n->ident == IDENT_ALWAYS ? " ADD GENERATED ALWAYS AS IDENTITY" : " ADD GENERATED BY DEFAULT AS IDENTITY");
    return 0;
}

static int change_columns(struct alter *a) {
    for (uint16_t i = 0; i < a->after->ncols; i++) {
        const struct column *n = &a->after->cols[i];
        int at = counterpart(a, a->before, n);
        if (at < 0) continue;
        const struct column *b = &a->before->cols[at];
        if (!same_text(b->generated, n->generated)) {
            if (!tg_native(a->after)) return refuse(a, MARKER_NONE, "column '%s' began or ceased to be generated", n->name);
            if (n->generated != NULL) return refuse(a, MARKER_NONE, "the expression of the generated column '%s' changed", n->name);
            if (alter(a, " ALTER COLUMN ", n->name, " DROP EXPRESSION") < 0) return -1;
        }
        if (n->generated != NULL && !tg_native(a->after)) continue;
        if (b->not_null && !n->not_null && alter_column(a, " ALTER COLUMN ", n->name, " DROP NOT NULL") < 0) return -1;
        /* a default of the old type may not fit the new one */
        bool moved = b->default_sql != NULL && !same_text(b->default_sql, n->default_sql) && tg_native(a->after) && !same_text(b->native, n->native);
        if (moved && alter(a, " ALTER COLUMN ", n->name, " DROP DEFAULT") < 0) return -1;
        if (retype(a, i, b) < 0 || set_default(a, b, n) < 0) return -1;
    }
    return 0;
}

static int add_columns(struct alter *a) {
    for (uint16_t i = 0; i < a->after->ncols; i++) {
        const struct column *n = &a->after->cols[i];
        if (counterpart(a, a->before, n) >= 0 || (n->generated != NULL && !tg_native(a->after))) continue;
        const struct column *has = shared(a, n->name);
        if (has != NULL && same_text(has->native, n->native)) continue;
        if (tg_name_check("column's", n->name, a->e) < 0) return -1;
        bool fills = n->generated == NULL && (n->ident != IDENT_NONE || (n->default_sql != NULL && !tg_constant_default(n->default_sql)));
        if (fills && !a->empty)
            return refuse(a, MARKER_NONE, "column '%s' was added with %s%s, so that the rows that were there have values which the log does not hold", n->name,
                          n->ident != IDENT_NONE ? "an identity" : "the computed default ", n->ident != IDENT_NONE ? "" : n->default_sql);
        struct buf d = BUF_INIT(MiB(1));
        const char *t = tg_column_ddl(&d, a->after, i, a->ns, a->e) < 0 ? NULL : buf_str(&d, a->e);
        int rc = t == NULL ? -1 : alter_column(a, " ADD COLUMN ", NULL, t);
        buf_free(&d);
        if (rc < 0) return -1;
    }
    return 0;
}

static int tighten(struct alter *a) {
    for (uint16_t i = 0; i < a->after->ncols; i++) {
        const struct column *n = &a->after->cols[i];
        int at = counterpart(a, a->before, n);
        if (at >= 0 && !a->before->cols[at].not_null && n->not_null && (n->generated == NULL || tg_native(a->after)) &&
            alter(a, " ALTER COLUMN ", n->name, " SET NOT NULL") < 0)
            return -1;
    }
    return 0;
}

/* ---- partitions ------------------------------------------------------------------------------------------------------ */

static bool is_partition(const char *options) { return options != NULL && strncmp(options, "PARTITION OF ", 13) == 0; }

/* ATTACH or DETACH: the parent's statement, with this table's name. */
static int attach(struct alter *a, const struct shape *s, bool on) {
    bool ignored;
    const char *p = s->options + 13, *dot = tg_skip_ident(p, "", &ignored), *end = *dot == '.' ? tg_skip_ident(dot + 1, "", &ignored) : dot;
    char *parent = mem_strndup(p, (size_t)(end - p), a->e);
    int rc = -1;
    buf_reset(&a->sql);
    if (parent == NULL || buf_adds(&a->sql, "ALTER TABLE ", a->e) < 0 || tg_options_text(&a->sql, s, parent, a->ns, a->e) < 0 ||
        buf_adds(&a->sql, on ? " ATTACH PARTITION " : " DETACH PARTITION ", a->e) < 0 || pg_qualified(&a->sql, a->ns, a->name, a->e) < 0)
        goto out;
    if (on) {
        const char *by = strstr(end, " PARTITION BY ");
        if (buf_add(&a->sql, end, by != NULL ? (size_t)(by - end) : strlen(end), a->e) < 0) goto out;
    }
    const char *sql = buf_str(&a->sql, a->e);
    if (sql == NULL) goto out;
    rc = pg_do(a->c, sql, NULL, a->e);
    if (rc < 0 && a->e->class == ERR_REFUSE) {
        struct err inner = *a->e;
        rc = refuse(a, MARKER_NONE, "%s", inner.msg);
    }
out:
    mem_free(parent);
    return rc;
}

static int change_options(struct alter *a, bool late) {
    const char *b = a->before->options, *n = a->after->options;
    if (!tg_native(a->after) || same_text(b, n)) return 0;
    if (!late) return is_partition(b) ? attach(a, a->before, false) : 0;
    if (is_partition(n)) return attach(a, a->after, true);
    if (is_partition(b) && n == NULL) return 0;
    return refuse(a, MARKER_NONE, "its options went from '%s' to '%s'", b != NULL ? b : "", n != NULL ? n : "");
}

/* ---- the whole ------------------------------------------------------------------------------------------------------- */

static int is_empty(struct alter *a) {
    struct buf q = BUF_INIT(KiB(1));
    char *sql = NULL, got[8];
    int rc = -1;
    if (pg_qualified(&q, a->top_ns, a->top_name, a->e) < 0) goto out;
    const char *name = buf_str(&q, a->e);
    if (name == NULL || (sql = tg_sql("target_has_rows", NULL, "{tbl}", name, a->e)) == NULL) goto out;
    if (pg_scalar(a->c, sql, 0, NULL, NULL, got, sizeof got, NULL, a->e) < 0) {
        struct err inner = *a->e;
        if (inner.class == ERR_REFUSE) refuse(a, MARKER_NONE, "%s", inner.msg);
        goto out;
    }
    a->empty = got[0] == 'f';
    rc = 0;
out:
    mem_free(sql);
    buf_free(&q);
    return rc;
}

static int follow(struct alter *a, const char *ns, const char *name) {
    if (a->before->oid != 0 && a->after->oid != 0 && a->before->oid != a->after->oid)
        return refuse(a, MARKER_NONE, "it was dropped and created anew under the same name");
    if (check_order(a) < 0 || find_top(a) < 0 || is_empty(a) < 0 || rename_table(a, ns, name) < 0 || change_options(a, false) < 0 || find_top(a) < 0 ||
        rename_columns(a) < 0 || drop_columns(a) < 0 || drop_keys(a) < 0 || change_columns(a) < 0 || add_columns(a) < 0 || tighten(a) < 0)
        return -1;
    for (int stage = 0; stage < 3; stage++)
        if (tg_table_finish_on(a->c, a->after, ns, name, stage, NULL, NULL, a->e) < 0) return -1;
    return change_options(a, true);
}

static int create(struct alter *a, const char *ns, const char *name) {
    char got[8];
    bool found = false;
    const char *p[2] = {ns, name};
    if (pg_scalar(a->c, embed_sql("postgres/target_relation_kind"), 2, p, "look for the new table", got, sizeof got, &found, a->e) < 0) return -1;
    if (found) return refuse(a, MARKER_NONE, "it is new, and the target has a relation '%s.%s' already", ns, name);
    if (tg_table_create_on(a->c, a->after, ns, name, a->e) < 0) return -1;
    for (int stage = 0; stage < 3; stage++)
        if (tg_table_finish_on(a->c, a->after, ns, name, stage, NULL, NULL, a->e) < 0) return -1;
    return 0;
}

/* Only its owner may change a table: name that role. */
static void owner_hint(struct alter *a) {
    struct err e = {0};
    char owner[64] = "";
    const char *p[2] = {a->ns, a->name};
    if (pg_scalar(a->c, embed_sql("postgres/target_table_owner"), 2, p, "find a table's owner", owner, sizeof owner, NULL, &e) == 0 && *owner != 0)
        err_hint(a->e, "GRANT \"%s\" TO \"%s\": a table's shape is changed by its owner", owner, PQuser(a->c));
}

int tg_table_alter(struct lane *l, const struct shape *before, const struct shape *after, const char *old_ns, const char *old_name, const char *ns,
                   const char *name, const struct mark *m, struct err *e) {
    struct alter a = {.c = l->c, .before = before, .after = after, .ns = old_ns != NULL ? old_ns : ns, .name = old_name != NULL ? old_name : name,
                      .sql = BUF_INIT(MiB(4)), .e = e};
    int rc = -1;
    if (l->c == NULL || PQstatus(l->c) != CONNECTION_OK) return err_set(e, CODE_UNREACHABLE, "the lane's connection is closed");
    shape_label(after, a.label);
    tg_rollback(l->c);
    if (tg_begin(l->c, e) < 0 || lane_mark(l, m, e) < 0) goto out;
    if ((before == NULL ? create(&a, ns, name) : follow(&a, ns, name)) < 0) {
        if (e->class == ERR_REFUSE && e->marker == MARKER_NONE && e->code != CODE_PRIVILEGE) {
            struct err inner = *e;
            refuse(&a, MARKER_NONE, "%s", inner.msg);
        }
        goto out;
    }
    if (FAULT("postgres.alter_before_commit", e) < 0 || tg_commit(l->c, e) < 0) goto out;
    rc = FAULT("postgres.alter_after_commit", e);
out:
    tg_rollback(l->c);
    if (rc < 0 && e->code == CODE_PRIVILEGE && e->hint[0] == 0) owner_hint(&a);
    PQclear(a.top);
    shape_free(a.is);
    buf_free(&a.sql);
    return rc;
}
