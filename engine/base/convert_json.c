/* DESIGN
 *
 * A validator of RFC 8259 without recursion: one bit per level says object or array. It checks and never copies.
 * 1. What it takes, any strict reader takes: no comments, no trailing commas, no bare words, no control characters in strings, valid UTF-8.
 * 2. strict adds what jsonb refuses: \u0000 and surrogates that are not a pair. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/convert.h"
#include "engine/base/text.h"

#define DEPTH_MAX 6000

struct scan {
    const char *start, *p, *end;
    bool strict;
};

static void blank(struct scan *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static int hex4(struct scan *s, unsigned *v) {
    *v = 0;
    for (int i = 0; i < 4; i++, s->p++) {
        if (s->p >= s->end) return -1;
        char c = *s->p;
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0) return -1;
        *v = *v << 4 | (unsigned)d;
    }
    return 0;
}

static int escape(struct scan *s) {
    unsigned v, low;
    if (++s->p >= s->end) return -1;
    char c = *s->p;
    if (c != 'u') {
        if (!c || !strchr("\"\\/bfnrt", c)) return -1;
        s->p++;
        return 0;
    }
    s->p++;
    if (hex4(s, &v) < 0) return -1;
    if (!s->strict) return 0;
    if (v == 0 || (v >= 0xDC00 && v <= 0xDFFF)) return -1;
    if (v < 0xD800 || v > 0xDBFF) return 0;
    if (s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u') return -1;
    s->p += 2;
    return hex4(s, &low) == 0 && low >= 0xDC00 && low <= 0xDFFF ? 0 : -1;
}

static int string(struct scan *s) {
    s->p++; /* the quote */
    for (;;) {
        const char *from = s->p;
        while (s->p < s->end && *s->p != '"' && *s->p != '\\' && (unsigned char)*s->p >= 0x20)
            s->p++;
        if (!text_utf8_valid(from, (size_t)(s->p - from))) return s->p = from, -1;
        if (s->p >= s->end || (unsigned char)*s->p < 0x20) return -1;
        if (*s->p == '"') return s->p++, 0;
        if (escape(s) < 0) return -1;
    }
}

static size_t digits(struct scan *s) {
    const char *from = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return (size_t)(s->p - from);
}

static int number(struct scan *s) {
    if (*s->p == '-') s->p++;
    if (s->p < s->end && *s->p == '0') s->p++;
    else if (digits(s) == 0) return -1;
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (digits(s) == 0) return -1;
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-')) s->p++;
        if (digits(s) == 0) return -1;
    }
    return 0;
}

static int word(struct scan *s, const char *w) {
    size_t n = strlen(w);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n) != 0) return -1;
    s->p += n;
    return 0;
}

static int key(struct scan *s) {
    blank(s);
    if (s->p >= s->end || *s->p != '"' || string(s) < 0) return -1;
    blank(s);
    if (s->p >= s->end || *s->p != ':') return -1;
    s->p++;
    return 0;
}

static int document(struct scan *s) {
    uint8_t obj[DEPTH_MAX / 8 + 1];
    size_t depth = 0;
    for (;;) {
        /* a value is due here */
        blank(s);
        if (s->p >= s->end) return -1;
        char c = *s->p;
        bool opened = false;
        if (c == '{' || c == '[') {
            if (depth == DEPTH_MAX) return -1;
            s->p++;
            if (depth % 8 == 0) obj[depth / 8] = 0;
            if (c == '{') obj[depth / 8] |= (uint8_t)(1u << depth % 8);
            else obj[depth / 8] &= (uint8_t) ~(1u << depth % 8);
            depth++;
            blank(s);
            opened = !(s->p < s->end && *s->p == (c == '{' ? '}' : ']'));
            if (opened && c == '{' && key(s) < 0) return -1;
            if (opened) continue;
        } else if (c == '"'   ? string(s)
                   : c == 't' ? word(s, "true")
                   : c == 'f' ? word(s, "false")
                   : c == 'n' ? word(s, "null")
                              : number(s)) {
            return -1;
        }
        /* a value is complete: close what ends here, or go on behind a comma */
        for (;;) {
            blank(s);
            if (depth == 0) return s->p == s->end ? 0 : -1;
            if (s->p >= s->end) return -1;
            bool in_obj = obj[(depth - 1) / 8] & 1u << (depth - 1) % 8;
            if (*s->p == ',') {
                s->p++;
                if (in_obj && key(s) < 0) return -1;
                break;
            }
            if (*s->p != (in_obj ? '}' : ']')) return -1;
            s->p++;
            depth--;
        }
    }
}

int convert_json_valid(const char *p, size_t n, bool strict, size_t *at) {
    struct scan s = {n ? p : "", n ? p : "", (n ? p : "") + n, strict};
    int rc = document(&s);
    if (at) *at = (size_t)(s.p - s.start);
    return rc < 0 ? -1 : 0;
}
