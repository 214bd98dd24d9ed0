#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/cli/cli.h"

/* Secrets must not end in a core file. */
static void no_cores(void) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

static int setup_log(const struct args *a, struct err *e) {
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    const char *f = arg(a, "log-format"), *l = arg(a, "log-level");
    enum log_level level = LOG_INFO;
    if (f && strcmp(f, "text") != 0 && strcmp(f, "json") != 0) return err_set(e, CODE_USAGE, "--log-format is text or json, not '%s'", f);
    if (l) {
        int found = -1;
        for (int i = 0; i < 4; i++)
            if (strcmp(levels[i], l) == 0) found = i;
        if (found < 0) return err_set(e, CODE_USAGE, "--log-level is error, warn, info or debug, not '%s'", l);
        level = (enum log_level)found;
    }
    log_setup(f && strcmp(f, "json") == 0 ? LOG_JSON : LOG_TEXT, level);
    return 0;
}

/* A statement as a shell takes it: with exactly one semicolon. */
static void explain(const char *sql) {
    size_t n = strlen(sql);
    while (n > 0 && strchr("; \t\n", sql[n - 1])) n--;
    printf("%.*s;\n", (int)n, sql);
}

int main(int argc, char **argv) {
    struct err e = {0};
    struct args a;
    no_cores();
    stop_install();
    fault_setup();
    int rc = args_parse(&a, argc, argv, &e);
    if (rc == 0 && a.command && (rc = setup_log(&a, &e)) == 0) {
        if (arg_is(&a, "explain-sql")) explain(embed_sql(a.command->sql));
        else rc = a.command->run(&a, &e);
    }
    if (rc == 0 && fflush(stdout) != 0) rc = err_set(&e, CODE_IO, "the result could not be written to standard output");
    if (rc < 0 && e.code == CODE_USAGE && e.hint[0] == 0 && a.command) err_hint(&e, "see `sluice help %s`", a.command->path);
    if (rc < 0) log_err(&e);
    args_free(&a);
    return a.exit_code ? a.exit_code : rc < 0 ? err_exit_code(&e) : 0;
}
