/* pgoutput's messages from bytes alone: every kind, cut at every length, with hostile counts and lengths. */
#include <stdlib.h>
#include <string.h>

#include "drivers/postgres/pgoutput.h"
#include "tests/tap.h"

struct msg { unsigned char b[4096]; size_t n; };
static void u8(struct msg *m, unsigned v) { m->b[m->n++] = (unsigned char)v; }
static void u16(struct msg *m, unsigned v) { u8(m, v >> 8 & 255); u8(m, v & 255); }
static void u32(struct msg *m, unsigned v) { u16(m, v >> 16); u16(m, v & 0xffff); }
static void u64(struct msg *m, unsigned long long v) { u32(m, (unsigned)(v >> 32)); u32(m, (unsigned)v); }
static void str(struct msg *m, const char *s) { memcpy(m->b + m->n, s, strlen(s) + 1); m->n += strlen(s) + 1; }
static void text(struct msg *m, const char *s) {
    u8(m, 't');
    u32(m, (unsigned)strlen(s));
    memcpy(m->b + m->n, s, strlen(s));
    m->n += strlen(s);
}

static struct arena *arena;

/* Decode from a heap block of exactly n bytes, so that a checker sees every byte read past it. */
static int decode(const struct msg *m, size_t n, struct pgo_msg *out, struct err *e) {
    char *p = malloc(n + (n == 0));
    memcpy(p, m->b, n);
    arena_reset(arena);
    err_clear(e);
    char *copy = arena_copy(arena, p, n, e); /* what stays for the caller to look at */
    struct pgo_msg ignored;
    int a = pgoutput_decode(p, n, arena, &ignored, e);
    err_clear(e);
    int rc = pgoutput_decode(copy, n, arena, out, e);
    free(p);
    return a == rc ? rc : -2;
}

/* Every proper prefix is refused, and so is one byte more. */
static void cut_everywhere(const char *what, struct msg *m) {
    struct err e = {0};
    struct pgo_msg out;
    int bad = 0;
    for (size_t n = 0; n < m->n; n++)
        if (decode(m, n, &out, &e) != -1 || e.class != ERR_RETRY) bad++;
    is_int(bad, 0, what);
    struct msg more = *m;
    u8(&more, 0);
    ok(decode(&more, more.n, &out, &e) == -1 && e.class == ERR_RETRY, "%s: a byte behind its end", what);
}

static void boundaries(void) {
    struct msg b = {.n = 0}, c = {.n = 0};
    struct pgo_msg m;
    struct err e = {0};
    u8(&b, 'B'), u64(&b, 0x16B374D848ULL), u64(&b, 5), u32(&b, 738);
    ok(decode(&b, b.n, &m, &e) == 0 && m.tag == 'B' && m.lsn == 0x16B374D848ULL && m.xid == 738 && m.time_us == PG_EPOCH_US + 5, "begin");
    cut_everywhere("begin, cut", &b);
    u8(&c, 'C'), u8(&c, 0), u64(&c, 100), u64(&c, 148), u64(&c, 7);
    ok(decode(&c, c.n, &m, &e) == 0 && m.tag == 'C' && m.lsn == 100 && m.end_lsn == 148 && m.time_us == PG_EPOCH_US + 7, "commit");
    cut_everywhere("commit, cut", &c);
    c.b[1] = 1;
    ok(decode(&c, c.n, &m, &e) == -1, "commit with unknown flags");
}

