/* Text: quoting, hex, base64, globs, DSN redaction, UTF-8. */
#ifndef SLUICE_BASE_TEXT_H
#define SLUICE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

int text_ident(struct buf *b, const char *name, struct err *e);            /* "na""me" for SQL */
int text_literal(struct buf *b, const char *p, size_t n, struct err *e);   /* 'it''s'; a NUL byte is CODE_VALUE_UNREPRESENTABLE */
void text_hex(const void *p, size_t n, char *out);                         /* 2n digits and a terminator */
int text_unhex(const char *s, size_t n, unsigned char *out);               /* n digits; -1 when one is not */
int text_base64(struct buf *b, const void *p, size_t n, struct err *e);
int text_unbase64(struct buf *b, const char *s, size_t n, struct err *e);
bool text_utf8_valid(const char *p, size_t n);
size_t text_utf8_char(const char *p, size_t n);                            /* bytes of the character at p; 0 when it is malformed or n is 0 */
/* Glob: * ? and [set]; matched against `table` and `ns.table`. */
bool text_glob(const char *pattern, const char *s);
/* The same DSN with its password (URL and key=value form, query parameters too) replaced by ***. Never fails: worst case all of it. */
void text_dsn_redact(const char *dsn, char *out, size_t out_len);
int text_i64(const char *s, int64_t *v);   /* whole string, decimal; -1 otherwise */
int text_u64(const char *s, uint64_t *v);
int text_bytes_parse(const char *s, uint64_t *v, struct err *e); /* "64MiB", "1G", "4096"; CODE_USAGE */

#endif
