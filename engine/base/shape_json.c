/* DESIGN
 *
 * The bytes of shapes/<digest>.json. One line, no spaces, no newline at its end, keys in the order in which they stand here:
 *   engine ns name columns keys [identity] [primary] [full_image] [without_rowid] [strict] [options] [create_sql]
 *   column: name type native [elem] [precision] [scale] [length] [collation] [equality] [not_null] [default] [generated] [stored] [ident]
 * [id] key:    name kind cols [equality] [constraint] [partial] [expression] [deferrable] [deferred] [nulls_not_distinct] [def] [ref_ns]
 * [ref_table] [ref_cols] [on_delete] [on_update]
 * 1. A key in brackets is left out when it says nothing: no text, false, -1 for numbers (0 for id), `bytes` for equality, none for ident.
 * 2. The reader takes exactly what the writer makes: an unknown key is refused by name, and the bytes written again must be the bytes read,
 *    so a digest names one shape and a shape has one digest. */
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/base/shape.h"

static const char *const ident_names[] = {
    [IDENT_NONE] = "none", [IDENT_ALWAYS] = "always", [IDENT_BY_DEFAULT] = "by_default", [IDENT_AUTO] = "auto"};

/* ---- writing --------------------------------------------------------------------------------------------------------- */

static void opt_str(struct jw *j, const char *k, const char *s) {
    if (s) jw_kv_str(j, k, s);
}

static void opt_int(struct jw *j, const char *k, int64_t v, int64_t none) {
    if (v != none) jw_kv_int(j, k, v);
}

static void opt_true(struct jw *j, const char *k, bool v) {
    if (v) jw_kv_bool(j, k, true);
}

static void column_write(struct jw *j, const struct column *c) {
    jw_obj(j);
    jw_kv_str(j, "name", c->name);
    jw_kv_str(j, "type", ltype_name(c->type));
    jw_kv_str(j, "native", c->native);
    if (c->type == LT_ARRAY) jw_kv_str(j, "elem", ltype_name(c->elem));
    opt_int(j, "precision", c->precision, -1);
    opt_int(j, "scale", c->scale, -1);
    opt_int(j, "length", c->length, -1);
    opt_str(j, "collation", c->collation);
    if (c->equality != EQ_BYTES) jw_kv_str(j, "equality", equality_name(c->equality));
    opt_true(j, "not_null", c->not_null);
    opt_str(j, "default", c->default_sql);
    opt_str(j, "generated", c->generated);
    opt_true(j, "stored", c->generated_stored);
    if (c->ident != IDENT_NONE) jw_kv_str(j, "ident", ident_names[c->ident]);
    opt_int(j, "id", c->id, 0);
    jw_obj_end(j);
}

static void key_write(struct jw *j, const struct key *k) {
    bool plain = true;
    for (uint16_t i = 0; k->equality && i < k->ncols; i++)
        plain = plain && k->equality[i] == EQ_BYTES;
    jw_obj(j);
    jw_kv_str(j, "name", k->name);
    jw_kv_str(j, "kind", key_kind_name(k->kind));
    jw_key(j, "cols");
    jw_arr(j);
    for (uint16_t i = 0; i < k->ncols; i++)
        jw_int(j, k->cols[i]);
    jw_arr_end(j);
    if (!plain) {
        jw_key(j, "equality");
        jw_arr(j);
        for (uint16_t i = 0; i < k->ncols; i++)
            jw_str(j, equality_name(k->equality[i]));
        jw_arr_end(j);
    }
    opt_true(j, "constraint", k->constraint);
    opt_true(j, "partial", k->partial);
    opt_true(j, "expression", k->expression);
    opt_true(j, "deferrable", k->deferrable);
    opt_true(j, "deferred", k->initially_deferred);
    opt_true(j, "nulls_not_distinct", k->nulls_not_distinct);
    opt_str(j, "def", k->def);
    opt_str(j, "ref_ns", k->ref_ns);
    opt_str(j, "ref_table", k->ref_table);
    if (k->nref) {
        jw_key(j, "ref_cols");
        jw_arr(j);
        for (uint16_t i = 0; i < k->nref; i++)
            jw_str(j, k->ref_cols[i]);
        jw_arr_end(j);
    }
    opt_str(j, "on_delete", k->on_delete);
    opt_str(j, "on_update", k->on_update);
    jw_obj_end(j);
}

