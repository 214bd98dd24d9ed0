/* Texts compiled in from sql/, migrations/ and lua/ (build/gen/embed.c, made by engine/base/embed.awk).
 *
 * sql/<room>/<file>.sql holds named blocks:   --| name: NAME        begins a block, named "<room>/NAME"
 *                                             --| in: a INTEGER, b TEXT   out: c INTEGER     (kept for the prepare test and for `sluice sql`)
 * Every other comment stays out of the compiled text. Migrations and Lua files are embedded whole: "migrations/0001_….sql", "lua/policy.lua". */
#ifndef SLUICE_BASE_EMBED_H
#define SLUICE_BASE_EMBED_H

#include <stddef.h>

struct embed { const char *name, *in, *out, *text; };
extern const struct embed embed_all[]; /* sorted by name */
extern const size_t embed_count;
/* The block, or NULL. embed_sql aborts on an unknown name: a test prepares all of them, so that cannot ship. */
const struct embed *embed_find(const char *name);
const char *embed_sql(const char *name);

#endif
