/* The sandbox: what is not there, and that every way to run or grow for ever ends, inside pcall too. */
#include "engine/lua/host.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "tests/tap.h"

/* Run a chunk that defines f, call it; its result as text, or "error: …". */
static const char *run(const char *code) {
    static char out[2048];
    struct err e = {0};
    struct lua_result r;
    struct lua_host *h = lua_host_open(NULL, &e);
    const struct lua_field fields[] = {LUA_FIELD_STR("text", "abc"), LUA_FIELD_NUM("n", 3), LUA_FIELD_NUM("x", 0.5),
                                       LUA_FIELD_BOOL("yes", true), LUA_FIELD_STR("none", NULL)};
    if (!h) return "no host";
    if (lua_host_load(h, "test", code, strlen(code), &e) < 0 || lua_host_call(h, "f", fields, 5, &r, &e) < 0)
        snprintf(out, sizeof out, "%s: %s", e.code == CODE_POLICY ? "error" : err_code_name(e.code), e.msg);
    else if (r.kind == LUA_IS_NUMBER) snprintf(out, sizeof out, "%.17g", r.n);
    else if (r.kind == LUA_IS_BOOL) snprintf(out, sizeof out, "%s", r.b ? "true" : "false");
    else snprintf(out, sizeof out, "%s", r.kind == LUA_IS_STRING ? r.s : r.kind == LUA_IS_NIL ? "nil" : "other");
    lua_host_close(h);
    return out;
}
static void gives(const char *code, const char *want) {
    is_str(run(code), want, "%.120s", code);
}
/* The limits must hold within a second, however the code guards itself. */
static void ends(const char *code, const char *why, const char *name) {
    int64_t from = clock_mono_us();
    const char *got = run(code);
    int64_t took = clock_mono_us() - from;
    ok(strstr(got, why) && took < 1500000, "%s: %s (%lld ms)", name, got, (long long)took / 1000);
}
#define LONG "ran too long"
#define MEMORY "too much memory"

static void values_cross(void) {
    gives("function f(a) return a.text .. a.n .. tostring(a.x) .. tostring(a.yes) .. tostring(a.none) end", "abc30.5truenil");
    gives("function f(a) return math.type(a.n) end", "integer");
    gives("function f() return 0.25 end", "0.25");
    gives("function f() return {} end", "other");
    gives("function f() end", "nil");
    gives("function f() return true end", "true");
    gives("function f() error('no') end", "error: policy 'test' failed: test:1: no");
    gives("function f() error({}) end", "error: policy 'test' failed: it raised an error that is no text");
    gives("function f( end", "error: policy 'test' failed: test:1: <name> or '...' expected near 'end'");
    gives("local function f() end", "error: policy 'test' failed: there is no function 'f'");
    gives("function f() return pcall(error, 'x') end", "false");
    gives("function f() return select(2, pcall(function(a, b) return a + b end, 2, 3)) end", "5");
    gives("function f() local ok, m = xpcall(function(a) error(a, 0) end, function(m) return m .. '!' end, 'x') return m end", "x!");
    gives("function f() return select(3, xpcall(function(a, b) return a, b end, print, 1, 2)) end", "2");
}

static void nothing_leads_outside(void) {
    static const char *const absent[] = {
        "io",       "os",          "package",        "debug",        "require",         "load",      "loadstring",
        "loadfile", "dofile",      "collectgarbage", "setmetatable", "getmetatable",    "coroutine", "utf8",
        "warn",     "string.dump", "string.pack",    "math.random",  "math.randomseed", "_G.io",     "_G._G.load",
        "_ENV.os"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        char code[100];
        snprintf(code, sizeof code, "function f() return %s == nil end", absent[i]);
        gives(code, "true");
    }
    gives("function f() local n = 0 for k in pairs(_G) do n = n + 1 end return n end", "22");
    struct err e = {0};
    struct lua_host *h = lua_host_open(NULL, &e);
    /* luac 5.4's header: it must not even be looked at */
    static const char bytecode[] = "\x1bLua\x54\x00\x19\x93\r\n\x1a\n\x04\x08\x08";
    ok(lua_host_load(h, "test", bytecode, sizeof bytecode, &e) == -1 && strstr(e.msg, "attempt to load a binary chunk"),
       "bytecode is refused: %s", e.msg);
    static char big[300 * 1024];
    memset(big, ' ', sizeof big);
    ok(lua_host_load(h, "test", big, sizeof big, &e) == -1 && e.code == CODE_POLICY, "a huge chunk is refused");
    lua_host_close(h);
}

