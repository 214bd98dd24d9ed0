/* A source on the scratch database, and an anchor with its log: what the server tests share. */
#ifndef SLUICE_TESTS_PG_FIXTURE_H
#define SLUICE_TESTS_PG_FIXTURE_H

#include "drivers/postgres/pg.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "tests/tap.h"
#include "tests/unit/drivers/postgres/pg_server.h"

__attribute__((unused)) static const struct source_ops *const P = &postgres_source_ops;

__attribute__((unused)) static struct source *open_source(const char *dsn, const char *slot, const char *include, const char *exclude, struct err *e) {
    static const char *in[1], *out[1];
    struct source_opts o = {.dsn = dsn, .slot_name = slot};
    struct source *s = NULL;
    in[0] = include;
    out[0] = exclude;
    if (include != NULL) o.filter.include = in, o.filter.ninclude = 1;
    if (exclude != NULL) o.filter.exclude = out, o.filter.nexclude = 1;
    if (P->open(&o, &s, e) < 0) printf("# open: %s\n", e->msg);
    return s;
}

__attribute__((unused)) static const struct shape *table(const struct catalog *c, const char *name) {
    for (size_t i = 0; c != NULL && i < c->ntables; i++)
        if (strcmp(c->tables[i]->name, name) == 0) return c->tables[i];
    return NULL;
}
__attribute__((unused)) static const struct object *object(const struct catalog *c, const char *name) {
    for (size_t i = 0; c != NULL && i < c->nobjects; i++)
        if (strcmp(c->objects[i].name, name) == 0 && c->objects[i].kind != OBJECT_SCHEMA) return &c->objects[i];
    return NULL;
}
__attribute__((unused)) static bool warned(const struct catalog *c, const char *part) {
    for (size_t i = 0; c != NULL && i < c->nwarnings; i++)
        if (strstr(c->warnings[i], part) != NULL) return true;
    return false;
}
__attribute__((unused)) static const struct key *key(const struct shape *s, const char *name) {
    for (uint16_t i = 0; s != NULL && i < s->nkeys; i++)
        if (strcmp(s->keys[i].name, name) == 0) return &s->keys[i];
    return NULL;
}


__attribute__((unused)) static size_t read_table(struct snapshot *snap, const struct shape *t, struct buf *text, struct err *e) {
    struct reader *r = NULL;
    enum rows_encoding enc;
    const char *p;
    size_t n, total = 0;
    uint64_t rows;
    if (P->reader_open(snap, &r, e) < 0 || P->reader_table(r, t, &enc, e) < 0) {
        P->reader_close(r);
        return (size_t)-1;
    }
    do {
        if (P->reader_next(r, &p, &n, &rows, e) < 0) {
            total = (size_t)-1;
            break;
        }
        total += rows;
        if (text != NULL) buf_add(text, p, n, e);
    } while (n > 0);
    P->reader_close(r);
    return total;
}

struct fixture {
    struct source *s;
    struct catalog *c;
    struct pos anchor;
    struct snapshot *snap;
    struct stream *st;
    struct batch b;
    struct pos seen;
    struct err e;
};

__attribute__((unused)) static int anchor(struct fixture *f, const char *slot, const char *include) {
    memset(f, 0, sizeof *f);
    if ((f->s = open_source(pgs_dsn, slot, include, NULL, &f->e)) == NULL || P->catalog(f->s, true, &f->c, &f->e) < 0 ||
        P->anchor(f->s, f->c, &f->anchor, &f->snap, &f->e) < 0 || batch_init(&f->b, KiB(64), &f->e) < 0) {
        printf("# anchor: %s\n", f->e.msg);
        return 0;
    }
    for (size_t i = 0; i < f->c->ntables; i++) f->c->tables[i]->table = (uint32_t)i + 1;
    return 1;
}
__attribute__((unused)) static int follow(struct fixture *f, const struct pos *from) {
    P->snapshot_close(f->snap);
    f->snap = NULL;
    if (P->stream_open(f->s, from, f->c->tables, f->c->ntables, &f->st, &f->e) < 0) {
        printf("# stream: %s\n", f->e.msg);
        return 0;
    }
    return 1;
}
/* Fill the batch until everything up to the log's end was seen. */
__attribute__((unused)) static int drain(struct fixture *f) {
    struct pos end;
    int64_t until = clock_mono_us() + 20 * INT64_C(1000000);
    batch_reset(&f->b);
    if (P->end(f->s, &end, &f->e) < 0) return -1;
    do {
        if (P->stream_next(f->st, &f->b, MiB(64), 500000, &f->seen, &f->e) < 0) return -1;
    } while (pos_compare(&f->seen, &end) == POS_LESS && clock_mono_us() < until);
    return pos_compare(&f->seen, &end) == POS_LESS ? -1 : 0;
}
__attribute__((unused)) static void finish(struct fixture *f) {
    struct err e = {0};
    P->stream_close(f->st);
    f->st = NULL;
    P->snapshot_close(f->snap);
    ok(P->unanchor(f->s, &e) == 0, "the anchor is undone %s", e.msg);
    ok(P->unanchor(f->s, &e) == 0, "twice is fine %s", e.msg);
    catalog_free(f->c);
    P->close(f->s);
    batch_free(&f->b);
}
__attribute__((unused)) static const struct change *nth(const struct fixture *f, size_t n) {
    static const struct change none;
    return n < f->b.n ? &f->b.v[n] : &none;
}
__attribute__((unused)) static bool val(const struct value *row, int col, const char *text) {
    return row != NULL && row[col].kind == VALUE_TEXT && row[col].len == strlen(text) && memcmp(row[col].p, text, row[col].len) == 0;
}

#endif
