/* DESIGN.
 * 1. Every check that can refuse runs before the first change of the target; the pinned link is chosen once and recorded, so a chain that grows
 *    meanwhile does not matter.
 * 2. The state row says how far a rebuild is: "beginning" (nothing is there yet), "resetting" (tables are being dropped), "restoring" (rows and links come), then the last phase.
 *    A kill anywhere is finished by the same command, which finds the phase and the pinned id in the row.
 * 3. A table's rows were read at its own snapshot; its changes at or below that position are skipped (skip_seq), and the pinned link must reach
 *    the newest snapshot.
 * 4. Keys come after the rows, foreign keys after the links. */
#include "engine/flow/rebuild.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/route.h"

/* ---- planning ---- */

/* The newest complete full whose opening is at or below link `from`; an unfinished rebuild's is the one that it began with. */
static int choose_full(struct rebuild *r, uint64_t from, struct err *e) {
    const struct chain_info *ci = chain_info(r->chain);
    for (uint64_t n = from + 1; n-- > 0;) {
        if (chain_link(r->chain, n, &r->opening, e) < 0) return -1;
        if (!r->opening.opening || (r->segment[0] && strcmp(r->segment, r->opening.segment) != 0)) continue;
        if (full_reader_open(r->chain, r->opening.segment, &r->full, e) == 0) return 0;
        if (e->code != CODE_CHAIN_INCOMPLETE || n == 0) return -1;
        err_clear(e);
    }
    if (r->segment[0]) {
        err_set(e, CODE_CHAIN_INCOMPLETE, "the full '%s' that the unfinished rebuild began with is not in chain '%s' any more", r->segment, ci->lineage);
        return err_hint(e, "empty the target and begin anew, or use --reset-target-data");
    }
    return err_set(e, CODE_CHAIN_INCOMPLETE, "no complete full of chain '%s' lies at or below link %llu", ci->lineage, (unsigned long long)r->to.n);
}

/* Invariant 3: the last record of each table that its rows hold already. */
static int find_skips(struct rebuild *r, struct err *e) {
    const struct full_table_info *ti;
    size_t n = full_reader_tables(r->full, &ti);
    struct batch b = {0};
    struct link_reader *lr = NULL;
    int rc = -1;
    if (batch_init(&b, KiB(256), e) < 0) return -1;
    for (size_t i = 0; i < n; i++) {
        struct pos end, start;
        struct flow_table *t = tables_get(&r->tables, ti[i].table);
        if (!t || !t->wanted || r->segment[0]) continue; /* what an unfinished rebuild began with was looked at then, and the chain only grows */
        if (chain_link_span(r->chain, r->to.n, &start, &end, e) < 0) goto out;
        const struct chain_info *ci = chain_info(r->chain);
        enum pos_order o = pos_compare(&ti[i].snapshot, &end);
        /* behind the tip lies nothing, up to where the source was seen idle */
        if (o == POS_GREATER && r->to.n == ci->tip.n && pos_is_set(&ci->covered)) o = pos_compare(&ti[i].snapshot, &ci->covered);
        if (o == POS_UNORDERED || o == POS_GREATER) {
            err_set(e, CODE_CHAIN_INCOMPLETE, "the rows of table '%s.%s' were read at %s, past the end of link '%s' at %s", t->ns, t->name,
                    ti[i].snapshot.token, r->to.id, end.token);
            err_hint(e, r->to.n == ci->tip.n ? "go on with the chain: run `sluice backup incremental`, then this command again"
                                             : "restore to a later link; see `sluice backup list`");
            goto out;
        }
    }
    for (uint64_t k = r->opening.n + 1; k <= r->to.n; k++) {
        struct pos start, end;
        struct link_info li;
        bool scan = false, any = false;
        if (chain_link(r->chain, k, &li, e) < 0 || chain_link_span(r->chain, k, &start, &end, e) < 0) goto out;
        for (size_t i = 0; i < n; i++) {
            struct flow_table *t = tables_get(&r->tables, ti[i].table);
            if (!t || pos_compare(&ti[i].snapshot, &start) != POS_GREATER) continue;
            any = true;
            if (pos_compare(&ti[i].snapshot, &end) != POS_LESS) t->skip_seq = li.end_seq;
            else scan = true;
        }
        if (!any) break;
        if (!scan) continue;
        if (link_reader_open(r->chain, k, li.start_seq, &lr, e) < 0) goto out;
        for (;;) {
            batch_reset(&b);
            if (link_reader_next(lr, &b, MiB(1), e) < 0) goto out;
            if (!b.n) break;
            for (size_t c = 0; c < b.n; c++) {
                if (b.v[c].op != CHANGE_COMMIT) continue;
                for (size_t i = 0; i < n; i++) {
                    struct flow_table *t = tables_get(&r->tables, ti[i].table);
                    if (!t || pos_compare(&ti[i].snapshot, &start) != POS_GREATER) continue;
                    enum pos_order o = pos_compare(b.v[c].pos, &ti[i].snapshot);
                    if (o == POS_LESS || o == POS_EQUAL) t->skip_seq = b.v[c].seq;
                }
            }
        }
        link_reader_close(lr);
        lr = NULL;
    }
    rc = 0;
out:
    link_reader_close(lr);
    batch_free(&b);
    return rc;
}

