/* The tables of a lineage as they are in force at one seq: number, identity in the source, name, shape. Private to engine/chain.
 * A number is given once and never again; a dropped table leaves its number unused. */
#ifndef SLUICE_CHAIN_REGISTRY_H
#define SLUICE_CHAIN_REGISTRY_H

#include "engine/base/arena.h"
#include "engine/chain/format.h"

struct registry_table {
    uint32_t table;
    int64_t oid;
    const char *ns, *name;
    char digest[DIGEST_HEX];
    unsigned char raw[32];     /* the digest's bytes */
    const struct shape *shape; /* readers: loaded at the first record that needs it */
    uint64_t frame;            /* writers: the frame that lists it already */
};
struct registry {
    struct registry_table *v;
    size_t n, cap;
    uint32_t *slot;
    size_t nslots;       /* by number: place in v plus one; 0 = not in force */
    uint32_t next;       /* first free number, from 1 */
    struct arena *arena; /* names */
};

int registry_init(struct registry *r, struct err *e);
void registry_free(struct registry *r); /* zero state is fine */
int registry_copy(const struct registry *from, struct registry *to, struct err *e);
struct registry_table *registry_get(const struct registry *r, uint32_t table); /* NULL when not in force; valid until the next change */
/* By the source's identity of the table, by name where it has none. */
struct registry_table *registry_find(const struct registry *r, int64_t oid, const char *ns, const char *name);
/* Put table in force, or change it. digest "" takes it out of force. A number from `next` on raises next. */
int registry_set(struct registry *r, uint32_t table, int64_t oid, const char *ns, const char *name, const char *digest, struct err *e);

void registry_write(const struct registry *r, struct jw *j); /* "next_table" and "tables" */
int registry_read(struct registry *r, const json_t *o, const char *what, struct err *e);

#endif
