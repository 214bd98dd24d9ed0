/* The documents below the catalogue: opening, done, full, link manifest. Private to engine/chain. Each is written once and parsed to the
 * same struct. */
#ifndef SLUICE_CHAIN_MANIFEST_H
#define SLUICE_CHAIN_MANIFEST_H

#include "engine/chain/format.h"
#include "engine/chain/registry.h"

struct chunk_ref {
    char digest[DIGEST_HEX];
    uint64_t bytes, records, raw, first;
};
struct chunk_list {
    struct chunk_ref *v;
    size_t n, cap;
};
int chunk_list_add(struct chunk_list *l, const struct chunk_ref *c, struct err *e);
void chunk_list_free(struct chunk_list *l);

struct opening {
    char lineage[CHAIN_LINEAGE], segment[CHAIN_SEG], parent[CHAIN_ID];
    char engine[16], identity[128], slot[64];
    bool extendable;
    int64_t time_us;
    struct pos anchor;
    struct registry tables;
    struct object *objects;
    size_t nobjects;
    const char **warnings;
    size_t nwarnings;
    struct arena *arena; /* objects, warnings */
};
void opening_free(struct opening *o);
int opening_format(const struct opening *o, struct buf *b, struct err *e);
int opening_parse(const char *p, size_t n, const char *what, struct opening *o, struct err *e); /* zeroed on failure */

struct done {
    char lineage[CHAIN_LINEAGE], segment[CHAIN_SEG], attempt[CHAIN_ATTEMPT], shape[DIGEST_HEX];
    uint32_t table;
    struct pos snapshot;
    enum rows_encoding encoding;
    uint64_t rows, raw_bytes, stored_bytes;
    struct chunk_list chunks;
};
void done_free(struct done *d);
int done_format(const struct done *d, enum compression c, struct buf *b, struct err *e);
int done_parse(const char *p, size_t n, const char *what, struct done *d, struct err *e);

struct full_entry {
    uint32_t table;
    char attempt[CHAIN_ATTEMPT], digest[DIGEST_HEX];
};
struct full_doc {
    char lineage[CHAIN_LINEAGE], segment[CHAIN_SEG], opening[CHAIN_ID];
    int64_t time_us;
    struct full_entry *tables;
    size_t ntables;
    struct object *sequences;
    size_t nsequences;
    struct arena *arena;
};
void full_doc_free(struct full_doc *f);
int full_doc_format(const struct full_doc *f, struct buf *b, struct err *e);
int full_doc_parse(const char *p, size_t n, const char *what, struct full_doc *f, struct err *e);

struct shape_change {
    uint64_t seq;
    uint32_t table;
    int64_t oid;
    const char *ns, *name;
    char before[DIGEST_HEX], after[DIGEST_HEX];
};
struct manifest {
    char lineage[CHAIN_LINEAGE], segment[CHAIN_SEG], attempt[CHAIN_ATTEMPT], parent[CHAIN_ID];
    uint64_t n, start_seq, end_seq, records, row_changes, raw_bytes;
    int64_t time_us;
    struct pos start, end, last_commit;
    struct registry tables; /* in force at the start */
    struct shape_change *changes;
    size_t nchanges, changes_cap;
    struct chunk_list chunks;
    enum compression compression; /* writing only: whether "zstd" is needed */
    struct arena *arena;          /* names of changes */
};
int manifest_init(struct manifest *m, struct err *e);
void manifest_free(struct manifest *m);
int manifest_add_change(struct manifest *m, const struct shape_change *c, struct err *e); /* copies the names */
int manifest_format(const struct manifest *m, struct buf *b, struct err *e);
int manifest_parse(const char *p, size_t n, const char *what, struct manifest *m, struct err *e);

#endif
