/* What looks at the control DB: sql, machine, history, control …, errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/cli/cli.h"
#include "engine/flow/until.h"

/* Without a query: the sqlite3 shell on the file, so that its dot commands are there. */
static int shell(struct control *c, struct err *e) {
    char *path = mem_strdup(control_path(c), e);
    if (!path) return -1;
    control_close(c);
    execlp("sqlite3", "sqlite3", "-header", "-column", path, (char *)NULL);
    err_set(e, CODE_IO, "the sqlite3 shell is not on the PATH");
    err_hint(e, "install sqlite3, or give a query: sluice sql \"select * from audit limit 5\"");
    mem_free(path);
    return -1;
}

int cmd_sql(struct args *a, struct err *e) {
    struct control *c = NULL;
    enum report_format f;
    if (cli_format(a, &f, e) < 0 || cli_control(a, &c, e) < 0) return -1;
    if (a->npos == 0) return shell(c, e);
    int rc = report_sql(c, a->pos[0], f, e);
    control_close(c);
    return rc;
}

int cmd_machine(struct args *a, struct err *e) {
    struct control *c = NULL;
    struct buf out = BUF_INIT(MiB(1));
    int rc = -1;
    if (cli_control(a, &c, e) < 0) goto out;
    if (machine_print(c, a->npos ? a->pos[0] : NULL, arg_is(a, "dot"), &out, e) < 0) goto out;
    rc = cli_print(&out, e);
out:
    buf_free(&out);
    control_close(c);
    return rc;
}

static int since_us(const char *t, int64_t *us, struct err *e) {
    *us = 0;
    if (!t || until_time_parse(t, us, e) == 0) return 0;
    return err_wrap(e, "--since");
}

int cmd_history(struct args *a, struct err *e) {
    struct control *c = NULL;
    enum report_format f;
    int64_t us;
    int rc = -1;
    if (cli_format(a, &f, e) < 0 || since_us(a->options.since, &us, e) < 0 || cli_control(a, &c, e) < 0) goto out;
    struct bind b[] = {{.name = ":name", .text = a->npos ? a->pos[0] : NULL, .is_null = a->npos == 0}, {.name = ":since_us", .i = us, .is_int = true}};
    rc = report_run(c, "report/history", b, MEM_ARRAY_LEN(b), f, e);
out:
    control_close(c);
    return rc;
}

int cmd_control_check(struct args *a, struct err *e) {
    struct control *c = NULL;
    struct buf findings = BUF_INIT(MiB(16));
    size_t n = 0;
    int rc = -1;
    struct control_opts o = {.path = arg(a, "control"), .actor = a->command->path, .inspect = true};
    if (cli_duration(a, "control-wait", 60 * INT64_C(1000000), &o.wait_us, e) < 0 || control_open(&o, &c, e) < 0) goto out;
    if (control_check(c, &findings, &n, e) < 0) goto out;
    if (n == 0 && buf_adds(&findings, "control DB is what sluice made: schema, triggers, machines, history and every seal\n", e) < 0) goto out;
    if (cli_print(&findings, e) < 0) goto out;
    if (n) {
        err_set(e, CODE_CONTROL_TAMPERED, "%zu finding%s in '%s'", n, n == 1 ? "" : "s", control_path(c));
        err_hint(e, "undo what the lines above name, or put a copy that `sluice control backup` made back");
        goto out;
    }
    rc = 0;
out:
    buf_free(&findings);
    control_close(c);
    return rc;
}

int cmd_control_rebuild(struct args *a, struct err *e) {
    struct control *c = NULL;
    struct buf out = BUF_INIT(MiB(4));
    int rc = -1;
    if (cli_control(a, &c, e) < 0) goto out;
    if (flow_rebuild_control(c, &out, e) < 0) goto out;
    rc = cli_print(&out, e);
out:
    buf_free(&out);
    control_close(c);
    return rc;
}

int cmd_control_backup(struct args *a, struct err *e) {
    struct control *c = NULL;
    int rc = -1;
    if (cli_control(a, &c, e) < 0) goto out;
    if (control_backup(c, a->pos[0], e) < 0) goto out;
    log_info("control DB copied; the key that seals its secrets is not in the copy", KV_STR("to", a->pos[0]));
    rc = 0;
out:
    control_close(c);
    return rc;
}

int cmd_control_export(struct args *a, struct err *e) {
    struct control *c = NULL;
    int rc = -1;
    if (cli_control(a, &c, e) < 0) goto out;
    rc = control_export(c, e);
out:
    control_close(c);
    return rc;
}

