/* Positions: what is ordered, what is not, and how a token is spelled. */
#include "engine/base/pos.h"

#include "tests/tap.h"

static struct pos at(const char *engine, const char *token) {
    struct pos p = {0};
    struct err e = {0};
    pos_set(&p, engine, token, &e);
    return p;
}

static int refused(const char *engine, const char *token, enum err_code code) {
    struct pos p = {"kept", "kept"};
    struct err e = {0};
    return pos_set(&p, engine, token, &e) == -1 && e.code == code && strcmp(p.engine, "kept") == 0;
}

static enum pos_order order(const char *engine, const char *a, const char *b) {
    struct pos x = at(engine, a), y = at(engine, b);
    return pos_compare(&x, &y);
}

int main(void) {
    struct pos none = {0}, a = at("postgres", "16/B374D848"), b = at("sqlite", "7"), raw;
    uint64_t lsn = 0;
    char text[32];

    ok(pos_lsn_parse("16/B374D848", &lsn) && lsn == 0x16B374D848ull, "an LSN is two halves of 32 bits");
    ok(pos_lsn_parse("FFFFFFFF/FFFFFFFF", &lsn) && lsn == UINT64_MAX, "the largest");
    pos_lsn_format(0x16B374D848ull, text);
    is_str(text, "16/B374D848", "and back");
    pos_lsn_format(0x1500000001ull, text);
    is_str(text, "15/1", "without leading zeros");
    is_str(at("postgres", "00000016/0b374d8").token, "16/B374D8", "a token is kept in one spelling");
    is_str(at("sqlite", "9223372036854775807").token, "9223372036854775807", "the largest change-log id");

    is_int(order("postgres", "F/FFFFFFFF", "10/0"), POS_LESS, "numbers, not texts: F < 10");
    is_int(order("postgres", "16/A", "16/9"), POS_GREATER, "the low half decides");
    is_int(order("postgres", "0/01", "0/1"), POS_EQUAL, "equal in another spelling");
    is_int(order("sqlite", "9", "10"), POS_LESS, "decimal: 9 < 10");
    is_int(order("sqlite", "10", "10"), POS_EQUAL, "decimal: equal");

    is_int(pos_compare(&a, &b), POS_UNORDERED, "two engines are not ordered");
    is_int(pos_compare(&a, &none), POS_UNORDERED, "unset and set are not ordered");
    is_int(pos_compare(&none, &none), POS_UNORDERED, "two unset are not even equal");
    raw = (struct pos){"postgres", "nonsense"};
    is_int(pos_compare(&raw, &raw), POS_UNORDERED, "a malformed token is not equal to itself");
    raw = (struct pos){"other", "1"};
    is_int(pos_compare(&raw, &raw), POS_UNORDERED, "an unknown engine is not ordered");

    static const char *const bad_lsn[] = {"",       "/",     "16",    "16/",  "/1",    "16/G", "16/123456789", "123456789/1",
                                          "16/1/1", " 16/1", "16/1 ", "-1/1", "0x16/1"};
    for (size_t i = 0; i < sizeof bad_lsn / sizeof *bad_lsn; i++)
        ok(refused("postgres", bad_lsn[i], CODE_MANIFEST_INVALID), "not an LSN: '%s'", bad_lsn[i]);
    static const char *const bad_id[] = {"", "-1", "+1", "01", "1.0", "1 ", "9223372036854775808", "99999999999999999999", "a"};
    for (size_t i = 0; i < sizeof bad_id / sizeof *bad_id; i++)
        ok(refused("sqlite", bad_id[i], CODE_MANIFEST_INVALID), "not an id: '%s'", bad_id[i]);
    ok(refused("mongodb", "1", CODE_FORMAT_UNSUPPORTED), "positions of an unknown engine are refused");
    ok(refused("", "1", CODE_FORMAT_UNSUPPORTED), "no engine is refused");
    ok(pos_is_set(&a) && !pos_is_set(&none), "set and unset");
    return done_testing();
}
