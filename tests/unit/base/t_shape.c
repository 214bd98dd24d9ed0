/* Shapes: frozen bytes, one digest for one shape, nothing read that was not written. */
#include "engine/base/shape.h"

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "tests/tap.h"

/* As a driver makes one. with_all: every member set. */
static struct shape *made(bool with_all, struct err *e) {
    struct shape *s = shape_new(e);
    if (!s) return NULL;
    struct column *c = arena_zalloc(s->arena, 3 * sizeof *c, e);
    struct key *k = arena_zalloc(s->arena, 2 * sizeof *k, e);
    uint16_t *cols = arena_zalloc(s->arena, 2 * sizeof *cols, e);
    if (!c || !k || !cols) goto fail;
    s->engine = "postgres", s->ns = "public", s->name = "t";
    c[0] =
        (struct column){.name = "id", .native = "bigint", .type = LT_INT64, .precision = -1, .scale = -1, .length = -1, .not_null = true};
    c[1] = (struct column){.name = "v", .native = "text", .type = LT_TEXT, .precision = -1, .scale = -1, .length = -1};
    s->ncols = 2, s->cols = c, s->nkeys = 1, s->keys = k;
    k[0] = (struct key){.name = "t_pkey", .kind = KEY_PRIMARY, .ncols = 1, .cols = cols, .constraint = true};
    s->identity = s->primary = 0;
    if (with_all) {
        static const char *const ref[] = {"a", "b"};
        enum equality *q = arena_zalloc(s->arena, 2 * sizeof *q, e);
        if (!q) goto fail;
        q[0] = EQ_NOCASE, q[1] = EQ_BYTES;
        cols[0] = 1, cols[1] = 0;
        c[1] = (struct column){.name = "v\"\xc3\xa9",
                               .native = "numeric(12,2)[]",
                               .collation = "de_DE",
                               .default_sql = "'x'::text",
                               .generated = "id + 1",
                               .id = 7,
                               .type = LT_ARRAY,
                               .elem = LT_NUMERIC,
                               .precision = 12,
                               .scale = 2,
                               .length = 9,
                               .equality = EQ_NONDET,
                               .ident = IDENT_BY_DEFAULT,
                               .not_null = true,
                               .generated_stored = true};
        c[2] = (struct column){
            .name = "w", .native = "", .type = LT_NATIVE, .precision = -1, .scale = -3, .length = 0, .id = -1, .default_sql = ""};
        s->ncols = 3, s->nkeys = 2;
        k[1] = (struct key){.name = "fk",
                            .def = "FOREIGN KEY …",
                            .kind = KEY_FOREIGN,
                            .ncols = 2,
                            .cols = cols,
                            .equality = q,
                            .constraint = true,
                            .partial = true,
                            .expression = true,
                            .deferrable = true,
                            .initially_deferred = true,
                            .nulls_not_distinct = true,
                            .ref_ns = "n",
                            .ref_table = "r",
                            .nref = 2,
                            .ref_cols = ref,
                            .on_delete = "CASCADE",
                            .on_update = "NO ACTION"};
        k[0].cols = cols + 1;
        s->identity = 1;
        s->full_image = s->without_rowid = s->strict = true;
        s->options = "PARTITION BY LIST (v)", s->create_sql = "CREATE TABLE t(\n…)";
        s->table = 3, s->oid = 16384;
    }
    if (shape_finish(s, e) == 0) return s;
fail:
    shape_free(s);
    return NULL;
}

static const char plain[] = "{\"engine\":\"postgres\",\"ns\":\"public\",\"name\":\"t\",\"columns\":[{\"name\":\"id\",\"type\":\"int64\","
                            "\"native\":\"bigint\",\"not_null\":true},"
                            "{\"name\":\"v\",\"type\":\"text\",\"native\":\"text\"}],\"keys\":[{\"name\":\"t_pkey\",\"kind\":\"primary\","
                            "\"cols\":[0],\"constraint\":true}],"
                            "\"identity\":0,\"primary\":0}";
