/* One value of one row, borrowed from an arena or a message.
 *
 * TEXT is the canonical text of the column's logical type: what PostgreSQL prints with DateStyle ISO, TimeZone UTC, IntervalStyle
 * postgres, bytea_output hex and shortest exact floats: bool `t`/`f`; numbers in decimal; float NaN, Infinity, -Infinity; bytes `\x` and hex;
 * date `2026-01-31`; timestamp `2026-01-31 12:00:00.5`; timestamptz with `+00`; uuid in lower case; json verbatim.
 * BYTES is the raw content of a `bytes` column. BINARY is the source's own exact form, which only the same engine (or a converter)
 * understands; for SQLite: one byte storage class (i, r, t, b), then the canonical text or the raw bytes.
 * UNCHANGED (a TOASTed column that an update did not touch, a partial image) is never NULL. Numbers never pass through a double. */
#ifndef SLUICE_BASE_VALUE_H
#define SLUICE_BASE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"

enum value_kind { VALUE_NULL = 0, VALUE_UNCHANGED = 1, VALUE_TEXT = 2, VALUE_BYTES = 3, VALUE_BINARY = 4 };

struct value {
    const char *p; /* len bytes, not terminated; NULL for NULL and UNCHANGED */
    uint32_t len;
    uint8_t kind;
};

#define VALUE_OF_NULL ((struct value){NULL, 0, VALUE_NULL})
bool value_equal(const struct value *a, const struct value *b); /* same kind, same bytes */

/* A row on the wire (chunks, frozen by test vectors): varint column count, then per value varint (len << 3 | kind) and len bytes. */
int row_encode(struct buf *b, const struct value *v, uint16_t n, struct err *e);
/* Points into the bytes of *r. *v is an array of *n values in `a`. CODE_CHUNK_CORRUPT when the bytes are not a row. */
int row_decode(struct rd *r, struct arena *a, struct value **v, uint16_t *n, struct err *e);

/* Rows of copies in PostgreSQL's COPY text form: fields parted by tab, a line each, `\N` for NULL, backslash escapes. */
int copytext_encode(struct buf *b, const struct value *v, uint16_t n, struct err *e); /* BYTES is written as \x hex, doubled backslash */
/* Decode one line (without its newline) of exactly n fields into v (TEXT or NULL); unescaped bytes live in `a`. */
int copytext_decode(const char *line, size_t len, struct arena *a, struct value *v, uint16_t n, struct err *e);

#endif
