/* A source table bound to a target table: how each column's values are bound, and the statements' texts.
 *
 * DESIGN
 * 1. The conversion of a column is chosen once. A value that it cannot hold is refused with table, key and column, never rounded or
 *    replaced.
 * 2. Rows are found under the source's own equality: an explicit COLLATE, which the target's index serves when it has the same collation.
 * 3. A full image matches under `IS`, bytewise, and with the same storage class; of several equal rows exactly one is taken.
 * 4. A constraint's own ON CONFLICT clause never decides: every statement says OR ABORT.
 * 5. A table whose changes sluice captures as a source is no target: our sessions fire no trigger, so its own log would miss our rows. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/sqlite/target_impl.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define VALUE_MAX ((size_t)1000000000) /* SQLite's own limit */

static atomic_ulong table_ids;

static int diverged(struct err *e) {
    err_mark(e, MARKER_RESUME_SCHEMA_DIVERGENCE, MARKER_NONE);
    return err_hint(e, "make the target's table match the source's, or rebuild with --reset-target-data");
}

static bool key_is_unique(const struct key *k) {
    return (k->kind == KEY_PRIMARY || k->kind == KEY_UNIQUE) && !k->partial && !k->expression;
}

static bool bytewise(enum equality q) {
    return q == EQ_BYTES || q == EQ_NUMERIC;
}

/* Does a unique key of the target stand on exactly the identity's columns, with the source's notion of equal? */
static bool arbiter(const struct target_table *tt) {
    const struct key *id = tt->key;
    for (uint16_t k = 0; id && k < tt->dst->nkeys; k++) {
        const struct key *d = &tt->dst->keys[k];
        uint16_t same = 0;
        if (!key_is_unique(d) || d->ncols != id->ncols) continue;
        for (uint16_t i = 0; i < id->ncols; i++)
            for (uint16_t j = 0; j < d->ncols; j++)
                if (sqt_name_same(tt->src->cols[id->cols[i]].name, tt->dst->cols[d->cols[j]].name)) {
                    enum equality s = sqt_key_equality(tt->src, id, i), q = sqt_key_equality(tt->dst, d, j);
                    same += s == q || (bytewise(s) && bytewise(q));
                    break;
                }
        if (same == id->ncols) return true;
    }
    return false;
}

static int refuse_captured(struct target *t, const char *name, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool row = false;
    if (sqt_named(t->db, "sqlite/target_table_captured", &s, e) < 0) return -1;
    int rc = sqt_bind_str(s, ":name", name, e) < 0 ? -1 : sqt_step(s, &row, e);
    sqlite3_finalize(s);
    if (rc < 0 || !row) return rc;
    err_set(e, CODE_TARGET_CAPTURED,
            "table '%s' of the target is captured as a source itself: rows written here would be missing from its log", name);
    return err_hint(e, "use another file as target, or end that capture first");
}

int sqt_table_captured(struct target *t, const char *source_identity, const struct shape *src, const char *ns, const char *name, struct err *e) {
    (void)src;
    char own[128];
    const char *path = sqlite3_db_filename(t->db, "main");
    if (sqt_check_ns(ns, e) < 0 || refuse_captured(t, name, e) < 0) return -1;
    if (!path || !*path) return 0; /* a plan for a file that is not there yet */
    if (sq_identity_made(path, own, e) < 0) return -1;
    if (strcmp(own, source_identity) != 0) return 0;
    err_set(e, CODE_TARGET_CAPTURED, "the target is the file that the chain was taken from");
    return err_hint(e, "use another file as target");
}

