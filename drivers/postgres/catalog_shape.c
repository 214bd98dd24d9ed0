/* Shapes of tables from PostgreSQL's catalogue.
 *
 * DESIGN
 * 1. Four statements read any number of tables, in one snapshot (the caller's transaction, or one of our own).
 * 2. A column is known by its attnum, a table by its oid: both survive renames.
 * 3. The identity of a row is what the server sends as its key: the replica identity's index, or the primary key where the identity is the
 *    default or FULL. A deferrable key never is: its values may be doubled inside a transaction. */
#include <stdlib.h>
#include <string.h>

#include "drivers/postgres/pg.h"
#include "engine/base/embed.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

enum { C_RELID, C_ATTNUM, C_NAME, C_NATIVE, C_TYPMOD, C_NOT_NULL, C_IDENTITY, C_GENERATED, C_EXPR, C_TYPE, C_BASE, C_BASE_TYPMOD,
       C_BASE_NAME, C_BASE_KIND, C_BASE_BUILTIN, C_ELEM, C_ELEM_NAME, C_ELEM_KIND, C_ELEM_BUILTIN, C_COLLATION, C_DETERMINISTIC,
       C_DROPPED };
enum { I_RELID, I_NAME, I_PRIM, I_UNIQ, I_IMMEDIATE, I_COLS, I_NKEYS, I_PARTIAL, I_EXPRESSION, I_NND, I_REPLIDENT, I_DEF, I_CONTYPE,
       I_CONDEF, I_DEFERRABLE, I_DEFERRED, I_NONDET };
enum { K_RELID, K_NAME, K_TYPE, K_COLS, K_DEF, K_DEFERRABLE, K_DEFERRED, K_REF_NS, K_REF_TABLE, K_REF_COLS, K_ON_DELETE, K_ON_UPDATE };
enum { T_OID, T_NS, T_NAME, T_KIND, T_REPLIDENT, T_OPTIONS };

struct sets { PGresult *tables, *columns, *indexes, *constraints; };

/* Rows [*from, *to) of r whose first column is oid; r is sorted by it. */
static void range_of(const PGresult *r, int64_t oid, int *from, int *to) {
    int lo = 0, hi = PQntuples(r);
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (pg_i64(r, mid, 0) < oid) lo = mid + 1;
        else hi = mid;
    }
    *from = lo;
    while (lo < PQntuples(r) && pg_i64(r, lo, 0) == oid) lo++;
    *to = lo;
}

static const char *copied(struct shape *s, const PGresult *r, int row, int col, struct err *e) {
    return arena_copy(s->arena, PQgetvalue(r, row, col), (size_t)PQgetlength(r, row, col), e);
}
/* NULL stays NULL; -1 only when memory ran out */
static int copied_opt(struct shape *s, const PGresult *r, int row, int col, const char **out, struct err *e) {
    *out = NULL;
    if (PQgetisnull(r, row, col)) return 0;
    return (*out = copied(s, r, row, col, e)) != NULL ? 0 : -1;
}

static int read_column(struct shape *s, struct column *c, const PGresult *r, int row, struct err *e) {
    struct pg_type base = {pg_i64(r, row, C_BASE), pg_text(r, row, C_BASE_NAME), pg_text(r, row, C_BASE_KIND)[0],
                           pg_bool(r, row, C_BASE_BUILTIN)};
    int32_t typmod = (int32_t)pg_i64(r, row, C_BASE_TYPMOD);
    if ((c->name = copied(s, r, row, C_NAME, e)) == NULL || (c->native = copied(s, r, row, C_NATIVE, e)) == NULL) return -1;
    c->id = pg_i64(r, row, C_ATTNUM);
    c->not_null = pg_bool(r, row, C_NOT_NULL);
    c->precision = c->scale = c->length = -1;
    if (!pg_null(r, row, C_ELEM)) {
        struct pg_type elem = {pg_i64(r, row, C_ELEM), pg_text(r, row, C_ELEM_NAME), pg_text(r, row, C_ELEM_KIND)[0],
                               pg_bool(r, row, C_ELEM_BUILTIN)};
        c->type = LT_ARRAY;
        c->elem = pg_ltype(&elem);
        c->equality = pg_equality(&elem, typmod);
        pg_typmod(elem.oid, typmod, &c->precision, &c->scale, &c->length);
    } else {
        c->type = pg_ltype(&base);
        c->equality = pg_equality(&base, typmod);
        pg_typmod(base.oid, typmod, &c->precision, &c->scale, &c->length);
    }
    if (!pg_bool(r, row, C_DETERMINISTIC)) c->equality = EQ_NONDET;
    if (copied_opt(s, r, row, C_COLLATION, &c->collation, e) < 0) return -1;
    char gen = pg_text(r, row, C_GENERATED)[0], ident = pg_text(r, row, C_IDENTITY)[0];
    if (copied_opt(s, r, row, C_EXPR, gen != 0 ? &c->generated : &c->default_sql, e) < 0) return -1;
    c->generated_stored = gen == 's';
    c->ident = ident == 'a' ? IDENT_ALWAYS : ident == 'd' ? IDENT_BY_DEFAULT : IDENT_NONE;
    return 0;
}

