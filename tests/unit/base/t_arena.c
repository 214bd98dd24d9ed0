#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/mem.h"
#include "tests/tap.h"

static void pieces(void) {
    struct err e = {0};
    struct arena *a = arena_new(4096, &e);
    char *p[500];
    int misaligned = 0, changed = 0;
    for (int i = 0; i < 500; i++) {
        p[i] = arena_alloc(a, (size_t)i, &e);
        misaligned += (uintptr_t)p[i] % 16 != 0;
        memset(p[i], i & 255, (size_t)i);
    }
    for (int i = 0; i < 500; i++)
        for (int k = 0; k < i; k++) changed += (unsigned char)p[i][k] != (i & 255);
    is_int(misaligned, 0, "every piece is 16-aligned");
    is_int(changed, 0, "pieces do not overlap");
    is_int(arena_bytes(a), 499 * 500 / 2, "handed out bytes are counted");
    is_str(arena_copy(a, "abcdef", 3, &e), "abc", "arena_copy terminates");
    is_str(arena_copy(a, NULL, 0, &e), "", "arena_copy of nothing");
    is_str(arena_printf(a, &e, "%s=%d", "k", 5), "k=5", "arena_printf");
    char *z = arena_zalloc(a, 300, &e);
    int nonzero = 0;
    for (int i = 0; i < 300; i++) nonzero += z[i] != 0;
    is_int(nonzero, 0, "arena_zalloc clears");
    char *keep = arena_copy(a, "small", 5, &e), *big = arena_alloc(a, 100000, &e);
    memset(big, 1, 100000);
    is_str(keep, "small", "a piece larger than a block leaves the others alone");
    arena_reset(a);
    is_int(arena_bytes(a), 0, "reset counts from zero");
    memset(arena_zalloc(a, 4096, &e), 7, 4096);
    z = arena_zalloc(a, 4096, &e);
    nonzero = 0;
    for (int i = 0; i < 4096; i++) nonzero += z[i] != 0;
    is_int(nonzero, 0, "arena_zalloc clears reused blocks too");
    ok(arena_alloc(a, SIZE_MAX, &e) == NULL && e.code == CODE_NO_MEMORY, "an absurd size fails");
    ok(arena_copy(a, "", SIZE_MAX, &e) == NULL, "an absurd copy fails");
    arena_free(a);
    arena_free(NULL);
}

static void a_huge_batch_is_given_back(void) {
    struct err e = {0};
    struct arena *a = arena_new(KiB(64), &e);
    for (int i = 0; i < 1024; i++) arena_alloc(a, KiB(60), &e);
    arena_alloc(a, MiB(40), &e);
    ok(arena_held(a) >= MiB(100), "a huge batch holds %zu bytes", arena_held(a));
    arena_reset(a);
    ok(arena_held(a) <= MiB(16), "after its reset %zu", arena_held(a));
    arena_free(a);

    a = arena_new(MiB(32), &e);
    arena_alloc(a, 1, &e);
    size_t before = arena_held(a);
    arena_reset(a);
    ok(arena_held(a) <= before, "one block of any size may stay");
    arena_free(a);
}

static int work(struct arena **out, struct err *e) {
    struct arena *a = *out = arena_new(1024, e);
    if (!a) return -1;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20; i++) {
            char *p = arena_printf(a, e, "piece %d", i), *q = arena_zalloc(a, 200, e), *r = arena_copy(a, "xyz", 3, e);
            if (!p || !q || !r) return -1;
            q[199] = 1;
        }
        char *own = arena_alloc(a, 5000, e);
        if (!own) return -1;
        memset(own, 2, 5000);
        if (round == 0) arena_reset(a);
    }
    return 0;
}

static void allocation_failures(void) {
    long n = 0;
    for (;; n++) {
        struct err e = {0};
        struct arena *a = NULL;
        mem_fail_after(n);
        int rc = work(&a, &e);
        mem_fail_after(-1);
        if (rc < 0 && e.code != CODE_NO_MEMORY) ok(0, "failure %ld is reported", n);
        if (rc < 0 && a && !arena_alloc(a, 3000, &e)) ok(0, "the arena works on after failure %ld", n);
        arena_free(a);
        if (rc == 0) break;
    }
    ok(n >= 6, "%ld allocations failed one after the other", n);
}

int main(void) {
    pieces();
    a_huge_batch_is_given_back();
    allocation_failures();
    return done_testing();
}
