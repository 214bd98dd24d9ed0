#include "engine/flow/hook.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"

#define LIMIT_US (30 * INT64_C(1000000))
#define LOOK_US 20000

extern char **environ;

/* The child in a process group of its own, so that the limit ends what it started too. */
static int start(const char *cmd, char *const *env, pid_t *pid) {
    posix_spawnattr_t attr;
    char sh[] = "sh", c[] = "-c";
    char *argv[] = {sh, c, (char *)(uintptr_t)cmd, NULL};
    sigset_t none, dflt;
    sigemptyset(&none);
    sigemptyset(&dflt);
    sigaddset(&dflt, SIGPIPE); /* we ignore it; a shell's pipelines rely on it */
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attr, &dflt);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    int rc = posix_spawn(pid, "/bin/sh", NULL, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    return rc;
}

static int wait_for(pid_t pid) {
    int status = 0;
    for (int64_t until = clock_mono_us() + LIMIT_US; clock_mono_us() < until; usleep(LOOK_US)) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid) return status;
        if (got < 0) return -1;
    }
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

void rollover_hook(struct job *j) {
    const struct job_result *r = &j->result;
    struct err e = {0};
    char vars[6][640];
    pid_t pid;
    size_t n = 0;
    if (!j->options.rollover_hook) return;
    snprintf(vars[0], sizeof vars[0], "SLUICE_LINK_ID=%s", r->id);
    snprintf(vars[1], sizeof vars[1], "SLUICE_LINEAGE=%s", r->lineage);
    snprintf(vars[2], sizeof vars[2], "SLUICE_PRODUCER=%s", j->entity.name);
    snprintf(vars[3], sizeof vars[3], "SLUICE_CHANGES=%llu", (unsigned long long)r->changes);
    snprintf(vars[4], sizeof vars[4], "SLUICE_BYTES=%llu", (unsigned long long)r->raw_bytes);
    snprintf(vars[5], sizeof vars[5], "SLUICE_END_POSITION=%s", r->end.token);
    while (environ[n]) n++;
    char **env = mem_alloc((n + MEM_ARRAY_LEN(vars) + 1) * sizeof *env, &e);
    if (!env) return;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) /* DSNs hold passwords that the hook has no business with */
        if (strncmp(environ[i], "SLUICE_SOURCE=", 14) != 0 && strncmp(environ[i], "SLUICE_TARGET=", 14) != 0) env[kept++] = environ[i];
    for (size_t i = 0; i < MEM_ARRAY_LEN(vars); i++) env[kept + i] = vars[i];
    int status = start(j->options.rollover_hook, env, &pid) == 0 ? wait_for(pid) : -1;
    if (status != 0) log_warn("the rollover hook failed; the link is durable all the same", KV_STR("link", r->id), KV_I64("status", status));
    mem_free(env);
}