static const char full[] = "{\"engine\":\"postgres\",\"ns\":\"public\",\"name\":\"t\",\"columns\":[{\"name\":\"id\",\"type\":\"int64\","
                           "\"native\":\"bigint\",\"not_null\":true},"
                           "{\"name\":\"v\\\"\xc3\xa9\",\"type\":\"array\",\"native\":\"numeric(12,2)[]\",\"elem\":\"numeric\","
                           "\"precision\":12,\"scale\":2,\"length\":9,\"collation\":\"de_DE\","
                           "\"equality\":\"nondeterministic\",\"not_null\":true,\"default\":\"'x'::text\",\"generated\":\"id + "
                           "1\",\"stored\":true,\"ident\":\"by_default\",\"id\":7},"
                           "{\"name\":\"w\",\"type\":\"native\",\"native\":\"\",\"scale\":-3,\"length\":0,\"default\":\"\",\"id\":-1}],"
                           "\"keys\":[{\"name\":\"t_pkey\",\"kind\":\"primary\",\"cols\":[0],\"constraint\":true},"
                           "{\"name\":\"fk\",\"kind\":\"foreign\",\"cols\":[1,0],\"equality\":[\"nocase\",\"bytes\"],\"constraint\":true,"
                           "\"partial\":true,\"expression\":true,\"deferrable\":true,"
                           "\"deferred\":true,\"nulls_not_distinct\":true,\"def\":\"FOREIGN KEY "
                           "…\",\"ref_ns\":\"n\",\"ref_table\":\"r\",\"ref_cols\":[\"a\",\"b\"],\"on_delete\":\"CASCADE\","
                           "\"on_update\":\"NO "
                           "ACTION\"}],\"identity\":1,\"primary\":0,\"full_image\":true,\"without_rowid\":true,\"strict\":true,\"options\":"
                           "\"PARTITION BY LIST (v)\","
                           "\"create_sql\":\"CREATE TABLE t(\\n…)\"}";

static void bytes_are_frozen(bool with_all, const char *want, const char *digest) {
    struct err e = {0};
    struct buf b = BUF_INIT(MiB(1));
    char hex[65];
    struct shape *s = made(with_all, &e), *back = NULL, *copy = NULL;
    ok(s != NULL, "made: %s", e.msg);
    if (!s) return;
    shape_to_json(s, &b, &e);
    is_str(buf_str(&b, &e), want, "the bytes");
    is_str(s->digest, digest, "the digest, frozen");
    sha256_hex(b.p, b.n, hex, &e);
    is_str(s->digest, hex, "the digest is that of the bytes");
    back = shape_from_json(b.p, b.n, &e);
    ok(back != NULL, "read back: %s", e.msg);
    if (back) is_str(back->digest, s->digest, "with the same digest");
    if (back) ok(back->table == 0 && back->oid == 0, "table number and oid are not in it");
    copy = shape_copy(s, &e);
    ok(copy && strcmp(copy->digest, s->digest) == 0 && copy->table == s->table && copy->oid == s->oid && copy->arena != s->arena,
       "a copy is equal and its own");
    shape_free(copy);
    shape_free(back);
    shape_free(s);
    buf_free(&b);
}

/* The plain shape with one place changed must be refused. */
static void refuses(const char *from, const char *to, const char *name) {
    char text[2048];
    struct err e = {0};
    const char *at = strstr(plain, from);
    snprintf(text, sizeof text, "%.*s%s%s", at ? (int)(at - plain) : 0, plain, to, at ? at + strlen(from) : "");
    struct shape *s = shape_from_json(text, strlen(text), &e);
    ok(at && !s && e.code == CODE_MANIFEST_INVALID, "%s: %s", name, e.msg);
    shape_free(s);
}

static void other_texts_are_refused(void) {
    refuses("{\"engine\"", "{\"colour\":1,\"engine\"", "an unknown key");
    refuses("\"not_null\":true", "\"not_null\":true,\"colour\":1", "an unknown key of a column");
    refuses("\"cols\":[0]", "\"cols\":[0],\"colour\":1", "an unknown key of a key");
    refuses("\"name\":\"t\",", "", "no name");
    refuses("\"columns\"", "\"columns\" ", "a blank");
    refuses("\"ns\":\"public\",\"name\":\"t\"", "\"name\":\"t\",\"ns\":\"public\"", "another order");
    refuses("\"native\":\"text\"", "\"native\":\"text\",\"precision\":-1", "a default written out");
    refuses("\"native\":\"text\"", "\"native\":\"text\",\"not_null\":false", "false written out");
    refuses("\"type\":\"text\"", "\"type\":\"texts\"", "an unknown type");
    refuses("\"kind\":\"primary\"", "\"kind\":\"prime\"", "an unknown kind of key");
    refuses("\"cols\":[0]", "\"cols\":[2]", "a key of a column that is not there");
    refuses("\"cols\":[0]", "\"cols\":[-1]", "a negative ordinal");
    refuses("\"cols\":[0]", "\"cols\":0", "columns that are no list");
    refuses("\"identity\":0", "\"identity\":1", "identified by a key that is not there");
    refuses("\"name\":\"v\"", "\"name\":\"id\"", "two columns of one name");
    refuses("\"constraint\":true", "\"constraint\":1", "a number for a bool");
    refuses("\"primary\":0}", "\"primary\":0}\n", "a newline at the end");
    refuses("\"primary\":0}", "\"primary\":0", "cut");
    struct err e = {0};
    ok(shape_from_json("[]", 2, &e) == NULL && e.code == CODE_MANIFEST_INVALID, "not an object");
}

