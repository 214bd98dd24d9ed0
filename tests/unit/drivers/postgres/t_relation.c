/* What a Relation message means: every answer of announce_decide, from shapes made by hand. */
#include <stdarg.h>
#include <string.h>

#include "drivers/postgres/relation.h"
#include "tests/tap.h"

/* "id:1:int4 a:2:text" -> a table whose first column is its primary key; a name of "-" is a dropped column. */
struct made { struct shape *s; struct pg_cols cols; struct pg_col v[16]; };

static int64_t type_of(const char *native) { return strcmp(native, "int4") == 0 ? 23 : strcmp(native, "text") == 0 ? 25 : 1700; }

static void make(struct made *m, const char *name, const char *spec) {
    struct err e = {0};
    memset(m, 0, sizeof *m);
    m->s = shape_new(&e);
    m->s->engine = "postgres";
    m->s->ns = "public";
    m->s->name = name;
    struct column *c = arena_zalloc(m->s->arena, 16 * sizeof *c, &e);
    m->cols.v = m->v;
    m->cols.replident = 'd';
    for (const char *p = spec; *p != 0;) {
        char col[16], native[16];
        int num, used = 0;
        if (sscanf(p, "%15[^:]:%d:%15[^ ] %n", col, &num, native, &used) != 3) break;
        p += used;
        bool dropped = strcmp(col, "-") == 0;
        m->v[m->cols.n++] = (struct pg_col){num, dropped ? 0 : type_of(native), -1, dropped, false, strcmp(native, "ancient") == 0};
        if (dropped) continue;
        c[m->s->ncols] = (struct column){.name = arena_copy(m->s->arena, col, strlen(col), &e),
                                         .native = arena_copy(m->s->arena, native, strlen(native), &e),
                                         .id = num,
                                         .type = LT_TEXT,
                                         .precision = -1,
                                         .scale = -1,
                                         .length = -1};
        m->s->ncols++;
    }
    static const uint16_t first[1] = {0};
    static const enum equality eq[1] = {EQ_BYTES};
    struct key *k = arena_zalloc(m->s->arena, sizeof *k, &e);
    *k = (struct key){
        .name = "pk", .def = "PRIMARY KEY (id)", .kind = KEY_PRIMARY, .ncols = 1, .cols = first, .equality = eq, .constraint = true};
    m->s->cols = c;
    m->s->keys = k;
    m->s->nkeys = 1;
    m->s->identity = m->s->primary = 0;
    if (shape_finish(m->s, &e) < 0) printf("# %s\n", e.msg);
}

/* The message a table of this spec would send. */
static enum announced decide(const char *known, const char *msg, const char *now, const char *msg_name, uint16_t *head) {
    struct made k, n, m;
    const char *why, *natives[16];
    struct pgo_col cols[16];
    make(&k, "t", known != NULL ? known : "id:1:int4");
    make(&n, "t", now != NULL ? now : "id:1:int4");
    make(&m, msg_name, msg);
    struct pgo_msg x = {.tag = 'R', .relid = 1, .ns = "public", .name = msg_name, .replident = 'd', .ncols = m.s->ncols, .cols = cols};
    for (uint16_t i = 0; i < m.s->ncols; i++) {
        cols[i] = (struct pgo_col){m.s->cols[i].name, (uint32_t)type_of(m.s->cols[i].native), -1, i == 0};
        natives[i] = m.s->cols[i].native;
    }
    struct announce_view v = {&x, natives, known != NULL ? k.s : NULL, now != NULL ? n.s : NULL, &n.cols};
    enum announced a = announce_decide(&v, head, &why);
    ok((a == ANNOUNCED_UNKNOWN) == (why != NULL), "a refusal, and only that, says why");
    shape_free(k.s);
    shape_free(n.s);
    shape_free(m.s);
    return a;
}

