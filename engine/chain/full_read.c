/* DESIGN: reading a full.
 *   1. The catalogue names full.json by digest, that every done object by digest, and those every chunk: so one look at the catalogue
 *      fixes all bytes of the full.
 *   2. A full that the catalogue does not call complete cannot be opened, whatever lies in the store.
 *   3. A reader does not change after it was opened: several threads may open chunks of one reader, each chunk belongs to one. */
#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/chain/chunk.h"
#include "engine/chain/full.h"

struct full_reader {
    struct store *st;
    struct opening o;
    struct full_doc doc;
    struct catalog *cat;
    struct done *done;
    size_t ndone;
    struct full_table_info *info;
};
struct chunk_rows {
    struct chunk_reader *r;
    size_t next;
};

static const char *keep(struct arena *a, const char *s, struct err *e) {
    return s ? arena_copy(a, s, strlen(s), e) : NULL;
}

int opening_catalog(struct store *st, const struct opening *o, struct catalog **out, struct err *e) {
    struct catalog *c = catalog_new(e);
    *out = NULL;
    if (c == NULL) return -1;
    for (uint32_t number = 1; number < o->tables.next; number++) {
        const struct registry_table *t = registry_get(&o->tables, number);
        struct shape *s;
        if (t == NULL) continue;
        if (shape_load(st, t->digest, number, t->oid, &s, e) < 0 || catalog_add_table(c, s, e) < 0) goto fail;
    }
    for (size_t i = 0; i < o->nobjects; i++) {
        const struct object *from = &o->objects[i];
        struct object *to = catalog_add_object(c, e);
        if (to == NULL) goto fail;
        *to = *from;
        to->ns = keep(c->arena, from->ns, e);
        to->name = keep(c->arena, from->name, e);
        to->sql = keep(c->arena, from->sql, e);
        to->owned_by = keep(c->arena, from->owned_by, e);
        if ((from->ns && !to->ns) || (from->name && !to->name) || (from->sql && !to->sql) || (from->owned_by && !to->owned_by)) goto fail;
    }
    for (size_t i = 0; i < o->nwarnings; i++)
        if (catalog_warn(c, e, "%s", o->warnings[i]) < 0) goto fail;
    *out = c;
    return 0;
fail:
    catalog_free(c);
    return -1;
}

int done_load(struct store *st, const struct opening *o, uint32_t table, const char *attempt, struct done *d, char digest[DIGEST_HEX],
              struct err *e) {
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    const struct registry_table *t = registry_get(&o->tables, table);
    char path[CHAIN_PATH];
    int rc = -1;
    memset(d, 0, sizeof *d);
    path_done(path, o->segment, table, attempt);
    if (doc_load(st, path, &b, e) < 0 || sha256_hex(b.p, b.n, digest, e) < 0 || done_parse(b.p, b.n, path, d, e) < 0) goto out;
    if (strcmp(d->lineage, o->lineage) != 0 || strcmp(d->segment, o->segment) != 0 || d->table != table ||
        strcmp(d->attempt, attempt) != 0 || t == NULL || strcmp(t->digest, d->shape) != 0 || strcmp(d->snapshot.engine, o->engine) != 0) {
        doc_bad(e, path, "it belongs to another chain, segment or table");
        goto out;
    }
    rc = 0;
out:
    if (rc < 0) done_free(d);
    buf_free(&b);
    return rc;
}

int full_doc_load(struct store *st, const char *segment, struct full_doc *f, char digest[DIGEST_HEX], struct err *e) {
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    char path[CHAIN_PATH];
    int rc = -1;
    memset(f, 0, sizeof *f);
    path_full(path, segment);
    if (doc_load(st, path, &b, e) < 0 || sha256_hex(b.p, b.n, digest, e) < 0) goto out;
    rc = full_doc_parse(b.p, b.n, path, f, e);
out:
    buf_free(&b);
    return rc;
}

void full_reader_close(struct full_reader *r) {
    if (r == NULL) return;
    for (size_t i = 0; i < r->ndone; i++)
        done_free(&r->done[i]);
    mem_free(r->done);
    mem_free(r->info);
    catalog_free(r->cat);
    full_doc_free(&r->doc);
    opening_free(&r->o);
    mem_free(r);
}

static const struct lineage_segment *pick(const struct chain *c, const char *segment, struct err *e) {
    const struct lineage_segment *s = NULL, *named = NULL;
    for (size_t i = 0; i < c->lin.nsegments; i++) {
        if (c->lin.segments[i].state == SEGMENT_COMPLETE) s = &c->lin.segments[i];
        if (segment && segment[0] && strcmp(c->lin.segments[i].id, segment) == 0) named = &c->lin.segments[i];
    }
    if (segment && segment[0]) s = named && named->state == SEGMENT_COMPLETE ? named : NULL;
    if (s) return s;
    if (segment && segment[0] && named == NULL)
        err_set(e, CODE_CHAIN_INCOMPLETE, "the chain at '%s' has no segment '%.40s'", c->st->url, segment);
    else err_set(e, CODE_CHAIN_INCOMPLETE, "the full of the chain at '%s' is not complete", c->st->url);
    err_hint(e, "finish it with the same `sluice backup full` command that began it");
    return NULL;
}

