/* The broker: a chain's links into a target, for as long as it runs. DESIGN.
 * 1. Where to begin is never guessed: a state row, or an operator's word (--reset-target-data, --at-chain-id).
 * 2. What the row says is checked against the chain: lineage, id at its place, no hole. Each way it can disagree has its own refusal.
 * 3. A stream has one writer: the control DB's lock (75), then the target's epoch, raised at every start (3).
 * 4. A failed tick closes every connection; the next one begins from what the target says, never from memory. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/brokerplace.h"
#include "engine/flow/flow.h"
#include "engine/flow/rebuild.h"
#include "engine/flow/until.h"

#define HEARTBEAT_EVERY_US (10 * INT64_C(1000000))
#define MIRROR_EVERY_US INT64_C(1000000)

struct tail { /* a tailing broker's open connections: job.ctx */
    struct job *j;
    struct chain *chain;
    struct target *target;
    struct target_state state;
    struct tables tables;
    struct applier *applier;
    char target_identity[128];
    int64_t next_heartbeat_us, next_mirror_us;
};

/* ---- heartbeats and mirrors ---- */

static void put_heartbeat(struct job *j) {
    struct err e = {0};
    j->consumer.seen_us = clock_wall_us();
    if (chain_consumer_put(j->store, &j->consumer, &e) == 0) {
        j->store_read_only = false;
        return;
    }
    if (j->store_read_only || (e.class == ERR_RETRY && e.code != CODE_IO)) return; /* said already, or passing: it is tried again */
    j->store_read_only = true;
    log_warn("the store cannot be written: this consumer is not registered there, and is stopped through its row on the target", KV_STR("err", e.msg));
}

static void heartbeat(struct job *j, const char *target_identity, const struct target_state *st) {
    struct consumer c = {.seq = st->seq, .pid = getpid()};
    snprintf(c.stream_id, sizeof c.stream_id, "%s", j->entity.name);
    snprintf(c.target, sizeof c.target, "%s", target_identity);
    snprintf(c.link_id, sizeof c.link_id, "%s", st->link_id);
    gethostname(c.host, sizeof c.host - 1);
    j->consumer = c;
    put_heartbeat(j);
}

void broker_farewell(struct job *j) {
    if (!j->consumer.stream_id[0]) return;
    j->consumer.stopped_us = clock_wall_us();
    put_heartbeat(j);
}

static void tail_free(void *p) {
    struct tail *t = p;
    if (!t) return;
    t->j->stopper.target = NULL;
    if (t->applier && t->j->consumer.stream_id[0]) { /* what the last word will say */
        t->j->consumer.seq = t->state.seq;
        snprintf(t->j->consumer.link_id, sizeof t->j->consumer.link_id, "%s", t->state.link_id);
    }
    applier_close(t->applier);
    tables_free(&t->tables);
    if (t->target) t->j->target_driver->target->close(t->target);
    chain_close(t->chain);
    mem_free(t);
}

/* hop 8/8: the control DB learns where the target stands, with bytes and age of what is not applied yet.
 * The walk is bounded: a longer backlog is a lower bound. */
static void mirror(struct tail *t) {
    const struct chain_info *ci = chain_info(t->chain);
    struct err e = {0};
    struct link_info at, li;
    struct mirror m = {.link_id = t->state.link_id, .seq = applier_seq(t->applier), .lag_us = -1, .rows = applier_stats(t->applier)->rows};
    if (chain_find(t->chain, t->state.link_id, &at, &e) < 0) return;
    m.lag_links = ci->tip.n - at.n;
    m.lag_us = 0;
    for (uint64_t n = at.n + 1; n <= ci->tip.n && n <= at.n + 256; n++) {
        if (chain_link(t->chain, n, &li, &e) < 0) return;
        if (li.opening) { /* nothing to apply */
            m.lag_links--;
            continue;
        }
        m.lag_bytes += li.bytes;
        if (m.lag_us == 0) m.lag_us = clock_wall_us() - li.time_us;
    }
    position_mirror(t->j->control, &t->j->entity, &m);
}

