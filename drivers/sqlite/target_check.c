/* Does a target table take what the source has? Asked before anything changes.
 *
 * DESIGN
 * 1. Every value of the source must come back as it was, so a column's affinity must leave the storage class alone that we bind.
 * 2. Two tables fit when they have the same stored columns, in the same order, and the target forbids nothing the source allows.
 * 3. A unique key of the target must follow from one of the source's: else two rows that live side by side there could not here.
 * 4. A key of the target may tell apart more than the source's, never less: NOCASE or RTRIM under a bytewise source merges rows. What a
 *    collation that SQLite does not have holds equal cannot be guarded at all. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "drivers/sqlite/target_impl.h"
#include "engine/base/text.h"

static int unsupported(const struct shape *src, const struct column *c, const char *why, struct err *e) {
    char label[160];
    err_set(e, CODE_TYPE_UNSUPPORTED, "table '%s', column '%s' (%s): %s", shape_label(src, label), c->name,
            c->native ? c->native : ltype_name(c->type), why);
    return err_hint(e, "leave the table out with --exclude-table %s", src->name);
}

/* ---- one shape alone ---- */

static int columns_fold(const struct shape *src, struct err *e) {
    char label[160];
    for (uint16_t i = 0; i < src->ncols; i++)
        for (uint16_t j = 0; j < i; j++)
            if (sqt_name_same(src->cols[i].name, src->cols[j].name)) {
                err_set(e, CODE_NAME_COLLISION,
                        "columns '%s' and '%s' of table '%s' would become one on a SQLite target, where ASCII case is ignored",
                        src->cols[j].name, src->cols[i].name, shape_label(src, label));
                return err_hint(e, "rename one of them, or leave the table out with --exclude-table %s", src->name);
            }
    return 0;
}

static int name_taken(const struct shape *src, struct err *e) {
    char label[160];
    if (sqt_is_own(src) || strncasecmp(src->name, "sqlite_", 7) != 0) return 0;
    err_set(e, CODE_NAME_COLLISION, "table '%s' cannot be made on a SQLite target, which keeps names that begin with 'sqlite_' to itself",
            shape_label(src, label));
    return err_hint(e, "rename it on the source, or leave it out with --exclude-table %s", src->name);
}

static int types_carried(const struct shape *src, struct err *e) {
    char type[48];
    if (sqt_is_own(src)) return 0;
    if (src->ncols == 0) {
        char label[160];
        err_set(e, CODE_TYPE_UNSUPPORTED, "table '%s' has no columns, which SQLite does not know", shape_label(src, label));
        return err_hint(e, "leave it out with --exclude-table %s", src->name);
    }
    for (uint16_t i = 0; i < src->ncols; i++) {
        const struct column *c = &src->cols[i];
        if (sqt_declared(c, type) < 0) return unsupported(src, c, "a SQLite target has no exact form for this type", e);
        if (c->generated) return unsupported(src, c, "a generated column's expression is written in the source's own language", e);
    }
    return 0;
}

/* ---- two shapes ---- */

static int diverged(const struct shape *src, struct err *e) {
    err_mark(e, MARKER_RESUME_SCHEMA_DIVERGENCE, MARKER_NONE);
    return err_hint(e, "make the target's table '%s' match the source's, or rebuild with --reset-target-data", src->name);
}

/* The storage class a value of the column is bound in: i, r, t, b. */
static char class_of(const struct shape *src, const struct column *c) {
    switch (sqt_conv(src, c)) {
    case CONV_INT:
    case CONV_BOOL: return 'i';
    case CONV_REAL: return 'r';
    case CONV_BLOB: return 'b';
    default: return 't';
    }
}

/* Invariant 1. */
static bool keeps(const struct shape *src, const struct column *c, const struct shape *dst, const struct column *d) {
    enum sq_affinity a = sq_affinity(d->native, dst->strict);
    if (sqt_is_own(src))
        return src->strict == dst->strict && sq_affinity(c->native, src->strict) == a &&
               (!dst->strict || sqt_name_same(c->native, d->native));
    char class = class_of(src, c);
    if (a == SQ_AFF_BLOB) return !dst->strict || sqt_name_same(d->native, "ANY") || class == 'b';
    switch (class) {
    case 'i': return a == SQ_AFF_INTEGER || (a == SQ_AFF_NUMERIC && !dst->strict);
    case 'r': return a == SQ_AFF_REAL;
    case 'b': return !dst->strict;
    default: /* texts that no affinity takes for a number */
        if (a == SQ_AFF_TEXT) return true;
        return a == SQ_AFF_NUMERIC && !dst->strict &&
               (c->type == LT_DATE || c->type == LT_TIME || c->type == LT_TIMESTAMP || c->type == LT_TIMESTAMPTZ || c->type == LT_UUID);
    }
}

