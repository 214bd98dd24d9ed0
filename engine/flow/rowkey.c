/* DESIGN. Two identities that the source holds equal hash and compare equal here; two that differ may compare equal only where that costs a
 * split run, never where rows would be merged: composition is used for bytewise keys (tables.c), and elsewhere only when rowkey_certain agrees. */
#include "engine/flow/rowkey.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"

static enum equality col_equality(const struct shape *s, const struct key *k, uint16_t i, uint16_t col) {
    return k && k->equality ? k->equality[i] : s->cols[col].equality;
}

static char fold(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Trailing blanks that RTRIM ignores. */
static uint32_t shown_len(enum equality q, const struct value *v) {
    uint32_t n = v->len;
    if (q == EQ_RTRIM)
        while (n && v->p[n - 1] == ' ') n--;
    return n;
}

/* A number's text without a storage class byte. False when it is not a number (text in an untyped column). */
static bool number_text(const struct value *v, const char **p, uint32_t *n) {
    *p = v->p;
    *n = v->len;
    if (v->kind == VALUE_BINARY) {
        if (v->len < 2 || (v->p[0] != 'i' && v->p[0] != 'r')) return false;
        *p += 1;
        *n -= 1;
    }
    return v->kind != VALUE_BYTES && *n > 0;
}

/* Nearest double: equal numbers have equal doubles, so it serves as a hash; it is never a value. NaN, and what is too long, count as 0. */
static double number_near(const char *p, uint32_t n) {
    char text[400];
    if (n >= sizeof text) return 0;
    memcpy(text, p, n);
    text[n] = 0;
    double d = strtod(text, NULL);
    return d == d && d != 0 ? d : 0;
}

/* A plain decimal without what does not count: leading zeros, trailing zeros behind the point. False for exponents and names. */
static bool number_plain(const char **p, uint32_t *n, bool *neg) {
    const char *s = *p, *end = s + *n;
    *neg = s < end && *s == '-';
    if (*neg) s++;
    bool point = false;
    for (const char *c = s; c < end; c++) {
        if (*c == '.' && !point) point = true;
        else if (*c < '0' || *c > '9') return false;
    }
    while (s < end && *s == '0') s++;
    if (point) {
        while (end > s && end[-1] == '0') end--;
        if (end > s && end[-1] == '.') end--;
    }
    *p = s;
    *n = (uint32_t)(end - s);
    if (*n == 0) *neg = false;
    return true;
}

static bool numbers_equal(const struct value *a, const struct value *b) {
    const char *pa, *pb;
    uint32_t na, nb;
    bool nega, negb, isa = number_text(a, &pa, &na), isb = number_text(b, &pb, &nb);
    if (!isa || !isb) return isa == isb && value_equal(a, b);
    if (number_near(pa, na) != number_near(pb, nb)) return false;
    if (!number_plain(&pa, &na, &nega) || !number_plain(&pb, &nb, &negb)) return true;
    return nega == negb && na == nb && memcmp(pa, pb, na) == 0;
}

static uint64_t number_hash(const struct value *v, uint64_t h) {
    const char *p;
    uint32_t n;
    if (!number_text(v, &p, &n)) return hash64(v->p, v->len, h);
    double d = number_near(p, n);
    return hash64(&d, sizeof d, h);
}

static uint64_t value_hash(enum equality q, const struct value *v, uint64_t h) {
    if (v->kind == VALUE_NULL || v->kind == VALUE_UNCHANGED) return h * 31 + v->kind;
    if (q == EQ_NONDET) return h * 31 + 7;
    if (q == EQ_NUMERIC) return number_hash(v, h);
    uint32_t n = shown_len(q, v);
    if (q != EQ_NOCASE) return hash64(v->p, n, h);
    for (uint32_t i = 0; i < n; i++) h = (h ^ (unsigned char)fold(v->p[i])) * 0x100000001b3ull;
    return h;
}

static bool values_equal(enum equality q, const struct value *a, const struct value *b) {
    if (a->kind == VALUE_NULL || b->kind == VALUE_NULL || a->kind == VALUE_UNCHANGED || b->kind == VALUE_UNCHANGED) return a->kind == b->kind;
    if (q == EQ_NONDET) return true; /* unknowable: the caller splits the run */
    if (q == EQ_NUMERIC) return numbers_equal(a, b);
    uint32_t na = shown_len(q, a), nb = shown_len(q, b);
    if (na != nb) return false;
    if (q != EQ_NOCASE) return a->kind == b->kind && memcmp(a->p, b->p, na) == 0;
    for (uint32_t i = 0; i < na; i++)
        if (fold(a->p[i]) != fold(b->p[i])) return false;
    return true;
}

static uint64_t hash_full(const struct shape *s, const struct value *v) {
    uint64_t h = 0x9e3779b97f4a7c15ull;
    for (uint16_t i = 0; i < s->ncols; i++) h = value_hash(EQ_BYTES, &v[i], h);
    return h;
}

static bool equal_full(const struct shape *s, const struct value *a, const struct value *b) {
    for (uint16_t i = 0; i < s->ncols; i++)
        if (!values_equal(EQ_BYTES, &a[i], &b[i])) return false;
    return true;
}

uint64_t rowkey_hash(const struct shape *s, const struct value *v) {
    if (s->identity < 0) return hash_full(s, v);
    const struct key *k = &s->keys[s->identity];
    uint64_t h = 0x9e3779b97f4a7c15ull;
    for (uint16_t i = 0; i < k->ncols; i++) h = value_hash(col_equality(s, k, i, k->cols[i]), &v[k->cols[i]], h);
    return h;
}

bool rowkey_equal(const struct shape *s, const struct value *a, const struct value *b) {
    if (s->identity < 0) return equal_full(s, a, b);
    const struct key *k = &s->keys[s->identity];
    for (uint16_t i = 0; i < k->ncols; i++)
        if (!values_equal(col_equality(s, k, i, k->cols[i]), &a[k->cols[i]], &b[k->cols[i]])) return false;
    return true;
}

static bool value_certain(enum equality q, const struct value *a, const struct value *b) {
    const char *pa, *pb;
    uint32_t na, nb;
    bool nega, negb;
    if (q == EQ_BYTES || value_equal(a, b)) return true;
    if (q == EQ_NONDET || a->kind != b->kind) return false;
    if (q == EQ_NUMERIC) return number_text(a, &pa, &na) && number_text(b, &pb, &nb) && number_plain(&pa, &na, &nega) && number_plain(&pb, &nb, &negb);
    return a->kind == VALUE_TEXT || (a->kind == VALUE_BINARY && a->len && a->p[0] == 't'); /* no collation looks into raw bytes */
}

bool rowkey_certain(const struct shape *s, const struct value *a, const struct value *b) {
    if (s->identity < 0) return true;
    const struct key *k = &s->keys[s->identity];
    for (uint16_t i = 0; i < k->ncols; i++)
        if (!value_certain(col_equality(s, k, i, k->cols[i]), &a[k->cols[i]], &b[k->cols[i]])) return false;
    return true;
}

bool rowkey_unknowable(const struct shape *s) {
    if (s->identity < 0) return false;
    const struct key *k = &s->keys[s->identity];
    for (uint16_t i = 0; i < k->ncols; i++)
        if (col_equality(s, k, i, k->cols[i]) == EQ_NONDET) return true;
    return false;
}

void rowkey_set_init(struct rowkey_set *s, struct arena *a) {
    memset(s, 0, sizeof *s);
    s->arena = a;
}

bool rowkey_set_has(const struct rowkey_set *s, const struct shape *sh, const struct value *v, bool full) {
    if (!s->used) return false;
    uint64_t h = full ? hash_full(sh, v) : rowkey_hash(sh, v);
    for (size_t at = h & (s->cap - 1); s->v[at]; at = (at + 1) & (s->cap - 1))
        if (s->hash[at] == h && (full ? equal_full(sh, s->v[at], v) : rowkey_equal(sh, s->v[at], v))) return true;
    return false;
}

int rowkey_set_add(struct rowkey_set *s, const struct shape *sh, const struct value *v, bool full, struct err *e) {
    if ((s->used + 1) * 2 > s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 32;
        const struct value **nv = arena_zalloc(s->arena, cap * sizeof *nv, e);
        uint64_t *nh = arena_alloc(s->arena, cap * sizeof *nh, e);
        if (!nv || !nh) return -1;
        for (size_t i = 0; i < s->cap; i++) {
            if (!s->v[i]) continue;
            size_t at = s->hash[i] & (cap - 1);
            while (nv[at]) at = (at + 1) & (cap - 1);
            nv[at] = s->v[i];
            nh[at] = s->hash[i];
        }
        s->v = nv;
        s->hash = nh;
        s->cap = cap;
    }
    uint64_t h = full ? hash_full(sh, v) : rowkey_hash(sh, v);
    size_t at = h & (s->cap - 1);
    while (s->v[at]) at = (at + 1) & (s->cap - 1);
    s->v[at] = v;
    s->hash[at] = h;
    s->used++;
    return 0;
}
