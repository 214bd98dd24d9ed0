/* What --reset-target-data would do, and whether anything would refuse it. DESIGN.
 * 1. The same checks in the same order as the reset itself, up to where it would verify the chain and ask; nothing is written anywhere: not on the
 *    target, not in the store, not in the control DB.
 * 2. A table is named when the reset would drop it, so it is read from the target; what would be loaded is read from the chain. */
#include <string.h>

#include "engine/flow/brokerplace.h"
#include "engine/flow/flow.h"
#include "engine/flow/rebuild.h"

struct naming {
    struct rebuild *r;
    struct buf *out;
    uint64_t drops, absent;
};

static int name_one(void *arg, const char *ns, const char *name, struct err *e) {
    struct naming *n = arg;
    const struct target_ops *t = n->r->job->target_driver->target;
    struct shape *there = NULL;
    bool rows = false;
    if (t->table_shape(n->r->target, ns, name, &there, e) < 0) return -1;
    if (!there) {
        n->absent++;
        return 0;
    }
    shape_free(there);
    if (t->table_has_rows(n->r->target, ns, name, &rows, e) < 0) return -1;
    n->drops++;
    return buf_addf(n->out, e, "drop %s.%s (%s)\n", ns, name, rows ? "holds rows" : "empty");
}

static int where_it_stands(struct buf *out, const char *stream_id, const struct target_state *st, bool found, struct err *e) {
    if (!found) return buf_addf(out, e, "stream '%s' has no position on the target\n", stream_id);
    return buf_addf(out, e, "stream '%s' stands at %s (%s), which would be given up\n", stream_id, st->link_id[0] ? st->link_id : "no link", st->phase);
}

int broker_dry_run(struct job *j, struct buf *out, struct err *e) {
    struct target_state was = {0};
    struct rebuild r = {.job = j};
    struct naming n = {&r, out, 0, 0};
    char identity[128];
    uint64_t tables, rows, bytes;
    bool found;
    int rc = -1;
    if (job_chain(j, &r.chain, e) < 0 || job_target(j, j->entity.name, &r.target, e) < 0) goto out;
    const struct target_ops *ops = j->target_driver->target;
    if (ops->identity(r.target, identity, e) < 0 || broker_check_consumer(j->store, j->entity.name, identity, e) < 0) goto out;
    if (ops->state_read(r.target, j->entity.name, &was, &found, e) < 0) goto out;
    if (broker_pin(r.chain, found ? &was : NULL, &r.to, e) < 0 || rebuild_plan(&r, true, e) < 0) goto out;
    if (where_it_stands(out, j->entity.name, &was, found, e) < 0) goto out;
    /* An interrupted reset goes on where it was: its tables are its own, and are not dropped again. */
    if (found && strcmp(was.phase, "restoring") == 0 && strcmp(was.lineage, chain_info(r.chain)->lineage) == 0) {
        if (buf_adds(out, "an unfinished rebuild would go on\n", e) < 0) goto out;
    } else if (rebuild_each_target_table(&r, name_one, &n, e) < 0) {
        goto out;
    }
    rebuild_size(&r, &tables, &rows, &bytes);
    if (buf_addf(out, e, "would drop %llu tables of the target (%llu are not there) and load %llu tables, ", (unsigned long long)n.drops,
                 (unsigned long long)n.absent, (unsigned long long)tables) < 0)
        goto out;
    rc = buf_addf(out, e, "%llu rows, %llu bytes, then links up to %s; nothing was changed\n", (unsigned long long)rows, (unsigned long long)bytes, r.to.id);
out:
    rebuild_free(&r);
    if (r.target) j->target_driver->target->close(r.target);
    chain_close(r.chain);
    return rc;
}