static bool in_primary(const struct shape *s, uint16_t c) {
    for (uint16_t i = 0; s->primary >= 0 && i < s->keys[s->primary].ncols; i++)
        if (s->keys[s->primary].cols[i] == c) return true;
    return false;
}

static int column_fits(const struct shape *src, uint16_t i, const struct shape *dst, uint16_t j, struct err *e) {
    const struct column *c = &src->cols[i], *d = &dst->cols[j];
    char label[160];
    shape_label(src, label);
    if (!c->generated != !d->generated) {
        err_set(e, CODE_SHAPE_CHANGED, "column '%s' of table '%s' is generated on one side only", c->name, label);
        return diverged(src, e);
    }
    if (c->generated) return 0;
    if (!keeps(src, c, dst, d)) {
        err_set(e, CODE_SHAPE_CHANGED, "column '%s' of table '%s' is '%s' on the source, but '%s' on the target, which would change values",
                c->name, label, c->native, d->native);
        return diverged(src, e);
    }
    if (d->not_null && !c->not_null && !(in_primary(src, i) && in_primary(dst, j))) {
        err_set(e, CODE_SHAPE_CHANGED, "column '%s' of table '%s' may be NULL on the source and not on the target", c->name, label);
        return diverged(src, e);
    }
    return 0;
}

static int shapes_fit(const struct shape *src, const struct shape *dst, struct err *e) {
    char label[160];
    int last = -1;
    bool moved = false;
    shape_label(src, label);
    for (uint16_t i = 0; i < src->ncols; i++) {
        int j = sqt_col(dst, src->cols[i].name);
        if (j < 0) {
            err_set(e, CODE_SHAPE_CHANGED, "table '%s' has a column '%s' that the target's table lacks", label, src->cols[i].name);
            return diverged(src, e);
        }
        if (column_fits(src, i, dst, (uint16_t)j, e) < 0) return -1;
        moved = moved || j < last;
        last = j;
    }
    for (uint16_t j = 0; j < dst->ncols; j++)
        if (sqt_col(src, dst->cols[j].name) < 0) {
            err_set(e, CODE_SHAPE_CHANGED, "the target's table '%s' has a column '%s' that the source's lacks", label, dst->cols[j].name);
            return diverged(src, e);
        }
    if (!moved) return 0;
    err_set(e, CODE_SHAPE_CHANGED,
            "the columns of table '%s' stand in another order on the target: names may have been swapped on one side", label);
    err_mark(e, MARKER_COLUMN_ORDER_CHANGED, MARKER_NONE);
    return err_hint(e, "put the target's columns into the source's order, or rebuild with --reset-target-data");
}

int sqt_compatible(struct target *t, const struct shape *src, const struct shape *dst, struct err *e) {
    (void)t;
    if (name_taken(src, e) < 0 || columns_fold(src, e) < 0 || types_carried(src, e) < 0) return -1;
    return dst ? shapes_fit(src, dst, e) : 0;
}

/* ---- keys ---- */

static bool unique(const struct key *k) {
    return k->kind == KEY_PRIMARY || k->kind == KEY_UNIQUE;
}

/* Position of the source column c in a key, or -1. */
static int at_in_key(const struct shape *s, const struct key *k, const char *name) {
    for (uint16_t i = 0; i < k->ncols; i++)
        if (sqt_name_same(s->cols[k->cols[i]].name, name)) return i;
    return -1;
}

/* Does the source's key `k` forbid what the target's `d` forbids, as far as columns go? */
static bool implies(const struct shape *src, const struct key *k, const struct shape *dst, const struct key *d) {
    if (!unique(k)) return false;
    if (k->partial || k->expression || d->expression)
        return sqt_is_own(src) && k->partial == d->partial && k->expression == d->expression && k->def && d->def &&
               sqt_same_text(k->def, d->def);
    for (uint16_t i = 0; i < k->ncols; i++)
        if (at_in_key(dst, d, src->cols[k->cols[i]].name) < 0) return false;
    return k->ncols > 0;
}

