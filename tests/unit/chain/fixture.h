/* A chain in a temporary folder, with ids, clock and sizes that tests choose. */
#ifndef SLUICE_TESTS_CHAIN_FIXTURE_H
#define SLUICE_TESTS_CHAIN_FIXTURE_H

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/store.h"
#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/chain/chain.h"
#include "engine/chain/format.h"
#include "tests/tap.h"

__attribute__((unused)) static char fx_dir[256];
__attribute__((unused)) static struct err fx_err;
#define E (&fx_err)

__attribute__((unused)) static struct store *fx_store(void) {
    const char *tmp = getenv("TMPDIR");
    struct store *s = NULL;
    snprintf(fx_dir, sizeof fx_dir, "%s/sluice-chain-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(fx_dir) || store_open_dir(fx_dir, &s, E) < 0) {
        printf("Bail out! no folder\n");
        exit(1);
    }
    return s;
}

__attribute__((unused)) static void fx_remove(void) {
    char cmd[300];
    if (strncmp(fx_dir, "/tmp", 4) != 0 && !strstr(fx_dir, "sluice-chain-")) return;
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", fx_dir);
    if (system(cmd) != 0) note("cannot remove %s", fx_dir);
}

/* id INTEGER primary key, v TEXT, and as many more text columns as asked for. */
__attribute__((unused)) static struct shape *fx_shape(const char *name, unsigned extra) {
    struct shape *s = shape_new(E);
    unsigned n = 2 + extra;
    struct column *c = arena_zalloc(s->arena, n * sizeof *c, E);
    struct key *k = arena_zalloc(s->arena, sizeof *k, E);
    uint16_t *cols = arena_zalloc(s->arena, sizeof *cols, E);
    enum equality *q = arena_zalloc(s->arena, sizeof *q, E);
    for (unsigned i = 0; i < n; i++) {
        c[i].name = i == 0 ? "id" : i == 1 ? "v" : arena_printf(s->arena, E, "x%u", i);
        c[i].native = i ? "TEXT" : "INTEGER";
        c[i].type = i ? LT_TEXT : LT_INT64;
        c[i].id = (int64_t)i + 1;
        c[i].precision = c[i].scale = c[i].length = -1;
    }
    k->name = "pk";
    k->kind = KEY_PRIMARY;
    k->ncols = 1;
    k->cols = cols;
    k->equality = q;
    s->engine = "sqlite";
    s->ns = "main";
    s->name = arena_copy(s->arena, name, strlen(name), E);
    s->ncols = (uint16_t)n;
    s->cols = c;
    s->nkeys = 1;
    s->keys = k;
    s->identity = s->primary = 0;
    if (shape_finish(s, E) < 0) {
        printf("Bail out! %s\n", fx_err.msg);
        exit(1);
    }
    return s;
}

__attribute__((unused)) static struct catalog *fx_catalog(unsigned tables) {
    struct catalog *c = catalog_new(E);
    char name[16];
    for (unsigned i = 0; i < tables; i++) {
        snprintf(name, sizeof name, "t%u", i + 1);
        if (catalog_add_table(c, fx_shape(name, 0), E) < 0) exit(1);
    }
    return c;
}

__attribute__((unused)) static struct pos fx_pos(uint64_t n) {
    struct pos p;
    char token[32];
    snprintf(token, sizeof token, "%llu", (unsigned long long)n);
    if (pos_set(&p, "sqlite", token, E) < 0) exit(1);
    return p;
}

__attribute__((unused)) static struct full_opts fx_opts(void) {
    return (struct full_opts){
        .source_engine = "sqlite", .source_identity = "sqlite:test", .extendable = true, .compression = COMPRESSION_NONE};
}

/* A row of fx_shape in row_encode's form. */
__attribute__((unused)) static void fx_row(struct buf *b, uint64_t id, const char *text, unsigned cols) {
    struct value v[16];
    char num[32];
    snprintf(num, sizeof num, "%llu", (unsigned long long)id);
    for (unsigned i = 0; i < cols; i++)
        v[i] = (struct value){i ? text : num, (uint32_t)strlen(i ? text : num), VALUE_TEXT};
    if (row_encode(b, v, (uint16_t)cols, E) < 0) exit(1);
}

/* Rows 1..rows of a table, `block` at a time. */
__attribute__((unused)) static int fx_fill(struct full *f, const struct shape *t, const struct pos *snap, uint64_t rows, uint64_t block) {
    struct full_table *ft;
    struct buf b = BUF_INIT(MiB(64));
    char text[32];
    int rc = -1;
    if (full_table_begin(f, t, snap, ROWS_VALUES, &ft, E) < 0) return -1;
    for (uint64_t i = 1; i <= rows;) {
        uint64_t n = 0;
        buf_reset(&b);
        for (; n < block && i <= rows; n++, i++) {
            snprintf(text, sizeof text, "%s row %llu", t->name, (unsigned long long)i);
            fx_row(&b, i, text, t->ncols);
        }
        if (full_table_put(ft, b.p, b.n, n, E) < 0) {
            full_table_abort(ft);
            goto out;
        }
    }
    rc = full_table_end(ft, NULL, NULL, NULL, E);
out:
    buf_free(&b);
    return rc;
}

