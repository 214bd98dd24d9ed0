/* DESIGN.
 * 1. A window's rows and its mark (seq b) commit in one target transaction: after any crash the target stands exactly at a mark.
 * 2. A restart reads on behind the mark, inside a link if need be; nothing is applied twice, so tables without a key are exact too.
 * 3. A window ends at a commit record, so readers of the target see whole source transactions (several at once) unless one is larger than four
 *    windows, which is counted and logged.
 * 4. The state row moves to a link only with the window that ends it, after the reader has checked the link's count and end position.
 * 5. A shape change is applied between windows, with a mark of its own.
 * 6. With `until_seq`, which is a commit record, nothing behind it is applied; the lane's mark is then inside the link.
 * 7. A unique conflict rolls the window back. It is replayed in source order, then with the rows involved replaced; what still stands is a
 *    refusal, and the target stands at the last mark. */
#include "engine/flow/apply.h"

#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/notify.h"
#include "engine/flow/window.h"

struct applier {
    struct applier_opts o;
    struct lane *lane;
    struct window *window;
    struct batch batch[2]; /* the window being applied, and the next one: only a look at it tells which is the link's last */
    uint64_t seq;
    uint64_t link_n;      /* the link being applied */
    struct applier_stats stats;
    bool said_split, at_until;
};

#define WINDOW_BYTES MiB(8)

int applier_open(const struct applier_opts *o, struct applier **out, struct err *e) {
    struct applier *a = mem_alloc(sizeof *a, e);
    bool fk = false;
    uint64_t lanes[1] = {0};
    size_t nlanes = 1;
    if (!a) return -1;
    a->o = *o;
    if (!a->o.window_bytes) a->o.window_bytes = WINDOW_BYTES;
    const struct target_ops *t = o->driver->target;
    for (int i = 0; i < 2; i++)
        if (batch_init(&a->batch[i], MiB(1), e) < 0) goto bad;
    if (t->marks_read(o->target, o->state->stream_id, lanes, &nlanes, e) < 0) goto bad;
    a->seq = nlanes ? lanes[0] : o->state->seq;
    if (nlanes > 1) {
        err_set(e, CODE_MARK_MISMATCH, "stream '%s' was applied with %zu lanes; this sluice applies with one", o->state->stream_id, nlanes);
        err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
        goto bad;
    }
    if (a->seq < o->state->seq) {
        err_set(e, CODE_MARK_MISMATCH, "stream '%s' stands at seq %llu, but the mark beside its rows says %llu", o->state->stream_id,
                (unsigned long long)o->state->seq, (unsigned long long)a->seq);
        err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
        err_hint(e, "somebody changed sluice_cdc_state or sluice_cdc_lane; rebuild with --reset-target-data");
        goto bad;
    }
    const struct chain_info *ci = chain_info(o->chain);
    if (a->seq > ci->tip.end_seq) {
        err_set(e, CODE_MARK_MISMATCH, "the target's mark of stream '%s' is at seq %llu, past the chain's tip at %llu", o->state->stream_id,
                (unsigned long long)a->seq, (unsigned long long)ci->tip.end_seq);
        err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
        err_hint(e, "the chain was put back to an older copy, or the marks were changed; rebuild with --reset-target-data");
        goto bad;
    }
    if (t->lane_open(o->target, o->state, 0, &a->lane, e) < 0) goto bad;
    if (t->lane_fk_enforced && t->lane_fk_enforced(a->lane, &fk, e) < 0) goto bad;
    if (!(a->window = window_new(o->tables, fk, e))) goto bad;
    *out = a;
    return 0;
bad:
    applier_close(a);
    return -1;
}

void applier_close(struct applier *a) {
    if (!a) return;
    if (a->lane) a->o.driver->target->lane_close(a->lane);
    window_free(a->window);
    for (int i = 0; i < 2; i++) batch_free(&a->batch[i]);
    mem_free(a);
}

uint64_t applier_seq(const struct applier *a) {
    return a->seq;
}

const struct applier_stats *applier_stats(const struct applier *a) {
    return &a->stats;
}

static void mark_of(const struct applier *a, uint64_t seq, const char *link_id, struct mark *m) {
    memset(m, 0, sizeof *m);
    m->epoch = a->o.state->epoch;
    m->seq = seq;
    m->link_id = link_id;
    m->state_seq = seq;
}

static void moved(struct applier *a, const struct mark *m) {
    a->seq = m->seq;
    if (!m->link_id) return;
    memcpy(a->o.state->link_id, m->link_id, sizeof a->o.state->link_id);
    a->o.state->seq = m->state_seq;
}

