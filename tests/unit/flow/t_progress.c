#include <pthread.h>

#include "engine/flow/progress.h"
#include "tests/tap.h"

static void *adds(void *arg) {
    for (int i = 0; i < 10000; i++) progress_add(arg, 0, 1, 3);
    progress_add(arg, 1, 0, 0);
    return NULL;
}

int main(void) {
    static struct progress p;
    pthread_t t[4];
    progress_begin(&p, "load", 4, 40000, 120000);
    p.next_us = 0; /* a line is due: any one thread says it */
    for (int i = 0; i < 4; i++)
        if (pthread_create(&t[i], NULL, adds, &p) != 0) return 1;
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    ok(p.tables == 4 && p.rows == 40000 && p.bytes == 120000, "counters of four threads add up");
    ok(p.next_us > p.began_us, "the next line is due later");
    progress_begin(&p, "load", 0, 0, 0);
    ok(p.rows == 0 && p.bytes == 0 && p.tables == 0, "a new begin counts from nothing");
    progress_end(&p);
    progress_add(NULL, 1, 1, 1);
    progress_begin(NULL, "x", 0, 0, 0);
    progress_end(NULL);
    ok(1, "no progress is fine everywhere");
    return done_testing();
}
