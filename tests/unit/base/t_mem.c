#include "engine/base/mem.h"
#include "tests/tap.h"

int main(void) {
    struct err e = {0};
    char *p = mem_alloc(100, &e);
    int nonzero = 0;
    for (int i = 0; i < 100; i++) nonzero += p[i] != 0;
    is_int(nonzero, 0, "mem_alloc clears");
    memcpy(p, "keep", 5);
    p = mem_resize(p, 100000, &e);
    is_str(p, "keep", "mem_resize keeps the bytes");
    mem_fail_after(0);
    ok(mem_resize(p, 200000, &e) == NULL && e.code == CODE_NO_MEMORY, "a failing resize says so");
    is_str(p, "keep", "and leaves the old memory");
    is_int(e.class, ERR_RETRY, "no memory may be tried again");
    mem_free(p);
    mem_free(NULL);

    mem_fail_after(2);
    void *a = mem_alloc(1, &e), *b = mem_strdup("x", &e), *c = mem_strndup("xyz", 2, &e);
    ok(a && b && !c, "the allocation behind `after` others fails");
    p = mem_printf(&e, "%d-%s", 7, "y");
    is_str(p, "7-y", "and only that one");
    mem_free(a);
    mem_free(b);
    mem_free(p);
    mem_fail_after(0);
    mem_fail_after(-1);
    p = mem_strndup("xyz", 2, &e);
    is_str(p, "xy", "a negative number turns it off; mem_strndup terminates");
    mem_free(p);
    mem_fail_after(0);
    ok(mem_printf(&e, "x") == NULL, "mem_printf can fail");
    p = mem_alloc(0, &e);
    ok(p != NULL, "zero bytes are an allocation");
    mem_free(p);
    ok(mem_strndup("x", (size_t)-1, &e) == NULL, "a length that cannot be terminated");
    return done_testing();
}
