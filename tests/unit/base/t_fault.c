#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "tests/tap.h"

/* Runs three reaches of a.x and one of a.y in a child under SLUICE_FAULT; exit status 10 + number of failed calls. */
static int run(const char *fault, const char *list) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        int failed = 0;
        if (fault) setenv("SLUICE_FAULT", fault, 1);
        if (list) setenv("SLUICE_FAULT_LIST", list, 1);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        fault_setup();
        for (int i = 0; i < 3; i++) failed += FAULT("a.x", &e) < 0;
        failed += FAULT("a.y", &e) < 0;
        if (failed && (e.code != CODE_IO || e.class != ERR_RETRY)) _exit(99);
        _exit(10 + failed);
    }
    int status;
    waitpid(pid, &status, WUNTRACED);
    if (WIFSTOPPED(status)) {
        kill(pid, SIGCONT);
        int end;
        waitpid(pid, &end, 0);
        return 1000 + WEXITSTATUS(end);
    }
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int main(void) {
    struct err e = {0};
    unsetenv("SLUICE_FAULT");
    unsetenv("SLUICE_FAULT_LIST");
    fault_setup();
    ok(!fault_on && FAULT("a.x", &e) == 0, "off without the variables");
    is_int(run(NULL, NULL), 10, "nothing happens");
    is_int(run("a.x", NULL), -SIGKILL, "a name alone kills");
    is_int(run("a.x=kill", NULL), -SIGKILL, "as kill does");
    is_int(run("a.x=err", NULL), 11, "err fails once, at the first reach");
    is_int(run("a.x:3=err", NULL), 11, "at the third");
    is_int(run("a.x:4=err", NULL), 10, "never at the fourth of three");
    is_int(run("a.x:2", NULL), -SIGKILL, "a count without an action");
    is_int(run("a.y=err", NULL), 11, "another point");
    is_int(run("a.z", NULL), 10, "a name that is never reached");
    is_int(run("a.x=stop", NULL), 1010, "stop stops, and goes on when continued");
    int64_t before = clock_mono_us();
    is_int(run("a.x=sleep30", NULL), 10, "sleep goes on");
    ok(clock_mono_us() - before >= 30000, "after the time");
    static const char *const bad[] = {"a.x=explode", "a.x:0", "a.x:x", "a.x:", "nodot", "=err", ":1", "a.x=sleep", "a.x=sleepx"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) is_int(run(bad[i], NULL), 2, "a setting that cannot be read ends the process");
    is_int(run("", NULL), 10, "an empty variable is none");

    char path[] = "/tmp/fault-XXXXXX", text[100] = "";
    int fd = mkstemp(path);
    is_int(run(NULL, path), 10, "listing");
    is_int(run("a.x", path), -SIGKILL, "a kill does not lose its name");
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    is_str(text, "a.x\na.y\na.x\n", "each name once a process, before it acts");
    close(fd);
    unlink(path);
    is_int(run(NULL, "/nonexistent/dir/file"), 2, "a list that cannot be written ends the process");
    return done_testing();
}