/* Where the commit at to_seq ends. */
static int bound_pos(struct rebuild *r, struct pos *p, struct err *e) {
    struct link_reader *lr = NULL;
    struct batch b = {0};
    int rc = -1;
    if (batch_init(&b, KiB(64), e) < 0 || link_reader_open(r->chain, r->to.n, r->to_seq - 1, &lr, e) < 0 || link_reader_next(lr, &b, 1, e) < 0) goto out;
    if (!b.n || b.v[0].seq != r->to_seq || b.v[0].op != CHANGE_COMMIT || !b.v[0].pos) {
        err_set(e, CODE_INTERNAL, "record %llu of link '%s' is no commit", (unsigned long long)r->to_seq, r->to.id);
        goto out;
    }
    *p = *b.v[0].pos;
    rc = 0;
out:
    link_reader_close(lr);
    batch_free(&b);
    return rc;
}

/* A bound inside the link: every table's own snapshot must be reached by then. */
static int check_bound(struct rebuild *r, struct err *e) {
    const struct full_table_info *ti;
    size_t n = full_reader_tables(r->full, &ti);
    struct pos at;
    if (!r->to_seq) return 0;
    if (bound_pos(r, &at, e) < 0) return -1;
    for (size_t i = 0; i < n; i++) {
        const struct flow_table *t = tables_get(&r->tables, ti[i].table);
        enum pos_order o = pos_compare(&ti[i].snapshot, &at);
        if (!t || !t->wanted || o == POS_LESS || o == POS_EQUAL) continue;
        err_set(e, CODE_CHAIN_INCOMPLETE, "the rows of table '%s.%s' were read later than the point asked for", t->ns, t->name);
        return err_hint(e, "ask for a later one; see `sluice backup list`");
    }
    return 0;
}

static int check_table(struct rebuild *r, const struct shape *src, const char *ns, const char *name, bool may_replace, struct err *e) {
    const struct target_ops *t = r->job->target_driver->target;
    struct shape *dst = NULL;
    bool rows = false;
    int rc = -1;
    if (t->compatible(r->target, src, NULL, e) < 0 || t->keys_check(r->target, src, NULL, e) < 0) return -1;
    if (may_replace) /* what is dropped must not be what the chain, or another one, is taken from */
        return t->table_captured ? t->table_captured(r->target, chain_info(r->chain)->source_identity, src, ns, name, e) : 0;
    if (t->table_shape(r->target, ns, name, &dst, e) < 0) return -1;
    if (!dst) return 0;
    if (t->table_has_rows(r->target, ns, name, &rows, e) < 0) goto out;
    if (rows) {
        err_set(e, CODE_TARGET_NOT_EMPTY, "table '%s.%s' exists on the target and holds rows", ns, name);
        err_hint(e, "drop it, leave it out with --exclude-table, or let `sluice sync from-backup run --reset-target-data` drop it");
        goto out;
    }
    if (t->compatible(r->target, src, dst, e) < 0 || t->keys_check(r->target, src, dst, e) < 0) {
        err_wrap(e, "table '%s.%s' exists on the target with another shape", ns, name);
        e->code = CODE_TARGET_NOT_EMPTY;
        e->class = ERR_REFUSE;
        goto out;
    }
    rc = 0;
out:
    shape_free(dst);
    return rc;
}

