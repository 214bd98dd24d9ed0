#include "engine/base/text.h"

#include <string.h>

int text_ident(struct buf *b, const char *name, struct err *e) {
    if (buf_addc(b, '"', e) < 0) return -1;
    for (const char *q; (q = strchr(name, '"')); name = q + 1)
        if (buf_add(b, name, (size_t)(q - name) + 1, e) < 0 || buf_addc(b, '"', e) < 0) return -1;
    if (buf_adds(b, name, e) < 0) return -1;
    return buf_addc(b, '"', e);
}

int text_literal(struct buf *b, const char *p, size_t n, struct err *e) {
    if (n && memchr(p, 0, n)) return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a text value holds a NUL byte, which SQL text cannot");
    if (buf_addc(b, '\'', e) < 0) return -1;
    for (const char *q; n && (q = memchr(p, '\'', n));) {
        size_t k = (size_t)(q - p) + 1;
        if (buf_add(b, p, k, e) < 0 || buf_addc(b, '\'', e) < 0) return -1;
        p += k;
        n -= k;
    }
    if (buf_add(b, p, n, e) < 0) return -1;
    return buf_addc(b, '\'', e);
}

void text_hex(const void *p, size_t n, char *out) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *s = p;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[s[i] >> 4];
        out[2 * i + 1] = digits[s[i] & 15];
    }
    out[2 * n] = 0;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

int text_unhex(const char *s, size_t n, unsigned char *out) {
    if (n % 2) return -1;
    for (size_t i = 0; i < n; i += 2) {
        int hi = hex_digit(s[i]), lo = hex_digit(s[i + 1]);
        if (hi < 0 || lo < 0) return -1;
        out[i / 2] = (unsigned char)(hi << 4 | lo);
    }
    return 0;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int text_base64(struct buf *b, const void *p, size_t n, struct err *e) {
    const unsigned char *s = p;
    if (n > SIZE_MAX / 4 * 3 - 3) return err_set(e, CODE_LIMIT, "%zu bytes do not fit", n);
    if (buf_reserve(b, (n + 2) / 3 * 4, e) < 0) return -1;
    char *o = b->p + b->n;
    for (; n >= 3; s += 3, n -= 3) {
        uint32_t v = (uint32_t)s[0] << 16 | (uint32_t)s[1] << 8 | s[2];
        *o++ = base64_digits[v >> 18];
        *o++ = base64_digits[v >> 12 & 63];
        *o++ = base64_digits[v >> 6 & 63];
        *o++ = base64_digits[v & 63];
    }
    if (n) {
        uint32_t v = (uint32_t)s[0] << 16 | (n == 2 ? (uint32_t)s[1] << 8 : 0);
        *o++ = base64_digits[v >> 18];
        *o++ = base64_digits[v >> 12 & 63];
        *o++ = n == 2 ? base64_digits[v >> 6 & 63] : '=';
        *o++ = '=';
    }
    b->n = (size_t)(o - b->p);
    return 0;
}

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Canonical form only (padded, no blanks, unused bits zero): one text for one value. */
int text_unbase64(struct buf *b, const char *s, size_t n, struct err *e) {
    size_t pad = n && s[n - 1] == '=' ? (n > 1 && s[n - 2] == '=' ? 2 : 1) : 0;
    if (n % 4) goto bad;
    if (buf_reserve(b, n / 4 * 3, e) < 0) return -1;
    size_t start = b->n;
    for (size_t i = 0; i < n; i += 4) {
        size_t digits = i + 4 == n ? 4 - pad : 4;
        uint32_t v = 0;
        for (size_t k = 0; k < 4; k++) {
            int d = k < digits ? base64_digit(s[i + k]) : 0;
            if (d < 0) { b->n = start; goto bad; }
            v = v << 6 | (uint32_t)d;
        }
        if ((digits == 3 && (v & 0xff)) || (digits == 2 && (v & 0xffff))) { b->n = start; goto bad; }
        for (size_t k = 0; k + 1 < digits; k++) b->p[b->n++] = (char)(v >> (16 - 8 * k));
    }
    return 0;
bad:
    return err_set(e, CODE_CONFIG, "a value is not base64");
}

/* Length of the well-formed UTF-8 character at p (n bytes left), 0 if there is none: no surrogates, no overlong forms, at most U+10FFFF. */
static size_t utf8_char(const unsigned char *p, size_t n) {
    unsigned char c = p[0];
    if (c < 0x80) return 1;
    if (c < 0xc2) return 0;
    if (c < 0xe0) return n >= 2 && (p[1] & 0xc0) == 0x80 ? 2 : 0;
    if (c < 0xf0) {
        if (n < 3 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80) return 0;
        if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f)) return 0;
        return 3;
    }
    if (c > 0xf4 || n < 4 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80 || (p[3] & 0xc0) != 0x80) return 0;
    if ((c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f)) return 0;
    return 4;
}

