/* DESIGN.
 * 1. A window's rows and its mark (seq b) commit in one target transaction: after any crash the target stands exactly at a mark.
 * 2. A restart reads on behind the mark, inside a link if need be; nothing is applied twice, so tables without a key are exact too.
 * 3. A window ends at a commit record, so readers of the target see whole source transactions (several at once) unless one is larger than four
 *    windows, which is counted and logged.
 * 4. The state row moves to a link only with the window that ends it, after the reader has checked the link's count and end position.
 * 5. A shape change is applied between windows, with a mark of its own.
 * 6. With `until_seq`, which is a commit record, nothing behind it is applied; the lane's mark is then inside the link.
 * 7. A unique conflict rolls the window back. It is replayed in source order, then with the rows involved replaced; what still stands is a
 *    refusal, and the target stands at the last mark.
 * 8. With several lanes (lanes.c) 3 holds for small windows alone. The next window is read while they work; a->seq is what all of them have. */
#include "engine/flow/apply.h"

#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/lanes.h"
#include "engine/flow/notify.h"
#include "engine/flow/route.h"
#include "engine/flow/window.h"

#define BATCHES 3

struct applier {
    struct applier_opts o;
    struct lane *lane;     /* one lane: these two; several: lanes */
    struct window *window;
    struct lanes *lanes;
    struct batch batch[BATCHES]; /* the window being applied, and the next one: only a look at it tells which is the link's last. Lanes keep a third busy */
    uint64_t seq;
    uint64_t link_n;      /* the link being applied */
    struct applier_stats stats;
    bool said_split, at_until;
};

#define WINDOW_BYTES MiB(8)

static int misfit(struct err *e) {
    err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
    return err_hint(e, "somebody changed sluice_cdc_state, sluice_cdc_lane or sluice_cdc_route; rebuild with --reset-target-data");
}

/* Do marks, routing, state row and chain fit together? */
static int check_marks(const struct applier_opts *o, const uint64_t *marks, size_t n, const struct target_route *route, struct err *e) {
    const char *stream = o->state->stream_id;
    uint64_t tip = chain_info(o->chain)->tip.end_seq;
    for (size_t i = 0; i < n; i++) {
        if (marks[i] < o->state->seq) {
            err_set(e, CODE_MARK_MISMATCH, "stream '%s' stands at seq %llu, but the mark beside its rows says %llu", stream, (unsigned long long)o->state->seq,
                    (unsigned long long)marks[i]);
            return misfit(e);
        }
        if (marks[i] > tip) {
            err_set(e, CODE_MARK_MISMATCH, "the target's mark of stream '%s' is at seq %llu, past the chain's tip at %llu", stream, (unsigned long long)marks[i],
                    (unsigned long long)tip);
            err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
            return err_hint(e, "the chain was put back to an older copy, or the marks were changed; rebuild with --reset-target-data");
        }
    }
    if (!route && n > 1) {
        err_set(e, CODE_MARK_MISMATCH, "stream '%s' was applied with %zu lanes, and how changes were dealt to them is not recorded", stream, n);
        return misfit(e);
    }
    if (!route) return 0;
    if (route->hash_version != ROUTE_HASH_VERSION) {
        err_set(e, CODE_FORMAT_UNSUPPORTED, "stream '%s' was dealt to lanes by hash version %d, and this sluice knows version %d", stream, route->hash_version, ROUTE_HASH_VERSION);
        return err_hint(e, "use the sluice that wrote it until the stream is at rest, then --apply-concurrency 1");
    }
    if (route->lanes != n || route->strangers) {
        err_set(e, CODE_MARK_MISMATCH, "stream '%s' has marks of %zu lanes, %llu of them not written under its routing, which has %u lanes", stream, n,
                (unsigned long long)route->strangers, route->lanes);
        return misfit(e);
    }
    return 0;
}

static int open_lanes(struct applier *a, unsigned lanes, const uint64_t *marks, size_t n, struct target_route *route, struct err *e) {
    struct lanes_opts lo = {.driver = a->o.driver, .target = a->o.target, .state = a->o.state, .tables = a->o.tables, .lanes = lanes, .alone_rows = a->o.alone_rows};
    if (batch_init(&a->batch[2], MiB(1), e) < 0 || lanes_open(&lo, a->lane, marks, n, route, &a->lanes, e) < 0) return -1;
    a->lane = NULL;
    return 0;
}

int applier_open(const struct applier_opts *o, struct applier **out, struct err *e) {
    struct applier *a = mem_alloc(sizeof *a, e);
    bool fk = false, routed = false;
    uint64_t marks[ROUTE_LANES_MAX] = {0};
    size_t n = ROUTE_LANES_MAX;
    unsigned lanes;
    struct target_route route = {0};
    if (!a) return -1;
    a->o = *o;
    if (!a->o.window_bytes) a->o.window_bytes = WINDOW_BYTES;
    const struct target_ops *t = o->driver->target;
    if (lanes_count(o->driver, o->lanes, &lanes, e) < 0) goto bad;
    for (int i = 0; i < 2; i++)
        if (batch_init(&a->batch[i], MiB(1), e) < 0) goto bad;
    if (t->marks_read(o->target, o->state->stream_id, marks, &n, e) < 0) goto bad;
    if (t->route_read && t->route_read(o->target, o->state->stream_id, &route, &routed, e) < 0) goto bad;
    if (check_marks(o, marks, n, routed ? &route : NULL, e) < 0) goto bad;
    a->seq = n ? marks[0] : o->state->seq;
    for (size_t i = 1; i < n; i++)
        if (marks[i] < a->seq) a->seq = marks[i];
    if (t->lane_open(o->target, o->state, 0, &a->lane, e) < 0) goto bad;
    if (lanes > 1 || routed) {
        if (open_lanes(a, lanes, marks, n, routed ? &route : NULL, e) < 0) goto bad;
    } else {
        if (t->lane_fk_enforced && t->lane_fk_enforced(a->lane, &fk, e) < 0) goto bad;
        if (!(a->window = window_new(o->tables, fk, e))) goto bad;
    }
    mem_free(route.rules);
    *out = a;
    return 0;
bad:
    mem_free(route.rules);
    applier_close(a);
    return -1;
}