int sqt_bind_table(struct target *t, const struct shape *src, const char *ns, const char *name, struct target_table **out, struct err *e) {
    static const char *const rowids[] = {"rowid", "_rowid_", "oid"};
    struct target_table *tt = NULL;
    *out = NULL;
    if (sqt_check_ns(ns, e) < 0 || !(tt = mem_alloc(sizeof *tt, e))) return -1;
    tt->id = atomic_fetch_add(&table_ids, 1) + 1;
    tt->t = t;
    if (!(tt->src = shape_copy(src, e)) || !(tt->name = mem_strdup(name, e)) || !(tt->conv = mem_alloc(src->ncols + 1u, e)) ||
        !(tt->in_key = mem_alloc(src->ncols + 1u, e)) || !(tt->scratch = mem_alloc((src->ncols + 1u) * 2 * sizeof *tt->scratch, e)))
        goto fail;
    for (size_t i = 0; i < src->ncols * 2u; i++)
        tt->scratch[i] = BUF_INIT(VALUE_MAX);
    shape_label(src, tt->label);
    if (sq_table_shape(t->db, SQ_NS, name, &tt->dst, e) < 0) goto fail;
    if (!tt->dst) {
        err_set(e, CODE_SHAPE_CHANGED, "the target has no table '%s' for the source's '%s'", name, tt->label);
        diverged(e);
        goto fail;
    }
    if (refuse_captured(tt->t, tt->name, e) < 0) goto fail;
    for (uint16_t i = 0; i < src->ncols; i++) {
        tt->conv[i] = (uint8_t)sqt_conv(src, &src->cols[i]);
        int d = sqt_col(tt->dst, src->cols[i].name);
        if (d < 0 || (tt->conv[i] != CONV_NONE && tt->dst->cols[d].generated)) {
            err_set(e, CODE_SHAPE_CHANGED, "table '%s' of the target has no stored column '%s'", name, src->cols[i].name);
            diverged(e);
            goto fail;
        }
    }
    if (src->identity >= 0) tt->key = &tt->src->keys[src->identity];
    for (uint16_t i = 0; tt->key && i < tt->key->ncols; i++) {
        uint16_t c = tt->key->cols[i];
        enum ltype type = tt->src->cols[c].type;
        tt->in_key[c] = 1;
        if (sqt_key_equality(tt->src, tt->key, i) != EQ_BYTES && type != LT_INT64 && type != LT_INT32 && type != LT_INT16)
            tt->respells = true;
    }
    tt->arbiter = arbiter(tt);
    tt->without_rowid = tt->dst->without_rowid;
    for (size_t i = 0; i < MEM_ARRAY_LEN(rowids) && !tt->rowid; i++)
        if (sqt_col(tt->dst, rowids[i]) < 0) tt->rowid = rowids[i];
    if (!tt->key && !tt->rowid && !tt->without_rowid) {
        err_set(e, CODE_SHAPE_CHANGED,
                "table '%s' has columns named rowid, _rowid_ and oid, and no key: one of several equal rows cannot be named", name);
        err_hint(e, "give the table a primary key on the source, or leave it out with --exclude-table");
        goto fail;
    }
    *out = tt;
    return 0;
fail:
    sqt_unbind_table(tt);
    return -1;
}

void sqt_unbind_table(struct target_table *tt) {
    if (!tt) return;
    for (size_t i = 0; tt->scratch && tt->src && i < tt->src->ncols * 2u; i++)
        buf_free(&tt->scratch[i]);
    mem_free(tt->scratch);
    mem_free(tt->conv);
    mem_free(tt->in_key);
    mem_free(tt->name);
    shape_free(tt->src);
    shape_free(tt->dst);
    mem_free(tt);
}

/* ---- values ---- */

void sqt_row_key(const struct target_table *tt, const struct value *row, char *out, size_t out_len) {
    size_t at = 0;
    if (!tt->key || !row) {
        snprintf(out, out_len, "(no key)");
        return;
    }
    for (uint16_t i = 0; i < tt->key->ncols && at + 1 < out_len; i++) {
        const struct value *v = &row[tt->key->cols[i]];
        const char *p = v->p, *name = tt->src->cols[tt->key->cols[i]].name;
        int n = v->len > 60 ? 60 : (int)v->len;
        if (v->kind == VALUE_BINARY && v->len) p++, n = v->len > 60 ? 60 : (int)v->len - 1;
        if (v->kind == VALUE_NULL || v->kind == VALUE_UNCHANGED) p = "NULL", n = 4;
        if (v->kind == VALUE_BYTES || (v->kind == VALUE_BINARY && v->len && v->p[0] == 'b')) p = "(bytes)", n = 7;
        at += (size_t)snprintf(out + at, out_len - at, "%s%.60s=%.*s", i ? ", " : "(", name, n, p ? p : "");
    }
    if (at + 1 < out_len) snprintf(out + at, out_len - at, ")");
}

static int unfit(const struct target_table *tt, uint16_t c, const struct value *row, struct err *e, const char *why) {
    char key[300];
    sqt_row_key(tt, row, key, sizeof key);
    err_set(e, CODE_VALUE_UNREPRESENTABLE, "table '%s', row %s, column '%s': %s", tt->label, key, tt->src->cols[c].name, why);
    return err_hint(e, "correct the value on the source, or leave the table out with --exclude-table %s", tt->src->name);
}

