/* DESIGN
 *
 * A state whose code can compute and nothing else.
 * 1. Text chunks only: bytecode is refused, since malformed bytecode can break the interpreter.
 * 2. Nothing leads outside: the globals are made by hand (sandbox.c); no io, os, package, debug, load, metatables, coroutines or
 * finalizers. Without metatables no C function of the library runs Lua code that the hook does not see, or loops by a forged length.
 * 3. Every load and call has a budget of steps, of bytes held, of bytes asked for, and a deadline. A limit that is met sticks ("tripped")
 * until the call has returned: pcall raises again, the hook raises at each further instruction, and the host looks at the flag last, so
 * nothing inside can swallow it. A message handler is not run then: it would run inside the hook, where no hook watches it.
 * 4. Work inside C functions is bounded too: pattern matching is our own and counts its steps, repetition and table moves pay by their
 * size.
 * 5. No Lua error escapes: each entry runs under a protected call, and the host is usable afterwards. */
#include "engine/lua/host.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/lua/sandbox.h"

#define HOOK_EVERY 1000
#define CHUNK_MAX KiB(256)

enum trip { TRIP_NONE, TRIP_STEPS, TRIP_MEMORY, TRIP_TIME };
static const char *const trip_texts[] = {[TRIP_NONE] = "",
                                         [TRIP_STEPS] = "it ran too long (instruction limit)",
                                         [TRIP_MEMORY] = "it took too much memory",
                                         [TRIP_TIME] = "it ran too long (time limit)"};

struct lua_host {
    lua_State *L;
    struct lua_limits lim;
    size_t held;           /* bytes the state has */
    uint64_t asked, steps; /* during this call */
    int64_t deadline;
    enum trip trip;
    char name[128]; /* of the last chunk, for messages */
    bool denied;    /* the last request was denied: the interpreter collects and asks once more */
};

static struct lua_host *host_of(lua_State *L) {
    return *(struct lua_host **)lua_getextraspace(L);
}

/* Before a denial trips the limit, the interpreter gets its second try behind a full collection. */
static void *allocate(void *ud, void *p, size_t old, size_t n) {
    struct lua_host *h = ud;
    struct err ignored = {0};
    if (!p) old = 0;
    if (n == 0) {
        mem_free(p);
        h->held -= old;
        return NULL;
    }
    if (n > old) {
        bool spent = h->asked + (n - old) > h->lim.alloc_bytes;
        if (spent || h->held + (n - old) > h->lim.bytes) {
            if (h->denied || spent) h->trip = h->trip ? h->trip : TRIP_MEMORY;
            h->denied = true;
            return NULL;
        }
        h->denied = false;
    }
    void *q = mem_resize(p, n, &ignored);
    if (!q && n <= old) q = p; /* the interpreter takes it for granted that shrinking works */
    if (!q) return NULL;
    if (n > old) h->asked += n - old;
    h->held = h->held - old + n;
    return q;
}

static void trip_now(lua_State *L, struct lua_host *h, enum trip why);

static void hook(lua_State *L, lua_Debug *ar) {
    (void)ar;
    struct lua_host *h = host_of(L);
    if (h->trip) trip_now(L, h, h->trip);
    h->steps += HOOK_EVERY;
    if (h->steps > h->lim.steps) trip_now(L, h, TRIP_STEPS);
    if (clock_mono_us() > h->deadline) trip_now(L, h, TRIP_TIME);
}

static void trip_now(lua_State *L, struct lua_host *h, enum trip why) {
    h->trip = why;
    lua_sethook(L, hook, LUA_MASKCOUNT, 1); /* from now on at every instruction */
    lua_pushnil(L);                         /* no string: that could need memory */
    lua_error(L);
}

void sandbox_spend(lua_State *L, uint64_t n) {
    struct lua_host *h = host_of(L);
    if (h->trip) trip_now(L, h, h->trip);
    h->steps = h->steps > UINT64_MAX - n ? UINT64_MAX : h->steps + n;
    if (h->steps > h->lim.steps) trip_now(L, h, TRIP_STEPS);
}

int sandbox_tripped(lua_State *L) {
    return host_of(L)->trip != TRIP_NONE;
}

static int refuse(struct lua_host *h, int rc, struct err *e) {
    lua_State *L = h->L;
    /* No conversion here: that could fail outside a protected call. */
    const char *why = h->trip                          ? trip_texts[h->trip]
                      : lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1)
                      : rc == LUA_ERRMEM               ? "it took too much memory"
                                                       : "it raised an error that is no text";
    err_set(e, CODE_POLICY, "policy '%s' failed: %.512s", h->name, why);
    lua_settop(L, 0);
    return -1;
}

