/* DESIGN.
 * 1. Lock-step: a window (a, b] is begun when every lane stands at a. Each lane commits its share with its mark b in one target
 * transaction; lanes without a share have their marks moved by the lowest lane that has one. A window with one share is therefore one
 * transaction, and moves the state row too.
 * 2. Nobody reads memory of rows that lanes still use: the caller keeps two batches, and lanes_wait is between a batch and its reuse.
 * 3. After a restart lanes may stand apart, at the frontier and at the highest mark. The window between is dealt again by the *recorded*
 * routing, and only lanes whose mark is behind take part; so rows without a key are written exactly once. Then, and at every place where
 * all stand together, the routing may change: it is recorded on the target, with every lane's row, before the first window that uses it.
 * 4. Barriers are applied alone, by lane 0, in one transaction that moves every mark: shape changes, and whole source transactions that
 * truncate a table or move a row from lane to lane. So are small windows: readers see whole transactions then, and it is one commit instead
 * of several.
 * 5. The state row moves to a link when every lane has committed the link's last window, WHERE epoch = ours.
 * 6. Every lane's transaction begins with its own row WHERE epoch = ours, so a takeover fences them all.
 * 7. A lane, its connection, its window and its bound tables belong to its thread while it works, and to the caller between lanes_wait and
 * the next window. */
#include "engine/flow/lanes.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/deal.h"
#include "engine/flow/notify.h"
#include "engine/flow/route.h"

#define AUTO_LANES 4
#define ALONE_ROWS 1000

typedef int (*call_fn)(struct lane *lane, const struct mark *m, void *arg, struct err *e);

struct worker {
    struct lanes *l;
    unsigned no;
    pthread_t thread;
    bool started, busy, flying; /* busy: under the lock; flying: has a part in the flight, the caller's */
    struct lane *lane;          /* NULL until its first work */
    struct window *window;
    struct target_table **bound;
    size_t nbound;
    uint64_t seq; /* its mark */
    /* the job: written by the caller before `busy`, by the worker until it takes it back */
    struct change *changes;
    size_t n;
    struct window_share share;
    struct mark mark;
    unsigned also[ROUTE_LANES_MAX];
    call_fn fn;
    void *arg;
    int rc;
    struct err err;
    struct put_stats put;
};
struct lanes {
    struct lanes_opts o;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_mutex_t turn; /* with failure points on, lanes commit one after the other */
    bool quit, fk_enforced;
    unsigned n;    /* lanes in force */
    unsigned room; /* workers there are */
    struct worker *w;
    struct target_route route; /* recorded; route_epoch 0: none */
    struct route rules;        /* in force; lanes 0: not read yet */
    bool reroute;              /* look again where all stand together */
    struct deal deal;          /* of the window in flight */
    uint64_t flight_seq;
    bool flight, failed;
    bool link_after; /* the state row moves when this flight has landed */
    char link_id[sizeof((struct target_state *)0)->link_id];
    struct lanes_stats stats;
};

/* ---- one lane's share ------------------------------------------------------------------------------------------------ */

static int work_on(struct worker *k, struct err *e) {
    const struct db_driver *d = k->l->o.driver;
    if (fault_on) pthread_mutex_lock(&k->l->turn);
    int rc = FAULT("lanes.before_share", e);
    if (rc == 0) {
        window_share(k->window, &k->share);
        rc = k->fn ? k->fn(k->lane, &k->mark, k->arg, e) : window_put(k->window, d, k->lane, k->changes, k->n, &k->mark, &k->put, e);
    }
    if (rc == 0) rc = FAULT("lanes.after_share", e);
    if (fault_on) pthread_mutex_unlock(&k->l->turn);
    return rc;
}

static void *worker_main(void *arg) {
    struct worker *k = arg;
    struct lanes *l = k->l;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!k->busy && !l->quit)
            pthread_cond_wait(&l->work, &l->lock);
        if (!k->busy) break;
        pthread_mutex_unlock(&l->lock);
        struct err e = {0};
        int rc = work_on(k, &e);
        pthread_mutex_lock(&l->lock);
        k->rc = rc;
        k->err = e;
        k->busy = false;
        pthread_cond_signal(&l->done);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------------------------------- */

