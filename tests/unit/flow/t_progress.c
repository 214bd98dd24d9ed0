/* Progress: plain lines where nobody looks, one redrawn line on a terminal. stderr is a file, then a pseudo terminal of our own. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/flow/progress.h"
#include "tests/tap.h"

static char seen[65536];

static void text_of_a_line(void) {
    char out[256];
    struct progress p = {.what = "load", .tables = 3, .rows = 4500, .bytes = 2400000, .tables_total = 12, .bytes_total = 9600000};
    progress_text(&p, 2000000, out, sizeof out);
    is_str(out, "load: 3/12 tables, 4500 rows, 2.4 of 9.6 MB (25%), 1.2 MB/s, 6s to go", "everything is known");
    p.bytes_total = 0;
    progress_text(&p, 2000000, out, sizeof out);
    is_str(out, "load: 3/12 tables, 4500 rows, 2.4 MB, 1.2 MB/s", "no total, no share and no guess");
    p.rows_total = 9000;
    progress_text(&p, 2000000, out, sizeof out);
    is_str(out, "load: 3/12 tables, 4500 rows, 2.4 MB (50%), 1.2 MB/s, 2s to go", "rows when bytes are not known");
    p.bytes_total = 1000;
    progress_text(&p, 2000000, out, sizeof out);
    is_str(out, "load: 3/12 tables, 4500 rows, 2.4 of 0.0 MB (100%), 1.2 MB/s, 0s to go", "never more than the whole");
    p.bytes = 0;
    progress_text(&p, 0, out, 12);
    is_str(out, "load: 3/12 ", "cut where the room ends");
}

/* Run fn with stderr being fd; what it wrote is read from `from` into seen. */
static void with_stderr(int fd, int from, void (*fn)(void)) {
    int saved = dup(STDERR_FILENO);
    size_t n = 0;
    dup2(fd, STDERR_FILENO);
    fn();
    dup2(saved, STDERR_FILENO);
    close(saved);
    struct pollfd p = {from, POLLIN, 0};
    while (n < sizeof seen - 1 && poll(&p, 1, 200) > 0) {
        ssize_t got = read(from, seen + n, sizeof seen - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
    }
    seen[n] = 0;
}

static void work(void) {
    struct progress p = {0};
    progress_begin(&p, "load", 2, 0, 1000);
    for (int64_t until = clock_mono_us() + 450000; clock_mono_us() < until; usleep(10000)) progress_add(&p, 0, 1, 10);
    log_warn("meanwhile", KV_STR("a", "b"));
    progress_add(&p, 2, 0, 0);
    progress_end(&p);
}

static void failing_work(void) {
    struct err e = {0};
    log_status("half way");
    err_set(&e, CODE_IO, "it broke");
    log_err(&e);
    log_note(LOG_INFO, "after");
}

static void wide_status(void) {
    log_status("äöü 456789 and far more than the row of this terminal can hold");
    log_status(NULL);
}

static int count(const char *needle) {
    int n = 0;
    for (const char *p = seen; (p = strstr(p, needle)); p += strlen(needle)) n++;
    return n;
}

static void plain_lines_elsewhere(void) {
    int p[2];
    if (pipe(p) < 0) return;
    setenv("TERM", "xterm", 1);
    with_stderr(p[1], p[0], work);
    ok(strchr(seen, '\r') == NULL && strchr(seen, '\033') == NULL, "no control sequences into a pipe");
    is_int(count("progress: done"), 1, "its end is a line");
    is_int(count("tables=2/2"), 1, "with what was done");
    close(p[0]);
    close(p[1]);
}

static void redrawn_on_a_terminal(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
        note("no pseudo terminal here");
        return;
    }
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct winsize w = {.ws_row = 24, .ws_col = 100};
    ioctl(slave, TIOCSWINSZ, &w);
    fcntl(master, F_SETFL, O_NONBLOCK);
    with_stderr(slave, master, work);
    ok(count("\r\033[Kload: 0/2 tables") >= 2, "the line is redrawn in its place");
    is_int(count("\n"), 2, "and only real lines end: the warning and the end");
    const char *warn = strstr(seen, "meanwhile");
    ok(warn && strstr(warn, "\r\033[Kload: ") != NULL, "a line of the log stands above it, and it comes back below");
    const char *done = strstr(seen, "progress: done");
    ok(done && !strstr(done, "\r\033[Kload"), "at the end it is gone");

    with_stderr(slave, master, failing_work);
    const char *err = strstr(seen, "error: it broke"), *after = strstr(seen, "after");
    ok(err && after && !strstr(err, "half way"), "an error takes it away for good");

    w.ws_col = 10;
    ioctl(slave, TIOCSWINSZ, &w);
    with_stderr(slave, master, wide_status);
    is_str(seen, "\r\033[Käöü 45678\r\033[K", "cut to the terminal's row, by characters");

    setenv("TERM", "dumb", 1);
    with_stderr(slave, master, wide_status);
    is_str(seen, "", "nothing on a dumb terminal");
    setenv("TERM", "xterm", 1);
    log_setup(LOG_JSON, LOG_INFO);
    with_stderr(slave, master, wide_status);
    is_str(seen, "", "nothing among JSON lines");
    log_setup(LOG_TEXT, LOG_WARN);
    with_stderr(slave, master, wide_status);
    is_str(seen, "", "nothing when only warnings are wanted");
    log_setup(LOG_TEXT, LOG_INFO);
    close(slave);
    close(master);
}

static void *adds(void *arg) {
    for (int i = 0; i < 10000; i++) progress_add(arg, 0, 1, 3);
    progress_add(arg, 1, 0, 0);
    return NULL;
}

static void counts_for_many_threads(void) {
    static struct progress p;
    pthread_t t[4];
    progress_begin(&p, "load", 4, 40000, 120000);
    p.next_us = 0; /* a line is due: any one thread says it */
    for (int i = 0; i < 4; i++)
        if (pthread_create(&t[i], NULL, adds, &p) != 0) return;
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
}

int main(void) {
    counts_for_many_threads();
    text_of_a_line();
    plain_lines_elsewhere();
    redrawn_on_a_terminal();
    return done_testing();
}
