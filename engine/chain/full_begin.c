/* How a full begins: what a run finds, what it may go on with, and the order in which intent and anchor become durable (DESIGN in
 * full.c, 1 and 2). */
#include <stdio.h>
#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/chain/full.h"

static const char *text(const char *s) {
    return s ? s : "";
}

static int exists(struct store *st, const struct lineage *l, struct err *e) {
    err_set(e, CODE_CHAIN_EXISTS, "there is a chain with a complete full at '%s': lineage %.12s, %llu links", st->url, l->id,
            (unsigned long long)lineage_count(l));
    return err_hint(e, "extend it with `sluice backup incremental`, or replace it with --force-overwrite");
}

/* Would this run go on with what that run began? */
static int same_job(struct store *st, const struct lineage *l, const struct full_opts *o, struct err *e) {
    if (strcmp(l->engine, text(o->source_engine)) != 0 || strcmp(l->identity, text(o->source_identity)) != 0) {
        err_set(e, CODE_SOURCE_CHANGED, "the unfinished full at '%s' is of another source: '%s', not '%s'", st->url, l->identity,
                text(o->source_identity));
        return err_hint(e, "run it with its own source, choose another place, or replace it with --force-overwrite");
    }
    if (strcmp(l->slot, text(o->slot_name)) != 0 || l->extendable != o->extendable) {
        err_set(e, CODE_CHAIN_EXISTS, "the unfinished full at '%s' was begun with slot '%s', this run has '%s'", st->url,
                l->slot[0] ? l->slot : "(none)", text(o->slot_name)[0] ? o->slot_name : "(none)");
        return err_hint(e, "run it with the flags it was begun with, or replace it with --force-overwrite");
    }
    return 0;
}

struct find_done {
    struct full *f;
    struct err *e;
    bool failed;
};

static int find_done(void *arg, const char *path, uint64_t size, int64_t mtime_us) {
    struct find_done *x = arg;
    const char *name = strrchr(path, '/') + 1;
    char attempt[CHAIN_ATTEMPT], want[CHAIN_PATH], digest[DIGEST_HEX];
    unsigned table;
    struct done d;
    (void)size, (void)mtime_us;
    if (sscanf(name, "%u-%16[0-9a-f]", &table, attempt) != 2) return 0;
    path_done(want, x->f->seg, table, attempt);
    if (strcmp(want, path) != 0) return 0;
    x->failed =
        done_load(x->f->st, &x->f->o, table, attempt, &d, digest, x->e) < 0 || full_add_done(x->f, table, attempt, digest, x->e) < 0;
    done_free(&d);
    return x->failed;
}

int full_look(struct full *f, struct err *e) {
    struct find_done found = {f, e, false};
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    char path[CHAIN_PATH], etag[STORE_ETAG];
    bool there, same;
    int rc = -1;
    if (opening_catalog(f->st, &f->o, &f->cat, e) < 0) goto out;
    snprintf(path, sizeof path, "seg-%s/done/", f->seg);
    if (f->st->ops->list(f->st, path, find_done, &found, e) < 0 || found.failed) goto out;
    path_full(path, f->seg);
    if (f->st->ops->get(f->st, path, FORMAT_DOC_MAX, NULL, &b, etag, &there, &same, e) < 0) goto out;
    f->full_seen = there;
    rc = 0;
out:
    buf_free(&b);
    return rc;
}

static int resume(struct full *f, struct err *e) {
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    char path[CHAIN_PATH], id[CHAIN_ID];
    int rc = -1;
    memcpy(f->seg, f->lin.segments[0].id, CHAIN_SEG);
    path_full_start(path, f->seg);
    if (doc_load(f->st, path, &b, e) < 0 || link_id(f->lin.id, b.p, b.n, id, e) < 0) goto out;
    if (f->lin.nlinks == 0 || strcmp(id, f->lin.links[0].id) != 0) {
        doc_bad(e, path, "its id is not the one in the catalogue");
        goto out;
    }
    memcpy(f->id, id, CHAIN_ID);
    if (opening_parse(b.p, b.n, path, &f->o, e) < 0) goto out;
    rc = full_look(f, e);
out:
    buf_free(&b);
    return rc;
}