int lanes_count(const struct db_driver *driver, uint64_t asked, unsigned *lanes, struct err *e) {
    *lanes = 1;
    if (asked > ROUTE_LANES_MAX)
        return err_set(e, CODE_USAGE, "--apply-concurrency takes at most %d, not %llu", ROUTE_LANES_MAX, (unsigned long long)asked);
    if (asked == 1) return 0;
    if (driver->caps & CAP_CONCURRENT_WRITERS && driver->target->route_write) {
        *lanes = asked ? (unsigned)asked : AUTO_LANES;
        return 0;
    }
    if (asked == 0) log_info("applying with one lane", KV_STR("driver", driver->name), KV_STR("why", "this target takes one writer at a time"));
    else log_info("applying with one lane", KV_U64("asked", asked), KV_STR("driver", driver->name),
             KV_STR("why", "this target takes one writer at a time"));
    return 0;
}

static void worker_free(struct worker *k) {
    const struct target_ops *t = k->l->o.driver->target;
    for (size_t i = 0; i < k->nbound; i++)
        if (k->bound[i]) t->unbind(k->bound[i]);
    mem_free(k->bound);
    window_free(k->window);
    if (k->lane) t->lane_close(k->lane);
}

void lanes_close(struct lanes *l) {
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (unsigned i = 0; i < l->room; i++)
        if (l->w[i].started) pthread_join(l->w[i].thread, NULL);
    for (unsigned i = 0; i < l->room; i++)
        worker_free(&l->w[i]);
    mem_free(l->w);
    deal_free(&l->deal);
    mem_free(l->route.rules);
    route_free(&l->rules);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->turn);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->done);
    mem_free(l);
}

int lanes_open(const struct lanes_opts *o, struct lane *lane0, const uint64_t *marks, size_t nmarks, struct target_route *route,
               struct lanes **out, struct err *e) {
    struct lanes *l = mem_alloc(sizeof *l, e);
    if (!l) return -1;
    l->o = *o;
    if (!l->o.alone_rows) l->o.alone_rows = ALONE_ROWS;
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->turn, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    l->n = nmarks ? (unsigned)nmarks : 1;
    l->reroute = true;
    unsigned room = l->n > o->lanes ? l->n : o->lanes;
    if (!(l->w = mem_alloc(room * sizeof *l->w, e))) goto bad;
    for (; l->room < room; l->room++) {
        struct worker *k = &l->w[l->room];
        k->l = l;
        k->no = l->room;
        k->seq = l->room < nmarks ? marks[l->room] : o->state->seq;
    }
    if (o->driver->target->lane_fk_enforced && o->driver->target->lane_fk_enforced(lane0, &l->fk_enforced, e) < 0) goto bad;
    if (route) {
        l->route = *route;
        route->rules = NULL;
    }
    l->w[0].lane = lane0;
    *out = l;
    return 0;
bad:
    lanes_close(l);
    return -1;
}

uint64_t lanes_seq(const struct lanes *l) {
    uint64_t low = l->w[0].seq;
    for (unsigned i = 1; i < l->n; i++)
        if (l->w[i].seq < low) low = l->w[i].seq;
    return low;
}

uint64_t lanes_high(const struct lanes *l) {
    uint64_t high = l->w[0].seq;
    for (unsigned i = 1; i < l->n; i++)
        if (l->w[i].seq > high) high = l->w[i].seq;
    return high;
}

const struct lanes_stats *lanes_stats(const struct lanes *l) {
    return &l->stats;
}

/* ---- flights --------------------------------------------------------------------------------------------------------- */

static void mark_of(const struct lanes *l, uint64_t seq, struct mark *m) {
    memset(m, 0, sizeof *m);
    m->epoch = l->o.state->epoch;
    m->route_epoch = l->route.route_epoch;
    m->seq = seq;
}