static int ordinal(const struct shape *s, int64_t attnum) {
    for (uint16_t i = 0; i < s->ncols; i++)
        if (s->cols[i].id == attnum) return i;
    return -1;
}

/* "1 4 0" -> ordinals of at most `max` entries, zeros (expressions) left out; nondet has a letter for each entry. */
static int read_key_cols(struct shape *s, struct key *k, const char *list, int max, const char *nondet, struct err *e) {
    size_t n = 1;
    for (const char *p = list; *p != 0; p++) n += *p == ' ';
    uint16_t *cols = arena_zalloc(s->arena, n * sizeof *cols, e);
    enum equality *eq = arena_zalloc(s->arena, n * sizeof *eq, e);
    if (cols == NULL || eq == NULL) return -1;
    size_t nn = strlen(nondet);
    int at = 0;
    for (const char *p = list; *p != 0 && at < max; at++) {
        char *end;
        int o = ordinal(s, strtol(p, &end, 10));
        if (end == p) break;
        if (o >= 0) {
            enum equality own = s->cols[o].equality == EQ_NONDET ? EQ_BYTES : s->cols[o].equality;
            cols[k->ncols] = (uint16_t)o;
            eq[k->ncols++] = (size_t)at < nn && nondet[at] == 't' ? EQ_NONDET : own;
        }
        p = *end == ' ' ? end + 1 : end;
    }
    k->cols = cols;
    k->equality = eq;
    return 0;
}

static int read_index(struct shape *s, struct key *k, const PGresult *r, int row, struct err *e) {
    char con = pg_text(r, row, I_CONTYPE)[0];
    k->kind = con == 'p' ? KEY_PRIMARY : con == 'x' ? KEY_EXCLUDE : con == 'u' || pg_bool(r, row, I_UNIQ) ? KEY_UNIQUE : KEY_INDEX;
    k->constraint = con != 0;
    if ((k->name = copied(s, r, row, I_NAME, e)) == NULL || (k->def = copied(s, r, row, con != 0 ? I_CONDEF : I_DEF, e)) == NULL) return -1;
    k->partial = pg_bool(r, row, I_PARTIAL);
    k->expression = pg_bool(r, row, I_EXPRESSION);
    k->nulls_not_distinct = pg_bool(r, row, I_NND);
    k->deferrable = pg_bool(r, row, I_DEFERRABLE);
    k->initially_deferred = pg_bool(r, row, I_DEFERRED);
    return read_key_cols(s, k, pg_text(r, row, I_COLS), (int)pg_i64(r, row, I_NKEYS), pg_text(r, row, I_NONDET), e);
}

static int read_constraint(struct shape *s, struct key *k, const PGresult *r, int row, struct err *e) {
    k->kind = pg_text(r, row, K_TYPE)[0] == 'f' ? KEY_FOREIGN : KEY_CHECK;
    k->constraint = true;
    if ((k->name = copied(s, r, row, K_NAME, e)) == NULL || (k->def = copied(s, r, row, K_DEF, e)) == NULL) return -1;
    k->deferrable = pg_bool(r, row, K_DEFERRABLE);
    k->initially_deferred = pg_bool(r, row, K_DEFERRED);
    if (read_key_cols(s, k, pg_text(r, row, K_COLS), 1 << 15, "", e) < 0) return -1;
    if (k->kind != KEY_FOREIGN) return 0;
    if (copied_opt(s, r, row, K_REF_NS, &k->ref_ns, e) < 0 || copied_opt(s, r, row, K_REF_TABLE, &k->ref_table, e) < 0 ||
        copied_opt(s, r, row, K_ON_DELETE, &k->on_delete, e) < 0 || copied_opt(s, r, row, K_ON_UPDATE, &k->on_update, e) < 0) return -1;
    const char *hex = pg_text(r, row, K_REF_COLS);
    const char **names = arena_zalloc(s->arena, (k->ncols + 1u) * sizeof *names, e);
    if (names == NULL) return -1;
    while (*hex != 0 && k->nref < k->ncols) {
        size_t n = strcspn(hex, " ");
        unsigned char *name = arena_zalloc(s->arena, n / 2 + 1, e);
        if (name == NULL) return -1;
        if (text_unhex(hex, n, name) < 0) return err_set(e, CODE_INTERNAL, "a column name of foreign key '%s' cannot be read", k->name);
        names[k->nref++] = (const char *)name;
        hex += n + (hex[n] == ' ');
    }
    k->ref_cols = names;
    return 0;
}

