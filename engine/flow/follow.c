/* The producer's tick: one incremental, or one rollover of a continuous producer. DESIGN.
 * 1. Order of durable writes: chunks and shapes, manifest, catalogue (all in link_end), then the source is acknowledged. Never the other way round.
 * 2. A link ends at a commit: the first one at or after the source's end read at start, or the first after the window or the row limit. What was read
 *    behind it is read again next time.
 * 3. Nothing new makes no link. The progress of an idle source is made durable as covered_to, at most once a minute, before it is acknowledged.
 * 4. A one-shot tick is the whole of what was there at its start; a stop ends it at the next commit, and what it has is kept.
 * 5. A continuous producer keeps its connections and its place in the batch between ticks (job.ctx); any error drops them, and the next tick begins at
 *    the last durable end. Its tick ends at the first commit past the rollover's window, row or byte limit. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/flow.h"
#include "engine/flow/hook.h"
#include "engine/flow/mirror.h"
#include "engine/flow/notify.h"
#include "engine/flow/rotate.h"

#define BATCH_BYTES MiB(1)
#define WAIT_US 200000
#define COVER_EVERY_US (60 * INT64_C(1000000))

struct follow {
    struct job *j;
    struct source *source;
    struct stream *stream;
    struct chain *chain;
    struct link *link;
    struct batch batch;
    size_t at;             /* of the batch: the first change that no link holds yet */
    struct pos start, goal, last_commit, seen;
    int64_t until_us;
    uint64_t rows;
    bool any;              /* a record was put */
    bool in_txn;           /* the last record put is inside a source transaction */
    bool continuous;
};

const char *incremental_end_name(enum incremental_end w) {
    static const char *const names[] = {"caught up", "window", "max changes", "stopped", "nothing new", "max bytes"};
    return names[w];
}

static int check_chain(struct follow *f, struct err *e) {
    struct job *j = f->j;
    const struct chain_info *ci = chain_info(f->chain);
    char identity[128];
    if (!ci->restorable) {
        err_set(e, CODE_CHAIN_INCOMPLETE, "the full of chain '%.12s' is not complete", ci->lineage);
        return err_hint(e, "finish it: run the same `sluice backup full` command again");
    }
    if (!ci->extendable) {
        err_set(e, CODE_CHAIN_UNEXTENDABLE, "the full of chain '%.12s' was taken without --chain-slot, so nothing says where changes after it begin", ci->lineage);
        return err_hint(e, "take a new full with `sluice backup full --chain-slot --force-overwrite`, or into another place");
    }
    if (strcmp(ci->source_engine, j->source_driver->name) != 0)
        return err_set(e, CODE_SOURCE_CHANGED, "chain '%.12s' comes from a %s source, not %s", ci->lineage, ci->source_engine, j->source_driver->name);
    if (j->options.slot_name && strcmp(j->options.slot_name, ci->slot_name) != 0)
        return err_set(e, CODE_USAGE, "chain '%.12s' is anchored by slot '%s', not '%s'", ci->lineage, ci->slot_name, j->options.slot_name);
    if (job_source(j, ci->slot_name, &f->source, e) < 0) return -1;
    if (j->source_driver->source->identity(f->source, identity, e) < 0) return -1;
    if (strcmp(identity, ci->source_identity) != 0) {
        err_set(e, CODE_SOURCE_CHANGED, "the source is '%s', but chain '%.12s' was taken from '%s'", identity, ci->lineage, ci->source_identity);
        return err_hint(e, "name the chain's own source, or begin a new chain elsewhere");
    }
    const struct pos *covered = pos_is_set(&ci->covered) && pos_compare(&ci->covered, &ci->tip_pos) == POS_GREATER ? &ci->covered : &ci->tip_pos;
    return j->source_driver->source->check(f->source, &ci->tip_pos, covered, e);
}

