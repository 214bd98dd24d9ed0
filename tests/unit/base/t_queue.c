#include <pthread.h>
#include <stdint.h>

#include "engine/base/mem.h"
#include "engine/base/queue.h"
#include "tests/tap.h"

#define ITEMS 20000

struct side {
    struct queue *q;
    uint64_t sum, n;
    int out_of_order, rc;
};

static void *producer(void *arg) {
    struct side *s = arg;
    for (uintptr_t i = 1; i <= ITEMS; i++)
        if (queue_put(s->q, (void *)i) < 0) break;
        else s->n++;
    return NULL;
}

static void *consumer(void *arg) {
    struct side *s = arg;
    void *item;
    uintptr_t last = 0;
    while ((s->rc = queue_get(s->q, &item)) == 0) {
        s->out_of_order += (uintptr_t)item <= last;
        last = (uintptr_t)item;
        s->sum += last;
        s->n++;
    }
    return NULL;
}

static void order_and_closing(void) {
    struct err e = {0};
    struct queue *q = queue_new(3, &e);
    void *item = NULL;
    int a, b, c;
    ok(queue_put(q, &a) == 0 && queue_put(q, &b) == 0 && queue_put(q, &c) == 0, "three fit");
    ok(queue_get(q, &item) == 0 && item == &a, "first in, first out");
    ok(queue_put(q, &a) == 0, "the place is used again");
    queue_close(q);
    is_int(queue_put(q, &a), -1, "nothing goes in once closed");
    ok(queue_get(q, &item) == 0 && item == &b && queue_get(q, &item) == 0 && item == &c && queue_get(q, &item) == 0 && item == &a, "what is in it still comes out");
    is_int(queue_get(q, &item), -1, "then the end");
    queue_free(q);
    queue_free(NULL);
    q = queue_new(0, &e);
    ok(queue_put(q, &a) == 0, "a capacity of 0 is 1");
    queue_free(q);
}

static void two_threads(void) {
    struct err e = {0};
    struct side p = {0}, c = {0};
    pthread_t tp, tc;
    p.q = c.q = queue_new(4, &e);
    pthread_create(&tp, NULL, producer, &p);
    pthread_create(&tc, NULL, consumer, &c);
    pthread_join(tp, NULL);
    queue_close(p.q);
    pthread_join(tc, NULL);
    is_int(c.n, ITEMS, "every item arrives");
    is_int(c.sum, (uint64_t)ITEMS * (ITEMS + 1) / 2, "once");
    is_int(c.out_of_order, 0, "in order");
    is_int(c.rc, -1, "and the consumer sees the end");
    queue_free(p.q);
}

/* Whether the waiter already waits when the queue is closed or not, it must come back. */
static void closing_wakes_both_sides(void) {
    struct err e = {0};
    struct side p = {0}, c = {0};
    pthread_t t;
    p.q = queue_new(2, &e);
    pthread_create(&t, NULL, producer, &p);
    queue_close(p.q);
    pthread_join(t, NULL);
    ok(p.n <= 2, "a producer that waits for room ends at the close");
    queue_free(p.q);
    c.q = queue_new(2, &e);
    pthread_create(&t, NULL, consumer, &c);
    queue_close(c.q);
    pthread_join(t, NULL);
    ok(c.n == 0 && c.rc == -1, "a consumer that waits for an item ends at the close");
    queue_free(c.q);
}

static void allocation_failures(void) {
    struct err e = {0};
    long n = 0;
    struct queue *q;
    for (;; n++) {
        err_clear(&e);
        mem_fail_after(n);
        q = queue_new(100, &e);
        mem_fail_after(-1);
        if (q) break;
        if (e.code != CODE_NO_MEMORY) ok(0, "failure %ld is reported", n);
    }
    ok(n >= 1, "%ld allocations failed one after the other", n);
    ok(queue_put(q, &e) == 0, "the last one works");
    queue_free(q);
    ok(queue_new(SIZE_MAX / 4, &e) == NULL && e.code == CODE_NO_MEMORY, "an absurd capacity fails");
}

int main(void) {
    order_and_closing();
    two_threads();
    closing_wakes_both_sides();
    allocation_failures();
    return done_testing();
}
