/* DESIGN
 * 1. Columns are the same when their ids are. Without ids they go by name, and then a column gone beside a new one may be a rename:
 *    refused.
 * 2. Two names that changed places mean values under the wrong name for whoever goes by name: COLUMN-ORDER-CHANGED.
 * 3. A column of another engine that got another type is followed when every value it can hold is spelled the same here, or by a rule below
 *    that moves digits and nothing else. Anything else is refused: the source rewrote values that its log does not hold. */
#include "drivers/sqlite/target_diff.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

int sqt_shape_refused(const struct shape *s, struct err *e) {
    err_mark(e, MARKER_SCHEMA_CHANGE_REFUSED, MARKER_NONE);
    return err_hint(e, "make the same change on the target's table '%s' by hand and take a new full, or rebuild with --reset-target-data",
                    s->name);
}

void sqt_diff_free(struct shape_diff *d) {
    for (uint16_t i = 0; d->expr && i < d->after->ncols; i++)
        buf_free(&d->expr[i]);
    mem_free(d->expr);
    mem_free(d->from);
    mem_free(d->gone);
    memset(d, 0, sizeof *d);
}

static bool all_ids(const struct shape *s) {
    for (uint16_t i = 0; i < s->ncols; i++) {
        if (s->cols[i].id <= 0) return false;
        for (uint16_t j = 0; j < i; j++)
            if (s->cols[j].id == s->cols[i].id) return false;
    }
    return true;
}

static void match(struct shape_diff *d) {
    for (uint16_t j = 0; j < d->before->ncols; j++)
        d->gone[j] = true;
    for (uint16_t i = 0; i < d->after->ncols; i++) {
        const struct column *c = &d->after->cols[i];
        d->from[i] = -1;
        if (!d->by_id) d->from[i] = sqt_col(d->before, c->name);
        for (uint16_t j = 0; d->by_id && j < d->before->ncols; j++)
            if (d->before->cols[j].id == c->id) d->from[i] = j;
        if (d->from[i] < 0) {
            d->nadded++;
            continue;
        }
        d->gone[d->from[i]] = false;
        if (strcmp(d->before->cols[d->from[i]].name, c->name) != 0) d->nrenamed++;
    }
    for (uint16_t j = 0; j < d->before->ncols; j++)
        d->ngone += d->gone[j];
}

/* Invariant 2. A name that went to a new column after its old one was dropped has not changed places. */
static int order_kept(const struct shape_diff *d, struct err *e) {
    char label[160];
    int last = -1;
    if (sqt_is_own(d->after) && d->by_id) return 0; /* the source's own text says which column stands where */
    for (uint16_t i = 0; i < d->after->ncols; i++) {
        int j = sqt_col(d->before, d->after->cols[i].name);
        if (j < 0 || d->gone[j]) continue;
        if (j < last) {
            err_set(e, CODE_SHAPE_CHANGED, "columns '%s' and '%s' of table '%s' changed places on the source", d->before->cols[last].name,
                    d->after->cols[i].name, shape_label(d->after, label));
            err_mark(e, MARKER_COLUMN_ORDER_CHANGED, MARKER_NONE);
            return err_hint(e, "rebuild with --reset-target-data");
        }
        last = j;
    }
    return 0;
}

static bool same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_int(const struct column *c) {
    return c->type == LT_INT16 || c->type == LT_INT32 || c->type == LT_INT64 || c->type == LT_UINT16 || c->type == LT_UINT32;
}

static bool padded(const struct column *c) { /* char(n) pads with blanks */
    return c->native && (strncmp(c->native, "bpchar", 6) == 0 || strcmp(c->native, "character") == 0 ||
                         strncmp(c->native, "character(", 10) == 0 || strncmp(c->native, "char(", 5) == 0);
}

static bool wider(int32_t before, int32_t after) {
    return before == after || after < 0 || (before >= 0 && after >= before);
}

