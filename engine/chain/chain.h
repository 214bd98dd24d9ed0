/* A chain over a store: the catalogue, its links, writers and readers. The format stands in DESIGN of format.h.
 *
 * A chain handle belongs to one thread; full writers may put rows of different tables from several threads. */
#ifndef SLUICE_CHAIN_CHAIN_H
#define SLUICE_CHAIN_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "drivers/db.h"
#include "drivers/store.h"
#include "engine/base/change.h"
#include "engine/base/err.h"

#define CHAIN_ID 41       /* 40 hex digits and a terminator */
#define CHAIN_LINEAGE 33  /* 32 hex digits and a terminator */

enum compression { COMPRESSION_NONE = 0, COMPRESSION_ZSTD = 1 };

/* ---- catalogue ------------------------------------------------------------------------------------------------------- */

struct chain;

struct link_info {
    uint64_t n;             /* chain-wide number; 0 is the first segment's opening */
    char id[CHAIN_ID];
    char attempt[17];
    char segment[17];
    uint64_t start_seq, end_seq; /* records (start_seq, end_seq]; equal when empty */
    int64_t time_us;        /* when it was catalogued */
    uint64_t bytes;         /* stored: manifest and chunks */
    bool opening;           /* a segment's link 0: no changes, stands for its full */
    bool full_complete;     /* of its segment */
};

struct chain_info {
    char lineage[CHAIN_LINEAGE];
    char source_engine[16];
    char source_identity[128];
    char slot_name[64];     /* empty when there is none */
    bool extendable;        /* has an anchor (--chain-slot, or an engine whose capture is always armed) */
    char segment[17];       /* the open one */
    bool full_complete;     /* of the open segment */
    bool restorable;        /* some segment's full is complete */
    uint64_t segment_first; /* number of the open segment's opening; of no meaning without links */
    uint64_t nsegments;
    uint64_t nlinks;        /* openings included */
    struct link_info tip;
    struct pos tip_pos, covered; /* covered_to; not set when there is none */
};

/* Open. *found false when there is no lineage.json. The handle caches it by etag. */
int chain_open(struct store *st, struct chain **c, bool *found, struct err *e);
void chain_close(struct chain *c);
/* Read again if it changed (one conditional GET). A torn or unparsable catalogue is tried 4 times before CODE_MANIFEST_INVALID. */
int chain_refresh(struct chain *c, bool *changed, struct err *e);
/* Did --force-overwrite replace that lineage here, at any time before? */
bool chain_replaced(const struct chain *c, const char *lineage);
const struct chain_info *chain_info(const struct chain *c); /* valid until the next refresh or append */
/* Link by number or by id (any unambiguous prefix of at least 4 digits): CODE_ID_UNKNOWN, CODE_ID_AMBIGUOUS. */
int chain_link(struct chain *c, uint64_t n, struct link_info *out, struct err *e);
int chain_find(struct chain *c, const char *id_prefix, struct link_info *out, struct err *e);
/* Manifest's positions of a link (opening: the anchor). */
int chain_link_span(struct chain *c, uint64_t n, struct pos *start, struct pos *end, struct err *e);
/* The shapes in force at the start of link n (n = nlinks: at the tip's end), with table numbers. Borrowed until chain_close. */
int chain_shapes_at(struct chain *c, uint64_t n, struct shape *const **shapes, size_t *count, struct err *e);
/* covered_to: an idle source's progress, durable before the slot is acknowledged beyond the tip. At most once a minute: the caller
 * decides. */
int chain_cover(struct chain *c, const struct pos *p, struct err *e);
int64_t chain_covered_us(const struct chain *c); /* when covered_to was written last, wall clock; 0 = never */

/* ---- full ------------------------------------------------------------------------------------------------------------ */

struct full_opts {
    const char *source_engine, *source_identity, *slot_name; /* slot_name NULL: none */
    const char *lineage;        /* 32 hex digits for a fresh chain; NULL: random */
    bool extendable;
    bool force_overwrite;       /* a chain that is there is replaced: a new lineage */
    enum compression compression;
    uint64_t chunk_rows;        /* --chunk-size; 0 = by bytes alone */
};
enum full_found { FULL_FRESH, FULL_INTENT /* a run died between its intent and its anchor: unanchor first */, FULL_RESUME, FULL_COMPLETE };

