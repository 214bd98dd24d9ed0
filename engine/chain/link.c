/* DESIGN: a link being written.
 *   1. Records go into the open frame in the order they come; each gets the next seq. The shape of a row is the one in force (compared
 *      by digest), or it is our bug.
 *   2. Order of what becomes durable: chunks and shapes, then (tip looked at) the manifest, then the catalogue by If-Match. Before the
 *      last step nobody sees anything.
 *   3. The parent is the tip the handle had at link_begin. When it is no longer the tip, nothing of ours is catalogued; a put whose
 *      answer was lost is recognised by its id. */
#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/chain/chunk.h"
#include "engine/chain/handle.h"
#include "engine/chain/record.h"

struct link {
    struct chain *c;
    struct manifest m;
    struct registry now; /* in force behind the last record */
    struct chunk_writer w;
    uint64_t seq;
    struct change last_commit; /* its position alone */
    uint32_t *numbers;
    size_t cap_numbers; /* a truncate's tables */
};

void link_abort(struct link *l) {
    if (l == NULL) return;
    manifest_free(&l->m);
    registry_free(&l->now);
    chunk_writer_free(&l->w);
    mem_free(l->numbers);
    mem_free(l);
}

static int begin_check(struct chain *c, const struct link_opts *o, struct err *e) {
    const struct chain_info *i = &c->info;
    struct link_info since;
    if (i->nlinks == 0 || (c->lin.nsegments == 1 && !i->full_complete)) {
        err_set(e, CODE_CHAIN_INCOMPLETE, "the full of the chain at '%s' is not complete", c->st->url);
        return err_hint(e, "finish it with the same `sluice backup full` command, then run this again");
    }
    if (!i->extendable) {
        err_set(e, CODE_CHAIN_UNEXTENDABLE, "the full at '%s' has no anchor that incrementals could follow", c->st->url);
        return err_hint(e, "take a full with `sluice backup full --chain-slot` into another place, or here with --force-overwrite");
    }
    if (o->since == NULL) return 0;
    if (chain_find(c, o->since, &since, e) < 0) return -1;
    if (since.n == i->tip.n) return 0;
    err_set(e, CODE_CHAIN_CONFLICT, "link '%s' is not the chain's end: that is link %llu, %.12s", o->since, (unsigned long long)i->tip.n,
            i->tip.id);
    return err_hint(e, "leave --since out to go on at the end");
}

int link_begin(struct chain *c, const struct link_opts *o, struct link **out, struct err *e) {
    struct link *l;
    struct pos ignored;
    *out = NULL;
    if (begin_check(c, o, e) < 0) return -1;
    if ((l = mem_alloc(sizeof *l, e)) == NULL) return -1;
    l->c = c;
    if (manifest_init(&l->m, e) < 0) goto fail;
    struct manifest *m = &l->m;
    memcpy(m->lineage, c->lin.id, CHAIN_LINEAGE);
    memcpy(m->segment, c->info.segment, CHAIN_SEG);
    memcpy(m->parent, c->info.tip.id, CHAIN_ID);
    m->n = c->info.nlinks;
    m->start_seq = m->end_seq = l->seq = c->info.tip.end_seq;
    m->compression = o->compression;
    if (chain_random_hex(m->attempt, 8, e) < 0 || chain_link_span(c, c->info.tip.n, &ignored, &m->start, e) < 0 ||
        chain_registry_at(c, c->info.nlinks, &m->tables, e) < 0 || registry_copy(&m->tables, &l->now, e) < 0)
        goto fail;
    if (pos_compare(&m->start, &c->lin.tip) != POS_EQUAL) {
        doc_bad(e, "lineage.json", "it says the chain ends at %s, its last link says %s", c->lin.tip.token, m->start.token);
        goto fail;
    }
    const struct chunk_name name = {CHUNK_CHANGES, 0, m->lineage, m->segment, m->attempt, m->n};
    if (chunk_writer_init(&l->w, c->st, &name, o->compression, o->chunk_records, m->start_seq + 1, e) < 0) goto fail;
    *out = l;
    return 0;
fail:
    link_abort(l);
    return -1;
}

/* ---- records ---- */

