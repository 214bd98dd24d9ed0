/* Chunks: framed bytes with an index. Private to engine/chain; the layout stands in format.h. */
#ifndef SLUICE_CHAIN_CHUNK_H
#define SLUICE_CHAIN_CHUNK_H

#include "engine/chain/format.h"
#include "engine/chain/manifest.h"

enum chunk_kind { CHUNK_ROWS = 1, CHUNK_CHANGES = 2 };
#define CHUNK_HEADER 64
#define CHUNK_FRAME 16
#define CHUNK_TRAILER 32

/* What a chunk says of itself; it must be where its header says it is. */
struct chunk_name {
    enum chunk_kind kind;
    uint8_t encoding; /* rows: enum rows_encoding */
    const char *lineage, *segment, *attempt;
    uint64_t no; /* table, or link number */
};
void chunk_path(const struct chunk_name *name, uint64_t k, char out[CHAIN_PATH]);

/* ---- writing: units (a record, a block of rows) are encoded straight into chunk_writer.raw ----
 *   at = w->raw.n; … encode …; chunk_fit(w, at); chunk_note_…; chunk_added(w, records) */
struct chunk_writer {
    struct store *st;
    struct chunk_name name;
    enum compression compression;
    uint64_t close_records; /* close a chunk at so many; 0: by bytes alone */
    struct buf raw;         /* the open frame */
    struct buf out;         /* the open chunk: header and frames */
    struct buf index;
    struct buf frame_tables; /* index text of the open frame's tables */
    uint64_t frame_no;       /* over all chunks, from 1: registry_table.frame is compared with it */
    uint64_t frame_ntables, frame_records, frame_commits;
    int64_t commit_first_us, commit_last_us;
    uint32_t frames;                         /* of the open chunk */
    uint64_t chunk_records, chunk_raw, next; /* next: seq or ordinal of the next record */
    uint64_t k;
    uint64_t raw_bytes, stored_bytes; /* in all */
    struct chunk_list done;
    void *zstd;
};
int chunk_writer_init(struct chunk_writer *w, struct store *st, const struct chunk_name *name, enum compression c, uint64_t close_records,
                      uint64_t first, struct err *e); /* the texts of name are borrowed */
void chunk_writer_free(struct chunk_writer *w);
int chunk_fit(struct chunk_writer *w, size_t at,
              struct err *e); /* the unit from `at` on is whole: close the frame before it if both are too much */
int chunk_note_table(struct chunk_writer *w, uint32_t table, const unsigned char digest[32], struct err *e);
void chunk_note_commit(struct chunk_writer *w, int64_t time_us);
int chunk_added(struct chunk_writer *w, uint64_t records, struct err *e);
int chunk_writer_end(struct chunk_writer *w, struct err *e); /* stores what is open */

/* ---- reading ---- */
struct chunk_frame {
    uint64_t offset, stored, raw, records, first, ntables, commits;
    const uint8_t *tables;
    int64_t commit_first_us, commit_last_us;
};
struct chunk_reader;
/* Checks length, digest, header, index; nothing is yielded from an object that is not whole. CODE_CHUNK_CORRUPT names it. */
int chunk_reader_open(struct store *st, const struct chunk_name *name, uint64_t k, const struct chunk_ref *ref, struct chunk_reader **r,
                      struct err *e);
void chunk_reader_close(struct chunk_reader *r);
size_t chunk_reader_frames(const struct chunk_reader *r, const struct chunk_frame **f);
int chunk_reader_frame(struct chunk_reader *r, size_t i, const char **p, size_t *n, struct err *e); /* borrowed until the next call */
const char *chunk_reader_path(const struct chunk_reader *r);
int chunk_bad(struct err *e, const char *path, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
