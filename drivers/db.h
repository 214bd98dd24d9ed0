/* The contract of a database driver: what a source and a target must do. Everything above asks capability bits, never names.
 *
 * One source, stream, reader, target, loader or lane belongs to one thread. Every function returns 0, or -1 with *e classified by
 * the driver (SQLSTATE or SQLite code -> class, code, marker); a connection that broke is ERR_RETRY and the caller opens anew. */
#ifndef SLUICE_DRIVERS_DB_H
#define SLUICE_DRIVERS_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/change.h"
#include "engine/base/err.h"
#include "engine/base/pos.h"
#include "engine/base/shape.h"

enum db_cap {
    CAP_SLOT = 1u << 0,               /* an anchor is a server-side object that pins the log (replication slot) */
    CAP_CONCURRENT_READERS = 1u << 1, /* several readers share one snapshot */
    CAP_CONCURRENT_WRITERS = 1u << 2, /* several lanes and loaders may write at once */
    CAP_DDL_IN_TXN = 1u << 3,         /* a schema change commits together with its mark */
    CAP_SEQUENCES = 1u << 4,
    CAP_ALLOW_BLOCKING = 1u << 5,     /* knows --allow-blocking and --keyless-max-bytes */
    CAP_FOLDS_NAMES = 1u << 6,        /* names that differ by case are one */
};

/* How a block of copied rows is written. Numbers stand in chunks: frozen. */
enum rows_encoding {
    ROWS_VALUES = 1,    /* row_encode of every row, one after the other: exact for every engine */
    ROWS_COPY_TEXT = 2  /* PostgreSQL COPY text lines, as they came; columns = the shape's stored columns (generated ones left out) */
};

/* ---- source ---------------------------------------------------------------------------------------------------------- */

struct table_filter { /* globs on `table` or `ns.table`; empty include = all. sluice_* tables are always left out */
    const char *const *include; size_t ninclude;
    const char *const *exclude; size_t nexclude;
};
bool table_filter_match(const struct table_filter *f, const char *ns, const char *name); /* drivers/registry.c */

struct source_opts {
    const char *dsn;            /* resolved, with its password; never logged */
    const char *slot_name;      /* CAP_SLOT; the publication is named after it too */
    bool publish_all;
    bool allow_blocking;
    uint64_t keyless_max_bytes; /* 0 = the driver's default */
    struct table_filter filter; /* borrowed until the source is closed */
};

struct source;   /* a connection to a source and what hangs on it */
struct snapshot; /* one consistent view; readers read from it */
struct reader;   /* reads tables of a snapshot, one after the other, on a connection of its own */
struct stream;   /* the source's log from a position on */

struct source_ops {
    int (*open)(const struct source_opts *o, struct source **s, struct err *e);
    void (*close)(struct source *s); /* NULL is fine */
    /* Which database this is, stable over restarts: "postgres:<system id>:<timeline>:<db oid>", "sqlite:<random id kept in it>". At most 127 bytes. */
    int (*identity)(struct source *s, char out[128], struct err *e);
    /* Tables that the filter lets through, with everything a same-engine restore needs, and warnings about what will not be carried.
     * Refuses what would lose rows silently (row-level security; with for_chain: replica identity, wal_level, not in WAL mode, keyless too big),
     * naming table and remedy. */
    int (*catalog)(struct source *s, bool for_chain, struct catalog **c, struct err *e);
    /* Where the log ends now. */
    int (*end)(struct source *s, struct pos *p, struct err *e);
    /* Set up capture and take the first snapshot exactly at its start (publication, then slot; triggers). Refuses when the slot exists.
     * The caller makes p durable, then reads. */
    int (*anchor)(struct source *s, const struct catalog *c, struct pos *p, struct snapshot **snap, struct err *e);
    /* Refuses with CODE_SLOT_EXISTS when an anchor of this name is there already, whoever made it. Asked before the intent to make one is recorded. */
    int (*anchor_absent)(struct source *s, struct err *e);
    /* Undo what an anchor made (after a crash before its position was durable; --force-overwrite). Missing things are fine. Refuses while in use. */
    int (*unanchor)(struct source *s, struct err *e);
    /* Is the log still there from `from` on, not acknowledged beyond `covered` (≥ from)? Refuses: missing, created later, advanced (marker
     * SLOT-ACKED-PAST-TARGET-POSITION), lost, other plugin or database, restored from an older copy. Warns by log of WAL at risk. */
    int (*check)(struct source *s, const struct pos *from, const struct pos *covered, struct err *e);
    /* Another snapshot, later than the anchor (resume, added tables), or without any anchor (plain full). *p is its exact position: a
     * transaction is in the snapshot iff its commit is at or below *p. */
    int (*snapshot)(struct source *s, const struct catalog *c, struct pos *p, struct snapshot **snap, struct err *e);
    void (*snapshot_close)(struct snapshot *snap);

