/* DESIGN: how a chain rotates.
 *   1. The opening is durable before the catalogue names it, and what it says is what the chain says at its tip: position, tables, shapes.
 *      So a reader that walks over it notices nothing, and a run that dies in between leaves a folder that nothing names.
 *   2. It is catalogued like a link: only if its parent is still the tip; a put whose answer was lost is recognised by the id.
 *   3. Its full is never in the way of links: it changes the segment's state alone, from filling to complete, and only while no other
 *      segment stands behind it. Whoever loses the race for the catalogue looks again.
 *   4. The rows of a table carry the shape that the opening gives it, whatever happened until their snapshot: a table in another shape
 *      there is not taken. */
#include <stdio.h>
#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/mem.h"
#include "engine/chain/full.h"

static int may_rotate(const struct chain *c, struct err *e) {
    const struct chain_info *i = &c->info;
    if (!i->restorable || !i->extendable) {
        err_set(e, i->extendable ? CODE_CHAIN_INCOMPLETE : CODE_CHAIN_UNEXTENDABLE, "the chain at '%s' has no full that links could follow",
                c->st->url);
        return err_hint(e, "take one with `sluice backup full --chain-slot`");
    }
    if (i->nsegments < CHAIN_SEGMENTS_MAX) return 0;
    err_set(e, CODE_LIMIT, "the chain at '%s' has %u segments, which is as many as its catalogue holds", c->st->url, CHAIN_SEGMENTS_MAX);
    return err_hint(e, "links go on in the last one; begin a new chain in another place with `sluice backup full --chain-slot`");
}

/* Invariant 4, looked at early: a segment that could not be filled is not opened. */
static int same_shapes(const struct registry *r, const struct catalog *c, struct err *e) {
    for (size_t i = 0; i < r->n; i++) {
        const struct registry_table *t = &r->v[i];
        const struct shape *s = NULL;
        for (size_t k = 0; k < c->ntables && s == NULL; k++)
            if (t->oid && c->tables[k]->oid ? t->oid == c->tables[k]->oid
                                            : strcmp(t->ns, c->tables[k]->ns) == 0 && strcmp(t->name, c->tables[k]->name) == 0)
                s = c->tables[k];
        if (s && strcmp(s->digest, t->digest) == 0) continue;
        err_set(e, CODE_SHAPE_CHANGED, "table '%s.%s' %s, which the chain does not tell yet", t->ns, t->name,
                s ? "has another shape on the source" : "is gone from the source, or left out");
        return err_hint(e, "the chain tells it with one of its next links");
    }
    return 0;
}

static int catalogue(struct chain *c, const struct lineage_link *x, const char *parent, const char *seg, const struct pos *at,
                     struct err *e) {
    char lineage[CHAIN_LINEAGE];
    memcpy(lineage, c->lin.id, sizeof lineage);
    for (int try = 0; try < 8; try++) {
        struct lineage next;
        struct lineage_link there;
        char etag[STORE_ETAG];
        bool won = false, ours = strcmp(c->lin.id, lineage) == 0;
        uint64_t start_seq;
        int rc;
        if (ours && x->n < c->info.nlinks && chain_entry(c, x->n, &there, &start_seq, e) < 0) return -1;
        if (ours && x->n < c->info.nlinks && strcmp(there.id, x->id) == 0) return 0;
        if (!ours || c->info.nlinks != x->n || strcmp(c->info.tip.id, parent) != 0) {
            err_set(e, CODE_CHAIN_CONFLICT, "another process extended or replaced the chain at '%s' meanwhile", c->st->url);
            return err_hint(e, "no segment was opened; see who else writes that chain");
        }
        if (lineage_copy(&c->lin, &next, e) < 0) return -1;
        rc = lineage_append(c->st, &next, x, at, e);
        if (rc == 0) rc = lineage_add_segment(&next, seg, SEGMENT_FILLING, x->n, e);
        if (rc == 0) rc = FAULT("chain.rotate_append", e);
        if (rc == 0) rc = lineage_put(c->st, &next, c->etag, &won, etag, e);
        if (rc == 0 && won) {
            chain_adopt(c, &next, etag);
            return 0;
        }
        lineage_free(&next);
        if (rc < 0 || chain_refresh(c, NULL, e) < 0) return -1;
    }
    return err_set_class(e, ERR_RETRY, CODE_CHAIN_CONFLICT, "the catalogue at '%s' changes too fast", c->st->url);
}

