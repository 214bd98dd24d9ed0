/* A sandbox for one piece of Lua: functions that cannot reach the world, cannot run forever, and cannot take all memory. DESIGN in host.c.
 * One host belongs to one thread. */
#ifndef SLUICE_LUA_HOST_H
#define SLUICE_LUA_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct lua_limits {
    size_t bytes;          /* of everything the state holds */
    uint64_t alloc_bytes;  /* asked for during one load or call */
    uint64_t steps;        /* instructions, pattern steps and the like of one load or call */
    int64_t deadline_us;   /* of one load or call; the last resort for what steps do not measure well */
};
#define LUA_LIMITS_DEFAULT ((struct lua_limits){4u << 20, 64u << 20, 1000000, 500000})

struct lua_host;
struct lua_host *lua_host_open(const struct lua_limits *lim, struct err *e); /* NULL on error; lim NULL: the default */
void lua_host_close(struct lua_host *h);                                     /* NULL is fine */
/* Run a chunk of text (never bytecode), which defines global functions. `name` stands in error messages. CODE_POLICY. */
int lua_host_load(struct lua_host *h, const char *name, const char *text, size_t n, struct err *e);
bool lua_host_has(struct lua_host *h, const char *function);

enum lua_kind { LUA_IS_NIL, LUA_IS_BOOL, LUA_IS_NUMBER, LUA_IS_STRING, LUA_IS_OTHER };
/* A member of the table that a function is given. */
struct lua_field { const char *key; enum lua_kind kind; const char *s; double n; bool b; };
#define LUA_FIELD_STR(k, v) ((struct lua_field){(k), (v) ? LUA_IS_STRING : LUA_IS_NIL, (v), 0, false})
#define LUA_FIELD_NUM(k, v) ((struct lua_field){(k), LUA_IS_NUMBER, NULL, (double)(v), false})
#define LUA_FIELD_BOOL(k, v) ((struct lua_field){(k), LUA_IS_BOOL, NULL, 0, (v)})

struct lua_result { enum lua_kind kind; double n; bool b; char s[256]; /* cut */ };
/* Call a global function with one table; its first result. CODE_POLICY when it errs or meets a limit; the host stays usable.
 * What a call puts into globals stays until the host is closed: who needs a pure function opens a host for each call. */
int lua_host_call(struct lua_host *h, const char *function, const struct lua_field *f, size_t nf, struct lua_result *out, struct err *e);
size_t lua_host_bytes(const struct lua_host *h); /* held now */

#endif
