/* DESIGN: writing chunks.
 *   1. A unit never spans frames, and a frame is over frame_raw only when it is one unit.
 *   2. In memory: one open frame and one open chunk, whatever the table, transaction or link. Their buffers are kept, so a record costs
 *      no allocation.
 *   3. A chunk is put once, whole, when its frames reach chunk_stored or its records close_records. */
#include "engine/chain/chunk.h"

#include <string.h>
#include <zstd.h>

#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define RAW_MAX (FORMAT_MAX_RECORD + MiB(8))
#define OUT_MAX (FORMAT_MAX_RECORD + MiB(64))

void chunk_path(const struct chunk_name *name, uint64_t k, char out[CHAIN_PATH]) {
    if (name->kind == CHUNK_ROWS) path_rows(out, name->segment, (uint32_t)name->no, name->attempt, k);
    else path_log(out, name->segment, name->no, name->attempt, k);
}

int chunk_writer_init(struct chunk_writer *w, struct store *st, const struct chunk_name *name, enum compression c, uint64_t close_records,
                      uint64_t first, struct err *e) {
    memset(w, 0, sizeof *w);
    w->st = st;
    w->name = *name;
    w->compression = c;
    w->close_records = close_records;
    w->next = first;
    w->frame_no = 1;
    w->raw = BUF_INIT(RAW_MAX);
    w->out = BUF_INIT(OUT_MAX);
    w->index = BUF_INIT(OUT_MAX);
    w->frame_tables = BUF_INIT(OUT_MAX);
    if (c == COMPRESSION_ZSTD && (w->zstd = ZSTD_createCCtx()) == NULL) return err_set(e, CODE_NO_MEMORY, "no memory for a compressor");
    return 0;
}

void chunk_writer_free(struct chunk_writer *w) {
    buf_free(&w->raw);
    buf_free(&w->out);
    buf_free(&w->index);
    buf_free(&w->frame_tables);
    chunk_list_free(&w->done);
    ZSTD_freeCCtx(w->zstd);
    memset(w, 0, sizeof *w);
}

static int put_hex(struct buf *b, const char *hex, size_t digits, struct err *e) {
    unsigned char raw[32];
    if (!chain_is_hex(hex, digits) || text_unhex(hex, digits, raw) < 0)
        return err_set(e, CODE_INTERNAL, "'%.64s' is not %zu hex digits", hex, digits);
    return buf_add(b, raw, digits / 2, e);
}

static int header(struct chunk_writer *w, struct err *e) {
    struct buf *b = &w->out;
    const uint8_t kinds[4] = {(uint8_t)w->name.kind, (uint8_t)w->compression, w->name.encoding, 0};
    if (buf_add(b, "SLCHUNK1", 8, e) < 0 || buf_add(b, kinds, 4, e) < 0 || put_hex(b, w->name.lineage, CHAIN_LINEAGE - 1, e) < 0 ||
        put_hex(b, w->name.segment, CHAIN_SEG - 1, e) < 0 || put_hex(b, w->name.attempt, CHAIN_ATTEMPT - 1, e) < 0 ||
        buf_u64(b, w->name.no, e) < 0 || buf_u64(b, w->k, e) < 0)
        return -1;
    return buf_u32(b, crc32c(0, b->p, CHUNK_HEADER - 4), e);
}

static int index_frame(struct chunk_writer *w, size_t at, size_t stored, size_t raw, struct err *e) {
    struct buf *b = &w->index;
    if (buf_varint(b, at, e) < 0 || buf_varint(b, stored, e) < 0 || buf_varint(b, raw, e) < 0 || buf_varint(b, w->frame_records, e) < 0 ||
        buf_varint(b, w->next - w->frame_records, e) < 0 || buf_varint(b, w->frame_ntables, e) < 0 ||
        buf_add(b, w->frame_tables.p, w->frame_tables.n, e) < 0 || buf_varint(b, w->frame_commits, e) < 0)
        return -1;
    return w->frame_commits ? buf_u64(b, (uint64_t)w->commit_first_us, e) < 0 ? -1 : buf_u64(b, (uint64_t)w->commit_last_us, e) : 0;
}

