/* DESIGN
 *
 * 1. A shape is immutable once finished and owns all it points to in one arena. How it is written stands in shape_json.c.
 * 2. What a driver built is checked once, here: ordinals in range, names there and distinct. A shape that breaks this is a bug of ours.
 * 3. The lineage's table number and the source's oid are not part of the digest: the same shape has the same digest everywhere. */
#include "engine/base/shape.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"

#define SHAPE_BLOCK KiB(4)
#define SHAPE_JSON_MAX MiB(64)

static const char *const ltype_names[] = {
    [LT_BOOL] = "bool",
    [LT_INT16] = "int16",
    [LT_INT32] = "int32",
    [LT_INT64] = "int64",
    [LT_UINT16] = "uint16",
    [LT_UINT32] = "uint32",
    [LT_UINT64] = "uint64",
    [LT_NUMERIC] = "numeric",
    [LT_FLOAT4] = "float4",
    [LT_FLOAT8] = "float8",
    [LT_TEXT] = "text",
    [LT_BYTES] = "bytes",
    [LT_DATE] = "date",
    [LT_TIME] = "time",
    [LT_TIMETZ] = "timetz",
    [LT_TIMESTAMP] = "timestamp",
    [LT_TIMESTAMPTZ] = "timestamptz",
    [LT_INTERVAL] = "interval",
    [LT_UUID] = "uuid",
    [LT_JSON] = "json",
    [LT_JSONB] = "jsonb",
    [LT_ENUM] = "enum",
    [LT_SET] = "set",
    [LT_BIT] = "bit",
    [LT_ARRAY] = "array",
    [LT_INET] = "inet",
    [LT_GEOMETRY] = "geometry",
    [LT_NATIVE] = "native",
};
static const char *const equality_names[] = {
    [EQ_BYTES] = "bytes", [EQ_NOCASE] = "nocase", [EQ_RTRIM] = "rtrim", [EQ_NONDET] = "nondeterministic", [EQ_NUMERIC] = "numeric",
};
static const char *const key_kind_names[] = {
    [KEY_PRIMARY] = "primary", [KEY_UNIQUE] = "unique", [KEY_INDEX] = "index",
    [KEY_FOREIGN] = "foreign", [KEY_CHECK] = "check",   [KEY_EXCLUDE] = "exclude",
};

static int name_find(const char *const *names, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return (int)i;
    return -1;
}

const char *ltype_name(enum ltype t) {
    return (size_t)t < MEM_ARRAY_LEN(ltype_names) ? ltype_names[t] : "unknown";
}

int ltype_find(const char *name) {
    return name_find(ltype_names, MEM_ARRAY_LEN(ltype_names), name);
}

const char *equality_name(enum equality q) {
    return (size_t)q < MEM_ARRAY_LEN(equality_names) ? equality_names[q] : "unknown";
}

int equality_find(const char *name) {
    return name_find(equality_names, MEM_ARRAY_LEN(equality_names), name);
}

const char *key_kind_name(enum key_kind k) {
    return (size_t)k < MEM_ARRAY_LEN(key_kind_names) ? key_kind_names[k] : "unknown";
}

struct shape *shape_new(struct err *e) {
    struct arena *a = arena_new(SHAPE_BLOCK, e);
    if (!a) return NULL;
    struct shape *s = arena_zalloc(a, sizeof *s, e);
    if (!s) {
        arena_free(a);
        return NULL;
    }
    s->arena = a;
    s->identity = s->primary = -1;
    return s;
}

void shape_free(struct shape *s) {
    if (s) arena_free(s->arena); /* s itself lives there */
}

static int key_check(const struct shape *s, const struct key *k, struct err *e) {
    char label[160];
    shape_label(s, label);
    if (!k->name || (size_t)k->kind >= MEM_ARRAY_LEN(key_kind_names))
        return err_set(e, CODE_INTERNAL, "a key of '%s' has no name or kind", label);
    for (uint16_t i = 0; i < k->ncols; i++)
        if (k->cols[i] >= s->ncols)
            return err_set(e, CODE_INTERNAL, "key '%s' of '%s' names column %u of %u", k->name, label, (unsigned)k->cols[i],
                           (unsigned)s->ncols);
    for (uint16_t i = 0; k->equality && i < k->ncols; i++)
        if ((size_t)k->equality[i] >= MEM_ARRAY_LEN(equality_names))
            return err_set(e, CODE_INTERNAL, "key '%s' of '%s' has an unknown equality", k->name, label);
    for (uint16_t i = 0; i < k->nref; i++)
        if (!k->ref_cols || !k->ref_cols[i])
            return err_set(e, CODE_INTERNAL, "key '%s' of '%s' refers to a column without a name", k->name, label);
    return 0;
}