static int open_all(struct follow *f, struct err *e) {
    struct job *j = f->j;
    const struct source_ops *src = j->source_driver->source;
    struct shape *const *known;
    size_t nknown;
    if (job_chain(j, &f->chain, e) < 0 || check_chain(f, e) < 0) return -1;
    const struct chain_info *ci = chain_info(f->chain);
    if (j->options.since) {
        struct link_info li;
        if (chain_find(f->chain, j->options.since, &li, e) < 0) return -1;
        if (li.n != ci->tip.n) {
            err_set(e, CODE_CHAIN_CONFLICT, "link '%s' is not the tip of the chain; the tip is '%s'", li.id, ci->tip.id);
            return err_hint(e, "a link can only be added behind the tip: leave --since out, or give the tip");
        }
    }
    f->start = ci->tip_pos;
    if (!f->continuous && src->end(f->source, &f->goal, e) < 0) return -1;
    if (chain_shapes_at(f->chain, ci->nlinks, &known, &nknown, e) < 0) return -1;
    return src->stream_open(f->source, &f->start, known, nknown, &f->stream, e);
}

static int begin_link(struct follow *f, struct err *e) {
    if (f->link) return 0;
    struct link_opts lo = {.compression = job_compression(f->j), .chunk_records = f->j->options.chunk_size, .since = chain_info(f->chain)->tip.id};
    return link_begin(f->chain, &lo, &f->link, e);
}

/* Is the source's end, read at start, reached? A continuous producer has none. */
static int reached(const struct follow *f, const struct pos *p, bool *yes, struct err *e) {
    *yes = false;
    if (f->continuous || !pos_is_set(p)) return 0;
    enum pos_order o = pos_compare(p, &f->goal);
    if (o == POS_UNORDERED) return err_set(e, CODE_SOURCE_CHANGED, "position '%s' does not compare with '%s'", p->token, f->goal.token);
    *yes = o != POS_LESS;
    return 0;
}

/* Does the link end at this commit? */
static int ends_here(struct follow *f, bool *over, enum incremental_end *why, struct err *e) {
    const struct options *o = &f->j->options;
    if (reached(f, &f->last_commit, over, e) < 0) return -1;
    if (*over) *why = END_CAUGHT_UP;
    else if (o->max_changes && f->rows >= o->max_changes) *why = END_MAX_CHANGES;
    else if (f->continuous && o->rollover_max_bytes && link_bytes(f->link) >= o->rollover_max_bytes) *why = END_MAX_BYTES;
    else if (clock_mono_us() >= f->until_us) *why = END_WINDOW;
    else if (stopper_asked(&f->j->stopper)) *why = END_STOPPED;
    else return 0;
    *over = true;
    return 0;
}

/* hop 2/8: take a batch's records up to the commit that ends the link. *over: it came. */
static int take_batch(struct follow *f, bool *over, enum incremental_end *why, struct err *e) {
    while (f->at < f->batch.n && !*over) {
        struct change *c = &f->batch.v[f->at++];
        /* hop 3/8: each goes into the open link of the chain */
        if (begin_link(f, e) < 0 || link_put(f->link, c, e) < 0) return -1;
        f->any = true;
        f->in_txn = c->op != CHANGE_COMMIT;
        if (c->op == CHANGE_INSERT || c->op == CHANGE_UPDATE || c->op == CHANGE_DELETE) f->rows++;
        if (c->op != CHANGE_COMMIT) continue;
        f->last_commit = *c->pos;
        if (ends_here(f, over, why, e) < 0) return -1;
    }
    return 0;
}

/* Nothing is half read: may the link end although no commit said so? */
static int ends_idle(struct follow *f, bool *over, enum incremental_end *why, struct err *e) {
    if (reached(f, &f->seen, over, e) < 0) return -1;
    if (*over) *why = f->any ? END_CAUGHT_UP : END_NOTHING_NEW;
    /* the first transaction may take longer to be decoded than any window: a one-shot tick waits for it, or for the source's end */
    else if (clock_mono_us() >= f->until_us && (f->any || f->continuous)) *why = f->any ? END_WINDOW : END_NOTHING_NEW;
    else if (stopper_asked(&f->j->stopper)) *why = END_STOPPED;
    else return 0;
    *over = true;
    return 0;
}