static void relation(void) {
    struct msg r = {.n = 0};
    struct pgo_msg m;
    struct err e = {0};
    u8(&r, 'R'), u32(&r, 16385), str(&r, "public"), str(&r, "t"), u8(&r, 'd'), u16(&r, 2);
    u8(&r, 1), str(&r, "id"), u32(&r, 23), u32(&r, 0xffffffffu);
    u8(&r, 0), str(&r, "na\tme"), u32(&r, 1043), u32(&r, 24);
    ok(decode(&r, r.n, &m, &e) == 0 && m.tag == 'R' && m.relid == 16385 && m.replident == 'd' && m.ncols == 2, "relation");
    is_str(m.ns, "public", "relation: namespace");
    is_str(m.cols[1].name, "na\tme", "relation: a column's name");
    ok(m.cols[0].key && !m.cols[1].key && m.cols[0].type == 23 && m.cols[0].typmod == -1 && m.cols[1].typmod == 24,
       "relation: key, types, typmods");
    cut_everywhere("relation, cut", &r);
    struct msg hostile = r;
    hostile.b[15] = 0xff, hostile.b[16] = 0xff; /* 65,535 columns */
    ok(decode(&hostile, hostile.n, &m, &e) == -1 && e.class == ERR_RETRY, "relation: more columns than bytes");
    struct msg empty = {.n = 0};
    u8(&empty, 'R'), u32(&empty, 1), str(&empty, ""), str(&empty, "x"), u8(&empty, 'f'), u16(&empty, 0);
    ok(decode(&empty, empty.n, &m, &e) == 0 && strcmp(m.ns, "pg_catalog") == 0 && m.ncols == 0,
       "relation without columns, in the catalogue's namespace");
}

static void rows(void) {
    struct msg i = {.n = 0}, u = {.n = 0}, d = {.n = 0};
    struct pgo_msg m;
    struct err e = {0};
    u8(&i, 'I'), u32(&i, 7), u8(&i, 'N'), u16(&i, 4), text(&i, "12"), u8(&i, 'n'), u8(&i, 'u'), text(&i, "");
    ok(decode(&i, i.n, &m, &e) == 0 && m.tag == 'I' && m.relid == 7 && m.nnew == 4 && m.old_row == NULL, "insert");
    ok(m.new_row[0].kind == VALUE_TEXT && m.new_row[0].len == 2 && memcmp(m.new_row[0].p, "12", 2) == 0, "insert: text");
    ok(m.new_row[1].kind == VALUE_NULL && m.new_row[2].kind == VALUE_UNCHANGED, "insert: NULL is not unchanged");
    ok(m.new_row[3].kind == VALUE_TEXT && m.new_row[3].len == 0, "insert: an empty text is not NULL");
    cut_everywhere("insert, cut", &i);
    u8(&u, 'U'), u32(&u, 7), u8(&u, 'K'), u16(&u, 2), text(&u, "1"), u8(&u, 'n'), u8(&u, 'N'), u16(&u, 2), text(&u, "2"), u8(&u, 'u');
    ok(decode(&u, u.n, &m, &e) == 0 && m.tag == 'U' && m.old_kind == 'K' && m.nold == 2 && m.nnew == 2 &&
           m.new_row[1].kind == VALUE_UNCHANGED,
       "update with the old key");
    cut_everywhere("update, cut", &u);
    u.b[5] = 'O';
    ok(decode(&u, u.n, &m, &e) == 0 && m.old_kind == 'O', "update with the whole old row");
    u.b[5] = 'X';
    ok(decode(&u, u.n, &m, &e) == -1, "update with an unknown image");
    u8(&d, 'D'), u32(&d, 7), u8(&d, 'O'), u16(&d, 1), text(&d, "abc");
    ok(decode(&d, d.n, &m, &e) == 0 && m.tag == 'D' && m.old_kind == 'O' && m.old_row[0].len == 3 && m.new_row == NULL, "delete");
    cut_everywhere("delete, cut", &d);
    d.b[5] = 'N';
    ok(decode(&d, d.n, &m, &e) == -1, "delete with a new row");
    struct msg lone = {.n = 0};
    u8(&lone, 'I'), u32(&lone, 7), u8(&lone, 'K'), u16(&lone, 0);
    ok(decode(&lone, lone.n, &m, &e) == -1, "insert with a key");
}

