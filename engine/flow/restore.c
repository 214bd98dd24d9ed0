/* Restore: a one-shot task that rebuilds a target up to a link and leaves a state row `restore:<lineage>`, from which a broker may go on. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/flow.h"
#include "engine/flow/rebuild.h"
#include "engine/flow/until.h"

/* --to-position, --to-time: the link that holds the point, and where in it. */
static int pick_point(struct rebuild *r, struct err *e) {
    const struct options *o = &r->job->options;
    struct until u = {0};
    struct pos start, anchor;
    uint64_t n, seq;
    bool whole;
    if (o->to_position && pos_set(&u.pos, chain_info(r->chain)->source_engine, o->to_position, e) < 0) {
        err_set(e, CODE_USAGE, "--to-position: '%s' is no position of this chain's source", o->to_position);
        return err_hint(e, "positions look like %s", chain_info(r->chain)->tip_pos.token);
    }
    if (o->to_time && until_time_parse(o->to_time, &u.time_us, e) < 0) return err_wrap(e, "--to-time");
    if (chain_link(r->chain, 0, &r->to, e) < 0 || chain_link_span(r->chain, 0, &start, &anchor, e) < 0) return -1;
    if (u.time_us ? u.time_us < r->to.time_us : pos_compare(&u.pos, &anchor) == POS_LESS) {
        char at[32];
        clock_iso(r->to.time_us, at);
        err_set(e, CODE_CHAIN_INCOMPLETE, "the point asked for lies before the chain's first full (%s, %s)", anchor.token, at);
        return err_hint(e, "ask for a later one; see `sluice backup list`");
    }
    if (until_find(r->chain, 0, &u, &n, &seq, &whole, e) < 0 || chain_link(r->chain, n, &r->to, e) < 0) return -1;
    if (!whole && seq > r->to.start_seq) r->to_seq = seq;
    else if (!whole && chain_link(r->chain, n - 1, &r->to, e) < 0) return -1;
    log_info("the point lies here", KV_STR("link", r->to.id), KV_U64("seq", r->to_seq ? r->to_seq : r->to.end_seq), KV_STR("inside", r->to_seq ? "yes" : "no"));
    return 0;
}

static int pick_link(struct rebuild *r, const char *to_id, struct err *e) {
    const struct options *o = &r->job->options;
    if (r->to.id[0]) return 0; /* picked already, before the target was asked for anything */
    if (!to_id && (o->to_position || o->to_time)) return pick_point(r, e);
    if (!to_id) {
        r->to = chain_info(r->chain)->tip;
        return 0;
    }
    if (chain_find(r->chain, to_id, &r->to, e) < 0) return err_hint(e, "see `sluice backup list`");
    return 0;
}

static void restore_name(struct rebuild *r, char out[256]) {
    snprintf(out, 256, "restore:%s", chain_info(r->chain)->lineage);
}

/* What an earlier restore of this chain left on the target. An unfinished one goes on to the link that it pinned, however far the chain has grown
 * since; its tables are half full, so nothing else may pretend to begin. */
static int look_back(struct rebuild *r, const char *stream, struct target_state *was, bool *found, bool *resuming, struct err *e) {
    const struct options *o = &r->job->options;
    char pinned[CHAIN_ID];
    uint64_t seq;
    bool asked = o->to_id || o->to_position || o->to_time;
    *resuming = false;
    if (r->job->target_driver->target->state_read(r->target, stream, was, found, e) < 0) return -1;
    if (!*found || strcmp(was->phase, "restoring") != 0) return pick_link(r, o->to_id, e);
    if (rebuild_pinned(was, pinned, &seq, e) < 0) return -1;
    if (pick_link(r, asked ? o->to_id : pinned, e) < 0) return -1;
    if (!asked) r->to_seq = seq;
    *resuming = strcmp(r->to.id, pinned) == 0 && r->to_seq == seq;
    if (*resuming) {
        rebuild_began_with(was, r->segment);
        return 0;
    }
    err_set(e, CODE_STREAM_INCOMPLETE, "an unfinished restore of this chain to link '%s'%s is on the target", pinned, seq ? " (to a point inside it)" : "");
    return err_hint(e, "finish it: leave --to-… out; or drop its tables and its row in sluice_cdc_state");
}

/* A row that says "restored" is believed only beside its tables: all of them, and not all empty. */
static int still_there(struct rebuild *r, bool *yes, struct err *e) {
    const struct target_ops *ops = r->job->target_driver->target;
    struct tables ts = {0};
    bool rows = false;
    int rc = -1;
    if (tables_init(&ts, r->job->target_driver, r->target, &r->job->filter, r->job->map_ns, r->job->nmap_ns, e) < 0) return -1;
    if (tables_at(&ts, r->chain, r->to_seq ? r->to.n : r->to.n + 1, r->to_seq ? r->to_seq : r->to.end_seq, e) < 0) goto out;
    for (size_t i = 0; i < ts.n && *yes; i++) {
        const struct flow_table *t = ts.v[i];
        struct shape *there = NULL;
        if (!t || !t->wanted || t->dropped) continue;
        if (ops->table_shape(r->target, t->ns, t->name, &there, e) < 0) goto out;
        *yes = there != NULL;
        shape_free(there);
        if (*yes && !rows && ops->table_has_rows(r->target, t->ns, t->name, &rows, e) < 0) goto out;
    }
    *yes = *yes && rows;
    rc = 0;
out:
    tables_free(&ts);
    return rc;
}

