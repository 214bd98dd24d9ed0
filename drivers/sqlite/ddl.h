/* Looking into CREATE TABLE texts for what no PRAGMA tells. */
#ifndef SLUICE_DRIVERS_SQLITE_DDL_H
#define SLUICE_DRIVERS_SQLITE_DDL_H

#include "engine/base/arena.h"
#include "engine/base/err.h"

/* The expression of a generated column, without its outer parentheses, in `a`; "" when the text is not understood (the column is still
 * known to be generated). NULL only on failure. */
const char *sq_ddl_generated(const char *create_sql, const char *column, struct arena *a, struct err *e);

/* A DEFAULT as a constant SQL expression that means the same anywhere: numbers, texts ("a" and a bare word as 'a'), blobs, NULL, TRUE,
 * FALSE, CURRENT_DATE, _TIME, _TIMESTAMP. *expr = NULL in `a` when it is any other expression. */
int sq_ddl_constant(const char *dflt, struct arena *a, const char **expr, struct err *e);

#endif