static void errors_json(struct jw *w, const char *only) {
    jw_arr(w);
    for (int i = CODE_NONE + 1; i < CODE_COUNT; i++) {
        if (only && strcmp(only, err_code_name(i)) != 0) continue;
        jw_obj(w);
        jw_kv_str(w, "code", err_code_name(i));
        jw_kv_str(w, "class", err_class_name(err_code_class(i)));
        jw_kv_str(w, "meaning", err_code_meaning(i));
        jw_kv_str(w, "remedy", err_code_remedy(i));
        jw_obj_end(w);
    }
    for (int i = MARKER_NONE + 1; i < MARKER_COUNT; i++) {
        if (only && strcmp(only, marker_name(i)) != 0) continue;
        jw_obj(w);
        jw_kv_str(w, "marker", marker_name(i));
        jw_kv_bool(w, "restartable", marker_restartable(i));
        jw_kv_str(w, "inside", marker_parent(i)[0] ? marker_parent(i) : NULL);
        jw_kv_str(w, "meaning", marker_meaning(i));
        jw_kv_str(w, "remedy", marker_remedy(i));
        jw_obj_end(w);
    }
    jw_arr_end(w);
}

static int errors_text(struct buf *out, const char *only, struct err *e) {
    for (int i = CODE_NONE + 1; i < CODE_COUNT; i++)
        if (!only || strcmp(only, err_code_name(i)) == 0)
            if (buf_addf(out, e, "%s (%s)\n  %s\n  remedy: %s\n", err_code_name(i), err_class_name(err_code_class(i)), err_code_meaning(i), err_code_remedy(i)) < 0) return -1;
    for (int i = MARKER_NONE + 1; i < MARKER_COUNT; i++)
        if (!only || strcmp(only, marker_name(i)) == 0)
            if (buf_addf(out, e, "%s (marker, %s%s%s)\n  %s\n  remedy: %s\n", marker_name(i), marker_restartable(i) ? "a restart may clear it" : "only an operator clears it",
                         marker_parent(i)[0] ? ", inside " : "", marker_parent(i), marker_meaning(i), marker_remedy(i)) < 0)
                return -1;
    return 0;
}

int cmd_errors(struct args *a, struct err *e) {
    struct buf out = BUF_INIT(MiB(1));
    struct jw w;
    const char *only = a->npos ? a->pos[0] : NULL;
    bool json;
    int rc = -1;
    if (cli_json(a, &json, e) < 0) goto out;
    jw_begin(&w, &out, e);
    if (json) errors_json(&w, only);
    if (json ? jw_end(&w) < 0 || buf_addc(&out, '\n', e) < 0 : errors_text(&out, only, e) < 0) goto out;
    if (out.n < 4 && only) {
        err_set(e, CODE_NOT_FOUND, "there is no code or marker '%s'", only);
        err_hint(e, "see `sluice errors`");
        goto out;
    }
    rc = cli_print(&out, e);
out:
    buf_free(&out);
    return rc;
}

/* What `make install` puts beside the program. */
static int help_for_programs(struct args *a, struct err *e) {
    struct buf out = BUF_INIT(MiB(1));
    const char *shell = arg(a, "completion");
    int rc = -1;
    if (a->npos || (shell && arg_is(a, "man"))) {
        err_set(e, CODE_USAGE, "--man and --completion stand alone");
        goto out;
    }
    if (shell && strcmp(shell, "bash") != 0) {
        err_set(e, CODE_USAGE, "there is a completion for bash, none for '%s'", shell);
        goto out;
    }
    if ((shell ? cli_completion_bash(&out, e) : cli_man(&out, e)) < 0) goto out;
    rc = cli_print(&out, e);
out:
    buf_free(&out);
    return rc;
}

int cmd_help(struct args *a, struct err *e) {
    char path[128] = "";
    if (arg_is(a, "man") || arg_is(a, "completion")) return help_for_programs(a, e);
    for (int i = 0; i < a->npos; i++) {
        size_t n = strlen(path);
        snprintf(path + n, sizeof path - n, "%s%s", i ? " " : "", a->pos[i]);
    }
    if (a->npos) {
        bool known = false;
        for (size_t i = 0; i < command_count; i++) known = known || strcmp(command_all[i].path, path) == 0;
        if (!known) {
            err_set(e, CODE_USAGE, "there is no verb '%s'", path);
            return err_hint(e, "see `sluice help`");
        }
    }
    cli_help(a->npos ? path : NULL, 0);
    return 0;
}

int cmd_version(struct args *a, struct err *e) {
    (void)a;
    (void)e;
    printf("sluice " CLI_VERSION ", chain format 1\n");
    return 0;
}
