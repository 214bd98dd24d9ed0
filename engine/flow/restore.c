/* Restore: a one-shot task that rebuilds a target up to a link and leaves a state row `restore:<lineage>`, from which a broker may go on. */
#include <stdio.h>
#include <string.h>

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

/* An unfinished restore to another link is on the target: its tables are half full, so nothing else may pretend to begin. */
static int check_unfinished(struct rebuild *r, const char *stream, bool *resuming, struct err *e) {
    struct target_state st = {0};
    bool found;
    *resuming = false;
    if (r->job->target_driver->target->state_read(r->target, stream, &st, &found, e) < 0) return -1;
    if (!found || strcmp(st.phase, "restoring") != 0) return 0;
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"id\":\"%s\"", r->to.id);
    *resuming = strstr(st.detail, quoted) != NULL;
    if (*resuming) return 0;
    err_set(e, CODE_STREAM_INCOMPLETE, "an unfinished restore of this chain is on the target: %s", st.detail);
    return err_hint(e, "finish it with --to-id and the id it names, or drop its tables and its row in sluice_cdc_state");
}

static int plan(struct rebuild *r, char stream[256], struct err *e) {
    bool resuming;
    if (job_chain(r->job, &r->chain, e) < 0 || pick_link(r, r->job->options.to_id, e) < 0) return -1;
    restore_name(r, stream);
    if (job_target(r->job, stream, &r->target, e) < 0) return -1;
    if (check_unfinished(r, stream, &resuming, e) < 0) return -1;
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
    bool stopped = false;
    int rc = -1;
    memset(&j->result, 0, sizeof j->result);
    if (plan(&r, stream, e) < 0) goto out;
    snprintf(st.stream_id, sizeof st.stream_id, "%s", stream);
    if (rebuild_begin(&r, false, e) < 0) goto out;
    if (rebuild_run(&r, "restored", &stopped, e) < 0) goto out;
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
    int rc = -1;
    if (plan(&r, stream, e) < 0) goto out;
    rebuild_size(&r, &tables, &rows, &bytes);
    rc = buf_addf(out, e, "would restore %llu tables, %llu rows, %llu bytes, then links up to %s; nothing was changed\n", (unsigned long long)tables,
                  (unsigned long long)rows, (unsigned long long)bytes, r.to.id);
out:
    release(&r);
    return rc;
}
