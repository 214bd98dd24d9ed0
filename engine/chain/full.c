/* DESIGN: a full being written.
 *   1. Intent (lineage.json with a starting segment) is durable before an anchor is made, so that a dead run's anchor is known to be
 *      nobody's; the anchor is durable (full.start.json, catalogue) before the first row.
 *   2. The first anchor stays: a run that finds a filling segment goes on with its anchor and its done tables. A run that finds an
 *      intent begins a segment of its own, so that a run which was only thought dead cannot finish that one.
 *   3. Every step of the catalogue is a conditional put from what this run saw; whoever loses has changed nothing.
 *   4. A table counts as done when its done object is durable; rows of an attempt without one are nobody's. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/chain/chunk.h"
#include "engine/chain/full.h"

struct full_table {
    struct full *f;
    struct done d;
    struct chunk_writer w;
};

void full_close(struct full *f) {
    if (f == NULL) return;
    lineage_free(&f->lin);
    opening_free(&f->o);
    catalog_free(f->cat);
    mem_free(f->done);
    pthread_mutex_destroy(&f->lock);
    mem_free(f);
}

struct full *full_new(struct store *st, const struct full_opts *o, struct err *e) {
    struct full *f = mem_alloc(sizeof *f, e);
    if (f == NULL) return NULL;
    pthread_mutex_init(&f->lock, NULL);
    f->st = st;
    f->compression = o->compression;
    f->chunk_rows = o->chunk_rows;
    return f;
}

const char *full_segment(const struct full *f) {
    return f->seg;
}
const char *full_lineage(const struct full *f) {
    return f->lin.id;
}
void full_anchor(const struct full *f, struct pos *anchor, const struct catalog **c) {
    *anchor = f->o.anchor;
    *c = f->cat;
}

static bool is_done(const struct full *f, uint32_t table) {
    for (size_t i = 0; i < f->ndone; i++)
        if (f->done[i].table == table) return true;
    return false;
}

bool full_table_done(const struct full *f, uint32_t table) {
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&f->lock;
    pthread_mutex_lock(lock);
    bool yes = is_done(f, table);
    pthread_mutex_unlock(lock);
    return yes;
}

int full_add_done(struct full *f, uint32_t table, const char *attempt, const char *digest, struct err *e) {
    int rc = 0;
    pthread_mutex_lock(&f->lock);
    if (is_done(f, table)) goto out; /* two runs at once: either attempt is whole, the first by name counts */
    if (f->ndone == f->cap_done) {
        size_t cap = f->cap_done ? f->cap_done * 2 : 16;
        struct full_entry *more = mem_resize(f->done, cap * sizeof *more, e);
        if (more == NULL) {
            rc = -1;
            goto out;
        }
        f->done = more;
        f->cap_done = cap;
    }
    struct full_entry *x = &f->done[f->ndone++];
    memset(x, 0, sizeof *x);
    x->table = table;
    memcpy(x->attempt, attempt, CHAIN_ATTEMPT);
    memcpy(x->digest, digest, DIGEST_HEX);
out:
    pthread_mutex_unlock(&f->lock);
    return rc;
}
/* ---- catalogue ---- */

int full_lost(const struct full *f, struct err *e) {
    err_set(e, CODE_CHAIN_CONFLICT, "another process is taking a full into '%s', or replaced the chain there", f->st->url);
    return err_hint(e, "see who else writes that chain; nothing of this run is in it");
}

/* One conditional step of the catalogue. `fits` says whether l is still what the step starts from (0), is already past it (1) or is
 * another's (-1). */
int full_step(struct full *f, int (*fits)(const struct full *f, const struct lineage *l, const void *arg),
              int (*make)(struct full *f, struct lineage *next, const void *arg, struct err *e), const void *arg, struct err *e) {
    for (int try = 0; try < 8; try++) {
        struct lineage next;
        char etag[STORE_ETAG];
        bool won = false, found, same;
        int is = fits(f, &f->lin, arg), rc;
        if (is > 0) return 0;
        if (is < 0) return full_lost(f, e);
        if (lineage_copy(&f->lin, &next, e) < 0) return -1;
        rc = make(f, &next, arg, e);
        if (rc == 0) rc = lineage_put(f->st, &next, f->etag, &won, etag, e);
        if (rc == 0 && won) {
            lineage_free(&f->lin);
            f->lin = next;
            memcpy(f->etag, etag, STORE_ETAG);
            return 0;
        }
        lineage_free(&next);
        if (rc < 0) return -1;
        struct lineage now;
        if (lineage_get(f->st, NULL, &now, etag, &found, &same, e) < 0) return -1;
        if (!found) return full_lost(f, e);
        if (strcmp(now.id, f->lin.id) != 0) {
            lineage_free(&now);
            return full_lost(f, e);
        }
        lineage_free(&f->lin);
        f->lin = now;
        memcpy(f->etag, etag, STORE_ETAG);
    }
    return err_set_class(e, ERR_RETRY, CODE_CHAIN_CONFLICT, "the catalogue at '%s' changes too fast", f->st->url);
}