static int read_link(struct follow *f, enum incremental_end *why, struct err *e) {
    const struct source_ops *src = f->j->source_driver->source;
    bool over = false;
    if (take_batch(f, &over, why, e) < 0) return -1;
    while (!over) {
        batch_reset(&f->batch);
        f->at = 0;
        notify_alive(); /* a transaction of hours asks nobody whether to stop */
        if (src->stream_next(f->stream, &f->batch, BATCH_BYTES, WAIT_US, &f->seen, e) < 0) return -1;
        if (take_batch(f, &over, why, e) < 0) return -1;
        if (!over && !f->in_txn && ends_idle(f, &over, why, e) < 0) return -1;
        if (FAULT("follow.between_batches", e) < 0) return -1;
    }
    return 0;
}

static int put_sequences(struct follow *f, struct err *e) {
    const struct source_ops *src = f->j->source_driver->source;
    struct object *o;
    size_t n;
    if (!src->stream_sequences) return 0;
    struct arena *a = arena_new(KiB(16), e);
    int rc = -1;
    if (!a) return -1;
    if (src->stream_sequences(f->stream, a, &o, &n, e) < 0) goto out;
    for (size_t i = 0; i < n; i++) {
        struct change c = {.op = CHANGE_SEQUENCE, .seq_ns = o[i].ns, .seq_name = o[i].name, .seq_value = o[i].value, .seq_called = o[i].is_called};
        if (link_put(f->link, &c, e) < 0) goto out;
    }
    rc = 0;
out:
    arena_free(a);
    return rc;
}

static void say_uncaptured(struct follow *f) {
    const struct source_ops *src = f->j->source_driver->source;
    struct err e = {0};
    const char **lines;
    size_t n;
    struct arena *a = src->stream_uncaptured ? arena_new(KiB(16), &e) : NULL;
    if (a && src->stream_uncaptured(f->stream, a, &lines, &n, &e) == 0)
        for (size_t i = 0; i < n; i++) log_warn("table is not in the chain", KV_STR("table", lines[i]));
    arena_free(a);
}

/* Invariant 3. */
static int cover(struct follow *f, struct err *e) {
    const struct chain_info *ci = chain_info(f->chain);
    const struct pos *from = pos_is_set(&ci->covered) ? &ci->covered : &ci->tip_pos;
    if (!pos_is_set(&f->seen) || pos_compare(&f->seen, from) != POS_GREATER) return 0;
    if (clock_wall_us() - chain_covered_us(f->chain) < COVER_EVERY_US && clock_wall_us() > chain_covered_us(f->chain)) return 0;
    if (chain_cover(f->chain, &f->seen, e) < 0) return -1;
    if (FAULT("follow.after_cover", e) < 0) return -1;
    return f->j->source_driver->source->stream_ack(f->stream, &f->seen, e);
}

static int commit_link(struct follow *f, struct err *e) {
    struct job_result *res = &f->j->result;
    if (put_sequences(f, e) < 0) return -1;
    res->records = link_records(f->link);
    res->changes = link_row_changes(f->link);
    res->raw_bytes = link_bytes(f->link);
    res->end = f->last_commit;
    if (FAULT("follow.before_link_end", e) < 0) return -1;
    struct link *l = f->link;
    f->link = NULL;
    if (link_end(l, &f->last_commit, res->id, e) < 0) return -1;
    res->committed = true;
    if (FAULT("follow.before_ack", e) < 0) return -1;
    if (f->j->source_driver->source->stream_ack(f->stream, &f->last_commit, e) < 0) {
        /* The link is durable; the source only keeps its log a little longer. */
        log_warn("the source could not be acknowledged; the next incremental will", KV_STR("err", e->msg));
        err_clear(e);
    }
    return FAULT("follow.after_ack", e);
}

static void follow_free(void *p) {
    struct follow *f = p;
    if (!f) return;
    const struct source_ops *src = f->j->source_driver->source;
    link_abort(f->link);
    if (f->stream) src->stream_close(f->stream);
    if (f->source) src->close(f->source);
    chain_close(f->chain);
    batch_free(&f->batch);
    mem_free(f);
}

