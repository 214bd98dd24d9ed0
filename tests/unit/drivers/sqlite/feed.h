/* A consumer for tests: copies a source by its anchor's snapshot, applies what the stream tells to a model in memory, and compares the
 * model with the source. It is strict: an insert must not meet a row of its key, an update must find one; a delete that finds none is
 * counted. */
#ifndef SLUICE_TESTS_FEED_H
#define SLUICE_TESTS_FEED_H

#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include "drivers/sqlite/source.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "tests/tap.h"

struct mval {
    int64_t id;
    uint8_t kind;
    uint32_t len;
    char *p;
};
struct mrow {
    int64_t oid;
    int n;
    struct mval *v;
};
struct feed {
    char dir[64], path[96];
    sqlite3 *app; /* the application */
    struct source *s;
    struct stream *st;
    struct catalog *c;
    struct mrow *rows;
    size_t n, cap;
    struct batch b;
    struct pos at;
    struct shape *told[64];
    size_t ntold; /* what downstream knows: what a new stream is opened with */
    struct {
        struct mrow *rows;
        size_t n;
        struct pos at;
        struct shape *told[64];
        size_t ntold;
    } saved;
    int broken_law, missing, commits, truncates, shapes, inserts, updates, deletes;
    size_t max_bytes;
    const char *const *exclude;
    size_t nexclude;
    uint64_t keyless_max;
    bool verbose;
};

static const struct source_ops *ops(void) {
    return sqlite_driver.source;
}

__attribute__((noreturn)) static void die(const char *what, const struct err *e) {
    printf("Bail out! %s: %s (%s)\n", what, e->msg, e->hint);
    exit(1);
}

__attribute__((unused)) static int app_try(struct feed *f, const char *sql) { /* SQLite's code */
    char *msg = NULL;
    int rc = sqlite3_exec(f->app, sql, NULL, NULL, &msg);
    if (rc != SQLITE_OK && f->verbose) note("app: %s: %s", msg, sql);
    sqlite3_free(msg);
    return rc;
}

static void app(struct feed *f, const char *sql) {
    char *msg = NULL;
    if (sqlite3_exec(f->app, sql, NULL, NULL, &msg) != SQLITE_OK) {
        printf("Bail out! the application failed: %s: %s\n", msg, sql);
        exit(1);
    }
}

/* ---- the model ------------------------------------------------------------------------------------------------------------- */

static struct mrow model_row(const struct shape *s, const struct value *v) {
    struct mrow r = {s->oid, s->ncols, calloc(s->ncols, sizeof *r.v)};
    for (int i = 0; i < s->ncols; i++) {
        r.v[i] = (struct mval){s->cols[i].id, v[i].kind, v[i].len, malloc(v[i].len + 1u)};
        if (v[i].len) memcpy(r.v[i].p, v[i].p, v[i].len);
    }
    return r;
}
static void row_free(struct mrow *r) {
    for (int i = 0; i < r->n; i++)
        free(r->v[i].p);
    free(r->v);
}
static void model_add(struct feed *f, struct mrow r) {
    if (f->n == f->cap) f->rows = realloc(f->rows, (f->cap = f->cap ? f->cap * 2 : 64) * sizeof *f->rows);
    f->rows[f->n++] = r;
}
static void model_cut(struct feed *f, size_t i) {
    row_free(&f->rows[i]);
    f->rows[i] = f->rows[--f->n];
}
static struct mval *model_val(struct mrow *r, int64_t id) {
    for (int i = 0; i < r->n; i++)
        if (r->v[i].id == id) return &r->v[i];
    return NULL;
}
static long model_find(struct feed *f, const struct shape *s, const struct value *v) {
    const struct key *k = &s->keys[s->identity];
    for (size_t i = 0; i < f->n; i++) {
        if (f->rows[i].oid != s->oid) continue;
        bool same = true;
        for (int c = 0; c < k->ncols && same; c++) {
            struct mval *m = model_val(&f->rows[i], s->cols[k->cols[c]].id);
            const struct value *w = &v[k->cols[c]];
            same = m && m->kind == w->kind && m->len == w->len && (!w->len || memcmp(m->p, w->p, w->len) == 0);
        }
        if (same) return (long)i;
    }
    return -1;
}
static void law(struct feed *f, bool holds, const char *what, const struct shape *s) {
    if (holds) return;
    f->broken_law++;
    note("law broken: %s in %s", what, s->name);
}

