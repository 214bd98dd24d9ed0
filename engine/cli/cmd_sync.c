/* sync from-backup run and stop, sync status. */
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/cli/cli.h"

static int check_stream_id(const char *id, struct err *e) {
    if (!id) {
        err_set(e, CODE_USAGE, "--stream-id is missing");
        return err_hint(e, "it names this broker and its row on the target, and must stay the same over restarts");
    }
    size_t n = strlen(id);
    if (n > 200) return err_set(e, CODE_USAGE, "--stream-id is longer than 200 bytes");
    if (strncmp(id, "restore:", 8) == 0) return err_set(e, CODE_USAGE, "a --stream-id cannot begin with 'restore:', which names what restores leave");
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)id[i] < 0x20) return err_set(e, CODE_USAGE, "--stream-id holds a control character");
    return 0;
}

/* --reset-target-data over whatever the entity is doing now. */
static int to_resetting(struct job *j, struct err *e) {
    const char *s = j->entity.state;
    bool moved;
    if (strcmp(s, "new") == 0 || strcmp(s, "resetting") == 0 || strcmp(s, "refused_reset") == 0 || strcmp(s, "refused_new") == 0) return 0;
    return entity_advance(j->control, &j->entity, "reset", NULL, NULL, NULL, &moved, e);
}

/* --dry-run: a plan of the reset, which the control DB does not even hear of: it would keep the flags as the broker's configuration. */
static int plan_reset(struct args *a, const struct cli_job *cj, const char *store_url, struct err *e) {
    struct job *j = NULL;
    struct buf plan = BUF_INIT(MiB(16));
    int rc = -1;
    if (!a->options.reset) {
        err_set(e, CODE_USAGE, "--dry-run plans a reset: without --reset-target-data a broker only applies links");
        err_hint(e, "see `sluice sync status` for how far it is behind");
        goto out;
    }
    if (job_look("broker", arg(a, "stream-id"), store_url, cj->target_driver, cj->target_dsn, &a->options, &j, e) < 0) goto out;
    if (broker_dry_run(j, &plan, e) < 0) goto out;
    rc = cli_print(&plan, e);
out:
    buf_free(&plan);
    job_close(j);
    return rc;
}

int cmd_broker_run(struct args *a, struct err *e) {
    struct control *c = NULL;
    struct job *j = NULL;
    struct cli_job cj = {.kind = "broker"};
    struct buf did = BUF_INIT(MiB(1));
    char *url = NULL, name[256];
    bool reset = a->options.reset, once = a->options.once;
    int rc = -1;
    if (check_stream_id(arg(a, "stream-id"), e) < 0) goto out;
    if (reset && a->options.at_chain_id) {
        err_set(e, CODE_USAGE, "--reset-target-data and --at-chain-id exclude each other");
        goto out;
    }
    if (a->options.yes && !reset) {
        err_set(e, CODE_USAGE, "--yes confirms --reset-target-data, which is not given");
        goto out;
    }
    if (cli_dsn(a, "target", "SLUICE_TARGET", &cj.target_driver, &cj.target_dsn, e) < 0 || cli_store_url(a, &url, e) < 0) goto out;
    if (a->options.dry_run) {
        rc = plan_reset(a, &cj, url, e);
        goto out;
    }
    if (cli_control(a, &c, e) < 0) goto out;
    snprintf(name, sizeof name, "%s", arg(a, "stream-id"));
    log_stream(name);
    cj.name = name;
    cj.store_url = url;
    if (cli_job_open(a, c, &cj, &j, e) < 0) goto out;
    if (reset && to_resetting(j, e) < 0) goto out;
    if (flow_drive(j, once ? DRIVE_DONE : DRIVE_STOP, 0, NULL, e) < 0) goto out;
    log_info("broker ended", KV_STR("at", j->result.id), KV_U64("links", j->result.links), KV_U64("changes", j->result.changes), KV_STR("by", j->stopper.why[0] ? j->stopper.why : "once"));
    rc = j->result.id[0] ? buf_addf(&did, e, "%s\n", j->result.id) : 0;
    if (rc == 0) rc = cli_print(&did, e);
out:
    buf_free(&did);
    job_close(j);
    control_close(c);
    mem_free(url);
    return rc;
}

int cmd_broker_stop(struct args *a, struct err *e) {
    struct job j = {0};
    struct broker_stop s = {.stream_id = arg(a, "stream-id"), .wait = arg_is(a, "wait")};
    struct buf stopped = BUF_INIT(MiB(1));
    struct store *st = NULL;
    struct chain *ch = NULL;
    const char *driver, *dsn;
    char *url = NULL;
    int rc = -1;
    if (cli_duration(a, "timeout", 300 * INT64_C(1000000), &s.timeout_us, e) < 0 || cli_store_url(a, &url, e) < 0) goto out;
    if (arg_is(a, "target-driver") || arg_is(a, "target")) {
        if (!s.stream_id) {
            err_set(e, CODE_USAGE, "--target needs --stream-id: a target's row is asked by name");
            goto out;
        }
        if (cli_dsn(a, "target", "SLUICE_TARGET", &driver, &dsn, e) < 0 || secret_resolve(dsn, &j.target_dsn, e) < 0) goto out;
        j.target_driver = db_driver_find(driver, e);
    }
    if (cli_chain(url, &st, &ch, e) < 0 || cli_control(a, &j.control, e) < 0) goto out;
    j.store = st;
    j.options = a->options;
    if (flow_broker_stop(&j, &s, &stopped, e) < 0) goto out;
    rc = cli_print(&stopped, e);
out:
    buf_free(&stopped);
    chain_close(ch);
    if (st) store_close(st);
    control_close(j.control);
    if (j.target_dsn) explicit_bzero(j.target_dsn, strlen(j.target_dsn));
    mem_free(j.target_dsn);
    mem_free(url);
    return rc;
}

int cmd_sync_status(struct args *a, struct err *e) {
    struct control *c = NULL;
    enum report_format f;
    int64_t every_us;
    int rc = -1;
    if (cli_format(a, &f, e) < 0 || cli_duration(a, "watch", 0, &every_us, e) < 0) goto out;
    if (arg_is(a, "watch") && every_us <= 0) {
        err_set(e, CODE_USAGE, "--watch takes a duration longer than nothing");
        goto out;
    }
    if (cli_control(a, &c, e) < 0) goto out;
    rc = every_us ? cli_watch(c, "report/status", f, every_us, e) : report_run(c, "report/status", NULL, 0, f, e);
out:
    control_close(c);
    return rc;
}