static void state_moves(struct lanes *l, uint64_t seq) {
    memcpy(l->o.state->link_id, l->link_id, sizeof l->link_id);
    l->o.state->seq = seq;
    l->link_id[0] = 0;
}

/* Invariant 5. */
static int move_state(struct lanes *l, uint64_t seq, struct err *e) {
    struct mark m;
    struct apply_result r;
    mark_of(l, seq, &m);
    m.link_id = l->link_id;
    m.state_seq = seq;
    if (FAULT("lanes.before_state", e) < 0) return -1;
    if (l->o.driver->target->lane_apply(l->w[0].lane, NULL, 0, &m, &r, e) < 0) return -1;
    return FAULT("lanes.after_state", e);
}

static bool any_busy(const struct lanes *l) {
    for (unsigned i = 0; i < l->n; i++)
        if (l->w[i].busy) return true;
    return false;
}

static void await(struct lanes *l) {
    pthread_mutex_lock(&l->lock);
    while (any_busy(l)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        if (pthread_cond_timedwait(&l->done, &l->lock, &until) != 0) notify_alive(); /* a lane's server may take its time */
    }
    pthread_mutex_unlock(&l->lock);
}

/* Of several lanes' errors the one that a restart does not clear; else the first. */
static bool worse(const struct err *a, const struct err *b) {
    return a->class != ERR_RETRY && b->class == ERR_RETRY;
}

static int land(struct lanes *l, struct err *e) {
    const struct worker *bad = NULL;
    unsigned shares = 0;
    for (unsigned i = 0; i < l->n; i++) {
        struct worker *k = &l->w[i];
        if (!k->flying) continue;
        k->flying = false;
        shares++;
        if (k->rc == 0) {
            for (unsigned a = 0; a < k->mark.nalso; a++)
                l->w[k->also[a]].seq = k->mark.seq;
            k->seq = k->mark.seq;
            l->stats.put.changes += k->put.changes;
            l->stats.put.rows += k->put.rows;
            l->stats.put.missing += k->put.missing;
            l->stats.put.replayed_ordered += k->put.replayed_ordered;
            l->stats.put.replayed_replaced += k->put.replayed_replaced;
        } else if (!bad || worse(&k->err, &bad->err)) bad = k;
    }
    l->stats.windows++;
    l->stats.shared += shares > 1;
    if (!bad) return 0;
    *e = bad->err;
    if (shares > 1) err_wrap(e, "lane %u", bad->no);
    return -1;
}

int lanes_wait(struct lanes *l, struct err *e) {
    if (l->failed) return err_set(e, CODE_INTERNAL, "lanes are used after one failed");
    if (!l->flight) return 0;
    await(l);
    l->flight = false;
    if (land(l, e) < 0 || (l->link_after && move_state(l, l->flight_seq, e) < 0)) {
        l->failed = true;
        return -1;
    }
    if (l->link_id[0]) state_moves(l, l->flight_seq);
    l->link_after = false;
    return 0;
}

static int ready(struct worker *k, struct err *e) {
    struct lanes *l = k->l;
    const struct target_ops *t = l->o.driver->target;
    if (!k->lane && t->lane_open(l->o.target, l->o.state, k->no, &k->lane, e) < 0) return -1;
    if (!k->window && !(k->window = window_new(l->o.tables, l->fk_enforced, e))) return -1;
    if (k->started) return 0;
    if (pthread_create(&k->thread, NULL, worker_main, k) != 0) return err_set(e, CODE_NO_MEMORY, "a lane's thread cannot be started");
    k->started = true;
    return 0;
}

