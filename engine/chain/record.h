/* Records: one change as bytes. Private to engine/chain; the layout stands in format.h. */
#ifndef SLUICE_CHAIN_RECORD_H
#define SLUICE_CHAIN_RECORD_H

#include "engine/base/change.h"
#include "engine/chain/format.h"

/* Append the record of c; table is its number. Positions are of the chain's engine, of which only tokens are stored. On failure b is as
 * it was. */
int record_encode(struct buf *b, const struct change *c, uint32_t table, const uint32_t *tables /* truncate */, struct err *e);

/* What decoding needs to know: the shape in force of a table, and what a shape record changes it to. */
struct record_shapes {
    void *arg;
    const char *engine;
    int (*in_force)(void *arg, uint32_t table, const struct shape **s, struct err *e);
    /* digests are 32 bytes or NULL */
    int (*change)(void *arg, uint32_t table, int64_t oid, const unsigned char *before, const unsigned char *after, const struct shape **old,
                  const struct shape **now, struct err *e);
};
/* Length of the record at *p (prefix included), 0 when it does not fit in n. */
size_t record_length(const char *p, size_t n);
uint8_t record_op(const char *p);
/* Decode into *c (zeroed by the caller but for seq). What it points to is copied into a. CODE_CHUNK_CORRUPT without a name: the caller
 * wraps. */
int record_decode(const char *p, size_t n, struct arena *a, const struct record_shapes *shapes, struct change *c, struct err *e);

#endif
