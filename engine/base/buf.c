/* DESIGN: a byte buffer that is capped at creation.
 *  1. No call makes n larger than max; a call that fails leaves n and the bytes as they were.
 *  2. Once p is not NULL there is room for a terminator behind n, so buf_str on a filled buffer cannot fail.
 *  3. A reader never touches a byte at or behind `end`. */
#include "engine/base/buf.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"

#define FIRST_BYTES 64

int buf_reserve(struct buf *b, size_t more, struct err *e) {
    if (b->n > b->max || more > b->max - b->n)
        return err_set(e, CODE_LIMIT, "%zu bytes do not fit: the limit is %zu and %zu are used", more, b->max, b->n);
    size_t need = b->n + more;
    if (need < b->cap) return 0;
    if (need == SIZE_MAX) return err_set(e, CODE_NO_MEMORY, "cannot get %zu bytes of memory", need);
    size_t top = b->max == SIZE_MAX ? SIZE_MAX : b->max + 1;
    size_t cap = b->cap < FIRST_BYTES ? FIRST_BYTES : b->cap <= SIZE_MAX / 2 ? b->cap * 2 : SIZE_MAX;
    if (cap > top) cap = top;
    if (cap < need + 1) cap = need + 1;
    char *p = mem_resize(b->p, cap, e);
    if (!p) return -1;
    b->p = p;
    b->cap = cap;
    return 0;
}

int buf_add(struct buf *b, const void *p, size_t n, struct err *e) {
    if (n == 0) return 0;
    if (buf_reserve(b, n, e) < 0) return -1;
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}

int buf_adds(struct buf *b, const char *s, struct err *e) { return buf_add(b, s, strlen(s), e); }

int buf_addc(struct buf *b, char c, struct err *e) {
    if (buf_reserve(b, 1, e) < 0) return -1;
    b->p[b->n++] = c;
    return 0;
}

int buf_addf(struct buf *b, struct err *e, const char *fmt, ...) {
    va_list ap, again;
    int rc = -1;
    va_start(ap, fmt);
    va_copy(again, ap);
    size_t left = b->p ? b->cap - b->n : 0;
    int n = vsnprintf(left ? b->p + b->n : NULL, left, fmt, ap);
    if (n < 0) {
        err_set(e, CODE_INTERNAL, "cannot format '%s'", fmt);
        goto out;
    }
    if (buf_reserve(b, (size_t)n, e) < 0) goto out;
    if ((size_t)n >= left) vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
    b->n += (size_t)n;
    rc = 0;
out:
    va_end(again);
    va_end(ap);
    return rc;
}

int buf_u8(struct buf *b, uint8_t v, struct err *e) { return buf_addc(b, (char)v, e); }

static int add_le(struct buf *b, uint64_t v, size_t bytes, struct err *e) {
    if (buf_reserve(b, bytes, e) < 0) return -1;
    for (size_t i = 0; i < bytes; i++) b->p[b->n++] = (char)(v >> (8 * i));
    return 0;
}

int buf_u16(struct buf *b, uint16_t v, struct err *e) { return add_le(b, v, 2, e); }
int buf_u32(struct buf *b, uint32_t v, struct err *e) { return add_le(b, v, 4, e); }
int buf_u64(struct buf *b, uint64_t v, struct err *e) { return add_le(b, v, 8, e); }

static size_t varint_bytes(uint64_t v, unsigned char out[10]) {
    size_t n = 0;
    while (v >= 0x80) {
        out[n++] = (unsigned char)(v | 0x80);
        v >>= 7;
    }
    out[n++] = (unsigned char)v;
    return n;
}

int buf_varint(struct buf *b, uint64_t v, struct err *e) {
    unsigned char t[10];
    return buf_add(b, t, varint_bytes(v, t), e);
}

int buf_lenstr(struct buf *b, const void *p, size_t n, struct err *e) {
    unsigned char t[10];
    size_t tn = varint_bytes(n, t);
    /* Both or nothing: a length without its bytes would be a malformed record. */
    if (n > SIZE_MAX - tn) return err_set(e, CODE_LIMIT, "%zu bytes do not fit", n);
    if (buf_reserve(b, tn + n, e) < 0) return -1;
    memcpy(b->p + b->n, t, tn);
    if (n) memcpy(b->p + b->n + tn, p, n);
    b->n += tn + n;
    return 0;
}

const char *buf_str(struct buf *b, struct err *e) {
    if (buf_reserve(b, 0, e) < 0) return NULL;
    b->p[b->n] = 0;
    return b->p;
}

char *buf_take(struct buf *b, size_t *n, struct err *e) {
    if (!buf_str(b, e)) return NULL;
    char *p = b->p;
    if (n) *n = b->n;
    b->p = NULL;
    b->n = b->cap = 0;
    return p;
}

void buf_reset(struct buf *b) { b->n = 0; }

void buf_free(struct buf *b) {
    mem_free(b->p);
    b->p = NULL;
    b->n = b->cap = 0;
}

static int read_le(struct rd *r, size_t bytes, uint64_t *v) {
    if (RD_LEFT(r) < bytes) return -1;
    uint64_t x = 0;
    for (size_t i = 0; i < bytes; i++) x |= (uint64_t)r->p[i] << (8 * i);
    r->p += bytes;
    *v = x;
    return 0;
}

int rd_u8(struct rd *r, uint8_t *v) {
    if (r->p == r->end) return -1;
    *v = *r->p++;
    return 0;
}

int rd_u16(struct rd *r, uint16_t *v) {
    uint64_t x;
    if (read_le(r, 2, &x) < 0) return -1;
    *v = (uint16_t)x;
    return 0;
}

int rd_u32(struct rd *r, uint32_t *v) {
    uint64_t x;
    if (read_le(r, 4, &x) < 0) return -1;
    *v = (uint32_t)x;
    return 0;
}

int rd_u64(struct rd *r, uint64_t *v) { return read_le(r, 8, v); }

int rd_varint(struct rd *r, uint64_t *v) {
    uint64_t x = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (r->p == r->end) return -1;
        uint8_t c = *r->p++;
        if (shift == 63 && c > 1) return -1; /* the tenth byte holds one bit */
        x |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) {
            *v = x;
            return 0;
        }
    }
    return -1;
}

int rd_bytes(struct rd *r, size_t n, const char **p) {
    if (RD_LEFT(r) < n) return -1;
    *p = (const char *)r->p;
    r->p += n;
    return 0;
}

int rd_lenstr(struct rd *r, const char **p, size_t *n) {
    uint64_t len;
    if (rd_varint(r, &len) < 0 || len > RD_LEFT(r)) return -1;
    *n = (size_t)len;
    return rd_bytes(r, *n, p);
}
