/* DESIGN
 *
 * Lua's patterns (find, match, gmatch, gsub) with a bound on their work. A pattern is compiled once per call into items; a single-character
 * item is a set of 256 bits, whatever way it was written.
 * 1. Matching backtracks as Lua's does and gives the same answers; each attempt is a step of the call's budget, so a pattern that would
 *    try forever ends like an endless loop does.
 * 2. Recursion is as deep as the pattern has items (PATTERN_MAX), never as long as the subject.
 * 3. Nothing is owned while matching: an error may leave by longjmp at any step. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "engine/lua/sandbox.h"

#define PATTERN_MAX 256
#define SUBJECT_MAX (64 * 1024)
#define CAPTURES_MAX 32
#define STEPS_BATCH 256

enum item_op { ITEM_SET, ITEM_OPEN, ITEM_CLOSE, ITEM_PLACE, ITEM_BALANCE, ITEM_FRONTIER, ITEM_BACKREF, ITEM_END };

struct item {
    unsigned char op, repeat; /* repeat: 0, or one of ? * + - */
    unsigned char a, b;       /* capture's number, balance's characters */
    uint64_t set[4];
};

struct program {
    bool anchored;
    int n, captures;
    struct item items[PATTERN_MAX + 1];
};

struct match {
    lua_State *L;
    const struct program *prog;
    const char *start, *end;
    uint64_t steps;
    struct {
        const char *p;
        size_t n;
        enum { CAP_OPEN, CAP_DONE, CAP_PLACE } state;
    } cap[CAPTURES_MAX];
};

/* ---- compiling ------------------------------------------------------------------------------------------------------- */

static void set_add(uint64_t set[4], unsigned char c) {
    set[c >> 6] |= 1ull << (c & 63);
}

static bool set_has(const uint64_t set[4], unsigned char c) {
    return set[c >> 6] >> (c & 63) & 1;
}

/* What stands behind a percent sign: a class, or the character itself. */
static void set_class(uint64_t set[4], unsigned char name) {
    static const struct {
        char name;
        int (*is)(int);
    } classes[] = {{'a', isalpha}, {'c', iscntrl}, {'d', isdigit}, {'g', isgraph}, {'l', islower},
                   {'p', ispunct}, {'s', isspace}, {'u', isupper}, {'w', isalnum}, {'x', isxdigit}};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (classes[i].name != tolower(name)) continue;
        bool wanted = !isupper(name);
        for (int c = 0; c < 256; c++)
            if ((classes[i].is(c) != 0) == wanted) set_add(set, (unsigned char)c);
        return;
    }
    set_add(set, name);
}

/* p is behind the opening bracket; returns behind the closing one. */
static const char *set_bracket(lua_State *L, const char *p, const char *end, uint64_t set[4]) {
    bool invert = p < end && *p == '^';
    if (invert) p++;
    for (bool first = true; first || (p < end && *p != ']'); first = false) {
        if (p >= end) luaL_error(L, "malformed pattern: missing ']'");
        if (*p == '%') {
            if (++p >= end) luaL_error(L, "malformed pattern: it ends with '%%'");
            set_class(set, (unsigned char)*p++);
        } else if (end - p > 2 && p[1] == '-' && p[2] != ']') {
            for (int c = (unsigned char)p[0]; c <= (unsigned char)p[2]; c++)
                set_add(set, (unsigned char)c);
            p += 3;
        } else {
            set_add(set, (unsigned char)*p++);
        }
    }
    if (p >= end) luaL_error(L, "malformed pattern: missing ']'");
    for (int i = 0; invert && i < 4; i++)
        set[i] = ~set[i];
    return p + 1;
}

static const char *compile_escape(lua_State *L, const char *p, const char *end, struct item *it, const bool *closed, int captures) {
    if (p >= end) luaL_error(L, "malformed pattern: it ends with '%%'");
    unsigned char c = (unsigned char)*p++;
    if (c == 'b') {
        if (end - p < 2) luaL_error(L, "malformed pattern: '%%b' needs two characters");
        it->op = ITEM_BALANCE;
        it->a = (unsigned char)p[0], it->b = (unsigned char)p[1];
        return p + 2;
    }
    if (c == 'f') {
        if (p >= end || *p != '[') luaL_error(L, "malformed pattern: '%%f' needs a set");
        it->op = ITEM_FRONTIER;
        return set_bracket(L, p + 1, end, it->set);
    }
    if (isdigit(c)) {
        int k = c - '1';
        if (k < 0 || k >= captures || !closed[k]) luaL_error(L, "invalid capture index %%%d in a pattern", k + 1);
        it->op = ITEM_BACKREF;
        it->a = (unsigned char)k;
        return p;
    }
    set_class(it->set, c);
    return p;
}