static void housekeep(struct tail *t, bool now) {
    int64_t us = clock_mono_us();
    if (now || us >= t->next_mirror_us) {
        t->next_mirror_us = us + MIRROR_EVERY_US;
        mirror(t);
    }
    if (now || us >= t->next_heartbeat_us) {
        t->next_heartbeat_us = us + HEARTBEAT_EVERY_US;
        heartbeat(t->j, t->target_identity, &t->state);
    }
}

/* ---- tailing ---- */

static int open_tail(struct job *j, struct tail **out, struct err *e) {
    struct tail *t = mem_alloc(sizeof *t, e);
    const struct target_ops *ops = j->target_driver ? j->target_driver->target : NULL;
    struct link_info at;
    bool found;
    if (!t) return -1;
    t->j = j;
    if (job_chain(j, &t->chain, e) < 0) goto bad;
    if (job_target(j, j->entity.name, &t->target, e) < 0) goto bad;
    if (ops->identity(t->target, t->target_identity, e) < 0) goto bad;
    if (broker_check_consumer(j->store, j->entity.name, t->target_identity, e) < 0) goto bad;
    if (ops->control_ensure(t->target, e) < 0) goto bad;
    if (ops->state_read(t->target, j->entity.name, &t->state, &found, e) < 0) goto bad;
    if (options_flagged(&j->options, "at-chain-id") && !j->place_checked) {
        if (found && !broker_adopting(&t->state) && broker_check_finished(&t->state, e) < 0) goto bad;
        if (broker_adopt(j, t->chain, t->target, &t->state, found, e) < 0) goto bad;
    } else if (!found) {
        broker_refuse_unknown(j->entity.name, e);
        goto bad;
    }
    j->place_checked = true;
    if (broker_place(t->chain, &t->state, &at, e) < 0) goto bad;
    if (ops->takeover(t->target, &t->state, e) < 0) goto bad;
    /* Another writer may have moved it up to the moment it was fenced. */
    if (broker_place(t->chain, &t->state, &at, e) < 0) goto bad;
    if (tables_init(&t->tables, j->target_driver, t->target, &j->filter, j->map_ns, j->nmap_ns, e) < 0) goto bad;
    stopper_target(&j->stopper, j->target_driver, t->target, t->state.stop_requested_us);
    struct applier_opts ao = {.driver = j->target_driver, .target = t->target, .state = &t->state, .chain = t->chain, .tables = &t->tables,
                              .stopper = &j->stopper, .lanes = j->options.apply_concurrency};
    if (applier_open(&ao, &t->applier, e) < 0) goto bad;
    if (tables_at(&t->tables, t->chain, at.n + 1, applier_seq(t->applier), e) < 0) goto bad;
    if (broker_check_tables(j, t->target, &t->tables, chain_info(t->chain)->source_identity, e) < 0) goto bad;
    heartbeat(j, t->target_identity, &t->state);
    t->next_heartbeat_us = clock_mono_us() + HEARTBEAT_EVERY_US;
    *out = t;
    return 0;
bad:
    tail_free(t);
    return -1;
}

/* How far this tick may go in link n: --until ends the run there, --apply-delay only the tick. *seq 0: the whole link. */
static int bound(struct job *j, struct tail *t, uint64_t n, uint64_t *seq, bool *ends, struct err *e) {
    struct until u = {0};
    uint64_t at;
    bool whole;
    *seq = 0;
    *ends = false;
    if (j->options.until) {
        struct err no_time = {0};
        if (until_time_parse(j->options.until, &u.time_us, &no_time) < 0 && pos_set(&u.pos, chain_info(t->chain)->source_engine, j->options.until, e) < 0)
            return err_set(e, CODE_USAGE, "--until is neither a time nor a position of this chain's source: '%s'", j->options.until);
        if (until_cut(t->chain, n, &u, &at, &whole, e) < 0) return -1;
        if (!whole) *seq = at;
        *ends = !whole;
    }
    if (j->options.apply_delay_us) {
        u = (struct until){.time_us = clock_wall_us() - j->options.apply_delay_us};
        if (until_cut(t->chain, n, &u, &at, &whole, e) < 0) return -1;
        if (!whole && (!*ends || at < *seq)) {
            *seq = at;
            *ends = false;
        }
        if (!whole && at <= applier_seq(t->applier)) *seq = at ? at : 1;
    }
    return 0;
}