static int build(const struct sets *q, int row, struct shape **out, struct pg_cols *side, struct err *e) {
    int64_t oid = pg_i64(q->tables, row, T_OID);
    char replident = pg_text(q->tables, row, T_REPLIDENT)[0];
    int from, to, n = 0, replica_key = -1;
    struct shape *s = shape_new(e);
    *out = NULL;
    if (s == NULL) return -1;
    s->engine = "postgres";
    s->oid = oid;
    s->identity = s->primary = -1;
    if ((s->ns = copied(s, q->tables, row, T_NS, e)) == NULL || (s->name = copied(s, q->tables, row, T_NAME, e)) == NULL ||
        copied_opt(s, q->tables, row, T_OPTIONS, &s->options, e) < 0) goto fail;
    range_of(q->columns, oid, &from, &to);
    for (int i = from; i < to; i++) n += !pg_bool(q->columns, i, C_DROPPED);
    struct column *cols = arena_zalloc(s->arena, ((size_t)n + 1) * sizeof *cols, e);
    if (cols == NULL) goto fail;
    s->cols = cols;
    for (int i = from; i < to; i++)
        if (!pg_bool(q->columns, i, C_DROPPED) && read_column(s, &cols[s->ncols++], q->columns, i, e) < 0) goto fail;
    if (side != NULL) {
        side->replident = replident;
        side->n = 0;
        if ((side->v = mem_alloc(((size_t)(to - from) + 1) * sizeof *side->v, e)) == NULL) goto fail;
        for (int i = from; i < to; i++)
            side->v[side->n++] = (struct pg_col){pg_i64(q->columns, i, C_ATTNUM),
                                                 pg_i64(q->columns, i, C_TYPE),
                                                 (int32_t)pg_i64(q->columns, i, C_TYPMOD),
                                                 pg_bool(q->columns, i, C_DROPPED),
                                                 pg_text(q->columns, i, C_GENERATED)[0] != 0,
                                                 false};
    }
    int cfrom, cto;
    range_of(q->indexes, oid, &from, &to);
    range_of(q->constraints, oid, &cfrom, &cto);
    struct key *keys = arena_zalloc(s->arena, (size_t)(to - from + cto - cfrom + 1) * sizeof *keys, e);
    if (keys == NULL) goto fail;
    s->keys = keys;
    for (int i = from; i < to; i++) {
        struct key *k = &keys[s->nkeys];
        if (read_index(s, k, q->indexes, i, e) < 0) goto fail;
        bool whole = pg_bool(q->indexes, i, I_UNIQ) && pg_bool(q->indexes, i, I_IMMEDIATE) && !k->partial && !k->expression;
        if (k->kind == KEY_PRIMARY) s->primary = (int16_t)s->nkeys;
        if (whole && replident == 'i' && pg_bool(q->indexes, i, I_REPLIDENT)) replica_key = s->nkeys;
        if (whole && (replident == 'd' || replident == 'f') && k->kind == KEY_PRIMARY) replica_key = s->nkeys;
        s->nkeys++;
    }
    for (int i = cfrom; i < cto; i++)
        if (read_constraint(s, &keys[s->nkeys++], q->constraints, i, e) < 0) goto fail;
    s->identity = (int16_t)replica_key;
    s->full_image = replident == 'f';
    if (shape_finish(s, e) < 0) goto fail;
    *out = s;
    return 0;
fail:
    shape_free(s);
    if (side != NULL) mem_free(side->v), *side = (struct pg_cols){0};
    return -1;
}

