/* Loading the rows of a full into a target: several tables at once where the target allows it, restartable at every chunk. */
#ifndef SLUICE_FLOW_LOAD_H
#define SLUICE_FLOW_LOAD_H

#include "engine/chain/chain.h"
#include "engine/flow/progress.h"
#include "engine/flow/stopper.h"
#include "engine/flow/tables.h"

struct load_opts {
    const struct db_driver *driver;
    struct target *target;           /* of the calling thread; the workers open loaders on it */
    const struct target_state *state;
    struct store *store;             /* each worker opens the chain for itself */
    const char *segment;
    struct tables *tables;
    unsigned parallelism;            /* 0 = auto 4; 1 where the target has no concurrent writers */
    struct stopper *stopper;
    struct progress *progress;
};
struct load_stats { uint64_t tables, rows, raw_bytes; };
/* hop 5/8 of a full: its blocks go to the target. *stopped: a stop was asked; every finished chunk is kept. */
int load_full(const struct load_opts *o, struct load_stats *s, bool *stopped, struct err *e);

#endif
