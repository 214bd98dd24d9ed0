/* DESIGN.
 * 1. Ready means: the entity is owned by this process and its machine runs. Whether it lags is a question for `sluice sync health`, not for the
 *    service manager.
 * 2. Alive is said by the loops that do the work, never by a thread of its own: one that sleeps and sends would vouch for a loop that hangs.
 * 3. Where the work is one long call of a server, the watchdog is told to wait; a kill there would only begin it anew.
 * 4. Nothing depends on whether anybody listens. */
#include "engine/flow/notify.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/text.h"

#define LONG_US "86400000000" /* a day */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1;
static struct sockaddr_un addr;
static socklen_t addr_len;
static char last_status[512];
static int long_depth;
static _Atomic int64_t watchdog_us; /* 0: nobody waits for a sign of life */
static _Atomic int64_t next_us;

static void send_text(const char *text) {
    if (fd >= 0 && sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&addr, addr_len) < 0) return; /* invariant 4 */
}

/* A path, or a name in the abstract namespace after '@'. */
static bool read_address(void) {
    const char *path = getenv("NOTIFY_SOCKET");
    size_t n = path ? strlen(path) : 0;
    if (n < 2 || n >= sizeof addr.sun_path || (path[0] != '/' && path[0] != '@')) return false;
    memset(&addr, 0, sizeof addr);
    addr.sun_family = AF_UNIX;
    memcpy(addr.sun_path, path, n);
    if (path[0] == '@') addr.sun_path[0] = 0;
    addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '/'));
    return true;
}

/* Meant for this process? A child that inherited the variables is not watched. */
static int64_t read_watchdog(void) {
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t v, p;
    if (!us || text_u64(us, &v) < 0 || v == 0 || v > INT64_MAX) return 0;
    if (pid && (text_u64(pid, &p) < 0 || p != (uint64_t)getpid())) return 0;
    return (int64_t)v;
}

void notify_begin(void) {
    pthread_mutex_lock(&lock);
    if (fd >= 0) close(fd);
    fd = -1;
    watchdog_us = 0;
    long_depth = 0;
    last_status[0] = 0;
    if (read_address() && (fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) >= 0) {
        struct timeval second = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
        watchdog_us = read_watchdog();
        next_us = 0;
        send_text("READY=1");
    }
    pthread_mutex_unlock(&lock);
}

void notify_status(const char *fmt, ...) {
    char text[sizeof last_status + 16] = "STATUS=";
    size_t at = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + at, sizeof last_status, fmt, ap);
    va_end(ap);
    /* A newline would begin another variable. */
    for (char *p = text + at; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = ' ';
    pthread_mutex_lock(&lock);
    if (fd >= 0 && strcmp(last_status, text + at) != 0) {
        snprintf(last_status, sizeof last_status, "%s", text + at);
        send_text(text);
    }
    pthread_mutex_unlock(&lock);
}

void notify_stopping(void) {
    pthread_mutex_lock(&lock);
    send_text("STOPPING=1");
    pthread_mutex_unlock(&lock);
}

void notify_alive(void) {
    int64_t span = atomic_load_explicit(&watchdog_us, memory_order_relaxed);
    if (!span) return;
    int64_t now = clock_mono_us(), due = atomic_load(&next_us);
    if (now < due || !atomic_compare_exchange_strong(&next_us, &due, now + span / 4)) return;
    pthread_mutex_lock(&lock);
    send_text("WATCHDOG=1");
    pthread_mutex_unlock(&lock);
}

void notify_long(bool on) {
    char text[64];
    int64_t span = watchdog_us;
    if (!span) return;
    pthread_mutex_lock(&lock);
    if (on && long_depth++ == 0) send_text("WATCHDOG_USEC=" LONG_US);
    if (!on && long_depth > 0 && --long_depth == 0) {
        snprintf(text, sizeof text, "WATCHDOG_USEC=%lld\nWATCHDOG=1", (long long)span);
        send_text(text);
    }
    pthread_mutex_unlock(&lock);
}
