/* DESIGN: the chain handle: the catalogue as it was last seen, and references followed from it.
 *   1. The handle changes only by chain_refresh, chain_cover and a link_end or full_end of ours; whoever holds chain_info re-reads it
 *      after those.
 *   2. No document is used before its bytes were checked against what names it: an id over the parent's id, a digest, and the fields
 *      that say where it belongs.
 *   3. A link starts where the link before it ends, in seq and in position; a hole is found where it is read, not where it hurts. */
#include <stdio.h>
#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/chain/handle.h"

/* ---- catalogue ---- */

static void link_info_of(const struct chain *c, const struct lineage_link *x, uint64_t start_seq, struct link_info *out) {
    const struct lineage_segment *s = chain_segment_of(c, x->n);
    memset(out, 0, sizeof *out);
    out->n = x->n;
    memcpy(out->id, x->id, CHAIN_ID);
    memcpy(out->attempt, x->attempt, CHAIN_ATTEMPT);
    if (s) memcpy(out->segment, s->id, CHAIN_SEG);
    out->full_complete = s && s->state == SEGMENT_COMPLETE;
    out->start_seq = start_seq;
    out->end_seq = x->end_seq;
    out->time_us = x->time_us;
    out->bytes = x->bytes;
    out->opening = x->attempt[0] == '\0';
}

static void info_fill(struct chain *c) {
    struct chain_info *i = &c->info;
    const struct lineage *l = &c->lin;
    const struct lineage_segment *s = &l->segments[l->nsegments - 1];
    memset(i, 0, sizeof *i);
    memcpy(i->lineage, l->id, CHAIN_LINEAGE);
    memcpy(i->source_engine, l->engine, sizeof i->source_engine);
    memcpy(i->source_identity, l->identity, sizeof i->source_identity);
    memcpy(i->slot_name, l->slot, sizeof i->slot_name);
    i->extendable = l->extendable;
    memcpy(i->segment, s->id, CHAIN_SEG);
    i->full_complete = s->state == SEGMENT_COMPLETE;
    for (size_t k = 0; k < l->nsegments; k++)
        i->restorable = i->restorable || l->segments[k].state == SEGMENT_COMPLETE;
    i->segment_first = s->first;
    i->nsegments = l->nsegments;
    i->nlinks = lineage_count(l);
    i->tip_pos = l->tip;
    i->covered = l->covered;
    if (l->nlinks) link_info_of(c, lineage_tip(l), l->nlinks > 1 ? l->links[l->nlinks - 2].end_seq : lineage_inline_start(l), &i->tip);
}

void chain_adopt(struct chain *c, struct lineage *next, const char etag[STORE_ETAG]) {
    lineage_free(&c->lin);
    c->lin = *next;
    memset(next, 0, sizeof *next);
    memcpy(c->etag, etag, STORE_ETAG);
    lineage_leaf_free(&c->leaf);
    c->span.set = false;
    info_fill(c);
}

int chain_open(struct store *st, struct chain **out, bool *found, struct err *e) {
    struct chain *c = mem_alloc(sizeof *c, e);
    struct lineage l;
    char etag[STORE_ETAG];
    bool same;
    *out = NULL;
    if (c == NULL) return -1;
    c->st = st;
    *found = false;
    if (lineage_get(st, NULL, &l, etag, found, &same, e) < 0) {
        mem_free(c);
        return -1;
    }
    if (!*found) {
        mem_free(c);
        return 0;
    }
    chain_adopt(c, &l, etag);
    *out = c;
    return 0;
}

void chain_close(struct chain *c) {
    if (c == NULL) return;
    lineage_free(&c->lin);
    lineage_leaf_free(&c->leaf);
    for (size_t i = 0; i < c->cap_shapes; i++)
        shape_free(c->shapes[i].shape);
    for (size_t i = 0; i < c->nlists; i++)
        mem_free(c->lists[i]);
    mem_free(c->shapes);
    mem_free(c->lists);
    mem_free(c);
}

