/* A position: a driver's ordered token for "everything up to here".
 *
 * Comparators are pure functions by engine tag and need no connection. Unordered (different engines, malformed, or positions that
 * no order joins) is an answer of its own: the caller refuses. */
#ifndef SLUICE_BASE_POS_H
#define SLUICE_BASE_POS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct pos {
    char engine[16];   /* "postgres", "sqlite", … ; empty = no position */
    char token[496];   /* postgres: "16/B374D848"; sqlite: change-log id in decimal, "-" and its row's nonce in 16 hex digits may follow */
};
enum pos_order { POS_LESS, POS_EQUAL, POS_GREATER, POS_UNORDERED };

int pos_set(struct pos *p, const char *engine, const char *token, struct err *e); /* checks the token's form */
enum pos_order pos_compare(const struct pos *a, const struct pos *b);
bool pos_is_set(const struct pos *p);
/* Postgres helpers: LSN <-> number. */
bool pos_lsn_parse(const char *token, uint64_t *lsn);
void pos_lsn_format(uint64_t lsn, char out[32]);

#endif
