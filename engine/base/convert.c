/* DESIGN
 *
 * One way from a value to a canonical text, used for checking and for converting: read it in any accepted spelling, write it canonically;
 * what was canonical comes out unchanged, and a strict caller refuses what did not.
 * 1. Decimal digits are moved as text (struct digits): no numeric ever becomes a double. Only floats, which are doubles, are compared as
 * such.
 * 2. A value fits or is refused: nothing is rounded, cut, padded or guessed.
 * 3. Messages show numbers, dates and the like, never the content of texts, bytes or JSON. */
#include "engine/base/convert.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/convert_parts.h"
#include "engine/base/text.h"

/* PostgreSQL's limits for numeric without a precision. */
#define NUMERIC_BEFORE_MAX 131072
#define NUMERIC_BEHIND_MAX 16383
#define FLOAT_TEXT_MAX 400

/* The text that a value becomes: the bytes given, a part of them, `small`, or a piece of the arena. */
struct canon {
    const char *p;
    size_t n;
    char small[CONVERT_TIME_MAX];
};

const char *convert_excerpt(const char *p, size_t n, char out[40]) {
    size_t k = n < 32 ? n : 32;
    for (size_t i = 0; i < k; i++)
        out[i] = p[i] >= 0x20 && p[i] < 0x7f ? p[i] : '?';
    memcpy(out + k, n > k ? "..." : "\0\0\0", 4);
    return out;
}

static int no(struct err *e, const struct column *to, const char *p, size_t n, const char *why) {
    char shown[40];
    return err_set(e, CODE_VALUE_UNREPRESENTABLE, "'%s' %s %s", convert_excerpt(p, n, shown), why, ltype_name(to->type));
}

static bool is_text(const char *p, size_t n, const char *word) {
    return n == strlen(word) && memcmp(p, word, n) == 0;
}

static bool is_word(const char *p, size_t n, const char *word) {
    return n == strlen(word) && strncasecmp(p, word, n) == 0;
}

/* ---- numbers --------------------------------------------------------------------------------------------------------- */

/* A decimal number: its digits without leading or trailing zeros, where they stand in the text given, and the power of ten of the first. */
struct digits {
    const char *p, *end; /* from the first digit that is not zero to behind the last one; may hold a point */
    bool negative;
    int64_t top;     /* digits before the point; 0 or less: zeros behind it (0.05 has -1); 0 for zero */
    int64_t low;     /* power of ten of the last digit: 0 for whole numbers without trailing zeros */
    size_t count;    /* 0: the number is zero */
    int64_t written; /* digits written behind the point, trailing zeros included */
};

/* [+-]digits[.digits][e[+-]digits], a digit on at least one side. */
static int digits_read(const char *p, size_t n, struct digits *d) {
    const char *q = p, *end = p + n, *point = NULL, *first = NULL, *last = NULL, *body;
    memset(d, 0, sizeof *d);
    if (q < end && (*q == '-' || *q == '+')) d->negative = *q++ == '-';
    int64_t seen = 0, before = 0, first_at = 0, last_at = 0, exp = 0;
    for (body = q; q < end && ((*q >= '0' && *q <= '9') || (*q == '.' && !point)); q++) {
        if (*q == '.') {
            point = q;
            before = seen;
            continue;
        }
        if (*q != '0') {
            if (!first) first = q, first_at = seen;
            last = q, last_at = seen;
        }
        seen++;
    }
    if (seen == 0) return -1;
    if (!point) before = seen;
    d->written = seen - before;
    if (q < end && (*q == 'e' || *q == 'E')) {
        bool down = false;
        q++;
        if (q < end && (*q == '-' || *q == '+')) down = *q++ == '-';
        if (q == end) return -1;
        for (; q < end && *q >= '0' && *q <= '9'; q++)
            if ((exp = exp * 10 + (*q - '0')) > 1000000) return -1;
        if (down) exp = -exp;
        d->written = d->written > exp ? d->written - exp : 0;
    }
    if (q != end || body == end) return -1;
    if (!first) return 0;
    d->p = first;
    d->end = last + 1;
    d->count = (size_t)(last_at - first_at + 1);
    d->top = before - first_at + exp;
    d->low = before - last_at - 1 + exp;
    return 0;
}