/* Was everything durable on the target when a run was killed before it could say so in the control DB? Not when it was said, or when somebody went on
 * from there. */
static int finished(struct rebuild *r, const struct target_state *was, bool found, bool *yes, struct err *e) {
    struct target_state *all;
    size_t n;
    *yes = false;
    if (!found || r->job->again || strcmp(was->phase, "restored") != 0) return 0;
    char pinned[CHAIN_ID];
    uint64_t seq;
    if (rebuild_pinned(was, pinned, &seq, e) < 0) return -1;
    if (strcmp(pinned, r->to.id) != 0 || seq != r->to_seq) return 0;
    struct arena *a = arena_new(4096, e);
    if (!a) return -1;
    int rc = r->job->target_driver->target->state_list(r->target, a, &all, &n, e);
    *yes = rc == 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (strcmp(all[i].stream_id, was->stream_id) != 0 && strcmp(all[i].lineage, was->lineage) == 0) *yes = false;
    arena_free(a);
    return rc < 0 || !*yes ? rc : still_there(r, yes, e);
}

/* *done: nothing is left to do, and r->state says where the target stands. */
static int plan(struct rebuild *r, char stream[256], bool *done, struct err *e) {
    struct target_state was = {0};
    bool found, resuming;
    if (job_chain(r->job, &r->chain, e) < 0) return -1;
    restore_name(r, stream);
    if ((r->job->options.to_id || r->job->options.to_position || r->job->options.to_time) && pick_link(r, r->job->options.to_id, e) < 0) return -1; /* before the target is asked for anything */
    if (job_target(r->job, stream, &r->target, e) < 0) return -1;
    if (look_back(r, stream, &was, &found, &resuming, e) < 0) return -1;
    if (finished(r, &was, found, done, e) < 0) return -1;
    if (*done) {
        *r->state = was;
        return 0;
    }
    return rebuild_plan(r, resuming, e);
}

static void release(struct rebuild *r) {
    rebuild_free(r);
    if (r->target) r->job->target_driver->target->close(r->target);
    chain_close(r->chain);
}

int step_task_run(struct job *j, struct step_result *sr, struct err *e) {
    char stream[256];
    struct target_state st = {0};
    struct rebuild r = {.job = j, .state = &st, .stopper = &j->stopper, .parallelism = (unsigned)j->options.table_parallelism};
    bool stopped = false, done = false;
    int rc = -1;
    memset(&j->result, 0, sizeof j->result);
    if (plan(&r, stream, &done, e) < 0) goto out;
    if (done) {
        log_info("the target was restored to this link already", KV_STR("id", st.link_id));
        r.resumed = true;
    } else {
        snprintf(st.stream_id, sizeof st.stream_id, "%s", stream);
        if (rebuild_begin(&r, false, e) < 0) goto out;
        if (rebuild_run(&r, "restored", &stopped, e) < 0) goto out;
    }
    if (stopped) {
        err_set(e, CODE_INTERRUPTED, "the restore was stopped before it was done");
        err_hint(e, "run the same command again: it goes on where it was");
        goto out;
    }
    /* Inside a link there is no id to stand at: the seq says it. */
    snprintf(j->result.id, sizeof j->result.id, "%s", r.to_seq ? "" : st.link_id);
    snprintf(j->result.lineage, sizeof j->result.lineage, "%s", chain_info(r.chain)->lineage);
    j->result.seq = r.to_seq ? r.to_seq : st.seq;
    j->result.tables = r.loaded.tables;
    j->result.rows = r.loaded.rows;
    j->result.raw_bytes = r.loaded.raw_bytes;
    j->result.links = r.applied.links;
    j->result.changes = r.applied.changes;
    j->result.missing = r.applied.missing;
    j->result.resumed = r.resumed;
    j->result.committed = true;
    sr->event = "done";
    snprintf(sr->detail, sizeof sr->detail, "{\"id\":\"%s\",\"seq\":%llu,\"rows\":%llu,\"changes\":%llu}", st.link_id, (unsigned long long)j->result.seq,
             (unsigned long long)r.loaded.rows, (unsigned long long)r.applied.changes);
    snprintf(sr->said, sizeof sr->said, "restored to %s", st.link_id);
    rc = 0;
out:
    release(&r);
    return rc;
}

int restore_dry_run(struct job *j, struct buf *out, struct err *e) {
    char stream[256];
    struct target_state st = {0};
    struct rebuild r = {.job = j, .state = &st};
    uint64_t tables, rows, bytes;
    bool done = false;
    int rc = -1;
    if (plan(&r, stream, &done, e) < 0) goto out;
    if (done) {
        rc = buf_addf(out, e, "the target was restored to %s already; nothing was changed\n", st.link_id);
        goto out;
    }
    rebuild_size(&r, &tables, &rows, &bytes);
    rc = buf_addf(out, e, "would restore %llu tables, %llu rows, %llu bytes, then links up to %s; nothing was changed\n", (unsigned long long)tables,
                  (unsigned long long)rows, (unsigned long long)bytes, r.to.id);
out:
    release(&r);
    return rc;
}