void applier_close(struct applier *a) {
    if (!a) return;
    lanes_close(a->lanes); /* before the batches that they may still read */
    if (a->lane) a->o.driver->target->lane_close(a->lane);
    window_free(a->window);
    for (int i = 0; i < BATCHES; i++) batch_free(&a->batch[i]);
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

/* What all lanes have, and what they did. */
static void follow_lanes(struct applier *a) {
    const struct lanes_stats *s = lanes_stats(a->lanes);
    a->seq = lanes_seq(a->lanes);
    a->stats.windows = s->windows;
    a->stats.shared = s->shared;
    a->stats.rows = s->put.rows;
    a->stats.missing = s->put.missing;
    a->stats.changes = s->put.changes;
    a->stats.replayed_ordered = s->put.replayed_ordered;
    a->stats.replayed_replaced = s->put.replayed_replaced;
}

static int lanes_at_rest(struct applier *a, struct err *e) {
    if (!a->lanes) return 0;
    int rc = lanes_wait(a->lanes, e);
    follow_lanes(a);
    return rc;
}

static int apply_window(struct applier *a, struct change *changes, size_t n, uint64_t seq, const char *link_id, struct err *e) {
    struct mark m;
    struct put_stats put = {0};
    if (FAULT("apply.before_window", e) < 0) return -1;
    if (a->lanes) { /* the window may still be in flight when this returns */
        int rc = lanes_window(a->lanes, changes, n, seq, link_id, e);
        follow_lanes(a);
        return rc;
    }
    mark_of(a, seq, link_id, &m);
    if (window_put(a->window, a->o.driver, a->lane, changes, n, &m, &put, e) < 0) return -1;
    a->stats.windows++;
    a->stats.rows += put.rows;
    a->stats.missing += put.missing;
    a->stats.changes += put.changes;
    a->stats.replayed_ordered += put.replayed_ordered;
    a->stats.replayed_replaced += put.replayed_replaced;
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

struct altering { const struct db_driver *driver; const struct shape *before, *after; const char *old_ns, *old_name, *ns, *name; };

static int alter(struct lane *lane, const struct mark *m, void *arg, struct err *e) {
    const struct altering *x = arg;
    return x->driver->target->table_alter(lane, x->before, x->after, x->old_ns, x->old_name, x->ns, x->name, m, e);
}

static int alter_table(struct applier *a, struct altering *x, const struct mark *m, struct err *e) {
    notify_long(true); /* the target may rewrite the table or build an index */
    int rc = a->lanes ? lanes_call(a->lanes, alter, x, m->seq, e) : alter(a->lane, m, x, e);
    notify_long(false);
    return rc;
}

/* A dropped table stays on the target until its name is needed. Its records end here. */
static int apply_shape(struct applier *a, struct change *c, struct err *e) {
    struct mark m;
    struct flow_table *t = tables_get(a->o.tables, c->table);
    if (lanes_at_rest(a, e) < 0) return -1;
    mark_of(a, c->seq, NULL, &m);
    if (t && c->seq <= t->skip_seq) return 0;
    if (!c->shape) {
        if (t) t->dropped = true;
        log_warn("the source dropped a table; the target keeps it", KV_STR("table", t ? t->name : "?"));
        if (a->lanes) lanes_reshaped(a->lanes, c->table);
        if (a->lanes ? lanes_window(a->lanes, NULL, 0, c->seq, NULL, e) < 0
                     : a->o.driver->target->lane_apply(a->lane, NULL, 0, &m, &(struct apply_result){0}, e) < 0)
            return -1;
        if (a->lanes) return lanes_at_rest(a, e);
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
    bool renamed = before && (strcmp(old_ns, t->ns) != 0 || strcmp(old_name, t->name) != 0);
    if ((!before || renamed) && make_room(a, t, e) < 0) goto out;
    if (FAULT("apply.before_shape", e) < 0) goto out;
    if (renamed) log_info("table renamed", KV_STR("from", old_name), KV_STR("to", t->name));
    if (a->lanes) lanes_reshaped(a->lanes, t->number);
    struct altering x = {.driver = a->o.driver, .before = before, .after = c->shape, .old_ns = old_ns ? old_ns : t->ns, .old_name = old_name ? old_name : t->name,
                         .ns = t->ns, .name = t->name};
    if (alter_table(a, &x, &m, e) < 0) {
        err_wrap(e, "shape change of table '%s.%s' at seq %llu", c->shape->ns, c->shape->name, (unsigned long long)c->seq);
        goto out;
    }
    if (a->lanes) follow_lanes(a);
    else moved(a, &m);
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
    int batches = a->lanes ? BATCHES : 2, turn = 0;
    struct batch *now = &a->batch[0], *next;
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
        turn = (turn + 1) % batches; /* lanes may still be at work on the one before `now` */
        next = &a->batch[turn];
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
            rc = lanes_at_rest(a, e);
            goto out;
        }
        now = next;
    }
    if (lanes_at_rest(a, e) < 0) goto out;
    if (!a->at_until) a->stats.links++;
    rc = 0;
out:
    link_reader_close(r);
    if (rc < 0) err_wrap(e, "link %llu", (unsigned long long)n);
    return rc;
}
