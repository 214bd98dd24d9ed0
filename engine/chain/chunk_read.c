/* DESIGN: reading chunks.
 *   1. Nothing is yielded before length and digest of the whole object were checked, on the same open object that is read afterwards.
 *   2. Every length that is read is checked against what it must fit in before it is used; what is allocated is bounded by the stored
 *      bytes and FORMAT_MAX_RECORD.
 *   3. The header must say what the reference said: a chunk that is whole but of another place is refused by its own name. */
#include "engine/chain/chunk.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define READ_STEP KiB(256)

struct chunk_reader {
    struct store *st;
    struct store_object *o;
    char path[CHAIN_PATH];
    enum compression compression;
    uint64_t index_at;
    char *index;
    struct chunk_frame *frames;
    uint32_t nframes;
    struct buf stored, raw;
    ZSTD_DCtx *zstd;
};

int chunk_bad(struct err *e, const char *path, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_set(e, CODE_CHUNK_CORRUPT, "chunk '%s' %s", path, text);
    return err_hint(e, "restore '%s' from another copy of the store, or take a new full with `sluice backup full --force-overwrite`", path);
}

void chunk_reader_close(struct chunk_reader *r) {
    if (r == NULL) return;
    if (r->o) r->st->ops->read_close(r->o);
    mem_free(r->index);
    mem_free(r->frames);
    buf_free(&r->stored);
    buf_free(&r->raw);
    ZSTD_freeDCtx(r->zstd);
    mem_free(r);
}

static int digest_check(struct chunk_reader *r, const struct chunk_ref *ref, struct err *e) {
    unsigned char sum[32];
    char hex[DIGEST_HEX];
    struct sha256 *h = sha256_new(e);
    int rc = -1;
    if (h == NULL || buf_reserve(&r->stored, READ_STEP, e) < 0) goto out;
    for (uint64_t at = 0; at < ref->bytes;) {
        size_t n = ref->bytes - at < READ_STEP ? (size_t)(ref->bytes - at) : READ_STEP;
        if (r->st->ops->read_at(r->o, at, r->stored.p, n, e) < 0) {
            err_wrap(e, "reading chunk '%s'", r->path);
            goto out;
        }
        if (sha256_add(h, r->stored.p, n, e) < 0) goto out;
        at += n;
    }
    if (sha256_end(h, sum, e) < 0) goto out;
    text_hex(sum, 32, hex);
    if (strcmp(hex, ref->digest) != 0) {
        chunk_bad(e, r->path, "was altered or swapped: its digest is %.16s…, %.16s… is recorded", hex, ref->digest);
        goto out;
    }
    rc = 0;
out:
    sha256_free(h);
    return rc;
}

static int header_check(struct chunk_reader *r, const struct chunk_name *name, uint64_t k, struct err *e) {
    unsigned char b[CHUNK_HEADER], want[32];
    struct rd rd = RD(b, sizeof b);
    const char *p;
    uint64_t no, chunk;
    uint32_t crc;
    if (r->st->ops->read_at(r->o, 0, b, sizeof b, e) < 0) return err_wrap(e, "reading chunk '%s'", r->path);
    rd.p = b + 44;
    if (memcmp(b, "SLCHUNK1", 8) != 0) return chunk_bad(e, r->path, "does not begin like a chunk");
    rd_u64(&rd, &no);
    rd_u64(&rd, &chunk);
    rd_u32(&rd, &crc);
    if (crc != crc32c(0, b, CHUNK_HEADER - 4)) return chunk_bad(e, r->path, "has a damaged header");
    if (b[9] > COMPRESSION_ZSTD || b[11] != 0) {
        err_set(e, CODE_FORMAT_UNSUPPORTED, "chunk '%s' is written in a way that this sluice does not know", r->path);
        return err_hint(e, "use the sluice that wrote it, or a newer one");
    }
    if (b[8] != name->kind || b[10] != name->encoding)
        return chunk_bad(e, r->path, "is of another kind than recorded: it belongs elsewhere");
    rd = RD(b + 12, 32);
    const struct {
        const char *hex;
        size_t bytes;
        const char *of;
    } parts[] = {{name->lineage, 16, "chain"}, {name->segment, 8, "segment"}, {name->attempt, 8, "attempt"}};
    for (size_t i = 0; i < MEM_ARRAY_LEN(parts); i++) {
        rd_bytes(&rd, parts[i].bytes, &p);
        if (text_unhex(parts[i].hex, parts[i].bytes * 2, want) < 0 || memcmp(p, want, parts[i].bytes) != 0)
            return chunk_bad(e, r->path, "belongs to another %s", parts[i].of);
    }
    if (no != name->no || chunk != k)
        return chunk_bad(e, r->path, "is chunk %llu of %s %llu: it belongs elsewhere", (unsigned long long)chunk,
                         b[8] == CHUNK_ROWS ? "table" : "link", (unsigned long long)no);
    r->compression = (enum compression)b[9];
    return 0;
}

