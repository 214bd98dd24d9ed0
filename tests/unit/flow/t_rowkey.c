/* law: what the source holds equal hashes and compares equal; what is certain is truly equal. */
#include "engine/flow/rowkey.h"
#include "tests/tap.h"

static struct err e;

static struct shape *shape_with(enum equality q, bool own) {
    struct shape *s = shape_new(&e);
    struct column *c = arena_zalloc(s->arena, 2 * sizeof *c, &e);
    struct key *k = arena_zalloc(s->arena, sizeof *k, &e);
    static const uint16_t first[] = {0};
    enum equality *kq = arena_zalloc(s->arena, sizeof *kq, &e);
    *kq = q;
    c[0] = (struct column){.name = "k", .native = "text", .type = LT_TEXT, .equality = own ? EQ_BYTES : q};
    c[1] = (struct column){.name = "v", .native = "text", .type = LT_TEXT};
    *k = (struct key){.name = "pk", .kind = KEY_PRIMARY, .ncols = 1, .cols = first, .equality = own ? kq : NULL};
    s->engine = "sqlite";
    s->ns = "main";
    s->name = "t";
    s->ncols = 2;
    s->cols = c;
    s->nkeys = 1;
    s->keys = k;
    s->identity = 0;
    return s;
}

static struct value val(const char *s, uint8_t kind) {
    if (!s) return VALUE_OF_NULL;
    return (struct value){s, (uint32_t)strlen(s), kind};
}

static const struct pair { enum equality q; uint8_t kind; const char *a, *b; bool equal, certain; } pairs[] = {
    {EQ_BYTES, VALUE_TEXT, "a", "a", true, true},
    {EQ_BYTES, VALUE_TEXT, "a", "A", false, false},
    {EQ_BYTES, VALUE_TEXT, "1", "1.0", false, false},
    {EQ_NOCASE, VALUE_TEXT, "aZ[", "Az[", true, true},
    {EQ_NOCASE, VALUE_TEXT, "\303\244", "\303\204", false, false}, /* only ASCII letters fold */
    {EQ_NOCASE, VALUE_TEXT, "a ", "a", false, false},
    {EQ_NOCASE, VALUE_BINARY, "tA", "ta", true, true},
    {EQ_NOCASE, VALUE_BINARY, "bA", "ba", true, false}, /* raw bytes have no case: two rows that look alike */
    {EQ_RTRIM, VALUE_TEXT, "a  ", "a", true, true},
    {EQ_RTRIM, VALUE_TEXT, " a", "a", false, false},
    {EQ_RTRIM, VALUE_TEXT, "  ", "", true, true},
    {EQ_NONDET, VALUE_TEXT, "x", "y", true, false},
    {EQ_NUMERIC, VALUE_TEXT, "1", "1.00", true, true},
    {EQ_NUMERIC, VALUE_TEXT, "-0", "0.0", true, true},
    {EQ_NUMERIC, VALUE_TEXT, "007", "7", true, true},
    {EQ_NUMERIC, VALUE_TEXT, "-1", "1", false, false},
    {EQ_NUMERIC, VALUE_TEXT, "100", "1e2", true, false},
    {EQ_NUMERIC, VALUE_TEXT, "9007199254740993", "9007199254740992", false, false}, /* one double, two numbers */
    {EQ_NUMERIC, VALUE_TEXT, "123456789012345678901234567890.1", "123456789012345678901234567890.2", false, false},
    {EQ_NUMERIC, VALUE_TEXT, "NaN", "NaN", true, true},
    {EQ_NUMERIC, VALUE_TEXT, "NaN", "0", true, false},
    {EQ_NUMERIC, VALUE_BINARY, "i1", "r1.0", true, true},
    {EQ_NUMERIC, VALUE_BINARY, "i1", "t1", false, false},
    {EQ_NUMERIC, VALUE_BINARY, "t1", "t1.0", false, false},
    {EQ_NUMERIC, VALUE_BINARY, "b1", "t1", false, false},
    {EQ_NOCASE, VALUE_TEXT, NULL, "", false, false},
    {EQ_NUMERIC, VALUE_TEXT, NULL, NULL, true, true},
};

static void notions_of_equality(void) {
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct pair *p = &pairs[i];
        struct value a[2] = {val(p->a, p->kind), val("x", VALUE_TEXT)}, b[2] = {val(p->b, p->kind), val("other", VALUE_TEXT)};
        for (int own = 0; own < 2; own++) {
            struct shape *s = shape_with(p->q, own);
            bool eq = rowkey_equal(s, a, b), back = rowkey_equal(s, b, a);
            bool hashed = rowkey_hash(s, a) == rowkey_hash(s, b);
            ok(eq == p->equal && back == eq && (!eq || hashed) && (!eq || rowkey_certain(s, a, b) == p->certain), "%s%s: '%s' and '%s' are %s%s", equality_name(p->q),
               own ? " of the index" : "", p->a ? p->a : "NULL", p->b ? p->b : "NULL", p->equal ? "equal" : "different", p->equal && !p->certain ? ", perhaps" : "");
            ok(rowkey_unknowable(s) == (p->q == EQ_NONDET), "only a nondeterministic key is unknowable");
            shape_free(s);
        }
    }
}

static void sets(void) {
    struct shape *s = shape_with(EQ_NOCASE, false);
    struct arena *a = arena_new(4096, &e);
    struct rowkey_set set;
    static char text[200][16];
    static struct value v[200][2];
    int found = 0, wrong = 0;
    rowkey_set_init(&set, a);
    ok(!rowkey_set_has(&set, s, (struct value[]){val("a", VALUE_TEXT), VALUE_OF_NULL}, false), "an empty set holds nothing");
    for (int i = 0; i < 200; i++) {
        snprintf(text[i], sizeof text[i], "k%d", i);
        v[i][0] = val(text[i], VALUE_TEXT);
        v[i][1] = val("v", VALUE_TEXT);
        if (i % 2 == 0 && rowkey_set_add(&set, s, v[i], false, &e) < 0) wrong++;
    }
    for (int i = 0; i < 200; i++) {
        char up[16];
        snprintf(up, sizeof up, "K%d", i);
        struct value w[2] = {val(up, VALUE_TEXT), VALUE_OF_NULL};
        bool has = rowkey_set_has(&set, s, w, false);
        found += has;
        wrong += has != (i % 2 == 0);
    }
    ok(found == 100 && wrong == 0, "a set of a hundred keys finds each under its collation, and no other");
    rowkey_set_init(&set, a);
    struct value full[2] = {val("a", VALUE_TEXT), val("b", VALUE_TEXT)}, up[2] = {val("A", VALUE_TEXT), val("b", VALUE_TEXT)};
    ok(rowkey_set_add(&set, s, full, true, &e) == 0 && rowkey_set_has(&set, s, full, true) && !rowkey_set_has(&set, s, up, true), "full images are compared by bytes");
    s->identity = -1;
    ok(rowkey_equal(s, full, full) && !rowkey_equal(s, full, up) && rowkey_certain(s, full, up), "a table without an identity is compared by all columns");
    arena_free(a);
    shape_free(s);
}

int main(void) {
    notions_of_equality();
    sets();
    return done_testing();
}
