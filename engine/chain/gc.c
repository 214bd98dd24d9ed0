/* DESIGN: what nobody refers to.
 *   1. All references are read before anything is removed; one that cannot be read ends the run with nothing removed.
 *   2. Kept: what the catalogue names, directly or not; everything in a segment whose full is not complete (its run may be alive);
 *      everything younger than the age; and every name that is not one of the format's.
 *   3. The catalogue is read again before the first removal. What a writer of that age has not catalogued yet can be lost to it, and it
 *      notices (chunks_there in link.c): so the age is a promise that no run takes that long. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/mem.h"
#include "engine/chain/full.h"

/* A set of texts of at most 64 characters. */
struct names {
    char (*v)[DIGEST_HEX];
    size_t n, cap;
};

static int names_add(struct names *s, const char *text, struct err *e) {
    if (s->n && strcmp(s->v[s->n - 1], text) == 0) return 0;
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        void *more = mem_resize(s->v, cap * sizeof *s->v, e);
        if (more == NULL) return -1;
        s->v = more;
        s->cap = cap;
    }
    snprintf(s->v[s->n++], DIGEST_HEX, "%s", text);
    return 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Sorted, each once: called now and then while adding, so that a long chain of the same shapes stays small. */
static void names_settle(struct names *s) {
    size_t out = 0;
    if (s->n == 0) return;
    qsort(s->v, s->n, sizeof *s->v, by_text);
    for (size_t i = 1; i < s->n; i++)
        if (strcmp(s->v[out], s->v[i]) != 0 && ++out != i) memcpy(s->v[out], s->v[i], sizeof *s->v);
    s->n = out + 1;
}

static bool names_has(const struct names *s, const char *text) {
    return s->n && bsearch(text, s->v, s->n, sizeof *s->v, by_text);
}

struct gc {
    struct chain *c;
    struct names shapes, pages, done; /* done: "segment/table-attempt" */
    char (*attempts)[CHAIN_ATTEMPT];
    uint64_t first; /* by entry */
    int64_t before_us;
    bool dry, failed;
    void (*say)(void *arg, const char *path, uint64_t size);
    void *arg;
    struct gc_report *r;
    struct err *e;
    struct {
        char (*path)[CHAIN_PATH];
        uint64_t *size;
        size_t n, cap;
    } doomed;
};

/* ---- what is referred to ---- */

static int pages_of(struct gc *g, const struct lineage_page *refs, size_t n, struct err *e) {
    for (size_t i = 0; i < n; i++) {
        struct lineage_leaf leaf;
        int rc;
        if (names_add(&g->pages, refs[i].digest, e) < 0 || lineage_leaf_load(g->c->st, &refs[i], &leaf, e) < 0) return -1;
        rc = pages_of(g, leaf.pages, leaf.npages, e);
        lineage_leaf_free(&leaf);
        if (rc < 0) return -1;
    }
    return 0;
}

static int registry_shapes(struct gc *g, const struct registry *r, struct err *e) {
    for (size_t i = 0; i < r->n; i++)
        if (names_add(&g->shapes, r->v[i].digest, e) < 0) return -1;
    return 0;
}

static int segment_refs(struct gc *g, const struct lineage_segment *s, struct err *e) {
    struct full_doc doc;
    char digest[DIGEST_HEX], name[DIGEST_HEX];
    int rc = 0;
    if (s->state != SEGMENT_COMPLETE) return 0;
    if (full_doc_load(g->c->st, s->id, &doc, digest, e) < 0) return -1;
    if (strcmp(digest, s->full) != 0) {
        full_doc_free(&doc);
        return doc_bad(e, "full.json", "segment '%s': its digest is not the catalogue's", s->id);
    }
    for (size_t i = 0; i < doc.ntables && rc == 0; i++) {
        snprintf(name, sizeof name, "%s/%u-%s", s->id, doc.tables[i].table, doc.tables[i].attempt);
        rc = names_add(&g->done, name, e);
    }
    full_doc_free(&doc);
    return rc;
}

