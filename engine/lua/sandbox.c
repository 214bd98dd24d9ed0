/* The globals of a sandbox, made by hand: what is not listed here is not there. Invariants 2 to 4 of host.c. */
#include "engine/lua/sandbox.h"

#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"

#define REP_MAX (1 << 20)

/* pcall and xpcall that cannot keep a limit from being met: an error under a tripped limit is raised again. */
static int protected_end(lua_State *L, int rc, int base) {
    if (sandbox_tripped(L)) {
        lua_pushnil(L);
        return lua_error(L);
    }
    lua_pushboolean(L, rc == LUA_OK);
    lua_insert(L, base);
    return lua_gettop(L) - base + 1;
}

static int safe_pcall(lua_State *L) {
    luaL_checkany(L, 1);
    return protected_end(L, lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0), 1);
}

/* A limit is raised from within the hook, and the handler would run there, with the hook off and so without any limit. */
static int safe_handler(lua_State *L) {
    if (sandbox_tripped(L)) return 1;
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int safe_xpcall(lua_State *L) {
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, safe_handler, 1);
    lua_pushvalue(L, 1);
    lua_replace(L, 2);
    lua_replace(L, 1); /* 1: handler, 2: function, 3…: arguments */
    return protected_end(L, lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 1), 2);
}

static int safe_print(lua_State *L) {
    char line[512] = "";
    size_t at = 0;
    sandbox_spend(L, 1000); /* a line in the log is dear */
    for (int i = 1, n = lua_gettop(L); i <= n; i++) {
        size_t len;
        const char *s = luaL_tolstring(L, i, &len);
        int k = snprintf(line + at, sizeof line - at, "%s%s", i > 1 ? " " : "", s);
        lua_pop(L, 1);
        if (k < 0 || (at += (size_t)k) >= sizeof line) break;
    }
    log_info("policy says", KV_STR("text", line));
    return 0;
}

static int safe_rep(lua_State *L) {
    size_t n, sn;
    const char *s = luaL_checklstring(L, 1, &n);
    lua_Integer times = luaL_checkinteger(L, 2);
    const char *sep = luaL_optlstring(L, 3, "", &sn);
    if (times <= 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if ((n || sn) && (n + sn > REP_MAX || times > (lua_Integer)(REP_MAX / (n + sn))))
        return luaL_error(L, "string.rep: the result is too long");
    if (n + sn == 0) times = 1;
    sandbox_spend(L, (uint64_t)times);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (lua_Integer i = 0; i < times; i++) {
        luaL_addlstring(&b, s, n);
        if (sn && i + 1 < times) luaL_addlstring(&b, sep, sn);
    }
    luaL_pushresult(&b);
    return 1;
}

/* The library's own function, kept as the only upvalue, behind a check that its loop is paid for. */
static int call_original(lua_State *L) {
    int n = lua_gettop(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, n, LUA_MULTRET);
    return lua_gettop(L);
}

/* A border of a table can be forged into any number, so lengths are paid, not trusted. */
static int paid_by_length(lua_State *L) { /* insert, remove */
    luaL_checktype(L, 1, LUA_TTABLE);
    sandbox_spend(L, lua_rawlen(L, 1));
    return call_original(L);
}

static void pay_range(lua_State *L, lua_Integer from, lua_Integer to) {
    uint64_t n = to >= from ? (uint64_t)to - (uint64_t)from : 0;
    sandbox_spend(L, n < UINT64_MAX ? n + 1 : n);
}

static int paid_move(lua_State *L) {
    lua_Integer from = luaL_checkinteger(L, 2), to = luaL_checkinteger(L, 3);
    pay_range(L, from, to);
    return call_original(L);
}

/* The order that sort uses by itself, paid by what is compared. */
static int less(lua_State *L) {
    sandbox_spend(L, lua_rawlen(L, 1) / 64 + lua_rawlen(L, 2) / 64 + 1);
    lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
    return 1;
}

static int paid_sort(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    sandbox_spend(L, lua_rawlen(L, 1));
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) lua_pushcfunction(L, less), lua_replace(L, 2);
    return call_original(L);
}

static int paid_unpack(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer from = luaL_optinteger(L, 2, 1);
    lua_Integer to = lua_isnoneornil(L, 3) ? (lua_Integer)lua_rawlen(L, 1) : luaL_checkinteger(L, 3);
    pay_range(L, from, to);
    return call_original(L);
}

static int paid_concat(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer from = luaL_optinteger(L, 3, 1);
    lua_Integer to = lua_isnoneornil(L, 4) ? (lua_Integer)lua_rawlen(L, 1) : luaL_checkinteger(L, 4);
    pay_range(L, from, to);
    return call_original(L);
}

/* In the table on top: wrap member `name` by f. */
static void wrap(lua_State *L, const char *name, lua_CFunction f) {
    lua_getfield(L, -1, name);
    lua_pushcclosure(L, f, 1);
    lua_setfield(L, -2, name);
}

static void drop(lua_State *L, const char *name) {
    lua_pushnil(L);
    lua_setfield(L, -2, name);
}

int sandbox_globals(lua_State *L) {
    static const char *const base[] = {"assert", "error",  "ipairs",   "next",     "pairs", "rawequal", "rawget", "rawlen",
                                       "rawset", "select", "tonumber", "tostring", "type",  "_VERSION", NULL};
    /* The base library writes into the globals: load it, keep what is wanted, and put a new table in their place. */
    luaL_requiref(L, "_G", luaopen_base, 1);
    lua_newtable(L);
    for (int i = 0; base[i]; i++) {
        lua_getfield(L, -2, base[i]);
        lua_setfield(L, -2, base[i]);
    }
    lua_pushcfunction(L, safe_pcall);
    lua_setfield(L, -2, "pcall");
    lua_pushcfunction(L, safe_xpcall);
    lua_setfield(L, -2, "xpcall");
    lua_pushcfunction(L, safe_print);
    lua_setfield(L, -2, "print");

    luaL_requiref(L, "math", luaopen_math, 0);
    drop(L, "random"); /* a policy is a pure function; the ask brings its own random */
    drop(L, "randomseed");
    lua_setfield(L, -2, "math");

    luaL_requiref(L, "table", luaopen_table, 0);
    wrap(L, "insert", paid_by_length);
    wrap(L, "remove", paid_by_length);
    wrap(L, "sort", paid_sort);
    wrap(L, "move", paid_move);
    wrap(L, "unpack", paid_unpack);
    wrap(L, "concat", paid_concat);
    lua_setfield(L, -2, "table");

    luaL_requiref(L, "string", luaopen_string, 0);
    drop(L, "dump");
    drop(L, "pack");
    drop(L, "unpack");
    drop(L, "packsize");
    lua_pushcfunction(L, safe_rep);
    lua_setfield(L, -2, "rep");
    sandbox_patterns(L);
    /* s:upper() finds the library through the metatable of strings, which now holds the bounded one: the same table. */
    lua_setfield(L, -2, "string");

    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "_G");
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    /* What requiref remembered is not reachable without package, but there is no reason to keep it. */
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    return 0;
}
