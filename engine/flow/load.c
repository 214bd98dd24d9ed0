/* DESIGN.
 * 1. A chunk's rows and its mark (table, chunk number) commit together: a killed load goes on behind the last chunk, keyless tables included.
 * 2. Chunks of one table are loaded in order by one worker; tables are independent, the largest goes first.
 * 3. Rows go as raw bytes where source and target column types are identical; otherwise each block is decoded once into an arena. */
#include "engine/flow/load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"

#define AUTO_PARALLELISM 4

struct work { /* shared by the workers, under lock */
    pthread_mutex_t lock;
    const struct load_opts *o;
    const struct full_table_info **order; size_t n, next;
    struct load_stats stats;
    struct err first;     /* the first failure; the others stop */
    bool failed, stopped;
};
struct worker {
    struct work *w;
    struct store *store; /* shared handle */
    struct chain *chain;
    struct full_reader *reader;
    struct loader *loader;
    struct arena *arena;
    struct value *rows; size_t rows_cap;
};

static bool work_over(struct work *w) {
    pthread_mutex_lock(&w->lock);
    bool over = w->failed || w->stopped;
    pthread_mutex_unlock(&w->lock);
    return over;
}

/* ---- decoding a block ---- */

static struct value *rows_room(struct worker *k, size_t values, struct err *e) {
    if (values > k->rows_cap) {
        size_t cap = values * 2;
        struct value *v = mem_resize(k->rows, cap * sizeof *v, e);
        if (!v) return NULL;
        k->rows = v;
        k->rows_cap = cap;
    }
    return k->rows;
}

static int decode_values(struct worker *k, const struct shape *s, const char *p, size_t n, size_t *rows, struct err *e) {
    struct rd r = RD(p, n);
    size_t count = 0;
    while (RD_LEFT(&r)) {
        struct value *v;
        uint16_t nv;
        if (row_decode(&r, k->arena, &v, &nv, e) < 0) return -1;
        if (nv != s->ncols)
            return err_set(e, CODE_CHUNK_CORRUPT, "a row of table '%s.%s' has %u columns instead of %u", s->ns, s->name, nv, s->ncols);
        if (!rows_room(k, (count + 1) * s->ncols, e)) return -1;
        memcpy(k->rows + count * s->ncols, v, s->ncols * sizeof *v);
        count++;
    }
    *rows = count;
    return 0;
}

static int decode_copytext(struct worker *k, const struct shape *s, const char *p, size_t n, size_t *rows, struct err *e) {
    uint16_t stored = 0;
    size_t count = 0;
    for (uint16_t i = 0; i < s->ncols; i++) stored += s->cols[i].generated ? 0 : 1;
    struct value *line = arena_alloc(k->arena, (stored + 1u) * sizeof *line, e);
    if (!line) return -1;
    for (const char *end = p + n; p < end; count++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl) return err_set(e, CODE_CHUNK_CORRUPT, "a block of table '%s.%s' ends inside a row", s->ns, s->name);
        if (copytext_decode(p, (size_t)(nl - p), k->arena, line, stored, e) < 0) return -1;
        if (!rows_room(k, (count + 1) * s->ncols, e)) return -1;
        struct value *to = k->rows + count * s->ncols;
        for (uint16_t i = 0, at = 0; i < s->ncols; i++)
            to[i] = s->cols[i].generated ? (struct value){NULL, 0, VALUE_UNCHANGED} : line[at++];
        p = nl + 1;
    }
    *rows = count;
    return 0;
}

/* ---- one table ---- */