/* full_start will put a starting segment of its own in the place of the one that is there. */
static void begin_again(struct full *f, const struct full_opts *o) {
    f->others_intent = true;
    memcpy(f->seg, f->lin.segments[0].id, CHAIN_SEG);
    snprintf(f->lin.engine, sizeof f->lin.engine, "%s", text(o->source_engine));
    snprintf(f->lin.identity, sizeof f->lin.identity, "%s", text(o->source_identity));
    snprintf(f->lin.slot, sizeof f->lin.slot, "%s", text(o->slot_name));
    f->lin.extendable = o->extendable;
}

static bool all_done(const struct full *f) {
    for (size_t i = 0; i < f->cat->ntables; i++)
        if (!full_table_done(f, f->cat->tables[i]->table)) return false;
    return true;
}

int full_probe(struct store *st, const struct full_opts *o, enum full_found *found, struct full **out, struct err *e) {
    struct full *f;
    bool there, same;
    *out = NULL;
    *found = FULL_FRESH;
    if ((f = full_new(st, o, e)) == NULL) return -1;
    if (lineage_get(st, NULL, &f->lin, f->etag, &there, &same, e) < 0) {
        if (!o->force_overwrite || (e->code != CODE_MANIFEST_INVALID && e->code != CODE_FORMAT_UNSUPPORTED)) goto fail;
        err_clear(e); /* whatever it is, it is going to be replaced */
        *found = FULL_COMPLETE;
        full_close(f);
        return 0;
    }
    if (!there) {
        full_close(f);
        return 0;
    }
    const struct lineage_segment *first = &f->lin.segments[0];
    if (f->lin.nsegments == 1 && first->state == SEGMENT_STARTING) {
        *found = FULL_INTENT;
        if (!o->force_overwrite && same_job(st, &f->lin, o, e) < 0) goto fail;
        begin_again(f, o);
        *out = f;
        return 0;
    }
    if (o->force_overwrite) {
        *found = FULL_COMPLETE;
        full_close(f);
        return 0;
    }
    if (f->lin.nsegments > 1 || first->state == SEGMENT_COMPLETE) {
        *found = FULL_COMPLETE;
        exists(st, &f->lin, e);
        goto fail;
    }
    *found = FULL_RESUME;
    if (same_job(st, &f->lin, o, e) < 0 || resume(f, e) < 0) goto fail;
    if (!f->lin.extendable && !all_done(f)) { /* no link will ever reach to where the rest of its tables would be read */
        log_info("a full that no link can follow has to be of one moment: it begins anew", KV_STR("lineage", f->lin.id));
        full_close(f);
        if ((f = full_new(st, o, e)) == NULL) return -1;
        if (lineage_get(st, NULL, &f->lin, f->etag, &there, &same, e) < 0) goto fail;
        if (!there || f->lin.nsegments != 1 || f->lin.segments[0].state == SEGMENT_COMPLETE) {
            full_lost(f, e);
            goto fail;
        }
        *found = FULL_INTENT;
        begin_again(f, o);
    }
    *out = f;
    return 0;
fail:
    full_close(f);
    return -1;
}