int chain_refresh(struct chain *c, bool *changed, struct err *e) {
    struct lineage l;
    char etag[STORE_ETAG];
    bool found, same;
    if (changed) *changed = false;
    if (lineage_get(c->st, c->etag, &l, etag, &found, &same, e) < 0) return -1;
    if (!found) {
        err_set(e, CODE_CHAIN_MISSING, "the chain at '%s' is gone: its catalogue was removed", c->st->url);
        return err_hint(e, "restore 'lineage.json' from another copy of the store, or take a new full with `sluice backup full`");
    }
    if (same) return 0;
    chain_adopt(c, &l, etag);
    if (changed) *changed = true;
    return 0;
}

const struct chain_info *chain_info(const struct chain *c) {
    return &c->info;
}

const struct lineage_segment *chain_segment_of(const struct chain *c, uint64_t n) {
    const struct lineage_segment *s = NULL;
    for (size_t i = 0; i < c->lin.nsegments; i++)
        if (c->lin.segments[i].state != SEGMENT_STARTING && c->lin.segments[i].first <= n) s = &c->lin.segments[i];
    return s;
}

static int leaf_of(struct chain *c, uint64_t n, struct err *e) {
    if (c->leaf.nlinks && n >= c->leaf.first && n < c->leaf.first + c->leaf.nlinks) return 0;
    struct lineage_page *refs = c->lin.pages;
    size_t nrefs = c->lin.npages;
    struct lineage_leaf leaf = {0}, below;
    for (;;) {
        size_t i = 0;
        while (i < nrefs && n >= refs[i].first + refs[i].count)
            i++;
        if (i == nrefs || n < refs[i].first) {
            lineage_leaf_free(&leaf);
            return err_set(e, CODE_INTERNAL, "link %llu is not in the catalogue", (unsigned long long)n);
        }
        int rc = lineage_leaf_load(c->st, &refs[i], &below, e);
        lineage_leaf_free(&leaf);
        if (rc < 0) return -1;
        leaf = below;
        if (leaf.nlinks) break;
        refs = leaf.pages;
        nrefs = leaf.npages;
    }
    lineage_leaf_free(&c->leaf);
    c->leaf = leaf;
    return 0;
}

int chain_entry(struct chain *c, uint64_t n, struct lineage_link *x, uint64_t *start_seq, struct err *e) {
    const struct lineage *l = &c->lin;
    if (n >= c->info.nlinks) return err_set(e, CODE_INTERNAL, "link %llu is not in the catalogue", (unsigned long long)n);
    if (l->nlinks && n >= l->links[0].n) {
        size_t i = (size_t)(n - l->links[0].n);
        *x = l->links[i];
        *start_seq = i ? l->links[i - 1].end_seq : lineage_inline_start(l);
        return 0;
    }
    if (leaf_of(c, n, e) < 0) return -1;
    size_t i = (size_t)(n - c->leaf.first);
    *x = c->leaf.links[i];
    *start_seq = i ? c->leaf.links[i - 1].end_seq : c->leaf.start_seq;
    return 0;
}

int chain_link(struct chain *c, uint64_t n, struct link_info *out, struct err *e) {
    struct lineage_link x;
    uint64_t start_seq;
    if (c->info.nlinks == 0) {
        err_set(e, CODE_CHAIN_INCOMPLETE, "the chain at '%s' has no full yet", c->st->url);
        return err_hint(e, "finish it: run the same `sluice backup full` command again");
    }
    if (n >= c->info.nlinks) {
        err_set(e, CODE_ID_UNKNOWN, "the chain has no link %llu, its last is %llu", (unsigned long long)n,
                (unsigned long long)c->info.tip.n);
        return err_hint(e, "see `sluice backup list`");
    }
    if (chain_entry(c, n, &x, &start_seq, e) < 0) return -1;
    link_info_of(c, &x, start_seq, out);
    return 0;
}

