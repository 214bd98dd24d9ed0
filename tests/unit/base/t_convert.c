/* Canonical texts: what a column holds, what is normalised, what is refused, and that no digit changes on the way. */
#include "engine/base/convert.h"

#include "engine/base/mem.h"
#include "tests/tap.h"

static struct arena *arena;

static struct column col(enum ltype t, int precision, int scale, int length) {
    return (struct column){.type = t, .precision = precision, .scale = scale, .length = length};
}
#define COL(t) col((t), -1, -1, -1)

static void holds(struct column c, const char *s) {
    struct err e = {0};
    ok(convert_check(&c, s, strlen(s), &e) == 0, "%s holds '%.60s' %s", ltype_name(c.type), s, e.msg);
}

static void refuses(struct column c, const char *s) {
    struct err e = {0};
    ok(convert_check(&c, s, strlen(s), &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE && e.msg[0], "%s refuses '%.60s': %s",
       ltype_name(c.type), s, e.msg);
}

/* What a value of storage class and content (or, class 'T', a TEXT value) becomes; the code's name when it is refused. */
static const char *from(char class, const char *s, struct column to, unsigned flags) {
    static char out[512];
    char bytes[512];
    struct err e = {0};
    struct value in, v;
    size_t n = strlen(s);
    bytes[0] = class;
    memcpy(bytes + 1, s, n);
    in = class == 'T' ? (struct value){s, (uint32_t)n, VALUE_TEXT} : (struct value){bytes, (uint32_t)n + 1, VALUE_BINARY};
    if (convert_value(&in, &to, flags, arena, &v, &e) < 0) return e.code == CODE_VALUE_UNREPRESENTABLE ? "refused" : err_code_name(e.code);
    snprintf(out, sizeof out, "%s%.*s", v.kind == VALUE_BYTES ? "bytes:" : v.kind == VALUE_TEXT ? "" : "?", (int)v.len, v.p);
    return out;
}
static void becomes(char class, const char *s, struct column to, const char *want) {
    char name[200];
    snprintf(name, sizeof name, "%c '%.60s' into %s", class, s, ltype_name(to.type));
    is_str(from(class, s, to, 0), want, "%s", name);
    bool same = strcmp(s, want) == 0;
    if (class == 't') is_str(from('t', s, to, CONVERT_EXACT), same ? want : "refused", "%s, exactly", name);
}

static void numbers(void) {
    holds(COL(LT_BOOL), "t"), holds(COL(LT_BOOL), "f");
    refuses(COL(LT_BOOL), "true"), refuses(COL(LT_BOOL), ""), refuses(COL(LT_BOOL), "1"), refuses(COL(LT_BOOL), "T");
    holds(COL(LT_INT16), "-32768"), holds(COL(LT_INT16), "32767"), holds(COL(LT_INT16), "0");
    refuses(COL(LT_INT16), "32768"), refuses(COL(LT_INT16), "-32769"), refuses(COL(LT_INT16), "-0"), refuses(COL(LT_INT16), "007");
    refuses(COL(LT_INT16), "+1"), refuses(COL(LT_INT16), "1.0"), refuses(COL(LT_INT16), ""), refuses(COL(LT_INT16), "-"),
        refuses(COL(LT_INT16), "1 ");
    holds(COL(LT_INT32), "-2147483648"), refuses(COL(LT_INT32), "2147483648"), refuses(COL(LT_INT32), "99999999999");
    holds(COL(LT_INT64), "-9223372036854775808"), holds(COL(LT_INT64), "9223372036854775807"),
        refuses(COL(LT_INT64), "9223372036854775808");
    holds(COL(LT_UINT16), "65535"), refuses(COL(LT_UINT16), "65536"), refuses(COL(LT_UINT32), "-1"), holds(COL(LT_UINT32), "4294967295");
    holds(COL(LT_UINT64), "18446744073709551615"), refuses(COL(LT_UINT64), "18446744073709551616");

    struct column any = COL(LT_NUMERIC), money = col(LT_NUMERIC, 5, 2, -1), whole = col(LT_NUMERIC, 3, -1, -1);
    holds(any, "0.00000000000000006938893903907228"), holds(any, "1.50"), holds(any, "-12345678901234567890123456789.0001"),
        holds(any, "NaN"), holds(any, "-Infinity");
    refuses(any, "1e5"), refuses(any, ".5"), refuses(any, "5."), refuses(any, "05"), refuses(any, "-0"), refuses(any, "-0.00"),
        refuses(any, "+1"), refuses(any, "1.2.3"), refuses(any, "");
    holds(money, "999.99"), holds(money, "-999.99"), holds(money, "0.01"), holds(money, "1.5"), holds(money, "NaN"), holds(money, "0");
    refuses(money, "1000"), refuses(money, "0.001"), refuses(money, "999.995"), refuses(money, "Infinity"), refuses(money, "1.500");
    holds(whole, "999"), refuses(whole, "1000"), refuses(whole, "0.5"), refuses(whole, "1.0");
    holds(col(LT_NUMERIC, 2, 5, -1), "0.00099"), refuses(col(LT_NUMERIC, 2, 5, -1), "0.001"),
        refuses(col(LT_NUMERIC, 2, 5, -1), "0.000001");
    holds(col(LT_NUMERIC, 3, -2, -1), "99900"), refuses(col(LT_NUMERIC, 3, -2, -1), "99950"), refuses(col(LT_NUMERIC, 3, -2, -1), "100000");

    holds(COL(LT_FLOAT8), "1e+308"), holds(COL(LT_FLOAT8), "-0"), holds(COL(LT_FLOAT8), "NaN"), holds(COL(LT_FLOAT8), "-Infinity"),
        holds(COL(LT_FLOAT8), "5e-324");
    refuses(COL(LT_FLOAT8), "1e309"), refuses(COL(LT_FLOAT8), "1e-400"), refuses(COL(LT_FLOAT8), "nan"), refuses(COL(LT_FLOAT8), "0x10"),
        refuses(COL(LT_FLOAT8), "1e"), refuses(COL(LT_FLOAT8), " 1");
    holds(COL(LT_FLOAT4), "3.4028235e+38"), refuses(COL(LT_FLOAT4), "1e39"), refuses(COL(LT_FLOAT4), "1e-60");
}

static void texts(void) {
    struct err e = {0};
    struct column c = COL(LT_TEXT);
    holds(c, ""), holds(c, "a\tb\n\xc3\xa9\xf0\x9f\x90\x98"), refuses(c, "\xff"), refuses(c, "\xed\xa0\x80");
    ok(convert_check(&c, "a\0b", 3, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE && !strchr(e.msg, '\''),
       "a NUL character is refused, the text is not shown");
    holds(col(LT_TEXT, -1, -1, 3), "\xc3\xa9\xc3\xa9\xc3\xa9"), refuses(col(LT_TEXT, -1, -1, 3), "abcd"),
        refuses(col(LT_TEXT, -1, -1, 3), "abc ");
    holds(COL(LT_UUID), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
    refuses(COL(LT_UUID), "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"), refuses(COL(LT_UUID), "a0eebc999c0b4ef8bb6d6bb9bd380a11"),
        refuses(COL(LT_UUID), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g");
    holds(COL(LT_BYTES), "\\x"), holds(COL(LT_BYTES), "\\x00ff"), refuses(COL(LT_BYTES), "\\x0"), refuses(COL(LT_BYTES), "abc"),
        refuses(COL(LT_BYTES), "\\xgg");
    holds(col(LT_BIT, -1, -1, 4), "0101"), holds(COL(LT_BIT), ""), refuses(COL(LT_BIT), "012"), refuses(col(LT_BIT, -1, -1, 4), "01010");
    holds(COL(LT_INTERVAL), "1 year -2 days"), holds(COL(LT_ENUM), "happy"), refuses(COL(LT_INET), "\xff");
}

static void times(void) {
    holds(COL(LT_DATE), "2026-01-31"), holds(COL(LT_DATE), "0001-01-01"), holds(COL(LT_DATE), "0044-03-15 BC"),
        holds(COL(LT_DATE), "0001-02-29 BC"), holds(COL(LT_DATE), "5874897-12-31");
    holds(COL(LT_DATE), "4714-11-24 BC"), holds(COL(LT_DATE), "infinity"), holds(COL(LT_DATE), "-infinity"),
        holds(COL(LT_DATE), "12026-02-28"), holds(COL(LT_DATE), "2000-02-29");
    refuses(COL(LT_DATE), "2026-02-29"), refuses(COL(LT_DATE), "1900-02-29"), refuses(COL(LT_DATE), "2026-13-01"),
        refuses(COL(LT_DATE), "2026-00-01"), refuses(COL(LT_DATE), "2026-01-00");
    refuses(COL(LT_DATE), "0000-01-01"), refuses(COL(LT_DATE), "0000-00-00"), refuses(COL(LT_DATE), "4714-11-23 BC"),
        refuses(COL(LT_DATE), "5874898-01-01"), refuses(COL(LT_DATE), "0002-02-29 BC");
    refuses(COL(LT_DATE), "2026-1-31"), refuses(COL(LT_DATE), "2026-01-31 12:00:00"), refuses(COL(LT_DATE), "01/31/2026"),
        refuses(COL(LT_DATE), ""), refuses(COL(LT_DATE), "Infinity"), refuses(COL(LT_DATE), "20260131");
    holds(COL(LT_TIME), "00:00:00"), holds(COL(LT_TIME), "24:00:00"), holds(COL(LT_TIME), "23:59:59.999999"),
        holds(COL(LT_TIME), "12:00:00.5");
    refuses(COL(LT_TIME), "24:00:01"), refuses(COL(LT_TIME), "12:60:00"), refuses(COL(LT_TIME), "12:00:60"),
        refuses(COL(LT_TIME), "12:00:00.50"), refuses(COL(LT_TIME), "12:00"), refuses(COL(LT_TIME), "12:00:00+00");
    refuses(COL(LT_TIME), "12:00:00.1234567"), refuses(COL(LT_TIME), "12:00:00."), refuses(COL(LT_TIME), "infinity"),
        refuses(COL(LT_TIME), "-01:00:00"), refuses(COL(LT_TIME), "838:59:59");
    holds(COL(LT_TIMETZ), "12:00:00+00"), holds(COL(LT_TIMETZ), "12:00:00.25-05:30"), holds(COL(LT_TIMETZ), "12:00:00+15:59:59"),
        refuses(COL(LT_TIMETZ), "12:00:00"), refuses(COL(LT_TIMETZ), "12:00:00+16");
    holds(COL(LT_TIMESTAMP), "2026-01-31 12:00:00.000001"), holds(COL(LT_TIMESTAMP), "0044-03-15 12:00:00 BC"),
        holds(COL(LT_TIMESTAMP), "294276-12-31 23:59:59.999999"), holds(COL(LT_TIMESTAMP), "-infinity");
    refuses(COL(LT_TIMESTAMP), "294277-01-01 00:00:00"), refuses(COL(LT_TIMESTAMP), "2026-01-31T12:00:00"),
        refuses(COL(LT_TIMESTAMP), "2026-01-31"), refuses(COL(LT_TIMESTAMP), "2026-01-31 24:00:00");
    refuses(COL(LT_TIMESTAMP), "2026-01-31 12:00:00+00"), refuses(COL(LT_TIMESTAMP), "2026-01-31 12:00:00Z"),
        refuses(COL(LT_TIMESTAMP), "2026-01-31 "), refuses(COL(LT_TIMESTAMP), "1769860800");
    holds(col(LT_TIMESTAMP, 3, -1, -1), "2026-01-31 12:00:00.123"), refuses(col(LT_TIMESTAMP, 3, -1, -1), "2026-01-31 12:00:00.1234"),
        refuses(col(LT_TIMESTAMP, 0, -1, -1), "2026-01-31 12:00:00.5");
    holds(COL(LT_TIMESTAMPTZ), "2026-01-31 12:00:00+00"), holds(COL(LT_TIMESTAMPTZ), "0044-03-15 12:00:00+00 BC"),
        refuses(COL(LT_TIMESTAMPTZ), "2026-01-31 12:00:00+01"), refuses(COL(LT_TIMESTAMPTZ), "2026-01-31 12:00:00");

    becomes('t', "2026-01-31T12:00:00", COL(LT_TIMESTAMP), "2026-01-31 12:00:00");
    becomes('t', "2026-01-31 12:00:00.500", COL(LT_TIMESTAMP), "2026-01-31 12:00:00.5");
    becomes('t', "2026-01-31 12:00:00.000000000", COL(LT_TIMESTAMP), "2026-01-31 12:00:00");
    becomes('t', "2026-01-31 12:30", COL(LT_TIMESTAMP), "2026-01-31 12:30:00");
    becomes('t', "2026-01-31", COL(LT_TIMESTAMP), "2026-01-31 00:00:00");
    becomes('t', "0044-03-15 BC", COL(LT_TIMESTAMP), "0044-03-15 00:00:00 BC");
    becomes('t', "2026-01-31 12:00:00.123456789", COL(LT_TIMESTAMP), "refused");
    becomes('t', "2026-01-31T12:00:00Z", COL(LT_TIMESTAMPTZ), "2026-01-31 12:00:00+00");
    becomes('t', "2026-03-01T00:30:00.25+02:00", COL(LT_TIMESTAMPTZ), "2026-02-28 22:30:00.25+00");
    becomes('t', "2023-12-31 23:00:00-0130", COL(LT_TIMESTAMPTZ), "2024-01-01 00:30:00+00");
    becomes('t', "0001-01-01 00:00:00+01", COL(LT_TIMESTAMPTZ), "0001-12-31 23:00:00+00 BC");
    becomes('t', "0001-12-31 23:00:00-01 BC", COL(LT_TIMESTAMPTZ), "0001-01-01 00:00:00+00");
    becomes('t', "294276-12-31 23:30:00-01", COL(LT_TIMESTAMPTZ), "refused");
    becomes('t', "12:00", COL(LT_TIME), "12:00:00");
    becomes('t', "12:00:00Z", COL(LT_TIMETZ), "12:00:00+00");
    becomes('t', "2026-01-31", COL(LT_DATE), "2026-01-31");
    becomes('i', "1769860800", COL(LT_TIMESTAMP), "refused");
    becomes('r', "2460000.5", COL(LT_DATE), "refused");
}

/* law: for every day of some centuries around the turns, a text with any offset is the same moment as its UTC text */
static void offsets_are_exact(void) {
    int good = 0, all = 0;
    static const int years[] = {1, 4, 100, 1600, 1900, 1999, 2000, 2024};
    for (size_t y = 0; y < sizeof years / sizeof *years; y++)
        for (int m = 1; m <= 12; m++) {
            char a[64], b[64], there[64];
            snprintf(a, sizeof a, "%04d-%02d-01 00:15:00+00:30", years[y], m);
            snprintf(there, sizeof there, "%s", from('t', a, COL(LT_TIMESTAMPTZ), 0));
            /* back: the result is 30 minutes before; written with -00:30 it must be 00:15 - 30 min + 30 min … */
            size_t n = strlen(there);
            bool bc = n > 3 && strcmp(there + n - 3, " BC") == 0;
            snprintf(b, sizeof b, "%.*s-00:30%s", (int)(n - 3 - (bc ? 3 : 0)), there, bc ? " BC" : "");
            char want[64];
            snprintf(want, sizeof want, "%04d-%02d-01 00:15:00+00", years[y], m);
            good += strcmp(from('t', b, COL(LT_TIMESTAMPTZ), 0), want) == 0;
            all++;
        }
    is_int(good, all, "half an hour back and forth over each month's turn");
}

static void classes(void) {
    becomes('i', "0", COL(LT_BOOL), "f"), becomes('i', "1", COL(LT_BOOL), "t"), becomes('i', "2", COL(LT_BOOL), "refused"),
        becomes('r', "1.0", COL(LT_BOOL), "t"), becomes('r', "-0.0", COL(LT_BOOL), "f");
    becomes('t', "true", COL(LT_BOOL), "t"), becomes('t', "FALSE", COL(LT_BOOL), "f"), becomes('t', "t", COL(LT_BOOL), "t"),
        becomes('t', "yes", COL(LT_BOOL), "refused");
    becomes('i', "9007199254740993", COL(LT_INT64), "9007199254740993"), becomes('i', "70000", COL(LT_INT16), "refused"),
        becomes('i', "-1", COL(LT_UINT32), "refused");
    becomes('r', "3.0", COL(LT_INT32), "3"), becomes('r', "1e+15", COL(LT_INT64), "refused"),
        becomes('r', "100000000000000.0", COL(LT_INT64), "100000000000000"), becomes('r', "3.5", COL(LT_INT32), "refused");
    becomes('r', "-20.0", COL(LT_INT32), "-20"), becomes('r', "Inf", COL(LT_INT32), "refused"), becomes('t', "12", COL(LT_INT32), "12"),
        becomes('t', "012", COL(LT_INT32), "refused");
    becomes('i', "12", COL(LT_NUMERIC), "12"), becomes('i', "1000", col(LT_NUMERIC, 5, 2, -1), "refused"),
        becomes('r', "0.1", COL(LT_NUMERIC), "0.1"), becomes('r', "1e+20", COL(LT_NUMERIC), "100000000000000000000");
    becomes('r', "1.5e-07", COL(LT_NUMERIC), "0.00000015"), becomes('r', "-2.5e+03", COL(LT_NUMERIC), "-2500"),
        becomes('r', "12345.678e1", COL(LT_NUMERIC), "123456.78"), becomes('r', "-0.0", COL(LT_NUMERIC), "0");
    becomes('r', "0.30000000000000004", col(LT_NUMERIC, 10, 2, -1), "refused"), becomes('r', "Inf", COL(LT_NUMERIC), "Infinity"),
        becomes('r', "-Inf", col(LT_NUMERIC, 5, 2, -1), "refused");
    becomes('t', "1.50", COL(LT_NUMERIC), "1.50"), becomes('t', "1.500", col(LT_NUMERIC, 5, 2, -1), "1.5"),
        becomes('t', "+007.10", COL(LT_NUMERIC), "7.1"), becomes('t', "1e3", COL(LT_NUMERIC), "1000");
    becomes('t', "abc", COL(LT_NUMERIC), "refused"), becomes('t', "1e999999", COL(LT_NUMERIC), "refused"),
        becomes('t', "1e-99999999999999999999", COL(LT_NUMERIC), "refused"),
        becomes('t', "12345678901234567890.123", COL(LT_NUMERIC), "12345678901234567890.123");
    becomes('i', "12", COL(LT_FLOAT8), "12"), becomes('i', "9007199254740993", COL(LT_FLOAT8), "refused"),
        becomes('i', "9223372036854775807", COL(LT_FLOAT8), "refused"),
        becomes('i', "-9223372036854775808", COL(LT_FLOAT8), "-9223372036854775808");
    becomes('i', "16777217", COL(LT_FLOAT4), "refused"), becomes('r', "0.1", COL(LT_FLOAT8), "0.1"),
        becomes('r', "0.1", COL(LT_FLOAT4), "refused"), becomes('r', "0.5", COL(LT_FLOAT4), "0.5"),
        becomes('r', "inf", COL(LT_FLOAT4), "Infinity");
    becomes('r', "-9e999", COL(LT_FLOAT8), "refused"), becomes('t', "x", COL(LT_FLOAT8), "refused");
    becomes('t', "abc", COL(LT_TEXT), "abc"), becomes('i', "5", COL(LT_TEXT), "refused"), becomes('r', "5.0", COL(LT_TEXT), "refused"),
        becomes('b', "abc", COL(LT_TEXT), "refused");
    becomes('b', "a\xff", COL(LT_BYTES), "bytes:a\xff"), becomes('b', "", COL(LT_BYTES), "bytes:"),
        becomes('t', "abc", COL(LT_BYTES), "refused"), becomes('i', "1", COL(LT_BYTES), "refused");
    becomes('t', "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", COL(LT_UUID), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        becomes('b', "0123456789abcdef", COL(LT_UUID), "refused");
    becomes('t', "{\"a\": [1]}", COL(LT_JSON), "{\"a\": [1]}"), becomes('t', "{a:1}", COL(LT_JSON), "refused"),
        becomes('i', "5", COL(LT_JSON), "5"), becomes('r', "5.5", COL(LT_JSON), "5.5"), becomes('r', "Inf", COL(LT_JSON), "refused");
    becomes('x', "1", COL(LT_TEXT), "SLUICE-E-INTERNAL");
    becomes('T', "12.50", COL(LT_NUMERIC), "12.50"), becomes('T', "\\x00", COL(LT_BYTES), "\\x00"),
        becomes('T', "2026-01-31 12:00:00+00", COL(LT_TIMESTAMPTZ), "2026-01-31 12:00:00+00");

    struct err e = {0};
    struct value out, in = VALUE_OF_NULL;
    struct column c = COL(LT_INT32);
    ok(convert_value(&in, &c, 0, arena, &out, &e) == 0 && out.kind == VALUE_NULL, "NULL stays");
    in.kind = VALUE_UNCHANGED;
    ok(convert_value(&in, &c, 0, arena, &out, &e) == 0 && out.kind == VALUE_UNCHANGED, "UNCHANGED stays, and is not NULL");
    in = (struct value){"ab", 2, VALUE_BYTES};
    ok(convert_value(&in, &c, 0, arena, &out, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE, "bytes are no integer");
    in = (struct value){"", 0, VALUE_BINARY};
    ok(convert_value(&in, &c, 0, arena, &out, &e) == -1 && e.code == CODE_INTERNAL, "a value without its class is a bug");
    in = (struct value){"1", 1, VALUE_TEXT};
    ok(convert_value(&in, &c, 0, arena, &out, &e) == 0 && out.p == in.p, "what is canonical is not copied");
    in = (struct value){"tTRUE", 5, VALUE_BINARY};
    struct column yes = COL(LT_UUID);
    in = (struct value){"tA0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", 37, VALUE_BINARY};
    struct arena *small = arena_new(KiB(1), &e);
    mem_fail_after(0);
    ok(convert_value(&in, &yes, 0, small, &out, &e) == -1 && e.code == CODE_NO_MEMORY, "no memory for the new text");
    mem_fail_after(-1);
    arena_free(small);
}

static void json_is(bool good, bool strict, const char *s) {
    size_t at = 0;
    ok((convert_json_valid(s, strlen(s), strict, &at) == 0) == good, "%s%s: %.60s", good ? "JSON" : "no JSON", strict ? " (jsonb)" : "", s);
}

static void json(void) {
    static const char *const good[] = {"{}",
                                       "[]",
                                       " [ ] ",
                                       "null",
                                       "true",
                                       "-0",
                                       "0.5",
                                       "1e5",
                                       "1E-5",
                                       "1.5e+10",
                                       "\"\"",
                                       "\"\\u00e9\\n\\/\"",
                                       "[[],{},[{}]]",
                                       "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"a\":2}",
                                       "\"\x7f\xc3\xa9\"",
                                       "\t\n\r 1 ",
                                       "[1,\"x\",false]",
                                       "123456789012345678901234567890.5"};
    static const char *const bad[] = {"",          " ",           "{",        "}",
                                      "[",         "]",           "[1,]",     "[,1]",
                                      "{,}",       "{\"a\"}",     "{\"a\":}", "{\"a\":1,}",
                                      "{a:1}",     "{'a':1}",     "[1 2]",    "1 2",
                                      "nul",       "nulll",       "True",     "+1",
                                      "01",        "1.",          ".5",       "1e",
                                      "1e+",       "-",           "NaN",      "Infinity",
                                      "0x10",      "\"",          "\"\\\"",   "\"\\x41\"",
                                      "\"\\u12\"", "\"\\u12g4\"", "\"\x01\"", "\"a\nb\"",
                                      "\"\xff\"",  "[}",          "{]",       "{\"a\":1]",
                                      "[1}",       "// x\n1",     "[1]x",     "\xef\xbb\xbf{}",
                                      "{1:2}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        json_is(true, false, good[i]), json_is(true, true, good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        json_is(false, false, bad[i]);
    json_is(true, false, "\"\\u0000\""), json_is(false, true, "\"\\u0000\"");
    json_is(true, false, "\"\\ud800\""), json_is(false, true, "\"\\ud800\""), json_is(false, true, "\"\\udc00\""),
        json_is(false, true, "\"\\ud800\\u0041\""), json_is(true, true, "\"\\ud83d\\udc18\"");
    size_t at = 0;
    ok(convert_json_valid("[1,2,x]", 7, false, &at) == -1 && at == 5, "it says where");
    ok(convert_json_valid("1\0", 2, false, NULL) == -1, "a NUL byte behind the end is no blank");
    static char deep[20002];
    memset(deep, '[', 10000), memset(deep + 10000, ']', 10000);
    ok(convert_json_valid(deep, 20000, false, NULL) == -1, "10000 levels are too deep");
    ok(convert_json_valid(deep + 4000, 12000, false, NULL) == 0, "6000 are not");
}

static void fits(struct column a, struct column b, enum convert_fit want) {
    char name[80];
    snprintf(name, sizeof name, "%s into %s", ltype_name(a.type), ltype_name(b.type));
    is_int(convert_fit(&a, &b), want, "%s", name);
}

static void pairs(void) {
    fits(COL(LT_INT32), COL(LT_INT64), CONVERT_ALWAYS), fits(COL(LT_INT64), COL(LT_INT32), CONVERT_CHECKED),
        fits(COL(LT_UINT32), COL(LT_INT64), CONVERT_ALWAYS), fits(COL(LT_UINT32), COL(LT_INT32), CONVERT_CHECKED);
    fits(COL(LT_INT32), COL(LT_UINT64), CONVERT_CHECKED), fits(COL(LT_INT64), COL(LT_NUMERIC), CONVERT_ALWAYS),
        fits(COL(LT_INT64), col(LT_NUMERIC, 19, 0, -1), CONVERT_ALWAYS), fits(COL(LT_INT64), col(LT_NUMERIC, 19, 2, -1), CONVERT_CHECKED);
    fits(COL(LT_INT32), COL(LT_FLOAT8), CONVERT_ALWAYS), fits(COL(LT_INT64), COL(LT_FLOAT8), CONVERT_NEVER),
        fits(COL(LT_INT32), COL(LT_BOOL), CONVERT_NEVER), fits(COL(LT_BOOL), COL(LT_INT32), CONVERT_NEVER);
    fits(col(LT_NUMERIC, 10, 2, -1), col(LT_NUMERIC, 12, 4, -1), CONVERT_ALWAYS),
        fits(col(LT_NUMERIC, 10, 2, -1), col(LT_NUMERIC, 12, 5, -1), CONVERT_CHECKED),
        fits(COL(LT_NUMERIC), col(LT_NUMERIC, 10, 2, -1), CONVERT_CHECKED);
    fits(COL(LT_NUMERIC), COL(LT_FLOAT8), CONVERT_NEVER), fits(COL(LT_NUMERIC), COL(LT_INT64), CONVERT_CHECKED),
        fits(COL(LT_FLOAT8), COL(LT_NUMERIC), CONVERT_CHECKED), fits(COL(LT_FLOAT4), COL(LT_FLOAT8), CONVERT_ALWAYS);
    fits(COL(LT_FLOAT8), COL(LT_FLOAT4), CONVERT_NEVER), fits(col(LT_TEXT, -1, -1, 5), col(LT_TEXT, -1, -1, 9), CONVERT_ALWAYS),
        fits(COL(LT_TEXT), col(LT_TEXT, -1, -1, 9), CONVERT_CHECKED), fits(COL(LT_UUID), COL(LT_TEXT), CONVERT_ALWAYS);
    fits(COL(LT_BYTES), COL(LT_TEXT), CONVERT_NEVER), fits(COL(LT_TEXT), COL(LT_BYTES), CONVERT_NEVER),
        fits(COL(LT_TEXT), COL(LT_JSON), CONVERT_CHECKED), fits(COL(LT_JSON), COL(LT_JSONB), CONVERT_NEVER);
    fits(COL(LT_JSONB), COL(LT_JSON), CONVERT_ALWAYS), fits(COL(LT_TIMESTAMP), COL(LT_TIMESTAMPTZ), CONVERT_NEVER),
        fits(COL(LT_TIMESTAMP), col(LT_TIMESTAMP, 3, -1, -1), CONVERT_CHECKED),
        fits(col(LT_TIMESTAMP, 3, -1, -1), COL(LT_TIMESTAMP), CONVERT_ALWAYS);
    struct column mood = COL(LT_ENUM), other = COL(LT_ENUM);
    mood.native = "mood", other.native = "colour";
    fits(mood, mood, CONVERT_ALWAYS), fits(mood, other, CONVERT_NEVER), fits(mood, COL(LT_TEXT), CONVERT_ALWAYS);
}

int main(void) {
    struct err e = {0};
    arena = arena_new(KiB(64), &e);
    numbers();
    texts();
    times();
    offsets_are_exact();
    classes();
    json();
    pairs();
    arena_free(arena);
    return done_testing();
}