/* A new lineage with one starting segment in place of what etag names (NULL: nothing). */
static int intend(struct full *f, const struct lineage *who, const char *etag, struct err *e) {
    struct lineage next = {0};
    char seg[CHAIN_SEG];
    bool won;
    int rc = -1;
    memcpy(next.engine, who->engine, sizeof next.engine);
    memcpy(next.identity, who->identity, sizeof next.identity);
    memcpy(next.slot, who->slot, sizeof next.slot);
    next.extendable = who->extendable;
    memcpy(next.replaced, who->replaced, sizeof next.replaced);
    next.nreplaced = who->nreplaced;
    memcpy(next.id, who->id, sizeof next.id);
    if ((!next.id[0] && chain_random_hex(next.id, 16, e) < 0) || chain_random_hex(seg, 8, e) < 0 ||
        lineage_add_segment(&next, seg, SEGMENT_STARTING, 0, e) < 0)
        goto out;
    if (lineage_put(f->st, &next, etag, &won, f->etag, e) < 0) goto out;
    if (!won) {
        full_lost(f, e);
        goto out;
    }
    lineage_free(&f->lin);
    f->lin = next;
    memset(&next, 0, sizeof next);
    memcpy(f->seg, seg, CHAIN_SEG);
    rc = FAULT("chain.full_intent", e);
out:
    lineage_free(&next);
    return rc;
}

/* Consumers of what was here before are told that it was begun anew, rather than that the store is a stranger's. */
static void replaces(struct lineage *who, const char *p, size_t n) {
    struct lineage old;
    struct err ignore = {0};
    if (lineage_parse(p, n, &old, &ignore) < 0) return;  /* unreadable: nothing can be said of it */
    if (strcmp(old.id, who->id) == 0) who->id[0] = '\0'; /* a new chain is never mistaken for the old one */
    memcpy(who->replaced[0], old.id, CHAIN_LINEAGE);
    who->nreplaced = 1;
    for (size_t i = 0; i < old.nreplaced && who->nreplaced < LINEAGE_REPLACED; i++)
        memcpy(who->replaced[who->nreplaced++], old.replaced[i], CHAIN_LINEAGE);
    lineage_free(&old);
}

int full_intend(struct store *st, const struct full_opts *o, struct full **out, struct err *e) {
    struct full *f = full_new(st, o, e);
    struct lineage who = {0}, there = {0};
    char path[CHAIN_PATH], etag[STORE_ETAG] = "";
    struct buf b = BUF_INIT(MiB(64));
    bool found, same;
    *out = NULL;
    if (f == NULL) return -1;
    if (strlen(text(o->source_engine)) >= sizeof who.engine || strlen(text(o->source_identity)) >= sizeof who.identity ||
        strlen(text(o->slot_name)) >= sizeof who.slot) {
        err_set(e, CODE_INTERNAL, "the source's name, identity or slot is too long");
        goto fail;
    }
    snprintf(who.engine, sizeof who.engine, "%s", text(o->source_engine));
    snprintf(who.identity, sizeof who.identity, "%s", text(o->source_identity));
    snprintf(who.slot, sizeof who.slot, "%s", text(o->slot_name));
    who.extendable = o->extendable;
    if (o->lineage && !chain_is_hex(o->lineage, CHAIN_LINEAGE - 1)) {
        err_set(e, CODE_CONFIG, "the lineage id '%s' is not 32 hex digits", o->lineage);
        goto fail;
    }
    snprintf(who.id, sizeof who.id, "%s", text(o->lineage));
    path_lineage(path);
    if (st->ops->get(st, path, MiB(64), NULL, &b, etag, &found, &same, e) < 0) goto fail;
    if (found && !o->force_overwrite) {
        if (lineage_parse(b.p ? b.p : "", b.n, &there, e) < 0) goto fail;
        bool intent = there.nsegments == 1 && there.segments[0].state == SEGMENT_STARTING,
             complete = there.segments[0].state == SEGMENT_COMPLETE;
        if (complete) exists(st, &there, e);
        else if (!intent) full_lost(f, e);
        lineage_free(&there);
        if (!intent) goto fail;
    }
    if (found && o->force_overwrite) replaces(&who, b.p ? b.p : "", b.n);
    if (intend(f, &who, found ? etag : NULL, e) < 0) goto fail;
    buf_free(&b);
    *out = f;
    return 0;
fail:
    buf_free(&b);
    full_close(f);
    return -1;
}