static int tables_open(struct full_reader *r, const char *path, struct err *e) {
    size_t n = r->cat->ntables;
    if (r->doc.ntables != n) return doc_bad(e, path, "it has %zu tables, its opening has %zu", r->doc.ntables, n);
    if ((r->done = mem_alloc((n + 1) * sizeof *r->done, e)) == NULL || (r->info = mem_alloc((n + 1) * sizeof *r->info, e)) == NULL)
        return -1;
    for (; r->ndone < n; r->ndone++) {
        const struct full_entry *x = &r->doc.tables[r->ndone];
        const struct shape *s = r->cat->tables[r->ndone];
        struct done *d = &r->done[r->ndone];
        char digest[DIGEST_HEX], dpath[CHAIN_PATH];
        if (x->table != s->table) return doc_bad(e, path, "table %u is not in its opening", x->table);
        if (done_load(r->st, &r->o, x->table, x->attempt, d, digest, e) < 0) return -1;
        if (strcmp(digest, x->digest) != 0) {
            done_free(d);
            path_done(dpath, r->o.segment, x->table, x->attempt);
            return doc_bad(e, dpath, "its digest is %.12s…, '%s' says %.12s…", digest, path, x->digest);
        }
        r->info[r->ndone] =
            (struct full_table_info){x->table, s, d->snapshot, d->encoding, d->rows, d->raw_bytes, d->stored_bytes, d->chunks.n};
    }
    return 0;
}

int full_reader_open(struct chain *c, const char *segment, struct full_reader **out, struct err *e) {
    const struct lineage_segment *s = pick(c, segment, e);
    struct full_reader *r;
    struct lineage_link x;
    char path[CHAIN_PATH], digest[DIGEST_HEX];
    uint64_t start_seq;
    *out = NULL;
    if (s == NULL || (r = mem_alloc(sizeof *r, e)) == NULL) return -1;
    r->st = c->st;
    path_full(path, s->id);
    if (chain_opening(c, s->first, &r->o, e) < 0 || full_doc_load(c->st, s->id, &r->doc, digest, e) < 0 ||
        chain_entry(c, s->first, &x, &start_seq, e) < 0)
        goto fail;
    if (strcmp(digest, s->full) != 0) {
        doc_bad(e, path, "its digest is %.12s…, the catalogue says %.12s…", digest, s->full);
        goto fail;
    }
    if (strcmp(r->doc.lineage, c->lin.id) != 0 || strcmp(r->doc.segment, s->id) != 0 || strcmp(r->doc.opening, x.id) != 0) {
        doc_bad(e, path, "it belongs to another chain or opening");
        goto fail;
    }
    if (opening_catalog(c->st, &r->o, &r->cat, e) < 0 || tables_open(r, path, e) < 0) goto fail;
    *out = r;
    return 0;
fail:
    full_reader_close(r);
    return -1;
}

size_t full_reader_tables(const struct full_reader *r, const struct full_table_info **t) {
    *t = r->info;
    return r->ndone;
}
const struct catalog *full_reader_catalog(const struct full_reader *r) {
    return r->cat;
}
int full_reader_sequences(const struct full_reader *r, const struct object **o, size_t *n) {
    *o = r->doc.sequences;
    *n = r->doc.nsequences;
    return 0;
}

int full_reader_chunk(struct full_reader *r, uint32_t table, uint64_t k, struct chunk_rows **out, struct err *e) {
    size_t i = 0;
    *out = NULL;
    while (i < r->ndone && r->done[i].table != table)
        i++;
    if (i == r->ndone || k >= r->done[i].chunks.n)
        return err_set(e, CODE_INTERNAL, "table %u has no chunk %llu", table, (unsigned long long)k);
    const struct done *d = &r->done[i];
    const struct chunk_name name = {CHUNK_ROWS, (uint8_t)d->encoding, r->o.lineage, r->o.segment, d->attempt, table};
    struct chunk_rows *cr = mem_alloc(sizeof *cr, e);
    if (cr == NULL) return -1;
    if (chunk_reader_open(r->st, &name, k, &d->chunks.v[k], &cr->r, e) < 0) {
        mem_free(cr);
        return err_wrap(e, "table '%s.%s'", r->info[i].shape->ns, r->info[i].shape->name);
    }
    *out = cr;
    return 0;
}

int chunk_rows_next(struct chunk_rows *cr, const char **p, size_t *n, uint64_t *rows, struct err *e) {
    const struct chunk_frame *f;
    *n = 0;
    *rows = 0;
    *p = "";
    if (cr->next == chunk_reader_frames(cr->r, &f)) return 0;
    *rows = f[cr->next].records;
    return chunk_reader_frame(cr->r, cr->next++, p, n, e);
}

const char *chunk_rows_path(const struct chunk_rows *cr) {
    return chunk_reader_path(cr->r);
}

void chunk_rows_close(struct chunk_rows *cr) {
    if (cr == NULL) return;
    chunk_reader_close(cr->r);
    mem_free(cr);
}