static int read_all(PGconn *c, const int64_t *oids, size_t n, struct shape **out, struct pg_cols *side, struct err *e) {
    struct buf list = BUF_INIT(MiB(64));
    struct sets q = {0};
    int rc = -1;
    bool own = PQtransactionStatus(c) == PQTRANS_IDLE;
    memset(out, 0, n * sizeof(struct shape *));
    if (own && pg_do(c, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "read the catalogue", e) < 0) return -1;
    if (buf_addc(&list, '{', e) < 0) goto out;
    for (size_t i = 0; i < n; i++)
        if (buf_addf(&list, e, "%s%lld", i > 0 ? "," : "", (long long)oids[i]) < 0) goto out;
    if (buf_addc(&list, '}', e) < 0) goto out;
    const char *p[1] = {buf_str(&list, e)};
    if (p[0] == NULL || pg_query(c, embed_sql("postgres/shape_tables"), 1, p, "read the tables", &q.tables, e) < 0 ||
        pg_query(c, embed_sql("postgres/shape_columns"), 1, p, "read the columns", &q.columns, e) < 0 ||
        pg_query(c, embed_sql("postgres/shape_indexes"), 1, p, "read the indexes", &q.indexes, e) < 0 ||
        pg_query(c, embed_sql("postgres/shape_constraints"), 1, p, "read the constraints", &q.constraints, e) < 0) goto out;
    size_t at = 0;
    for (int row = 0; row < PQntuples(q.tables); row++) {
        while (at < n && oids[at] != pg_i64(q.tables, row, T_OID)) at++;
        if (at == n) break;
        if (build(&q, row, &out[at], side, e) < 0) goto out;
        at++;
    }
    rc = 0;
out:
    if (own && PQstatus(c) == CONNECTION_OK) PQclear(PQexec(c, rc == 0 ? "COMMIT" : "ROLLBACK"));
    if (rc < 0)
        for (size_t i = 0; i < n; i++) {
            shape_free(out[i]);
            out[i] = NULL;
        }
    PQclear(q.tables);
    PQclear(q.columns);
    PQclear(q.indexes);
    PQclear(q.constraints);
    buf_free(&list);
    return rc;
}

int pg_table_shapes(PGconn *c, const int64_t *oids, size_t n, struct shape **out, struct err *e) {
    return read_all(c, oids, n, out, NULL, e);
}

int pg_table_shape_oid(PGconn *c, int64_t oid, struct shape **s, struct err *e) { return read_all(c, &oid, 1, s, NULL, e); }

int pg_table_shape_cols(PGconn *c, int64_t oid, struct shape **s, struct pg_cols *cols, struct err *e) {
    *cols = (struct pg_cols){0};
    return read_all(c, &oid, 1, s, cols, e);
}

int pg_table_shape(PGconn *c, const char *ns, const char *name, struct shape **s, struct err *e) {
    const char *p[2] = {ns, name};
    char oid[32];
    bool found;
    *s = NULL;
    if (pg_scalar(c, embed_sql("postgres/table_find"), 2, p, "look a table up", oid, sizeof oid, &found, e) < 0) return -1;
    if (!found) return 0;
    return pg_table_shape_oid(c, strtoll(oid, NULL, 10), s, e);
}

struct shape *pg_shape_head(const struct shape *from, uint16_t n, struct err *e) {
    struct shape *s = shape_copy(from, e);
    if (s == NULL) return NULL;
    struct key *keys = arena_zalloc(s->arena, (s->nkeys + 1u) * sizeof *keys, e);
    if (keys == NULL) goto fail;
    uint16_t nkeys = 0;
    int16_t identity = -1, primary = -1;
    for (uint16_t i = 0; i < s->nkeys; i++) {
        bool whole = !s->keys[i].expression;
        for (uint16_t c = 0; c < s->keys[i].ncols; c++) whole = whole && s->keys[i].cols[c] < n;
        if (!whole) continue;
        if (i == s->identity) identity = (int16_t)nkeys;
        if (i == s->primary) primary = (int16_t)nkeys;
        keys[nkeys++] = s->keys[i];
    }
    s->ncols = n;
    s->keys = keys;
    s->nkeys = nkeys;
    s->identity = identity;
    s->primary = primary;
    if (shape_finish(s, e) == 0) return s;
fail:
    shape_free(s);
    return NULL;
}
