/* What a chain handle holds, for the files of engine/chain. Everything that a reference names is checked here when it is followed. */
#ifndef SLUICE_CHAIN_HANDLE_H
#define SLUICE_CHAIN_HANDLE_H

#include "engine/chain/chain.h"
#include "engine/chain/lineage.h"
#include "engine/chain/manifest.h"

struct shape_slot {
    char digest[DIGEST_HEX];
    uint32_t table;
    int64_t oid;
    struct shape *shape;
};

struct chain {
    struct store *st;
    struct lineage lin;
    char etag[STORE_ETAG];
    struct chain_info info;
    struct lineage_leaf leaf; /* the page that was last looked into */
    struct shape_slot *shapes;
    size_t nshapes, cap_shapes; /* open addressing, a power of two */
    struct shape ***lists;
    size_t nlists; /* what chain_shapes_at gave out */
    struct {
        bool set;
        uint64_t n;
        char id[CHAIN_ID];
        struct pos start, end;
    } span;
};

/* Entry n and the end_seq before it. CODE_ID_UNKNOWN-class errors are for names given by people; a number out of range here is
 * CODE_INTERNAL. */
int chain_entry(struct chain *c, uint64_t n, struct lineage_link *x, uint64_t *start_seq, struct err *e);
const struct lineage_segment *chain_segment_of(const struct chain *c, uint64_t n); /* NULL when there is none */
/* The document of entry n, id and neighbours checked. m or o is freed by the caller. */
int chain_manifest(struct chain *c, uint64_t n, struct manifest *m, struct err *e);
int chain_opening(struct chain *c, uint64_t n, struct opening *o, struct err *e);
/* Tables in force at the start of entry n (an opening: its own tables), or at the tip's end for n = count. registry_free is the
 * caller's. */
int chain_registry_at(struct chain *c, uint64_t n, struct registry *r, struct err *e);
int registry_apply(struct registry *r, const struct shape_change *x, const char *what, struct err *e);
/* The shape of that digest, with table and oid set; valid until chain_close. */
int chain_shape(struct chain *c, const char *digest, uint32_t table, int64_t oid, const struct shape **s, struct err *e);
int shape_load(struct store *st, const char *digest, uint32_t table, int64_t oid, struct shape **s, struct err *e);
/* Make `next` what the handle shows. Takes next. */
void chain_adopt(struct chain *c, struct lineage *next, const char etag[STORE_ETAG]);

#endif