struct lineage_segment *full_in(const struct full *f, const struct lineage *l) {
    for (size_t i = 0; i < l->nsegments; i++)
        if (strcmp(l->segments[i].id, f->seg) == 0) return &l->segments[i];
    return NULL;
}

/* ---- tables ---- */

static const struct registry_table *table_of(const struct full *f, const struct shape *t) {
    const struct registry_table *x = t->table ? registry_get(&f->o.tables, t->table) : NULL;
    if (x == NULL || x->oid != t->oid || strcmp(x->name, t->name) != 0 || strcmp(x->ns, t->ns) != 0)
        x = registry_find(&f->o.tables, t->oid, t->ns, t->name);
    return x;
}

static int same_shape(const struct full *f, const struct shape *t, const struct registry_table *x, struct err *e) {
    char label[160];
    if (x && strcmp(x->digest, t->digest) == 0) return 0;
    err_set(e, CODE_SHAPE_CHANGED, "table '%s' %s since the full at '%s' was begun", shape_label(t, label), x ? "changed shape" : "is new",
            f->st->url);
    return err_hint(e, "the unfinished full cannot go on: begin anew with --force-overwrite");
}

int full_match(struct full *f, const struct catalog *c, struct err *e) {
    size_t n = 0;
    for (size_t i = 0; i < c->ntables; i++) {
        const struct registry_table *x = table_of(f, c->tables[i]);
        if (same_shape(f, c->tables[i], x, e) < 0) return -1;
        c->tables[i]->table = x->table;
        n++;
    }
    if (n == f->o.tables.n) return 0;
    for (size_t i = 0; i < f->o.tables.n; i++) {
        const struct registry_table *x = &f->o.tables.v[i];
        size_t k = 0;
        while (k < c->ntables && c->tables[k]->table != x->table)
            k++;
        if (k < c->ntables) continue;
        err_set(e, CODE_SHAPE_CHANGED, "table '%s.%s' is gone, or left out, since the full at '%s' was begun", x->ns, x->name, f->st->url);
        return err_hint(e, "run it with the table filters it was begun with, or begin anew with --force-overwrite");
    }
    return 0;
}

void full_table_abort(struct full_table *ft) {
    if (ft == NULL) return;
    chunk_writer_free(&ft->w);
    done_free(&ft->d);
    mem_free(ft);
}

int full_table_begin(struct full *f, const struct shape *t, const struct pos *snap, enum rows_encoding enc, struct full_table **out,
                     struct err *e) {
    const struct registry_table *x;
    struct full_table *ft;
    *out = NULL;
    if (f->cat == NULL) return err_set(e, CODE_INTERNAL, "rows before the anchor is durable");
    x = table_of(f, t);
    if (same_shape(f, t, x, e) < 0) return -1;
    enum pos_order o = pos_compare(&f->o.anchor, snap);
    if (o != POS_LESS && o != POS_EQUAL)
        return err_set(e, CODE_INTERNAL, "a snapshot at '%s' is before the anchor at '%s'", snap->token, f->o.anchor.token);
    if (full_table_done(f, x->table)) return err_set(e, CODE_INTERNAL, "table '%s.%s' is done already", x->ns, x->name);
    if ((ft = mem_alloc(sizeof *ft, e)) == NULL) return -1;
    ft->f = f;
    struct done *d = &ft->d;
    memcpy(d->lineage, f->o.lineage, CHAIN_LINEAGE);
    memcpy(d->segment, f->seg, CHAIN_SEG);
    memcpy(d->shape, x->digest, DIGEST_HEX);
    d->table = x->table;
    d->snapshot = *snap;
    d->encoding = enc;
    if (chain_random_hex(d->attempt, 8, e) < 0) goto fail;
    const struct chunk_name name = {CHUNK_ROWS, (uint8_t)enc, d->lineage, d->segment, d->attempt, d->table};
    if (chunk_writer_init(&ft->w, f->st, &name, f->compression, f->chunk_rows, 0, e) < 0) goto fail;
    *out = ft;
    return 0;
fail:
    full_table_abort(ft);
    return -1;
}

int full_table_put(struct full_table *ft, const char *p, size_t n, uint64_t rows, struct err *e) {
    size_t at = ft->w.raw.n;
    if (rows == 0 && n == 0) return 0;
    if (rows == 0 || n == 0 || rows > UINT32_MAX)
        return err_set(e, CODE_INTERNAL, "a block of %zu bytes and %llu rows", n, (unsigned long long)rows);
    if (n > FORMAT_MAX_RECORD)
        return err_set(e, CODE_LIMIT, "a row of table %u has %zu bytes, at most %zu can be stored", ft->d.table, n, FORMAT_MAX_RECORD);
    if (buf_add(&ft->w.raw, p, n, e) < 0 || chunk_fit(&ft->w, at, e) < 0) return -1;
    ft->d.rows += rows;
    return chunk_added(&ft->w, rows, e);
}