size_t text_utf8_char(const char *p, size_t n) { return n ? utf8_char((const unsigned char *)p, n) : 0; }

bool text_utf8_valid(const char *p, size_t n) {
    const unsigned char *s = (const unsigned char *)p;
    while (n) {
        /* Most text is ASCII: eight bytes a step. */
        while (n >= 8) {
            uint64_t w;
            memcpy(&w, s, 8);
            if (w & UINT64_C(0x8080808080808080)) break;
            s += 8;
            n -= 8;
        }
        if (!n) break;
        size_t k = utf8_char(s, n);
        if (!k) return false;
        s += k;
        n -= k;
    }
    return true;
}

/* The end of the set that begins at p ('['), or NULL if it is never closed: then the bracket is an ordinary character. */
static const char *set_end(const char *p) {
    p++;
    if (*p == '!' || *p == '^') p++;
    if (*p == ']') p++;
    while (*p && *p != ']') p++;
    return *p ? p : NULL;
}

static size_t char_bytes(const char *s) {
    size_t k = utf8_char((const unsigned char *)s, strlen(s));
    return k ? k : 1;
}

static uint32_t char_code(const char *s, size_t k) {
    const unsigned char *u = (const unsigned char *)s;
    if (k == 1) return u[0];
    uint32_t v = u[0] & (0xffu >> (k + 1));
    for (size_t i = 1; i < k; i++) v = v << 6 | (u[i] & 0x3f);
    return v;
}

static bool set_has(const char *p, const char *end, uint32_t c) {
    bool negate = p[1] == '!' || p[1] == '^', found = false;
    p += negate ? 2 : 1;
    while (p < end) {
        size_t k = char_bytes(p);
        uint32_t lo = char_code(p, k), hi = lo;
        p += k;
        if (*p == '-' && p + 1 < end) {
            k = char_bytes(p + 1);
            hi = char_code(p + 1, k);
            p += 1 + k;
        }
        if (c >= lo && c <= hi) found = true;
    }
    return found != negate;
}

bool text_glob(const char *pattern, const char *s) {
    const char *p = pattern, *star = NULL, *again = NULL;
    for (;;) {
        if (*p == '*') {
            star = ++p;
            again = s;
            continue;
        }
        if (!*s) return !*p;
        size_t k = char_bytes(s);
        const char *end;
        bool match;
        if (*p == '?') {
            match = true;
            p++;
        } else if (*p == '[' && (end = set_end(p))) {
            match = set_has(p, end, char_code(s, k));
            p = end + 1;
        } else {
            match = *p && strncmp(p, s, k) == 0;
            if (match) p += k;
        }
        if (match) {
            s += k;
            continue;
        }
        /* Only the last star need give way: an earlier one cannot reach further than it. */
        if (!star) return false;
        again += char_bytes(again);
        s = again;
        p = star;
    }
}

int text_u64(const char *s, uint64_t *v) {
    uint64_t x = 0;
    if (!*s) return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9') return -1;
        unsigned d = (unsigned)(*s - '0');
        if (x > (UINT64_MAX - d) / 10) return -1;
        x = x * 10 + d;
    }
    *v = x;
    return 0;
}

int text_i64(const char *s, int64_t *v) {
    uint64_t x;
    bool minus = *s == '-';
    if (text_u64(s + minus, &x) < 0 || x > (uint64_t)INT64_MAX + minus) return -1;
    *v = minus ? (int64_t)(0 - x) : (int64_t)x;
    return 0;
}

int text_bytes_parse(const char *s, uint64_t *v, struct err *e) {
    static const struct { const char *unit; unsigned shift; } units[] = {
        {"", 0},   {"b", 0},  {"k", 10}, {"kb", 10}, {"kib", 10}, {"m", 20}, {"mb", 20},
        {"mib", 20}, {"g", 30}, {"gb", 30}, {"gib", 30}, {"t", 40}, {"tb", 40}, {"tib", 40},
    };
    char digits[24], unit[4];
    size_t n = strspn(s, "0123456789"), u = strlen(s + n);
    uint64_t x;
    if (n == 0 || n >= sizeof digits || u >= sizeof unit) goto bad;
    memcpy(digits, s, n);
    digits[n] = 0;
    for (size_t i = 0; i <= u; i++) unit[i] = s[n + i] >= 'A' && s[n + i] <= 'Z' ? (char)(s[n + i] + 32) : s[n + i];
    if (text_u64(digits, &x) < 0) goto bad;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].unit) != 0) continue;
        if (x > UINT64_MAX >> units[i].shift) goto bad;
        *v = x << units[i].shift;
        return 0;
    }
bad:
    err_set(e, CODE_USAGE, "'%s' is not a number of bytes", s);
    return err_hint(e, "write it as 4096, 64KiB, 16MiB or 1GiB");
}