static void apply_shape(struct feed *f, const struct change *c) { /* columns by their numbers; new ones NULL */
    for (size_t i = 0; i < f->n; i++) {
        struct mrow *r = &f->rows[i];
        if (r->oid != c->shape->oid) continue;
        struct mrow now = {r->oid, c->shape->ncols, calloc(c->shape->ncols, sizeof *now.v)};
        for (int k = 0; k < now.n; k++) {
            const struct column *col = &c->shape->cols[k];
            struct mval *old = model_val(r, col->id);
            now.v[k] = (struct mval){col->id,
                                     old              ? old->kind
                                     : col->generated ? VALUE_UNCHANGED
                                                      : VALUE_NULL,
                                     old ? old->len : 0, malloc(old ? old->len + 1u : 1)};
            if (old && old->len) memcpy(now.v[k].p, old->p, old->len);
        }
        row_free(r);
        *r = now;
    }
}

static void feed_told(struct feed *f, const struct change *c) {
    struct err e = {0};
    size_t i = 0;
    while (i < f->ntold && f->told[i]->oid != c->shape->oid)
        i++;
    law(f, (c->old_shape == NULL) == (i == f->ntold), "a shape before that downstream does not have", c->shape);
    if (c->old_shape && i < f->ntold)
        law(f, strcmp(c->old_shape->digest, f->told[i]->digest) == 0, "another shape before than downstream has", c->shape);
    if (i == 64) return;
    if (i < f->ntold) shape_free(f->told[i]);
    else f->ntold++;
    f->told[i] = shape_copy(c->shape, &e);
}

/* A drop: downstream had the table, in that shape, and has nothing of it now. */
static void feed_dropped(struct feed *f, const struct change *c) {
    size_t i = 0;
    while (i < f->ntold && f->told[i]->oid != c->old_shape->oid)
        i++;
    law(f, i < f->ntold && strcmp(c->old_shape->digest, f->told[i]->digest) == 0, "a drop of what downstream does not have", c->old_shape);
    for (size_t k = f->n; k-- > 0;)
        if (f->rows[k].oid == c->old_shape->oid) model_cut(f, k);
    if (i == f->ntold) return;
    shape_free(f->told[i]);
    f->told[i] = f->told[--f->ntold];
}

static void feed_apply(struct feed *f, const struct change *c) {
    long at;
    if (f->verbose) note("change %d table %s", c->op, c->shape ? c->shape->name : "-");
    switch (c->op) {
    case CHANGE_INSERT:
        f->inserts++;
        if (c->shape->identity >= 0) law(f, model_find(f, c->shape, c->after) < 0, "insert of a row that is there", c->shape);
        model_add(f, model_row(c->shape, c->after));
        break;
    case CHANGE_UPDATE:
        f->updates++;
        at = model_find(f, c->shape, c->after);
        law(f, at >= 0, "update of a row that is not there", c->shape);
        if (at >= 0) model_cut(f, (size_t)at);
        model_add(f, model_row(c->shape, c->after));
        break;
    case CHANGE_DELETE:
        f->deletes++;
        law(f, c->before_image == IMAGE_KEY, "delete without a key image", c->shape);
        at = model_find(f, c->shape, c->before);
        if (at >= 0) model_cut(f, (size_t)at);
        else f->missing++;
        break;
    case CHANGE_TRUNCATE:
        f->truncates++;
        for (uint32_t t = 0; t < c->ntables; t++)
            for (size_t i = f->n; i-- > 0;)
                if (f->rows[i].oid == c->tables[t]->oid) model_cut(f, i);
        break;
    case CHANGE_SHAPE:
        f->shapes++;
        if (!c->shape) {
            feed_dropped(f, c);
            break;
        }
        law(f, c->old_shape != c->shape, "a shape that did not change", c->shape);
        apply_shape(f, c);
        feed_told(f, c);
        break;
    case CHANGE_COMMIT:
        f->commits++;
        f->at = *c->pos;
        break;
    default: law(f, false, "an unknown change", c->shape);
    }
}

