#include <time.h>

#include "engine/base/clock.h"
#include "tests/tap.h"

static void iso(void) {
    char t[32];
    clock_iso(INT64_C(1769860800000000), t);
    is_str(t, "2026-01-31T12:00:00.000000Z", "a time");
    clock_iso(INT64_C(1769860800123456), t);
    is_str(t, "2026-01-31T12:00:00.123456Z", "with microseconds");
    clock_iso(0, t);
    is_str(t, "1970-01-01T00:00:00.000000Z", "the epoch");
    clock_iso(-1, t);
    is_str(t, "1969-12-31T23:59:59.999999Z", "a microsecond before it");
    clock_iso(INT64_C(951782400000000), t);
    is_str(t, "2000-02-29T00:00:00.000000Z", "a leap day");
    clock_iso(INT64_MAX, t);
    is_str(t, "out-of-range", "a year with more than four digits");
    clock_iso(INT64_MIN, t);
    is_str(t, "out-of-range", "a year before zero");
}

static void durations(void) {
    static const struct { const char *text; int64_t us; } good[] = {
        {"0", 0}, {"0s", 0}, {"10s", 10000000}, {"5m", 300000000}, {"1h30m", INT64_C(5400000000)}, {"250ms", 250000},
        {"7us", 7}, {"2d", INT64_C(172800000000)}, {"1h0m5s", INT64_C(3605000000)},
    };
    static const char *const bad[] = {"", "10", "s", "-5s", "5 s", "5x", "1m1h", "5s5s", "1.5s", "s5", "5S", "1h30", "99999999999999999999s", "999999999999d", "00"};
    struct err e = {0};
    int64_t us;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        us = -1;
        ok(clock_duration_parse(good[i].text, &us, &e) == 0 && us == good[i].us, "'%s' is %lld us", good[i].text, (long long)us);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err_clear(&e);
        ok(clock_duration_parse(bad[i], &us, &e) == -1 && e.code == CODE_USAGE, "'%s' is no duration", bad[i]);
    }
    ok(strstr(e.msg, "'00'") != NULL && e.hint[0], "the message names the text, the hint shows the form");
}

int main(void) {
    iso();
    durations();
    int64_t a = clock_mono_us(), b = clock_mono_us(), w = clock_wall_us();
    ok(b >= a, "the monotonic clock does not go back");
    ok(w / 1000000 - (int64_t)time(NULL) <= 1 && (int64_t)time(NULL) - w / 1000000 <= 1, "the wall clock is the system's");
    return done_testing();
}