static void hostile_lengths(void) {
    struct pgo_msg m;
    struct err e = {0};
    static const unsigned lengths[] = {3, 4, 0x7fffffffu, 0x80000000u, 0xffffffffu};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        struct msg i = {.n = 0};
        u8(&i, 'I'), u32(&i, 7), u8(&i, 'N'), u16(&i, 1), u8(&i, 't'), u32(&i, lengths[k]), u8(&i, 'a'), u8(&i, 'b');
        ok(decode(&i, i.n, &m, &e) == -1 && e.class == ERR_RETRY, "a value of %u bytes in a message that holds 2", lengths[k]);
    }
    struct msg n = {.n = 0}, bin = {.n = 0}, t = {.n = 0};
    u8(&n, 'I'), u32(&n, 7), u8(&n, 'N'), u16(&n, 0xffff), u8(&n, 'n');
    ok(decode(&n, n.n, &m, &e) == -1, "65,535 values in one byte");
    u8(&bin, 'I'), u32(&bin, 7), u8(&bin, 'N'), u16(&bin, 1), u8(&bin, 'b'), u32(&bin, 1), u8(&bin, 0);
    ok(decode(&bin, bin.n, &m, &e) == -1, "a binary value, which was not asked for");
    u8(&t, 'T'), u32(&t, 0x40000001u), u8(&t, 0), u32(&t, 5);
    ok(decode(&t, t.n, &m, &e) == -1 && e.class == ERR_RETRY, "truncate of a billion tables");
}

static void others(void) {
    struct msg t = {.n = 0}, o = {.n = 0}, y = {.n = 0}, l = {.n = 0}, s = {.n = 0};
    struct pgo_msg m;
    struct err e = {0};
    u8(&t, 'T'), u32(&t, 2), u8(&t, 3), u32(&t, 11), u32(&t, 12);
    ok(decode(&t, t.n, &m, &e) == 0 && m.tag == 'T' && m.nrels == 2 && m.rels[1] == 12 && m.cascade && m.restart,
       "truncate with both flags");
    cut_everywhere("truncate, cut", &t);
    u8(&o, 'O'), u64(&o, 5), str(&o, "origin");
    ok(decode(&o, o.n, &m, &e) == 0 && m.tag == 0, "an origin says nothing");
    cut_everywhere("origin, cut", &o);
    u8(&y, 'Y'), u32(&y, 999), str(&y, "public"), str(&y, "mood");
    ok(decode(&y, y.n, &m, &e) == 0 && m.tag == 0, "a type says nothing");
    cut_everywhere("type, cut", &y);
    u8(&l, 'M'), u8(&l, 1), u64(&l, 5), str(&l, "p"), u32(&l, 3), u8(&l, 'x'), u8(&l, 0), u8(&l, 'y');
    ok(decode(&l, l.n, &m, &e) == 0 && m.tag == 0, "a logical message says nothing");
    cut_everywhere("logical message, cut", &l);
    u8(&s, 'S'), u32(&s, 1), u8(&s, 1);
    ok(decode(&s, s.n, &m, &e) == -1 && e.class == ERR_BUG, "a streamed transaction was not asked for");
}

/* No bytes, however mangled, are read past their end. */
static void mangled(void) {
    struct msg r = {.n = 0};
    struct pgo_msg m;
    struct err e = {0};
    unsigned seed = 20261130, crashes = 0;
    u8(&r, 'U'), u32(&r, 7), u8(&r, 'O'), u16(&r, 3), text(&r, "one"), u8(&r, 'n'), text(&r, "three"), u8(&r, 'N'), u16(&r, 3),
        text(&r, "1"), u8(&r, 'u'), text(&r, "3");
    for (int k = 0; k < 20000; k++) {
        struct msg x = r;
        for (int f = 0; f < 3; f++) {
            seed = seed * 1103515245u + 12345u;
            x.b[(seed >> 16) % x.n] = (unsigned char)(seed >> 8);
        }
        if (decode(&x, x.n, &m, &e) == -2) crashes++;
    }
    is_int(crashes, 0, "20,000 mangled messages give the same answer twice");
}

int main(void) {
    struct err e = {0};
    arena = arena_new(4096, &e);
    boundaries();
    relation();
    rows();
    hostile_lengths();
    others();
    mangled();
    arena_free(arena);
    return done_testing();
}
