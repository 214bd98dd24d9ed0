#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/stop.h"
#include "tests/tap.h"

#define LONG_US INT64_C(60000000)

static int in_child(int (*body)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        _exit(body());
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int readable(void) {
    struct pollfd fd = {stop_fd(), POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
}

static int nothing_asked(void) {
    stop_install();
    int64_t before = clock_mono_us();
    if (stop_asked() || readable() || stop_wait(20000)) return 1;
    if (clock_mono_us() - before < 20000) return 2;
    return stop_wait(0) || stop_wait(-5) ? 3 : 0;
}

static int by(int sig) {
    stop_install();
    raise(sig);
    int64_t before = clock_mono_us();
    if (!stop_asked() || !readable() || !stop_wait(LONG_US)) return 1;
    if (clock_mono_us() - before > LONG_US / 2) return 2;
    return !readable(); /* it stays readable */
}
static int by_term(void) { return by(SIGTERM); }
static int by_int(void) { return by(SIGINT); }

static int second_signal(void) {
    stop_install();
    raise(SIGINT);
    raise(SIGTERM);
    return 1;
}

static int from_inside_then_one_signal(void) {
    stop_install();
    stop_ask();
    if (!stop_asked() || !readable() || !stop_wait(LONG_US)) return 1;
    raise(SIGTERM); /* the first signal is no second one */
    return 0;
}

static int without_install(void) {
    if (stop_wait(1000)) return 1;
    stop_ask();
    return !stop_wait(LONG_US);
}

static int pipe_ignored(void) {
    int p[2];
    stop_install();
    if (pipe(p) < 0) return 1;
    close(p[0]);
    return write(p[1], "x", 1) != -1;
}

static void *asker(void *arg) {
    (void)arg;
    stop_ask();
    return NULL;
}

static int a_waiter_is_woken(void) {
    pthread_t t;
    stop_install();
    pthread_create(&t, NULL, asker, NULL);
    int64_t before = clock_mono_us();
    bool asked = stop_wait(LONG_US);
    pthread_join(t, NULL);
    return !asked || clock_mono_us() - before > LONG_US / 2;
}

static int forever(void) {
    stop_install();
    raise(SIGTERM);
    return !stop_wait(INT64_MAX);
}

int main(void) {
    is_int(in_child(nothing_asked), 0, "a wait that nobody ends lasts its time");
    is_int(in_child(by_term), 0, "TERM asks for a stop");
    is_int(in_child(by_int), 0, "INT too");
    is_int(in_child(second_signal), 130, "a second signal leaves with 130");
    is_int(in_child(from_inside_then_one_signal), 0, "a stop from inside counts as no signal");
    is_int(in_child(without_install), 0, "waits work without handlers");
    is_int(in_child(pipe_ignored), 0, "PIPE is ignored");
    is_int(in_child(a_waiter_is_woken), 0, "another thread's stop ends a wait");
    is_int(in_child(forever), 0, "the longest wait does not overflow");
    return done_testing();
}