static bool parse_i64(const char *p, size_t n, int64_t *out) {
    bool neg = n > 0 && *p == '-';
    uint64_t v = 0;
    if (neg) p++, n--;
    if (n == 0 || n > 19) return false;
    for (; n; n--, p++) {
        if (*p < '0' || *p > '9') return false;
        v = v * 10 + (uint64_t)(*p - '0'); /* 19 digits fit */
    }
    if (v > (uint64_t)INT64_MAX + (neg ? 1 : 0)) return false;
    *out = neg ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

static bool parse_real(const char *p, size_t n, double *out) {
    char tmp[512], *end;
    if (n == 0 || n >= sizeof tmp) return false;
    memcpy(tmp, p, n);
    tmp[n] = '\0';
    *out = strtod(tmp, &end);
    return end == tmp + n;
}

static int bound(sqlite3_stmt *s, int rc, struct err *e) {
    return rc == SQLITE_OK ? 0 : sqt_err(sqlite3_db_handle(s), "cannot bind a value", e);
}

static int bind_text(sqlite3_stmt *s, int at, const char *p, size_t n, struct err *e) {
    return bound(s, sqlite3_bind_text64(s, at, n ? p : "", n, SQLITE_STATIC, SQLITE_UTF8), e);
}

static int bind_bytes(sqlite3_stmt *s, int at, const char *p, size_t n, struct err *e) {
    return bound(s, n ? sqlite3_bind_blob64(s, at, p, n, SQLITE_STATIC) : sqlite3_bind_zeroblob(s, at, 0), e);
}

static int bind_hex(struct target_table *tt, sqlite3_stmt *s, int at, uint16_t c, const struct value *v, int image, const struct value *row,
                    struct err *e) {
    struct buf *b = &tt->scratch[c * 2 + image];
    size_t n = v->len >= 2 ? (v->len - 2) / 2 : 0;
    if (v->len < 2 || v->p[0] != '\\' || v->p[1] != 'x' || v->len % 2)
        return unfit(tt, c, row, e, "the bytes are not written as \\x and hex digits");
    if (b->cap > MiB(4) && n < MiB(1)) buf_free(b); /* what one huge value took is given back */
    buf_reset(b);
    if (buf_reserve(b, n + 1, e) < 0) return -1;
    if (text_unhex(v->p + 2, n * 2, (unsigned char *)b->p) < 0)
        return unfit(tt, c, row, e, "the bytes are not written as \\x and hex digits");
    return bind_bytes(s, at, b->p, n, e);
}

/* Another engine's float. What SQLite would change is refused: NaN becomes NULL, and a REAL column drops the sign of zero. */
static int bind_float(struct target_table *tt, sqlite3_stmt *s, int at, uint16_t c, const struct value *v, const struct value *row,
                      struct err *e) {
    double d;
    if (!parse_real(v->p, v->len, &d)) return unfit(tt, c, row, e, "it is not a number");
    if (isnan(d)) return unfit(tt, c, row, e, "SQLite cannot store NaN");
    if (d == 0 && signbit(d)) return unfit(tt, c, row, e, "SQLite stores -0 as 0 in such a column");
    return bound(s, sqlite3_bind_double(s, at, d), e);
}

static int bind_bool(struct target_table *tt, sqlite3_stmt *s, int at, uint16_t c, const struct value *v, const struct value *row,
                     struct err *e) {
    if (v->len != 1 || (*v->p != 't' && *v->p != 'f')) return unfit(tt, c, row, e, "it is no bool");
    return bound(s, sqlite3_bind_int(s, at, *v->p == 't'), e);
}

/* A storage class and its content, as the source read it. */
static int bind_class(struct target_table *tt, sqlite3_stmt *s, int at, uint16_t c, char class, const char *p, size_t n,
                      const struct value *row, struct err *e) {
    int64_t i;
    double d;
    switch (class) {
    case 'i':
        if (!parse_i64(p, n, &i)) return unfit(tt, c, row, e, "it is no 64-bit integer");
        return bound(s, sqlite3_bind_int64(s, at, i), e);
    case 'r':
        if (!parse_real(p, n, &d) || isnan(d)) return unfit(tt, c, row, e, "it is no number that SQLite stores");
        return bound(s, sqlite3_bind_double(s, at, d), e);
    case 't': return bind_text(s, at, p, n, e);
    case 'b': return bind_bytes(s, at, p, n, e);
    default: return unfit(tt, c, row, e, "its storage class is unknown");
    }
}

/* A SQLite source's value in the storage class that is natural for the column's type. */
static int bind_natural(struct target_table *tt, sqlite3_stmt *s, int at, uint16_t c, const struct value *v, int image,
                        const struct value *row, struct err *e) {
    int64_t i;
    switch (tt->src->cols[c].type) {
    case LT_BOOL: return bind_bool(tt, s, at, c, v, row, e);
    case LT_INT16:
    case LT_INT32:
    case LT_INT64: return bind_class(tt, s, at, c, 'i', v->p, v->len, row, e);
    case LT_FLOAT4:
    case LT_FLOAT8: return bind_class(tt, s, at, c, 'r', v->p, v->len, row, e);
    case LT_NUMERIC: /* a text stays one only under TEXT affinity */
        if (sq_affinity(tt->src->cols[c].native, tt->src->strict) == SQ_AFF_TEXT) return bind_text(s, at, v->p, v->len, e);
        if (parse_i64(v->p, v->len, &i)) return bound(s, sqlite3_bind_int64(s, at, i), e);
        return bind_class(tt, s, at, c, 'r', v->p, v->len, row, e);
    case LT_BYTES: return bind_hex(tt, s, at, c, v, image, row, e);
    default: return bind_text(s, at, v->p, v->len, e);
    }
}

int sqt_bind_value(struct target_table *tt, sqlite3_stmt *s, int at, uint16_t c, const struct value *v, int image, const struct value *row,
                   struct err *e) {
    int64_t i;
    switch (v->kind) {
    case VALUE_NULL: return bound(s, sqlite3_bind_null(s, at), e);
    case VALUE_BYTES: return bind_bytes(s, at, v->p, v->len, e);
    case VALUE_BINARY:
        if (tt->conv[c] != CONV_EXACT || v->len == 0) return unfit(tt, c, row, e, "its binary form is another engine's");
        return bind_class(tt, s, at, c, v->p[0], v->p + 1, v->len - 1, row, e);
    case VALUE_TEXT: break;
    default:
        return err_set(e, CODE_INTERNAL, "table '%s', column '%s': a value is needed that the log left unchanged", tt->label,
                       tt->src->cols[c].name);
    }
    switch ((enum sqt_conv)tt->conv[c]) {
    case CONV_EXACT: return bind_natural(tt, s, at, c, v, image, row, e);
    case CONV_INT:
        if (!parse_i64(v->p, v->len, &i)) return unfit(tt, c, row, e, "it is no 64-bit integer");
        return bound(s, sqlite3_bind_int64(s, at, i), e);
    case CONV_BOOL: return bind_bool(tt, s, at, c, v, row, e);
    case CONV_REAL: return bind_float(tt, s, at, c, v, row, e);
    case CONV_BLOB: return bind_hex(tt, s, at, c, v, image, row, e);
    case CONV_TEXT: return bind_text(s, at, v->p, v->len, e);
    case CONV_NONE: break;
    }
    return err_set(e, CODE_INTERNAL, "table '%s', column '%s' is generated and holds no value", tt->label, tt->src->cols[c].name);
}

/* ---- statement texts ---- */

bool sqt_sets(const struct target_table *tt, const uint8_t *mask, bool keys, uint16_t c) {
    if (tt->conv[c] == CONV_NONE || (mask && !mask[c])) return false;
    return keys || !tt->in_key[c] || tt->respells;
}

static int table_name(const struct target_table *tt, struct buf *b, struct err *e) {
    return buf_adds(b, "main.", e) < 0 ? -1 : text_ident(b, tt->name, e);
}

static int col_name(const struct target_table *tt, uint16_t c, struct buf *b, struct err *e) {
    return text_ident(b, tt->src->cols[c].name, e);
}

/* Invariant 2. */
static int where_key(const struct target_table *tt, struct buf *b, struct err *e) {
    for (uint16_t i = 0; i < tt->key->ncols; i++) {
        uint16_t c = tt->key->cols[i];
        enum equality q = sqt_key_equality(tt->src, tt->key, i);
        if (buf_adds(b, i ? " AND " : " WHERE ", e) < 0 || col_name(tt, c, b, e) < 0 || buf_adds(b, " = ?", e) < 0) return -1;
        if (q != EQ_NUMERIC && buf_addf(b, e, " COLLATE %s", sqt_collation(q)) < 0) return -1;
    }
    return 0;
}

/* Invariant 3. `first` is the number of the first compared parameter. */
static int where_full(const struct target_table *tt, int first, struct buf *b, struct err *e) {
    struct buf names = BUF_INIT(KiB(256));
    const struct shape *d = tt->dst;
    int rc = -1, n = first;
    if (tt->without_rowid) {
        if (d->primary < 0) {
            err_set(e, CODE_INTERNAL, "table '%s' has neither rowid nor primary key", tt->name);
            goto out;
        }
        for (uint16_t i = 0; i < d->keys[d->primary].ncols; i++)
            if ((i && buf_adds(&names, ", ", e) < 0) || text_ident(&names, d->cols[d->keys[d->primary].cols[i]].name, e) < 0) goto out;
    } else if (buf_adds(&names, tt->rowid, e) < 0) {
        goto out;
    }
    if (buf_addf(b, e, " WHERE (%.*s) IN (SELECT %.*s FROM ", (int)names.n, names.p, (int)names.n, names.p) < 0 || table_name(tt, b, e) < 0)
        goto out;
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        if (tt->conv[c] == CONV_NONE) continue;
        if (buf_adds(b, n == first ? " WHERE " : " AND ", e) < 0 || col_name(tt, c, b, e) < 0 ||
            buf_addf(b, e, " IS ?%d COLLATE BINARY AND typeof(", n) < 0 || col_name(tt, c, b, e) < 0 ||
            buf_addf(b, e, ") = typeof(?%d)", n) < 0)
            goto out;
        n++;
    }
    rc = buf_adds(b, " LIMIT 1)", e);
out:
    buf_free(&names);
    return rc;
}

