/* The engine's public face: jobs, and the one loop that advances an entity through its machine. A verb of the command line, `sluice run KIND NAME` and
 * a cron line all come here, so a step by hand is a real advance. */
#ifndef SLUICE_FLOW_FLOW_H
#define SLUICE_FLOW_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "drivers/db.h"
#include "drivers/store.h"
#include "engine/chain/chain.h"
#include "engine/control/control.h"
#include "engine/flow/options.h"
#include "engine/flow/progress.h"
#include "engine/flow/stopper.h"
#include "engine/lua/policy.h"

enum incremental_end { END_CAUGHT_UP, END_WINDOW, END_MAX_CHANGES, END_STOPPED, END_NOTHING_NEW, END_MAX_BYTES };
const char *incremental_end_name(enum incremental_end w);

/* What the last step did; every step fills what it knows. */
struct job_result {
    char id[CHAIN_ID];                  /* the link that was made, or that the target stands at; empty when none */
    char lineage[CHAIN_LINEAGE];
    uint64_t seq, tables, rows, raw_bytes, stored_bytes;
    uint64_t links, records, changes, missing;
    struct pos start, end;
    enum incremental_end why;
    bool committed, resumed, stopped;
};

/* Everything a running entity holds. */
struct job {
    struct control *control;
    struct entity entity;
    struct options options;             /* of this run: its flags, then the entity's config */
    struct policy *policy;
    struct store *store;
    const struct db_driver *source_driver, *target_driver;
    char *source_dsn, *target_dsn;      /* resolved; never logged */
    struct table_filter filter;
    const char **map_ns; size_t nmap_ns; /* pairs: from, to */
    struct progress progress;
    struct stopper stopper;
    struct job_result result;
    struct consumer consumer;           /* a broker's last heartbeat; registered in the store when it has a stream_id */
    bool store_read_only;
    void *ctx; void (*ctx_free)(void *); /* a tailing step's open connections; dropped after an error */
    void *side; void (*side_free)(void *); /* work beside the steps, on threads of its own; ended before anything else of the job */
    bool owned, place_checked, again;   /* again: it was done, and was asked for once more */
};

/* Prepare a job for an entity that is in the control DB: own it, read its config under `o` (taken over), resolve its endpoints, open its store.
 * On error everything is released. */
int job_open(struct control *c, const char *kind, const char *name, struct options *o, struct job **j, struct err *e);
/* A job that only looks: it has no control DB, owns nothing and records nothing. What an entity of that name was configured with plays no part. The
 * DSN may hold `${VAR}` and `file:PATH`. */
int job_look(const char *kind, const char *name, const char *store_url, const char *target_driver, const char *target_dsn, struct options *o, struct job **j,
             struct err *e);
void job_close(struct job *j); /* NULL is fine */

enum drive_until {
    DRIVE_DONE,   /* one-shot work: until the entity comes to a state without a step, or one tick of a tailing state was made */
    DRIVE_IDLE,   /* until a tick finds nothing to do */
    DRIVE_STOP    /* until a stop; transient errors are tried again as the policy says */
};
/* Advance. steps: at most so many (0 = no limit). `did`, if given, gets a line per step. */
int flow_drive(struct job *j, enum drive_until until, uint64_t steps, struct buf *did, struct err *e);

/* What a step says. */
struct step_result {
    const char *event;   /* edge to take; NULL: stay (a tick) */
    bool idle;           /* the tick found nothing to do */
    char detail[512];    /* JSON for history, or empty */
    char said[256];      /* a line for people */
};
typedef int (*step_fn)(struct job *j, struct step_result *r, struct err *e);
/* The table of steps; names stand in sql/machine/ too, compared at start. */
struct step { const char *name; step_fn fn; };
extern const struct step step_all[];
extern const size_t step_count;

int step_producer_full(struct job *j, struct step_result *r, struct err *e);
int step_producer_follow(struct job *j, struct step_result *r, struct err *e);
int step_broker_start(struct job *j, struct step_result *r, struct err *e);
int step_broker_reset(struct job *j, struct step_result *r, struct err *e);
int step_broker_tail(struct job *j, struct step_result *r, struct err *e);
/* The last heartbeat of a broker that was registered: it has ended. Through errors that are tried again it counts as running. */
void broker_farewell(struct job *j);
int step_task_run(struct job *j, struct step_result *r, struct err *e);

/* Plans that change nothing, for --dry-run. */
int full_dry_run(struct job *j, struct buf *out, struct err *e);
int restore_dry_run(struct job *j, struct buf *out, struct err *e);
int broker_dry_run(struct job *j, struct buf *out, struct err *e); /* of --reset-target-data; for a job of job_look */

/* The chain of the job's store: CODE_CHAIN_MISSING when there is none. */
int job_chain(struct job *j, struct chain **c, struct err *e);
int job_source(struct job *j, const char *slot_name, struct source **s, struct err *e);
int job_target(struct job *j, const char *stream_id, struct target **t, struct err *e);
enum compression job_compression(const struct job *j);

/* `sync from-backup stop`: ask every broker of the chain (or one) to end; stream-ids, a line each, into `stopped`. */
struct broker_stop { const char *stream_id; bool wait; int64_t timeout_us; };
int flow_broker_stop(struct job *j, const struct broker_stop *s, struct buf *stopped, struct err *e);

/* `control rebuild`: positions and chain catalogues read again from targets and stores; a line per entity into `out`. */
int flow_rebuild_control(struct control *c, struct buf *out, struct err *e);

#endif
