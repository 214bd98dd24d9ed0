#include "engine/flow/tables.h"
#include "tests/tap.h"

static struct err e;

struct target_table { int n; };
static int binds, unbinds;
static struct target_table one_bound;
static int fake_bind(struct target *t, const struct shape *s, const char *ns, const char *name, struct target_table **tt, struct err *er) {
    (void)t, (void)s, (void)ns, (void)name, (void)er;
    binds++;
    *tt = &one_bound;
    return 0;
}
static void fake_unbind(struct target_table *tt) { (void)tt; unbinds++; }
static const char *fake_ns(struct target *t) { (void)t; return "public"; }
static const struct target_ops ops = {.bind = fake_bind, .unbind = fake_unbind, .default_ns = fake_ns};
static const struct db_driver exact = {.name = "exact", .target = &ops}, folds = {.name = "folds", .caps = CAP_FOLDS_NAMES, .target = &ops};

struct want { bool identity; enum equality q, index_q; bool unique, partial; };
static struct shape *make(const char *ns, const char *name, uint32_t number, struct want w) {
    struct shape *s = shape_new(&e);
    struct column *c = arena_zalloc(s->arena, 2 * sizeof *c, &e);
    struct key *k = arena_zalloc(s->arena, 2 * sizeof *k, &e);
    static const uint16_t first[] = {0}, second[] = {1};
    enum equality *q = arena_zalloc(s->arena, sizeof *q, &e);
    *q = w.index_q;
    c[0] = (struct column){.name = "k", .native = "text", .type = LT_TEXT, .equality = w.q};
    c[1] = (struct column){.name = "v", .native = "text", .type = LT_TEXT};
    s->identity = s->primary = -1;
    if (w.identity) {
        k[s->nkeys++] = (struct key){.name = "pk", .kind = KEY_PRIMARY, .ncols = 1, .cols = first, .equality = q};
        s->identity = 0;
    }
    if (w.unique) k[s->nkeys++] = (struct key){.name = "u", .kind = KEY_UNIQUE, .ncols = 1, .cols = second, .partial = w.partial};
    s->engine = "sqlite";
    s->ns = ns;
    s->name = name;
    s->table = number;
    s->ncols = 2;
    s->cols = c;
    s->keys = k;
    return s;
}

static void composition(void) {
    static const struct { struct want w; bool ordered, keyless; const char *what; } cases[] = {
        {{.identity = true}, false, false, "a bytewise key"},
        {{.identity = false}, true, true, "no key"},
        {{.identity = true, .unique = true}, true, false, "another unique key"},
        {{.identity = true, .unique = true, .partial = true}, true, false, "a partial unique index"},
        {{.identity = true, .q = EQ_NOCASE, .index_q = EQ_NOCASE}, true, false, "a NOCASE key"},
        {{.identity = true, .index_q = EQ_RTRIM}, true, false, "an index under another collation than its column's"},
        {{.identity = true, .q = EQ_NUMERIC}, true, false, "a number in its column's eyes"},
    };
    struct table_filter all = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tables ts;
        struct flow_table *t;
        struct shape *s = make("main", "t", 3, cases[i].w);
        ok(tables_init(&ts, &exact, NULL, &all, NULL, 0, &e) == 0 && tables_put(&ts, s, &t, &e) == 0 && t->ordered == cases[i].ordered && t->keyless == cases[i].keyless,
           "%s: %s", cases[i].what, cases[i].ordered ? "source order is kept" : "composed");
        tables_free(&ts);
        shape_free(s);
    }
}

static void names(void) {
    static const char *const include[] = {"a*"};
    struct table_filter f = {.include = include, .ninclude = 1};
    static const char *const map[] = {"aux", "store"};
    struct tables ts;
    struct flow_table *t;
    struct shape *a = make("main", "a1", 1, (struct want){.identity = true}), *b = make("aux", "a2", 130, (struct want){.identity = true}),
                 *c = make("other", "b1", 2, (struct want){.identity = true}), *zero = make("main", "a", 0, (struct want){.identity = true}),
                 *moved = make("main", "b9", 1, (struct want){.identity = false});
    if (tables_init(&ts, &exact, NULL, &f, map, 2, &e) < 0) return;
    ok(tables_put(&ts, zero, NULL, &e) == -1 && e.code == CODE_INTERNAL, "a table needs a number");
    ok(tables_put(&ts, a, &t, &e) == 0 && strcmp(t->ns, "public") == 0 && strcmp(t->name, "a1") == 0 && t->wanted, "the source's default namespace becomes the target's");
    ok(tables_put(&ts, b, &t, &e) == 0 && strcmp(t->ns, "store") == 0 && t->wanted && tables_get(&ts, 130) == t, "a mapped namespace");
    ok(tables_put(&ts, c, &t, &e) == 0 && strcmp(t->ns, "other") == 0 && !t->wanted, "another keeps its name; the filter leaves it out");
    ok(!tables_get(&ts, 131) && !tables_get(&ts, 5000) && !tables_get(&ts, 3), "an unknown number is no table");
    t = tables_get(&ts, 1);
    binds = unbinds = 0;
    ok(tables_bind(&ts, t, &e) == 0 && tables_bind(&ts, t, &e) == 0 && binds == 1, "a table is bound once");
    t->skip_seq = 7;
    ok(tables_put(&ts, moved, &t, &e) == 0 && unbinds == 1 && !t->bound && t->skip_seq == 7 && t->keyless && !t->wanted && strcmp(t->name, "b9") == 0,
       "its next shape unbinds it and keeps its number and place");
    tables_free(&ts);
    shape_free(a), shape_free(b), shape_free(c), shape_free(zero), shape_free(moved);
}

static void collisions(void) {
    struct table_filter all = {0};
    static const char *const map[] = {"aux", "public"};
    struct tables ts;
    struct flow_table *t;
    struct shape *a = make("main", "t", 1, (struct want){.identity = true}), *b = make("aux", "t", 2, (struct want){.identity = true}),
                 *up = make("main", "T", 3, (struct want){.identity = true});
    if (tables_init(&ts, &exact, NULL, &all, map, 2, &e) < 0) return;
    ok(tables_put(&ts, a, NULL, &e) == 0 && tables_put(&ts, up, NULL, &e) == 0 && tables_collisions(&ts, &e) == 0, "names that differ by case are two");
    ok(tables_put(&ts, b, &t, &e) == 0 && tables_collisions(&ts, &e) == -1 && e.code == CODE_NAME_COLLISION && strstr(e.msg, "main.t") && strstr(e.msg, "aux.t"),
       "two tables that become one are refused, both named: %s", e.msg);
    t->dropped = true;
    ok(tables_collisions(&ts, &e) == 0, "a dropped table is in nobody's way");
    tables_free(&ts);
    if (tables_init(&ts, &folds, NULL, &all, NULL, 0, &e) < 0) return;
    ok(tables_put(&ts, a, NULL, &e) == 0 && tables_put(&ts, up, NULL, &e) == 0 && tables_collisions(&ts, &e) == -1, "a target that folds names refuses names that differ by case");
    tables_free(&ts);
    shape_free(a), shape_free(b), shape_free(up);
}

int main(void) {
    composition();
    names();
    collisions();
    return done_testing();
}
