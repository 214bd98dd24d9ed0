/* Who may end a run, and who may not: what was there before the run began. */
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/stop.h"
#include "engine/chain/chain.h"
#include "engine/flow/stopper.h"
#include "tests/tap.h"

static struct err e;
static char dir[256];

static int64_t asked_us;
static bool row_there = true, row_breaks;
static int fake_state(struct target *t, const char *stream, struct target_state *st, bool *found, struct err *er) {
    (void)t, (void)stream;
    if (row_breaks) return err_set(er, CODE_SERVER, "gone");
    *found = row_there;
    st->stop_requested_us = asked_us;
    return 0;
}
static const struct target_ops ops = {.state_read = fake_state};
static const struct db_driver driver = {.name = "fake", .target = &ops};

static void again(struct stopper *s) { s->next_near_us = s->next_far_us = 0; }

static void store_and_target(struct store *st) {
    struct stopper s = {.store = st, .stream_id = "app", .driver = &driver, .target = (struct target *)&s};
    ok(chain_stop_put(st, "app", &e) == 0 && chain_stop_put(st, NULL, &e) == 0, "stops of an earlier day lie in the store");
    asked_us = 55;
    ok(stopper_begin(&s, &e) == 0 && !stopper_asked(&s), "a leftover stop ends no later run");
    again(&s);
    ok(!stopper_asked(&s), "nor at the second look");
    again(&s);
    ok(chain_stop_put(st, "other", &e) == 0 && chain_stop_put(st, CHAIN_STOP_PRODUCER, &e) == 0 && !stopper_asked(&s), "another stream's stop, and the producer's, are not ours");
    ok(chain_stop_put(st, "app", &e) == 0, "a new stop is put");
    ok(!stopper_asked(&s), "it is not looked for at every call");
    again(&s);
    ok(stopper_asked(&s) && strcmp(s.why, "store") == 0 && stopper_asked(&s), "the next look sees it, and it stays");
    ok(stopper_begin(&s, &e) == 0 && !stopper_asked(&s), "a new run begins without it");
    again(&s);
    ok(chain_stop_put(st, NULL, &e) == 0 && stopper_asked(&s), "a stop of all consumers is seen");
    ok(stopper_begin(&s, &e) == 0 && !stopper_asked(&s), "and does not end the next run");
    again(&s);
    row_breaks = true;
    asked_us = 99;
    ok(!stopper_asked(&s), "what cannot be read is no stop");
    row_breaks = false;
    again(&s);
    ok(stopper_asked(&s) && strcmp(s.why, "target") == 0, "the target's row is asked again");
    s.why[0] = 0;
    ok(stopper_begin(&s, &e) == 0 && s.target_seen_us == 99 && !stopper_asked(&s), "the row's old request ends no later run");
    row_there = false;
    asked_us = 0;
    ok(stopper_begin(&s, &e) == 0 && s.target_seen_us == 0, "a target without a row");
    struct stopper late = {.stream_id = "app"};
    row_there = true;
    ok(stopper_begin(&late, &e) == 0, "a run that has no target yet");
    stopper_target(&late, &driver, (struct target *)&s, 0);
    asked_us = 7;
    late.target = NULL; /* the connection broke, and a stop is asked for before the next one */
    again(&late);
    ok(!stopper_asked(&late), "without a connection nothing is seen");
    stopper_target(&late, &driver, (struct target *)&s, asked_us);
    again(&late);
    ok(stopper_asked(&late), "a stop that came while the target was away is no leftover");
}

static void producer(struct store *st) {
    struct stopper s = {.store = st};
    ok(stopper_begin(&s, &e) == 0 && !stopper_asked(&s), "the producer's run begins");
    again(&s);
    ok(chain_stop_put(st, NULL, &e) == 0 && !stopper_asked(&s), "consumers' stops do not end it");
    again(&s);
    ok(chain_stop_put(st, CHAIN_STOP_PRODUCER, &e) == 0 && stopper_asked(&s), "its own does");
}

static void waiting(void) {
    struct stopper s = {0};
    ok(stopper_begin(&s, &e) == 0 && !stopper_wait(&s, 1000), "a wait ends by itself");
    stop_ask();
    ok(stopper_wait(&s, INT64_C(3600) * 1000000) && strcmp(s.why, "signal") == 0, "a signal ends a wait of an hour at once");
}

int main(void) {
    const char *tmp = getenv("TMPDIR");
    struct store *st = NULL;
    char cmd[300];
    snprintf(dir, sizeof dir, "%s/sluice-stop-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir) || store_open_dir(dir, &st, &e) < 0) { printf("Bail out! no folder\n"); return 1; }
    stop_install();
    store_and_target(st);
    producer(st);
    waiting();
    store_close(st);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    if (system(cmd) != 0) note("left behind: %s", dir);
    return done_testing();
}