/* ---- source to model --------------------------------------------------------------------------------------------------------- */

static void read_table(struct snapshot *snap, const struct shape *t, void (*row)(void *, struct mrow), void *arg) {
    struct err e = {0};
    struct reader *r;
    enum rows_encoding enc;
    const char *p;
    size_t n;
    uint64_t rows;
    struct arena *a = arena_new(4096, &e);
    if (ops()->reader_open(snap, &r, &e) < 0 || ops()->reader_table(r, t, &enc, &e) < 0) die("reader", &e);
    for (;;) {
        if (ops()->reader_next(r, &p, &n, &rows, &e) < 0) die("reader_next", &e);
        if (!n) break;
        struct rd rd = RD(p, n);
        while (RD_LEFT(&rd)) {
            struct value *v;
            uint16_t cols;
            if (row_decode(&rd, a, &v, &cols, &e) < 0) die("row_decode", &e);
            row(arg, model_row(t, v));
            arena_reset(a);
        }
    }
    ops()->reader_close(r);
    arena_free(a);
}
static void row_to_model(void *f, struct mrow r) {
    model_add(f, r);
}

static void feed_open(struct feed *f) {
    struct err e = {0};
    struct source_opts o = {
        .dsn = f->path, .keyless_max_bytes = f->keyless_max, .filter = {.exclude = f->exclude, .nexclude = f->nexclude}};
    if (ops()->open(&o, &f->s, &e) < 0) die("open", &e);
}

/* A file in a folder of its own, in WAL mode, made by `sql`. */
__attribute__((unused)) static void feed_file(struct feed *f, const char *sql) {
    *f = (struct feed){.max_bytes = f->max_bytes ? f->max_bytes : 64 * 1024,
                       .exclude = f->exclude,
                       .nexclude = f->nexclude,
                       .keyless_max = f->keyless_max,
                       .verbose = getenv("VERBOSE") != NULL};
    snprintf(f->dir, sizeof f->dir, "/tmp/sluice-feed-XXXXXX");
    log_setup(LOG_TEXT, f->verbose ? LOG_DEBUG : LOG_ERROR);
    if (!mkdtemp(f->dir)) exit(1);
    snprintf(f->path, sizeof f->path, "%s/app.db", f->dir);
    if (sqlite3_open(f->path, &f->app) != SQLITE_OK) exit(1);
    app(f, "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF");
    if (sql) app(f, sql);
}

static void feed_stream(struct feed *f) {
    struct err e = {0};
    if (ops()->stream_open(f->s, &f->at, f->told, f->ntold, &f->st, &e) < 0) die("stream_open", &e);
}

