#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "tests/tap.h"

static void quoting(void) {
    struct buf b = BUF_INIT(200);
    struct err e = {0};
    text_ident(&b, "a\"b\"", &e);
    is_str(buf_str(&b, &e), "\"a\"\"b\"\"\"", "an identifier's quotes are doubled");
    buf_reset(&b);
    text_ident(&b, "", &e);
    is_str(buf_str(&b, &e), "\"\"", "an empty identifier");
    buf_reset(&b);
    text_literal(&b, "it's ''", 7, &e);
    is_str(buf_str(&b, &e), "'it''s '''''", "a literal's quotes are doubled");
    buf_reset(&b);
    text_literal(&b, NULL, 0, &e);
    is_str(buf_str(&b, &e), "''", "an empty literal");
    buf_reset(&b);
    ok(text_literal(&b, "a\0b", 3, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE, "a NUL byte is no SQL text");
    is_int(b.n, 0, "and leaves nothing behind");
    buf_free(&b);
}

static void hex_and_base64(void) {
    static const struct { const char *plain, *coded; } v[] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
    static const char *const bad[] = {"Zg=", "Zg", "Z===", "====", "Zh==", "Zm9=", "Zm9v=", "Zm 9", "Zm9v\n", "Zg==Zg==", "Zm-v"};
    struct buf b = BUF_INIT(4096), back = BUF_INIT(4096);
    struct err e = {0};
    char out[600];
    unsigned char raw[256], un[256];
    for (int i = 0; i < 256; i++) raw[i] = (unsigned char)i;
    text_hex("\x00\x9f\xff", 3, out);
    is_str(out, "009fff", "hex");
    text_hex(raw, 256, out);
    ok(text_unhex(out, 512, un) == 0 && memcmp(un, raw, 256) == 0, "every byte and back");
    ok(text_unhex("Ab", 2, un) == 0 && un[0] == 0xab, "either case");
    ok(text_unhex("abc", 3, un) == -1 && text_unhex("0g", 2, un) == -1 && text_unhex("+1", 2, un) == -1, "odd or no digit");
    for (size_t i = 0; i < MEM_ARRAY_LEN(v); i++) {
        buf_reset(&b);
        buf_reset(&back);
        text_base64(&b, v[i].plain, strlen(v[i].plain), &e);
        is_str(buf_str(&b, &e), v[i].coded, "base64 of a known text");
        ok(text_unbase64(&back, b.p, b.n, &e) == 0 && strcmp(buf_str(&back, &e), v[i].plain) == 0, "and back: '%s'", v[i].plain);
    }
    buf_reset(&b);
    buf_reset(&back);
    text_base64(&b, raw, 256, &e);
    ok(text_unbase64(&back, b.p, b.n, &e) == 0 && back.n == 256 && memcmp(back.p, raw, 256) == 0, "every byte and back");
    for (size_t i = 0; i < MEM_ARRAY_LEN(bad); i++) {
        buf_reset(&back);
        ok(text_unbase64(&back, bad[i], strlen(bad[i]), &e) == -1 && back.n == 0, "not base64: '%.4s'", bad[i]);
    }
    struct buf small = BUF_INIT(3);
    ok(text_base64(&small, "f", 1, &e) == -1 && e.code == CODE_LIMIT, "the cap holds");
    buf_free(&small);
    buf_free(&b);
    buf_free(&back);
}

static void utf8(void) {
    static const char *const good[] = {"", "plain ascii text of some length", "äöü", "€", "😀", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf", "\xee\x80\x80", "0123456ä", "01234567ä89012345"};
    static const char *const bad[] = {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                                     "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "01234567\xc3", "01234567\xc3(", "\xf0\x9f\x98"};
    for (size_t i = 0; i < MEM_ARRAY_LEN(good); i++) ok(text_utf8_valid(good[i], strlen(good[i])), "well-formed %zu", i);
    for (size_t i = 0; i < MEM_ARRAY_LEN(bad); i++) ok(!text_utf8_valid(bad[i], strlen(bad[i])), "malformed %zu", i);
    ok(text_utf8_valid("a\0b", 3), "NUL is a character");
    is_int(text_utf8_char("€x", 4), 3, "bytes of a character");
    is_int(text_utf8_char("€", 2), 0, "a cut character has none");
    is_int(text_utf8_char("", 0), 0, "nothing has none");
}

static void globs(void) {
    static const struct { const char *p, *s; bool m; } v[] = {
        {"orders", "orders", true}, {"orders", "order", false}, {"order", "orders", false}, {"", "", true}, {"", "a", false},
        {"*", "", true}, {"*", "anything", true}, {"a*", "abc", true}, {"*c", "abc", true}, {"a*c", "abbbc", true}, {"a*c", "abbb", false},
        {"*ab", "aab", true}, {"*a*b*", "xxaxxbxx", true}, {"*a*b*", "xxbxxaxx", false}, {"**", "x", true},
        {"a?c", "abc", true}, {"a?c", "ac", false}, {"?", "ä", true}, {"??", "ä", false}, {"a?", "a€", true},
        {"[abc]", "b", true}, {"[abc]", "d", false}, {"[a-c]x", "bx", true}, {"[!a-c]", "d", true}, {"[^a-c]", "b", false},
        {"[]]", "]", true}, {"[!]]", "]", false}, {"[a-]", "-", true}, {"[", "[", true}, {"[ab", "[ab", true}, {"[*]", "*", true}, {"[*]", "x", false},
        {"[ä-ü]", "ö", true}, {"[ä]", "a", false}, {"app.*", "app.orders", true}, {"app.*", "orders", false}, {"*_[0-9]", "log_7", true},
        {"A", "a", false}, {"a\\*", "a\\x", true}, {"[a]", "", false}, {"?", "", false}, {"\xff*", "\xff\xfe", true},
    };
    for (size_t i = 0; i < MEM_ARRAY_LEN(v); i++) ok(text_glob(v[i].p, v[i].s) == v[i].m, "glob %zu: %s", i, v[i].m ? "matches" : "does not match");
    char many[2001];
    memset(many, 'a', 2000);
    many[2000] = 0;
    ok(!text_glob("*a*a*a*a*a*a*a*a*a*a*a*a*b", many), "many stars end soon");
}

static void numbers(void) {
    int64_t i;
    uint64_t u;
    struct err e = {0};
    ok(text_i64("-9223372036854775808", &i) == 0 && i == INT64_MIN, "the least i64");
    ok(text_i64("9223372036854775807", &i) == 0 && i == INT64_MAX, "the greatest i64");
    ok(text_i64("-0", &i) == 0 && i == 0 && text_i64("007", &i) == 0 && i == 7, "zeros");
    ok(text_i64("9223372036854775808", &i) == -1 && text_i64("-9223372036854775809", &i) == -1, "one more is too much");
    ok(text_i64("", &i) == -1 && text_i64("-", &i) == -1 && text_i64("1x", &i) == -1 &&
           text_i64(" 1", &i) == -1 && text_i64("+1", &i) == -1 && text_i64("--1", &i) == -1, "no number");
    ok(text_u64("18446744073709551615", &u) == 0 && u == UINT64_MAX, "the greatest u64");
    ok(text_u64("18446744073709551616", &u) == -1 && text_u64("99999999999999999999", &u) == -1 && text_u64("-1", &u) == -1, "too much and too little");
    ok(text_bytes_parse("4096", &u, &e) == 0 && u == 4096, "bytes");
    ok(text_bytes_parse("64MiB", &u, &e) == 0 && u == MiB(64), "64MiB");
    ok(text_bytes_parse("1G", &u, &e) == 0 && u == MiB(1024), "1G");
    ok(text_bytes_parse("2kb", &u, &e) == 0 && u == 2048 && text_bytes_parse("0", &u, &e) == 0 && u == 0, "2kb and 0");
    ok(text_bytes_parse("16777215T", &u, &e) == 0 && text_bytes_parse("16777216T", &u, &e) == -1, "the end of 64 bits");
    err_clear(&e);
    ok(text_bytes_parse("1.5G", &u, &e) == -1 && e.code == CODE_USAGE && strstr(e.msg, "'1.5G'") && e.hint[0], "a fraction is refused, by name");
    ok(text_bytes_parse("", &u, &e) == -1 && text_bytes_parse("G", &u, &e) == -1 && text_bytes_parse("1 G", &u, &e) == -1 &&
           text_bytes_parse("1X", &u, &e) == -1 && text_bytes_parse("-1", &u, &e) == -1 && text_bytes_parse("1GiBs", &u, &e) == -1, "no bytes");
}

int main(void) {
    quoting();
    hex_and_base64();
    utf8();
    globs();
    numbers();
    return done_testing();
}