static void endless_work_ends(void) {
    ends("function f() while true do end end", LONG, "an endless loop");
    ends("while true do end", LONG, "an endless loop while loading");
    ends("function f() while true do pcall(function() while true do end end) end end", LONG, "an endless loop inside pcall");
    ends("function f() while true do xpcall(function() while true do end end, function() while true do end end) end end", LONG,
         "inside xpcall and its handler");
    ends("function f() local function g() return pcall(g) end while true do g() end end", LONG, "pcall nested without end");
    ends("function f() local function g() return g() end return g() end", LONG, "tail calls without end");
    ends("function f() for a in ('x'):rep(60000):gmatch('x') do for b in ('x'):rep(60000):gmatch('x') do end end end", LONG, "iterators");
    ends("function f() local t = {1, 2, nil, 4} for i = 2, 62 do t[1 << i] = 1 end while true do table.insert(t, 1, 1) end end", LONG,
         "a forged length");
    ends("function f() table.move({}, 1, math.maxinteger - 1, 2) end", LONG, "a move of everything");
    ends("function f() pcall(table.move, {}, 1, math.maxinteger - 1, 2) return 1 end", LONG, "a move of everything inside pcall");
    ends("function f() table.concat({}, '', math.mininteger, math.maxinteger) end", LONG, "a concat of everything");
    ends("function f() local s, t = ('x'):rep(500000), {} for i = 1, 20000 do t[i] = s .. (i % 2) end table.sort(t) end", "too ",
         "a sort of long texts");
    ends("function f() local a, b = ('x'):rep(900000) .. 'a', ('x'):rep(900000) .. 'b' while true do local _ = a < b end end", LONG,
         "comparing long texts");
    ends("function f() while true do print('x') end end", LONG, "talking without end");
    gives("function f() return table.concat({1, 2, 3}, ',') .. #table.move({1, 2}, 1, 2, 3) .. table.unpack({7}) end", "1,2,347");
    gives("function f() local t = {3, 1, 2} table.sort(t) table.insert(t, 4) table.insert(t, 1, 0) table.remove(t, 2) return "
          "table.concat(t) end",
          "0234");
    gives("function f() local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t) end", "321");
}

static void memory_is_bounded(void) {
    ends("function f() local t = {} for i = 1, 1e9 do t[i] = {} end end", MEMORY, "tables without end");
    ends("function f() local s = 'x' while true do s = s .. s end end", MEMORY, "a text without end");
    ends("function f() while true do pcall(function() local s = 'x' while true do s = s .. s end end) end end", MEMORY,
         "a text without end inside pcall");
    ends("function f() local s = ('x'):rep(1000000) for i = 1, 1e9 do local _ = s .. i end end", MEMORY, "waste without end");
    ends("function f() return ('x'):rep(1e9) end", "too long", "a repetition");
    ends("function f() return ('x'):rep(1, ('y'):rep(1e9)) end", "too long", "a repetition's separator");
    ends("function f() return ('x'):rep(math.maxinteger, ('y'):rep(1000000)) end", "too long", "a repetition that overflows");
    ends("function f() local t = {} while true do t[#t + 1] = ('%99.99f'):format(1e308) end end", "too ", "formatting without end");
    ends("function f() local function g(...) return g(1, ...) end return g() end", "", "arguments without end");
    gives("function f() return ('ab'):rep(3, '-') .. (''):rep(1e9) .. ('x'):rep(0) .. ('x'):rep(-1) end", "ab-ab-ab");
    struct err e = {0};
    struct lua_host *h = lua_host_open(NULL, &e);
    static const char code[] = "function f() local keep = {} for i = 1, 1e9 do keep[i] = {} end end function g() return 1 end";
    struct lua_result r;
    lua_host_load(h, "test", code, sizeof code - 1, &e);
    ok(lua_host_call(h, "f", NULL, 0, &r, &e) == -1 && lua_host_bytes(h) <= LUA_LIMITS_DEFAULT.bytes,
       "what is held never passes the limit");
    ok(lua_host_call(h, "g", NULL, 0, &r, &e) == 0 && r.n == 1, "the host is usable afterwards");
    lua_host_close(h);
}