static void a_driver_s_mistakes_are_bugs(void) {
    struct err e = {0};
    struct shape *s = made(false, &e);
    s->identity = 4;
    ok(shape_finish(s, &e) == -1 && e.code == CODE_INTERNAL, "an identity that is not there");
    s->identity = -1;
    ((struct column *)s->cols)[1].name = "id";
    ok(shape_finish(s, &e) == -1 && e.code == CODE_INTERNAL, "two columns of one name");
    ((struct column *)s->cols)[1].name = "\xff";
    ok(shape_finish(s, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE, "a name that is not UTF-8");
    ((struct column *)s->cols)[1].name = "v";
    ok(shape_finish(s, &e) == 0 && shape_in_identity(s, 0) && shape_in_identity(s, 1) && !shape_in_identity(s, 2),
       "without identity every column belongs to it");
    s->identity = 0;
    ok(shape_in_identity(s, 0) && !shape_in_identity(s, 1), "with one, its columns do");
    char label[160];
    is_str(shape_label(s, label), "public.t", "label");
    ok(shape_col(s, "v") == 1 && shape_col(s, "V") == -1, "columns are found by exact name");
    shape_free(s);
}

static void names_go_both_ways(void) {
    int good = 0;
    for (int t = LT_BOOL; t <= LT_NATIVE; t++)
        good += ltype_find(ltype_name((enum ltype)t)) == t;
    is_int(good, LT_NATIVE + 1, "every type");
    good = 0;
    for (int q = EQ_BYTES; q <= EQ_NUMERIC; q++)
        good += equality_find(equality_name((enum equality)q)) == q;
    is_int(good, EQ_NUMERIC + 1, "every equality");
    ok(ltype_find("") == -1 && equality_find("x") == -1, "unknown names");
}

static int catalogue(struct err *e) {
    struct catalog *c = catalog_new(e);
    int rc = -1;
    if (!c) return -1;
    for (int i = 0; i < 5; i++) {
        struct shape *s = made(i & 1, e);
        if (!s || catalog_add_table(c, s, e) < 0) goto out;
        struct object *o = catalog_add_object(c, e);
        if (!o || catalog_warn(c, e, "view '%d' is not carried", i) < 0) goto out;
        o->value = i;
    }
    rc = c->ntables == 5 && c->nobjects == 5 && c->nwarnings == 5 && c->objects[0].value == 0 && c->objects[4].value == 4 &&
                 strcmp(c->warnings[0], "view '0' is not carried") == 0 && strcmp(c->warnings[4], "view '4' is not carried") == 0 &&
                 c->tables[3]->ncols == 3
             ? 0
             : -2;
out:
    catalog_free(c);
    return rc;
}

static int round_trip(struct err *e) {
    struct shape *s = made(true, e), *copy = s ? shape_copy(s, e) : NULL;
    int rc = copy ? 0 : -1;
    shape_free(copy);
    shape_free(s);
    return rc;
}

static void failing_memory_is_told(const char *name, int (*f)(struct err *)) {
    long k = 0;
    int rc = -1, wrong = 0;
    for (; rc < 0 && k < 1000; k++) {
        struct err e = {0};
        mem_fail_after(k);
        rc = f(&e);
        mem_fail_after(-1);
        wrong += rc < 0 && e.code != CODE_NO_MEMORY;
    }
    ok(rc == 0 && wrong == 0 && k > 8, "%s: each of %ld allocations fails cleanly", name, k - 1);
}

int main(void) {
    bytes_are_frozen(false, plain, "eaeedff4029a998b9cc049b22783312a1322fe7f43126a7c2c1bd9ba69f7218e");
    bytes_are_frozen(true, full, "71150f5bfc0b4a6fdf48040d94bcc8fd7175f0a06751c937479e61085d152cf0");
    other_texts_are_refused();
    a_driver_s_mistakes_are_bugs();
    names_go_both_ways();
    struct err e = {0};
    is_int(catalogue(&e), 0, "a catalogue grows");
    failing_memory_is_told("catalogue", catalogue);
    failing_memory_is_told("shape", round_trip);
    return done_testing();
}
