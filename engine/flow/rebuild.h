/* Rebuilding a target from a chain: the newest complete full, then every link up to a pinned one. Restore and the broker's reset are both this. */
#ifndef SLUICE_FLOW_REBUILD_H
#define SLUICE_FLOW_REBUILD_H

#include "engine/flow/apply.h"
#include "engine/flow/flow.h"
#include "engine/flow/load.h"
#include "engine/flow/tables.h"

struct rebuild {
    struct job *job;
    struct chain *chain;
    struct target *target;
    struct target_state *state;   /* taken over by rebuild_begin */
    struct link_info to;          /* pinned: what the target will stand at */
    uint64_t to_seq;              /* pinned: a commit inside `to` to stop behind; 0 = the whole link */
    char segment[17];             /* the full to load, when an unfinished rebuild began with it; empty: the newest that will do */
    struct link_info opening;     /* of the segment whose full is loaded */
    struct full_reader *full;
    struct tables tables;
    struct stopper *stopper;
    unsigned parallelism;
    size_t window_bytes;          /* of the applier; 0 = its default */
    bool resumed;
    struct load_stats loaded;
    struct applier_stats applied;
};
/* Choose the full, make the table map, run every check that can refuse. Nothing is changed.
 * may_replace: the target's tables will be dropped first (reset), so what they hold does not matter. */
int rebuild_plan(struct rebuild *r, bool may_replace, struct err *e);
/* Tables, rows and bytes that the plan would load (the wanted tables of the full). */
void rebuild_size(const struct rebuild *r, uint64_t *tables, uint64_t *rows, uint64_t *bytes);
/* Names on the target that a reset drops: one call per table. */
int rebuild_each_target_table(struct rebuild *r, int (*fn)(void *arg, const char *ns, const char *name, struct err *e), void *arg, struct err *e);
/* Own the stream on the target and record the phase ("resetting" when drop, else "restoring"), or go on with one that was killed. */
int rebuild_begin(struct rebuild *r, bool drop, struct err *e);
/* Drop (phase "resetting"), create, load, finish, replay, and record `last_phase` ("tailing", "restored"). *stopped: goes on with the same command. */
int rebuild_run(struct rebuild *r, const char *last_phase, bool *stopped, struct err *e);
void rebuild_free(struct rebuild *r);
/* The id and seq that an unfinished (or finished) rebuild pinned in its row. seq 0: the whole link. */
int rebuild_pinned(const struct target_state *st, char id[CHAIN_ID], uint64_t *seq, struct err *e);
/* The segment whose full it loads; empty when the row does not say. */
void rebuild_began_with(const struct target_state *st, char segment[17]);

/* The shapes in force right behind `seq`, which lies in link n (or at its start): for resuming inside a link. */
int tables_at(struct tables *ts, struct chain *c, uint64_t n, uint64_t seq, struct err *e);

#endif
