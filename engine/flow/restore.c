/* Restore: a one-shot task that rebuilds a target up to a link and leaves a state row `restore:<lineage>`, from which a broker may go on. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/flow.h"
#include "engine/flow/rebuild.h"

static int pick_link(struct rebuild *r, const char *to_id, struct err *e) {
    const struct chain_info *ci = chain_info(r->chain);
    if (!to_id) {
        r->to = ci->tip;
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
    const char *to_id = r->job->options.to_id, *pinned = NULL;
    json_t *o = NULL;
    int rc = -1;
    *resuming = false;
    if (r->job->target_driver->target->state_read(r->target, stream, was, found, e) < 0) return -1;
    if (!*found || strcmp(was->phase, "restoring") != 0) return pick_link(r, to_id, e);
    if (!(o = json_parse(was->detail, strlen(was->detail), "detail", e)) || json_get_str(o, "id", &pinned, "detail", e) < 0) goto out;
    if (pick_link(r, to_id ? to_id : pinned, e) < 0) goto out;
    *resuming = strcmp(r->to.id, pinned) == 0;
    if (*resuming) {
        rc = 0;
        goto out;
    }
    err_set(e, CODE_STREAM_INCOMPLETE, "an unfinished restore of this chain to link '%s' is on the target", pinned);
    err_hint(e, "finish it: leave --to-id out; or drop its tables and its row in sluice_cdc_state");
out:
    if (o) json_decref(o);
    return rc;
}

/* Was everything durable on the target when a run was killed before it could say so in the control DB? Not when it was said, or when somebody went on
 * from there. */
static int finished(struct rebuild *r, const struct target_state *was, bool found, bool *yes, struct err *e) {
    struct target_state *all;
    size_t n;
    *yes = false;
    if (!found || r->job->again || strcmp(was->phase, "restored") != 0 || strcmp(was->link_id, r->to.id) != 0) return 0;
    struct arena *a = arena_new(4096, e);
    if (!a) return -1;
    int rc = r->job->target_driver->target->state_list(r->target, a, &all, &n, e);
    *yes = rc == 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (strcmp(all[i].stream_id, was->stream_id) != 0 && strcmp(all[i].lineage, was->lineage) == 0) *yes = false;
    arena_free(a);
    return rc;
}

/* *done: nothing is left to do, and r->state says where the target stands. */
static int plan(struct rebuild *r, char stream[256], bool *done, struct err *e) {
    struct target_state was = {0};
    bool found, resuming;
    if (job_chain(r->job, &r->chain, e) < 0) return -1;
    restore_name(r, stream);
    if (r->job->options.to_id && pick_link(r, r->job->options.to_id, e) < 0) return -1; /* before the target is asked for anything */
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
    snprintf(j->result.id, sizeof j->result.id, "%s", st.link_id);
    snprintf(j->result.lineage, sizeof j->result.lineage, "%s", chain_info(r.chain)->lineage);
    j->result.seq = st.seq;
    j->result.tables = r.loaded.tables;
    j->result.rows = r.loaded.rows;
    j->result.raw_bytes = r.loaded.raw_bytes;
    j->result.links = r.applied.links;
    j->result.changes = r.applied.changes;
    j->result.missing = r.applied.missing;
    j->result.resumed = r.resumed;
    j->result.committed = true;
    sr->event = "done";
    snprintf(sr->detail, sizeof sr->detail, "{\"id\":\"%s\",\"seq\":%llu,\"rows\":%llu,\"changes\":%llu}", st.link_id, (unsigned long long)st.seq,
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
