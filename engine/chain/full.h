/* What writer and reader of a full share. Private to engine/chain. */
#ifndef SLUICE_CHAIN_FULL_H
#define SLUICE_CHAIN_FULL_H

#include <pthread.h>

#include "engine/chain/handle.h"

struct full {
    struct store *st;
    struct lineage lin;
    char etag[STORE_ETAG];
    char seg[CHAIN_SEG], id[CHAIN_ID];
    enum compression compression;
    uint64_t chunk_rows;
    bool others_intent; /* found by a probe: begin a segment of our own */
    bool full_seen;     /* full.json was there when we began: a run died between it and the catalogue */
    struct opening o;
    struct catalog *cat;  /* set once the anchor is durable */
    pthread_mutex_t lock; /* done */
    struct full_entry *done;
    size_t ndone, cap_done;
};
struct full *full_new(struct store *st, const struct full_opts *o, struct err *e);
/* What earlier attempts at f->seg left: the opening's tables, done tables, full.json. f->o is set. */
int full_look(struct full *f, struct err *e);
int full_add_done(struct full *f, uint32_t table, const char *attempt, const char *digest, struct err *e);
/* One conditional step of the catalogue. `fits` says whether l is what the step starts from (0), past it (1) or another's (-1). */
int full_step(struct full *f, int (*fits)(const struct full *f, const struct lineage *l, const void *arg),
              int (*make)(struct full *f, struct lineage *next, const void *arg, struct err *e), const void *arg, struct err *e);
struct lineage_segment *full_in(const struct full *f, const struct lineage *l); /* the full's segment in l, or NULL */
int full_lost(const struct full *f, struct err *e);                             /* CODE_CHAIN_CONFLICT */

/* The opening's tables, objects and warnings as a catalogue of its own, shapes read from the store. */
int opening_catalog(struct store *st, const struct opening *o, struct catalog **c, struct err *e);
/* done/….json of a table, with the digest of its bytes; checked against the opening. */
int done_load(struct store *st, const struct opening *o, uint32_t table, const char *attempt, struct done *d, char digest[DIGEST_HEX],
              struct err *e);
int full_doc_load(struct store *st, const char *segment, struct full_doc *f, char digest[DIGEST_HEX], struct err *e);

#endif
