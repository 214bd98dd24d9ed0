#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "tests/unit/control/help.h"

static void a_put_creates_then_configures(void) {
    struct err e;
    struct control *c = help_open(&e);
    struct entity en = {.kind = "broker", .name = "app"};
    ok(c && entity_put(c, &en, &e) == 0, "created: %s", e.msg);
    is_str(en.state, "new", "in its initial state");
    is_int(en.token, 1, "with token 1");
    is_str(en.config, "{}", "and an empty configuration");
    mem_free(en.config);
    en.config = mem_strdup("{\"once\":true}", &e);
    ok(entity_put(c, &en, &e) == 0 && en.token == 2, "another configuration grows the token");
    ok(entity_put(c, &en, &e) == 0 && en.token == 2, "the same one changes nothing");
    is_str(one("SELECT group_concat(event, ' ') FROM history WHERE actor LIKE 'test (%'"), "created configured",
           "both are in history, by whom");
    mem_free(en.config);
    en.config = NULL;
    ok(entity_put(c, &en, &e) == 0 && en.config && strcmp(en.config, "{\"once\":true}") == 0, "no configuration given keeps what is there");
    snprintf(en.target, sizeof en.target, "nowhere");
    ok(entity_put(c, &en, &e) == -1 && e.code == CODE_CONTROL && strstr(e.msg, "broker 'app'"), "a target that is not there: %s", e.msg);
    err_clear(&e);
    bool found = true;
    ok(entity_find(c, "broker", "absent", &en, &found, &e) == 0 && !found, "an absent one is not found");
    entity_free(&en);
    control_close(c);
}

static void an_advance_moves_once(void) {
    struct err e;
    struct control *c = help_open(&e), *d = help_open(&e);
    struct entity a, b = {0};
    bool moved, found;
    put_broker(c, "race", &a);
    ok(entity_find(d, "broker", "race", &b, &found, &e) == 0 && found, "two look at it");
    ok(entity_advance(c, &a, "warm", "{\"seq\":5}", "{\"at\":5}", NULL, &moved, &e) == 0 && moved, "one moves it: %s", e.msg);
    is_str(a.state, "tailing", "and knows the new state");
    is_str(a.checkpoint, "{\"at\":5}", "and its checkpoint");
    is_int(a.token, 2, "and token");
    ok(entity_advance(d, &b, "reset", NULL, NULL, NULL, &moved, &e) == 0 && !moved, "the other is told that it moved: %s", e.msg);
    is_str(b.state, "tailing", "and looks again");
    is_int(b.token, 2, "with the new token");
    struct err why = {0};
    err_set(&why, CODE_MARK_MISMATCH, "the marks are of another history");
    err_mark(&why, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
    ok(entity_advance(d, &b, "refused", NULL, NULL, &why, &moved, &e) == 0 && moved, "with an error: %s", e.msg);
    is_str(one("SELECT marker || '|' || code || '|' || why || '|' || substr(actor, 1, 6) FROM audit WHERE name = 'race' ORDER BY id DESC "
               "LIMIT 1"),
           "APPLY-MARK-MISMATCH|SLUICE-E-MARK-MISMATCH|the marks are of another history|test (", "history says why");
    is_str(b.checkpoint, "{\"at\":5}", "no checkpoint given keeps what is there");
    ok(entity_advance(d, &b, "warm", NULL, NULL, NULL, &moved, &e) == -1 && e.code == CODE_INTERNAL,
       "an event that does not leave its state: %s", e.msg);
    entity_free(&a);
    entity_free(&b);
    control_close(c);
    control_close(d);
}

static int tell(int fd) {
    return write(fd, "x", 1) == 1 ? 0 : -1;
}
static int hear(int fd) {
    char x;
    return read(fd, &x, 1) == 1 ? 0 : -1;
}

static void an_owner_is_alone_until_it_dies(void) {
    struct err e;
    struct control *c = help_open(&e);
    struct entity en;
    int up[2], down[2];
    put_broker(c, "owned", &en);
    if (pipe(up) || pipe(down)) exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct control *d = help_open(&e);
        struct entity mine = {0};
        bool found;
        if (!d || entity_find(d, "broker", "owned", &mine, &found, &e) < 0 || !found || entity_own(d, &mine, &e) < 0) _exit(1);
        tell(up[1]);
        hear(down[0]);
        _exit(9);
    }
    close(up[1]);
    ok(hear(up[0]) == 0, "another process owns it");
    char want[32];
    snprintf(want, sizeof want, "process %d ", (int)pid);
    ok(entity_own(c, &en, &e) == -1 && e.code == CODE_BUSY && err_exit_code(&e) == 75 && strstr(e.msg, want) && strstr(e.msg, "since 20"),
       "it is busy, and the holder is named: %s", e.msg);
    struct entity other;
    put_broker(c, "free", &other);
    err_clear(&e);
    ok(entity_own(c, &other, &e) == 0, "another entity is free: %s", e.msg);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    err_clear(&e);
    ok(entity_own(c, &en, &e) == 0, "when the owner was killed it is free: %s", e.msg);
    snprintf(want, sizeof want, "%d", (int)getpid());
    is_str(one("SELECT owner_pid FROM entity WHERE name = 'owned'"), want, "and the row names us");
    struct control *d = help_open(&e);
    struct entity again = {0};
    bool found;
    ok(entity_find(d, "broker", "owned", &again, &found, &e) == 0 && entity_own(d, &again, &e) == -1 && e.code == CODE_BUSY,
       "another handle of the same process is refused as well: %s", e.msg);
    entity_disown(c, &en);
    is_str(one("SELECT coalesce(owner_pid, 'nobody') FROM entity WHERE name = 'owned'"), "nobody", "given up");
    err_clear(&e);
    ok(entity_own(d, &again, &e) == 0, "and taken by the other: %s", e.msg);
    is_str(one("SELECT count(*) FROM history WHERE name = 'owned'"), "1", "owning is no move");
    close(up[0]);
    close(down[0]);
    close(down[1]);
    entity_free(&en);
    entity_free(&other);
    entity_free(&again);
    control_close(c);
    control_close(d);
}