static size_t digits_room(const struct digits *d) {
    return d->count + (size_t)(d->low > 0 ? d->low : 0) + (size_t)(d->top < 0 ? -d->top : 0) + 4;
}

/* Plain decimal: no exponent, no superfluous zeros. */
static size_t digits_write(const struct digits *d, char *out) {
    char *o = out;
    if (d->count == 0) return *o = '0', 1;
    if (d->negative) *o++ = '-';
    int64_t at = d->top;
    if (at <= 0) {
        *o++ = '0', *o++ = '.';
        for (; at < 0; at++)
            *o++ = '0';
        at = -1; /* the point stands */
    }
    for (const char *q = d->p; q < d->end; q++) {
        if (*q == '.') continue;
        if (at == 0) *o++ = '.', at = -1;
        *o++ = *q;
        if (at > 0) at--;
    }
    for (; at > 0; at--)
        *o++ = '0';
    return (size_t)(o - out);
}

/* Canonical without help: the spelling that PostgreSQL prints, with the zeros behind the point that the number was given. */
static bool numeric_plain(const char *p, size_t n) {
    size_t i = n && p[0] == '-', whole = i;
    while (i < n && p[i] >= '0' && p[i] <= '9')
        i++;
    if (i == whole || (p[whole] == '0' && i - whole > 1)) return false;
    if (i < n) {
        size_t behind = ++i;
        if (p[i - 1] != '.') return false;
        while (i < n && p[i] >= '0' && p[i] <= '9')
            i++;
        if (i == behind || i != n) return false;
    }
    return true;
}

static int numeric_canon(const struct column *to, const char *p, size_t n, bool strict, struct arena *a, struct canon *out, struct err *e) {
    struct digits d;
    int32_t scale = to->scale > 0 || to->scale < -1 ? to->scale : 0; /* -1 is none, and a precision alone has no digit behind the point */
    bool bounded = to->precision >= 0;
    out->p = p, out->n = n;
    if (is_text(p, n, "NaN")) return 0;
    if (is_text(p, n, "Infinity") || is_text(p, n, "-Infinity")) return bounded ? no(e, to, p, n, "does not fit a bounded") : 0;
    if (digits_read(p, n, &d) < 0) return no(e, to, p, n, "is not a");
    if (bounded && d.count && d.top > to->precision - scale) return no(e, to, p, n, "has too many digits before the point for this");
    if (bounded && d.count && d.low < -scale) return no(e, to, p, n, "has too many digits behind the point for this");
    if (d.count && (d.top > NUMERIC_BEFORE_MAX || -d.low > NUMERIC_BEHIND_MAX)) return no(e, to, p, n, "has too many digits for any");
    bool plain = numeric_plain(p, n) && (d.count || !d.negative) && !(bounded && d.written > (scale > 0 ? scale : 0));
    if (plain) return 0;
    if (strict) return no(e, to, p, n, "is not the canonical spelling of a");
    size_t room = digits_room(&d);
    char *o = room <= sizeof out->small ? out->small : a ? arena_alloc(a, room, e) : NULL;
    if (!o) return a ? -1 : no(e, to, p, n, "is not the canonical spelling of a");
    out->p = o;
    out->n = digits_write(&d, o);
    return 0;
}

static const struct {
    enum ltype type;
    const char *min, *max;
} int_ranges[] = {
    {LT_INT16, "32768", "32767"}, {LT_INT32, "2147483648", "2147483647"}, {LT_INT64, "9223372036854775808", "9223372036854775807"},
    {LT_UINT16, "", "65535"},     {LT_UINT32, "", "4294967295"},          {LT_UINT64, "", "18446744073709551615"},
};

