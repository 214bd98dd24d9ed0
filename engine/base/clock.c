#include "engine/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t now_us(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_wall_us(void) { return now_us(CLOCK_REALTIME); }
int64_t clock_mono_us(void) { return now_us(CLOCK_MONOTONIC); }

void clock_iso(int64_t wall_us, char out[32]) {
    int64_t s = wall_us / 1000000, us = wall_us % 1000000;
    struct tm tm;
    if (us < 0) {
        us += 1000000;
        s--;
    }
    time_t t = (time_t)s;
    /* Four digits of year are what the form holds; anything else is no time of ours. */
    if (!gmtime_r(&t, &tm) || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900) {
        memcpy(out, "out-of-range", sizeof "out-of-range");
        return;
    }
    snprintf(out, 32, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
             (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100, (unsigned)us % 1000000);
}

int clock_duration_parse(const char *text, int64_t *us, struct err *e) {
    static const struct { const char *unit; int64_t us; } units[] = {
        {"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"h", INT64_C(3600000000)}, {"d", INT64_C(86400000000)},
    };
    int64_t sum = 0, last = INT64_MAX;
    const char *p = text;
    if (strcmp(text, "0") == 0) {
        *us = 0;
        return 0;
    }
    do {
        int64_t n = 0, unit = 0;
        size_t digits = 0, k;
        for (; *p >= '0' && *p <= '9'; p++, digits++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n)) goto bad;
        k = strspn(p, "abcdefghijklmnopqrstuvwxyz");
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
            if (strlen(units[i].unit) == k && memcmp(units[i].unit, p, k) == 0) unit = units[i].us;
        /* Units fall: "1m1h" is a slip of the hand. */
        if (!digits || !unit || unit >= last) goto bad;
        if (__builtin_mul_overflow(n, unit, &n) || __builtin_add_overflow(sum, n, &sum)) goto bad;
        last = unit;
        p += k;
    } while (*p);
    *us = sum;
    return 0;
bad:
    err_set(e, CODE_USAGE, "'%s' is not a duration", text);
    return err_hint(e, "write it as 250ms, 10s, 5m or 1h30m");
}