/* Remember downstream's durable state; a crash goes back to it and reads again from there. */
static void rows_copy(struct mrow *to, const struct mrow *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] = (struct mrow){from[i].oid, from[i].n, calloc((size_t)from[i].n, sizeof(struct mval))};
        for (int k = 0; k < from[i].n; k++) {
            to[i].v[k] = from[i].v[k];
            to[i].v[k].p = malloc(from[i].v[k].len + 1u);
            memcpy(to[i].v[k].p, from[i].v[k].p, from[i].v[k].len);
        }
    }
}
static void saved_free(struct feed *f) {
    for (size_t i = 0; i < f->saved.n; i++)
        row_free(&f->saved.rows[i]);
    free(f->saved.rows);
    for (size_t i = 0; i < f->saved.ntold; i++)
        shape_free(f->saved.told[i]);
    memset(&f->saved, 0, sizeof f->saved);
}
__attribute__((unused)) static void feed_save(struct feed *f) {
    struct err e = {0};
    saved_free(f);
    f->saved.rows = calloc(f->n + 1, sizeof *f->rows);
    f->saved.n = f->n;
    rows_copy(f->saved.rows, f->rows, f->n);
    f->saved.at = f->at;
    for (size_t i = 0; i < f->ntold; i++)
        f->saved.told[i] = shape_copy(f->told[i], &e);
    f->saved.ntold = f->ntold;
}
__attribute__((unused)) static void feed_crash(struct feed *f) {
    struct err e = {0};
    ops()->stream_close(f->st);
    for (size_t i = 0; i < f->n; i++)
        row_free(&f->rows[i]);
    free(f->rows);
    for (size_t i = 0; i < f->ntold; i++)
        shape_free(f->told[i]);
    f->rows = calloc(f->saved.n + 1, sizeof *f->rows);
    f->n = f->saved.n;
    f->cap = f->saved.n + 1;
    rows_copy(f->rows, f->saved.rows, f->n);
    f->at = f->saved.at;
    for (size_t i = 0; i < f->saved.ntold; i++)
        f->told[i] = shape_copy(f->saved.told[i], &e);
    f->ntold = f->saved.ntold;
    if (ops()->check(f->s, &f->at, &f->at, &e) < 0) die("check", &e);
    feed_stream(f);
}

__attribute__((unused)) static void feed_begin(struct feed *f, const char *sql) {
    struct err e = {0};
    struct snapshot *snap;
    feed_file(f, sql);
    feed_open(f);
    if (batch_init(&f->b, 4096, &e) < 0 || ops()->catalog(f->s, true, &f->c, &e) < 0 || ops()->anchor(f->s, f->c, &f->at, &snap, &e) < 0)
        die("anchor", &e);
    for (size_t i = 0; i < f->c->ntables; i++)
        read_table(snap, f->c->tables[i], row_to_model, f);
    ops()->snapshot_close(snap);
    for (size_t i = 0; i < f->c->ntables && i < 64; i++)
        f->told[f->ntold++] = shape_copy(f->c->tables[i], &e);
    for (size_t i = 0; i < f->ntold; i++)
        f->told[i]->table = (uint32_t)i + 1;
    feed_stream(f);
}

/* Everything that is there, applied. */
__attribute__((unused)) static int feed_try_tick(struct feed *f, struct err *e) {
    struct pos seen;
    for (;;) {
        batch_reset(&f->b);
        if (ops()->stream_next(f->st, &f->b, f->max_bytes, 0, &seen, e) < 0) return -1;
        for (size_t i = 0; i < f->b.n; i++)
            feed_apply(f, &f->b.v[i]);
        if (f->b.n == 0) break;
        if (f->b.ends_at_commit != (f->b.v[f->b.n - 1].op == CHANGE_COMMIT)) f->broken_law++;
    }
    f->at = seen;
    return 0;
}
__attribute__((unused)) static void feed_tick(struct feed *f) {
    struct err e = {0};
    if (feed_try_tick(f, &e) < 0) die("stream_next", &e);
}
__attribute__((unused)) static void feed_ack(struct feed *f) {
    struct err e = {0};
    if (ops()->stream_ack(f->st, &f->at, &e) < 0) die("stream_ack", &e);
}

/* ---- comparing --------------------------------------------------------------------------------------------------------------- */