static void compile(lua_State *L, const char *p, size_t n, struct program *g) {
    const char *end = p + n;
    bool closed[CAPTURES_MAX] = {false};
    int open[CAPTURES_MAX], nopen = 0;
    if (n > PATTERN_MAX) luaL_error(L, "pattern too long: at most %d characters", PATTERN_MAX);
    sandbox_spend(L, 4 * n + 1);
    g->n = g->captures = 0;
    g->anchored = p < end && *p == '^';
    if (g->anchored) p++;
    while (p < end) {
        struct item *it = &g->items[g->n++];
        memset(it, 0, sizeof *it);
        char c = *p++;
        if (c == '(') {
            if (g->captures == CAPTURES_MAX) luaL_error(L, "too many captures");
            it->a = (unsigned char)g->captures;
            it->op = p < end && *p == ')' ? ITEM_PLACE : ITEM_OPEN;
            if (it->op == ITEM_PLACE) closed[g->captures] = true, p++;
            else open[nopen++] = g->captures;
            g->captures++;
            continue;
        }
        if (c == ')') {
            if (nopen == 0) luaL_error(L, "invalid pattern capture");
            it->op = ITEM_CLOSE;
            it->a = (unsigned char)open[--nopen];
            closed[it->a] = true;
            continue;
        }
        if (c == '$' && p == end) {
            it->op = ITEM_END;
            continue;
        }
        if (c == '%') p = compile_escape(L, p, end, it, closed, g->captures);
        else if (c == '[') p = set_bracket(L, p, end, it->set);
        else if (c == '.') memset(it->set, 0xff, sizeof it->set);
        else set_add(it->set, (unsigned char)c);
        if (it->op == ITEM_SET && p < end && strchr("?*+-", *p) && *p) it->repeat = (unsigned char)*p++;
    }
    if (nopen) luaL_error(L, "unfinished capture");
}

/* ---- matching -------------------------------------------------------------------------------------------------------- */

static void step(struct match *m) {
    if (++m->steps % STEPS_BATCH == 0) sandbox_spend(m->L, STEPS_BATCH);
}

static bool one(struct match *m, const struct item *it, const char *s) {
    step(m);
    return s < m->end && set_has(it->set, (unsigned char)*s);
}

static const char *balance(struct match *m, const struct item *it, const char *s) {
    if (s >= m->end || (unsigned char)*s != it->a) return NULL;
    for (long depth = 1; ++s < m->end;) {
        step(m);
        if ((unsigned char)*s == it->b) {
            if (--depth == 0) return s + 1;
        } else if ((unsigned char)*s == it->a) {
            depth++;
        }
    }
    return NULL;
}

static const char *run(struct match *m, int i, const char *s);

static const char *repeated(struct match *m, int i, const char *s) {
    const struct item *it = &m->prog->items[i];
    const char *end;
    ptrdiff_t n = 0, least = it->repeat == '+';
    if (it->repeat == '-') {
        for (;; s++) {
            if ((end = run(m, i + 1, s))) return end;
            if (!one(m, it, s)) return NULL;
        }
    }
    while ((it->repeat != '?' || n < 1) && one(m, it, s + n))
        n++;
    for (; n >= least; n--)
        if ((end = run(m, i + 1, s + n))) return end;
    return NULL;
}

