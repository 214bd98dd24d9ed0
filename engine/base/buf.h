/* A growing byte buffer with a cap set at creation, and a reader over bytes that cannot run past the end.
 * All integers are little-endian. Varints are LEB128 (7 bits a byte, low first), at most 10 bytes. */
#ifndef SLUICE_BASE_BUF_H
#define SLUICE_BASE_BUF_H

#include <stdint.h>

#include "engine/base/err.h"

struct buf {
    char *p;    /* NULL while nothing was added; NOT terminated: see buf_str */
    size_t n;   /* bytes used */
    size_t cap; /* bytes allocated */
    size_t max; /* adding past this fails with CODE_LIMIT */
};
#define BUF_INIT(max_bytes) ((struct buf){NULL, 0, 0, (max_bytes)})

int buf_reserve(struct buf *b, size_t more, struct err *e); /* room for `more` bytes behind n */
int buf_add(struct buf *b, const void *p, size_t n, struct err *e);
int buf_adds(struct buf *b, const char *s, struct err *e);
int buf_addc(struct buf *b, char c, struct err *e);
int buf_addf(struct buf *b, struct err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int buf_u8(struct buf *b, uint8_t v, struct err *e);
int buf_u16(struct buf *b, uint16_t v, struct err *e);
int buf_u32(struct buf *b, uint32_t v, struct err *e);
int buf_u64(struct buf *b, uint64_t v, struct err *e);
int buf_varint(struct buf *b, uint64_t v, struct err *e);
int buf_lenstr(struct buf *b, const void *p, size_t n, struct err *e); /* varint length, then the bytes */
const char *buf_str(struct buf *b, struct err *e); /* terminated view, valid until the next change; NULL on failure */
char *buf_take(struct buf *b, size_t *n, struct err *e); /* caller frees with mem_free; terminated; b is empty after */
void buf_reset(struct buf *b);                     /* n = 0, memory kept */
void buf_free(struct buf *b);

struct rd {
    const uint8_t *p, *end;
};
#define RD(ptr, len) ((struct rd){(const uint8_t *)(ptr), (const uint8_t *)(ptr) + (len)})
#define RD_LEFT(r) ((size_t)((r)->end - (r)->p))
/* 0, or -1 when the bytes run out or a varint is malformed; *r is then unspecified. No message: the caller knows what it reads. */
int rd_u8(struct rd *r, uint8_t *v);
int rd_u16(struct rd *r, uint16_t *v);
int rd_u32(struct rd *r, uint32_t *v);
int rd_u64(struct rd *r, uint64_t *v);
int rd_varint(struct rd *r, uint64_t *v);
int rd_bytes(struct rd *r, size_t n, const char **p);        /* borrowed from the underlying bytes */
int rd_lenstr(struct rd *r, const char **p, size_t *n);

#endif