struct full;        /* a full being written */
struct full_table;  /* one table of it; belongs to one thread */

/* What is there? Nothing is written. FULL_INTENT and FULL_RESUME fill *f: go on with full_start (after unanchor; it begins a segment of
 * its own), or
 * with the first attempt's anchor (full_match compares the tables). A chain with a complete full is CODE_CHAIN_EXISTS; with
 * force_overwrite it, an unfinished
 * one and a damaged one are FULL_COMPLETE and 0, without *f: unanchor, then full_intend. Source and slot of an unfinished full must
 * equal what is asked now.
 * An unfinished full that is not extendable is FULL_INTENT as well: its tables have to be read at one moment, and that is over.
 * On CODE_CHAIN_CONFLICT another run has the place (and perhaps the slot): do not unanchor then. */
int full_probe(struct store *st, const struct full_opts *o, enum full_found *found, struct full **f, struct err *e);
/* Durable intent before an anchor is made (fresh only): lineage.json with a starting segment, put-if-absent (or replacing, by if-match). */
int full_intend(struct store *st, const struct full_opts *o, struct full **f, struct err *e);
/* Durable anchor and catalogue (full.start.json, lineage.json): after this the anchor must be kept. Numbers the tables (shape.table is
 * set in c). */
int full_start(struct full *f, const struct pos *anchor, const struct catalog *c, struct err *e);
void full_anchor(const struct full *f, struct pos *anchor, const struct catalog **c); /* of a resumed or started full; borrowed */
const char *full_segment(const struct full *f);
const char *full_lineage(const struct full *f); /* 32 hex digits */
bool full_extendable(const struct full *f);
/* On resume: the source's tables must be those the full began with, in the same shapes (CODE_SHAPE_CHANGED); sets shape.table in c. */
int full_match(struct full *f, const struct catalog *c, struct err *e);
bool full_table_done(const struct full *f, uint32_t table);
/* Rows of one table, read from a snapshot at `snap`. A new attempt each time; what an earlier attempt stored is left to gc. */
int full_table_begin(struct full *f, const struct shape *t, const struct pos *snap, enum rows_encoding enc, struct full_table **ft,
                     struct err *e);
int full_table_put(struct full_table *ft, const char *p, size_t n, uint64_t rows, struct err *e); /* whole rows */
/* done/….json is durable. Frees ft in every case. */
int full_table_end(struct full_table *ft, uint64_t *rows, uint64_t *raw_bytes, uint64_t *stored_bytes, struct err *e);
void full_table_abort(struct full_table *ft);
/* Sequences sampled at the end, every table must be done. full.json, then the catalogue. */
int full_end(struct full *f, const struct object *sequences, size_t nsequences, char id[CHAIN_ID], struct err *e);
void full_close(struct full *f);

/* Rotation. At the end of a link the next segment opens *filling*: an entry without records at the tip's position, whose tables are those
 * in force there; links go on behind it at once, and its full is written beside them. Every table of the chain must be in `c` in the very
 * shape that is in force (CODE_SHAPE_CHANGED: nothing was written; the chain has to tell of the change first); `c` gives the objects and
 * warnings. A filling segment that another follows is given up for good. CODE_LIMIT: there are CHAIN_SEGMENTS_MAX. */
#define CHAIN_SEGMENTS_MAX 64
int chain_rotate(struct chain *c, const struct catalog *cat, struct link_info *out, struct err *e);
/* The full of that segment, from where it is: its done tables stay. It has to be the open segment, and filling (CODE_CHAIN_CONFLICT).
 * May run on a thread of its own beside the chain's links; of `o` compression and chunk_rows count. Then full_table_begin … full_end,
 * with snapshots at or behind the opening. */
int full_refill(struct store *st, const struct full_opts *o, const char *segment, struct full **f, struct err *e);