static int int_check(const struct column *to, const char *p, size_t n, struct err *e) {
    bool negative = n && p[0] == '-';
    const char *d = p + negative;
    size_t k = n - negative;
    for (size_t i = 0; i < k; i++)
        if (d[i] < '0' || d[i] > '9') return no(e, to, p, n, "is not an");
    if (k == 0 || (d[0] == '0' && (k > 1 || negative))) return no(e, to, p, n, "is not the canonical spelling of an");
    for (size_t i = 0; i < sizeof int_ranges / sizeof int_ranges[0]; i++) {
        if (int_ranges[i].type != to->type) continue;
        const char *bound = negative ? int_ranges[i].min : int_ranges[i].max;
        size_t bn = strlen(bound);
        if (k > bn || (k == bn && memcmp(d, bound, k) > 0)) return no(e, to, p, n, "is out of the range of");
    }
    return 0;
}

/* *v: the value as a double (float4: of the float), for callers that compare. */
static int float_check(const struct column *to, const char *p, size_t n, double *v, struct err *e) {
    char text[FLOAT_TEXT_MAX + 1];
    struct digits d;
    *v = 0;
    if (is_text(p, n, "NaN") || is_text(p, n, "Infinity") || is_text(p, n, "-Infinity")) return *v = HUGE_VAL, 0;
    if (n > FLOAT_TEXT_MAX || digits_read(p, n, &d) < 0 || p[0] == '+' || p[0] == '.' || p[n - 1] == '.')
        return no(e, to, p, n, "is not a");
    memcpy(text, p, n);
    text[n] = 0;
    errno = 0;
    *v = to->type == LT_FLOAT4 ? (double)strtof(text, NULL) : strtod(text, NULL);
    if (isinf(*v) || (*v == 0 && d.count)) return no(e, to, p, n, "is out of the range of");
    return 0;
}

/* ---- texts ----------------------------------------------------------------------------------------------------------- */

static int bool_canon(const struct column *to, const char *p, size_t n, struct canon *out, struct err *e) {
    bool yes = is_word(p, n, "t") || is_word(p, n, "true"), nope = is_word(p, n, "f") || is_word(p, n, "false");
    if (!yes && !nope) return no(e, to, p, n, "is not a");
    out->p = yes ? "t" : "f", out->n = 1;
    return 0;
}

static int text_check(const struct column *to, const char *p, size_t n, struct err *e) {
    if (n && memchr(p, 0, n)) return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a text of %zu bytes holds a NUL character", n);
    if (!text_utf8_valid(p, n)) return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a text of %zu bytes is not valid UTF-8", n);
    if (to->type != LT_TEXT || to->length < 0 || n <= (size_t)to->length) return 0;
    size_t chars = 0;
    for (size_t i = 0; i < n; i++)
        chars += (p[i] & 0xC0) != 0x80;
    if (chars > (size_t)to->length)
        return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a text of %zu characters is longer than %d", chars, (int)to->length);
    return 0;
}

static int uuid_canon(const struct column *to, const char *p, size_t n, struct canon *out, struct err *e) {
    if (n != 36) return no(e, to, p, n, "is not a");
    for (size_t i = 0; i < 36; i++) {
        char c = p[i];
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (c >= 'A' && c <= 'F') c = (char)(c - 'A' + 'a');
        if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return no(e, to, p, n, "is not a");
        out->small[i] = c;
    }
    out->p = out->small, out->n = 36;
    return 0;
}

static int hex_check(const struct column *to, const char *p, size_t n, struct err *e) {
    bool good = n >= 2 && n % 2 == 0 && p[0] == '\\' && p[1] == 'x';
    for (size_t i = 2; good && i < n; i++)
        good = (p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f') || (p[i] >= 'A' && p[i] <= 'F');
    if (!good) return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a text of %zu bytes is not the hex form of %s", n, ltype_name(to->type));
    return 0;
}

static int bit_check(const struct column *to, const char *p, size_t n, struct err *e) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != '0' && p[i] != '1') return no(e, to, p, n, "is not a string of");
    if (to->length >= 0 && n > (size_t)to->length) return no(e, to, p, n, "is too long for this");
    return 0;
}