int chain_find(struct chain *c, const char *prefix, struct link_info *out, struct err *e) {
    size_t len = strlen(prefix);
    uint64_t found = 0;
    struct lineage_link x;
    uint64_t start_seq;
    char low[CHAIN_ID];
    bool any = false;
    for (size_t i = 0; i < sizeof low - 1; i++)
        low[i] = i >= len ? '\0' : (char)(prefix[i] >= 'A' && prefix[i] <= 'F' ? prefix[i] + 32 : prefix[i]);
    low[sizeof low - 1] = '\0';
    if (len < 4 || len >= sizeof low || !chain_is_hex(low, len)) {
        err_set(e, CODE_ID_UNKNOWN, "'%.60s' is no link id: it has to be 4 to 40 hex digits", prefix);
        return err_hint(e, "see `sluice backup list`");
    }
    for (uint64_t n = c->info.nlinks; n-- > 0;) { /* newest first: most are asked for near the end */
        if (c->lin.nlinks == 0 || (c->lin.npages == 0 && n < c->lin.links[0].n)) break;
        if (chain_entry(c, n, &x, &start_seq, e) < 0) return -1;
        if (strncmp(x.id, low, len) != 0) continue;
        if (any) {
            err_set(e, CODE_ID_AMBIGUOUS, "more than one link begins with '%s': %llu and %llu", prefix, (unsigned long long)n,
                    (unsigned long long)found);
            return err_hint(e, "give more digits; see `sluice backup list`");
        }
        any = true;
        found = n;
        link_info_of(c, &x, start_seq, out);
        if (len == CHAIN_ID - 1) break;
    }
    if (any) return 0;
    err_set(e, CODE_ID_UNKNOWN, "no link of the chain at '%s' begins with '%s'", c->st->url, prefix);
    return err_hint(e, "see `sluice backup list`; the chain goes up to %.12s", c->info.nlinks ? c->info.tip.id : "(nothing)");
}

/* ---- documents of entries ---- */

/* Bytes of entry n's document, their id checked against the catalogue. parent: 41 bytes. */
static int entry_bytes(struct chain *c, const struct lineage_link *x, char path[CHAIN_PATH], char parent[CHAIN_ID], struct buf *b,
                       struct err *e) {
    const struct lineage_segment *s = chain_segment_of(c, x->n);
    struct lineage_link before;
    uint64_t start_seq;
    char id[CHAIN_ID];
    if (s == NULL) return doc_bad(e, "lineage.json", "link %llu is in no segment", (unsigned long long)x->n);
    if ((x->attempt[0] == '\0') != (s->first == x->n))
        return doc_bad(e, "lineage.json", "link %llu is no opening but begins a segment, or the reverse", (unsigned long long)x->n);
    if (x->n == 0) snprintf(parent, CHAIN_ID, "%s", c->lin.id);
    else if (chain_entry(c, x->n - 1, &before, &start_seq, e) < 0) return -1;
    else memcpy(parent, before.id, CHAIN_ID);
    if (x->attempt[0]) path_link(path, s->id, x->n, x->attempt);
    else path_full_start(path, s->id);
    if (doc_load(c->st, path, b, e) < 0 || link_id(parent, b->p, b->n, id, e) < 0) return -1;
    if (strcmp(id, x->id) != 0) { /* say what can be said: a cut document, a foreign one, or altered bytes */
        json_t *o;
        if (doc_parse(b->p, b->n, path, &o, e) < 0) return -1;
        json_decref(o);
        return doc_bad(e, path, "its id is %.12s…, the catalogue says %.12s…: it was altered or belongs elsewhere", id, x->id);
    }
    return 0;
}

int chain_opening(struct chain *c, uint64_t n, struct opening *o, struct err *e) {
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    struct lineage_link x;
    uint64_t start_seq;
    char path[CHAIN_PATH], parent[CHAIN_ID];
    int rc = -1;
    memset(o, 0, sizeof *o);
    if (chain_entry(c, n, &x, &start_seq, e) < 0 || entry_bytes(c, &x, path, parent, &b, e) < 0 || opening_parse(b.p, b.n, path, o, e) < 0)
        goto out;
    if (strcmp(o->lineage, c->lin.id) != 0 || strcmp(o->segment, chain_segment_of(c, n)->id) != 0 || strcmp(o->parent, parent) != 0 ||
        strcmp(o->engine, c->lin.engine) != 0) {
        doc_bad(e, path, "it belongs to another chain or segment");
        goto out;
    }
    rc = 0;
out:
    if (rc < 0) opening_free(o);
    buf_free(&b);
    return rc;
}

