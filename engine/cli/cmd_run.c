/* `sluice run KIND NAME`: the entity's own row says everything; a step by hand is a real advance and prints what it did. */
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/cli/cli.h"

/* `--until idle` is of this run alone; the job must not take it for a broker's point in time. */
static const char *take_until(struct options *o) {
    const char *until = o->until;
    uint64_t bit = UINT64_C(1) << (option_find("until") - option_all);
    o->until = NULL;
    o->set &= ~bit;
    o->flags &= ~bit;
    return until;
}

int cmd_run(struct args *a, struct err *e) {
    struct control *c = NULL;
    struct job *j = NULL;
    struct buf did = BUF_INIT(MiB(16));
    const char *steps_text = arg(a, "steps"), *until = take_until(&a->options);
    char kind[16], name[256];
    uint64_t steps = 0;
    int rc = -1;
    if (steps_text && (text_u64(steps_text, &steps) < 0 || steps == 0)) {
        err_set(e, CODE_USAGE, "--steps takes a number from 1 on, not '%s'", steps_text);
        goto out;
    }
    if (until && strcmp(until, "idle") != 0) {
        err_set(e, CODE_USAGE, "--until knows only idle, not '%s'", until);
        goto out;
    }
    if (until && steps_text) {
        err_set(e, CODE_USAGE, "--steps and --until exclude each other");
        goto out;
    }
    if (!until && !steps_text) steps = 1;
    if (snprintf(kind, sizeof kind, "%s", a->pos[0]) >= (int)sizeof kind || snprintf(name, sizeof name, "%s", a->pos[1]) >= (int)sizeof name) {
        err_set(e, CODE_USAGE, "there is no %.40s of such a name", a->pos[0]);
        goto out;
    }
    if (cli_control(a, &c, e) < 0) goto out;
    if (strcmp(kind, "broker") == 0) log_stream(name);
    if (job_open(c, kind, name, &a->options, &j, e) < 0) goto out;
    rc = flow_drive(j, DRIVE_IDLE, steps, &did, e);
    struct err printing = {0};
    if (cli_print(&did, rc == 0 ? e : &printing) < 0 && rc == 0) rc = -1;
out:
    buf_free(&did);
    job_close(j);
    control_close(c);
    return rc;
}
