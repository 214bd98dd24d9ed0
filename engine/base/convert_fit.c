/* Which pairs of columns can be converted at all: decided once, when a table is bound. A pair whose loss could not be seen in a single
 * value (an int64 into a float, a json into a jsonb) is refused here, since convert_value looks at one text at a time. */
#include <string.h>

#include "engine/base/convert.h"

static bool is_int(enum ltype t) {
    return t >= LT_INT16 && t <= LT_UINT64;
}

/* Decimal digits that hold every value. */
static int int_digits(enum ltype t) {
    return t == LT_INT16 || t == LT_UINT16 ? 5 : t == LT_INT32 || t == LT_UINT32 ? 10 : t == LT_INT64 ? 19 : 20;
}

static int int_bits(enum ltype t) {
    return t == LT_INT16 || t == LT_UINT16 ? 16 : t == LT_INT32 || t == LT_UINT32 ? 32 : 64;
}

static bool is_signed(enum ltype t) {
    return t <= LT_INT64;
}

static enum convert_fit when(bool always) {
    return always ? CONVERT_ALWAYS : CONVERT_CHECKED;
}

/* -1 is no bound. */
static bool no_tighter(int32_t from, int32_t to) {
    return to < 0 || (from >= 0 && from <= to);
}

static int behind(const struct column *c) {
    return c->scale > 0 || c->scale < -1 ? c->scale : 0;
}

static enum convert_fit from_int(const struct column *from, const struct column *to) {
    enum ltype f = from->type, t = to->type;
    if (is_int(t)) return when(is_signed(f) == is_signed(t) ? int_bits(f) <= int_bits(t) : !is_signed(f) && int_bits(f) < int_bits(t));
    if (t == LT_NUMERIC) return when(to->precision < 0 || to->precision - behind(to) >= int_digits(f));
    if (t == LT_FLOAT8) return int_bits(f) <= 32 ? CONVERT_ALWAYS : CONVERT_NEVER;
    if (t == LT_FLOAT4) return int_bits(f) <= 16 ? CONVERT_ALWAYS : CONVERT_NEVER;
    return CONVERT_NEVER;
}

static enum convert_fit from_numeric(const struct column *from, const struct column *to) {
    if (is_int(to->type)) return CONVERT_CHECKED;
    if (to->type != LT_NUMERIC) return CONVERT_NEVER;
    return when(to->precision < 0 ||
                (from->precision >= 0 && behind(from) <= behind(to) && from->precision - behind(from) <= to->precision - behind(to)));
}

/* Types whose text says all there is, so a text column can hold it. */
static bool is_plain_text(enum ltype t) {
    return t != LT_BYTES && t != LT_ARRAY && t != LT_GEOMETRY && t != LT_NATIVE;
}

static enum convert_fit same(const struct column *from, const struct column *to) {
    switch (from->type) {
    case LT_TEXT:
    case LT_BIT: return when(no_tighter(from->length, to->length));
    case LT_TIME:
    case LT_TIMETZ:
    case LT_TIMESTAMP:
    case LT_TIMESTAMPTZ:
    case LT_INTERVAL: return when(no_tighter(from->precision < 0 ? 6 : from->precision, to->precision < 0 ? 6 : to->precision));
    case LT_ENUM:
    case LT_SET:
    case LT_ARRAY:
    case LT_GEOMETRY:
    case LT_NATIVE: /* what they hold stands in their own name only */
        return from->native && to->native && strcmp(from->native, to->native) == 0 ? CONVERT_ALWAYS : CONVERT_NEVER;
    default: return CONVERT_ALWAYS;
    }
}

enum convert_fit convert_fit(const struct column *from, const struct column *to) {
    enum ltype f = from->type, t = to->type;
    if (is_int(f) && t != LT_TEXT) return from_int(from, to);
    if (f == LT_NUMERIC && t != LT_TEXT) return from_numeric(from, to);
    if (f == t) return same(from, to);
    if (t == LT_TEXT) return is_plain_text(f) ? when(to->length < 0) : CONVERT_NEVER;
    switch (f) {
    case LT_TEXT:
        return is_int(t) || t == LT_NUMERIC || t == LT_UUID || t == LT_JSON || (t >= LT_DATE && t <= LT_TIMESTAMPTZ) ? CONVERT_CHECKED
                                                                                                                     : CONVERT_NEVER;
    case LT_FLOAT4: /* its shortest digits are those of the float8 that is read from them */
        return t == LT_FLOAT8 ? CONVERT_ALWAYS : t == LT_NUMERIC ? CONVERT_CHECKED : CONVERT_NEVER;
    case LT_FLOAT8: return t == LT_NUMERIC ? CONVERT_CHECKED : CONVERT_NEVER;
    case LT_JSONB: return t == LT_JSON ? CONVERT_ALWAYS : CONVERT_NEVER;
    default: return CONVERT_NEVER;
    }
}
