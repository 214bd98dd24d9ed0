/* Which lane takes a change, and what the recorded rules say. */
#include "engine/flow/route.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "tests/tap.h"

static struct err err;
#define E (&err)

static struct value text(const char *s) {
    return s ? (struct value){s, (uint32_t)strlen(s), VALUE_TEXT} : VALUE_OF_NULL;
}

/* ---- the hash: frozen ------------------------------------------------------------------------------------------------- */

/* Computed by another program from the description in route.c. */
static void vectors(void) {
    static const uint16_t cols[] = {0, 1};
    static const struct {
        const char *a, *b;
        uint16_t n;
        uint64_t h;
    } v[] = {{"1", NULL, 1, UINT64_C(0x76cbc8bdd1a3db01)},  {"42", NULL, 1, UINT64_C(0xdf4a1eb4865a50c8)},
             {"", NULL, 1, UINT64_C(0x4d33a93727192487)},   {"a", "bc", 2, UINT64_C(0x9bb08d259f8ef201)},
             {"ab", "c", 2, UINT64_C(0xc460cdda4834c43c)},  {"550e8400-e29b-41d4-a716-446655440000", NULL, 1, UINT64_C(0xf1e27848f5201009)},
             {NULL, NULL, 1, UINT64_C(0x5dbeb358e39c496d)}, {"日本", NULL, 1, UINT64_C(0xf2eb0bccd875c7b5)}};
    for (size_t i = 0; i < MEM_ARRAY_LEN(v); i++) {
        struct value r[2] = {text(v[i].a), text(v[i].b)};
        ok(route_hash(r, NULL, cols, v[i].n) == v[i].h, "hash of ('%s'%s%s) is 0x%016llx", v[i].a ? v[i].a : "NULL",
           v[i].n > 1 ? "', '" : "", v[i].b ? v[i].b : "", (unsigned long long)v[i].h);
    }
    struct value known[1] = {text("42")}, kept[1] = {{NULL, 0, VALUE_UNCHANGED}}, bytes[1] = {{"42", 2, VALUE_BYTES}};
    ok(route_hash(kept, known, cols, 1) == route_hash(known, NULL, cols, 1), "what an update leaves unchanged is hashed as it was");
    ok(route_hash(bytes, NULL, cols, 1) == route_hash(known, NULL, cols, 1), "the kind of the value does not count");
}

/* ---- rules ------------------------------------------------------------------------------------------------------------- */

struct kspec {
    enum key_kind kind;
    const char *cols;
    enum equality equality;
    bool deferrable;
    const char *ref;
}; /* cols: letters */

static struct shape *shape_of(const char *name, const char *ns, uint32_t number, const char *not_null, const struct kspec *k,
                              uint16_t nkeys, int identity) {
    struct shape *s = shape_new(E);
    struct column *c = arena_zalloc(s->arena, 4 * sizeof *c, E);
    struct key *keys = arena_zalloc(s->arena, (nkeys + 1u) * sizeof *keys, E);
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++)
        c[i] = (struct column){.name = names[i],
                               .native = "text",
                               .type = LT_TEXT,
                               .precision = -1,
                               .scale = -1,
                               .length = -1,
                               .not_null = strchr(not_null, 'a' + i) != NULL};
    for (uint16_t i = 0; i < nkeys; i++) {
        uint16_t *cols = arena_zalloc(s->arena, 4 * sizeof *cols, E);
        enum equality *q = arena_zalloc(s->arena, 4 * sizeof *q, E);
        keys[i] = (struct key){.name = "k",
                               .kind = k[i].kind,
                               .cols = cols,
                               .equality = q,
                               .deferrable = k[i].deferrable,
                               .ref_table = k[i].ref,
                               .ref_ns = k[i].ref ? ns : NULL};
        for (const char *p = k[i].cols; *p; p++) {
            q[keys[i].ncols] = k[i].equality;
            cols[keys[i].ncols++] = (uint16_t)(*p - 'a');
        }
    }
    s->engine = "postgres";
    s->ns = ns;
    s->name = name;
    s->table = number;
    s->ncols = 4;
    s->cols = c;
    s->nkeys = nkeys;
    s->keys = keys;
    s->identity = s->primary = (int16_t)identity;
    if (shape_finish(s, E) < 0) {
        printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    return s;
}

static struct {
    const char *name;
    struct shape *s;
} on_target[8];
static size_t non_target;