static int load_chunk(struct worker *k, const struct full_table_info *ti, struct flow_table *t, uint64_t chunk, struct err *e) {
    struct chunk_rows *cr = NULL;
    const struct load_opts *o = k->w->o;
    const struct target_ops *ops = o->driver->target;
    bool raw = ops->loader_raw(k->loader, t->bound, ti->encoding);
    uint64_t rows_in = 0, bytes_in = 0;
    int rc = -1;
    if (ops->loader_begin(k->loader, t->bound, e) < 0) goto out;
    if (full_reader_chunk(k->reader, ti->table, chunk, &cr, e) < 0) goto out;
    for (;;) {
        const char *p;
        size_t n, decoded = 0;
        uint64_t rows;
        if (chunk_rows_next(cr, &p, &n, &rows, e) < 0) goto out;
        if (n == 0) break;
        if (raw) {
            if (ops->loader_raw_put(k->loader, p, n, e) < 0) goto out;
        } else {
            arena_reset(k->arena);
            int bad = ti->encoding == ROWS_VALUES ? decode_values(k, ti->shape, p, n, &decoded, e) : decode_copytext(k, ti->shape, p, n, &decoded, e);
            if (bad < 0) goto out;
            if (decoded != rows) {
                err_set(e, CODE_CHUNK_CORRUPT, "a frame of table '%s.%s' says %llu rows and holds %zu", t->ns, t->name, (unsigned long long)rows, decoded);
                goto out;
            }
            if (ops->loader_rows(k->loader, k->rows, decoded, e) < 0) goto out;
        }
        rows_in += rows;
        bytes_in += n;
        progress_add(o->progress, 0, rows, n);
    }
    if (FAULT("load.before_chunk", e) < 0) goto out;
    if (ops->loader_commit(k->loader, ti->table, chunk + 1, chunk + 1 == ti->chunks, e) < 0) goto out;
    if (FAULT("load.after_chunk", e) < 0) goto out;
    pthread_mutex_lock(&k->w->lock);
    k->w->stats.rows += rows_in;
    k->w->stats.raw_bytes += bytes_in;
    pthread_mutex_unlock(&k->w->lock);
    rc = 0;
out:
    chunk_rows_close(cr);
    return rc;
}

static int load_table(struct worker *k, const struct full_table_info *ti, struct err *e) {
    struct flow_table *t = tables_get(k->w->o->tables, ti->table);
    const struct target_ops *ops = k->w->o->driver->target;
    uint64_t done = 0;
    bool whole = false;
    if (!t || !t->wanted) return 0;
    if (ops->loader_done(k->loader, ti->table, &done, &whole, e) < 0) return -1;
    if (done > ti->chunks)
        return err_set(e, CODE_MARK_MISMATCH, "table '%s.%s' has %llu chunks loaded, but the full has %llu", t->ns, t->name, (unsigned long long)done,
                       (unsigned long long)ti->chunks);
    for (uint64_t c = done; c < ti->chunks; c++) {
        if (work_over(k->w)) return 0;
        if (load_chunk(k, ti, t, c, e) < 0) return err_wrap(e, "table '%s.%s', chunk %llu", t->ns, t->name, (unsigned long long)c);
    }
    if (!whole && ti->chunks == 0) {
        if (ops->loader_begin(k->loader, t->bound, e) < 0) return -1;
        if (ops->loader_commit(k->loader, ti->table, 0, true, e) < 0) return -1;
    }
    progress_add(k->w->o->progress, 1, 0, 0);
    pthread_mutex_lock(&k->w->lock);
    k->w->stats.tables++;
    pthread_mutex_unlock(&k->w->lock);
    return 0;
}

static int worker_open(struct worker *k, struct err *e) {
    bool found;
    const struct load_opts *o = k->w->o;
    if (chain_open(o->store, &k->chain, &found, e) < 0) return -1;
    if (!found) return err_set(e, CODE_CHAIN_MISSING, "the chain at '%s' is gone", o->store->url);
    if (full_reader_open(k->chain, o->segment, &k->reader, e) < 0) return -1;
    if (o->driver->target->loader_open(o->target, o->state, &k->loader, e) < 0) return -1;
    return (k->arena = arena_new(KiB(256), e)) ? 0 : -1;
}

static void worker_close(struct worker *k) {
    if (k->loader) k->w->o->driver->target->loader_close(k->loader);
    full_reader_close(k->reader);
    chain_close(k->chain);
    arena_free(k->arena);
    mem_free(k->rows);
}

