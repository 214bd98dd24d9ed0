/* One change record: what a driver's decoder produces, what a chain stores, what a window composes.
 * Everything it points to lives in its batch's arena, except `shape`, which lives as long as the stream or reader that produced it. */
#ifndef SLUICE_BASE_CHANGE_H
#define SLUICE_BASE_CHANGE_H

#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/pos.h"
#include "engine/base/shape.h"
#include "engine/base/value.h"

/* Numbers stand in chunks: frozen. */
enum change_op {
    CHANGE_INSERT = 1, CHANGE_UPDATE = 2, CHANGE_DELETE = 3, CHANGE_TRUNCATE = 4, CHANGE_COMMIT = 5, CHANGE_SHAPE = 6, CHANGE_SEQUENCE = 7,
    CHANGE_BACKFILL_BEGIN = 8, CHANGE_BACKFILL_ROWS = 9, CHANGE_BACKFILL_END = 10, CHANGE_HEARTBEAT = 11
};
enum change_image { IMAGE_NONE = 0, IMAGE_KEY = 1, IMAGE_FULL = 2 };

#define TRUNCATE_CASCADE 1u
#define TRUNCATE_RESTART_IDENTITY 2u

struct change {
    uint8_t op;                 /* enum change_op */
    uint8_t before_image;       /* enum change_image: what `before` holds */
    uint32_t flags;             /* truncate */
    uint32_t table;             /* lineage's number; 0 until the producer gave one */
    uint64_t seq;               /* chain-wide; 0 until the writer gave one */
    const struct shape *shape;  /* in force for this record; for CHANGE_SHAPE the shape after it */
    /* insert: after. update: after, and before when the key changed or the table is identified by its full row. delete: before.
     * Both have shape->ncols values, in column order; columns that an image does not hold are UNCHANGED (key images, generated). */
    const struct value *before, *after;
    /* truncate: the tables, all in one record */
    const struct shape *const *tables; uint32_t ntables;
    /* commit: end of the source transaction. sequence: ns, name, value. backfill: position of its snapshot */
    struct pos *pos;
    int64_t time_us;            /* commit time, microseconds UTC; 0 when the source has none */
    const struct shape *old_shape; /* CHANGE_SHAPE: before it; NULL for a new table */
    const char *seq_ns, *seq_name; int64_t seq_value; uint8_t seq_called;
    const char *rows; size_t rows_len; uint32_t nrows; /* CHANGE_BACKFILL_ROWS: rows in row_encode form */
};

/* A batch: changes in source order in one arena. Reset and reused; never grows past its byte bound by more than one record. */
struct batch {
    struct arena *arena;
    struct change *v; size_t n, cap;
    bool ends_at_commit;        /* the last change is a commit */
};
int batch_init(struct batch *b, size_t arena_block_bytes, struct err *e);
struct change *batch_add(struct batch *b, struct err *e); /* zeroed; lives until batch_reset; earlier pointers into v may move */
void batch_reset(struct batch *b);
void batch_free(struct batch *b);

/* Number of the row changes (insert, update, delete) in the batch. */
size_t batch_rows(const struct batch *b);

#endif