static int index_read(struct chunk_reader *r, const struct chunk_ref *ref, struct err *e) {
    unsigned char t[CHUNK_TRAILER];
    struct rd rd = RD(t, sizeof t);
    uint32_t n, crc, frames, tcrc;
    uint64_t at = CHUNK_HEADER, next = ref->first, raw = 0, v;
    const char *p;
    if (r->st->ops->read_at(r->o, ref->bytes - sizeof t, t, sizeof t, e) < 0) return err_wrap(e, "reading chunk '%s'", r->path);
    rd_u64(&rd, &r->index_at);
    rd_u32(&rd, &n);
    rd_u32(&rd, &crc);
    rd_u32(&rd, &frames);
    rd_u32(&rd, &tcrc);
    if (memcmp(t + 24, "SLCEND01", 8) != 0 || tcrc != crc32c(0, t, 20)) return chunk_bad(e, r->path, "has a damaged trailer");
    if (r->index_at < CHUNK_HEADER || r->index_at > ref->bytes || ref->bytes - r->index_at != (uint64_t)n + CHUNK_TRAILER || frames > n / 6)
        return chunk_bad(e, r->path, "has an index of another place");
    if ((r->index = mem_alloc(n + 1, e)) == NULL || (r->frames = mem_alloc((frames + 1) * sizeof *r->frames, e)) == NULL) return -1;
    if (r->st->ops->read_at(r->o, r->index_at, r->index, n, e) < 0) return err_wrap(e, "reading chunk '%s'", r->path);
    if (crc32c(0, r->index, n) != crc) return chunk_bad(e, r->path, "has a damaged index");
    rd = RD(r->index, n);
    for (r->nframes = 0; r->nframes < frames; r->nframes++) {
        struct chunk_frame *f = &r->frames[r->nframes];
        if (rd_varint(&rd, &f->offset) < 0 || rd_varint(&rd, &f->stored) < 0 || rd_varint(&rd, &f->raw) < 0 ||
            rd_varint(&rd, &f->records) < 0 || rd_varint(&rd, &f->first) < 0 || rd_varint(&rd, &f->ntables) < 0)
            return chunk_bad(e, r->path, "has an index that ends early");
        f->tables = rd.p;
        for (uint64_t i = 0; i < f->ntables; i++)
            if (rd_varint(&rd, &v) < 0 || rd_bytes(&rd, 32, &p) < 0) return chunk_bad(e, r->path, "has an index that ends early");
        if (rd_varint(&rd, &f->commits) < 0) return chunk_bad(e, r->path, "has an index that ends early");
        if (f->commits) {
            uint64_t first, last;
            if (rd_u64(&rd, &first) < 0 || rd_u64(&rd, &last) < 0) return chunk_bad(e, r->path, "has an index that ends early");
            f->commit_first_us = (int64_t)first;
            f->commit_last_us = (int64_t)last;
        }
        if (f->offset != at || f->stored == 0 || f->stored > r->index_at - at || CHUNK_FRAME > r->index_at - at - f->stored ||
            f->records == 0 || f->first != next || f->raw > FORMAT_MAX_RECORD || f->records > UINT32_MAX)
            return chunk_bad(e, r->path, "has a frame %u that does not follow the one before it", r->nframes);
        at += CHUNK_FRAME + f->stored;
        next += f->records;
        raw += f->raw;
    }
    if (RD_LEFT(&rd) != 0 || at != r->index_at || next - ref->first != ref->records || raw != ref->raw)
        return chunk_bad(e, r->path, "does not hold what is recorded of it: %llu records, %llu recorded",
                         (unsigned long long)(next - ref->first), (unsigned long long)ref->records);
    return 0;
}