int sqt_insert_sql(const struct target_table *tt, bool upsert, struct buf *b, struct err *e) {
    uint16_t n = 0;
    if (buf_adds(b, "INSERT OR ABORT INTO ", e) < 0 || table_name(tt, b, e) < 0) return -1;
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        if (tt->conv[c] == CONV_NONE) continue;
        if (buf_addc(b, n++ ? ',' : '(', e) < 0 || col_name(tt, c, b, e) < 0) return -1;
    }
    if (buf_adds(b, ") VALUES(", e) < 0) return -1;
    for (uint16_t i = 0; i < n; i++)
        if (buf_adds(b, i ? ",?" : "?", e) < 0) return -1;
    if (buf_addc(b, ')', e) < 0) return -1;
    if (!upsert) return 0;
    if (buf_adds(b, " ON CONFLICT(", e) < 0) return -1;
    for (uint16_t i = 0; i < tt->key->ncols; i++)
        if ((i && buf_addc(b, ',', e) < 0) || col_name(tt, tt->key->cols[i], b, e) < 0) return -1;
    if (buf_adds(b, ") DO ", e) < 0) return -1;
    n = 0;
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        if (!sqt_sets(tt, NULL, false, c)) continue;
        if (buf_adds(b, n++ ? ", " : "UPDATE SET ", e) < 0 || col_name(tt, c, b, e) < 0 || buf_adds(b, "=excluded.", e) < 0 ||
            col_name(tt, c, b, e) < 0)
            return -1;
    }
    return n ? 0 : buf_adds(b, "NOTHING", e);
}