/* Items from i on against s; where the match ends, or NULL. */
static const char *run(struct match *m, int i, const char *s) {
    for (; i < m->prog->n; i++) {
        const struct item *it = &m->prog->items[i];
        const char *end;
        step(m);
        switch (it->op) {
        case ITEM_SET:
            if (it->repeat) return repeated(m, i, s);
            if (!one(m, it, s)) return NULL;
            s++;
            break;
        case ITEM_OPEN:
        case ITEM_PLACE:
            m->cap[it->a].p = s;
            m->cap[it->a].n = 0;
            m->cap[it->a].state = it->op == ITEM_PLACE ? CAP_PLACE : CAP_OPEN;
            break;
        case ITEM_CLOSE:
            m->cap[it->a].n = (size_t)(s - m->cap[it->a].p);
            m->cap[it->a].state = CAP_DONE;
            if ((end = run(m, i + 1, s))) return end;
            m->cap[it->a].state = CAP_OPEN; /* undone for the next attempt */
            return NULL;
        case ITEM_BALANCE:
            if (!(s = balance(m, it, s))) return NULL;
            break;
        case ITEM_FRONTIER: {
            unsigned char before = s == m->start ? 0 : (unsigned char)s[-1], here = s < m->end ? (unsigned char)*s : 0;
            if (set_has(it->set, before) || !set_has(it->set, here)) return NULL;
            break;
        }
        case ITEM_BACKREF: {
            size_t n = m->cap[it->a].n;
            if (m->cap[it->a].state == CAP_PLACE) return NULL; /* a place is no text to find again */
            sandbox_spend(m->L, n / 16 + 1);
            if ((size_t)(m->end - s) < n || memcmp(m->cap[it->a].p, s, n) != 0) return NULL;
            s += n;
            break;
        }
        case ITEM_END:
            if (s != m->end) return NULL;
            break;
        default: return NULL;
        }
    }
    return s;
}

/* ---- the library's functions ----------------------------------------------------------------------------------------- */

static void match_init(struct match *m, lua_State *L, const struct program *g, const char *s, size_t n) {
    m->L = L;
    m->prog = g;
    m->start = s;
    m->end = s + n;
    m->steps = 0;
}

static const char *subject(lua_State *L, int arg, size_t *n) {
    const char *s = luaL_checklstring(L, arg, n);
    if (*n > SUBJECT_MAX) luaL_error(L, "subject too long for a pattern: at most %d bytes", SUBJECT_MAX);
    sandbox_spend(L, *n / 64 + 1);
    return s;
}

static void push_capture(const struct match *m, int k) {
    if (m->cap[k].state == CAP_PLACE) lua_pushinteger(m->L, m->cap[k].p - m->start + 1);
    else lua_pushlstring(m->L, m->cap[k].p, m->cap[k].n);
}

/* All captures, or the whole match when there are none and it is wanted. */
static int push_captures(const struct match *m, const char *s, const char *end, bool whole) {
    int n = m->prog->captures;
    if (n == 0 && whole) return lua_pushlstring(m->L, s, (size_t)(end - s)), 1;
    luaL_checkstack(m->L, n, "too many captures");
    for (int k = 0; k < n; k++)
        push_capture(m, k);
    return n;
}

static size_t start_at(lua_State *L, int arg, size_t n) {
    lua_Integer at = luaL_optinteger(L, arg, 1);
    if (at > 0) return (lua_Unsigned)at - 1 > n ? n + 1 : (size_t)at - 1;
    return at == 0 || at < -(lua_Integer)n ? 0 : n - (size_t)-at;
}

static int find_or_match(lua_State *L, bool find) {
    size_t n, pn;
    const char *s = subject(L, 1, &n), *p = luaL_checklstring(L, 2, &pn), *end;
    size_t at = start_at(L, 3, n);
    struct program g;
    struct match m;
    if (at > n) return lua_pushnil(L), 1;
    if (find && lua_toboolean(L, 4)) {
        sandbox_spend(L, n - at);
        const char *hit = pn == 0 ? s + at : memmem(s + at, n - at, p, pn);
        if (!hit) return lua_pushnil(L), 1;
        lua_pushinteger(L, hit - s + 1);
        lua_pushinteger(L, hit - s + (lua_Integer)pn);
        return 2;
    }
    compile(L, p, pn, &g);
    match_init(&m, L, &g, s, n);
    for (const char *from = s + at;; from++) {
        if ((end = run(&m, 0, from))) {
            if (!find) return push_captures(&m, from, end, true);
            lua_pushinteger(L, from - s + 1);
            lua_pushinteger(L, end - s);
            return 2 + push_captures(&m, from, end, false);
        }
        if (g.anchored || from >= m.end) return lua_pushnil(L), 1;
    }
}

static int pattern_find(lua_State *L) {
    return find_or_match(L, true);
}

static int pattern_match(lua_State *L) {
    return find_or_match(L, false);
}

