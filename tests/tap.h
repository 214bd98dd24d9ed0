/* TAP for unit tests: one ok() per claim, done_testing() at the end. */
#ifndef SLUICE_TESTS_TAP_H
#define SLUICE_TESTS_TAP_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A claim may come from a table of cases. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"

static int tap_n, tap_failed;
#define ok(cond, ...) tap_ok((cond) ? 1 : 0, __FILE__, __LINE__, __VA_ARGS__)
#define is_str(got, want, ...) tap_is_str((got), (want), __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, ...) tap_is_int((long long)(got), (long long)(want), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((unused, format(printf, 1, 2))) static void note(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    printf("# ");
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
}
__attribute__((format(printf, 4, 0))) static int tap_vok(int good, const char *file, int line, const char *fmt, va_list ap) {
    printf("%sok %d - ", good ? "" : "not ", ++tap_n);
    vprintf(fmt, ap);
    printf("\n");
    if (!good) { tap_failed++; printf("# at %s:%d\n", file, line); }
    fflush(stdout);
    return good;
}
__attribute__((unused, format(printf, 4, 5))) static int tap_ok(int good, const char *file, int line, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    tap_vok(good, file, line, fmt, ap);
    va_end(ap);
    return good;
}
__attribute__((unused, format(printf, 5, 6))) static int tap_is_str(const char *got, const char *want, const char *file, int line, const char *name, ...) {
    va_list ap;
    int good = got && want ? strcmp(got, want) == 0 : got == want;
    va_start(ap, name);
    tap_vok(good, file, line, name, ap);
    va_end(ap);
    if (!good) printf("#  got: %s\n# want: %s\n", got ? got : "(null)", want ? want : "(null)");
    return good;
}
__attribute__((unused, format(printf, 5, 6))) static int tap_is_int(long long got, long long want, const char *file, int line, const char *name, ...) {
    va_list ap;
    int good = got == want;
    va_start(ap, name);
    tap_vok(good, file, line, name, ap);
    va_end(ap);
    if (!good) printf("#  got: %lld\n# want: %lld\n", got, want);
    return good;
}
__attribute__((unused)) static int done_testing(void) {
    printf("1..%d\n", tap_n);
    return tap_failed != 0;
}

#endif