/* Invariant 7. The error of the last try stays in *e. */
static int apply_runs(struct applier *a, struct change *changes, size_t n, const struct mark *m, struct err *e) {
    static const enum window_mode modes[] = {WINDOW_COMPOSED, WINDOW_SINGLE, WINDOW_REPLACED};
    struct err first = {0};
    for (size_t i = 0; i < MEM_ARRAY_LEN(modes); i++) {
        const struct run *runs;
        size_t nruns;
        struct apply_result r = {0};
        if (window_compose(a->window, modes[i], changes, n, &runs, &nruns, e) < 0) return -1;
        if (a->o.driver->target->lane_apply(a->lane, runs, nruns, m, &r, e) == 0) {
            a->stats.windows++;
            a->stats.rows += r.rows;
            a->stats.missing += r.missing;
            a->stats.changes += window_rows(a->window);
            if (modes[i] == WINDOW_SINGLE) a->stats.replayed_ordered++;
            if (modes[i] == WINDOW_REPLACED) a->stats.replayed_replaced++;
            if (r.missing) log_warn("changes matched no row of the target", KV_U64("rows", r.missing), KV_U64("up_to_seq", m->seq));
            return 0;
        }
        if (e->code != CODE_UNIQUE_CONFLICT) return -1;
        if (e->marker == MARKER_NONE) err_mark(e, MARKER_UNIQUE_KEY_CONFLICT_OTHER_ROW, MARKER_NONE);
        if (i == 0) first = *e;
        log_debug("unique conflict: window is replayed", KV_STR("mode", i == 0 ? "source order" : "replaced rows"), KV_STR("was", e->msg));
    }
    (void)first;
    return -1;
}

static int apply_window(struct applier *a, struct change *changes, size_t n, uint64_t seq, const char *link_id, struct err *e) {
    struct mark m;
    mark_of(a, seq, link_id, &m);
    if (FAULT("apply.before_window", e) < 0) return -1;
    if (apply_runs(a, changes, n, &m, e) < 0) return -1;
    moved(a, &m);
    return FAULT("apply.after_window", e);
}

/* Did an earlier table of this chain have that name on the target, and is it gone from the source? */
static int dropped_before(struct applier *a, const struct flow_table *t, bool *yes, struct err *e) {
    *yes = false;
    for (uint64_t n = 0; n <= a->link_n && !*yes; n++) {
        struct shape *const *shapes;
        size_t count;
        if (chain_shapes_at(a->o.chain, n, &shapes, &count, e) < 0) return -1;
        for (size_t i = 0; i < count && !*yes; i++) {
            const struct flow_table *now = tables_get(a->o.tables, shapes[i]->table);
            *yes = shapes[i]->table != t->number && (!now || now->dropped) && strcmp(shapes[i]->name, t->name) == 0 &&
                   strcmp(tables_ns(a->o.tables, shapes[i]->ns), t->ns) == 0;
        }
    }
    return 0;
}

/* A new table takes the name of one that the source dropped: its rows are what the source threw away, and the chain still holds them. */
static int make_room(struct applier *a, const struct flow_table *t, struct err *e) {
    const struct target_ops *ops = a->o.driver->target;
    struct shape *there = NULL;
    bool gone;
    if (ops->table_shape(a->o.target, t->ns, t->name, &there, e) < 0) return -1;
    if (!there) return 0;
    shape_free(there);
    if (dropped_before(a, t, &gone, e) < 0) return -1;
    if (!gone) return 0; /* a stranger's: the driver refuses it */
    log_warn("the source dropped this table and made another of its name; the target follows", KV_STR("table", t->name));
    if (FAULT("apply.before_make_room", e) < 0) return -1;
    return ops->table_drop(a->o.target, t->ns, t->name, e);
}

/* A dropped table stays on the target until its name is needed. Its records end here. */
static int apply_shape(struct applier *a, struct change *c, struct err *e) {
    struct mark m;
    struct flow_table *t = tables_get(a->o.tables, c->table);
    mark_of(a, c->seq, NULL, &m);
    if (t && c->seq <= t->skip_seq) return 0;
    if (!c->shape) {
        if (t) t->dropped = true;
        log_warn("the source dropped a table; the target keeps it", KV_STR("table", t ? t->name : "?"));
        if (a->o.driver->target->lane_apply(a->lane, NULL, 0, &m, &(struct apply_result){0}, e) < 0) return -1;
        moved(a, &m);
        return 0;
    }
    const struct shape *before = t ? t->shape : NULL;
    char *old_ns = NULL, *old_name = NULL;
    int rc = -1;
    if (t && (!(old_ns = mem_strdup(t->ns, e)) || !(old_name = mem_strdup(t->name, e)))) goto out;
    bool wanted_before = t ? t->wanted : false;
    if (tables_put(a->o.tables, c->shape, &t, e) < 0) goto out;
    if (before && t->wanted != wanted_before) {
        tables_refuse_drift(before, c->shape, t->wanted, e);
        goto out;
    }
    if (!t->wanted) {
        rc = 0;
        goto out;
    }
    if (tables_collisions(a->o.tables, e) < 0) goto out;
    if (!before && make_room(a, t, e) < 0) goto out;
    if (FAULT("apply.before_shape", e) < 0) goto out;
    if (before && (strcmp(old_ns, t->ns) != 0 || strcmp(old_name, t->name) != 0))
        log_info("table renamed", KV_STR("from", old_name), KV_STR("to", t->name));
    notify_long(true); /* the target may rewrite the table or build an index */
    int altered = a->o.driver->target->table_alter(a->lane, before, c->shape, old_ns ? old_ns : t->ns, old_name ? old_name : t->name, t->ns, t->name, &m, e);
    notify_long(false);
    if (altered < 0) {
        err_wrap(e, "shape change of table '%s.%s' at seq %llu", c->shape->ns, c->shape->name, (unsigned long long)c->seq);
        goto out;
    }
    moved(a, &m);
    rc = FAULT("apply.after_shape", e);
out:
    mem_free(old_ns);
    mem_free(old_name);
    return rc;
}