/* Reading it. */
struct full_reader;
struct full_table_info {
    uint32_t table;
    const struct shape *shape;
    struct pos snapshot;        /* changes of this table at or below it are in its rows */
    enum rows_encoding encoding;
    uint64_t rows, raw_bytes, stored_bytes, chunks;
};
/* segment NULL: the newest complete one. Open readers may be used by several threads; a chunk_rows belongs to one. */
int full_reader_open(struct chain *c, const char *segment, struct full_reader **r, struct err *e); /* CODE_CHAIN_INCOMPLETE */
void full_reader_close(struct full_reader *r);
size_t full_reader_tables(const struct full_reader *r, const struct full_table_info **t);
const struct catalog *full_reader_catalog(const struct full_reader *r);
int full_reader_sequences(const struct full_reader *r, const struct object **o, size_t *n);
/* The blocks of chunk k of a table: verified as a whole before the first block. Each block is one frame's rows. */
struct chunk_rows;
int full_reader_chunk(struct full_reader *r, uint32_t table, uint64_t k, struct chunk_rows **cr, struct err *e);
/* n = 0 at the end; borrowed until the next call. */
int chunk_rows_next(struct chunk_rows *cr, const char **p, size_t *n, uint64_t *rows, struct err *e);
const char *chunk_rows_path(const struct chunk_rows *cr); /* for messages */
void chunk_rows_close(struct chunk_rows *cr);

/* ---- links ----------------------------------------------------------------------------------------------------------- */

struct link;
struct link_opts {
    enum compression compression;
    uint64_t chunk_records;     /* --chunk-size for changes; 0 = by bytes */
    const char *since;          /* the tip must be this id; NULL: whatever it is */
};
/* Begin a link at the tip. `known` is the producer's table registry at its start: link_shapes gives it. */
int link_begin(struct chain *c, const struct link_opts *o, struct link **l, struct err *e);
/* hop 4/8: append one record; gives it its seq (c->seq) and, for new tables in CHANGE_SHAPE, its table number (c->table). */
int link_put(struct link *l, struct change *c, struct err *e);
uint64_t link_records(const struct link *l);
uint64_t link_row_changes(const struct link *l);
uint64_t link_bytes(const struct link *l);  /* raw */
/* Seal chunks, manifest, catalogue: in that order, tip checked twice. CODE_CHAIN_CONFLICT when another writer was faster; nothing of
 * ours is then
 * catalogued. Frees l in every case. */
int link_end(struct link *l, const struct pos *end, char id[CHAIN_ID], struct err *e);
void link_abort(struct link *l);

/* ---- reading links ---------------------------------------------------------------------------------------------------- */

struct link_reader;
/* Records of link n with seq > from_seq. Manifest, parent id, chunk digests and seq continuity are verified before a record is yielded. */
int link_reader_open(struct chain *c, uint64_t n, uint64_t from_seq, struct link_reader **r, struct err *e);
/* Append records to b until the first commit at or past max_bytes, or the link's end; a transaction of over 4 * max_bytes is cut inside
 * (b->ends_at_commit false). Nothing appended: the end, where the end position and counts were checked. Shapes stay valid until
 * chain_close. */
int link_reader_next(struct link_reader *r, struct batch *b, size_t max_bytes, struct err *e);
void link_reader_end(const struct link_reader *r, struct pos *end);
void link_reader_close(struct link_reader *r);

/* ---- verify, gc, requests ---------------------------------------------------------------------------------------------- */

struct verify_report { uint64_t links, chunks, rows, records, bytes; };
int chain_verify(struct chain *c, bool deep /* parse every record */, struct verify_report *r, struct err *e); /* the first fault found */
struct gc_report { uint64_t objects, bytes, kept; };
/* Remove (or, dry, count) what no catalogue, manifest or live full refers to and is older than age_us. `say` is called per object. */
int chain_gc(struct chain *c, int64_t age_us, bool dry, void (*say)(void *arg, const char *path, uint64_t size), void *arg,
             struct gc_report *r, struct err *e);

/* Stop objects: stop/producer.json, stop/consumers.json, stop/<hex of stream>.json, each {"nonce":…,"at":…}. */
#define CHAIN_STOP_PRODUCER "\001producer" /* `which` of the producer; no stream-id can be that */
int chain_stop_put(struct store *st, const char *which /* NULL: all consumers */, struct err *e);
int chain_stop_nonce(struct store *st, const char *which, char nonce[33], struct err *e); /* empty when absent */
/* Heartbeats: consumers/<hex of stream>.json. */
struct consumer {
    char stream_id[256], target[128], link_id[CHAIN_ID], host[64];
    uint64_t seq;
    int64_t seen_us, stopped_us, pid;
};
int chain_consumer_put(struct store *st, const struct consumer *c, struct err *e);
int chain_consumers(struct store *st, struct arena *a, struct consumer **c, size_t *n, struct err *e);

#endif
