/* DESIGN: one stop for the process.
 *  1. Once asked it stays asked, and the descriptor stays readable: nobody drains the pipe.
 *  2. The handler does only what a handler may: set flags, write one byte, _exit.
 *  3. A second signal leaves with 130 whatever the first one's drain is doing; stop_ask counts as no signal. */
#include "engine/base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"

static atomic_int asked; /* set by a signal, read by any thread; lock-free, so a handler may */
static volatile sig_atomic_t signals;
static int pipe_fd[2] = {-1, -1};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_pipe(void) {
    /* Without it no wait could be ended early; at start there is nothing to lose yet. */
    if (pipe2(pipe_fd, O_CLOEXEC | O_NONBLOCK) < 0) abort();
}

static void wake(void) {
    int saved = errno;
    ssize_t ignored = write(pipe_fd[1], "", 1); /* a full pipe is readable already */
    (void)ignored;
    errno = saved;
}

static void on_signal(int sig) {
    (void)sig;
    if (signals) _exit(130);
    signals = 1;
    asked = 1;
    wake();
}

void stop_install(void) {
    struct sigaction a;
    pthread_once(&once, make_pipe);
    memset(&a, 0, sizeof a);
    sigemptyset(&a.sa_mask);
    /* The other signal waits for the handler's end, so that the two of them cannot both be the first. */
    sigaddset(&a.sa_mask, SIGTERM);
    sigaddset(&a.sa_mask, SIGINT);
    a.sa_flags = SA_RESTART;
    a.sa_handler = on_signal;
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGINT, &a, NULL);
    a.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &a, NULL);
}

bool stop_asked(void) { return asked != 0; }

void stop_ask(void) {
    pthread_once(&once, make_pipe);
    asked = 1;
    wake();
}

int stop_fd(void) {
    pthread_once(&once, make_pipe);
    return pipe_fd[0];
}

bool stop_wait(int64_t us) {
    int64_t end, now = clock_mono_us();
    struct pollfd fd = {stop_fd(), POLLIN, 0};
    if (us < 0) us = 0;
    end = us > INT64_MAX - now ? INT64_MAX : now + us;
    while (!asked) {
        int64_t left = end - clock_mono_us();
        if (left <= 0) break;
        if (left > INT64_C(86400000000)) left = INT64_C(86400000000); /* a day a poll: no kernel's time_t is in danger */
        struct timespec ts = {(time_t)(left / 1000000), (long)(left % 1000000) * 1000};
        if (ppoll(&fd, 1, &ts, NULL) < 0 && errno != EINTR) break;
    }
    return asked != 0;
}
