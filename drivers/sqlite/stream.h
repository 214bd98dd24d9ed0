/* What the files of the SQLite stream share: stream.c (the contract), tick.c (beginning a tick), tell.c (what it tells). */
#ifndef SLUICE_DRIVERS_SQLITE_STREAM_H
#define SLUICE_DRIVERS_SQLITE_STREAM_H

#include "drivers/sqlite/source.h"

enum phase { PHASE_IDLE, PHASE_TRUNCATE, PHASE_SHAPES, PHASE_DELETES, PHASE_ROWS, PHASE_COPIES, PHASE_COMMIT, PHASE_BROKEN };

struct stream_table {
    int64_t n;
    struct shape *told;  /* what downstream knows; NULL: nothing yet */
    struct shape *now;   /* in force in this tick */
    bool copy;           /* this tick copies it whole */
    int64_t first, last; /* its rows in temp.sluice_touch; first = 0: none */
    sqlite3_stmt *gone, *present, *all;
};

struct stream {
    struct source *s;
    sqlite3 *db;         /* of its own: a tick's transaction stays open between calls */
    struct sq_place at;  /* everything up to here was delivered */
    struct sq_place end; /* of the tick that is open */
    struct sq_capture cap;
    struct stream_table *t;
    size_t nt, cap_t;
    struct shape **kept;
    size_t nkept, cap_kept; /* every shape that a change may point to: until the stream ends */
    enum phase phase;
    size_t table;   /* where the phase stands */
    bool running;   /* the table's statement is under way */
    uint64_t told;  /* changes in this tick */
    int touch_keys; /* key columns of temp.sluice_touch; 0: not made yet */
    sqlite3_stmt *end_st, *version_st, *data_version_st;
    int64_t data_version;
    int64_t nulls_until;     /* NULL keys noted up to here have led to a look at the shapes */
    int64_t checked_version; /* schema version that st->t is true for; 0: none */
};

/* ---- tick.c ---- */
int sqs_keep_shape(struct stream *st, struct shape *s, struct err *e); /* takes s */
struct stream_table *sqs_find_table(struct stream *st, int64_t n);
struct stream_table *sqs_add_table(struct stream *st, int64_t n, struct err *e); /* earlier pointers move */
void sqs_table_reset(struct stream_table *t);                                    /* its statements */
/* Open the read transaction with capture true to the schema in it. 1: there is a tick to tell. */
int sqs_begin_tick(struct stream *st, struct err *e);

/* ---- tell.c ---- */
/* Go on telling until the batch is full or the tick is over (phase idle again). */
int sqs_go_on(struct stream *st, struct batch *b, size_t max_bytes, struct pos *seen, struct err *e);

#endif