static void what_was_read_before_owning_is_read_again(void) {
    struct err e;
    struct control *c = help_open(&e);
    struct entity en;
    put_broker(c, "stale", &en);
    ok(!shell("UPDATE entity SET state = 'tailing', move_event = 'warm' WHERE name = 'stale'"), "a shell moves it");
    ok(entity_own(c, &en, &e) == 0, "owned: %s", e.msg);
    is_str(en.state, "tailing", "the new state is known");
    entity_disown(c, &en);
    entity_free(&en);
    control_close(c);
}

static void a_replaced_lock_file_is_noticed(void) {
    struct err e;
    struct control *c = help_open(&e);
    struct entity en;
    char lock[320];
    snprintf(lock, sizeof lock, "%s.lock", help_path);
    put_broker(c, "lock", &en);
    ok(entity_own(c, &en, &e) == 0 && entity_owner_check(c, &e) == 0, "owned, and the file is ours: %s", e.msg);
    unlink(lock);
    ok(entity_owner_check(c, &e) == -1 && e.code == CODE_FENCED, "removed: %s", e.msg);
    fclose(fopen(lock, "w"));
    err_clear(&e);
    ok(entity_owner_check(c, &e) == -1 && e.code == CODE_FENCED, "replaced: %s", e.msg);
    struct entity second;
    put_broker(c, "lock2", &second);
    ok(entity_own(c, &second, &e) == -1 && e.code == CODE_FENCED, "and nothing more is owned through the old one: %s", e.msg);
    entity_disown(c, &en);
    err_clear(&e);
    ok(entity_own(c, &second, &e) == 0, "with nothing owned, the new file is taken: %s", e.msg);
    entity_free(&en);
    entity_free(&second);
    control_close(c);
}

/* ---- a shell in the way ------------------------------------------------------------------------------------------------ */

struct hold {
    pthread_t thread;
    int ready[2];
    int64_t us;
};

static void *hold_lock(void *arg) {
    struct hold *h = arg;
    sqlite3 *db = NULL;
    sqlite3_open(help_path, &db);
    int rc = sqlite3_exec(db, "BEGIN IMMEDIATE; INSERT INTO setting(name, value) VALUES ('x', 'y')", NULL, NULL, NULL);
    if (rc == SQLITE_OK) tell(h->ready[1]);
    nanosleep(&(struct timespec){h->us / 1000000, h->us % 1000000 * 1000}, NULL);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
    return NULL;
}