int shape_to_json(const struct shape *s, struct buf *b, struct err *e) {
    struct jw j;
    jw_begin(&j, b, e);
    jw_obj(&j);
    jw_kv_str(&j, "engine", s->engine);
    jw_kv_str(&j, "ns", s->ns);
    jw_kv_str(&j, "name", s->name);
    jw_key(&j, "columns");
    jw_arr(&j);
    for (uint16_t i = 0; i < s->ncols; i++)
        column_write(&j, &s->cols[i]);
    jw_arr_end(&j);
    jw_key(&j, "keys");
    jw_arr(&j);
    for (uint16_t i = 0; i < s->nkeys; i++)
        key_write(&j, &s->keys[i]);
    jw_arr_end(&j);
    opt_int(&j, "identity", s->identity, -1);
    opt_int(&j, "primary", s->primary, -1);
    opt_true(&j, "full_image", s->full_image);
    opt_true(&j, "without_rowid", s->without_rowid);
    opt_true(&j, "strict", s->strict);
    opt_str(&j, "options", s->options);
    opt_str(&j, "create_sql", s->create_sql);
    jw_obj_end(&j);
    return jw_end(&j);
}

/* ---- reading --------------------------------------------------------------------------------------------------------- */

/* One object being read: each getter counts what it found, and done() names the first member that nobody asked for. */
struct from {
    const json_t *o;
    struct arena *a;
    struct err *e;
    bool bad;
    const char *known[32];
    size_t nknown;
};

static int bad(struct from *f, const char *k, const char *why) {
    if (!f->bad) err_set(f->e, CODE_MANIFEST_INVALID, "'%s' of a shape %s", k, why);
    f->bad = true;
    return -1;
}

static const json_t *get(struct from *f, const char *k, bool must) {
    const json_t *v = json_object_get(f->o, k);
    if (f->nknown < MEM_ARRAY_LEN(f->known)) f->known[f->nknown++] = k;
    if (!v && must) bad(f, k, "is missing");
    return v;
}

static const char *get_str(struct from *f, const char *k, bool must) {
    const json_t *v = get(f, k, must);
    if (!v || f->bad) return NULL;
    if (!json_is_string(v)) return bad(f, k, "is not a text"), NULL;
    char *s = arena_copy(f->a, json_string_value(v), json_string_length(v), f->e);
    if (!s) f->bad = true;
    return s;
}

static int64_t get_int(struct from *f, const char *k, int64_t none, int64_t min, int64_t max) {
    const json_t *v = get(f, k, false);
    if (!v || f->bad) return none;
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        return bad(f, k, "is not a number in its range"), none;
    return json_integer_value(v);
}

static bool get_true(struct from *f, const char *k) {
    const json_t *v = get(f, k, false);
    if (v && !json_is_boolean(v)) bad(f, k, "is neither true nor false");
    return json_is_true(v);
}

static const json_t *get_arr(struct from *f, const char *k, bool must, size_t max) {
    const json_t *v = get(f, k, must);
    if (!v || f->bad) return NULL;
    if (!json_is_array(v) || json_array_size(v) > max) return bad(f, k, "is not a list"), NULL;
    return v;
}

static int named(struct from *f, const char *k, const char *s, int (*find)(const char *), int none) {
    if (!s) return none;
    int v = find(s);
    return v < 0 ? bad(f, k, "is unknown") : v;
}

static int ident_find(const char *s) {
    for (size_t i = 0; i < MEM_ARRAY_LEN(ident_names); i++)
        if (strcmp(ident_names[i], s) == 0) return (int)i;
    return -1;
}