static int span_of(struct chain *c, uint64_t n, struct pos *start, struct pos *end, struct err *e);

int chain_manifest(struct chain *c, uint64_t n, struct manifest *m, struct err *e) {
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    struct lineage_link x;
    uint64_t start_seq;
    char path[CHAIN_PATH], parent[CHAIN_ID];
    struct pos ignored, before;
    int rc = -1;
    memset(m, 0, sizeof *m);
    if (chain_entry(c, n, &x, &start_seq, e) < 0 || entry_bytes(c, &x, path, parent, &b, e) < 0 || manifest_parse(b.p, b.n, path, m, e) < 0)
        goto out;
    if (strcmp(m->lineage, c->lin.id) != 0 || strcmp(m->segment, chain_segment_of(c, n)->id) != 0 || strcmp(m->parent, parent) != 0 ||
        m->n != n || strcmp(m->attempt, x.attempt) != 0) {
        doc_bad(e, path, "it belongs to another chain or place");
        goto out;
    }
    if (m->start_seq != start_seq || m->end_seq != x.end_seq) {
        doc_bad(e, path, "it holds records %llu to %llu, the catalogue says %llu to %llu", (unsigned long long)m->start_seq + 1,
                (unsigned long long)m->end_seq, (unsigned long long)start_seq + 1, (unsigned long long)x.end_seq);
        goto out;
    }
    if (strcmp(m->start.engine, c->lin.engine) != 0 || strcmp(m->end.engine, c->lin.engine) != 0) {
        doc_bad(e, path, "its positions are of another engine");
        goto out;
    }
    if (n > 0 && span_of(c, n - 1, &ignored, &before, e) < 0) goto out;
    if (n > 0 && pos_compare(&before, &m->start) != POS_EQUAL) {
        err_set(e, CODE_CHAIN_HOLE, "link %llu starts at %s, the link before it ends at %s", (unsigned long long)n, m->start.token,
                before.token);
        err_hint(e, "the chain at '%s' has a hole there; take a new full with `sluice backup full --force-overwrite`", c->st->url);
        goto out;
    }
    if (n + 1 == c->info.nlinks && pos_compare(&m->end, &c->lin.tip) != POS_EQUAL) {
        doc_bad(e, path, "it ends at %s, the catalogue says %s", m->end.token, c->lin.tip.token);
        goto out;
    }
    c->span.set = true;
    c->span.n = n;
    memcpy(c->span.id, x.id, CHAIN_ID);
    c->span.start = m->start;
    c->span.end = m->end;
    rc = 0;
out:
    if (rc < 0) manifest_free(m);
    buf_free(&b);
    return rc;
}

/* Start and end of n, from its own document alone (no look at its neighbours' positions: that would go back to the beginning). */
static int span_of(struct chain *c, uint64_t n, struct pos *start, struct pos *end, struct err *e) {
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    struct lineage_link x;
    struct manifest m = {0};
    struct opening o = {0};
    uint64_t start_seq;
    char path[CHAIN_PATH], parent[CHAIN_ID];
    int rc = -1;
    if (chain_entry(c, n, &x, &start_seq, e) < 0) goto out;
    if (c->span.set && c->span.n == n && strcmp(c->span.id, x.id) == 0) {
        *start = c->span.start;
        *end = c->span.end;
        rc = 0;
        goto out;
    }
    if (entry_bytes(c, &x, path, parent, &b, e) < 0) goto out;
    if (x.attempt[0] ? manifest_parse(b.p, b.n, path, &m, e) < 0 : opening_parse(b.p, b.n, path, &o, e) < 0) goto out;
    *start = x.attempt[0] ? m.start : o.anchor;
    *end = x.attempt[0] ? m.end : o.anchor;
    rc = 0;
out:
    manifest_free(&m);
    opening_free(&o);
    buf_free(&b);
    return rc;
}