static void hold_begin(struct hold *h, int64_t us) {
    h->us = us;
    if (pipe(h->ready) || pthread_create(&h->thread, NULL, hold_lock, h)) exit(1);
    hear(h->ready[0]);
}

static void hold_end(struct hold *h) {
    pthread_join(h->thread, NULL);
    close(h->ready[0]);
    close(h->ready[1]);
}

static void a_shell_transaction_is_waited_for(void) {
    struct err e;
    struct control *c = help_open(&e);
    struct entity en;
    struct hold h;
    bool moved;
    put_broker(c, "patient", &en);
    hold_begin(&h, 400000);
    int64_t t0 = clock_mono_us();
    struct mirror m = {.link_id = "ab", .seq = 7, .lag_us = -1};
    position_mirror(c, &en, &m);
    ok(clock_mono_us() - t0 < 200000, "a mirror does not wait");
    struct control *d = help_open(&e);
    ok(d != NULL && clock_mono_us() - t0 < 300000, "an open does not wait for it either: %s", e.msg);
    control_close(d);
    ok(entity_advance(c, &en, "warm", NULL, NULL, NULL, &moved, &e) == 0 && moved, "a move waits: %s", e.msg);
    ok(clock_mono_us() - t0 >= 350000, "until the shell is done");
    hold_end(&h);
    position_mirror(c, &en, &m);
    is_str(one("SELECT seq || coalesce(lag_us, '-') FROM position"), "7-", "and the next mirror is written");
    struct control_opts o = {.path = help_path, .actor = "hasty", .wait_us = 100000};
    ok(control_open(&o, &d, &e) == 0, "with a short patience");
    hold_begin(&h, 500000);
    ok(entity_advance(d, &en, "stopped", NULL, NULL, NULL, &moved, &e) == -1 && e.code == CODE_CONTROL_LOCKED && err_exit_code(&e) == 75,
       "it ends with 75: %s", e.msg);
    is_str(en.state, "tailing", "and nothing moved");
    hold_end(&h);
    control_close(d);
    entity_free(&en);
    control_close(c);
}

/* ---- crashes -------------------------------------------------------------------------------------------------------------- */

static void crash_at(const char *point, const char *state_after) {
    struct err e;
    struct control *c = help_open(&e);
    struct entity en;
    put_broker(c, point, &en);
    entity_free(&en);
    control_close(c);
    pid_t pid = fork();
    if (pid == 0) {
        bool found, moved;
        struct entity mine = {0};
        setenv("SLUICE_FAULT", point, 1);
        c = help_open(&e);
        if (!c || entity_find(c, "broker", point, &mine, &found, &e) < 0) _exit(1);
        fault_setup();
        entity_advance(c, &mine, "warm", NULL, NULL, NULL, &moved, &e);
        _exit(0);
    }
    int st = 0;
    waitpid(pid, &st, 0);
    ok(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL, "killed at %s", point);
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT state FROM entity WHERE name = '%s'", point);
    is_str(one(sql), state_after, point);
    c = help_open(&e);
    struct buf f = BUF_INIT(65536);
    size_t n = 9;
    ok(c && control_check(c, &f, &n, &e) == 0 && n == 0, "the file is whole: %s%.*s", e.msg, (int)f.n, f.p ? f.p : "");
    buf_free(&f);
    control_close(c);
}