static int json_check(const struct column *to, const char *p, size_t n, struct err *e) {
    size_t at;
    if (convert_json_valid(p, n, to->type == LT_JSONB, &at) == 0) return 0;
    return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a text of %zu bytes is not valid %s: it breaks at byte %zu", n, ltype_name(to->type),
                   at);
}

/* The canonical text of any accepted spelling; a NULL arena where long new text is not wanted (then it is an error). */
static int canon(const struct column *to, const char *p, size_t n, bool strict, struct arena *a, struct canon *out, struct err *e) {
    double v;
    int rc = -1;
    if (!p) p = "";
    out->p = p, out->n = n;
    switch (to->type) {
    case LT_BOOL: rc = bool_canon(to, p, n, out, e); break;
    case LT_INT16:
    case LT_INT32:
    case LT_INT64:
    case LT_UINT16:
    case LT_UINT32:
    case LT_UINT64: return int_check(to, p, n, e);
    case LT_NUMERIC: return numeric_canon(to, p, n, strict, a, out, e);
    case LT_FLOAT4:
    case LT_FLOAT8: return float_check(to, p, n, &v, e);
    case LT_BYTES: return hex_check(to, p, n, e);
    case LT_DATE:
    case LT_TIME:
    case LT_TIMETZ:
    case LT_TIMESTAMP:
    case LT_TIMESTAMPTZ:
        rc = convert_time(to, p, n, out->small, &out->n, e);
        out->p = out->small;
        break;
    case LT_UUID: rc = uuid_canon(to, p, n, out, e); break;
    case LT_JSON:
    case LT_JSONB: return json_check(to, p, n, e);
    case LT_BIT: return bit_check(to, p, n, e);
    case LT_TEXT:
    case LT_INTERVAL:
    case LT_ENUM:
    case LT_SET:
    case LT_ARRAY:
    case LT_INET:
    case LT_GEOMETRY:
    case LT_NATIVE: return text_check(to, p, n, e);
    }
    if (rc == 0 && out->n == n && memcmp(out->p, p, n) == 0) out->p = p;
    else if (rc == 0 && strict) rc = no(e, to, p, n, "is not the canonical spelling of a");
    return rc;
}

int convert_check(const struct column *to, const char *p, size_t n, struct err *e) {
    struct canon c;
    return canon(to, p, n, true, NULL, &c, e);
}

/* ---- storage classes ------------------------------------------------------------------------------------------------- */

static bool is_int(enum ltype t) {
    return t >= LT_INT16 && t <= LT_UINT64;
}

/* An integer's text. */
static int from_int(const struct column *to, const char *p, size_t n, struct arena *a, struct canon *out, struct err *e) {
    struct column whole = {.type = LT_INT64};
    double v;
    if (int_check(&whole, p, n, e) < 0) return -1;
    out->p = p, out->n = n;
    if (to->type == LT_BOOL) {
        if (!is_text(p, n, "0") && !is_text(p, n, "1")) return no(e, to, p, n, "is neither 0 nor 1 and no");
        out->p = p[0] == '1' ? "t" : "f";
        return 0;
    }
    if (is_int(to->type) || to->type == LT_NUMERIC || to->type == LT_JSON || to->type == LT_JSONB) return canon(to, p, n, false, a, out, e);
    if (to->type != LT_FLOAT4 && to->type != LT_FLOAT8) return no(e, to, p, n, "is an integer and no");
    if (float_check(to, p, n, &v, e) < 0) return -1;
    char text[24] = {0}; /* int_check: at most 20 bytes */
    memcpy(text, p, n);
    bool exact = v < 9223372036854775808.0 && (long long)v == strtoll(text, NULL, 10);
    return exact ? 0 : no(e, to, p, n, "cannot be held exactly by");
}