int chain_link_span(struct chain *c, uint64_t n, struct pos *start, struct pos *end, struct err *e) {
    struct link_info li;
    if (chain_link(c, n, &li, e) < 0) return -1;
    return span_of(c, n, start, end, e);
}

/* ---- shapes ---- */

int registry_apply(struct registry *r, const struct shape_change *x, const char *what, struct err *e) {
    const struct registry_table *t = registry_get(r, x->table);
    if (strcmp(t ? t->digest : "", x->before) != 0)
        return doc_bad(e, what, "a shape change of table %u does not begin at the shape in force", x->table);
    return registry_set(r, x->table, x->oid, x->ns, x->name, x->after, e);
}

int chain_registry_at(struct chain *c, uint64_t n, struct registry *r, struct err *e) {
    struct manifest m = {0};
    struct opening o = {0};
    struct lineage_link x;
    uint64_t start_seq, at = n;
    int rc = -1;
    memset(r, 0, sizeof *r);
    if (c->info.nlinks == 0) return err_set(e, CODE_CHAIN_INCOMPLETE, "the chain at '%s' has no full yet", c->st->url);
    if (n >= c->info.nlinks) at = c->info.nlinks - 1;
    if (chain_entry(c, at, &x, &start_seq, e) < 0) goto out;
    if (x.attempt[0] == '\0') {
        if (chain_opening(c, at, &o, e) < 0) goto out;
        *r = o.tables;
        memset(&o.tables, 0, sizeof o.tables);
    } else {
        if (chain_manifest(c, at, &m, e) < 0) goto out;
        *r = m.tables;
        memset(&m.tables, 0, sizeof m.tables);
        for (size_t i = 0; at != n && i < m.nchanges; i++)
            if (registry_apply(r, &m.changes[i], "manifest of the last link", e) < 0) goto out;
    }
    rc = 0;
out:
    manifest_free(&m);
    opening_free(&o);
    if (rc < 0) registry_free(r);
    return rc;
}

int shape_load(struct store *st, const char *digest, uint32_t table, int64_t oid, struct shape **s, struct err *e) {
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    char path[CHAIN_PATH], sum[DIGEST_HEX];
    int rc = -1;
    *s = NULL;
    path_shape(path, digest);
    if (doc_load(st, path, &b, e) < 0 || sha256_hex(b.p, b.n, sum, e) < 0) goto out;
    if (strcmp(sum, digest) != 0) {
        doc_bad(e, path, "its bytes do not have the digest in its name");
        goto out;
    }
    if ((*s = shape_from_json(b.p, b.n, e)) == NULL) {
        err_wrap(e, "reading '%s'", path);
        goto out;
    }
    memcpy((*s)->digest, digest, DIGEST_HEX); /* the stored bytes are what counts, also where a newer sluice would write more */
    (*s)->table = table;
    (*s)->oid = oid;
    rc = 0;
out:
    buf_free(&b);
    return rc;
}

static size_t shape_place(const struct shape_slot *v, size_t cap, const char *digest, uint32_t table, int64_t oid) {
    size_t i = (size_t)hash64(digest, DIGEST_HEX - 1, table ^ (uint64_t)oid << 20) & (cap - 1);
    while (v[i].shape && !(v[i].table == table && v[i].oid == oid && memcmp(v[i].digest, digest, DIGEST_HEX) == 0))
        i = (i + 1) & (cap - 1);
    return i;
}