static int entry_refs(struct gc *g, uint64_t n, struct err *e) {
    struct lineage_link x;
    struct manifest m = {0};
    struct opening o = {0};
    uint64_t start_seq;
    int rc = -1;
    if (chain_entry(g->c, n, &x, &start_seq, e) < 0) goto out;
    memcpy(g->attempts[n - g->first], x.attempt, CHAIN_ATTEMPT);
    if (x.attempt[0] == '\0') {
        rc = chain_opening(g->c, n, &o, e) < 0 ? -1 : registry_shapes(g, &o.tables, e);
        goto out;
    }
    if (chain_manifest(g->c, n, &m, e) < 0 || registry_shapes(g, &m.tables, e) < 0) goto out;
    for (size_t i = 0; i < m.nchanges; i++)
        if (m.changes[i].after[0] && names_add(&g->shapes, m.changes[i].after, e) < 0) goto out;
    if (g->shapes.n > 4096 && n % 64 == 0) names_settle(&g->shapes);
    rc = 0;
out:
    manifest_free(&m);
    opening_free(&o);
    return rc;
}

static int refs_read(struct gc *g, struct err *e) {
    const struct lineage *l = &g->c->lin;
    g->first = l->npages ? l->pages[0].first : l->nlinks ? l->links[0].n : 0;
    uint64_t count = lineage_count(l) - g->first;
    if (count >= SIZE_MAX / sizeof *g->attempts) return doc_bad(e, "lineage.json", "it counts %llu links", (unsigned long long)count);
    if ((g->attempts = mem_alloc((size_t)(count + 1) * sizeof *g->attempts, e)) == NULL || pages_of(g, l->pages, l->npages, e) < 0)
        return -1;
    for (size_t i = 0; i < l->nsegments; i++)
        if (segment_refs(g, &l->segments[i], e) < 0) return -1;
    for (uint64_t n = g->first; n < g->first + count; n++)
        if (entry_refs(g, n, e) < 0) return -1;
    names_settle(&g->shapes);
    names_settle(&g->pages);
    names_settle(&g->done);
    return 0;
}

/* ---- what is there ---- */

/* Names that the format gives out; anything else in the folder is somebody's and stays. */
static bool link_kept(const struct gc *g, const struct lineage_segment *s, uint64_t n, const char *attempt) {
    uint64_t count = lineage_count(&g->c->lin);
    const struct lineage_segment *of = chain_segment_of(g->c, n);
    if (n < g->first || n >= count) return false;
    return of == s && strcmp(g->attempts[n - g->first], attempt) == 0;
}

static bool garbage(const struct gc *g, const char *path) {
    char seg[CHAIN_SEG], attempt[CHAIN_ATTEMPT], name[DIGEST_HEX];
    const struct lineage_segment *s = NULL;
    const struct lineage *l = &g->c->lin;
    unsigned long long n, k;
    unsigned table;
    int end = 0;
#define IS(...) (end = 0, sscanf(__VA_ARGS__), end > 0 && path[end] == '\0')
    if (strncmp(path, "tmp/", 4) == 0) return strlen(path) == 4 + 16 && chain_is_hex(path + 4, 16);
    if (IS(path, "shapes/%64[0-9a-f].json%n", name, &end)) return strlen(name) == 64 && !names_has(&g->shapes, name);
    if (IS(path, "pages/%64[0-9a-f].json%n", name, &end)) return strlen(name) == 64 && !names_has(&g->pages, name);
    if (sscanf(path, "seg-%16[0-9a-f]/%n", seg, &end) != 1 || end == 0 || strlen(seg) != CHAIN_SEG - 1) return false;
    const char *rest = path + end;
    for (size_t i = 0; i < l->nsegments; i++)
        if (strcmp(l->segments[i].id, seg) == 0) s = &l->segments[i];
#undef IS
#define IS(...) (end = 0, sscanf(rest, __VA_ARGS__, &end), end > 0 && rest[end] == '\0')
    if (strcmp(rest, "full.start.json") == 0 || strcmp(rest, "full.json") == 0) return s == NULL;
    if (IS("links/%llu-%16[0-9a-f].json%n", &n, attempt)) return s == NULL || !link_kept(g, s, n, attempt);
    if (IS("log/%llu-%16[0-9a-f]/%llu.chunk%n", &n, attempt, &k)) return s == NULL || !link_kept(g, s, n, attempt);
    if (!IS("done/%u-%16[0-9a-f].json%n", &table, attempt) && !IS("rows/%u/%16[0-9a-f]-%llu.chunk%n", &table, attempt, &k)) return false;
#undef IS
    if (s == NULL) return true;
    if (s->state != SEGMENT_COMPLETE) return s != &l->segments[l->nsegments - 1]; /* given up, or it may go on */
    snprintf(name, sizeof name, "%s/%u-%s", seg, table, attempt);
    return !names_has(&g->done, name);
}