static void patterns_answer_as_usual(void) {
#define F(expr)                                                                                                                            \
    "function f() local function j(...) local t = {...} for i = 1, select('#', ...) do t[i] = tostring(t[i]) end return table.concat(t, "  \
    "'|') end return j(" expr ") end"
    gives(F("('hello world'):find('o w')"), "5|7");
    gives(F("('hello'):find('l+')"), "3|4");
    gives(F("('hello'):find('(l)(l)')"), "3|4|l|l");
    gives(F("('a.b'):find('.', 2, true)"), "2|2");
    gives(F("('abc'):find('b', -1)"), "nil");
    gives(F("('abc'):find('b', -2)"), "2|2");
    gives(F("('abc'):find('', 4)"), "4|3");
    gives(F("('abc'):find('', 5)"), "nil");
    gives(F("('abc'):find('', 10, true)"), "nil");
    gives(F("('key = value'):match('^(%w+)%s*=%s*(%w+)$')"), "key|value");
    gives(F("('2026-01-31'):match('(%d+)-(%d+)-(%d+)')"), "2026|01|31");
    gives(F("('abc'):match('()b()')"), "2|3");
    gives(F("('abc'):match('.-c')"), "abc");
    gives(F("('abc'):match('^b')"), "nil");
    gives(F("('abcb'):match('b$')"), "b");
    gives(F("('a$c'):match('$c')"), "$c");
    gives(F("('f(a(b)c)d'):match('%b()')"), "(a(b)c)");
    gives(F("('THE (quick) fox'):find('%f[%a]%a+%f[%A]', 5)"), "6|10");
    gives(F("('say \"hi\" now'):match('([\"\\'])(.-)%1')"), "\"|hi");
    gives(F("('aa'):match('()%1')"), "nil");
    gives(F("('x-]y'):match('[]-]+')"), "-]");
    gives(F("('a-z'):match('[a-]+')"), "a-");
    gives(F("('abc1'):match('[^%d]+')"), "abc");
    gives(F("('0xFf'):match('%x+', 3)"), "Ff");
    gives(F("('aaa'):match('a?a?a?a?b?')"), "aaa");
    gives(F("('aXb'):match('%u')"), "X");
    gives(F("('a.b'):match('%.')"), ".");
    gives(F("('ab'):match('((a)(b))')"), "ab|a|b");
    gives(F("('hello'):gsub('l', 'L')"), "heLLo|2");
    gives(F("('hello'):gsub('l', 'L', 1)"), "heLlo|1");
    gives(F("('hello'):gsub('', '-')"), "-h-e-l-l-o-|6");
    gives(F("('abc'):gsub('%w', '%0%0')"), "aabbcc|3");
    gives(F("('abc def'):gsub('(%w+) (%w+)', '%2 %1')"), "def abc|1");
    gives(F("('$x $y'):gsub('%$(%w+)', {x = 1})"), "1 $y|2");
    gives(F("('abc'):gsub('%w', function(c) if c ~= 'b' then return c:upper() end end)"), "AbC|3");
    gives(F("('abc'):gsub('^a', 'x')"), "xbc|1");
    gives(F("('100%'):gsub('%%', '%%%%')"), "100%%|1");
    gives(F("('abc'):gsub('()', '%1')"), "1a2b3c4|4");
    gives("function f() local s = '' for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do s = s .. k .. v end return s end", "a1b2");
    gives("function f() local n = 0 for w in ('abc'):gmatch('') do n = n + 1 end return n end", "4");
    gives("function f() local s = '' for w in ('one two'):gmatch('%a*') do s = s .. '[' .. w .. ']' end return s end", "[one][two]");
    static const char *const malformed[] = {
        "'['", "'[a'", "'%'", "'('", "')'", "'%b'", "'%bx'", "'%f'", "'%1'", "'(%1)'", "'[%'", "('x'):rep(300)", "('()'):rep(33)"};
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        char code[100];
        snprintf(code, sizeof code, "function f() return pcall(string.find, 'x', %s) end", malformed[i]);
        gives(code, "false");
    }
    gives("function f() return pcall(string.find, ('x'):rep(70000), 'y') end", "false");
    gives("function f() return pcall(string.gsub, 'x', 'x', '%2') end", "false");
}