/* Tables that only the links bring: they must not meet a table of that name either. One that a link renames must stay inside the scope, or outside. */
static int check_later_tables(struct rebuild *r, bool may_replace, struct err *e) {
    struct shape *const *shapes;
    size_t n;
    if (chain_shapes_at(r->chain, r->to.n + 1, &shapes, &n, e) < 0) return -1;
    for (size_t i = 0; i < n; i++) {
        const struct flow_table *t = tables_get(&r->tables, shapes[i]->table);
        bool wanted = table_filter_match(&r->job->filter, shapes[i]->ns, shapes[i]->name);
        if (t && t->wanted != wanted) return tables_refuse_drift(t->shape, shapes[i], wanted, e);
        if (t || !wanted) continue;
        if (check_table(r, shapes[i], tables_ns(&r->tables, shapes[i]->ns), shapes[i]->name, may_replace, e) < 0) return -1;
    }
    return 0;
}

/* A full whose tables were read past the point asked for (it was written while links went on) cannot give it: an older one does. */
static int plan_full(struct rebuild *r, uint64_t from, struct err *e) {
    const struct full_table_info *ti;
    struct job *j = r->job;
    if (choose_full(r, from, e) < 0) return -1;
    if (tables_init(&r->tables, j->target_driver, r->target, &j->filter, j->map_ns, j->nmap_ns, e) < 0) return -1;
    size_t n = full_reader_tables(r->full, &ti), wanted = 0;
    for (size_t i = 0; i < n; i++) {
        struct flow_table *t;
        if (tables_put(&r->tables, ti[i].shape, &t, e) < 0) return -1;
        wanted += t->wanted;
    }
    if (n && !wanted) return err_set(e, CODE_USAGE, "the table filter leaves none of the chain's %zu tables", n);
    if (tables_collisions(&r->tables, e) < 0) return -1;
    if (find_skips(r, e) == 0 && check_bound(r, e) == 0) return 0;
    if (e->code != CODE_CHAIN_INCOMPLETE || r->opening.n == 0 || r->segment[0]) return -1;
    log_debug("this full was read past the point; an older one is taken", KV_STR("segment", r->opening.segment), KV_STR("err", e->msg));
    err_clear(e);
    from = r->opening.n - 1;
    rebuild_free(r);
    return plan_full(r, from, e);
}

int rebuild_plan(struct rebuild *r, bool may_replace, struct err *e) {
    const struct full_table_info *ti;
    if (plan_full(r, r->to.n, e) < 0) return -1;
    size_t n = full_reader_tables(r->full, &ti);
    for (size_t i = 0; i < n; i++) {
        struct flow_table *t = tables_get(&r->tables, ti[i].table);
        if (t->wanted && check_table(r, t->shape, t->ns, t->name, may_replace, e) < 0) return -1;
    }
    return check_later_tables(r, may_replace, e);
}

void rebuild_size(const struct rebuild *r, uint64_t *tables, uint64_t *rows, uint64_t *bytes) {
    const struct full_table_info *ti;
    size_t n = full_reader_tables(r->full, &ti);
    *tables = *rows = *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct flow_table *t = tables_get(&r->tables, ti[i].table);
        if (!t || !t->wanted) continue;
        (*tables)++;
        *rows += ti[i].rows;
        *bytes += ti[i].raw_bytes;
    }
}

int rebuild_each_target_table(struct rebuild *r, int (*fn)(void *arg, const char *ns, const char *name, struct err *e), void *arg, struct err *e) {
    struct shape *const *shapes;
    size_t n;
    for (size_t i = 0; i < r->tables.n; i++) {
        struct flow_table *t = r->tables.v[i];
        if (t && t->wanted && fn(arg, t->ns, t->name, e) < 0) return -1;
    }
    /* A table that a link renames or brings stands under its last name on a target that followed the chain. */
    if (chain_shapes_at(r->chain, r->to.n + 1, &shapes, &n, e) < 0) return -1;
    for (size_t i = 0; i < n; i++) {
        struct flow_table *t = tables_get(&r->tables, shapes[i]->table);
        const char *ns = tables_ns(&r->tables, shapes[i]->ns);
        if (t && strcmp(t->ns, ns) == 0 && strcmp(t->name, shapes[i]->name) == 0) continue;
        if (!table_filter_match(&r->job->filter, shapes[i]->ns, shapes[i]->name)) continue;
        if (fn(arg, ns, shapes[i]->name, e) < 0) return -1;
    }
    return 0;
}

/* ---- phases ---- */

