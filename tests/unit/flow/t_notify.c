/* What a service manager hears, read from a socket of our own. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/flow/notify.h"
#include "tests/tap.h"

static char dir[] = "/tmp/sluice-notify.XXXXXX";

/* A manager's socket; the name with a leading '@' lies in the abstract namespace. */
static int manager(const char *name) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    memcpy(a.sun_path, name, n);
    if (name[0] == '@') a.sun_path[0] = 0;
    if (bind(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (name[0] != '@'))) < 0) return -1;
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

/* The next message, or "" when there is none. A datagram to a local socket is there when sendto returns. */
static const char *heard(int fd) {
    static char text[2048];
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static void says_nothing_without_a_socket(void) {
    unsetenv("NOTIFY_SOCKET");
    setenv("WATCHDOG_USEC", "1000", 1);
    notify_begin();
    notify_status("x");
    notify_alive();
    notify_long(true);
    notify_long(false);
    notify_stopping();
    ok(1, "every call without NOTIFY_SOCKET returns");
    unsetenv("WATCHDOG_USEC");
}

static void says_ready_status_stopping(const char *name) {
    int fd = manager(name);
    ok(fd >= 0, "a manager listens on %s", name);
    notify_begin();
    is_str(heard(fd), "READY=1", "it is ready");
    notify_status("broker %s: %d links", "app", 3);
    is_str(heard(fd), "STATUS=broker app: 3 links", "a status");
    notify_status("broker %s: %d links", "app", 3);
    is_str(heard(fd), "", "the same status is sent once");
    notify_status("a\nREADY=0\tb");
    is_str(heard(fd), "STATUS=a READY=0 b", "a newline in a status begins no variable");
    notify_alive();
    is_str(heard(fd), "", "nobody asked for signs of life");
    notify_long(true);
    is_str(heard(fd), "", "nor for a longer watchdog");
    notify_long(false);
    notify_stopping();
    is_str(heard(fd), "STOPPING=1", "it is stopping");
    close(fd);
    notify_status("gone");
    ok(1, "a manager that went away harms nothing");
}

static void keeps_a_watchdog_calm(void) {
    char name[128], pid[32];
    snprintf(name, sizeof name, "%s/w", dir);
    int fd = manager(name);
    setenv("WATCHDOG_USEC", "400000", 1);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    notify_begin();
    is_str(heard(fd), "READY=1", "ready");
    notify_alive();
    is_str(heard(fd), "WATCHDOG=1", "the first sign of life is sent at once");
    int sent = 0, calls = 0;
    for (int64_t until = clock_mono_us() + 410000; clock_mono_us() < until; calls++) {
        notify_alive();
        if (strcmp(heard(fd), "WATCHDOG=1") == 0) sent++;
    }
    ok(sent >= 2 && sent <= 5, "%d signs in one span of the watchdog, of %d calls", sent, calls);
    notify_long(true);
    is_str(heard(fd), "WATCHDOG_USEC=86400000000", "long work makes it wait");
    notify_long(true);
    notify_long(false);
    is_str(heard(fd), "", "long work inside long work says nothing");
    notify_long(false);
    is_str(heard(fd), "WATCHDOG_USEC=400000\nWATCHDOG=1", "and its end puts the span back, with a sign of life");
    setenv("WATCHDOG_PID", "1", 1);
    notify_begin();
    is_str(heard(fd), "READY=1", "ready again");
    notify_alive();
    is_str(heard(fd), "", "a watchdog meant for another process is not answered");
    setenv("WATCHDOG_USEC", "soon", 1);
    unsetenv("WATCHDOG_PID");
    notify_begin();
    heard(fd);
    notify_alive();
    is_str(heard(fd), "", "a span that is no number is none");
    close(fd);
    unlink(name);
}

int main(void) {
    char name[128];
    if (!mkdtemp(dir)) return 1;
    says_nothing_without_a_socket();
    snprintf(name, sizeof name, "%s/s", dir);
    says_ready_status_stopping(name);
    unlink(name);
    snprintf(name, sizeof name, "@sluice-test-%d", (int)getpid());
    says_ready_status_stopping(name);
    setenv("NOTIFY_SOCKET", "relative", 1);
    notify_begin();
    notify_stopping();
    ok(1, "an address of no known form is ignored");
    keeps_a_watchdog_calm();
    rmdir(dir);
    return done_testing();
}
