/* Before a row is written: can the target hold the source's values, and do its keys keep apart what the source keeps apart? */
#include <stdio.h>
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/convert.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"

static int diverges(struct err *e, const char *hint) {
    err_hint(e, "%s", hint);
    return err_mark(e, MARKER_RESUME_SCHEMA_DIVERGENCE, MARKER_NONE);
}
#define MATCH_HINT "make the target's table match the source, then start again"

static int check_names(const struct shape *src, struct err *e) {
    char label[160];
    size_t stored = 0;
    if (tg_name_check("table's", src->name, e) < 0 || tg_name_check("schema's", src->ns, e) < 0) return -1;
    if (src->ncols > 1600)
        return err_set(e, CODE_TYPE_UNSUPPORTED, "table '%s' has %u columns, and a PostgreSQL table at most 1600", shape_label(src, label), src->ncols);
    for (uint16_t c = 0; c < src->ncols; c++) {
        if (tg_name_check("column's", src->cols[c].name, e) < 0) return err_wrap(e, "table '%s'", shape_label(src, label));
        for (uint16_t k = 0; k < c; k++)
            if (strcmp(src->cols[c].name, src->cols[k].name) == 0)
                return err_set(e, CODE_NAME_COLLISION, "table '%s' has two columns '%s'", shape_label(src, label), src->cols[c].name);
        stored += src->cols[c].generated == NULL;
    }
    if (stored == 0 && !(src->options != NULL && strstr(src->options, "PARTITION BY") != NULL))
        return err_set(e, CODE_TYPE_UNSUPPORTED, "table '%s' has no column that holds a value", shape_label(src, label));
    if (tg_native(src))
        for (uint16_t k = 0; k < src->nkeys; k++)
            if (src->keys[k].name != NULL && tg_name_check("key's", src->keys[k].name, e) < 0) return -1;
    return 0;
}

int tg_compatible(struct target *t, const struct shape *src, const struct shape *dst, struct err *e) {
    char label[160], dlabel[160];
    struct buf b = BUF_INIT(KiB(16));
    int rc = -1;
    (void)t;
    if (check_names(src, e) < 0) return -1;
    for (uint16_t c = 0; c < src->ncols; c++) {
        buf_reset(&b);
        /* what this driver did not read must have a type here, whatever the table */
        if (src->cols[c].generated == NULL && tg_type_text(&b, src, c, e) < 0) goto out;
    }
    rc = 0;
    if (dst == NULL) goto out;
    rc = -1;
    shape_label(src, label);
    shape_label(dst, dlabel);
    for (uint16_t c = 0; c < src->ncols; c++) {
        const struct column *from = &src->cols[c];
        int at = shape_col(dst, from->name);
        if (from->generated != NULL) {
            if (tg_native(src) && at >= 0 && dst->cols[at].generated == NULL) {
                err_set(e, CODE_SHAPE_CHANGED, "table '%s': column '%s' is generated on the source, and a plain column of '%s' on the target", label, from->name, dlabel);
                diverges(e, MATCH_HINT);
                goto out;
            }
            continue;
        }
        if (at < 0 || dst->cols[at].generated != NULL) {
            err_set(e, CODE_SHAPE_CHANGED, "table '%s': column '%s' %s in '%s' on the target", label, from->name, at < 0 ? "is missing" : "is generated", dlabel);
            diverges(e, MATCH_HINT);
            goto out;
        }
        const struct column *to = &dst->cols[at];
        int fit = tg_fit(src, from, to);
        if (fit == CONVERT_NEVER || (fit == CONVERT_CHECKED && tg_native(src))) {
            err_set(e, CODE_SHAPE_CHANGED, "table '%s': column '%s' is '%s' on the source and '%s' in '%s' on the target, which cannot hold all its values", label,
                    from->name, from->native != NULL ? from->native : ltype_name(from->type), to->native, dlabel);
            diverges(e, MATCH_HINT);
            goto out;
        }
        if (to->not_null && !from->not_null && !(src->primary >= 0 && shape_in_identity(src, c)) && !(src->identity >= 0 && shape_in_identity(src, c))) {
            err_set(e, CODE_SHAPE_CHANGED, "table '%s': column '%s' may be NULL on the source and not in '%s' on the target", label, from->name, dlabel);
            diverges(e, MATCH_HINT);
            goto out;
        }
    }
    for (uint16_t c = 0; c < dst->ncols; c++) {
        const struct column *to = &dst->cols[c];
        if (shape_col(src, to->name) >= 0 || to->generated != NULL) continue;
        if (to->not_null && to->default_sql == NULL && to->ident == IDENT_NONE) {
            err_set(e, CODE_SHAPE_CHANGED, "table '%s': the target's column '%s' is NOT NULL without a default, and the source has no such column", dlabel, to->name);
            diverges(e, MATCH_HINT);
            goto out;
        }
        log_warn("the target's table has a column that the source lacks; it keeps its default", KV_STR("table", dlabel), KV_STR("column", to->name));
    }
    rc = 0;
out:
    buf_free(&b);
    return rc;
}

/* ---- keys ------------------------------------------------------------------------------------------------------------ */

/* What stands behind the table's name in CREATE INDEX: method, columns, predicate. */
static const char *index_tail(const char *def) {
    const char *p = def != NULL ? strstr(def, " USING ") : NULL;
    return p != NULL ? p : def;
}