int full_table_end(struct full_table *ft, uint64_t *rows, uint64_t *raw_bytes, uint64_t *stored_bytes, struct err *e) {
    struct done *d = &ft->d;
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    char path[CHAIN_PATH], digest[DIGEST_HEX];
    int rc = -1;
    if (chunk_writer_end(&ft->w, e) < 0 || FAULT("chain.rows_put", e) < 0) goto out;
    d->raw_bytes = ft->w.raw_bytes;
    d->stored_bytes = ft->w.stored_bytes;
    d->chunks = ft->w.done;
    memset(&ft->w.done, 0, sizeof ft->w.done);
    if (done_format(d, ft->f->compression, &b, e) < 0 || sha256_hex(b.p, b.n, digest, e) < 0) goto out;
    path_done(path, d->segment, d->table, d->attempt);
    if (doc_put_new(ft->f->st, path, &b, e) < 0 || FAULT("chain.done_put", e) < 0 ||
        full_add_done(ft->f, d->table, d->attempt, digest, e) < 0)
        goto out;
    if (rows) *rows = d->rows;
    if (raw_bytes) *raw_bytes = d->raw_bytes;
    if (stored_bytes) *stored_bytes = d->stored_bytes;
    rc = 0;
out:
    buf_free(&b);
    full_table_abort(ft);
    return rc;
}

/* ---- end ---- */

static int end_fits(const struct full *f, const struct lineage *l, const void *arg) {
    const struct lineage_segment *s = full_in(f, l);
    if (s == NULL || s->state == SEGMENT_STARTING) return -1;
    if (s->state == SEGMENT_FILLING) return s == &l->segments[l->nsegments - 1] ? 0 : -1; /* given up when another follows */
    return strcmp(s->full, arg) == 0 ? 1 : -1;
}

static int end_make(struct full *f, struct lineage *next, const void *arg, struct err *e) {
    struct lineage_segment *s = full_in(f, next);
    (void)e;
    s->state = SEGMENT_COMPLETE;
    memcpy(s->full, arg, DIGEST_HEX);
    return 0;
}

static int by_table(const void *a, const void *b) {
    const struct full_entry *x = a, *y = b;
    return x->table < y->table ? -1 : x->table > y->table;
}

/* full.json as it is to be in the catalogue: ours, or one that a run left which died before the catalogue. */
static int full_put(struct full *f, const struct object *sequences, size_t nsequences, char digest[DIGEST_HEX], struct err *e) {
    struct full_doc doc = {
        .tables = f->done, .ntables = f->ndone, .sequences = (struct object *)(uintptr_t)sequences, .nsequences = nsequences};
    struct full_doc left = {0};
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    char path[CHAIN_PATH];
    int rc = -1;
    memcpy(doc.lineage, f->o.lineage, CHAIN_LINEAGE);
    memcpy(doc.segment, f->seg, CHAIN_SEG);
    memcpy(doc.opening, f->id, CHAIN_ID);
    doc.time_us = chain_hooks.now_us();
    path_full(path, f->seg);
    if (!f->full_seen) {
        if (full_doc_format(&doc, &b, e) < 0 || sha256_hex(b.p, b.n, digest, e) < 0) goto out;
        rc = doc_put_new(f->st, path, &b, e);
        goto out;
    }
    if (full_doc_load(f->st, f->seg, &left, digest, e) < 0) goto out;
    if (strcmp(left.opening, f->id) != 0 || left.ntables != f->o.tables.n) {
        doc_bad(e, path, "it is of another opening");
        goto out;
    }
    rc = 0;
out:
    full_doc_free(&left);
    buf_free(&b);
    return rc;
}

int full_end(struct full *f, const struct object *sequences, size_t nsequences, char id[CHAIN_ID], struct err *e) {
    char digest[DIGEST_HEX];
    if (f->cat == NULL) return err_set(e, CODE_INTERNAL, "a full cannot end before it starts");
    for (size_t i = 0; i < f->o.tables.n; i++) {
        const struct registry_table *t = &f->o.tables.v[i];
        if (full_table_done(f, t->table)) continue;
        err_set(e, CODE_CHAIN_INCOMPLETE, "table '%s.%s' is not done", t->ns, t->name);
        return err_hint(e, "run the same `sluice backup full` command again: it goes on where it was");
    }
    if (f->ndone) qsort(f->done, f->ndone, sizeof *f->done, by_table);
    if (full_put(f, sequences, nsequences, digest, e) < 0 || FAULT("chain.full_put", e) < 0) return -1;
    if (full_step(f, end_fits, end_make, digest, e) < 0 || FAULT("chain.full_catalogued", e) < 0) return -1;
    if (id) memcpy(id, f->id, CHAIN_ID);
    return 0;
}

bool full_extendable(const struct full *f) {
    return f->lin.extendable;
}