static int write_phase(struct rebuild *r, const char *phase, struct err *e) {
    struct buf b = BUF_INIT(sizeof r->state->detail);
    struct jw j;
    int rc = -1;
    jw_begin(&j, &b, e);
    jw_obj(&j);
    jw_kv_uint(&j, "n", r->to.n);
    jw_kv_str(&j, "id", r->to.id);
    if (r->to_seq) jw_kv_uint(&j, "seq", r->to_seq);
    jw_kv_str(&j, "segment", r->opening.segment);
    jw_obj_end(&j);
    if (jw_end(&j) < 0) goto out;
    const char *text = buf_str(&b, e);
    if (!text) goto out;
    snprintf(r->state->detail, sizeof r->state->detail, "%s", text);
    snprintf(r->state->phase, sizeof r->state->phase, "%s", phase);
    rc = r->job->target_driver->target->state_write(r->target, r->state, e);
out:
    buf_free(&b);
    return rc;
}

/* Is the row an unfinished rebuild of the same pinned link? */
static bool same_rebuild(const struct rebuild *r) {
    struct err ignore = {0};
    char id[CHAIN_ID];
    uint64_t seq;
    char segment[17];
    rebuild_began_with(r->state, segment);
    return rebuild_pinned(r->state, id, &seq, &ignore) == 0 && strcmp(id, r->to.id) == 0 && seq == r->to_seq &&
           (!segment[0] || strcmp(segment, r->opening.segment) == 0);
}

int rebuild_pinned(const struct target_state *st, char id[CHAIN_ID], uint64_t *seq, struct err *e) {
    const char *text;
    json_t *o = json_parse(st->detail, strlen(st->detail), "the state row's detail", e);
    int rc = -1;
    *seq = 0;
    if (!o || json_get_str(o, "id", &text, "the state row's detail", e) < 0) goto out;
    if (json_object_get(o, "seq") && json_get_u64(o, "seq", seq, "the state row's detail", e) < 0) goto out;
    snprintf(id, CHAIN_ID, "%s", text);
    rc = 0;
out:
    if (o) json_decref(o);
    return rc;
}

void rebuild_began_with(const struct target_state *st, char segment[17]) {
    struct err ignore = {0};
    const char *text;
    json_t *o = json_parse(st->detail, strlen(st->detail), "the state row's detail", &ignore);
    segment[0] = '\0';
    if (o && json_get_str(o, "segment", &text, "the state row's detail", &ignore) == 0) snprintf(segment, 17, "%s", text);
    if (o) json_decref(o);
}

static void stand_at_opening(struct rebuild *r) {
    snprintf(r->state->lineage, sizeof r->state->lineage, "%s", chain_info(r->chain)->lineage);
    snprintf(r->state->source_identity, sizeof r->state->source_identity, "%s", chain_info(r->chain)->source_identity);
    snprintf(r->state->link_id, sizeof r->state->link_id, "%s", r->opening.id);
    r->state->seq = r->opening.end_seq;
    r->state->format = 1;
    r->state->refusal[0] = 0;
}

int rebuild_begin(struct rebuild *r, bool drop, struct err *e) {
    const struct target_ops *t = r->job->target_driver->target;
    bool found;
    char stream[256];
    snprintf(stream, sizeof stream, "%s", r->state->stream_id);
    if (t->control_ensure(r->target, e) < 0) return -1;
    if (t->state_read(r->target, stream, r->state, &found, e) < 0) return -1;
    if (!found) {
        memset(r->state, 0, sizeof *r->state);
        snprintf(r->state->stream_id, sizeof r->state->stream_id, "%s", stream);
        stand_at_opening(r);
        /* Marks of a row that somebody deleted may still be there: they must be gone before a phase that believes them. */
        if (write_phase(r, drop ? "resetting" : "beginning", e) < 0) return -1;
        if (FAULT("rebuild.after_beginning", e) < 0) return -1;
    }
    if (t->takeover(r->target, r->state, e) < 0) return -1;
    r->resumed = strcmp(r->state->phase, "restoring") == 0 && strcmp(r->state->lineage, chain_info(r->chain)->lineage) == 0 && same_rebuild(r);
    if (r->resumed) {
        log_info("an unfinished rebuild goes on", KV_STR("to", r->to.id), KV_U64("seq", r->state->seq));
        return 0;
    }
    /* Marks first: with them gone and the phase still the old one, the same command comes here again. */
    if (FAULT("rebuild.before_marks_clear", e) < 0) return -1;
    if (!drop && t->marks_clear(r->target, r->state, e) < 0) return -1;
    stand_at_opening(r);
    return write_phase(r, drop ? "resetting" : "restoring", e);
}

