/* One-dimensional arrays in PostgreSQL's binary form: a header, then each element as its length and bytes in network order. */
#include <string.h>

#include "drivers/postgres/target_priv.h"
#include "engine/base/text.h"

const unsigned wire_array_oid[WIRES] = {1009, 1005, 1007, 1016, 1001};
const unsigned wire_elem_oid[WIRES] = {25, 21, 23, 20, 17};
const char *const wire_name[WIRES] = {"text", "smallint", "integer", "bigint", "bytea"};

static void put32(char *p, uint32_t v) {
    p[0] = (char)(v >> 24), p[1] = (char)(v >> 16), p[2] = (char)(v >> 8), p[3] = (char)v;
}

int array_begin(struct buf *b, enum wire w, size_t n, struct err *e) {
    char h[20];
    put32(h, 1);                    /* dimensions */
    put32(h + 4, 1);                /* may hold NULL */
    put32(h + 8, wire_elem_oid[w]);
    put32(h + 12, (uint32_t)n);
    put32(h + 16, 1);               /* lower bound */
    return buf_add(b, h, sizeof h, e);
}

/* A canonical integer, without a terminator: no doubles, no locale. */
static int parse_int(const char *p, size_t n, int64_t min, int64_t max, int64_t *out) {
    bool neg = n > 0 && *p == '-';
    uint64_t v = 0;
    if (neg) p++, n--;
    if (n == 0 || n > 19) return -1;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') return -1;
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    if (neg ? v > (uint64_t)INT64_MAX + 1 : v > (uint64_t)INT64_MAX) return -1;
    int64_t s = neg ? (v == 0 ? 0 : -(int64_t)(v - 1) - 1) : (int64_t)v;
    if (s < min || s > max) return -1;
    *out = s;
    return 0;
}

static int put_bytes(struct buf *b, const char *p, size_t n, struct err *e) {
    char h[4];
    put32(h, (uint32_t)n);
    if (buf_add(b, h, 4, e) < 0) return -1;
    return n == 0 ? 0 : buf_add(b, p, n, e);
}

static int put_hex(struct buf *b, const char *p, size_t n, struct err *e) {
    if (n < 2 || p[0] != '\\' || p[1] != 'x' || (n & 1)) return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a byte string is not in \\x form");
    size_t len = (n - 2) / 2;
    char h[4];
    put32(h, (uint32_t)len);
    if (buf_add(b, h, 4, e) < 0 || buf_reserve(b, len, e) < 0) return -1;
    if (len > 0 && text_unhex(p + 2, n - 2, (unsigned char *)b->p + b->n) < 0) return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a byte string is not in \\x form");
    b->n += len;
    return 0;
}

/* Bytes bound for a column that is compared or cast as text. */
static int put_as_hex(struct buf *b, const char *p, size_t n, struct err *e) {
    char h[6];
    if (n > (UINT32_MAX >> 2)) return err_set(e, CODE_LIMIT, "a byte string of %zu bytes is too large", n);
    put32(h, (uint32_t)(n * 2 + 2));
    h[4] = '\\', h[5] = 'x';
    if (buf_add(b, h, 6, e) < 0 || buf_reserve(b, n * 2 + 1, e) < 0) return -1;
    text_hex(p, n, b->p + b->n);
    b->n += n * 2;
    return 0;
}

int array_put(struct buf *b, enum wire w, const struct value *v, struct err *e) {
    if (v->kind == VALUE_NULL) return buf_add(b, "\xff\xff\xff\xff", 4, e);
    if (v->kind != VALUE_TEXT && v->kind != VALUE_BYTES) return err_set(e, CODE_INTERNAL, "a value that a change does not hold was asked for");
    int64_t i;
    char h[12];
    switch (w) {
    case WIRE_TEXT:
        if (v->kind == VALUE_BYTES) return put_as_hex(b, v->p, v->len, e);
        if (v->len > 0 && memchr(v->p, 0, v->len) != NULL)
            return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a text holds a NUL character, which PostgreSQL cannot store");
        return put_bytes(b, v->p, v->len, e);
    case WIRE_BYTEA: return v->kind == VALUE_BYTES ? put_bytes(b, v->p, v->len, e) : put_hex(b, v->p, v->len, e);
    case WIRE_INT2:
        if (v->kind != VALUE_TEXT || parse_int(v->p, v->len, INT16_MIN, INT16_MAX, &i) < 0) break;
        put32(h, 2);
        h[4] = (char)((uint16_t)i >> 8), h[5] = (char)i;
        return buf_add(b, h, 6, e);
    case WIRE_INT4:
        if (v->kind != VALUE_TEXT || parse_int(v->p, v->len, INT32_MIN, INT32_MAX, &i) < 0) break;
        put32(h, 4);
        put32(h + 4, (uint32_t)(int32_t)i);
        return buf_add(b, h, 8, e);
    case WIRE_INT8:
        if (v->kind != VALUE_TEXT || parse_int(v->p, v->len, INT64_MIN, INT64_MAX, &i) < 0) break;
        put32(h, 8);
        put32(h + 4, (uint32_t)((uint64_t)i >> 32));
        put32(h + 8, (uint32_t)(uint64_t)i);
        return buf_add(b, h, 12, e);
    }
    return err_set(e, CODE_VALUE_UNREPRESENTABLE, "'%.*s' is not a value of type %s", v->len > 40 ? 40 : (int)v->len, v->p, wire_name[w]);
}