int chain_shape(struct chain *c, const char *digest, uint32_t table, int64_t oid, const struct shape **out, struct err *e) {
    if ((c->nshapes + 1) * 2 > c->cap_shapes) {
        size_t cap = c->cap_shapes ? c->cap_shapes * 2 : 64;
        struct shape_slot *v = mem_alloc(cap * sizeof *v, e);
        if (v == NULL) return -1;
        for (size_t i = 0; i < c->cap_shapes; i++)
            if (c->shapes[i].shape) v[shape_place(v, cap, c->shapes[i].digest, c->shapes[i].table, c->shapes[i].oid)] = c->shapes[i];
        mem_free(c->shapes);
        c->shapes = v;
        c->cap_shapes = cap;
    }
    struct shape_slot *s = &c->shapes[shape_place(c->shapes, c->cap_shapes, digest, table, oid)];
    if (s->shape == NULL) {
        struct shape *made;
        if (shape_load(c->st, digest, table, oid, &made, e) < 0) return -1;
        memcpy(s->digest, digest, DIGEST_HEX);
        s->table = table;
        s->oid = oid;
        s->shape = made;
        c->nshapes++;
    }
    *out = s->shape;
    return 0;
}

int chain_shapes_at(struct chain *c, uint64_t n, struct shape *const **shapes, size_t *count, struct err *e) {
    struct registry r = {0};
    struct shape **v = NULL, ***more;
    int rc = -1;
    if (chain_registry_at(c, n, &r, e) < 0) goto out;
    if ((v = mem_alloc((r.n + 1) * sizeof *v, e)) == NULL) goto out;
    size_t k = 0;
    for (uint32_t number = 1; number < r.next; number++) {
        const struct registry_table *t = registry_get(&r, number);
        const struct shape *s;
        if (t == NULL) continue;
        if (chain_shape(c, t->digest, t->table, t->oid, &s, e) < 0) goto out;
        v[k++] = (struct shape *)(uintptr_t)s; /* ours; the contract gives it out without const inside */
    }
    if ((more = mem_resize(c->lists, (c->nlists + 1) * sizeof *more, e)) == NULL) goto out;
    c->lists = more;
    c->lists[c->nlists++] = v;
    *shapes = v;
    *count = k;
    v = NULL;
    rc = 0;
out:
    mem_free(v);
    registry_free(&r);
    return rc;
}

/* ---- covered_to ---- */

int chain_cover(struct chain *c, const struct pos *p, struct err *e) {
    char tip[CHAIN_ID];
    memcpy(tip, c->info.nlinks ? c->info.tip.id : "", c->info.nlinks ? CHAIN_ID : 1);
    for (int try = 0; try < 8; try++) {
        struct lineage next;
        char etag[STORE_ETAG];
        bool won;
        if (c->info.nlinks == 0 || strcmp(tip, c->info.tip.id) != 0) {
            err_set(e, CODE_CHAIN_CONFLICT, "another process extended or replaced the chain at '%s'", c->st->url);
            return err_hint(e, "see who else writes it; nothing was acknowledged to the source");
        }
        const struct pos *have = pos_is_set(&c->lin.covered) ? &c->lin.covered : &c->lin.tip;
        enum pos_order o = pos_compare(p, have);
        if (o == POS_UNORDERED) return err_set(e, CODE_INTERNAL, "position '%s' cannot be compared with '%s'", p->token, have->token);
        if (o != POS_GREATER || pos_compare(p, &c->lin.tip) != POS_GREATER) return 0;
        if (lineage_copy(&c->lin, &next, e) < 0) return -1;
        next.covered = *p;
        next.covered_us = chain_hooks.now_us();
        if (FAULT("chain.cover", e) < 0 || lineage_put(c->st, &next, c->etag, &won, etag, e) < 0) {
            lineage_free(&next);
            return -1;
        }
        if (won) {
            chain_adopt(c, &next, etag);
            return 0;
        }
        lineage_free(&next);
        if (chain_refresh(c, NULL, e) < 0) return -1;
    }
    return err_set_class(e, ERR_RETRY, CODE_CHAIN_CONFLICT, "the catalogue at '%s' changes too fast", c->st->url);
}

int64_t chain_covered_us(const struct chain *c) {
    return c->lin.covered_us;
}

bool chain_replaced(const struct chain *c, const char *lineage) {
    for (size_t i = 0; i < c->lin.nreplaced; i++)
        if (strcmp(c->lin.replaced[i], lineage) == 0) return true;
    return false;
}