/* The records of one batch: windows parted by shape changes. */
static int apply_batch(struct applier *a, struct batch *b, const char *link_id_at_end, struct err *e) {
    size_t from = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (b->v[i].op != CHANGE_SHAPE) continue;
        if (i > from && apply_window(a, b->v + from, i - from, b->v[i].seq - 1, NULL, e) < 0) return -1;
        if (apply_shape(a, &b->v[i], e) < 0) return -1;
        from = i + 1;
    }
    uint64_t seq = b->n ? b->v[b->n - 1].seq : a->seq;
    if (from == b->n && !link_id_at_end) return 0;
    return apply_window(a, b->n > from ? b->v + from : NULL, b->n - from, seq, link_id_at_end, e);
}

void applier_until(struct applier *a, uint64_t seq) {
    a->o.until_seq = seq;
}

bool applier_at_until(const struct applier *a) {
    return a->at_until;
}

/* Invariant 6: what lies behind the bound is left alone. */
static void cut(struct applier *a, struct batch *b) {
    if (!a->o.until_seq || !b->n || b->v[b->n - 1].seq <= a->o.until_seq) return;
    while (b->n && b->v[b->n - 1].seq > a->o.until_seq) b->n--;
    a->at_until = true;
    b->ends_at_commit = true;
}

int applier_link(struct applier *a, uint64_t n, bool *stopped, struct err *e) {
    struct link_info li;
    struct link_reader *r = NULL;
    int rc = -1;
    *stopped = false;
    a->link_n = n;
    if (chain_link(a->o.chain, n, &li, e) < 0) return -1;
    if (a->seq < li.start_seq || a->seq > li.end_seq) {
        err_set(e, CODE_CHAIN_HOLE, "stream '%s' stands at seq %llu, but link %llu holds (%llu, %llu]", a->o.state->stream_id, (unsigned long long)a->seq,
                (unsigned long long)n, (unsigned long long)li.start_seq, (unsigned long long)li.end_seq);
        goto out;
    }
    if (link_reader_open(a->o.chain, n, a->seq, &r, e) < 0) goto out;
    struct batch *now = &a->batch[0], *next = &a->batch[1], *was;
    a->at_until = a->o.until_seq && a->seq >= a->o.until_seq && a->seq < li.end_seq;
    if (a->at_until) {
        rc = 0;
        goto out;
    }
    batch_reset(now);
    if (link_reader_next(r, now, a->o.window_bytes, e) < 0) goto out;
    for (;;) {
        cut(a, now);
        if (a->at_until) {
            if (now->n && apply_batch(a, now, NULL, e) < 0) goto out;
            break;
        }
        batch_reset(next);
        if (now->n && link_reader_next(r, next, a->o.window_bytes, e) < 0) goto out;
        bool last = next->n == 0; /* the reader has checked count and end: the link is whole */
        if (now->n && !now->ends_at_commit && !last) {
            a->stats.split_transactions++;
            if (!a->said_split) log_info("a source transaction is larger than the window; readers of the target see it in parts", KV_U64("seq", now->v[0].seq));
            a->said_split = true;
        }
        if (apply_batch(a, now, last ? li.id : NULL, e) < 0) goto out;
        if (last) break;
        if (a->o.stopper && stopper_asked(a->o.stopper)) {
            *stopped = true;
            rc = 0;
            goto out;
        }
        was = now;
        now = next;
        next = was;
    }
    if (!a->at_until) a->stats.links++;
    rc = 0;
out:
    link_reader_close(r);
    if (rc < 0) err_wrap(e, "link %llu", (unsigned long long)n);
    return rc;
}