static int kind_find(const char *s) {
    for (int k = KEY_PRIMARY; k <= KEY_EXCLUDE; k++)
        if (strcmp(key_kind_name((enum key_kind)k), s) == 0) return k;
    return -1;
}

static int done(struct from *f) {
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)f->o, name, v) {
        size_t i = 0;
        while (i < f->nknown && strcmp(f->known[i], name) != 0)
            i++;
        if (i == f->nknown) return bad(f, name, "is unknown: a newer sluice wrote it");
    }
    return f->bad ? -1 : 0;
}

static int column_read(const json_t *o, struct column *c, struct arena *a, struct err *e) {
    struct from f = {.o = o, .a = a, .e = e};
    if (!json_is_object(o)) return bad(&f, "columns", "holds something else");
    c->name = get_str(&f, "name", true);
    c->type = (enum ltype)named(&f, "type", get_str(&f, "type", true), ltype_find, 0);
    c->native = get_str(&f, "native", true);
    c->elem = (enum ltype)named(&f, "elem", get_str(&f, "elem", false), ltype_find, 0);
    c->precision = (int32_t)get_int(&f, "precision", -1, 0, INT32_MAX);
    c->scale = (int32_t)get_int(&f, "scale", -1, INT32_MIN, INT32_MAX);
    c->length = (int32_t)get_int(&f, "length", -1, 0, INT32_MAX);
    c->collation = get_str(&f, "collation", false);
    c->equality = (enum equality)named(&f, "equality", get_str(&f, "equality", false), equality_find, EQ_BYTES);
    c->not_null = get_true(&f, "not_null");
    c->default_sql = get_str(&f, "default", false);
    c->generated = get_str(&f, "generated", false);
    c->generated_stored = get_true(&f, "stored");
    c->ident = (enum ident)named(&f, "ident", get_str(&f, "ident", false), ident_find, IDENT_NONE);
    c->id = get_int(&f, "id", 0, INT64_MIN, INT64_MAX);
    return done(&f);
}

static int key_cols_read(struct from *f, struct key *k) {
    const json_t *cols = get_arr(f, "cols", true, UINT16_MAX), *eq = get_arr(f, "equality", false, UINT16_MAX);
    const json_t *ref = get_arr(f, "ref_cols", false, UINT16_MAX);
    if (f->bad) return -1;
    k->ncols = (uint16_t)json_array_size(cols);
    k->nref = (uint16_t)json_array_size(ref);
    uint16_t *c = arena_zalloc(f->a, (k->ncols + 1u) * sizeof *c, f->e);
    enum equality *q = arena_zalloc(f->a, (k->ncols + 1u) * sizeof *q, f->e);
    const char **r = arena_zalloc(f->a, (k->nref + 1u) * sizeof *r, f->e);
    if (!c || !q || !r) return f->bad = true, -1;
    if (eq && json_array_size(eq) != k->ncols) return bad(f, "equality", "does not fit its columns");
    for (uint16_t i = 0; i < k->ncols; i++) {
        const json_t *v = json_array_get(cols, i), *w = json_array_get(eq, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > UINT16_MAX)
            return bad(f, "cols", "holds something else");
        c[i] = (uint16_t)json_integer_value(v);
        if (eq && !json_is_string(w)) return bad(f, "equality", "holds something else");
        int found = eq ? named(f, "equality", json_string_value(w), equality_find, 0) : EQ_BYTES;
        if (found < 0) return -1;
        q[i] = (enum equality)found;
    }
    for (uint16_t i = 0; i < k->nref; i++) {
        const json_t *v = json_array_get(ref, i);
        if (!json_is_string(v)) return bad(f, "ref_cols", "holds something else");
        if (!(r[i] = arena_copy(f->a, json_string_value(v), json_string_length(v), f->e))) return f->bad = true, -1;
    }
    k->cols = c;
    k->equality = q;
    k->ref_cols = r;
    return 0;
}