static int shape_check(const struct shape *s, struct err *e) {
    if (!s->engine || !s->ns || !s->name) return err_set(e, CODE_INTERNAL, "a shape has no engine, namespace or name");
    char label[160];
    shape_label(s, label);
    for (uint16_t i = 0; i < s->ncols; i++) {
        const struct column *c = &s->cols[i];
        if (!c->name || !c->native) return err_set(e, CODE_INTERNAL, "column %u of '%s' has no name or type", (unsigned)i, label);
        if ((size_t)c->type >= MEM_ARRAY_LEN(ltype_names) || (size_t)c->elem >= MEM_ARRAY_LEN(ltype_names) || c->ident > IDENT_AUTO ||
            (size_t)c->equality >= MEM_ARRAY_LEN(equality_names))
            return err_set(e, CODE_INTERNAL, "column '%s' of '%s' has an unknown type, equality or identity", c->name, label);
        for (uint16_t k = 0; k < i; k++)
            if (strcmp(s->cols[k].name, c->name) == 0) return err_set(e, CODE_INTERNAL, "'%s' has two columns '%s'", label, c->name);
    }
    for (uint16_t i = 0; i < s->nkeys; i++)
        if (key_check(s, &s->keys[i], e) < 0) return -1;
    if (s->identity < -1 || s->identity >= (int)s->nkeys || s->primary < -1 || s->primary >= (int)s->nkeys)
        return err_set(e, CODE_INTERNAL, "'%s' is identified by a key it does not have", label);
    return 0;
}

int shape_finish(struct shape *s, struct err *e) {
    struct buf b = BUF_INIT(SHAPE_JSON_MAX);
    int rc = -1;
    if (shape_check(s, e) < 0) goto out;
    if (shape_to_json(s, &b, e) < 0) goto out;
    rc = sha256_hex(b.p, b.n, s->digest, e);
out:
    buf_free(&b);
    return rc;
}

struct shape *shape_copy(const struct shape *s, struct err *e) {
    struct buf b = BUF_INIT(SHAPE_JSON_MAX);
    struct shape *copy = NULL;
    if (shape_to_json(s, &b, e) == 0 && (copy = shape_from_json(b.p, b.n, e))) {
        copy->table = s->table;
        copy->oid = s->oid;
    }
    buf_free(&b);
    return copy;
}

int shape_col(const struct shape *s, const char *name) {
    for (uint16_t i = 0; i < s->ncols; i++)
        if (strcmp(s->cols[i].name, name) == 0) return i;
    return -1;
}

bool shape_in_identity(const struct shape *s, uint16_t c) {
    if (s->identity < 0) return c < s->ncols;
    const struct key *k = &s->keys[s->identity];
    for (uint16_t i = 0; i < k->ncols; i++)
        if (k->cols[i] == c) return true;
    return false;
}

const char *shape_label(const struct shape *s, char out[160]) {
    snprintf(out, 160, "%.79s.%.79s", s->ns, s->name);
    return out;
}

/* ---- catalogues ------------------------------------------------------------------------------------------------------ */

struct catalog *catalog_new(struct err *e) {
    struct catalog *c = mem_alloc(sizeof *c, e);
    if (c && !(c->arena = arena_new(SHAPE_BLOCK, e))) {
        mem_free(c);
        return NULL;
    }
    return c;
}

/* Room for one more of n elements: doubled whenever n is a power of two, so the arrays need no capacity of their own. */
static bool full_at(size_t n) {
    return (n & (n - 1)) == 0;
}

int catalog_add_table(struct catalog *c, struct shape *s, struct err *e) {
    if (full_at(c->ntables)) {
        struct shape **tables = mem_resize(c->tables, (c->ntables ? c->ntables * 2 : 1) * sizeof(struct shape *), e);
        if (!tables) {
            shape_free(s);
            return -1;
        }
        c->tables = tables;
    }
    c->tables[c->ntables++] = s;
    return 0;
}

static void *grown(struct arena *a, const void *old, size_t n, size_t size, struct err *e) {
    if (!full_at(n)) return (void *)old;
    void *p = arena_zalloc(a, (n ? n * 2 : 1) * size, e);
    if (p && n) memcpy(p, old, n * size);
    return p;
}

struct object *catalog_add_object(struct catalog *c, struct err *e) {
    struct object *o = grown(c->arena, c->objects, c->nobjects, sizeof *o, e);
    if (!o) return NULL;
    c->objects = o;
    return &o[c->nobjects++];
}

int catalog_warn(struct catalog *c, struct err *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char small[1];
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0) return err_set(e, CODE_INTERNAL, "a warning cannot be formatted");
    char *line = arena_alloc(c->arena, (size_t)n + 1, e);
    const char **w = line ? grown(c->arena, c->warnings, c->nwarnings, sizeof *w, e) : NULL;
    if (!w) return -1;
    va_start(ap, fmt);
    vsnprintf(line, (size_t)n + 1, fmt, ap);
    va_end(ap);
    c->warnings = w;
    c->warnings[c->nwarnings++] = line;
    return 0;
}

void catalog_free(struct catalog *c) {
    if (!c) return;
    for (size_t i = 0; i < c->ntables; i++)
        shape_free(c->tables[i]);
    mem_free(c->tables);
    arena_free(c->arena);
    mem_free(c);
}