int sqt_update_sql(const struct target_table *tt, const uint8_t *mask, bool keys, bool full, struct buf *b, struct err *e) {
    int n = 0;
    if (buf_adds(b, "UPDATE OR ABORT ", e) < 0 || table_name(tt, b, e) < 0) return -1;
    for (uint16_t c = 0; c < tt->src->ncols; c++) {
        if (!sqt_sets(tt, mask, keys, c)) continue;
        if (buf_adds(b, n++ ? ", " : " SET ", e) < 0 || col_name(tt, c, b, e) < 0 || buf_adds(b, "=?", e) < 0) return -1;
    }
    if (n == 0) { /* only key columns, and they stay: the row is looked for all the same */
        if (buf_adds(b, " SET ", e) < 0 || col_name(tt, tt->key ? tt->key->cols[0] : 0, b, e) < 0 || buf_addc(b, '=', e) < 0 ||
            col_name(tt, tt->key ? tt->key->cols[0] : 0, b, e) < 0)
            return -1;
    }
    return full ? where_full(tt, n + 1, b, e) : where_key(tt, b, e);
}

int sqt_delete_sql(const struct target_table *tt, bool full, struct buf *b, struct err *e) {
    if (buf_adds(b, "DELETE FROM ", e) < 0 || table_name(tt, b, e) < 0) return -1;
    return full ? where_full(tt, 1, b, e) : where_key(tt, b, e);
}