static int start_fits(const struct full *f, const struct lineage *l, const void *arg) {
    const struct lineage_link *x = arg;
    const struct lineage_segment *s = full_in(f, l);
    if (s == NULL) return -1;
    if (s->state == SEGMENT_STARTING) return 0;
    return l->nlinks && strcmp(l->links[0].id, x->id) == 0 ? 1 : -1;
}

static int start_make(struct full *f, struct lineage *next, const void *arg, struct err *e) {
    full_in(f, next)->state = SEGMENT_FILLING;
    return lineage_append(f->st, next, arg, &f->o.anchor, e);
}

static int number_tables(struct full *f, const struct catalog *c, struct registry *r, struct err *e) {
    char label[160];
    if (registry_init(r, e) < 0) return -1;
    for (size_t i = 0; i < c->ntables; i++) {
        struct shape *s = c->tables[i];
        if (registry_find(r, s->oid, s->ns, s->name))
            return err_set(e, CODE_INTERNAL, "table '%s' is in the catalogue twice", shape_label(s, label));
        if (doc_put_shape(f->st, s, e) < 0 || registry_set(r, (uint32_t)i + 1, s->oid, s->ns, s->name, s->digest, e) < 0) return -1;
    }
    for (size_t i = 0; i < c->ntables; i++)
        c->tables[i]->table = (uint32_t)i + 1;
    return 0;
}

int full_start(struct full *f, const struct pos *anchor, const struct catalog *c, struct err *e) {
    struct opening o = {0};
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    struct lineage_link x = {0};
    char path[CHAIN_PATH];
    int rc = -1;
    if (f->cat) return err_set(e, CODE_INTERNAL, "this full has started already");
    if (!pos_is_set(anchor) || strcmp(anchor->engine, f->lin.engine) != 0)
        return err_set(e, CODE_INTERNAL, "the anchor '%s' is not of '%s'", anchor->token, f->lin.engine);
    if (f->others_intent) {
        struct lineage who;
        if (lineage_copy(&f->lin, &who, e) < 0) goto out;
        rc = intend(f, &who, f->etag, e);
        lineage_free(&who);
        if (rc < 0) goto out;
        rc = -1;
        f->others_intent = false;
    }
    memcpy(o.lineage, f->lin.id, CHAIN_LINEAGE);
    memcpy(o.segment, f->seg, CHAIN_SEG);
    snprintf(o.parent, sizeof o.parent, "%s", f->lin.id);
    memcpy(o.engine, f->lin.engine, sizeof o.engine);
    memcpy(o.identity, f->lin.identity, sizeof o.identity);
    memcpy(o.slot, f->lin.slot, sizeof o.slot);
    o.extendable = f->lin.extendable;
    o.time_us = chain_hooks.now_us();
    o.anchor = *anchor;
    o.objects = c->objects;
    o.nobjects = c->nobjects;
    o.warnings = c->warnings;
    o.nwarnings = c->nwarnings;
    if (number_tables(f, c, &o.tables, e) < 0 || opening_format(&o, &b, e) < 0 || link_id(o.parent, b.p, b.n, x.id, e) < 0) goto out;
    path_full_start(path, f->seg);
    if (opening_parse(b.p, b.n, path, &f->o, e) < 0) goto out; /* what is kept is what a reader will see */
    if (doc_put_new(f->st, path, &b, e) < 0 || FAULT("chain.full_start_put", e) < 0) goto out;
    x.time_us = o.time_us;
    x.bytes = b.n;
    if (full_step(f, start_fits, start_make, &x, e) < 0 || FAULT("chain.full_started", e) < 0) goto out;
    memcpy(f->id, x.id, CHAIN_ID);
    rc = opening_catalog(f->st, &f->o, &f->cat, e);
out:
    registry_free(&o.tables);
    buf_free(&b);
    return rc;
}