    int (*reader_open)(struct snapshot *snap, struct reader **r, struct err *e);
    /* Begin a table. *enc says how the blocks will be written. */
    int (*reader_table)(struct reader *r, const struct shape *t, enum rows_encoding *enc, struct err *e);
    /* The next block of whole rows, at least one, about 64 to 256 KiB; borrowed until the next call. n = 0 at the table's end. */
    int (*reader_next)(struct reader *r, const char **p, size_t *n, uint64_t *rows, struct err *e);
    /* Rows and bytes the table probably has, for progress; may be -1. */
    int (*reader_estimate)(struct reader *r, const struct shape *t, int64_t *rows, int64_t *bytes, struct err *e);
    void (*reader_close)(struct reader *r);
    /* Values of the catalogue's sequences, read again: once the rows are copied they are behind none of them. NULL without CAP_SEQUENCES. */
    int (*sequences_again)(struct source *s, struct catalog *c, struct err *e);

    /* Open the log behind `from` (the last durable end). `known` are the shapes in force there, with table numbers and oids: the driver
     * compares the source's tables with them and reports differences as CHANGE_SHAPE before the first change that uses them. */
    int (*stream_open)(struct source *s, const struct pos *from, struct shape *const *known, size_t nknown, struct stream **st,
                       struct err *e);
    /* Append changes to b (already reset by the caller) until it holds max_bytes or the log has nothing more now, waiting at most wait_us
     * for the first one. Whole transactions end in CHANGE_COMMIT; a batch may end inside a huge transaction (ends_at_commit false).
     * *seen: everything up to here was delivered or does not concern us; only moves forward; never past an undelivered commit. */
    int (*stream_next)(struct stream *st, struct batch *b, size_t max_bytes, int64_t wait_us, struct pos *seen, struct err *e);
    /* Everything up to p is durable downstream: the source may forget it. Keepalives are answered with this, never with what was only read. */
    int (*stream_ack)(struct stream *st, const struct pos *p, struct err *e);
    /* Current values of the sequences of the captured tables (CAP_SEQUENCES), objects in `a`. */
    int (*stream_sequences)(struct stream *st, struct arena *a, struct object **o, size_t *n, struct err *e);
    /* Tables the filter lets through that are not in the log (new ones), as "ns.table: reason" lines in `a`; for a report. */
    int (*stream_uncaptured)(struct stream *st, struct arena *a, const char ***lines, size_t *n, struct err *e);
    void (*stream_close)(struct stream *st);
};

/* ---- target ---------------------------------------------------------------------------------------------------------- */

struct target;       /* a connection to a target: catalogue, state, DDL */
struct target_table; /* a source table bound to a target table: conversions chosen once per column pair */
struct loader;       /* bulk load on a connection of its own */
struct lane;         /* applies windows on a connection of its own */

struct target_opts {
    const char *dsn;
    const char *control_schema; /* NULL: the DSN's default namespace */
    const char *stream_id;      /* whose lanes and marks these are; may be NULL for catalogue work */
    bool look;                  /* a dry run: the database is read only, and is not made when it is not there */
};

/* The row of sluice_cdc_state. */
struct target_state {
    char stream_id[256];
    char lineage[33];           /* chain's lineage id (32 hex) */
    char source_identity[128];
    char link_id[41];           /* last whole link */
    uint64_t seq;               /* everything up to here is applied */
    uint64_t epoch;
    int format;                 /* 1 */
    char phase[16];             /* "resetting", "restoring", "tailing", "restored" */
    char detail[512];           /* JSON of the phase: what a killed reset must go on with */
    int64_t stop_requested_us;  /* 0 = none */
    char refusal[1024];         /* recorded refusal, empty = none */
    int64_t updated_us;
};

/* A mark: written in the same transaction as the rows it covers. */
struct mark {
    uint64_t epoch;         /* the lane row must still hold it, else CODE_FENCED */
    uint64_t route_epoch;   /* W=1: 0 */
    uint64_t seq;           /* this lane has everything up to here */
    const char *link_id;    /* when the window ends a link: state row moves too (W=1); NULL otherwise */
    uint64_t state_seq;
    const unsigned *also;   /* lanes without a share in this window: their marks move with this one, in the same transaction; ascending, never ours */
    unsigned nalso;
};