/* Run a C function under the limits; it finds `arg` as its only argument. */
static int guarded(struct lua_host *h, lua_CFunction f, void *arg, struct err *e) {
    h->asked = h->steps = 0;
    h->trip = TRIP_NONE;
    h->denied = false;
    h->deadline = clock_mono_us() + h->lim.deadline_us;
    lua_settop(h->L, 0);
    lua_sethook(h->L, hook, LUA_MASKCOUNT, HOOK_EVERY);
    lua_pushcfunction(h->L, f);
    lua_pushlightuserdata(h->L, arg);
    int rc = lua_pcall(h->L, 1, 0, 0);
    lua_sethook(h->L, NULL, 0, 0);
    if (rc != LUA_OK || h->trip) rc = refuse(h, rc, e);
    lua_settop(h->L, 0);
    return rc;
}

struct lua_host *lua_host_open(const struct lua_limits *lim, struct err *e) {
    struct lua_host *h = mem_alloc(sizeof *h, e);
    if (!h) return NULL;
    h->lim = lim ? *lim : LUA_LIMITS_DEFAULT;
    snprintf(h->name, sizeof h->name, "sandbox");
    if (!(h->L = lua_newstate(allocate, h))) {
        err_set(e, CODE_NO_MEMORY, "no memory for a policy");
        mem_free(h);
        return NULL;
    }
    *(struct lua_host **)lua_getextraspace(h->L) = h;
    if (guarded(h, sandbox_globals, NULL, e) < 0) {
        lua_host_close(h);
        return NULL;
    }
    return h;
}

void lua_host_close(struct lua_host *h) {
    if (!h) return;
    lua_close(h->L);
    mem_free(h);
}

size_t lua_host_bytes(const struct lua_host *h) {
    return h->held;
}

struct chunk {
    const char *name, *text;
    size_t n;
};

static int run_chunk(lua_State *L) {
    const struct chunk *c = lua_touserdata(L, 1);
    lua_settop(L, 0);
    lua_pushfstring(L, "=%s", c->name);
    if (luaL_loadbufferx(L, c->text, c->n, lua_tostring(L, 1), "t") != LUA_OK) return lua_error(L);
    lua_call(L, 0, 0);
    return 0;
}

int lua_host_load(struct lua_host *h, const char *name, const char *text, size_t n, struct err *e) {
    struct chunk c = {name, text, n};
    if (n > CHUNK_MAX) return err_set(e, CODE_POLICY, "policy '%s' has %zu bytes; at most %zu are read", name, n, CHUNK_MAX);
    snprintf(h->name, sizeof h->name, "%s", name);
    return guarded(h, run_chunk, &c, e);
}

struct question {
    const char *function;
    bool found;
};

static int look_up(lua_State *L) {
    struct question *q = lua_touserdata(L, 1);
    q->found = lua_getglobal(L, q->function) == LUA_TFUNCTION;
    return 0;
}

bool lua_host_has(struct lua_host *h, const char *function) {
    struct question q = {function, false};
    struct err e = {0};
    return guarded(h, look_up, &q, &e) == 0 && q.found;
}

struct call {
    const char *function;
    const struct lua_field *f;
    size_t nf;
    struct lua_result *out;
};

static int run_call(lua_State *L) {
    const struct call *c = lua_touserdata(L, 1);
    lua_settop(L, 0);
    if (lua_getglobal(L, c->function) != LUA_TFUNCTION) return luaL_error(L, "there is no function '%s'", c->function);
    lua_createtable(L, 0, (int)c->nf);
    for (size_t i = 0; i < c->nf; i++) {
        const struct lua_field *f = &c->f[i];
        if (f->kind == LUA_IS_STRING) lua_pushstring(L, f->s);
        else if (f->kind == LUA_IS_BOOL) lua_pushboolean(L, f->b);
        else if (f->kind != LUA_IS_NUMBER) lua_pushnil(L);
        else if (f->n >= -9e15 && f->n <= 9e15 && f->n == (double)(int64_t)f->n) lua_pushinteger(L, (lua_Integer)f->n); /* 3, not 3.0 */
        else lua_pushnumber(L, f->n);
        lua_setfield(L, -2, f->key);
    }
    lua_call(L, 1, 1);
    memset(c->out, 0, sizeof *c->out);
    switch (lua_type(L, -1)) {
    case LUA_TNIL: c->out->kind = LUA_IS_NIL; break;
    case LUA_TBOOLEAN: c->out->kind = LUA_IS_BOOL, c->out->b = lua_toboolean(L, -1); break;
    case LUA_TNUMBER: c->out->kind = LUA_IS_NUMBER, c->out->n = lua_tonumber(L, -1); break;
    case LUA_TSTRING: c->out->kind = LUA_IS_STRING, snprintf(c->out->s, sizeof c->out->s, "%s", lua_tostring(L, -1)); break;
    default: c->out->kind = LUA_IS_OTHER; break;
    }
    return 0;
}

int lua_host_call(struct lua_host *h, const char *function, const struct lua_field *f, size_t nf, struct lua_result *out, struct err *e) {
    struct call c = {function, f, nf, out};
    return guarded(h, run_call, &c, e);
}