static int rt_shape(struct target *t, const char *ns, const char *name, struct shape **s, struct err *e) {
    (void)t, (void)ns;
    *s = NULL;
    for (size_t i = 0; i < non_target; i++)
        if (strcmp(on_target[i].name, name) == 0) return (*s = shape_copy(on_target[i].s, e)) ? 0 : -1;
    return 0;
}
static const char *rt_ns(struct target *t) {
    (void)t;
    return "public";
}
static void rt_unbind(struct target_table *t) {
    (void)t;
}
static const struct target_ops rt_ops = {.table_shape = rt_shape, .default_ns = rt_ns, .unbind = rt_unbind};
static const struct db_driver rt_driver = {.name = "fake", .default_ns = "public", .target = &rt_ops};

static struct tables ts;
static struct shape *kept[16];
static size_t nkept;
static void begin(void) {
    tables_init(&ts, &rt_driver, NULL, NULL, NULL, 0, E);
}
static void put(struct shape *src, struct shape *dst) {
    kept[nkept++] = src;
    if (tables_put(&ts, src, NULL, E) < 0) {
        printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    if (!dst) return;
    on_target[non_target].name = src->name;
    on_target[non_target++].s = dst;
}
static void end(void) {
    tables_free(&ts);
    for (size_t i = 0; i < nkept; i++)
        shape_free(kept[i]);
    for (size_t i = 0; i < non_target; i++)
        shape_free(on_target[i].s);
    nkept = non_target = 0;
}

static const struct kspec pk = {KEY_PRIMARY, "a", EQ_BYTES, false, NULL};

/* One table with the keys given, on the source and on the target: how is it dealt? */
static void one_table(const char *claim, const struct kspec *src, uint16_t nsrc, int identity, const struct kspec *dst, uint16_t ndst,
                      const char *not_null, const char *want) {
    struct route r;
    begin();
    put(shape_of("t", "public", 3, "a", src, nsrc, identity),
        ndst == UINT16_MAX ? NULL : shape_of("t", "public", 0, not_null, dst, ndst, ndst ? 0 : -1));
    if (route_make(&r, 4, &ts, false, E) < 0) return (void)ok(0, "%s: %s", claim, err.msg);
    is_str(r.rules, want, "%s", claim);
    route_free(&r);
    end();
}
#define HASHED(c) "{\"tables\":[{\"table\":3,\"name\":\"public.t\",\"hash\":[" c "]}]}"
#define WHOLE(w) "{\"tables\":[{\"table\":3,\"name\":\"public.t\",\"lane\":3,\"why\":\"" w "\"}]}"

static void rules(void) {
    const struct kspec two = {KEY_PRIMARY, "ab", EQ_BYTES, false, NULL}, swapped = {KEY_UNIQUE, "ba", EQ_BYTES, false, NULL};
    const struct kspec other[] = {pk, {KEY_UNIQUE, "b", EQ_BYTES, false, NULL}}, index[] = {pk, {KEY_INDEX, "b", EQ_BYTES, false, NULL}};
    const struct kspec excl[] = {pk, {KEY_EXCLUDE, "b", EQ_BYTES, false, NULL}}, numeric = {KEY_PRIMARY, "a", EQ_NUMERIC, false, NULL};
    const struct kspec wider[] = {pk, {KEY_UNIQUE, "ca", EQ_BYTES, false, NULL}};
    const struct kspec nocase = {KEY_PRIMARY, "a", EQ_NOCASE, false, NULL}, uq = {KEY_UNIQUE, "a", EQ_BYTES, false, NULL},
                       late = {KEY_PRIMARY, "a", EQ_BYTES, true, NULL};
    one_table("one key on both sides, by bytes: hashed", &pk, 1, 0, &pk, 1, "a", HASHED("\"a\""));
    one_table("columns in the source's order, whatever the target's", &two, 1, 0, &swapped, 1, "ab", HASHED("\"a\",\"b\""));
    one_table("a plain index beside it does not matter", index, 2, 0, index, 2, "a", HASHED("\"a\""));
    one_table("a deferrable key is a key", &late, 1, 0, &late, 1, "a", HASHED("\"a\""));
    one_table("a unique key of the same columns does as well", &pk, 1, 0, &uq, 1, "a", HASHED("\"a\""));
    one_table("but they must be NOT NULL", &pk, 1, 0, &uq, 1, "", WHOLE("the target lacks the key"));
    one_table("a unique key that the key is part of cannot join two rows", &pk, 1, 0, wider, 2, "a", HASHED("\"a\""));
    one_table("no key", NULL, 0, -1, NULL, 0, "", WHOLE("no key"));
    one_table("another unique key on the source", other, 2, 0, &pk, 1, "a", WHOLE("another unique key on the source"));
    one_table("another unique key on the target", &pk, 1, 0, other, 2, "a", WHOLE("another unique key on the target"));
    one_table("an exclusion constraint", &pk, 1, 0, excl, 2, "a", WHOLE("another unique key on the target"));
    one_table("a key that is not compared by bytes on the source", &numeric, 1, 0, &pk, 1, "a", WHOLE("the key is not compared by bytes"));
    one_table("a key that is not compared by bytes on the target", &pk, 1, 0, &nocase, 1, "a",
              WHOLE("the target's key is not compared by bytes"));
    one_table("a target without the key", &pk, 1, 0, NULL, 0, "a", WHOLE("the target lacks the key"));
    one_table("a target whose key has fewer columns", &two, 1, 0, &pk, 1, "ab", WHOLE("another unique key on the target"));
    one_table("a target without the table", &pk, 1, 0, NULL, UINT16_MAX, "a", WHOLE("not on the target"));
}

/* 5 refers to 2, 7 to 5, 4 to itself; 6 to nobody. */
static void family(bool enforced, bool late, struct route *r) {
    const struct kspec root[] = {{KEY_PRIMARY, "a", EQ_BYTES, late, NULL}}, to2[] = {pk, {KEY_FOREIGN, "b", EQ_BYTES, false, "two"}},
                       to5[] = {pk, {KEY_FOREIGN, "b", EQ_BYTES, false, "five"}}, to4[] = {pk, {KEY_FOREIGN, "b", EQ_BYTES, false, "four"}};
    begin();
    put(shape_of("two", "public", 2, "a", &pk, 1, 0), shape_of("two", "public", 0, "a", root, 1, 0));
    put(shape_of("four", "public", 4, "a", to4, 2, 0), shape_of("four", "public", 0, "a", to4, 2, 0));
    put(shape_of("five", "public", 5, "a", to2, 2, 0), shape_of("five", "public", 0, "a", to2, 2, 0));
    put(shape_of("six", "public", 6, "a", &pk, 1, 0), shape_of("six", "public", 0, "a", &pk, 1, 0));
    put(shape_of("seven", "public", 7, "a", to5, 2, 0), shape_of("seven", "public", 0, "a", to5, 2, 0));
    if (route_make(r, 4, &ts, enforced, E) < 0) ok(0, "%s", err.msg);
}
static void foreign_keys(void) {
    struct route r, back;
    family(true, false, &r);
    ok(!r.v[2].hashed && !r.v[5].hashed && !r.v[7].hashed && r.v[2].lane == 2 && r.v[5].lane == 2 && r.v[7].lane == 2,
       "tables joined by enforced foreign keys go to one lane");
    ok(!r.v[4].hashed && r.v[4].lane == 0, "so does one that refers to itself");
    ok(r.v[6].hashed, "and another one is dealt by its key");
    ok(route_parse(&back, 4, r.rules, &ts, E) == 0 && back.v[7].lane == 2 && back.v[6].hashed && back.v[6].ncols == 1 && !back.v[4].hashed,
       "the recorded text says the same");
    is_str(back.rules, r.rules, "and is kept as it is");
    route_free(&back);
    route_free(&r);
    end();
    family(false, false, &r);
    ok(r.v[2].hashed && r.v[4].hashed && r.v[5].hashed && r.v[7].hashed, "where they are not enforced, they do not count");
    route_free(&r);
    end();
    family(false, true, &r);
    ok(!r.v[2].hashed && !r.v[5].hashed && r.v[6].hashed && r.v[2].lane == r.v[5].lane && r.v[7].hashed,
       "a table with a deferrable key is written with them on");
    route_free(&r);
    end();
}

static void reading(void) {
    static const struct {
        const char *text, *claim;
    } bad[] = {
        {"", "nothing"},
        {"{", "a cut text"},
        {"{}", "no tables"},
        {"{\"tables\":[{\"table\":3,\"hash\":[\"nope\"]}]}", "an unknown column"},
        {"{\"tables\":[{\"table\":3,\"hash\":[]}]}", "no column"},
        {"{\"tables\":[{\"table\":3,\"lane\":4}]}", "a lane that there is not"},
        {"{\"tables\":[{\"table\":3}]}", "neither"},
        {"{\"tables\":[{\"table\":3,\"lane\":1},{\"table\":3,\"lane\":2}]}", "a table twice"},
        {"{\"tables\":[{\"lane\":1}]}", "no number"},
    };
    struct route r;
    begin();
    put(shape_of("t", "public", 3, "a", &pk, 1, 0), shape_of("t", "public", 0, "a", &pk, 1, 0));
    for (size_t i = 0; i < MEM_ARRAY_LEN(bad); i++) {
        err_clear(E);
        ok(route_parse(&r, 4, bad[i].text, &ts, E) < 0 && err.code == CODE_MARK_MISMATCH && err.marker == MARKER_APPLY_MARK_MISMATCH,
           "%s: %s", bad[i].claim, err.msg);
    }
    ok(route_parse(&r, 4, "{\"tables\":[{\"table\":900,\"lane\":1},{\"table\":3,\"hash\":[\"b\",\"a\"]}]}", &ts, E) == 0 &&
           r.v[3].ncols == 2 && r.v[3].cols[0] == 1,
       "a table that nobody announced is passed over; columns keep their order");
    route_free(&r);
    end();
}

/* ---- changes ----------------------------------------------------------------------------------------------------------- */

static void changes(void) {
    struct route r;
    unsigned from, to, lanes[4] = {0}, moved = 0;
    begin();
    put(shape_of("t", "public", 3, "a", &pk, 1, 0), shape_of("t", "public", 0, "a", &pk, 1, 0));
    put(shape_of("k", "public", 6, "a", NULL, 0, -1), NULL);
    if (route_make(&r, 4, &ts, false, E) < 0) return (void)ok(0, "%s", err.msg);
    for (int i = 0; i < 4000; i++) {
        char id[16], next[16];
        snprintf(id, sizeof id, "%d", i);
        snprintf(next, sizeof next, "%d", i + 100000);
        struct value old[4] = {text(id), text("x"), text("y"), text("z")}, new[4] = {text(next), text("x"), text("y"), text("z")},
                     part[4] = {text(id)};
        for (int c = 1; c < 4; c++)
            part[c].kind = VALUE_UNCHANGED;
        struct change ins = {.op = CHANGE_INSERT, .table = 3, .after = old}, upd = {.op = CHANGE_UPDATE, .table = 3, .after = old},
                      del = {.op = CHANGE_DELETE, .table = 3, .before = part, .before_image = IMAGE_KEY},
                      move = {.op = CHANGE_UPDATE, .table = 3, .before = part, .before_image = IMAGE_KEY, .after = new};
        unsigned a = route_lane(&r, &ins, &from), b = route_lane(&r, &upd, &to), c = route_lane(&r, &del, &to);
        if (a != from || a != b || b != c) return (void)ok(0, "row %d is in lanes %u, %u and %u", i, a, b, c);
        lanes[a]++;
        to = route_lane(&r, &move, &from);
        if (from != a) return (void)ok(0, "row %d moves from lane %u, and was in %u", i, from, a);
        moved += to != from;
    }
    ok(1, "insert, update and delete of one row go to one lane");
    ok(lanes[0] > 850 && lanes[1] > 850 && lanes[2] > 850 && lanes[3] > 850, "4000 rows are dealt evenly (%u, %u, %u, %u)", lanes[0],
       lanes[1], lanes[2], lanes[3]);
    ok(moved > 2700 && moved < 3300, "a new key lies elsewhere three times of four (%u)", moved);
    struct value row[4] = {text("1"), text("2"), text("3"), text("4")};
    struct change whole = {.op = CHANGE_UPDATE, .table = 6, .before = row, .after = row},
                  later = {.op = CHANGE_INSERT, .table = 9, .after = row};
    ok(route_lane(&r, &whole, &from) == 2 && from == 2, "a table without a key goes whole to its lane");
    ok(route_lane(&r, &later, &from) == 1 && from == 1, "so does one without a rule");
    route_free(&r);
    end();
}

int main(void) {
    vectors();
    rules();
    foreign_keys();
    reading();
    changes();
    return done_testing();
}