static void mirror(struct follow *f) {
    const struct chain_info *ci = chain_info(f->chain);
    struct mirror m = {.link_id = ci->tip.id, .pos = ci->tip_pos.token, .seq = ci->tip.end_seq, .lag_links = 0, .lag_bytes = 0, .lag_us = -1,
                       .rows = f->j->result.changes};
    position_mirror(f->j->control, &f->j->entity, &m);
    mirror_chain(f->j, f->chain, ci->nlinks > 1 ? ci->nlinks - 1 : 0);
}

static int follow_open(struct job *j, struct follow **out, struct err *e) {
    struct follow *f = mem_alloc(sizeof *f, e);
    if (!f) return -1;
    f->j = j;
    f->continuous = j->options.continuous;
    if (batch_init(&f->batch, BATCH_BYTES, e) == 0 && open_all(f, e) == 0) {
        *out = f;
        return 0;
    }
    follow_free(f);
    return -1;
}

/* What a rollover starts from. The batch's rest belongs to it. */
static void begin_tick(struct follow *f) {
    f->until_us = clock_mono_us() + (f->continuous ? f->j->options.rollover_us : f->j->options.window_us);
    f->rows = 0;
    f->any = f->in_txn = false;
    f->last_commit = (struct pos){0};
    f->start = chain_info(f->chain)->tip_pos;
}

/* --include-empty: a rollover without changes makes a link that says so, up to where the source was seen. */
static int empty_link(struct follow *f, struct err *e) {
    if (!f->continuous || !f->j->options.include_empty || !pos_is_set(&f->seen) || pos_compare(&f->seen, &f->start) != POS_GREATER) return 0;
    f->last_commit = f->seen;
    return begin_link(f, e);
}

int step_producer_follow(struct job *j, struct step_result *r, struct err *e) {
    struct follow *f = j->ctx;
    enum incremental_end why = END_NOTHING_NEW;
    int rc = -1;
    memset(&j->result, 0, sizeof j->result);
    if (!j->source_driver) return err_set(e, CODE_CONFIG, "producer '%s' names no source", j->entity.name);
    if (!f && follow_open(j, &f, e) < 0) return -1;
    j->ctx = f;
    j->ctx_free = follow_free;
    if (f->continuous && !j->options.dry_run && rotation_boundary(j, f->chain, f->source, e) < 0) goto out;
    begin_tick(f);
    snprintf(j->result.lineage, sizeof j->result.lineage, "%s", chain_info(f->chain)->lineage);
    j->result.start = f->start;
    if (j->options.dry_run) {
        snprintf(r->said, sizeof r->said, "would read (%.80s, %.80s]; nothing was changed", f->start.token, f->goal.token);
        rc = 0;
        goto out;
    }
    if (read_link(f, &why, e) < 0) goto out;
    if (!f->link && empty_link(f, e) < 0) goto out;
    if (f->link && pos_is_set(&f->last_commit)) {
        if (commit_link(f, e) < 0) goto out;
        rollover_hook(j);
    } else if (cover(f, e) < 0) {
        goto out;
    }
    if (!f->continuous) say_uncaptured(f);
    mirror(f);
    if (!j->result.committed && why != END_STOPPED) why = END_NOTHING_NEW;
    j->result.why = why;
    r->idle = !j->result.committed;
    if (j->result.committed)
        snprintf(r->said, sizeof r->said, "link %s: %llu row changes, ended: %s", j->result.id, (unsigned long long)j->result.changes, incremental_end_name(why));
    else snprintf(r->said, sizeof r->said, "%s", incremental_end_name(why));
    if (f->continuous && j->result.committed) log_info("link added", KV_STR("id", j->result.id), KV_U64("changes", j->result.changes), KV_STR("ended", incremental_end_name(why)));
    rc = 0;
out:
    /* A one-shot tick leaves nothing open; what a link held uncommitted is in the log still. */
    if (rc < 0 || !f->continuous) {
        follow_free(f);
        j->ctx = NULL;
    }
    return rc;
}
