/* DESIGN
 *
 * Rows as bytes. Both forms are on the hot path of a copy: no allocation per value, no call per byte.
 * 1. row_encode's bytes are frozen (t_value.c holds them in hex): varint count, then per value varint (len << 3 | kind) and the bytes.
 * 2. row_decode never reads or allocates more than the bytes justify: a count is at most the bytes left, since each value takes one.
 * 3. COPY text follows PostgreSQL's reader: `\N` is NULL only as a whole field, a backslash before any other character stands for that
 *    character, octal and hex escapes are bytes. What would be lost silently (a NUL byte, a lone backslash at the end) is refused. */
#include "engine/base/value.h"

#include <string.h>

#include "engine/base/err.h"

bool value_equal(const struct value *a, const struct value *b) {
    return a->kind == b->kind && a->len == b->len && (a->len == 0 || memcmp(a->p, b->p, a->len) == 0);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

static size_t varint_len(uint64_t v) {
    size_t n = 1;
    while (v >= 0x80)
        v >>= 7, n++;
    return n;
}

static inline char *varint_put(char *d, uint64_t v) {
    while (v >= 0x80)
        *d++ = (char)(v | 0x80), v >>= 7;
    *d++ = (char)v;
    return d;
}

static inline bool kind_bare(unsigned kind) {
    return kind == VALUE_NULL || kind == VALUE_UNCHANGED;
}

int row_encode(struct buf *b, const struct value *v, uint16_t n, struct err *e) {
    size_t need = varint_len(n);
    for (uint16_t i = 0; i < n; i++) {
        if (v[i].kind > VALUE_BINARY || (kind_bare(v[i].kind) && v[i].len != 0))
            return err_set(e, CODE_INTERNAL, "value %u of a row has kind %u and %u bytes", (unsigned)i, (unsigned)v[i].kind,
                           (unsigned)v[i].len);
        need += varint_len((uint64_t)v[i].len << 3 | v[i].kind) + v[i].len;
    }
    if (buf_reserve(b, need, e) < 0) return -1;
    char *d = varint_put(b->p + b->n, n);
    for (uint16_t i = 0; i < n; i++) {
        d = varint_put(d, (uint64_t)v[i].len << 3 | v[i].kind);
        if (v[i].len) memcpy(d, v[i].p, v[i].len), d += v[i].len;
    }
    b->n = (size_t)(d - b->p);
    return 0;
}

int row_decode(struct rd *r, struct arena *a, struct value **v, uint16_t *n, struct err *e) {
    uint64_t count, head;
    if (rd_varint(r, &count) < 0) return err_set(e, CODE_CHUNK_CORRUPT, "row has no column count");
    if (count > UINT16_MAX || count > RD_LEFT(r))
        return err_set(e, CODE_CHUNK_CORRUPT, "row claims %llu columns in %zu bytes", (unsigned long long)count, RD_LEFT(r));
    struct value *out = arena_alloc(a, (count ? count : 1) * sizeof *out, e);
    if (!out) return -1;
    for (size_t i = 0; i < count; i++) {
        if (r->p < r->end && *r->p < 0x80) head = *r->p++;
        else if (rd_varint(r, &head) < 0) return err_set(e, CODE_CHUNK_CORRUPT, "row of %u columns ends in column %zu", (unsigned)count, i);
        unsigned kind = head & 7;
        uint64_t len = head >> 3;
        if (kind > VALUE_BINARY || (kind_bare(kind) && len != 0))
            return err_set(e, CODE_CHUNK_CORRUPT, "column %zu of a row has kind %u and %llu bytes", i, kind, (unsigned long long)len);
        if (len > RD_LEFT(r) || len > UINT32_MAX)
            return err_set(e, CODE_CHUNK_CORRUPT, "row of %u columns ends in column %zu", (unsigned)count, i);
        out[i].kind = (uint8_t)kind;
        out[i].len = (uint32_t)len;
        out[i].p = kind_bare(kind) ? NULL : (const char *)r->p;
        r->p += len;
    }
    *v = out;
    *n = (uint16_t)count;
    return 0;
}

/* ---- COPY text ------------------------------------------------------------------------------------------------------- */

/* Letter of the escape; 0: stands for itself; 1: cannot stand (NUL). */
static const unsigned char copy_escape[256] = {
    [0] = 1, ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't', ['\v'] = 'v', ['\\'] = '\\',
};

#define ONES 0x0101010101010101ull
#define HIGH 0x8080808080808080ull
/* Length of the start of p that needs no escape. Eight bytes at a time: a word with a byte below 0x20 or a backslash is looked at closely.
 */
static size_t copy_plain(const char *p, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t w, x;
        memcpy(&w, p + i, 8);
        x = w ^ (ONES * '\\');
        if ((((w - ONES * 0x20) & ~w) | ((x - ONES) & ~x)) & HIGH) break;
    }
    while (i < n && !copy_escape[(unsigned char)p[i]])
        i++;
    return i;
}