/* Close the open frame over raw[0, n). */
static int seal_frame(struct chunk_writer *w, size_t n, struct err *e) {
    struct buf *b = &w->out;
    uint32_t head[3], crc;
    size_t at, stored = n;
    if (w->frame_records == 0) return 0;
    if (b->n == 0 && header(w, e) < 0) return -1;
    at = b->n;
    if (buf_reserve(b, CHUNK_FRAME + (w->zstd ? ZSTD_compressBound(n) : n), e) < 0) return -1;
    if (w->zstd) {
        stored = ZSTD_compressCCtx(w->zstd, b->p + at + CHUNK_FRAME, ZSTD_compressBound(n), w->raw.p, n, 1);
        if (ZSTD_isError(stored)) return err_set(e, CODE_NO_MEMORY, "cannot compress a frame: %s", ZSTD_getErrorName(stored));
    } else memcpy(b->p + at + CHUNK_FRAME, w->raw.p, n);
    if (buf_u32(b, (uint32_t)stored, e) < 0 || buf_u32(b, (uint32_t)n, e) < 0 || buf_u32(b, (uint32_t)w->frame_records, e) < 0) return -1;
    memcpy(head, b->p + at, 12);
    crc = crc32c(crc32c(0, head, 12), b->p + at + CHUNK_FRAME, stored);
    if (buf_u32(b, crc, e) < 0) return -1;
    b->n += stored;
    if (index_frame(w, at, stored, n, e) < 0) return -1;
    w->frames++;
    w->frame_no++;
    w->chunk_raw += n;
    w->raw_bytes += n;
    w->frame_records = w->frame_ntables = w->frame_commits = 0;
    buf_reset(&w->frame_tables);
    memmove(w->raw.p, w->raw.p + n, w->raw.n - n);
    w->raw.n -= n;
    return 0;
}

static int seal_chunk(struct chunk_writer *w, struct err *e) {
    struct buf *b = &w->out;
    struct chunk_ref ref = {.records = w->chunk_records, .raw = w->chunk_raw, .first = w->next - w->chunk_records};
    char path[CHAIN_PATH];
    enum store_put_result r;
    uint64_t index_at = b->n;
    if (w->frames == 0) return 0;
    if (buf_add(b, w->index.p, w->index.n, e) < 0 || buf_u64(b, index_at, e) < 0 || buf_u32(b, (uint32_t)w->index.n, e) < 0 ||
        buf_u32(b, crc32c(0, w->index.p, w->index.n), e) < 0 || buf_u32(b, w->frames, e) < 0)
        return -1;
    if (buf_u32(b, crc32c(0, b->p + b->n - 20, 20), e) < 0 || buf_add(b, "SLCEND01", 8, e) < 0) return -1;
    if (sha256_hex(b->p, b->n, ref.digest, e) < 0) return -1;
    ref.bytes = b->n;
    chunk_path(&w->name, w->k, path);
    if (w->st->ops->put(w->st, path, b->p, b->n, true, NULL, &r, NULL, e) < 0) return err_wrap(e, "writing '%s'", path);
    if (r != STORE_PUT_OK) return err_set(e, CODE_CHAIN_CONFLICT, "'%s' is there already: another process writes this attempt", path);
    if (FAULT("chain.chunk_put", e) < 0) return -1;
    if (chunk_list_add(&w->done, &ref, e) < 0) return -1;
    w->stored_bytes += b->n;
    w->k++;
    w->frames = 0;
    w->chunk_records = w->chunk_raw = 0;
    buf_reset(b);
    buf_reset(&w->index);
    if (b->cap > 4 * chain_hooks.chunk_stored + MiB(1)) buf_free(b); /* what one huge record took is given back */
    if (w->raw.n == 0 && w->raw.cap > 4 * chain_hooks.chunk_stored + MiB(1)) buf_free(&w->raw);
    return 0;
}

int chunk_fit(struct chunk_writer *w, size_t at, struct err *e) {
    if (w->raw.n - at > FORMAT_MAX_RECORD) {
        size_t n = w->raw.n - at;
        w->raw.n = at;
        return err_set(e, CODE_LIMIT, "a record has %zu bytes, at most %zu can be stored", n, FORMAT_MAX_RECORD);
    }
    if (at == 0 || w->raw.n <= chain_hooks.frame_raw) return 0;
    if (seal_frame(w, at, e) < 0) return -1;
    return w->out.n >= chain_hooks.chunk_stored ? seal_chunk(w, e) : 0;
}

int chunk_note_table(struct chunk_writer *w, uint32_t table, const unsigned char digest[32], struct err *e) {
    static const unsigned char none[32];
    w->frame_ntables++;
    return buf_varint(&w->frame_tables, table, e) < 0 ? -1 : buf_add(&w->frame_tables, digest ? digest : none, 32, e);
}

void chunk_note_commit(struct chunk_writer *w, int64_t time_us) {
    if (w->frame_commits++ == 0) w->commit_first_us = time_us;
    w->commit_last_us = time_us;
}

int chunk_added(struct chunk_writer *w, uint64_t records, struct err *e) {
    w->frame_records += records;
    w->chunk_records += records;
    w->next += records;
    bool full = w->close_records && w->chunk_records >= w->close_records;
    if (w->raw.n < chain_hooks.frame_raw && !full) return 0;
    if (seal_frame(w, w->raw.n, e) < 0) return -1;
    return full || w->out.n >= chain_hooks.chunk_stored ? seal_chunk(w, e) : 0;
}

int chunk_writer_end(struct chunk_writer *w, struct err *e) {
    if (seal_frame(w, w->raw.n, e) < 0) return -1;
    return seal_chunk(w, e);
}