/* The row of sluice_cdc_route in force: how changes are dealt to lanes. There is none while one lane applies. */
struct target_route {
    uint64_t route_epoch;
    unsigned lanes;
    int hash_version;
    uint64_t seq;           /* in force from here on */
    char *rules;            /* JSON; mem_free it after route_read */
    uint64_t strangers;     /* read: marks that were not written under it */
};

/* One statement's worth of a window: rows of the same table and kind. */
enum run_kind {
    RUN_UPSERT,      /* keyed insert; replaces a row of the same identity that a replay left */
    RUN_INSERT,      /* plain insert: tables without a key, and source-order replay */
    RUN_UPDATE,      /* by identity (before image, or after when the key did not change); sets the columns in `mask` */
    RUN_DELETE,      /* by identity */
    RUN_UPDATE_FULL, /* no identity: match the full before image in text form, exactly one row each */
    RUN_DELETE_FULL,
    RUN_TRUNCATE,    /* changes[0] names the tables */
    RUN_SEQUENCE     /* changes are CHANGE_SEQUENCE: forward only */
};
struct run {
    enum run_kind kind;
    struct target_table *table;     /* NULL for truncate and sequence */
    struct change **changes;        /* n of them, in order; values complete but for columns outside the mask */
    size_t n;
    const uint8_t *mask;            /* per source column: 1 = set it; NULL = all that are stored */
    struct target_table *const *tables; /* truncate: the bound table for each of changes[0]->tables */
    uint32_t ntables;
};
struct apply_result {
    uint64_t rows;                  /* rows written */
    uint64_t missing;               /* updates and deletes that matched no row */
};

struct target_ops {
    int (*open)(const struct target_opts *o, struct target **t, struct err *e);
    void (*close)(struct target *t);
    int (*identity)(struct target *t, char out[128], struct err *e);
    const char *(*default_ns)(struct target *t);

    /* Control tables; names in --control-schema. ensure creates what is missing and refuses a newer format. */
    int (*control_ensure)(struct target *t, struct err *e);
    int (*state_read)(struct target *t, const char *stream_id, struct target_state *st, bool *found, struct err *e); /* not found too when no control table is there */
    int (*state_list)(struct target *t, struct arena *a, struct target_state **st, size_t *n, struct err *e);
    /* Insert, or update where epoch = st->epoch (else CODE_FENCED). Everything but epoch and stop_requested_us is written. */
    int (*state_write)(struct target *t, struct target_state *st, struct err *e);
    /* Become the stream's only writer: raise the epoch in the state row and every lane row, waiting for transactions in flight; st is filled anew. */
    int (*takeover)(struct target *t, struct target_state *st, struct err *e);
    int (*stop_request)(struct target *t, const char *stream_id, int64_t us, struct err *e); /* 0 clears */
    int (*marks_read)(struct target *t, const char *stream_id, uint64_t *lane_seq /* [nlanes] */, size_t *nlanes, struct err *e);
    /* Routing of several lanes; NULL without CAP_CONCURRENT_WRITERS. */
    int (*route_read)(struct target *t, const char *stream_id, struct target_route *r, bool *found, struct err *e);
    /* In one transaction, in the state's epoch (else CODE_FENCED) and only where all lanes stand at r->seq (else CODE_MARK_MISMATCH): this routing replaces
     * the last one, and there are exactly lanes 0 … lanes-1, all at r->seq. lanes = 1: one lane and no routing (route_epoch 0). */
    int (*route_write)(struct target *t, const struct target_state *st, const struct target_route *r, struct err *e);
    /* Remove the stream's lanes, routing and copy marks (before a reset; restore's end keeps the state row). In the state's epoch. */
    int (*marks_clear)(struct target *t, const struct target_state *st, struct err *e);