/* One link, as far as the bounds let it. *more: the tick goes on with the next. */
static int tail_link(struct job *j, struct tail *t, uint64_t n, bool *stopped, bool *more, struct err *e) {
    uint64_t seq;
    bool ends;
    *more = false;
    if (bound(j, t, n, &seq, &ends, e) < 0) return -1;
    applier_until(t->applier, seq);
    if (seq == 0 || seq > applier_seq(t->applier)) {
        if (applier_link(t->applier, n, stopped, e) < 0) return -1;
        *more = !*stopped && seq == 0;
    }
    if (ends && !*stopped && applier_seq(t->applier) >= seq) {
        stopper_say(&j->stopper, "until");
        *stopped = true;
    }
    return 0;
}

int step_broker_tail(struct job *j, struct step_result *r, struct err *e) {
    struct tail *t = j->ctx;
    struct link_info at, li;
    bool changed, stopped = false;
    if (!t) {
        if (open_tail(j, &t, e) < 0) return -1;
        j->ctx = t;
        j->ctx_free = tail_free;
    } else if (chain_refresh(t->chain, &changed, e) < 0) {
        return -1;
    }
    if (broker_place(t->chain, &t->state, &at, e) < 0) return -1;
    uint64_t before = applier_stats(t->applier)->changes, links = 0;
    bool more = true;
    for (uint64_t n = at.n + 1; n < chain_info(t->chain)->nlinks && !stopped && more; n++) {
        if (chain_link(t->chain, n, &li, e) < 0) return -1;
        if (li.opening) continue;
        if (tail_link(j, t, n, &stopped, &more, e) < 0) return -1;
        if (more) links++;
        housekeep(t, false);
        if (stopper_asked(&j->stopper)) stopped = true;
    }
    const struct applier_stats *s = applier_stats(t->applier);
    snprintf(j->result.id, sizeof j->result.id, "%s", t->state.link_id);
    snprintf(j->result.lineage, sizeof j->result.lineage, "%s", t->state.lineage);
    j->result.seq = t->state.seq;
    j->result.links = s->links;
    j->result.changes = s->changes;
    j->result.rows = s->rows;
    j->result.missing = s->missing;
    r->idle = links == 0;
    housekeep(t, links > 0 || stopped || t->next_mirror_us == 0);
    snprintf(r->said, sizeof r->said, "%llu links, %llu changes; at %s", (unsigned long long)links, (unsigned long long)(s->changes - before), t->state.link_id);
    return FAULT("broker.after_tick", e);
}

int step_broker_start(struct job *j, struct step_result *r, struct err *e) {
    struct chain *chain = NULL;
    struct target *target = NULL;
    struct target_state st = {0};
    struct link_info at;
    char identity[128];
    bool found;
    int rc = -1;
    if (j->options.reset && j->options.at_chain_id) return err_set(e, CODE_USAGE, "--reset-target-data and --at-chain-id exclude each other");
    if (job_chain(j, &chain, e) < 0 || job_target(j, j->entity.name, &target, e) < 0) goto out;
    const struct target_ops *ops = j->target_driver->target;
    if (ops->identity(target, identity, e) < 0 || broker_check_consumer(j->store, j->entity.name, identity, e) < 0) goto out;
    if (ops->state_read(target, j->entity.name, &st, &found, e) < 0) goto out;
    if (j->options.reset) {
        r->event = "reset";
        rc = 0;
        goto out;
    }
    if (found && !(j->options.at_chain_id && broker_adopting(&st)) && broker_check_finished(&st, e) < 0) goto out;
    if (j->options.at_chain_id) {
        if (ops->control_ensure(target, e) < 0 || broker_adopt(j, chain, target, &st, found, e) < 0) goto out;
        r->event = found ? "warm" : "adopt";
    } else if (found) {
        if (broker_place(chain, &st, &at, e) < 0) goto out;
        r->event = "warm";
    } else {
        broker_refuse_unknown(j->entity.name, e);
        goto out;
    }
    j->place_checked = true;
    snprintf(r->detail, sizeof r->detail, "{\"id\":\"%s\",\"seq\":%llu}", st.link_id, (unsigned long long)st.seq);
    snprintf(r->said, sizeof r->said, "begins at %s", st.link_id);
    rc = 0;
out:
    if (target) j->target_driver->target->close(target);
    chain_close(chain);
    return rc;
}

