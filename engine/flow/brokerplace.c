#include "engine/flow/brokerplace.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/json.h"
#include "engine/base/log.h"

int broker_refuse_unknown(const char *stream_id, struct err *e) {
    err_set(e, CODE_STREAM_UNKNOWN, "the target has no saved position for stream '%s', and guessing one could lose or double rows", stream_id);
    return err_hint(e, "rebuild the target from the chain with --reset-target-data, or say what it already holds with --at-chain-id ID "
                       "(after `sluice restore`: --at-chain-id restore)");
}

int broker_check_finished(const struct target_state *st, struct err *e) {
    if (strcmp(st->phase, "tailing") == 0 || strcmp(st->phase, "restored") == 0) return 0;
    err_set(e, CODE_STREAM_INCOMPLETE, "a rebuild of stream '%s' was begun and not finished (%s %s)", st->stream_id, st->phase, st->detail);
    if (broker_adopting(st)) return err_hint(e, "run it again with the same --at-chain-id");
    return err_hint(e, "run it again with --reset-target-data: it goes on where it was");
}

static bool hex_id(const char *s) {
    return strlen(s) == 40 && strspn(s, "0123456789abcdef") == 40;
}

int broker_place(struct chain *c, const struct target_state *st, struct link_info *at, struct err *e) {
    const struct chain_info *ci = chain_info(c);
    if (broker_check_finished(st, e) < 0) return -1;
    if (strcmp(st->lineage, ci->lineage) != 0) {
        bool rerooted = chain_replaced(c, st->lineage);
        err_set(e, rerooted ? CODE_CHAIN_REROOTED : CODE_CHAIN_FOREIGN,
                rerooted ? "stream '%s' followed chain '%.12s', which was begun anew here as '%.12s'" : "stream '%s' follows chain '%.12s', but this is chain '%.12s'",
                st->stream_id, st->lineage, ci->lineage);
        return err_hint(e, rerooted ? "rebuild the target with --reset-target-data" : "name the store of chain '%.12s', or rebuild with --reset-target-data", st->lineage);
    }
    if (!hex_id(st->link_id)) {
        err_set(e, CODE_MARK_MISMATCH, "the saved position of stream '%s' names no link: '%s'", st->stream_id, st->link_id);
        return err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
    }
    if (chain_find(c, st->link_id, at, e) == 0) {
        if (st->seq == at->end_seq) return 0;
        err_set(e, CODE_MARK_MISMATCH, "stream '%s' says seq %llu at link '%s', which ends at seq %llu", st->stream_id, (unsigned long long)st->seq,
                st->link_id, (unsigned long long)at->end_seq);
        err_mark(e, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
        return err_hint(e, "somebody changed sluice_cdc_state; rebuild with --reset-target-data");
    }
    if (e->code != CODE_ID_UNKNOWN) return -1;
    struct link_info first;
    if (chain_link(c, 0, &first, e) == 0 && st->seq >= first.end_seq) {
        err_set(e, CODE_CHAIN_FORKED, "link '%s', which stream '%s' stands at, is not on this chain, although the chain reaches seq %llu", st->link_id,
                st->stream_id, (unsigned long long)ci->tip.end_seq);
        return err_hint(e, "this store holds another continuation of the chain: name the copy that the target followed, or rebuild with --reset-target-data");
    }
    err_set(e, CODE_CHAIN_PRUNED, "link '%s', which stream '%s' stands at, was pruned", st->link_id, st->stream_id);
    return err_hint(e, "rebuild the target with --reset-target-data");
}

int broker_check_consumer(struct store *st, const char *stream_id, const char *target_identity, struct err *e) {
    struct consumer *c;
    size_t n;
    int rc = -1;
    struct arena *a = arena_new(4096, e);
    if (!a) return -1;
    if (chain_consumers(st, a, &c, &n, e) < 0) goto out;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(c[i].stream_id, stream_id) != 0 || strcmp(c[i].target, target_identity) == 0) continue;
        err_set(e, CODE_STREAM_OTHER_TARGET, "stream '%s' of this chain feeds another target already: %s (seen on host '%s')", stream_id, c[i].target, c[i].host);
        err_hint(e, "give each target its own --stream-id, or name the target that this stream feeds; "
                    "if that target is gone for good, remove the store's consumers/ object of this stream");
        goto out;
    }
    rc = 0;
out:
    arena_free(a);
    return rc;
}

int broker_pin(struct chain *c, const struct target_state *was, struct link_info *to, struct err *e) {
    const char *id = NULL;
    struct err ignore = {0};
    *to = chain_info(c)->tip;
    if (!was || strcmp(was->phase, "restoring") != 0 || strcmp(was->lineage, chain_info(c)->lineage) != 0) return 0;
    json_t *o = json_parse(was->detail, strlen(was->detail), "detail", &ignore);
    int rc = 0;
    if (o && json_get_str(o, "id", &id, "detail", &ignore) == 0 && (rc = chain_find(c, id, to, e)) < 0 && e->code == CODE_ID_UNKNOWN) {
        log_warn("the link that an unfinished rebuild was bound for is not on the chain any more; it begins anew", KV_STR("link", id));
        err_clear(e);
        *to = chain_info(c)->tip;
        rc = 0;
    }
    if (o) json_decref(o);
    return rc;
}

int broker_confirm_reset(struct job *j, struct rebuild *r, struct err *e) {
    uint64_t tables, rows, bytes;
    char line[64];
    rebuild_size(r, &tables, &rows, &bytes);
    if (j->options.yes) return 0;
    if (!isatty(STDIN_FILENO)) {
        err_set(e, CODE_CONFIRM, "--reset-target-data drops the target's tables, and there is no terminal to ask on");
        return err_hint(e, "add --yes if that is what you want");
    }
    fprintf(stderr, "stream '%s': %llu tables of the target are dropped and rebuilt from the chain (%llu rows, %llu bytes).\nType reset to go on: ",
            j->entity.name, (unsigned long long)tables, (unsigned long long)rows, (unsigned long long)bytes);
    fflush(stderr);
    if (fgets(line, sizeof line, stdin) && strcmp(line, "reset\n") == 0) return 0;
    return err_set(e, CODE_CONFIRM, "not confirmed; nothing was changed");
}

int broker_check_tables(struct job *j, struct target *t, struct tables *ts, const char *source_identity, struct err *e) {
    const struct target_ops *ops = j->target_driver->target;
    if (tables_collisions(ts, e) < 0) return -1;
    for (size_t i = 0; i < ts->n; i++) {
        struct flow_table *ft = ts->v[i];
        struct shape *dst = NULL;
        if (!ft || !ft->wanted || ft->dropped) continue;
        if (ops->table_shape(t, ft->ns, ft->name, &dst, e) < 0) return -1;
        if (!dst) {
            err_set(e, CODE_SHAPE_CHANGED, "table '%s.%s' of the chain is not on the target", ft->ns, ft->name);
            err_mark(e, MARKER_RESUME_SCHEMA_DIVERGENCE, MARKER_NONE);
            return err_hint(e, "put it back as it was, leave it out with --exclude-table, or rebuild with --reset-target-data");
        }
        int bad = ops->compatible(t, ft->shape, dst, e) < 0 || ops->keys_check(t, ft->shape, dst, e) < 0 ||
                  (ops->table_captured && ops->table_captured(t, source_identity, ft->shape, ft->ns, ft->name, e) < 0);
        shape_free(dst);
        if (bad) return -1;
    }
    return 0;
}
