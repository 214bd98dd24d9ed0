/* The applier: links of a chain into a target, window by window, exactly once. DESIGN in apply.c. */
#ifndef SLUICE_FLOW_APPLY_H
#define SLUICE_FLOW_APPLY_H

#include "engine/chain/chain.h"
#include "engine/flow/stopper.h"
#include "engine/flow/tables.h"

struct applier;

/* How far to go: only transactions that the log holds at or before a position, or before the first one that committed later than a time. */
struct apply_until {
    struct pos pos;        /* not set: no such bound */
    int64_t time_us;       /* 0: no such bound; microseconds UTC */
};
bool apply_until_is_set(const struct apply_until *u);

struct applier_opts {
    const struct db_driver *driver;
    struct target *target;
    struct target_state *state;   /* taken over; its seq and link_id follow what is applied */
    struct chain *chain;
    struct tables *tables;        /* holds the shapes in force at the next record */
    struct stopper *stopper;      /* may be NULL */
    struct apply_until *until;    /* may be NULL; read at every link, so its owner may move it */
    size_t window_bytes;          /* soft bound of a window; 0 = 8 MiB. A transaction of over four times this is applied in parts */
};
/* Opens the lane; marks are compared with the state: MARK_MISMATCH. */
int applier_open(const struct applier_opts *o, struct applier **a, struct err *e);
void applier_close(struct applier *a);
/* Everything up to here is applied (the lane's mark, which may lie inside a link). */
uint64_t applier_seq(const struct applier *a);
/* Apply link n from the applier's place on, to its end or to a stop (*stopped). hop 5/8 to 7/8 */
int applier_link(struct applier *a, uint64_t n, bool *stopped, struct err *e);

/* Did the last link end at `until`, with something behind it? The lane's mark is then the place; the state row stays at the last whole link. */
bool applier_at_until(const struct applier *a);

struct applier_stats { uint64_t links, changes, rows, missing, windows, replayed_ordered, replayed_replaced, split_transactions; };
const struct applier_stats *applier_stats(const struct applier *a);

#endif