int chunk_reader_open(struct store *st, const struct chunk_name *name, uint64_t k, const struct chunk_ref *ref, struct chunk_reader **out,
                      struct err *e) {
    struct chunk_reader *r = mem_alloc(sizeof *r, e);
    uint64_t size;
    bool found;
    *out = NULL;
    if (r == NULL) return -1;
    r->st = st;
    r->stored = BUF_INIT(FORMAT_MAX_RECORD + MiB(8));
    r->raw = BUF_INIT(FORMAT_MAX_RECORD + MiB(8));
    chunk_path(name, k, r->path);
    if (st->ops->read_open(st, r->path, &r->o, &size, &found, e) < 0) {
        err_wrap(e, "reading chunk '%s'", r->path);
        goto fail;
    }
    if (!found) {
        chunk_bad(e, r->path, "is missing");
        goto fail;
    }
    if (size != ref->bytes || size < CHUNK_HEADER + CHUNK_TRAILER) {
        chunk_bad(e, r->path, "%s: it has %llu bytes, %llu are recorded", size < ref->bytes ? "is cut" : "has another length",
                  (unsigned long long)size, (unsigned long long)ref->bytes);
        goto fail;
    }
    if (digest_check(r, ref, e) < 0 || header_check(r, name, k, e) < 0 || index_read(r, ref, e) < 0) goto fail;
    if (r->compression == COMPRESSION_ZSTD && (r->zstd = ZSTD_createDCtx()) == NULL) {
        err_set(e, CODE_NO_MEMORY, "no memory for a decompressor");
        goto fail;
    }
    *out = r;
    return 0;
fail:
    chunk_reader_close(r);
    return -1;
}

size_t chunk_reader_frames(const struct chunk_reader *r, const struct chunk_frame **f) {
    *f = r->frames;
    return r->nframes;
}

const char *chunk_reader_path(const struct chunk_reader *r) {
    return r->path;
}

int chunk_reader_frame(struct chunk_reader *r, size_t i, const char **p, size_t *n, struct err *e) {
    const struct chunk_frame *f = &r->frames[i];
    size_t whole = CHUNK_FRAME + (size_t)f->stored, got;
    uint32_t stored, raw, records, crc;
    buf_reset(&r->stored);
    if (buf_reserve(&r->stored, whole, e) < 0) return -1;
    if (r->st->ops->read_at(r->o, f->offset, r->stored.p, whole, e) < 0) return err_wrap(e, "reading chunk '%s'", r->path);
    struct rd rd = RD(r->stored.p, CHUNK_FRAME);
    if (rd_u32(&rd, &stored) < 0 || rd_u32(&rd, &raw) < 0 || rd_u32(&rd, &records) < 0 || rd_u32(&rd, &crc) < 0)
        return chunk_bad(e, r->path, "is cut");
    if (stored != f->stored || raw != f->raw || records != f->records)
        return chunk_bad(e, r->path, "has a frame %zu that its index does not describe", i);
    if (crc32c(crc32c(0, r->stored.p, 12), r->stored.p + CHUNK_FRAME, stored) != crc)
        return chunk_bad(e, r->path, "has a damaged frame %zu", i);
    if (r->compression == COMPRESSION_NONE) {
        if (raw != stored) return chunk_bad(e, r->path, "has a frame %zu of contradictory lengths", i);
        *p = r->stored.p + CHUNK_FRAME;
        *n = raw;
        return 0;
    }
    if (ZSTD_getFrameContentSize(r->stored.p + CHUNK_FRAME, stored) != raw)
        return chunk_bad(e, r->path, "has a frame %zu of contradictory lengths", i);
    buf_reset(&r->raw);
    if (buf_reserve(&r->raw, raw ? raw : 1, e) < 0) return -1;
    got = ZSTD_decompressDCtx(r->zstd, r->raw.p, raw, r->stored.p + CHUNK_FRAME, stored);
    if (ZSTD_isError(got) || got != raw) return chunk_bad(e, r->path, "has a frame %zu that does not decompress", i);
    *p = r->raw.p;
    *n = raw;
    return 0;
}