/* A real's text: shortest digits, in any usual spelling of infinity. */
static int from_real(const struct column *to, const char *p, size_t n, struct arena *a, struct canon *out, struct err *e) {
    struct column wide = {.type = LT_FLOAT8};
    struct digits d;
    double v, w;
    bool below = n && p[0] == '-';
    size_t sign = n && (below || p[0] == '+');
    if (is_word(p + sign, n - sign, "inf") || is_word(p + sign, n - sign, "infinity")) p = below ? "-Infinity" : "Infinity", n = strlen(p);
    if (float_check(&wide, p, n, &v, e) < 0) return -1;
    out->p = p, out->n = n;
    if (to->type == LT_FLOAT8 || (to->type == LT_FLOAT4 && v == HUGE_VAL)) return 0;
    if (to->type == LT_NUMERIC) return canon(to, p, n, false, a, out, e);
    if (v == HUGE_VAL) return no(e, to, p, n, "is a float and no");
    if (to->type == LT_FLOAT4) {
        if (float_check(to, p, n, &w, e) < 0) return -1;
        return v == w ? 0 : no(e, to, p, n, "cannot be held exactly by");
    }
    if (to->type == LT_JSON || to->type == LT_JSONB) return canon(to, p, n, false, a, out, e);
    if ((to->type != LT_BOOL && !is_int(to->type)) || digits_read(p, n, &d) < 0) return no(e, to, p, n, "is a float and no");
    if (d.count && (d.low < 0 || d.top > 15)) return no(e, to, p, n, "is a float that is no");
    out->n = digits_write(&d, out->small);
    out->p = out->small;
    if (is_int(to->type)) return int_check(to, out->p, out->n, e);
    if (out->n != 1 || out->small[0] > '1') return no(e, to, p, n, "is neither 0 nor 1 and no");
    out->p = out->small[0] == '1' ? "t" : "f";
    return 0;
}

static int from_storage(const struct value *in, const struct column *to, bool strict, struct arena *a, struct canon *out, struct err *e) {
    const char *p = in->p + 1;
    size_t n = in->len - 1u;
    switch (in->p[0]) {
    case 'i': return from_int(to, p, n, a, out, e);
    case 'r': return from_real(to, p, n, a, out, e);
    case 't':
        if (to->type == LT_BYTES) return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a text of %zu bytes is stored in a column of bytes", n);
        return canon(to, p, n, strict, a, out, e);
    case 'b':
        if (to->type != LT_BYTES)
            return err_set(e, CODE_VALUE_UNREPRESENTABLE, "a blob of %zu bytes is stored in a column of %s", n, ltype_name(to->type));
        out->p = p, out->n = n;
        return 0;
    default: return err_set(e, CODE_INTERNAL, "a value of unknown storage class %u", (unsigned)(unsigned char)in->p[0]);
    }
}

int convert_value(const struct value *in, const struct column *to, unsigned flags, struct arena *a, struct value *out, struct err *e) {
    struct canon c = {0};
    uint8_t kind = VALUE_TEXT;
    bool strict = flags & CONVERT_EXACT;
    switch (in->kind) {
    case VALUE_NULL:
    case VALUE_UNCHANGED: *out = *in; return 0;
    case VALUE_BYTES:
        if (to->type != LT_BYTES)
            return err_set(e, CODE_VALUE_UNREPRESENTABLE, "%u bytes are no %s", (unsigned)in->len, ltype_name(to->type));
        *out = *in;
        return 0;
    case VALUE_TEXT:
        if (canon(to, in->p, in->len, strict, a, &c, e) < 0) return -1;
        break;
    case VALUE_BINARY:
        if (in->len == 0) return err_set(e, CODE_INTERNAL, "a value without a storage class");
        if (from_storage(in, to, strict, a, &c, e) < 0) return -1;
        if (in->p[0] == 'b') kind = VALUE_BYTES;
        break;
    default: return err_set(e, CODE_INTERNAL, "a value of unknown kind %u", (unsigned)in->kind);
    }
    if (c.n > UINT32_MAX) return err_set(e, CODE_LIMIT, "a value of %zu bytes", c.n);
    if (c.p == c.small && !(c.p = arena_copy(a, c.small, c.n, e))) return -1;
    *out = (struct value){c.p, (uint32_t)c.n, kind};
    return 0;
}
