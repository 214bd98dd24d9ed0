/* DESIGN: named failure points.
 *  1. A name that SLUICE_FAULT sets acts exactly once: at its N-th reach in this process.
 *  2. A SLUICE_FAULT that cannot be read ends the process with 2: a crash test that kills nowhere would prove nothing.
 *  3. SLUICE_FAULT_LIST gets a name before the point acts, in one append, so a kill cannot lose it. */
#include "engine/base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/text.h"

#define MAX_POINTS 1024

enum action { ACT_KILL, ACT_ERR, ACT_STOP, ACT_SLEEP };

int fault_on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char target[128];
static uint64_t nth, reached, sleep_ms;
static enum action action;
static int list_fd = -1;
static const char *listed[MAX_POINTS]; /* names are literals: they outlive the table */
static size_t nlisted;

static int parse(const char *text) {
    char copy[192];
    size_t n = strlen(text);
    if (n == 0 || n >= sizeof copy) return -1;
    memcpy(copy, text, n + 1);
    nth = 1;
    action = ACT_KILL;
    char *act = strchr(copy, '=');
    if (act) {
        *act++ = 0;
        if (strcmp(act, "kill") == 0) action = ACT_KILL;
        else if (strcmp(act, "err") == 0) action = ACT_ERR;
        else if (strcmp(act, "stop") == 0) action = ACT_STOP;
        else if (strncmp(act, "sleep", 5) == 0 && text_u64(act + 5, &sleep_ms) == 0 && sleep_ms <= 3600000) action = ACT_SLEEP;
        else return -1;
    }
    char *count = strchr(copy, ':');
    if (count) {
        *count++ = 0;
        if (text_u64(count, &nth) < 0 || nth == 0) return -1;
    }
    n = strlen(copy);
    if (n == 0 || n >= sizeof target || !strchr(copy, '.')) return -1;
    memcpy(target, copy, n + 1);
    return 0;
}

static void give_up(const char *what, const char *value, const char *why) {
    fprintf(stderr, "error: %s '%s' %s\nhint: SLUICE_FAULT=room.name[:N][=kill|err|stop|sleepMS], SLUICE_FAULT_LIST=FILE\n", what, value, why);
    _exit(2);
}

void fault_setup(void) {
    const char *set = getenv("SLUICE_FAULT"), *list = getenv("SLUICE_FAULT_LIST");
    pthread_mutex_lock(&lock);
    fault_on = 0;
    target[0] = 0;
    reached = nlisted = 0;
    if (list_fd >= 0) close(list_fd);
    list_fd = -1;
    if (set && *set) {
        if (parse(set) < 0) give_up("SLUICE_FAULT", set, "cannot be read");
        fault_on = 1;
    }
    if (list && *list) {
        list_fd = open(list, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (list_fd < 0) give_up("SLUICE_FAULT_LIST", list, strerror(errno));
        fault_on = 1;
    }
    pthread_mutex_unlock(&lock);
}

static void list_name(const char *name) {
    char line[160];
    for (size_t i = 0; i < nlisted; i++)
        if (listed[i] == name || strcmp(listed[i], name) == 0) return;
    int n = snprintf(line, sizeof line, "%s\n", name);
    if (nlisted == MAX_POINTS || n >= (int)sizeof line || write(list_fd, line, (size_t)n) != n)
        give_up("SLUICE_FAULT_LIST", name, "cannot be written");
    listed[nlisted++] = name;
}

int fault_hit(const char *name, struct err *e) {
    pthread_mutex_lock(&lock);
    if (list_fd >= 0) list_name(name);
    bool act = target[0] && strcmp(name, target) == 0 && ++reached == nth;
    pthread_mutex_unlock(&lock);
    if (!act) return 0;
    switch (action) {
    case ACT_KILL:
        kill(getpid(), SIGKILL);
        for (;;) pause();
    case ACT_ERR: return err_set_class(e, ERR_RETRY, CODE_IO, "the failure point '%s' was told to fail", name);
    case ACT_STOP: kill(getpid(), SIGSTOP); return 0;
    case ACT_SLEEP: {
        struct timespec left = {(time_t)(sleep_ms / 1000), (long)(sleep_ms % 1000) * 1000000};
        while (nanosleep(&left, &left) < 0 && errno == EINTR) {}
        return 0;
    }
    }
    return 0;
}