/* Invariant 4: may the target's equality stand for the source's? */
static bool no_coarser(enum equality s, enum equality d) {
    return d == EQ_BYTES || d == EQ_NUMERIC || s == d;
}

static int key_text(const struct shape *s, const struct key *k, char *out, size_t n) {
    size_t at = (size_t)snprintf(out, n, "%s(", k->name ? k->name : "");
    for (uint16_t i = 0; i < k->ncols && at < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%s", i ? ", " : "", s->cols[k->cols[i]].name);
    if (at < n) snprintf(out + at, n - at, ")");
    return 0;
}

static int merge(const struct shape *src, const struct column *c, enum equality s, enum equality d, struct err *e) {
    char label[160];
    shape_label(src, label);
    if (s == EQ_NONDET)
        err_set(e, CODE_TARGET_KEYS, "key column '%s' of table '%s' is compared under collation '%s', which a SQLite target cannot guard",
                c->name, label, c->collation ? c->collation : "unknown");
    else
        err_set(e, CODE_TARGET_KEYS,
                "key column '%s' of table '%s': the target compares it %s, the source %s, so rows of the source would become one", c->name,
                label, d == EQ_NONDET ? "under a collation of its own" : sqt_collation(d),
                s == EQ_BYTES || s == EQ_NUMERIC ? "bytewise" : sqt_collation(s));
    err_mark(e, MARKER_KEY_COLLATION_MERGE, s == EQ_NONDET || d == EQ_NONDET ? MARKER_KEY_COLLATION_GUARD_UNSUPPORTED : MARKER_NONE);
    if (s == EQ_NONDET)
        return err_hint(e, "give the source's key a deterministic collation, or leave the table out with --exclude-table %s", src->name);
    return err_hint(e, "make the target's key column '%s' COLLATE %s, then start it again", c->name, sqt_collation(s));
}

static int collations(const struct shape *src, const struct key *k, const struct shape *dst, const struct key *d, struct err *e) {
    for (uint16_t i = 0; i < k->ncols; i++) {
        const struct column *c = &src->cols[k->cols[i]];
        int at = at_in_key(dst, d, c->name);
        enum equality s = sqt_key_equality(src, k, i), q = at < 0 ? EQ_BYTES : sqt_key_equality(dst, d, (uint16_t)at);
        if (c->type != LT_TEXT && !sqt_is_own(src)) continue; /* digits and dates have no case and no trailing blanks */
        if (s == EQ_NONDET || !no_coarser(s, q)) return merge(src, c, s, q, e);
    }
    return 0;
}

int sqt_keys_check(struct target *t, const struct shape *src, const struct shape *dst, struct err *e) {
    char label[160], key[400];
    (void)t;
    /* without a table there yet: only what no table could guard */
    for (uint16_t i = 0; i < src->nkeys; i++)
        for (uint16_t c = 0; unique(&src->keys[i]) && c < src->keys[i].ncols; c++)
            if (sqt_key_equality(src, &src->keys[i], c) == EQ_NONDET && !sqt_is_own(src))
                return merge(src, &src->cols[src->keys[i].cols[c]], EQ_NONDET, EQ_BYTES, e);
    for (uint16_t i = 0; dst && i < dst->nkeys; i++) {
        const struct key *d = &dst->keys[i], *found = NULL;
        if (!unique(d)) continue;
        for (uint16_t k = 0; k < src->nkeys; k++) {
            if (!implies(src, &src->keys[k], dst, d)) continue;
            found = &src->keys[k];
            if (collations(src, found, dst, d, &(struct err){0}) == 0) break; /* one that fits wholly is enough */
        }
        if (!found) {
            key_text(dst, d, key, sizeof key);
            err_set(e, CODE_TARGET_KEYS, "the target's table '%s' has a unique key %s that no key of the source implies",
                    shape_label(src, label), key);
            err_mark(e, MARKER_SOURCE_UNIQUE_KEY_ABSENT, MARKER_NONE);
            return err_hint(e, "drop that key on the target, then start it again");
        }
        if (collations(src, found, dst, d, e) < 0) return -1;
    }
    return 0;
}