/* The table's binding of this lane: made here, by the one thread that owns the target. */
static int bind_for(struct worker *k, struct flow_table *t, struct err *e) {
    if (t->number < k->nbound && k->bound[t->number]) return 0;
    if (t->number >= k->nbound) {
        size_t n = (size_t)t->number + 32;
        struct target_table **v = mem_resize(k->bound, n * sizeof *v, e);
        if (!v) return -1;
        memset(v + k->nbound, 0, (n - k->nbound) * sizeof *v);
        k->bound = v;
        k->nbound = n;
    }
    return k->l->o.driver->target->bind(k->l->o.target, t->shape, t->ns, t->name, &k->bound[t->number], e);
}

void lanes_reshaped(struct lanes *l, uint32_t table) {
    for (unsigned i = 0; i < l->room; i++) {
        if (table >= l->w[i].nbound || !l->w[i].bound[table]) continue;
        l->o.driver->target->unbind(l->w[i].bound[table]);
        l->w[i].bound[table] = NULL;
    }
    l->reroute = true;
}

static void post(struct worker *k, struct change *changes, size_t n, const uint8_t *lane_of, bool leader) {
    k->changes = changes;
    k->n = n;
    k->share = (struct window_share){.lane_of = lane_of, .lane = (uint8_t)k->no, .leader = leader, .bound = k->bound, .nbound = k->nbound};
    k->rc = 0;
    k->flying = true;
    memset(&k->put, 0, sizeof k->put);
    pthread_mutex_lock(&k->l->lock);
    k->busy = true;
    pthread_cond_broadcast(&k->l->work);
    pthread_mutex_unlock(&k->l->lock);
}

/* ---- one window ------------------------------------------------------------------------------------------------------ */

/* Bind for lane k what the changes need that it takes (all of them when lane_of is NULL). */
static int bind_all(struct worker *k, struct change *changes, size_t n, const uint8_t *lane_of, struct err *e) {
    uint32_t last = 0;
    for (size_t i = 0; i < n; i++) {
        const struct change *c = &changes[i];
        if (lane_of && lane_of[i] != k->no) continue;
        if (c->op == CHANGE_TRUNCATE) {
            for (uint32_t t = 0; t < c->ntables; t++) {
                struct flow_table *ft = deal_table(k->l->o.tables, c->tables[t]->table, c->seq);
                if (ft && !ft->dropped && bind_for(k, ft, e) < 0) return -1;
            }
            continue;
        }
        if (c->op != CHANGE_INSERT && c->op != CHANGE_UPDATE && c->op != CHANGE_DELETE) continue;
        if (c->table == last) continue;
        struct flow_table *ft = deal_table(k->l->o.tables, c->table, c->seq);
        if (!ft || ft->dropped) continue;
        if (bind_for(k, ft, e) < 0) return -1;
        last = c->table;
    }
    return 0;
}

/* Begin a flight: lanes in `shares` get theirs (lane_of NULL: the one lane gets all), those behind that have none are moved along. */
static int fly(struct lanes *l, struct change *changes, size_t n, const uint8_t *lane_of, bool *shares, uint64_t seq, const char *link_id,
               struct err *e) {
    unsigned leader = l->n, count = 0, nalso = 0;
    for (unsigned i = 0; i < l->n; i++) {
        if (shares[i] && count++ == 0) leader = i;
    }
    if (!count) { /* marks alone */
        for (leader = 0; leader + 1 < l->n && l->w[leader].seq >= seq; leader++) {}
        if (l->w[leader].seq >= seq) leader = 0;
        shares[leader] = true;
        count = 1;
    }
    for (unsigned i = 0; i < l->n; i++)
        if (shares[i] && (ready(&l->w[i], e) < 0 || bind_all(&l->w[i], changes, n, lane_of, e) < 0)) return -1;
    struct worker *head = &l->w[leader];
    for (unsigned i = 0; i < l->n; i++)
        if (!shares[i] && l->w[i].seq < seq) head->also[nalso++] = i;
    l->link_after = link_id && count > 1;
    snprintf(l->link_id, sizeof l->link_id, "%s", link_id ? link_id : "");
    l->flight = true;
    l->flight_seq = seq;
    for (unsigned i = 0; i < l->n; i++) {
        struct worker *k = &l->w[i];
        if (!shares[i]) continue;
        mark_of(l, seq, &k->mark);
        k->fn = NULL;
        if (k == head) {
            k->mark.also = k->also;
            k->mark.nalso = nalso;
            if (link_id && count == 1) {
                k->mark.link_id = l->link_id;
                k->mark.state_seq = seq;
            }
        }
        post(k, changes, n, lane_of, k == head);
    }
    return 0;
}