struct dropping {
    struct rebuild *r;
};
static int drop_one(void *arg, const char *ns, const char *name, struct err *e) {
    struct dropping *d = arg;
    if (FAULT("rebuild.before_drop", e) < 0) return -1;
    const struct target_ops *t = d->r->job->target_driver->target;
    struct shape *there = NULL;
    if (t->table_shape(d->r->target, ns, name, &there, e) < 0) return -1;
    if (!there) return 0;
    shape_free(there);
    if (t->table_drop(d->r->target, ns, name, e) < 0) return -1;
    log_info("table dropped", KV_STR("namespace", ns), KV_STR("table", name));
    return 0;
}

static int drop_all(struct rebuild *r, struct err *e) {
    struct dropping d = {r};
    if (rebuild_each_target_table(r, drop_one, &d, e) < 0) return -1;
    if (FAULT("rebuild.after_drops", e) < 0) return -1;
    if (r->job->target_driver->target->marks_clear(r->target, r->state, e) < 0) return -1;
    if (FAULT("rebuild.after_marks_clear", e) < 0) return -1;
    return write_phase(r, "restoring", e);
}

static int create_all(struct rebuild *r, struct err *e) {
    const struct target_ops *t = r->job->target_driver->target;
    const struct full_table_info *ti;
    size_t n = full_reader_tables(r->full, &ti);
    if (t->objects_create(r->target, full_reader_catalog(r->full), tables_ns_cb, &r->tables, e) < 0) return -1;
    for (size_t i = 0; i < n; i++) {
        struct flow_table *ft = tables_get(&r->tables, ti[i].table);
        struct shape *dst = NULL;
        if (!ft || !ft->wanted) continue;
        if (t->table_shape(r->target, ft->ns, ft->name, &dst, e) < 0) return -1;
        bool there = dst != NULL;
        shape_free(dst);
        if (there) continue;
        if (FAULT("rebuild.before_create", e) < 0) return -1;
        if (t->table_create(r->target, ft->shape, ft->ns, ft->name, e) < 0) return err_wrap(e, "table '%s.%s'", ft->ns, ft->name);
    }
    return 0;
}

static int finish_all(struct rebuild *r, int from_stage, int to_stage, struct err *e) {
    const struct target_ops *t = r->job->target_driver->target;
    for (int stage = from_stage; stage <= to_stage; stage++)
        for (size_t i = 0; i < r->tables.n; i++) {
            struct flow_table *ft = r->tables.v[i];
            if (!ft || !ft->wanted || ft->dropped) continue;
            if (r->stopper && stopper_asked(r->stopper)) return 0;
            if (t->table_finish(r->target, ft->shape, ft->ns, ft->name, stage, tables_ns_cb, &r->tables, e) < 0)
                return err_wrap(e, "table '%s.%s'", ft->ns, ft->name);
            if (FAULT("rebuild.after_finish", e) < 0) return -1;
        }
    return 0;
}

static int set_sequences(struct rebuild *r, struct err *e) {
    const struct object *o;
    size_t n;
    if (full_reader_sequences(r->full, &o, &n) < 0) return err_set(e, CODE_INTERNAL, "the full has no list of sequences");
    for (size_t i = 0; i < n; i++) /* the list names every object of the catalogue */
        if (o[i].kind == OBJECT_SEQUENCE && r->job->target_driver->target->sequence_set(r->target, &o[i], tables_ns(&r->tables, o[i].ns), e) < 0)
            return -1;
    return 0;
}

static int replay(struct rebuild *r, bool *stopped, struct err *e) {
    struct applier *a = NULL;
    struct applier_opts o = {.driver = r->job->target_driver, .target = r->target, .state = r->state, .chain = r->chain, .tables = &r->tables,
                             .stopper = r->stopper, .window_bytes = r->window_bytes, .lanes = r->job->options.apply_concurrency};
    int rc = -1;
    if (applier_open(&o, &a, e) < 0) goto out;
    struct link_info li;
    if (chain_find(r->chain, r->state->link_id, &li, e) < 0) goto out;
    uint64_t n = li.n + 1;
    bool begun = li.n > r->opening.n || applier_seq(a) > r->opening.end_seq;
    if (begun && tables_at(&r->tables, r->chain, n, applier_seq(a), e) < 0) goto out;
    for (; n <= r->to.n && !*stopped; n++) {
        if (chain_link(r->chain, n, &li, e) < 0) goto out;
        if (li.opening) continue;
        applier_until(a, n == r->to.n ? r->to_seq : 0);
        if (applier_link(a, n, stopped, e) < 0) goto out;
        if (!*stopped && n < r->to.n && r->stopper && stopper_asked(r->stopper)) *stopped = true;
    }
    rc = 0;
out:
    if (a) r->applied = *applier_stats(a);
    applier_close(a);
    return rc;
}