static int table_of(const struct link *l, uint32_t number, const struct shape *s, struct registry_table **out, struct err *e) {
    char label[160];
    if (number == 0 && s) number = s->table;
    *out = number ? registry_get(&l->now, number) : s ? registry_find(&l->now, s->oid, s->ns, s->name) : NULL;
    if (*out == NULL)
        return err_set(e, CODE_INTERNAL, "table '%s' (number %u) has records but is not in force in the chain",
                       s ? shape_label(s, label) : "?", number);
    if (s && memcmp((*out)->digest, s->digest, DIGEST_HEX - 1) != 0)
        return err_set(e, CODE_INTERNAL, "table '%s' has a record in shape %.12s…, but %.12s… is in force: no shape record came",
                       shape_label(s, label), s->digest, (*out)->digest);
    return 0;
}

static int note(struct link *l, struct registry_table *t, struct err *e) {
    if (t->frame == l->w.frame_no) return 0;
    t->frame = l->w.frame_no;
    return chunk_note_table(&l->w, t->table, t->raw, e);
}

static int put_row(struct link *l, struct change *c, struct err *e) {
    struct registry_table *t;
    size_t at = l->w.raw.n;
    if (table_of(l, c->table, c->shape, &t, e) < 0) return -1;
    c->table = t->table;
    if (record_encode(&l->w.raw, c, t->table, NULL, e) < 0 || chunk_fit(&l->w, at, e) < 0) {
        return err_wrap(e, "table '%s.%s'", t->ns, t->name);
    }
    return note(l, t, e);
}

static int put_truncate(struct link *l, struct change *c, struct err *e) {
    struct registry_table *t;
    size_t at = l->w.raw.n;
    if (c->ntables > l->cap_numbers) {
        uint32_t *more = mem_resize(l->numbers, c->ntables * sizeof *more, e);
        if (more == NULL) return -1;
        l->numbers = more;
        l->cap_numbers = c->ntables;
    }
    for (uint32_t i = 0; i < c->ntables; i++) {
        if (table_of(l, 0, c->tables[i], &t, e) < 0) return -1;
        l->numbers[i] = t->table;
    }
    if (c->ntables) c->table = l->numbers[0];
    if (record_encode(&l->w.raw, c, c->table, l->numbers, e) < 0 || chunk_fit(&l->w, at, e) < 0) return -1;
    for (uint32_t i = 0; i < c->ntables; i++)
        if (note(l, registry_get(&l->now, l->numbers[i]), e) < 0) return -1;
    return 0;
}

/* Which number a shape record is about; a table that is not known gets the next one. */
static int shape_number(struct link *l, const struct change *c, uint32_t *number, struct err *e) {
    const struct shape *old = c->old_shape, *s = c->shape ? c->shape : old;
    struct registry_table *t = NULL;
    char label[160];
    if (s == NULL) return err_set(e, CODE_INTERNAL, "a shape change has no shape");
    uint32_t given = c->table ? c->table : old && old->table ? old->table : c->shape ? c->shape->table : 0;
    if (old) {
        t = given ? registry_get(&l->now, given) : registry_find(&l->now, old->oid, old->ns, old->name);
        if (t == NULL || memcmp(t->digest, old->digest, DIGEST_HEX - 1) != 0)
            return err_set(e, CODE_INTERNAL, "table '%s' changes from shape %.12s…, which is not the one in force (%.12s…)",
                           shape_label(old, label), old->digest, t ? t->digest : "none");
        *number = t->table;
        return 0;
    }
    if ((given && registry_get(&l->now, given)) || registry_find(&l->now, s->oid, s->ns, s->name)) {
        err_set(e, CODE_SHAPE_CHANGED, "table '%s' is new in the source, but the chain has a table of that name or identity",
                shape_label(s, label));
        return err_hint(e, "it was dropped and made again; take a new full with `sluice backup full --force-overwrite`");
    }
    *number = l->now.next;
    return 0;
}

static int put_shape(struct link *l, struct change *c, struct err *e) {
    static const unsigned char none[32];
    struct shape_change x = {.seq = l->seq + 1};
    const struct registry_table *t;
    size_t at = l->w.raw.n;
    unsigned char before[32];
    bool listed;
    if (shape_number(l, c, &x.table, e) < 0) return -1;
    t = registry_get(&l->now, x.table);
    listed = t && t->frame == l->w.frame_no;
    memcpy(before, t ? t->raw : none, 32);
    x.oid = c->shape ? c->shape->oid : t ? t->oid : 0;
    const struct shape *named = c->shape ? c->shape : c->old_shape; /* a drop has only the old one; shape_number refused neither */
    x.ns = named->ns;
    x.name = named->name;
    if (c->old_shape) memcpy(x.before, c->old_shape->digest, DIGEST_HEX);
    if (c->shape) memcpy(x.after, c->shape->digest, DIGEST_HEX);
    if (c->shape && doc_put_shape(l->c->st, c->shape, e) < 0) return -1;
    if (FAULT("chain.shape_put", e) < 0) return -1;
    c->table = x.table;
    uint64_t frame = l->w.frame_no;
    if (record_encode(&l->w.raw, c, x.table, NULL, e) < 0 || chunk_fit(&l->w, at, e) < 0) return -1;
    if ((!listed || frame != l->w.frame_no) && chunk_note_table(&l->w, x.table, before, e) < 0) return -1;
    if (manifest_add_change(&l->m, &x, e) < 0 || registry_set(&l->now, x.table, x.oid, x.ns, x.name, x.after, e) < 0) return -1;
    struct registry_table *after = registry_get(&l->now, x.table);
    if (after) after->frame = l->w.frame_no;
    return 0;
}

