/* Row identities: hashing and comparing the key columns of an image under the key's own notion of equality, and small sets of them. */
#ifndef SLUICE_FLOW_ROWKEY_H
#define SLUICE_FLOW_ROWKEY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/shape.h"
#include "engine/base/value.h"

/* v has shape->ncols values. A table without an identity is compared by all columns. */
uint64_t rowkey_hash(const struct shape *s, const struct value *v);
bool rowkey_equal(const struct shape *s, const struct value *a, const struct value *b);
/* Of two images that compare equal: is it certain that the source holds them equal? (1e2 and 100 may be two rows that look alike here.) */
bool rowkey_certain(const struct shape *s, const struct value *a, const struct value *b);
/* A key under a nondeterministic collation: equality cannot be told from the bytes, so no two changes may share a statement. */
bool rowkey_unknowable(const struct shape *s);

struct rowkey_set {
    struct arena *arena;
    const struct value **v;
    uint64_t *hash;
    size_t cap, used;
};
void rowkey_set_init(struct rowkey_set *s, struct arena *a);
/* full: compare all columns, whatever the identity. */
bool rowkey_set_has(const struct rowkey_set *s, const struct shape *sh, const struct value *v, bool full);
int rowkey_set_add(struct rowkey_set *s, const struct shape *sh, const struct value *v, bool full, struct err *e);

#endif