static bool same_def(const struct key *a, const struct key *b) {
    if (a->def == NULL || b->def == NULL) return false;
    if (a->constraint && b->constraint) return strcmp(a->def, b->def) == 0;
    return !a->constraint && !b->constraint && strcmp(index_tail(a->def), index_tail(b->def)) == 0;
}

/* Does a key of the source make sure that this key of the target is never violated? Its columns must be among the target key's. */
static bool implied(const struct shape *src, const struct shape *dst, const struct key *k) {
    for (uint16_t i = 0; i < src->nkeys; i++) {
        const struct key *s = &src->keys[i];
        if (s->kind != KEY_PRIMARY && s->kind != KEY_UNIQUE && s->kind != KEY_EXCLUDE) continue;
        if (tg_native(src) && (s->kind == KEY_EXCLUDE) == (k->kind == KEY_EXCLUDE) && same_def(s, k)) return true;
        if (s->kind == KEY_EXCLUDE || k->kind == KEY_EXCLUDE || s->partial || s->expression || s->ncols == 0 || k->expression) continue;
        bool all = true, may_null = false;
        for (uint16_t c = 0; c < s->ncols && all; c++) {
            bool in = false;
            for (uint16_t d = 0; d < k->ncols && !in; d++) in = strcmp(src->cols[s->cols[c]].name, dst->cols[k->cols[d]].name) == 0;
            all = in;
            may_null |= !src->cols[s->cols[c]].not_null && s->kind != KEY_PRIMARY;
        }
        /* NULLs that are equal here and differ there */
        if (all && !(k->nulls_not_distinct && !s->nulls_not_distinct && may_null)) return true;
    }
    return false;
}

static int absent(const struct shape *dst, const struct key *k, struct err *e) {
    char label[160], cols[400] = "";
    size_t n = 0;
    for (uint16_t c = 0; c < k->ncols && n + 80 < sizeof cols; c++) {
        int w = snprintf(cols + n, sizeof cols - n, "%s%.64s", c > 0 ? ", " : "", dst->cols[k->cols[c]].name);
        n += w > 0 ? (size_t)w : 0;
    }
    err_set(e, CODE_TARGET_KEYS, "table '%s' on the target has the unique key '%s' (%s%s) that no key of the source implies: rows that may stand side by side there "
            "would conflict here", shape_label(dst, label), k->name, cols, k->expression ? " and an expression" : k->partial ? " under a condition" : "");
    err_hint(e, "drop that key on the target; where rows may have merged already, rebuild with --reset-target-data");
    return err_mark(e, MARKER_SOURCE_UNIQUE_KEY_ABSENT, MARKER_NONE);
}

static bool weak(enum equality q) { return q == EQ_NOCASE || q == EQ_RTRIM || q == EQ_NONDET; }

static int collation(const struct shape *src, const struct shape *dst, const struct key *k, struct err *e) {
    char label[160];
    for (uint16_t c = 0; c < k->ncols; c++) {
        const struct column *to = &dst->cols[k->cols[c]];
        int at = shape_col(src, to->name);
        if (at < 0) continue;
        enum equality here = k->equality != NULL ? k->equality[c] : to->equality, there = src->cols[at].equality;
        /* the source's own key over that column decides how it compares there */
        for (uint16_t i = 0; i < src->nkeys; i++)
            for (uint16_t d = 0; d < src->keys[i].ncols; d++)
                if (src->keys[i].cols[d] == at && (src->keys[i].kind == KEY_PRIMARY || src->keys[i].kind == KEY_UNIQUE) && src->keys[i].equality != NULL)
                    there = src->keys[i].equality[d];
        /* only what has a collation can have a nondeterministic one */
        bool collatable = to->type == LT_TEXT || to->type == LT_NATIVE || to->type == LT_ARRAY;
        if (here == EQ_NONDET && !collatable) continue;
        const char *hc = to->collation, *sc = src->cols[at].collation;
        bool same_collation = tg_native(src) && hc != NULL && sc != NULL && strcmp(hc, sc) == 0;
        if (!weak(here) || (here == there && (here != EQ_NONDET || same_collation))) continue;
        err_set(e, CODE_TARGET_KEYS, "table '%s', key '%s': column '%s' takes values for equal on the target (%s%s%s) that the source keeps apart",
                shape_label(dst, label), k->name, to->name, here == EQ_NONDET ? "nondeterministic collation" : here == EQ_RTRIM ? "trailing blanks ignored" : "case ignored",
                hc != NULL ? " " : "", hc != NULL ? hc : "");
        err_hint(e, "give the column COLLATE \"C\" and a type that compares bytewise on the target (ALTER TABLE … ALTER COLUMN … TYPE text COLLATE \"C\"), then start again");
        return err_mark(e, MARKER_KEY_COLLATION_MERGE, here == EQ_NONDET ? MARKER_KEY_COLLATION_GUARD_UNSUPPORTED : MARKER_NONE);
    }
    return 0;
}

int tg_keys_check(struct target *t, const struct shape *src, const struct shape *dst, struct err *e) {
    (void)t;
    for (uint16_t i = 0; dst != NULL && i < dst->nkeys; i++) {
        const struct key *k = &dst->keys[i];
        if (k->kind != KEY_PRIMARY && k->kind != KEY_UNIQUE && k->kind != KEY_EXCLUDE) continue;
        if (collation(src, dst, k, e) < 0) return -1;
        if (!implied(src, dst, k)) return absent(dst, k, e);
    }
    return 0;
}