static int copy_text(struct buf *b, const char *p, size_t n, struct err *e) {
    if (buf_reserve(b, n + 1, e) < 0) return -1;
    for (;;) {
        size_t plain = copy_plain(p, n);
        if (plain) memcpy(b->p + b->n, p, plain), b->n += plain;
        if (plain == n) return 0;
        unsigned char letter = copy_escape[(unsigned char)p[plain]];
        if (letter == 1) return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a text value holds a NUL character");
        p += plain + 1;
        n -= plain + 1;
        if (buf_reserve(b, n + 3, e) < 0) return -1;
        b->p[b->n++] = '\\';
        b->p[b->n++] = (char)letter;
    }
}

static int copy_bytes(struct buf *b, const char *p, size_t n, struct err *e) {
    static const char digits[] = "0123456789abcdef";
    if (buf_reserve(b, 2 * n + 3, e) < 0) return -1;
    char *d = b->p + b->n;
    *d++ = '\\', *d++ = '\\', *d++ = 'x';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        *d++ = digits[c >> 4];
        *d++ = digits[c & 15];
    }
    b->n = (size_t)(d - b->p);
    return 0;
}

int copytext_encode(struct buf *b, const struct value *v, uint16_t n, struct err *e) {
    for (uint16_t i = 0; i < n; i++) {
        if (i && buf_addc(b, '\t', e) < 0) return -1;
        int rc = -1;
        if (v[i].kind == VALUE_TEXT) rc = copy_text(b, v[i].p, v[i].len, e);
        else if (v[i].kind == VALUE_NULL) rc = buf_add(b, "\\N", 2, e);
        else if (v[i].kind == VALUE_BYTES) rc = copy_bytes(b, v[i].p, v[i].len, e);
        else err_set(e, CODE_INTERNAL, "value %u of kind %u cannot stand in a row of text", (unsigned)i, (unsigned)v[i].kind);
        if (rc < 0) return -1;
    }
    return buf_addc(b, '\n', e);
}

static int hex_digit(unsigned char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* The character an escape stands for; *p is behind the backslash and moves behind the escape. -1 at the end of the line. */
static int copy_unescape(const char **p, const char *end) {
    if (*p >= end) return -1;
    unsigned char c = (unsigned char)*(*p)++;
    switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'v': return '\v';
    case 'x': {
        int d, v = 0, k = 0;
        for (; k < 2 && *p < end && (d = hex_digit((unsigned char)**p)) >= 0; k++, (*p)++)
            v = v * 16 + d;
        return k ? v : 'x';
    }
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7': {
        int v = c - '0';
        for (int k = 1; k < 3 && *p < end && **p >= '0' && **p <= '7'; k++, (*p)++)
            v = v * 8 + (**p - '0');
        return v & 0xff;
    }
    default: return c;
    }
}

int copytext_decode(const char *line, size_t len, struct arena *a, struct value *v, uint16_t n, struct err *e) {
    const char *p = line, *end = line + len;
    const char *slash = len ? memchr(line, '\\', len) : NULL;
    char *out = NULL; /* one piece for all unescaped fields of the line: they are never longer than their escapes */
    if (n == 0) return len == 0 ? 0 : err_set(e, CODE_CHUNK_CORRUPT, "row of text has more than 0 columns");
    for (uint16_t i = 0;; i++) {
        const char *tab = p < end ? memchr(p, '\t', (size_t)(end - p)) : NULL;
        const char *stop = tab ? tab : end;
        if (!slash || slash >= stop) {
            v[i] = (struct value){p, (uint32_t)(stop - p), VALUE_TEXT};
        } else if (stop - p == 2 && p[0] == '\\' && p[1] == 'N') {
            v[i] = VALUE_OF_NULL;
        } else {
            if (!out && !(out = arena_alloc(a, (size_t)(end - p), e))) return -1;
            char *start = out;
            while (p < end && *p != '\t') {
                const char *q = p;
                while (q < end && *q != '\t' && *q != '\\')
                    q++;
                memcpy(out, p, (size_t)(q - p));
                out += q - p;
                p = q;
                if (p == end || *p == '\t') break;
                p++;
                int c = copy_unescape(&p, end);
                if (c <= 0)
                    return err_set(e, CODE_CHUNK_CORRUPT, "column %u of a row of text %s", (unsigned)i,
                                   c ? "ends in a backslash" : "holds a NUL character");
                *out++ = (char)c;
            }
            stop = p;
            v[i] = (struct value){start, (uint32_t)(out - start), VALUE_TEXT};
        }
        if (slash && slash < stop) slash = stop < end ? memchr(stop, '\\', (size_t)(end - stop)) : NULL;
        if (i + 1 == n) {
            if (stop != end) return err_set(e, CODE_CHUNK_CORRUPT, "row of text has more than %u columns", (unsigned)n);
            return 0;
        }
        if (stop == end) return err_set(e, CODE_CHUNK_CORRUPT, "row of text has %u columns instead of %u", (unsigned)i + 1, (unsigned)n);
        p = stop + 1;
    }
}
