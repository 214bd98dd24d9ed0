/* --at-chain-id: an operator says where the target stands. DESIGN.
 * 1. An id is checked against what a restore left on the target; `restore` adopts exactly that, a point inside a link included.
 * 2. The row says "adopting" until marks that an older row of this name left are gone and, for a point inside a link, the lane's mark is there; nothing
 *    applies meanwhile.
 * 3. A position that another stream of the same chain has moved this target past is refused: its changes would be applied twice. */
#include <stdio.h>
#include <string.h>

#include "engine/base/fault.h"
#include "engine/base/mem.h"
#include "engine/flow/brokerplace.h"

#define MAX_LANES 64

struct place { struct link_info li; uint64_t state_seq, lane_seq; };

bool broker_adopting(const struct target_state *st) {
    return strcmp(st->phase, "adopting") == 0;
}

/* What a restore left: its row, and where its lanes stand. */
static int restored_place(struct job *j, struct chain *chain, struct target *target, struct target_state *rst, bool *found, uint64_t *lane_seq, struct err *e) {
    const struct target_ops *ops = j->target_driver->target;
    uint64_t lanes[MAX_LANES] = {0};
    size_t n = MAX_LANES;
    char stream[256];
    snprintf(stream, sizeof stream, "restore:%s", chain_info(chain)->lineage);
    if (ops->state_read(target, stream, rst, found, e) < 0) return -1;
    if (!*found) return 0;
    if (strcmp(rst->phase, "restored") != 0) {
        err_set(e, CODE_STREAM_INCOMPLETE, "the restore on this target is not finished (%s)", rst->phase);
        return err_hint(e, "finish it with the same `sluice restore` command");
    }
    if (ops->marks_read(target, stream, lanes, &n, e) < 0) return -1;
    *lane_seq = rst->seq;
    for (size_t i = 0; i < n; i++)
        if (lanes[i] > *lane_seq) *lane_seq = lanes[i];
    return 0;
}

static int find_place(struct job *j, struct chain *chain, struct target *target, bool have_row, struct place *p, struct err *e) {
    struct target_state rst = {0};
    uint64_t lane_seq = 0;
    bool restored;
    bool exactly = strcmp(j->options.at_chain_id, "restore") == 0;
    if (restored_place(j, chain, target, &rst, &restored, &lane_seq, e) < 0) return -1;
    if (exactly && !restored) {
        err_set(e, CODE_STREAM_UNKNOWN, "no restore of chain '%.12s' is recorded on this target", chain_info(chain)->lineage);
        return err_hint(e, "run `sluice restore` first, or give the id that the target stands at");
    }
    if (chain_find(chain, exactly ? rst.link_id : j->options.at_chain_id, &p->li, e) < 0) return -1;
    p->state_seq = exactly ? rst.seq : p->li.end_seq;
    p->lane_seq = exactly ? lane_seq : p->state_seq;
    /* A row of the stream itself is younger than what a restore left, and speaks for itself. */
    if (exactly || have_row || !restored || (lane_seq == p->li.end_seq && strcmp(rst.link_id, p->li.id) == 0)) return 0;
    err_set(e, CODE_STREAM_EXISTS, lane_seq > rst.seq ? "the restore on this target stands inside the link behind '%s', not at '%s'" : "the restore on this target stands at '%s', not at '%s'",
            rst.link_id, p->li.id);
    return err_hint(e, "give --at-chain-id restore, which adopts it exactly");
}

/* Invariant 3. */
static int check_others(struct job *j, struct chain *chain, struct target *target, const struct place *p, struct err *e) {
    struct target_state *all;
    size_t n;
    int rc = -1;
    struct arena *a = arena_new(4096, e);
    if (!a) return -1;
    if (j->target_driver->target->state_list(target, a, &all, &n, e) < 0) goto out;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].stream_id, j->entity.name) == 0 || strncmp(all[i].stream_id, "restore:", 8) == 0) continue;
        if (strcmp(all[i].lineage, chain_info(chain)->lineage) != 0 || all[i].seq <= p->lane_seq) continue;
        err_set(e, CODE_STREAM_EXISTS, "stream '%s' of this chain has moved this target on to seq %llu, past the seq %llu asked for", all[i].stream_id,
                (unsigned long long)all[i].seq, (unsigned long long)p->lane_seq);
        err_hint(e, "go on as that stream, or rebuild with --reset-target-data");
        goto out;
    }
    rc = 0;
out:
    arena_free(a);
    return rc;
}

static int set_mark(struct job *j, struct target *target, const struct target_state *st, uint64_t seq, struct err *e) {
    const struct target_ops *ops = j->target_driver->target;
    struct mark m = {.epoch = st->epoch, .seq = seq, .state_seq = seq};
    struct lane *lane = NULL;
    int rc = -1;
    if (ops->lane_open(target, st, 0, &lane, e) < 0) return -1;
    rc = ops->lane_apply(lane, NULL, 0, &m, &(struct apply_result){0}, e);
    ops->lane_close(lane);
    return rc;
}

int broker_adopt(struct job *j, struct chain *chain, struct target *target, struct target_state *st, bool have_row, struct err *e) {
    const struct target_ops *ops = j->target_driver->target;
    struct place p = {0};
    bool again = have_row && broker_adopting(st);
    if (find_place(j, chain, target, have_row && !again, &p, e) < 0) return -1;
    if (have_row && !again) {
        if (strcmp(st->link_id, p.li.id) == 0 && strcmp(st->lineage, chain_info(chain)->lineage) == 0) return 0;
        err_set(e, CODE_STREAM_EXISTS, "stream '%s' stands at '%s' already, not at '%s'", j->entity.name, st->link_id, p.li.id);
        return err_hint(e, "start it without --at-chain-id, or rebuild with --reset-target-data");
    }
    if (check_others(j, chain, target, &p, e) < 0) return -1;
    bool inside = p.lane_seq > p.state_seq;
    uint64_t epoch = again ? st->epoch : 0;
    memset(st, 0, sizeof *st);
    snprintf(st->stream_id, sizeof st->stream_id, "%s", j->entity.name);
    snprintf(st->lineage, sizeof st->lineage, "%s", chain_info(chain)->lineage);
    snprintf(st->source_identity, sizeof st->source_identity, "%s", chain_info(chain)->source_identity);
    snprintf(st->link_id, sizeof st->link_id, "%s", p.li.id);
    snprintf(st->phase, sizeof st->phase, "adopting");
    st->seq = p.state_seq;
    st->epoch = epoch;
    st->format = 1;
    if (FAULT("broker.before_adopt", e) < 0) return -1;
    if (ops->state_write(target, st, e) < 0) return -1;
    if (ops->takeover(target, st, e) < 0 || ops->marks_clear(target, st, e) < 0) return -1;
    if (FAULT("broker.before_adopt_mark", e) < 0 || (inside && set_mark(j, target, st, p.lane_seq, e) < 0)) return -1;
    snprintf(st->phase, sizeof st->phase, "tailing");
    if (FAULT("broker.after_adopt_mark", e) < 0) return -1;
    return ops->state_write(target, st, e);
}
