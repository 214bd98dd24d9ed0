/* Batches grow, are reset and give back what a huge transaction took. */
#include "engine/base/change.h"

#include "engine/base/mem.h"
#include "tests/tap.h"

static void grows_and_resets(void) {
    struct batch b;
    struct err e = {0};
    is_int(batch_init(&b, KiB(16), &e), 0, "a batch begins");
    static const uint8_t ops[] = {CHANGE_INSERT, CHANGE_UPDATE, CHANGE_DELETE, CHANGE_TRUNCATE, CHANGE_COMMIT, CHANGE_SHAPE};
    for (int i = 0; i < 600; i++) {
        struct change *c = batch_add(&b, &e);
        if (!c || c->before || c->seq) break;
        c->op = ops[i % 6];
        c->seq = (uint64_t)i + 1;
    }
    is_int(b.n, 600, "600 records, each zeroed");
    is_int(b.v[599].seq, 600, "they kept their content while the array grew");
    is_int(batch_rows(&b), 300, "inserts, updates and deletes are rows, the others are not");
    b.ends_at_commit = true;
    arena_alloc(b.arena, 1000, &e);
    batch_reset(&b);
    ok(b.n == 0 && !b.ends_at_commit && arena_bytes(b.arena) == 0 && b.cap >= 600, "a reset empties it and keeps the room");
    while (b.n < 100000 && batch_add(&b, &e)) {}
    batch_reset(&b);
    is_int(b.cap, 0, "a huge one gives its room back");
    struct change *c = batch_add(&b, &e);
    ok(c && c->op == 0, "and is usable again");
    batch_free(&b);
    ok(b.v == NULL && b.arena == NULL, "freed to the zero state");
    batch_free(&b);
}

static void failing_memory_is_told(void) {
    int failed = 0;
    for (long k = 0; k < 8; k++) {
        struct batch b;
        struct err e = {0};
        mem_fail_after(k);
        int rc = batch_init(&b, KiB(1), &e);
        for (int i = 0; rc == 0 && i < 200; i++)
            rc = batch_add(&b, &e) ? 0 : -1;
        mem_fail_after(-1);
        failed += rc < 0;
        if (rc < 0) ok(e.code == CODE_NO_MEMORY, "allocation %ld fails", k);
        else is_int(b.n, 200, "no allocation fails any more");
        batch_free(&b);
    }
    ok(failed >= 3, "the sweep met every allocation");
}

int main(void) {
    grows_and_resets();
    failing_memory_is_told();
    return done_testing();
}
