/* The applier: links of a chain into a target, window by window, exactly once. DESIGN in apply.c. */
#ifndef SLUICE_FLOW_APPLY_H
#define SLUICE_FLOW_APPLY_H

#include "engine/chain/chain.h"
#include "engine/flow/stopper.h"
#include "engine/flow/tables.h"

struct applier;

struct applier_opts {
    const struct db_driver *driver;
    struct target *target;
    struct target_state *state;   /* taken over; its seq and link_id follow what is applied */
    struct chain *chain;
    struct tables *tables;        /* holds the shapes in force at the next record */
    struct stopper *stopper;      /* may be NULL */
    uint64_t until_seq;           /* a commit record's seq to stop behind; 0 = go on to the link's end. See applier_until */
    uint64_t lanes;               /* --apply-concurrency: 0 = auto */
    size_t alone_rows;            /* with several lanes: a window of fewer rows goes whole to one; 0 = the default */
    size_t window_bytes;          /* soft bound of a window; 0 = 8 MiB. A transaction of over four times this is applied in parts */
};
/* Opens the lanes; marks and routing are compared with the state and the chain: MARK_MISMATCH. */
int applier_open(const struct applier_opts *o, struct applier **a, struct err *e);
void applier_close(struct applier *a);
/* Everything up to here is applied (the lowest lane's mark, which may lie inside a link). */
uint64_t applier_seq(const struct applier *a);
/* hop 5/8 to 7/8: apply link n from the applier's place on, to its end or to a stop. *stopped: the latter. */
int applier_link(struct applier *a, uint64_t n, bool *stopped, struct err *e);

/* Move the bound; 0 takes it away. */
void applier_until(struct applier *a, uint64_t seq);
/* Did the last link stop at the bound, with something behind it? The lane's mark is then the place; the state row stays at the last whole link. */
bool applier_at_until(const struct applier *a);

struct applier_stats { uint64_t links, changes, rows, missing, windows, replayed_ordered, replayed_replaced, split_transactions, shared; }; /* shared: windows that several lanes applied together */
const struct applier_stats *applier_stats(const struct applier *a);

#endif