/* ---- routing --------------------------------------------------------------------------------------------------------- */

static void close_from(struct lanes *l, unsigned first) {
    for (unsigned i = first; i < l->room; i++) {
        struct worker *k = &l->w[i];
        if (k->lane) l->o.driver->target->lane_close(k->lane);
        k->lane = NULL;
    }
}

/* Invariant 3, second half. All lanes stand at one seq. */
static int route_now(struct lanes *l, struct err *e) {
    struct route rules = {0};
    struct target_route next = {.lanes = l->o.lanes, .hash_version = ROUTE_HASH_VERSION, .seq = lanes_seq(l)};
    const struct target_ops *t = l->o.driver->target;
    bool one = l->o.lanes == 1;
    if (!one && route_make(&rules, l->o.lanes, l->o.tables, l->fk_enforced, e) < 0) return -1;
    if (one ? !l->route.route_epoch && l->n == 1
            : l->route.route_epoch && l->n == l->o.lanes && l->route.hash_version == ROUTE_HASH_VERSION &&
                  strcmp(rules.rules, l->route.rules) == 0) {
        route_free(&l->rules);
        l->rules = rules;
        l->rules.lanes = l->n;
        l->reroute = false;
        return 0;
    }
    next.route_epoch = one ? 0 : l->route.route_epoch + 1;
    next.rules = rules.rules;
    if (FAULT("lanes.before_route", e) < 0 || t->route_write(l->o.target, l->o.state, &next, e) < 0 || FAULT("lanes.after_route", e) < 0)
        goto bad;
    char *copy = one ? NULL : mem_strdup(rules.rules, e);
    if (!one && !copy) goto bad;
    mem_free(l->route.rules);
    l->route = next;
    l->route.rules = copy;
    route_free(&l->rules);
    l->rules = rules;
    l->rules.lanes = l->o.lanes;
    for (unsigned i = 0; i < l->o.lanes; i++)
        l->w[i].seq = next.seq;
    close_from(l, l->o.lanes);
    l->n = l->o.lanes;
    l->reroute = false;
    if (one) log_info("applying with one lane", KV_U64("from_seq", next.seq));
    else log_info("applying with lanes", KV_U64("lanes", l->n), KV_U64("route_epoch", next.route_epoch), KV_U64("from_seq", next.seq));
    return 0;
bad:
    route_free(&rules);
    return -1;
}

/* ---- windows --------------------------------------------------------------------------------------------------------- */

static int apart(struct lanes *l, const char *what, struct err *e) {
    err_set(e, CODE_MARK_MISMATCH, "lanes of stream '%s' stand at seq %llu and %llu with %s between", l->o.state->stream_id,
            (unsigned long long)lanes_seq(l), (unsigned long long)lanes_high(l), what);
    err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
    return err_hint(e, "somebody changed sluice_cdc_lane or sluice_cdc_route; rebuild with --reset-target-data");
}

/* Invariant 3, first half: one part of the window that an earlier run did not finish. */
static int replay(struct lanes *l, struct change *changes, size_t n, uint64_t seq, struct err *e) {
    bool shares[ROUTE_LANES_MAX];
    if (!l->rules.lanes && route_parse(&l->rules, l->n, l->route.rules, l->o.tables, e) < 0) return -1;
    if (deal_window(&l->deal, &l->rules, l->o.tables, changes, n, e) < 0) return -1;
    deal_shares(&l->deal, 0, n, shares, l->n);
    if (l->deal.barrier) return apart(l, "a change that concerns several lanes", e);
    for (unsigned i = 0; i < l->n; i++)
        if (l->w[i].seq >= seq) shares[i] = false;
    log_info("lanes that were cut short catch up", KV_U64("from_seq", lanes_seq(l)), KV_U64("to_seq", seq));
    if (fly(l, changes, n, l->deal.lane_of, shares, seq, NULL, e) < 0) return -1;
    return lanes_wait(l, e);
}