static void the_machine_is_data(void) {
    struct err e;
    struct control *c = help_open(&e);
    char step[64];
    bool tailing;
    ok(machine_step(c, "broker", "tailing", step, &tailing, &e) == 0 && tailing, "a tailing state: %s", e.msg);
    is_str(step, "broker_tail", "its step");
    ok(machine_step(c, "broker", "stopped", step, &tailing, &e) == 0 && !step[0], "a state without a step");
    ok(machine_step(c, "broker", "flying", step, &tailing, &e) == -1 && e.code == CODE_NOT_FOUND, "no such state: %s", e.msg);
    ok(machine_has_event(c, "producer", "rooted", "replace") && !machine_has_event(c, "producer", "rooted", "refused"), "events");
    static const char *const all[] = {"producer_full", "producer_follow", "broker_start", "broker_reset", "broker_tail", "task_run"};
    static const char *const more[] = {"producer_full", "producer_follow", "broker_start", "broker_reset",
                                       "broker_tail",   "task_run",        "task_walk"};
    err_clear(&e);
    ok(machine_check(c, all, 6, &e) == 0, "steps and functions agree: %s", e.msg);
    ok(machine_check(c, all, 5, &e) == -1 && strstr(e.msg, "task_run"), "a step without a function: %s", e.msg);
    ok(machine_check(c, more, 7, &e) == -1 && strstr(e.msg, "task_walk"), "a function without a step: %s", e.msg);
    struct buf out = BUF_INIT(65536);
    ok(machine_print(c, "broker", true, &out, &e) == 0 &&
           strstr(buf_str(&out, &e), "\"broker/new\" -> \"broker/tailing\" [label=\"warm\"]"),
       "as a graph");
    buf_reset(&out);
    ok(machine_print(c, NULL, false, &out, &e) == 0 && strstr(buf_str(&out, &e), "task moves"), "as text");
    ok(machine_print(c, "leg", false, &out, &e) == -1, "no such kind: %s", e.msg);
    buf_free(&out);
    control_close(c);
}

/* The n-th allocation of ours fails, for every n until none does: an error each time, never a crash, and a file that is whole. */
static long sweep(int (*fn)(struct control **c, struct err *e), bool keep, int *wrong) {
    struct err e;
    struct control *c = keep ? help_open(&e) : NULL;
    long n = 0;
    for (int rc = -1; rc < 0 && n < 2000; n++) {
        err_clear(&e);
        mem_fail_after(n);
        rc = fn(&c, &e);
        mem_fail_after(-1);
        if (rc < 0 && e.code != CODE_NO_MEMORY) {
            note("allocation %ld: %s", n, e.msg);
            ++*wrong;
        }
        if (!keep) {
            control_close(c);
            c = NULL;
        }
    }
    control_close(c);
    return n;
}

static int just_open(struct control **c, struct err *e) {
    struct control_opts o = {.path = help_path, .actor = "test"};
    return control_open(&o, c, e);
}

static int whole_life(struct control **c, struct err *e) {
    struct entity en = {.kind = "broker", .name = "mem"};
    char *driver = NULL, *dsn = NULL;
    bool moved;
    int rc = entity_put(*c, &en, e);
    if (rc == 0) rc = entity_own(*c, &en, e);
    if (rc == 0 && strcmp(en.state, "resetting") == 0) rc = entity_advance(*c, &en, "reset_done", NULL, NULL, NULL, &moved, e);
    if (rc == 0) rc = entity_advance(*c, &en, "reset", NULL, "{}", NULL, &moved, e);
    if (rc == 0) rc = endpoint_put(*c, "t", ENDPOINT_TARGET, "postgres", "postgres://u:pw@h/d", e);
    if (rc == 0) rc = endpoint_dsn(*c, "t", &driver, &dsn, e);
    mem_fail_after(-1);
    mem_free(driver);
    mem_free(dsn);
    if (en.id > 0) entity_disown(*c, &en);
    entity_free(&en);
    return rc;
}

static void no_memory_is_an_error(void) {
    struct err e;
    int wrong = 0;
    help_file("memory.db");
    control_close(help_open(&e));
    long opening = sweep(just_open, false, &wrong), living = sweep(whole_life, true, &wrong);
    note("%ld allocations to open, %ld to live", opening, living);
    ok(opening > 5 && opening < 2000 && living > 10 && living < 2000, "both sweeps ended");
    is_int(wrong, 0, "each failure was told as one of memory");
    struct control *c = help_open(&e);
    struct buf f = BUF_INIT(65536);
    size_t found = 9;
    ok(c && control_check(c, &f, &found, &e) == 0 && found == 0, "the file is whole: %s%.*s", e.msg, (int)f.n, f.p ? f.p : "");
    buf_free(&f);
    control_close(c);
}

int main(void) {
    help_begin();
    a_put_creates_then_configures();
    an_advance_moves_once();
    an_owner_is_alone_until_it_dies();
    what_was_read_before_owning_is_read_again();
    a_replaced_lock_file_is_noticed();
    a_shell_transaction_is_waited_for();
    crash_at("control.advance", "new");
    crash_at("control.commit", "new");
    crash_at("control.committed", "tailing");
    the_machine_is_data();
    no_memory_is_an_error();
    help_end();
    return done_testing();
}