static int put_plain(struct link *l, struct change *c, struct err *e) {
    size_t at = l->w.raw.n;
    if (c->pos && pos_is_set(c->pos) && strcmp(c->pos->engine, l->m.start.engine) != 0)
        return err_set(e, CODE_INTERNAL, "a record has a position of '%s' in a chain of '%s'", c->pos->engine, l->m.start.engine);
    if (c->op == CHANGE_COMMIT) {
        if (c->pos == NULL) return err_set(e, CODE_INTERNAL, "a commit has no position");
        const struct pos *floor = pos_is_set(&l->m.last_commit) ? &l->m.last_commit : &l->m.start;
        enum pos_order o = pos_compare(floor, c->pos);
        if (o != POS_LESS && o != POS_EQUAL)
            return err_set(e, CODE_INTERNAL, "a transaction at %s comes after %s: it is in the chain already", c->pos->token, floor->token);
        l->m.last_commit = *c->pos;
    }
    if (record_encode(&l->w.raw, c, 0, NULL, e) < 0 || chunk_fit(&l->w, at, e) < 0) return -1;
    if (c->op == CHANGE_COMMIT) chunk_note_commit(&l->w, c->time_us);
    return 0;
}

/* hop 4/8: a change becomes a record of the open link, numbered, in the shape that is in force; nothing of it is visible yet. */
int link_put(struct link *l, struct change *c, struct err *e) {
    int rc;
    switch (c->op) {
    case CHANGE_INSERT:
    case CHANGE_UPDATE:
    case CHANGE_DELETE:
        if ((rc = put_row(l, c, e)) == 0) l->m.row_changes++;
        break;
    case CHANGE_BACKFILL_BEGIN:
    case CHANGE_BACKFILL_ROWS:
    case CHANGE_BACKFILL_END: rc = put_row(l, c, e); break;
    case CHANGE_TRUNCATE: rc = put_truncate(l, c, e); break;
    case CHANGE_SHAPE: rc = put_shape(l, c, e); break;
    default: rc = put_plain(l, c, e); break;
    }
    if (rc < 0) return -1;
    c->seq = ++l->seq;
    return chunk_added(&l->w, 1, e);
}

uint64_t link_records(const struct link *l) {
    return l->seq - l->m.start_seq;
}
uint64_t link_row_changes(const struct link *l) {
    return l->m.row_changes;
}
uint64_t link_bytes(const struct link *l) {
    return l->w.raw_bytes + l->w.raw.n;
}

/* ---- end ---- */

static int conflict(const struct link *l, struct err *e) {
    const struct chain_info *i = &l->c->info;
    if (strcmp(i->lineage, l->m.lineage) != 0)
        err_set(e, CODE_CHAIN_CONFLICT, "the chain at '%s' was replaced while this link was written", l->c->st->url);
    else
        err_set(e, CODE_CHAIN_CONFLICT, "another process extended the chain at '%s' meanwhile: its end is link %llu, %.12s", l->c->st->url,
                (unsigned long long)i->tip.n, i->nlinks ? i->tip.id : "none");
    return err_hint(e, "nothing of this run is in the chain; see who else writes it, then run the same command again");
}

static int count_object(void *arg, const char *path, uint64_t size, int64_t mtime_us) {
    (void)path, (void)size, (void)mtime_us;
    ++*(uint64_t *)arg;
    return 0;
}

