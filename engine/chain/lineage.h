/* The catalogue, lineage.json, and its pages. Private to engine/chain. */
#ifndef SLUICE_CHAIN_LINEAGE_H
#define SLUICE_CHAIN_LINEAGE_H

#include "engine/chain/format.h"

#define LINEAGE_REPLACED 16

enum segment_state { SEGMENT_STARTING, SEGMENT_FILLING, SEGMENT_COMPLETE };

struct lineage_segment {
    char id[CHAIN_SEG];
    enum segment_state state;
    uint64_t first;        /* number of its opening; of no meaning while starting */
    char full[DIGEST_HEX]; /* complete: digest of full.json */
};
struct lineage_link {
    uint64_t n;
    char id[CHAIN_ID];
    char attempt[CHAIN_ATTEMPT]; /* empty: an opening */
    uint64_t end_seq;
    int64_t time_us;
    uint64_t bytes;
};
struct lineage_page {
    char digest[DIGEST_HEX];
    uint64_t level, first, count, end_seq; /* count: links below it */
};
struct lineage {
    char id[CHAIN_LINEAGE];
    char engine[16], identity[128], slot[64];
    bool extendable;
    struct lineage_segment *segments;
    size_t nsegments;
    struct lineage_page *pages;
    size_t npages;
    struct lineage_link *links;
    size_t nlinks;
    struct pos tip, covered;
    int64_t covered_us; /* when covered was written; 0 = never */
    char replaced[LINEAGE_REPLACED][CHAIN_LINEAGE];
    size_t nreplaced; /* lineages that this one was put in the place of, newest first */
};
/* A page that was read: entries of level 0, or refs of a level below. */
struct lineage_leaf {
    uint64_t first, start_seq;
    struct lineage_link *links;
    size_t nlinks;
    struct lineage_page *pages;
    size_t npages;
};

int lineage_parse(const char *p, size_t n, struct lineage *l, struct err *e);
int lineage_format(const struct lineage *l, struct buf *b, struct err *e);
int lineage_copy(const struct lineage *from, struct lineage *to, struct err *e);
void lineage_free(struct lineage *l); /* leaves zeros */

/* Read it, four times if need be. `unless`: the etag we have; *same then. */
int lineage_get(struct store *st, const char *unless, struct lineage *l, char etag[STORE_ETAG], bool *found, bool *same, struct err *e);
/* if_match NULL: if absent. *won false when another was faster; etag is only set when won. */
int lineage_put(struct store *st, const struct lineage *l, const char *if_match, bool *won, char etag[STORE_ETAG], struct err *e);

/* Append an entry to l (a copy the caller will put); pages are written when the inline list is full. */
int lineage_append(struct store *st, struct lineage *l, const struct lineage_link *x, const struct pos *tip, struct err *e);
int lineage_add_segment(struct lineage *l, const char *id, enum segment_state state, uint64_t first, struct err *e);
uint64_t lineage_count(const struct lineage *l);                 /* entries, those under pages included */
const struct lineage_link *lineage_tip(const struct lineage *l); /* NULL when there is none */
uint64_t lineage_inline_start(const struct lineage *l);          /* end_seq in front of the first inline entry */

int lineage_leaf_load(struct store *st, const struct lineage_page *ref, struct lineage_leaf *leaf, struct err *e);
void lineage_leaf_free(struct lineage_leaf *leaf);

#endif