struct lines {
    char **v;
    size_t n;
};
static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}
static char *row_line(struct mrow *r, const struct shape *s) {
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 1;
    for (int i = 0; i < s->ncols; i++) {
        struct mval *m = model_val(r, s->cols[i].id);
        n += (m ? m->len * 2u : 0) + 2;
    }
    char *out = malloc(n), *p = out;
    for (int i = 0; i < s->ncols; i++) {
        struct mval *m = model_val(r, s->cols[i].id);
        if (s->cols[i].generated) continue;
        *p++ = '|';
        *p++ = m ? "NUTYB"[m->kind] : '?';
        for (uint32_t k = 0; m && k < m->len; k++) {
            unsigned char c = (unsigned char)m->p[k];
            if (c > 32 && c < 127) {
                *p++ = (char)c;
            } else {
                *p++ = hex[c >> 4];
                *p++ = hex[c & 15];
            }
        }
    }
    *p = 0;
    return out;
}
struct collect {
    struct lines *l;
    const struct shape *s;
};
static void row_to_line(void *arg, struct mrow r) {
    struct collect *c = arg;
    c->l->v = realloc(c->l->v, (c->l->n + 1) * sizeof *c->l->v);
    c->l->v[c->l->n++] = row_line(&r, c->s);
    row_free(&r);
}
/* Does the model hold exactly the source's rows, and the shapes that downstream was told? */
__attribute__((unused)) static bool feed_same(struct feed *f) {
    struct err e = {0};
    struct catalog *c;
    struct snapshot *snap;
    struct pos p;
    size_t total = 0;
    bool same = true;
    if (ops()->catalog(f->s, false, &c, &e) < 0 || sq_snapshot_open(f->s, &p, &snap, &e) < 0) die("catalog", &e);
    for (size_t t = 0; t < c->ntables; t++) {
        struct lines want = {0}, have = {0};
        read_table(snap, c->tables[t], row_to_line, &(struct collect){&want, c->tables[t]});
        for (size_t i = 0; i < f->n; i++) {
            if (f->rows[i].oid != c->tables[t]->oid) continue;
            have.v = realloc(have.v, (have.n + 1) * sizeof *have.v);
            have.v[have.n++] = row_line(&f->rows[i], c->tables[t]);
        }
        if (want.n) qsort(want.v, want.n, sizeof *want.v, by_text);
        if (have.n) qsort(have.v, have.n, sizeof *have.v, by_text);
        total += have.n;
        for (size_t i = 0; i < want.n || i < have.n; i++)
            if (i >= want.n || i >= have.n || strcmp(want.v[i], have.v[i]) != 0) {
                note("%s: source %s, model %s", c->tables[t]->name, i < want.n ? want.v[i] : "-", i < have.n ? have.v[i] : "-");
                same = false;
                break;
            }
        for (size_t i = 0; i < want.n; i++)
            free(want.v[i]);
        for (size_t i = 0; i < have.n; i++)
            free(have.v[i]);
        free(want.v);
        free(have.v);
    }
    if (total < f->n) note("%zu rows of tables that are gone", f->n - total);
    ops()->snapshot_close(snap);
    catalog_free(c);
    return same && f->broken_law == 0;
}

__attribute__((unused)) static void feed_end(struct feed *f) {
    char cmd[128];
    if (f->st) ops()->stream_close(f->st);
    if (f->s) ops()->close(f->s);
    catalog_free(f->c);
    saved_free(f);
    for (size_t i = 0; i < f->ntold; i++)
        shape_free(f->told[i]);
    if (f->b.arena) batch_free(&f->b);
    for (size_t i = 0; i < f->n; i++)
        row_free(&f->rows[i]);
    free(f->rows);
    sqlite3_close(f->app);
    snprintf(cmd, sizeof cmd, "rm -rf %s", f->dir);
    if (system(cmd) != 0) note("cannot remove %s", f->dir);
    *f = (struct feed){0};
}

/* Count what the steps told since the last call. */
__attribute__((unused)) static void feed_forget(struct feed *f) {
    f->commits = f->truncates = f->shapes = f->inserts = f->updates = f->deletes = 0;
}

#endif