static void pattern_bombs_end(void) {
    ends("function f() return ((('a'):rep(30) .. 'b'):find(('a*'):rep(30) .. 'c')) end", LONG, "a pattern that backtracks for ever");
    ends("function f() pcall(string.find, ('a'):rep(30) .. 'b', ('a*'):rep(30) .. 'c') return 1 end", LONG, "inside pcall");
    ends("function f() while true do pcall(string.match, ('a'):rep(30), ('a-'):rep(30) .. 'b') end end", LONG, "lazily, again and again");
    ends("function f() return (('a'):rep(60000):gsub(('a?'):rep(100) .. 'b', 'x')) end", LONG, "by gsub");
    ends("function f() for _ in ('('):rep(60000):gmatch('%b()') do end end", LONG, "by balance");
    ends("function f() return ('x'):rep(60000):find('.-.-.-y') end", LONG, "by lazy runs");
    ends("function f() return (('x'):rep(60000):gsub('x', ('y'):rep(60000))) end", "too ", "by replacing");
    /* all of this pattern's ways lead to a match at once, so it must succeed */
    gives("function f() return ((('a'):rep(30) .. 'b'):find(('a*'):rep(30) .. 'b')) end", "1");
}

static int open_and_call(struct err *e) {
    struct lua_result r;
    struct lua_host *h = lua_host_open(NULL, e);
    static const char code[] = "function f(a) local t = {} for i = 1, 20 do t[i] = a.text .. i end return #table.concat(t) end";
    const struct lua_field field = LUA_FIELD_STR("text", "abc");
    int rc =
        h && lua_host_load(h, "test", code, sizeof code - 1, e) == 0 && lua_host_call(h, "f", &field, 1, &r, e) == 0 && r.n == 91 ? 0 : -1;
    lua_host_close(h);
    return rc;
}

static void failing_memory_is_told(void) {
    int wrong = 0, told = 0;
    long k = 0;
    for (; k < 2000; k++) {
        struct err e = {0};
        mem_fail_after(k);
        int rc = open_and_call(&e);
        mem_fail_after(-1);
        wrong += rc < 0 && e.code != CODE_NO_MEMORY && e.code != CODE_POLICY;
        told += rc < 0;
    }
    ok(wrong == 0 && told > 0, "each allocation that fails is told, or had by the collector's second try (%d told)", told);
    struct lua_limits tiny = LUA_LIMITS_DEFAULT;
    int opened = 0;
    wrong = 0;
    for (tiny.bytes = 0; tiny.bytes < 40000; tiny.bytes += 97) {
        struct err e = {0};
        struct lua_host *h = lua_host_open(&tiny, &e);
        opened += h != NULL;
        wrong += !h && e.code != CODE_POLICY && e.code != CODE_NO_MEMORY;
        lua_host_close(h);
    }
    ok(opened > 0 && wrong == 0, "a limit too small for the sandbox itself is told");
}

int main(void) {
    log_setup(LOG_TEXT, LOG_ERROR);
    values_cross();
    nothing_leads_outside();
    endless_work_ends();
    memory_is_bounded();
    patterns_answer_as_usual();
    pattern_bombs_end();
    failing_memory_is_told();
    return done_testing();
}