int main(void) {
    uint16_t h;
    is_int(decide("id:1:int4 a:2:text", "id:1:int4 a:2:text", "id:1:int4 a:2:text", "t", &h), ANNOUNCED_NOW, "nothing changed");
    is_int(decide("id:1:int4", "id:1:int4 a:2:text", "id:1:int4 a:2:text", "t", &h), ANNOUNCED_NOW, "a column was added");
    is_int(decide("id:1:int4 a:2:text", "id:1:int4", "id:1:int4 -:2:x", "t", &h), ANNOUNCED_NOW, "a column was dropped");
    is_int(decide("id:1:int4 a:2:text", "id:1:int4 b:2:text", "id:1:int4 b:2:text", "t", &h), ANNOUNCED_NOW, "a column was renamed");
    is_int(decide("id:1:int4 a:2:text", "id:1:int4 a:2:numeric", "id:1:int4 a:2:numeric", "t", &h), ANNOUNCED_NOW, "a column was retyped");
    is_int(decide("id:1:int4 a:2:text b:3:text", "id:1:int4 b:2:text a:3:text", "id:1:int4 b:2:text a:3:text", "t", &h), ANNOUNCED_NOW,
           "two names were swapped");
    is_int(decide(NULL, "id:1:int4 a:2:text", "id:1:int4 a:2:text", "t", &h), ANNOUNCED_NOW, "a table that was not known");

    is_int(decide("id:1:int4", "id:1:int4", "id:1:int4 a:2:text", "t", &h), ANNOUNCED_SAME, "rows from before a column was added");
    is_int(decide("id:1:int4 a:2:text", "id:1:int4 a:2:text", "id:1:int4 -:2:x", "t", &h), ANNOUNCED_SAME,
           "rows from before a column was dropped");
    is_int(decide("id:1:int4 a:2:text", "id:1:int4 a:2:text", NULL, "t", &h), ANNOUNCED_SAME, "rows from before the table was dropped");

    is_int(decide("id:1:int4", "id:1:int4 a:2:text", "id:1:int4 a:2:text b:3:int4", "t", &h), ANNOUNCED_BETWEEN,
           "rows from between two added columns");
    is_int(h, 2, "have the catalogue's first two");
    is_int(decide("id:1:int4", "id:1:int4 a:2:text", "id:1:int4 b:2:text a:3:text", "t", &h), ANNOUNCED_UNKNOWN,
           "unless the first of them has another name now");
    is_int(decide("id:1:int4", "id:1:int4 a:2:text", "id:1:int4 a:2:int4 b:3:int4", "t", &h), ANNOUNCED_UNKNOWN, "or another type");
    is_int(decide("id:1:int4", "id:1:int4 a:2:text", "id:1:int4 -:2:x a:3:text b:4:text", "t", &h), ANNOUNCED_UNKNOWN,
           "or a column came and went");
    is_int(decide("id:1:int4", "id:1:int4 a:3:text", "id:1:int4 -:2:ancient a:3:text b:4:text", "t", &h), ANNOUNCED_BETWEEN,
           "but not when it went before all the log we read");
    is_int(decide("id:1:int4 a:2:text b:3:text", "id:1:int4 b:3:text", "id:1:int4 -:2:x -:3:x c:4:text", "t", &h), ANNOUNCED_UNKNOWN,
           "rows from between two drops");

    is_int(decide("id:1:int4 a:2:text", "id:1:int4 a:2:text", "id:1:int4 -:2:x a:3:text", "t", &h), ANNOUNCED_UNKNOWN,
           "a column dropped and made anew: which of the two?");
    is_int(decide("id:1:int4 a:2:text", "id:1:int4 a:3:int4", "id:1:int4 -:2:x a:3:int4", "t", &h), ANNOUNCED_UNKNOWN,
           "with another type too: it may have been retyped first");
    is_int(decide("id:1:int4", "id:1:int4 a:3:text", "id:1:int4 -:2:x a:3:text", "t", &h), ANNOUNCED_UNKNOWN,
           "added, dropped, added: which of the two?");
    is_int(decide("id:1:int4", "id:1:int4 a:3:text", "id:1:int4 -:2:ancient a:3:text", "t", &h), ANNOUNCED_NOW,
           "but a hole from before the log is only a hole");
    is_int(decide("id:1:int4 a:2:text", "id:1:int4 a:2:text", "id:1:int4 a:2:text", "u", &h), ANNOUNCED_UNKNOWN,
           "a name that is neither of the two");
    is_int(decide("id:1:int4 a:2:text", "id:1:int4 x:2:numeric", NULL, "t", &h), ANNOUNCED_UNKNOWN,
           "an unknown shape of a table that is gone");
    return done_testing();
}
