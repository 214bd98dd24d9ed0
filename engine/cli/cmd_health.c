/* sync health: one exit code for a monitor. 0 healthy; 1 something is behind, stale or refused; 2 it could not be told. */
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/cli/cli.h"

#define DEFAULT_SECONDS 900

static int limit(struct args *a, const char *flag, int64_t dflt, struct bind *b, struct err *e) {
    const char *v = arg(a, flag);
    b->is_int = true;
    b->is_null = !v && dflt < 0;
    b->i = dflt;
    if (!v || (text_i64(v, &b->i) == 0 && b->i >= 0)) return 0;
    return err_set(e, CODE_USAGE, "--%s takes a whole number, not '%s'", flag, v);
}

static int judge(struct args *a, int64_t *ill, struct err *e) {
    struct control *c = NULL;
    enum report_format f;
    int64_t rows = 0;
    int rc = -1;
    const char *name = a->npos ? a->pos[0] : NULL;
    struct bind b[] = {{.name = ":name", .text = name, .is_null = !name}, {.name = ":max_links"}, {.name = ":max_seconds"}, {.name = ":max_stale"}};
    if (cli_format(a, &f, e) < 0 || limit(a, "max-lag-links", -1, &b[1], e) < 0 || limit(a, "max-lag-seconds", DEFAULT_SECONDS, &b[2], e) < 0 ||
        limit(a, "max-stale-seconds", DEFAULT_SECONDS, &b[3], e) < 0)
        goto out;
    if (cli_control(a, &c, e) < 0) goto out;
    if (report_judge(c, "report/health", b, MEM_ARRAY_LEN(b), f, "health <> 'healthy'", &rows, ill, e) < 0) goto out;
    if (rows == 0) {
        /* A monitor that watches the wrong file, or a name nobody has, must not stay green. */
        if (name) err_set(e, CODE_NOT_FOUND, "no broker and no producer of '%s' is called '%s'", control_path(c), name);
        else err_set(e, CODE_NOT_FOUND, "there is no broker and no producer in '%s'", control_path(c));
        err_hint(e, "see `sluice sync status`, and --control");
        goto out;
    }
    rc = 0;
out:
    control_close(c);
    return rc;
}

int cmd_sync_health(struct args *a, struct err *e) {
    int64_t ill = 0;
    int rc = judge(a, &ill, e);
    a->exit_code = rc < 0 ? 2 : ill ? 1 : 0;
    return rc;
}
