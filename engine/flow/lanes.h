/* Lanes: several writers that apply one window together. DESIGN in lanes.c. */
#ifndef SLUICE_FLOW_LANES_H
#define SLUICE_FLOW_LANES_H

#include "drivers/db.h"
#include "engine/base/change.h"
#include "engine/flow/put.h"
#include "engine/flow/tables.h"

struct lanes;
struct lanes_opts {
    const struct db_driver *driver;
    struct target *target;      /* used on the caller's thread alone */
    struct target_state *state; /* its epoch; seq and link_id follow what is applied */
    struct tables *tables;      /* changed only between lanes_wait and the next window */
    unsigned lanes;             /* from the first place on where all stand together */
    size_t alone_rows;          /* a window of fewer rows is applied whole by one lane; 0 = the default */
};
/* How many lanes the driver runs when `asked` are asked for (0 = auto): says so where it is one. CODE_USAGE past the maximum. */
int lanes_count(const struct db_driver *driver, uint64_t asked, unsigned *lanes, struct err *e);
/* marks: of each lane, all at or above the state's seq. route: as recorded, NULL when one lane applied until now; its rules are taken over.
 * lane0: open already; taken over on success. */
int lanes_open(const struct lanes_opts *o, struct lane *lane0, const uint64_t *marks, size_t nmarks, struct target_route *route,
               struct lanes **l, struct err *e);
void lanes_close(struct lanes *l); /* waits; NULL is fine */

/* Everything up to here is applied by every lane, as far as lanes_wait knows. */
uint64_t lanes_seq(const struct lanes *l);
/* The highest mark: behind a run that was cut short, lanes may stand apart. */
uint64_t lanes_high(const struct lanes *l);
/* Begin a window (…, seq]: changes stay where they are until lanes_wait, or the next call here, returns. Errors of the window before come
 * out here. link_id: it ends a link, and the state row moves. */
int lanes_window(struct lanes *l, struct change *changes, size_t n, uint64_t seq, const char *link_id, struct err *e);
/* Until nothing is in flight. */
int lanes_wait(struct lanes *l, struct err *e);
/* A barrier: fn runs on lane 0 when all stand together, and commits the mark it is given. */
int lanes_call(struct lanes *l, int (*fn)(struct lane *lane, const struct mark *m, void *arg, struct err *e), void *arg, uint64_t seq,
               struct err *e);
/* A table's shape or name changed: bind it anew, look at the routing again. */
void lanes_reshaped(struct lanes *l, uint32_t table);

struct lanes_stats {
    uint64_t windows, shared;
    struct put_stats put;
}; /* shared: by more than one lane */
const struct lanes_stats *lanes_stats(const struct lanes *l);

#endif