/* Everything that can refuse runs in rebuild_plan and chain_verify, before the first drop. */
int step_broker_reset(struct job *j, struct step_result *r, struct err *e) {
    struct target_state st = {0}, was = {0};
    struct rebuild rb = {.job = j, .state = &st, .stopper = &j->stopper, .parallelism = (unsigned)j->options.table_parallelism};
    struct verify_report vr = {0};
    char identity[128], pinned[CHAIN_ID];
    uint64_t pinned_seq;
    bool found, stopped = false;
    int rc = -1;
    if (job_chain(j, &rb.chain, e) < 0 || job_target(j, j->entity.name, &rb.target, e) < 0) goto out;
    const struct target_ops *ops = j->target_driver->target;
    if (ops->identity(rb.target, identity, e) < 0 || broker_check_consumer(j->store, j->entity.name, identity, e) < 0) goto out;
    if (ops->state_read(rb.target, j->entity.name, &was, &found, e) < 0) goto out;
    bool unfinished = found && broker_check_finished(&was, &(struct err){0}) < 0;
    bool of_this_chain = found && strcmp(was.lineage, chain_info(rb.chain)->lineage) == 0;
    if (!j->options.reset && !(unfinished && of_this_chain)) {
        /* It was asked for, not confirmed, and is not asked for any more: nothing was changed. */
        r->event = "cancelled";
        rc = 0;
        goto out;
    }
    if (broker_pin(rb.chain, found ? &was : NULL, &rb.to, e) < 0) goto out;
    if (found && strcmp(was.phase, "restoring") == 0 && rebuild_pinned(&was, pinned, &pinned_seq, &(struct err){0}) == 0 && strcmp(pinned, rb.to.id) == 0)
        rebuild_began_with(&was, rb.segment);
    if (rebuild_plan(&rb, true, e) < 0) goto out;
    if (!of_this_chain || strcmp(was.phase, "restoring") != 0) {
        log_info("the whole chain is verified before anything is dropped", KV_STR("to", rb.to.id));
        if (chain_verify(rb.chain, false, &vr, e) < 0) goto out;
        if (!(unfinished && of_this_chain) && broker_confirm_reset(j, &rb, e) < 0) goto out;
    }
    snprintf(st.stream_id, sizeof st.stream_id, "%s", j->entity.name);
    stopper_target(&j->stopper, j->target_driver, rb.target, found ? was.stop_requested_us : 0);
    if (rebuild_begin(&rb, true, e) < 0) goto out;
    heartbeat(j, identity, &st); /* a stop finds it in this phase too */
    if (rebuild_run(&rb, "tailing", &stopped, e) < 0) goto out;
    snprintf(j->result.id, sizeof j->result.id, "%s", st.link_id);
    j->result.seq = st.seq;
    j->result.rows = rb.loaded.rows;
    if (stopped) {
        err_set(e, CODE_INTERRUPTED, "the reset of stream '%s' was stopped before it was done", j->entity.name);
        err_hint(e, "run the same command again: it goes on where it was");
        goto out;
    }
    r->event = "reset_done";
    snprintf(r->detail, sizeof r->detail, "{\"id\":\"%s\",\"seq\":%llu,\"rows\":%llu}", st.link_id, (unsigned long long)st.seq, (unsigned long long)rb.loaded.rows);
    snprintf(r->said, sizeof r->said, "rebuilt to %s", st.link_id);
    rc = 0;
out:
    j->stopper.target = NULL;
    rebuild_free(&rb);
    if (rb.target) j->target_driver->target->close(rb.target);
    chain_close(rb.chain);
    return rc;
}