/* A gc with too small an age may have taken what it could not know to be ours. */
static int chunks_there(struct link *l, struct err *e) {
    char dir[CHAIN_PATH];
    uint64_t n = 0;
    if (l->w.done.n == 0) return 0;
    path_log_dir(dir, l->m.segment, l->m.n, l->m.attempt);
    if (l->c->st->ops->list(l->c->st, dir, count_object, &n, e) < 0) return err_wrap(e, "listing '%s'", dir);
    if (n == l->w.done.n) return 0;
    err_set_class(e, ERR_RETRY, CODE_CHAIN_CONFLICT, "%llu of %zu chunks of this link are gone from '%s'",
                  (unsigned long long)(l->w.done.n - n), l->w.done.n, dir);
    return err_hint(e, "a `sluice backup gc` with too small an age removed them; run the same command again");
}

static bool is_tip(const struct link *l) {
    return strcmp(l->c->info.lineage, l->m.lineage) == 0 && l->c->info.nlinks == l->m.n && strcmp(l->c->info.tip.id, l->m.parent) == 0;
}

static bool is_catalogued(const struct link *l, const char *id) {
    struct lineage_link x;
    struct err ignored = {0};
    uint64_t start_seq;
    return strcmp(l->c->info.lineage, l->m.lineage) == 0 && l->m.n < l->c->info.nlinks &&
           chain_entry(l->c, l->m.n, &x, &start_seq, &ignored) == 0 && strcmp(x.id, id) == 0;
}

static int catalogue(struct link *l, const struct lineage_link *x, struct err *e) {
    struct chain *c = l->c;
    for (int try = 0; try < 8; try++) {
        struct lineage next;
        char etag[STORE_ETAG];
        bool won = false;
        int rc;
        if (is_catalogued(l, x->id)) return 0;
        if (!is_tip(l)) return conflict(l, e);
        if (lineage_copy(&c->lin, &next, e) < 0) return -1;
        rc = lineage_append(c->st, &next, x, &l->m.end, e);
        if (rc == 0) rc = FAULT("chain.link_append", e);
        if (rc == 0) rc = lineage_put(c->st, &next, c->etag, &won, etag, e);
        if (rc == 0 && won) {
            chain_adopt(c, &next, etag);
            return 0;
        }
        lineage_free(&next);
        if (rc < 0) return -1;
        if (chain_refresh(c, NULL, e) < 0) return -1;
    }
    return err_set_class(e, ERR_RETRY, CODE_CHAIN_CONFLICT, "the catalogue at '%s' changes too fast", c->st->url);
}

int link_end(struct link *l, const struct pos *end, char id[CHAIN_ID], struct err *e) {
    struct manifest *m = &l->m;
    struct chain *c = l->c;
    struct buf b = BUF_INIT(FORMAT_DOC_MAX);
    struct lineage_link x = {.n = m->n, .end_seq = l->seq};
    char path[CHAIN_PATH];
    enum pos_order o = pos_compare(&m->start, end);
    int rc = -1;
    if (o != POS_LESS && o != POS_EQUAL) {
        err_set(e, CODE_INTERNAL, "a link from %s cannot end at '%s'", m->start.token, end->token);
        goto out;
    }
    if (pos_is_set(&m->last_commit) && (o = pos_compare(&m->last_commit, end)) != POS_LESS && o != POS_EQUAL) {
        err_set(e, CODE_INTERNAL, "a link that ends at %s holds a transaction at %s", end->token, m->last_commit.token);
        goto out;
    }
    if (chunk_writer_end(&l->w, e) < 0 || FAULT("chain.link_chunks", e) < 0) goto out;
    m->end = *end;
    m->end_seq = l->seq;
    m->records = l->seq - m->start_seq;
    m->raw_bytes = l->w.raw_bytes;
    m->time_us = chain_hooks.now_us();
    m->chunks = l->w.done; /* lent */
    rc = manifest_format(m, &b, e);
    memset(&m->chunks, 0, sizeof m->chunks);
    if (rc < 0 || link_id(m->parent, b.p, b.n, x.id, e) < 0) {
        rc = -1;
        goto out;
    }
    rc = -1;
    if (chain_refresh(c, NULL, e) < 0) goto out;
    if (!is_tip(l)) {
        conflict(l, e);
        goto out;
    }
    path_link(path, m->segment, m->n, m->attempt);
    if (doc_put_new(c->st, path, &b, e) < 0 || FAULT("chain.link_manifest", e) < 0 || chunks_there(l, e) < 0) goto out;
    memcpy(x.attempt, m->attempt, CHAIN_ATTEMPT);
    x.time_us = m->time_us;
    x.bytes = l->w.stored_bytes + b.n;
    if (catalogue(l, &x, e) < 0) goto out;
    if (id) memcpy(id, x.id, CHAIN_ID);
    rc = FAULT("chain.link_catalogued", e);
out:
    buf_free(&b);
    link_abort(l);
    return rc;
}
