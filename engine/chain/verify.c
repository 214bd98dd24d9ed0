/* DESIGN: verify reads what a restore and a broker read, by the same functions, so that it passes exactly what they take. Shallow:
 * every document against what names it, every chunk's digest, header and index. Deep: every frame, row and record decoded, against the
 * shape in force, and counted.
 * */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/value.h"
#include "engine/chain/chunk.h"
#include "engine/chain/full.h"

struct verify {
    struct chain *c;
    struct verify_report *r;
    struct arena *a;
    struct batch b;
    bool deep;
};

static int row_bad(const char *path, const struct err *why, struct err *e) {
    if (why->code == CODE_NO_MEMORY) {
        *e = *why;
        return -1;
    }
    return chunk_bad(e, path, "holds a row that cannot be read: %.200s", why->code ? why->msg : "it has other columns than its table");
}

static int rows_parse(struct verify *v, const struct full_table_info *t, const char *p, size_t n, uint64_t rows, const char *path,
                      struct err *e) {
    struct rd r = RD(p, n);
    struct value *values;
    uint16_t cols, stored = 0;
    int rc = -1;
    for (uint16_t i = 0; i < t->shape->ncols; i++)
        stored += t->shape->cols[i].generated == NULL;
    if ((values = mem_alloc((stored + 1u) * sizeof *values, e)) == NULL) return -1;
    for (uint64_t i = 0; i < rows; i++) {
        struct err why = {0};
        arena_reset(v->a);
        if (t->encoding == ROWS_VALUES) {
            struct value *got;
            if (row_decode(&r, v->a, &got, &cols, &why) < 0 || cols != t->shape->ncols) {
                row_bad(path, &why, e);
                goto out;
            }
            continue;
        }
        const char *line = (const char *)r.p, *end = memchr(line, '\n', RD_LEFT(&r));
        if (end == NULL) {
            chunk_bad(e, path, "holds fewer rows than recorded");
            goto out;
        }
        if (copytext_decode(line, (size_t)(end - line), v->a, values, stored, &why) < 0) {
            row_bad(path, &why, e);
            goto out;
        }
        r.p = (const uint8_t *)end + 1;
    }
    if (RD_LEFT(&r) != 0) {
        chunk_bad(e, path, "holds more rows than recorded");
        goto out;
    }
    rc = 0;
out:
    mem_free(values);
    return rc;
}

static int verify_table(struct verify *v, struct full_reader *fr, const struct full_table_info *t, struct err *e) {
    uint64_t seen = 0;
    for (uint64_t k = 0; k < t->chunks; k++) {
        struct chunk_rows *cr;
        const char *p;
        size_t n;
        uint64_t rows;
        int rc = 0;
        if (full_reader_chunk(fr, t->table, k, &cr, e) < 0) return -1;
        while (v->deep && (rc = chunk_rows_next(cr, &p, &n, &rows, e)) == 0 && rows > 0) {
            if ((rc = rows_parse(v, t, p, n, rows, chunk_rows_path(cr), e)) < 0) break;
            seen += rows;
        }
        chunk_rows_close(cr);
        if (rc < 0) return err_wrap(e, "table '%s.%s'", t->shape->ns, t->shape->name);
        v->r->chunks++;
    }
    if (v->deep && seen != t->rows)
        return err_set(e, CODE_CHUNK_CORRUPT, "table '%s.%s' has %llu rows, %llu are recorded", t->shape->ns, t->shape->name,
                       (unsigned long long)seen, (unsigned long long)t->rows);
    v->r->rows += t->rows;
    v->r->bytes += t->stored_bytes;
    return 0;
}

static int verify_full(struct verify *v, const struct lineage_segment *s, struct err *e) {
    struct full_reader *fr;
    const struct full_table_info *t;
    int rc = 0;
    if (full_reader_open(v->c, s->id, &fr, e) < 0) return -1;
    size_t n = full_reader_tables(fr, &t);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = verify_table(v, fr, &t[i], e);
    full_reader_close(fr);
    return rc;
}

static int verify_link(struct verify *v, uint64_t n, struct err *e) {
    struct link_reader *lr = NULL;
    struct manifest m = {0};
    struct link_info li;
    int rc = -1;
    if (chain_link(v->c, n, &li, e) < 0) goto out;
    v->r->links++;
    v->r->bytes += li.bytes;
    if (li.opening) {
        struct opening o;
        if (chain_opening(v->c, n, &o, e) < 0) goto out;
        opening_free(&o);
        rc = 0;
        goto out;
    }
    if (chain_manifest(v->c, n, &m, e) < 0) goto out;
    for (size_t i = 0; i < m.tables.n; i++) {
        const struct shape *s;
        if (chain_shape(v->c, m.tables.v[i].digest, m.tables.v[i].table, m.tables.v[i].oid, &s, e) < 0) goto out;
    }
    v->r->chunks += m.chunks.n;
    v->r->records += m.records;
    if (!v->deep) {
        const struct chunk_name name = {CHUNK_CHANGES, 0, m.lineage, m.segment, m.attempt, n};
        for (size_t k = 0; k < m.chunks.n; k++) {
            struct chunk_reader *cr;
            if (chunk_reader_open(v->c->st, &name, k, &m.chunks.v[k], &cr, e) < 0) goto out;
            chunk_reader_close(cr);
        }
        rc = 0;
        goto out;
    }
    if (link_reader_open(v->c, n, 0, &lr, e) < 0) goto out;
    uint64_t rows = 0;
    do {
        batch_reset(&v->b);
        if (link_reader_next(lr, &v->b, MiB(4), e) < 0) goto out;
        rows += batch_rows(&v->b);
    } while (v->b.n > 0);
    if (rows != m.row_changes) {
        err_set(e, CODE_CHUNK_CORRUPT, "it holds %llu row changes, %llu are recorded", (unsigned long long)rows,
                (unsigned long long)m.row_changes);
        goto out;
    }
    rc = 0;
out:
    link_reader_close(lr);
    manifest_free(&m);
    return rc < 0 ? err_wrap(e, "link %llu", (unsigned long long)n) : 0;
}

int chain_verify(struct chain *c, bool deep, struct verify_report *r, struct err *e) {
    struct verify v = {.c = c, .r = r, .deep = deep};
    int rc = -1;
    memset(r, 0, sizeof *r);
    if ((v.a = arena_new(KiB(64), e)) == NULL || batch_init(&v.b, KiB(256), e) < 0) goto out;
    if (c->info.nlinks == 0 || (c->lin.nsegments == 1 && !c->info.full_complete)) {
        err_set(e, CODE_CHAIN_INCOMPLETE, "the full of the chain at '%s' is not complete", c->st->url);
        err_hint(e, "finish it with the same `sluice backup full` command that began it");
        goto out;
    }
    for (size_t i = 0; i < c->lin.nsegments; i++)
        if (c->lin.segments[i].state == SEGMENT_COMPLETE && verify_full(&v, &c->lin.segments[i], e) < 0) goto out;
    for (uint64_t n = c->lin.npages ? c->lin.pages[0].first : c->lin.links[0].n; n < c->info.nlinks; n++)
        if (verify_link(&v, n, e) < 0) goto out;
    rc = 0;
out:
    batch_free(&v.b);
    arena_free(v.a);
    return rc;
}
