/* Canonical texts of logical types: checking them, and making them from storage-class values. For target drivers, once per value.
 *
 * Numbers never pass through a double on their way: digits are compared and moved as text. Errors are CODE_VALUE_UNREPRESENTABLE and say
 * what is wrong with the value, without table, key or column: the caller puts them in front with err_wrap. The contents of texts, bytes
 * and JSON are not printed. */
#ifndef SLUICE_BASE_CONVERT_H
#define SLUICE_BASE_CONVERT_H

#include <stddef.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/shape.h"
#include "engine/base/value.h"

/* Does a column of this kind hold every value of that one? Presumes that the source enforces its own type; where it does not
 * (BINARY values), treat CONVERT_ALWAYS as CONVERT_CHECKED. */
enum convert_fit {
    CONVERT_NEVER,   /* refuse at start, naming table and column */
    CONVERT_CHECKED, /* some values do not fit: convert_value on each */
    CONVERT_ALWAYS
};
enum convert_fit convert_fit(const struct column *from, const struct column *to);

/* Of `to` only type, precision, scale and length are looked at (-1 = none each; a precision without a scale has no digit behind the point).
 *
 * convert_check: 0 when the n bytes are a canonical text (value.h) that such a column holds as it is.
 *   bool t, f; integers by range, without plus sign or leading zeros; numeric by digits before and behind the point, NaN, and ±Infinity
 *   when it has no precision; floats by syntax and range; text valid UTF-8 without NUL, at most `length` characters; date, time, timetz,
 *   timestamp, timestamptz with real calendar days, 24:00:00, infinity and -infinity, BC, PostgreSQL's range, at most `precision` (6)
 *   fraction digits; uuid; json and jsonb by RFC 8259 (jsonb also without \u0000 and lone surrogates); bytes as \x and hex; bit of 0
 *   and 1. Of other types only that they are valid UTF-8 without NUL. */
int convert_check(const struct column *to, const char *p, size_t n, struct err *e);

#define CONVERT_EXACT 1u /* take only what is spelled canonically: for key columns, where two spellings would become one row */

/* Make *out, a NULL, UNCHANGED, TEXT or (bytes) BYTES value for a column `to`, from *in: NULL and UNCHANGED stay; BYTES only into bytes;
 * TEXT is checked and normalised; BINARY is a storage class byte and its content:
 *   i  into bool (0, 1), integers, numeric, floats (when exact), json
 *   r  (infinity as Inf or Infinity) into floats; into numeric by its shortest decimal digits; into bool and integers when it is a whole
 *      number of at most 15 digits; json
 *   t  into any type whose text it is: the spellings true/false, upper-case uuid, `T` for the blank, `Z` and offsets (timestamptz), a
 *      date alone or a time without seconds, trailing zeros of a fraction are normalised, unless CONVERT_EXACT
 *   b  into bytes only
 * Everything else is refused: no number becomes a date, no text becomes bytes, and a blob is never text. New text lives in `a`. */
int convert_value(const struct value *in, const struct column *to, unsigned flags, struct arena *a, struct value *out, struct err *e);

/* RFC 8259: -1 and *at (an offset; may be NULL) where it stops being JSON. At most 6,000 levels deep. strict: jsonb's additional rules. */
int convert_json_valid(const char *p, size_t n, bool strict, size_t *at);

#endif