static void *worker_main(void *arg) {
    struct worker *k = arg;
    struct work *w = k->w;
    struct err e = {0};
    int rc = worker_open(k, &e);
    while (rc == 0 && !work_over(w)) {
        pthread_mutex_lock(&w->lock);
        const struct full_table_info *ti = w->next < w->n ? w->order[w->next++] : NULL;
        pthread_mutex_unlock(&w->lock);
        if (!ti) break;
        rc = load_table(k, ti, &e);
    }
    worker_close(k);
    if (rc < 0) {
        pthread_mutex_lock(&w->lock);
        if (!w->failed) w->first = e;
        w->failed = true;
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

static int by_size_desc(const void *a, const void *b) {
    const struct full_table_info *x = *(const struct full_table_info *const *)a, *y = *(const struct full_table_info *const *)b;
    return x->stored_bytes < y->stored_bytes ? 1 : x->stored_bytes > y->stored_bytes ? -1 : (x->table > y->table) - (x->table < y->table);
}

/* The calling thread only watches for a stop; workers never touch the stopper. */
static void watch(struct work *w, pthread_t *threads, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        for (;;) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 200 * 1000000L;
            if (until.tv_nsec >= 1000000000L) {
                until.tv_nsec -= 1000000000L;
                until.tv_sec++;
            }
            if (pthread_timedjoin_np(threads[i], NULL, &until) == 0) break;
            if (w->o->stopper && stopper_asked(w->o->stopper)) {
                pthread_mutex_lock(&w->lock);
                w->stopped = true;
                pthread_mutex_unlock(&w->lock);
            }
        }
    }
}

int load_full(const struct load_opts *o, struct load_stats *s, bool *stopped, struct err *e) {
    struct work w = {.lock = PTHREAD_MUTEX_INITIALIZER, .o = o};
    struct chain *chain = NULL;
    struct full_reader *reader = NULL;
    struct worker *workers = NULL;
    pthread_t *threads = NULL;
    const struct full_table_info *ti;
    bool found;
    unsigned n = o->parallelism ? o->parallelism : AUTO_PARALLELISM, started = 0;
    uint64_t rows = 0, bytes = 0;
    int rc = -1;
    *stopped = false;
    if (!(o->driver->caps & CAP_CONCURRENT_WRITERS)) n = 1;
    if (chain_open(o->store, &chain, &found, e) < 0) goto out;
    if (!found) {
        err_set(e, CODE_CHAIN_MISSING, "the chain at '%s' is gone", o->store->url);
        goto out;
    }
    if (full_reader_open(chain, o->segment, &reader, e) < 0) goto out;
    w.n = full_reader_tables(reader, &ti);
    if (!(w.order = mem_alloc((w.n + 1) * sizeof *w.order, e))) goto out;
    for (size_t i = 0; i < w.n; i++) {
        w.order[i] = &ti[i];
        rows += ti[i].rows;
        bytes += ti[i].raw_bytes;
        /* Bound here, by the one thread that owns the target. */
        struct flow_table *t = tables_get(o->tables, ti[i].table);
        if (t && t->wanted && tables_bind(o->tables, t, e) < 0) goto out;
    }
    qsort(w.order, w.n, sizeof *w.order, by_size_desc);
    if (n > w.n) n = w.n ? (unsigned)w.n : 1;
    progress_begin(o->progress, "load", w.n, rows, bytes);
    if (!(workers = mem_alloc(n * sizeof *workers, e)) || !(threads = mem_alloc(n * sizeof *threads, e))) goto out;
    for (; started < n; started++) {
        workers[started].w = &w;
        if (pthread_create(&threads[started], NULL, worker_main, &workers[started]) != 0) {
            pthread_mutex_lock(&w.lock);
            if (!w.failed) err_set(&w.first, CODE_NO_MEMORY, "a thread cannot be started");
            w.failed = true;
            pthread_mutex_unlock(&w.lock);
            break;
        }
    }
    watch(&w, threads, started);
    *s = w.stats;
    *stopped = w.stopped;
    if (w.failed) {
        *e = w.first;
        goto out;
    }
    progress_end(o->progress);
    rc = 0;
out:
    full_reader_close(reader);
    chain_close(chain);
    mem_free(w.order);
    mem_free(workers);
    mem_free(threads);
    return rc;
}