/* Upvalues: subject, pattern, where to go on, where the last match ended (0: none). A '^' stands for itself here. */
static int gmatch_next(lua_State *L) {
    size_t n, pn;
    const char *s = lua_tolstring(L, lua_upvalueindex(1), &n), *p = lua_tolstring(L, lua_upvalueindex(2), &pn), *end;
    lua_Integer last = lua_tointeger(L, lua_upvalueindex(4)) - 1;
    struct program g;
    struct match m;
    compile(L, p, pn, &g);
    match_init(&m, L, &g, s, n);
    for (const char *from = s + lua_tointeger(L, lua_upvalueindex(3)); from <= m.end; from++) {
        if (!(end = run(&m, 0, from)) || end - s == last) continue;
        lua_pushinteger(L, end - s);
        lua_replace(L, lua_upvalueindex(3));
        lua_pushinteger(L, end - s + 1);
        lua_replace(L, lua_upvalueindex(4));
        return push_captures(&m, from, end, true);
    }
    lua_pushinteger(L, (lua_Integer)n + 1);
    lua_replace(L, lua_upvalueindex(3));
    return 0;
}

static int pattern_gmatch(lua_State *L) {
    size_t n, pn;
    struct program g;
    subject(L, 1, &n);
    const char *p = luaL_checklstring(L, 2, &pn);
    size_t at = start_at(L, 3, n);
    if (pn && p[0] == '^') return luaL_error(L, "gmatch: an anchor would match once at most; use match");
    compile(L, p, pn, &g); /* tell of a malformed one now */
    lua_settop(L, 2);
    lua_pushinteger(L, (lua_Integer)at);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, gmatch_next, 4);
    return 1;
}

static void add_template(struct match *m, luaL_Buffer *b, const char *s, const char *end) {
    size_t n;
    const char *r = lua_tolstring(m->L, 3, &n);
    for (size_t i = 0; i < n; i++) {
        step(m);
        if (r[i] != '%') {
            luaL_addchar(b, r[i]);
            continue;
        }
        unsigned char c = ++i < n ? (unsigned char)r[i] : 0;
        if (c == '%') {
            luaL_addchar(b, '%');
        } else if (c == '0' || (c == '1' && m->prog->captures == 0)) {
            luaL_addlstring(b, s, (size_t)(end - s));
        } else if (c >= '1' && c <= '9' && c - '1' < m->prog->captures) {
            push_capture(m, c - '1');
            luaL_tolstring(m->L, -1, NULL);
            lua_remove(m->L, -2);
            luaL_addvalue(b);
        } else {
            luaL_error(m->L, "invalid use of '%%' in a replacement");
        }
    }
}

static void add_replacement(struct match *m, luaL_Buffer *b, const char *s, const char *end, int kind) {
    lua_State *L = m->L;
    if (kind != LUA_TTABLE && kind != LUA_TFUNCTION) {
        add_template(m, b, s, end);
        return;
    }
    if (kind == LUA_TTABLE) {
        if (m->prog->captures) push_capture(m, 0);
        else lua_pushlstring(L, s, (size_t)(end - s));
        lua_rawget(L, 3);
    } else {
        lua_pushvalue(L, 3);
        lua_call(L, push_captures(m, s, end, true), 1);
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(b, s, (size_t)(end - s));
    } else if (lua_isstring(L, -1)) {
        luaL_addvalue(b);
    } else {
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    }
}

static int pattern_gsub(lua_State *L) {
    size_t n, pn;
    const char *s = subject(L, 1, &n), *p = luaL_checklstring(L, 2, &pn), *last = NULL, *end;
    int kind = lua_type(L, 3);
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)n + 1), done = 0;
    struct program g;
    struct match m;
    luaL_Buffer b;
    luaL_argexpected(L, kind == LUA_TNUMBER || kind == LUA_TSTRING || kind == LUA_TTABLE || kind == LUA_TFUNCTION, 3,
                     "string/function/table");
    compile(L, p, pn, &g);
    match_init(&m, L, &g, s, n);
    luaL_buffinit(L, &b);
    while (done < most) {
        if ((end = run(&m, 0, s)) && end != last) {
            done++;
            add_replacement(&m, &b, s, end, kind);
            s = last = end;
        } else if (s < m.end) {
            luaL_addchar(&b, *s++);
        } else {
            break;
        }
        if (g.anchored) break;
    }
    luaL_addlstring(&b, s, (size_t)(m.end - s));
    luaL_pushresult(&b);
    lua_pushinteger(L, done);
    return 2;
}

void sandbox_patterns(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"find", pattern_find}, {"match", pattern_match}, {"gmatch", pattern_gmatch}, {"gsub", pattern_gsub}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