    /* Catalogue. table_shape gives NULL when absent. */
    int (*table_shape)(struct target *t, const char *ns, const char *name, struct shape **s, struct err *e);
    int (*table_has_rows)(struct target *t, const char *ns, const char *name, bool *any, struct err *e);
    /* Can every value of `src` be held by a table made for it (dst NULL) or by the existing `dst`? CODE_TYPE_UNSUPPORTED, RESUME-SCHEMA-DIVERGENCE, … */
    int (*compatible)(struct target *t, const struct shape *src, const struct shape *dst, struct err *e);
    /* The target's keys against the source's: markers SOURCE-UNIQUE-KEY-ABSENT, KEY-COLLATION-MERGE (sub KEY-COLLATION-GUARD-UNSUPPORTED). */
    int (*keys_check)(struct target *t, const struct shape *src, const struct shape *dst, struct err *e);
    int (*objects_create)(struct target *t, const struct catalog *c, const char *(*map_ns)(void *arg, const char *ns), void *arg, struct err *e);
    /* Refuse (CODE_TARGET_CAPTURED) to replace a table that is captured as a source itself, the chain's own one above all. NULL: nothing to refuse. */
    int (*table_captured)(struct target *t, const char *source_identity, const struct shape *src, const char *ns, const char *name, struct err *e);
    int (*table_create)(struct target *t, const struct shape *src, const char *ns, const char *name, struct err *e);
    /* Indexes and constraints that are better made after the rows; repeatable: what is there with the same definition stays.
     * stage 0: primary and unique keys, 1: other indexes and checks, 2: foreign keys. map_ns maps a referenced namespace. */
    int (*table_finish)(struct target *t, const struct shape *src, const char *ns, const char *name, int stage,
                        const char *(*map_ns)(void *arg, const char *ns), void *arg, struct err *e);
    int (*table_drop)(struct target *t, const char *ns, const char *name, struct err *e); /* absent is fine; cascades to foreign keys that point at it */
    int (*sequence_set)(struct target *t, const struct object *o, const char *ns, struct err *e);
    /* Follow one shape change; commits together with m when CAP_DDL_IN_TXN. `before` NULL: a new table. The table is called old_ns.old_name on the
     * target and ns.name afterwards. Refuses what cannot be followed (SCHEMA-CHANGE-REFUSED, COLUMN-ORDER-CHANGED). */
    int (*table_alter)(struct lane *l, const struct shape *before, const struct shape *after, const char *old_ns, const char *old_name,
                       const char *ns, const char *name, const struct mark *m, struct err *e);

    int (*bind)(struct target *t, const struct shape *src, const char *ns, const char *name, struct target_table **tt, struct err *e);
    void (*unbind)(struct target_table *tt);

    /* Bulk load. Blocks of one chunk, then commit: rows and the mark (table number, chunk number) in one transaction. `raw` blocks are taken when
     * loader_raw says so (same engine, same types), else the caller decodes to values. */
    int (*loader_open)(struct target *t, const struct target_state *st, struct loader **l, struct err *e);
    bool (*loader_raw)(struct loader *l, const struct target_table *tt, enum rows_encoding enc);
    /* The chunks of this table that are in already: a bitmap is not needed, chunks are loaded in order. *chunks = how many. */
    int (*loader_done)(struct loader *l, uint32_t table, uint64_t *chunks, bool *whole, struct err *e);
    int (*loader_begin)(struct loader *l, struct target_table *tt, struct err *e);
    int (*loader_raw_put)(struct loader *l, const char *p, size_t n, struct err *e);
    int (*loader_rows)(struct loader *l, const struct value *rows, size_t nrows, struct err *e); /* nrows * ncols values, row by row */
    int (*loader_commit)(struct loader *l, uint32_t table, uint64_t chunks, bool whole, struct err *e);
    void (*loader_close)(struct loader *l); /* rolls back what was not committed */

    /* Apply: all runs of a window and its mark in one transaction. On CODE_UNIQUE_CONFLICT everything is rolled back and the lane is usable. */
    int (*lane_open)(struct target *t, const struct target_state *st, unsigned lane, struct lane **l, struct err *e);
    /* Are foreign keys enforced in our lanes' sessions? Then order between tables matters. */
    int (*lane_fk_enforced)(struct lane *l, bool *yes, struct err *e);
    int (*lane_apply)(struct lane *l, const struct run *runs, size_t nruns, const struct mark *m, struct apply_result *r, struct err *e);
    void (*lane_close)(struct lane *l);
};

struct db_driver {
    const char *name;       /* "postgres", "sqlite" */
    const char *default_ns; /* what an unqualified name means in a source: "public", "main" */
    uint32_t caps;
    const struct source_ops *source;
    const struct target_ops *target;
    /* DSN's form, without connecting: CODE_DSN. */
    int (*dsn_check)(const char *dsn, struct err *e);
};

extern const struct db_driver postgres_driver, sqlite_driver;
void db_driver_names(char out[128]); /* "a, b" */
const struct db_driver *db_driver_find(const char *name, struct err *e); /* CODE_USAGE lists the known names */

#endif