int rebuild_run(struct rebuild *r, const char *last_phase, bool *stopped, struct err *e) {
    struct load_opts lo = {.driver = r->job->target_driver, .target = r->target, .state = r->state, .store = r->job->store, .segment = r->opening.segment,
                           .tables = &r->tables, .parallelism = r->parallelism, .stopper = r->stopper, .progress = &r->job->progress};
    *stopped = false;
    if (strcmp(r->state->phase, "resetting") == 0 && drop_all(r, e) < 0) return -1;
    uint64_t lanes[ROUTE_LANES_MAX] = {0};
    size_t nlanes = ROUTE_LANES_MAX;
    if (r->job->target_driver->target->marks_read(r->target, r->state->stream_id, lanes, &nlanes, e) < 0) return -1;
    bool links_begun = strcmp(r->state->link_id, r->opening.id) != 0;
    for (size_t i = 0; i < nlanes; i++) links_begun = links_begun || lanes[i] > r->opening.end_seq;
    if (!links_begun) {
        if (create_all(r, e) < 0) return -1;
        if (load_full(&lo, &r->loaded, stopped, e) < 0) return -1;
        if (*stopped) return 0;
        if (finish_all(r, 0, 1, e) < 0) return -1;
        if (set_sequences(r, e) < 0) return -1;
    }
    if (r->stopper && (*stopped = stopper_asked(r->stopper))) return 0;
    if (replay(r, stopped, e) < 0) return -1;
    if (*stopped) return 0;
    if (finish_all(r, 0, 2, e) < 0) return -1;
    if (r->stopper && (*stopped = stopper_asked(r->stopper))) return 0;
    if (FAULT("rebuild.before_last_phase", e) < 0) return -1;
    return write_phase(r, last_phase, e);
}

void rebuild_free(struct rebuild *r) {
    full_reader_close(r->full);
    r->full = NULL;
    tables_free(&r->tables);
}

int tables_at(struct tables *ts, struct chain *c, uint64_t n, uint64_t seq, struct err *e) {
    struct shape *const *shapes;
    size_t count;
    struct link_info li;
    struct link_reader *r = NULL;
    struct batch b = {0};
    int rc = -1;
    for (; n < chain_info(c)->nlinks; n++) { /* openings hold no records: what is inside a link is inside the next one */
        if (chain_link(c, n, &li, e) < 0) return -1;
        if (!li.opening || n == 0) break;
    }
    if (chain_shapes_at(c, n, &shapes, &count, e) < 0) return -1;
    for (size_t i = 0; i < count; i++) {
        struct flow_table *t = tables_get(ts, shapes[i]->table);
        if (t && t->skip_seq >= seq) continue; /* its rows were read later than this, with the shape it had then */
        if (tables_put(ts, shapes[i], NULL, e) < 0) return -1;
    }
    for (size_t k = 0; k < ts->n; k++) { /* what is not in force any more was dropped by a link before this one */
        struct flow_table *t = ts->v[k];
        bool there = !t || t->skip_seq >= seq;
        for (size_t i = 0; i < count && !there; i++) there = shapes[i]->table == t->number;
        if (!there) t->dropped = true;
    }
    if (n >= chain_info(c)->nlinks) return 0;
    if (chain_link(c, n, &li, e) < 0) return -1;
    if (seq <= li.start_seq) return 0;
    if (batch_init(&b, KiB(256), e) < 0) return -1;
    if (link_reader_open(c, n, li.start_seq, &r, e) < 0) goto out;
    for (bool over = false; !over;) {
        batch_reset(&b);
        if (link_reader_next(r, &b, MiB(1), e) < 0) goto out;
        over = b.n == 0;
        for (size_t i = 0; i < b.n && !over; i++) {
            struct change *ch = &b.v[i];
            if (ch->seq > seq) over = true;
            else if (ch->op == CHANGE_SHAPE) {
                struct flow_table *t = tables_get(ts, ch->table);
                if (!ch->shape) {
                    if (t) t->dropped = true;
                } else if (!(t && t->skip_seq >= ch->seq) && tables_put(ts, ch->shape, NULL, e) < 0) goto out;
            }
        }
    }
    rc = 0;
out:
    link_reader_close(r);
    batch_free(&b);
    return rc;
}
