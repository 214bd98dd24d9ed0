/* The engine's public face: what the command table and `sluice run` call. Each verb fills a job and runs its entity through the machine. */
#ifndef SLUICE_FLOW_FLOW_H
#define SLUICE_FLOW_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "drivers/db.h"
#include "drivers/store.h"
#include "engine/chain/chain.h"
#include "engine/control/control.h"
#include "engine/lua/policy.h"

/* Everything a running entity holds. Filled by the verb (or from the entity's row), owned by it. */
struct job {
    struct control *control;
    struct entity entity;
    struct policy *policy;
    struct store *store;
    const struct db_driver *source_driver, *target_driver;
    const char *source_dsn, *target_dsn;      /* resolved */
    const char *control_schema;
    struct table_filter filter;
    const char *const *map_ns; size_t nmap_ns; /* pairs: from, to */
    int64_t stop_since;                        /* requests with a higher id end the run */
    struct progress *progress;
};

/* ---- producer ---- */
struct full_job {
    bool chain_slot, publish_all, force_overwrite, dry_run, allow_blocking;
    uint64_t keyless_max_bytes, chunk_rows;
    const char *slot_name;
    unsigned table_parallelism;                /* 0 = auto 4 */
    enum compression compression;
};
struct full_result { char id[CHAIN_ID]; char lineage[CHAIN_LINEAGE]; uint64_t tables, rows, raw_bytes, stored_bytes; bool resumed; };
int flow_full(struct job *j, const struct full_job *f, struct full_result *r, struct err *e);

struct incremental_job {
    const char *since;
    const char *slot_name;                     /* NULL: the chain's */
    int64_t window_us;                         /* 5 m */
    uint64_t max_changes, chunk_records;
    bool allow_blocking; uint64_t keyless_max_bytes;
    enum compression compression;
    bool dry_run;
};
enum incremental_end { END_CAUGHT_UP, END_WINDOW, END_MAX_CHANGES, END_STOPPED, END_NOTHING_NEW };
const char *incremental_end_name(enum incremental_end w);
struct incremental_result { char id[CHAIN_ID]; uint64_t records, row_changes, bytes; struct pos start, end; enum incremental_end why; bool committed; };
int flow_incremental(struct job *j, const struct incremental_job *i, struct incremental_result *r, struct err *e);

/* ---- restore ---- */
struct restore_job {
    const char *to_id;                         /* NULL: the tail */
    unsigned table_parallelism;
    bool dry_run;
};
struct restore_result { char tail_id[CHAIN_ID]; uint64_t seq, tables, rows, raw_bytes, changes; bool resumed; };
int flow_restore(struct job *j, const struct restore_job *r, struct restore_result *out, struct err *e);

/* ---- broker ---- */
struct broker_job {
    const char *stream_id;
    int64_t poll_us;                           /* 30 s */
    unsigned apply_concurrency;
    bool reset, yes, once;
    const char *at_chain_id;                   /* an id, or "restore" */
    unsigned table_parallelism;
};
struct broker_result { char link_id[CHAIN_ID]; uint64_t seq, links, changes, rows, missing; const char *ended; };
/* Runs until a stop, or one tick with `once`. */
int flow_broker(struct job *j, const struct broker_job *b, struct broker_result *r, struct err *e);
struct broker_stop_job { const char *stream_id; bool wait; int64_t timeout_us; };
int flow_broker_stop(struct job *j, const struct broker_stop_job *s, struct buf *stopped /* stream-ids, a line each */, struct err *e);

/* `sluice run KIND NAME`: the same entities from their rows. steps 0 with until_idle: until nothing is left to do. */
int flow_run(struct control *c, const char *kind, const char *name, uint64_t steps, bool until_idle, struct buf *did, struct err *e);

#endif
