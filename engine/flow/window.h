/* A window: changes in source order become few statements. DESIGN in window.c. */
#ifndef SLUICE_FLOW_WINDOW_H
#define SLUICE_FLOW_WINDOW_H

#include "drivers/db.h"
#include "engine/flow/tables.h"

enum window_mode {
    WINDOW_COMPOSED,  /* per key where that is safe, else in source order, many rows a run */
    WINDOW_SINGLE,    /* source order, one row a run: after a unique conflict */
    WINDOW_REPLACED   /* tables with another unique key: the rows touched are deleted and put back from full images */
};

/* The part of the changes that one of several lanes takes. Everything is borrowed. */
struct window_share {
    const uint8_t *lane_of;             /* per change: a lane, SHARE_LEADER or SHARE_NOBODY; NULL: all changes are this lane's */
    uint8_t lane;
    bool leader;                        /* takes what is marked SHARE_LEADER too */
    struct target_table *const *bound;  /* by table number: this lane's own */
    size_t nbound;
};
#define SHARE_LEADER 253
#define SHARE_NOBODY 255

struct window;
/* fk_enforced: order between tables matters too. */
struct window *window_new(struct tables *ts, bool fk_enforced, struct err *e);
void window_free(struct window *w); /* NULL is fine */
/* hop 6/8: compose `n` changes per key into few runs.
 * The changes stay where they are and must outlive the runs. Tables are bound as needed. Records that the consumer does not want, or that the
 * full's rows hold already, are left out. The runs stay valid until the next call. */
int window_compose(struct window *w, enum window_mode mode, struct change *changes, size_t n, const struct run **runs, size_t *nruns,
                   struct err *e);
/* From now on compose only this share; NULL: everything, with the tables' own binding. */
void window_share(struct window *w, const struct window_share *s);
/* Row changes that the last call took in. */
uint64_t window_rows(const struct window *w);

#endif
