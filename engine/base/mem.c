#include "engine/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Per thread, so that a test's sweep does not hit another thread's allocation. Negative: off. */
static _Thread_local long fail_after = -1;

void mem_fail_after(long after) { fail_after = after; }

static bool fails_now(void) {
    if (__builtin_expect(fail_after < 0, 1)) return false;
    if (fail_after > 0) {
        fail_after--;
        return false;
    }
    fail_after = -1;
    return true;
}

static void *no_memory(size_t n, struct err *e) {
    err_set(e, CODE_NO_MEMORY, "cannot get %zu bytes of memory", n);
    return NULL;
}

void *mem_alloc(size_t n, struct err *e) {
    void *p = fails_now() ? NULL : calloc(1, n ? n : 1);
    return p ? p : no_memory(n, e);
}

void *mem_resize(void *p, size_t n, struct err *e) {
    void *q = fails_now() ? NULL : realloc(p, n ? n : 1);
    return q ? q : no_memory(n, e);
}

char *mem_strndup(const char *s, size_t n, struct err *e) {
    if (n == (size_t)-1) return no_memory(n, e);
    char *p = fails_now() ? NULL : malloc(n + 1);
    if (!p) return no_memory(n, e);
    if (n) memcpy(p, s, n);
    p[n] = 0;
    return p;
}

char *mem_strdup(const char *s, struct err *e) { return mem_strndup(s, strlen(s), e); }

char *mem_printf(struct err *e, const char *fmt, ...) {
    va_list ap, again;
    char *p = NULL;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) {
        err_set(e, CODE_INTERNAL, "cannot format '%s'", fmt);
        goto out;
    }
    p = fails_now() ? NULL : malloc((size_t)n + 1);
    if (!p) {
        no_memory((size_t)n + 1, e);
        goto out;
    }
    vsnprintf(p, (size_t)n + 1, fmt, again);
out:
    va_end(again);
    va_end(ap);
    return p;
}

void mem_free(void *p) { free(p); }