static int look(void *arg, const char *path, uint64_t size, int64_t mtime_us) {
    struct gc *g = arg;
    if (!garbage(g, path) || mtime_us > g->before_us || strlen(path) >= CHAIN_PATH) {
        g->r->kept++;
        return 0;
    }
    if (g->doomed.n == g->doomed.cap) {
        size_t cap = g->doomed.cap ? g->doomed.cap * 2 : 64;
        void *paths = mem_resize(g->doomed.path, cap * sizeof *g->doomed.path, g->e);
        if (paths) g->doomed.path = paths;
        uint64_t *sizes = paths ? mem_resize(g->doomed.size, cap * sizeof *sizes, g->e) : NULL;
        if (sizes == NULL) return g->failed = true;
        g->doomed.size = sizes;
        g->doomed.cap = cap;
    }
    snprintf(g->doomed.path[g->doomed.n], CHAIN_PATH, "%s", path);
    g->doomed.size[g->doomed.n++] = size;
    return 0;
}

static int sweep(struct gc *g, struct err *e) {
    char etag[STORE_ETAG];
    memcpy(etag, g->c->etag, STORE_ETAG);
    if (g->doomed.n && chain_refresh(g->c, NULL, e) < 0) return -1;
    if (strcmp(etag, g->c->etag) != 0) {
        err_set_class(e, ERR_RETRY, CODE_CHAIN_CONFLICT, "the chain at '%s' was extended while its objects were looked at", g->c->st->url);
        return err_hint(e, "nothing was removed; run `sluice backup gc` again");
    }
    for (size_t i = 0; i < g->doomed.n; i++) {
        if (!g->dry && (FAULT("chain.gc_remove", e) < 0 || g->c->st->ops->del(g->c->st, g->doomed.path[i], e) < 0)) return -1;
        if (g->say) g->say(g->arg, g->doomed.path[i], g->doomed.size[i]);
        g->r->objects++;
        g->r->bytes += g->doomed.size[i];
    }
    return 0;
}

int chain_gc(struct chain *c, int64_t age_us, bool dry, void (*say)(void *arg, const char *path, uint64_t size), void *arg,
             struct gc_report *r, struct err *e) {
    struct gc g = {.c = c, .before_us = chain_hooks.now_us() - age_us, .dry = dry, .say = say, .arg = arg, .r = r, .e = e};
    int rc = -1;
    memset(r, 0, sizeof *r);
    if (chain_refresh(c, NULL, e) < 0 || refs_read(&g, e) < 0) goto out;
    if (c->st->ops->list(c->st, "", look, &g, e) < 0 || g.failed) goto out;
    rc = sweep(&g, e);
out:
    mem_free(g.shapes.v);
    mem_free(g.pages.v);
    mem_free(g.done.v);
    mem_free(g.attempts);
    mem_free(g.doomed.path);
    mem_free(g.doomed.size);
    return rc;
}