int chain_rotate(struct chain *c, const struct catalog *cat, struct link_info *out, struct err *e) {
    struct opening o = {0};
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    struct lineage_link x = {.n = c->info.nlinks, .end_seq = c->info.tip.end_seq};
    char path[CHAIN_PATH];
    int rc = -1;
    if (may_rotate(c, e) < 0) return -1;
    memcpy(o.lineage, c->lin.id, CHAIN_LINEAGE);
    memcpy(o.parent, c->info.tip.id, CHAIN_ID);
    memcpy(o.engine, c->lin.engine, sizeof o.engine);
    memcpy(o.identity, c->lin.identity, sizeof o.identity);
    memcpy(o.slot, c->lin.slot, sizeof o.slot);
    o.extendable = c->lin.extendable;
    o.time_us = chain_hooks.now_us();
    o.anchor = c->lin.tip;
    o.objects = cat->objects;
    o.nobjects = cat->nobjects;
    o.warnings = cat->warnings;
    o.nwarnings = cat->nwarnings;
    if (chain_registry_at(c, c->info.nlinks, &o.tables, e) < 0 || same_shapes(&o.tables, cat, e) < 0) goto out;
    if (chain_random_hex(o.segment, 8, e) < 0 || opening_format(&o, &b, e) < 0 || link_id(o.parent, b.p, b.n, x.id, e) < 0) goto out;
    path_full_start(path, o.segment);
    if (doc_put_new(c->st, path, &b, e) < 0 || FAULT("chain.rotate_start_put", e) < 0) goto out;
    x.time_us = o.time_us;
    x.bytes = b.n;
    if (catalogue(c, &x, o.parent, o.segment, &o.anchor, e) < 0 || chain_link(c, x.n, out, e) < 0) goto out;
    rc = FAULT("chain.rotate_catalogued", e);
out:
    registry_free(&o.tables);
    buf_free(&b);
    return rc;
}

int full_refill(struct store *st, const struct full_opts *o, const char *segment, struct full **out, struct err *e) {
    struct full *f = full_new(st, o, e);
    struct chain *c = NULL;
    bool found;
    *out = NULL;
    if (f == NULL) return -1;
    if (chain_open(st, &c, &found, e) < 0) goto fail;
    const struct lineage_segment *s = found ? &c->lin.segments[c->lin.nsegments - 1] : NULL;
    if (s == NULL || strcmp(s->id, segment) != 0 || s->state != SEGMENT_FILLING || c->lin.nsegments == 1) {
        err_set(e, CODE_CHAIN_CONFLICT, "segment '%.40s' of the chain at '%s' is not the one to be filled", segment, st->url);
        err_hint(e, "see who else writes that chain");
        goto fail;
    }
    struct lineage_link x;
    uint64_t start_seq;
    if (chain_entry(c, s->first, &x, &start_seq, e) < 0 || chain_opening(c, s->first, &f->o, e) < 0 || lineage_copy(&c->lin, &f->lin, e) < 0)
        goto fail;
    memcpy(f->seg, s->id, CHAIN_SEG);
    memcpy(f->id, x.id, CHAIN_ID);
    memcpy(f->etag, c->etag, STORE_ETAG);
    if (full_look(f, e) < 0) goto fail;
    chain_close(c);
    *out = f;
    return 0;
fail:
    chain_close(c);
    full_close(f);
    return -1;
}