/* Invariant 3. *fine: it can be followed; the expression is empty when values stay as they are. */
static int retype(const struct column *b, const struct column *a, struct buf *expr, bool *fine, struct err *e) {
    bool text = a->type == LT_TEXT && a->length < 0 && !padded(a);
    *fine = true;
    if (is_int(b) && is_int(a)) return 0;
    if (b->type == a->type) {
        if (a->type == LT_NUMERIC)
            *fine = (a->precision <= 0 || (b->precision > 0 && b->scale == a->scale && a->precision >= b->precision));
        else if (a->type == LT_TEXT) *fine = !padded(b) && !padded(a) && wider(b->length, a->length);
        else *fine = wider(b->precision, a->precision) && wider(b->length, a->length);
        return 0;
    }
    if (is_int(b) && (text || a->type == LT_NUMERIC)) {
        if (buf_adds(expr, "CAST(", e) < 0 || text_ident(expr, b->name, e) < 0 || buf_adds(expr, " AS TEXT)", e) < 0) return -1;
        if (a->type != LT_NUMERIC || a->precision <= 0 || a->scale <= 0) return 0;
        if (buf_adds(expr, "||'.", e) < 0) return -1;
        for (int i = 0; i < a->scale; i++)
            if (buf_addc(expr, '0', e) < 0) return -1;
        return buf_addc(expr, '\'', e);
    }
    if ((b->type == LT_INT16 || b->type == LT_INT32) && a->type == LT_FLOAT8) {
        if (buf_adds(expr, "CAST(", e) < 0 || text_ident(expr, b->name, e) < 0) return -1;
        return buf_adds(expr, " AS REAL)", e);
    }
    if (text && (b->type == LT_NUMERIC || b->type == LT_UUID || b->type == LT_JSON)) return 0;
    *fine = false;
    return 0;
}

static int columns(struct shape_diff *d, struct err *e) {
    bool own = sqt_is_own(d->after), fine;
    char label[160];
    shape_label(d->after, label);
    for (uint16_t i = 0; i < d->after->ncols; i++) {
        const struct column *a = &d->after->cols[i], *b = d->from[i] < 0 ? NULL : &d->before->cols[d->from[i]];
        if (!b) continue;
        bool retyped = !same(a->native, b->native) || a->type != b->type;
        if (own) {
            if (retyped || !same(a->collation, b->collation) || !same(a->default_sql, b->default_sql) ||
                !same(a->generated, b->generated) || a->not_null != b->not_null || a->generated_stored != b->generated_stored ||
                a->ident != b->ident)
                d->redefined = true;
            continue;
        }
        if (a->equality != b->equality && a->type == LT_TEXT &&
            (a->equality == EQ_RTRIM || b->equality == EQ_RTRIM || a->equality == EQ_NOCASE || b->equality == EQ_NOCASE))
            d->redefined = true;
        if (b->not_null && !a->not_null) d->relaxed = true;
        if (!same(a->default_sql, b->default_sql))
            log_info("a changed default is not followed by the target", KV_STR("table", label), KV_STR("column", a->name));
        if (!retyped) continue;
        if (retype(b, a, &d->expr[i], &fine, e) < 0) return -1;
        if (!fine) {
            err_set(e, CODE_SHAPE_CHANGED,
                    "column '%s' of table '%s' became '%s' from '%s' on the source, which rewrites values that the log does not hold",
                    a->name, label, a->native, b->native);
            return sqt_shape_refused(d->after, e);
        }
        if (d->expr[i].n) d->converts = true;
        log_warn("a column got another type: the target follows as if no USING expression changed its values", KV_STR("table", label),
                 KV_STR("column", a->name), KV_STR("from", b->native), KV_STR("to", a->native));
    }
    return 0;
}

static void primary(struct shape_diff *d) {
    const struct key *b = d->before->primary < 0 ? NULL : &d->before->keys[d->before->primary],
                     *a = d->after->primary < 0 ? NULL : &d->after->keys[d->after->primary];
    d->rekeyed = !a != !b || (a && a->ncols != b->ncols);
    for (uint16_t i = 0; a && !d->rekeyed && i < a->ncols; i++)
        d->rekeyed = d->from[a->cols[i]] != b->cols[i];
}

int sqt_diff(const struct shape *before, const struct shape *after, struct shape_diff *d, struct err *e) {
    char label[160];
    memset(d, 0, sizeof *d);
    d->before = before;
    d->after = after;
    d->by_id = all_ids(before) && all_ids(after);
    if (!(d->from = mem_alloc((after->ncols + 1u) * sizeof *d->from, e)) ||
        !(d->gone = mem_alloc((before->ncols + 1u) * sizeof *d->gone, e)) ||
        !(d->expr = mem_alloc((after->ncols + 1u) * sizeof *d->expr, e)))
        goto fail;
    for (uint16_t i = 0; i < after->ncols; i++)
        d->expr[i] = BUF_INIT(KiB(16));
    match(d);
    if (!d->by_id && d->nadded && d->ngone) {
        err_set(e, CODE_SHAPE_CHANGED, "table '%s' lost and gained columns at once, and nothing tells a rename from a new column",
                shape_label(after, label));
        sqt_shape_refused(after, e);
        goto fail;
    }
    if (order_kept(d, e) < 0 || columns(d, e) < 0) goto fail;
    primary(d);
    return 0;
fail:
    sqt_diff_free(d);
    return -1;
}