/* Changes [from, to) of the window that was dealt. */
static int together(struct lanes *l, struct change *changes, size_t from, size_t to, uint64_t seq, const char *link_id, struct err *e) {
    bool shares[ROUTE_LANES_MAX];
    deal_shares(&l->deal, from, to, shares, l->n);
    return fly(l, changes + from, to - from, l->deal.lane_of + from, shares, seq, link_id, e);
}

static int alone(struct lanes *l, struct change *changes, size_t n, uint64_t seq, const char *link_id, struct err *e) {
    bool shares[ROUTE_LANES_MAX] = {true};
    return fly(l, changes, n, NULL, shares, seq, link_id, e);
}

static int cut_at_barriers(struct lanes *l, struct change *changes, size_t n, uint64_t seq, const char *link_id, struct err *e) {
    for (size_t i = 0; i < n;) {
        size_t from, to;
        if (!deal_span(&l->deal, changes, i, l->o.alone_rows, &from, &to))
            return lanes_wait(l, e) < 0 ? -1 : together(l, changes, i, n, seq, link_id, e);
        if (from > i && (lanes_wait(l, e) < 0 || together(l, changes, i, from, changes[from - 1].seq, NULL, e) < 0)) return -1;
        bool last = to == n;
        if (lanes_wait(l, e) < 0 || alone(l, changes + from, to - from, last ? seq : changes[to - 1].seq, last ? link_id : NULL, e) < 0)
            return -1;
        i = to;
    }
    return 0;
}

int lanes_window(struct lanes *l, struct change *changes, size_t n, uint64_t seq, const char *link_id, struct err *e) {
    if (lanes_wait(l, e) < 0) return -1;
    while (lanes_seq(l) < lanes_high(l)) {
        uint64_t high = lanes_high(l), to = seq < high ? seq : high;
        size_t k = 0;
        if (link_id && seq < high) return apart(l, "a link's end", e);
        if (lanes_seq(l) >= to) return 0; /* nothing that is not applied */
        while (k < n && changes[k].seq <= to)
            k++;
        if (replay(l, changes, k, to, e) < 0) return -1;
        changes += k;
        n -= k;
        if (seq == to && !link_id) return 0;
    }
    if (l->reroute && route_now(l, e) < 0) return -1;
    if (l->n == 1) return alone(l, changes, n, seq, link_id, e);
    if (deal_window(&l->deal, &l->rules, l->o.tables, changes, n, e) < 0) return -1;
    if (l->deal.rows < l->o.alone_rows) return alone(l, changes, n, seq, link_id, e);
    if (l->deal.barrier) return cut_at_barriers(l, changes, n, seq, link_id, e);
    return together(l, changes, 0, n, seq, link_id, e);
}

int lanes_call(struct lanes *l, call_fn fn, void *arg, uint64_t seq, struct err *e) {
    struct worker *k = &l->w[0];
    unsigned nalso = 0;
    if (lanes_wait(l, e) < 0) return -1;
    if (lanes_seq(l) < lanes_high(l)) return apart(l, "a schema change", e);
    if (l->reroute && l->n != l->o.lanes && route_now(l, e) < 0) return -1;
    if (ready(k, e) < 0) return -1;
    for (unsigned i = 1; i < l->n; i++)
        k->also[nalso++] = i;
    mark_of(l, seq, &k->mark);
    k->mark.also = k->also;
    k->mark.nalso = nalso;
    k->fn = fn;
    k->arg = arg;
    l->flight = true;
    l->flight_seq = seq;
    l->link_after = false;
    l->link_id[0] = 0;
    post(k, NULL, 0, NULL, false);
    return lanes_wait(l, e);
}