static int key_read(const json_t *o, struct key *k, struct arena *a, struct err *e) {
    struct from f = {.o = o, .a = a, .e = e};
    if (!json_is_object(o)) return bad(&f, "keys", "holds something else");
    k->name = get_str(&f, "name", true);
    k->kind = (enum key_kind)named(&f, "kind", get_str(&f, "kind", true), kind_find, 0);
    if (key_cols_read(&f, k) < 0) return -1;
    k->constraint = get_true(&f, "constraint");
    k->partial = get_true(&f, "partial");
    k->expression = get_true(&f, "expression");
    k->deferrable = get_true(&f, "deferrable");
    k->initially_deferred = get_true(&f, "deferred");
    k->nulls_not_distinct = get_true(&f, "nulls_not_distinct");
    k->def = get_str(&f, "def", false);
    k->ref_ns = get_str(&f, "ref_ns", false);
    k->ref_table = get_str(&f, "ref_table", false);
    k->on_delete = get_str(&f, "on_delete", false);
    k->on_update = get_str(&f, "on_update", false);
    return done(&f);
}

static int shape_read(const json_t *o, struct shape *s, struct err *e) {
    struct from f = {.o = o, .a = s->arena, .e = e};
    if (!json_is_object(o)) return err_set(e, CODE_MANIFEST_INVALID, "a shape is not an object");
    s->engine = get_str(&f, "engine", true);
    s->ns = get_str(&f, "ns", true);
    s->name = get_str(&f, "name", true);
    const json_t *columns = get_arr(&f, "columns", true, UINT16_MAX), *keys = get_arr(&f, "keys", true, INT16_MAX);
    if (f.bad) return -1;
    s->ncols = (uint16_t)json_array_size(columns);
    s->nkeys = (uint16_t)json_array_size(keys);
    struct column *c = arena_zalloc(s->arena, (s->ncols + 1u) * sizeof *c, e);
    struct key *k = arena_zalloc(s->arena, (s->nkeys + 1u) * sizeof *k, e);
    if (!c || !k) return -1;
    for (uint16_t i = 0; i < s->ncols; i++)
        if (column_read(json_array_get(columns, i), &c[i], s->arena, e) < 0) return -1;
    for (uint16_t i = 0; i < s->nkeys; i++)
        if (key_read(json_array_get(keys, i), &k[i], s->arena, e) < 0) return -1;
    s->cols = c;
    s->keys = k;
    s->identity = (int16_t)get_int(&f, "identity", -1, 0, INT16_MAX);
    s->primary = (int16_t)get_int(&f, "primary", -1, 0, INT16_MAX);
    s->full_image = get_true(&f, "full_image");
    s->without_rowid = get_true(&f, "without_rowid");
    s->strict = get_true(&f, "strict");
    s->options = get_str(&f, "options", false);
    s->create_sql = get_str(&f, "create_sql", false);
    return done(&f);
}

struct shape *shape_from_json(const char *p, size_t n, struct err *e) {
    struct buf again = BUF_INIT(n + 4096);
    struct shape *s = shape_new(e);
    json_t *o = s ? json_parse(p, n, "a shape", e) : NULL;
    int rc = -1;
    if (!o || shape_read(o, s, e) < 0) goto out;
    if (shape_finish(s, e) < 0) {
        if (e->code == CODE_INTERNAL) err_set(e, CODE_MANIFEST_INVALID, "a shape contradicts itself: its columns and keys do not fit");
        goto out;
    }
    if (shape_to_json(s, &again, e) < 0) goto out;
    if (again.n != n || memcmp(again.p, p, n) != 0) {
        err_set(e, CODE_MANIFEST_INVALID, "a shape is not written as sluice writes it");
        goto out;
    }
    rc = 0;
out:
    buf_free(&again);
    json_decref(o);
    if (rc < 0) shape_free(s), s = NULL;
    return s;
}