/* A whole full of `tables` tables with `rows` rows each, anchored at 100. */
__attribute__((unused)) static int fx_full(struct store *st, unsigned tables, uint64_t rows, enum compression c) {
    struct full_opts o = fx_opts();
    struct full *f = NULL;
    struct catalog *cat = fx_catalog(tables);
    struct pos anchor = fx_pos(100);
    int rc = -1;
    o.compression = c;
    if (full_intend(st, &o, &f, E) < 0 || full_start(f, &anchor, cat, E) < 0) goto out;
    for (size_t i = 0; i < cat->ntables; i++)
        if (fx_fill(f, cat->tables[i], &anchor, rows, 3) < 0) goto out;
    rc = full_end(f, NULL, 0, NULL, E);
out:
    full_close(f);
    catalog_free(cat);
    return rc;
}

__attribute__((unused)) static struct chain *fx_open(struct store *st) {
    struct chain *c;
    bool found;
    if (chain_open(st, &c, &found, E) < 0 || !found) {
        note("open: %s", found ? fx_err.msg : "not found");
        return NULL;
    }
    return c;
}

/* One transaction of n inserts into table number `table` of the chain, committed at `at`. */
__attribute__((unused)) static int fx_txn(struct link *l, const struct shape *t, uint64_t first_id, uint64_t n, uint64_t at) {
    struct pos p = fx_pos(at);
    for (uint64_t i = 0; i < n; i++) {
        char num[32], text[64];
        snprintf(num, sizeof num, "%llu", (unsigned long long)(first_id + i));
        snprintf(text, sizeof text, "change %llu", (unsigned long long)(first_id + i));
        struct value v[16] = {{num, (uint32_t)strlen(num), VALUE_TEXT}};
        for (unsigned k = 1; k < t->ncols; k++)
            v[k] = (struct value){text, (uint32_t)strlen(text), VALUE_TEXT};
        struct change c = {.op = CHANGE_INSERT, .table = t->table, .shape = t, .after = v};
        if (link_put(l, &c, E) < 0) return -1;
    }
    struct change c = {.op = CHANGE_COMMIT, .pos = &p, .time_us = 1000000 * (int64_t)at};
    return link_put(l, &c, E);
}

/* A link of one transaction of n inserts that ends at `at`. */
__attribute__((unused)) static int fx_link(struct chain *c, uint64_t first_id, uint64_t n, uint64_t at, enum compression z) {
    struct link_opts o = {.compression = z};
    struct link *l;
    struct shape *const *s;
    size_t ns;
    struct pos end = fx_pos(at);
    if (chain_shapes_at(c, chain_info(c)->nlinks, &s, &ns, E) < 0 || link_begin(c, &o, &l, E) < 0) return -1;
    if (fx_txn(l, s[0], first_id, n, at) < 0) {
        link_abort(l);
        return -1;
    }
    return link_end(l, &end, NULL, E);
}

/* Bytes of an object; the caller frees b. */
__attribute__((unused)) static int fx_get(struct store *st, const char *path, struct buf *b) {
    char etag[STORE_ETAG];
    bool found, same;
    *b = BUF_INIT(MiB(64));
    return st->ops->get(st, path, MiB(64), NULL, b, etag, &found, &same, E) < 0 || !found ? -1 : 0;
}
__attribute__((unused)) static int fx_put(struct store *st, const char *path, const void *p, size_t n) {
    enum store_put_result r;
    return st->ops->put(st, path, p, n, false, NULL, &r, NULL, E);
}

struct fx_paths {
    char v[4096][CHAIN_PATH];
    size_t n;
};
__attribute__((unused)) static int fx_path(void *arg, const char *path, uint64_t size, int64_t mtime_us) {
    struct fx_paths *p = arg;
    (void)size, (void)mtime_us;
    if (p->n < 4096) snprintf(p->v[p->n++], CHAIN_PATH, "%s", path);
    return 0;
}
__attribute__((unused)) static struct fx_paths *fx_list(struct store *st, const char *prefix) {
    static struct fx_paths p;
    p.n = 0;
    if (st->ops->list(st, prefix, fx_path, &p, E) < 0) note("list: %s", fx_err.msg);
    return &p;
}

/* Random bits that count up from 0, a byte at a time, and a clock that stands still. */
static unsigned char fx_counter;
__attribute__((unused)) static int fx_random(void *p, size_t n, struct err *e) {
    (void)e;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)p)[i] = fx_counter++;
    return 0;
}
__attribute__((unused)) static int64_t fx_now(void) {
    return 1764524308000000;
}

#endif
