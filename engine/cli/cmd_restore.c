#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/cli/cli.h"

/* One task per chain and target: a killed restore is found again by the same command. */
static int task_name(const char *store_url, const char *dsn, char name[256], struct err *e) {
    struct store *s = NULL;
    struct chain *c = NULL;
    char hex[65];
    if (cli_chain(store_url, &s, &c, e) < 0) return -1;
    int rc = sha256_hex(dsn, strlen(dsn), hex, e);
    if (rc == 0) snprintf(name, 256, "restore:%.12s:%.8s", chain_info(c)->lineage, hex);
    chain_close(c);
    store_close(s);
    return rc;
}

static int print(const struct job_result *r, bool json, struct err *e) {
    struct buf out = BUF_INIT(KiB(16));
    struct jw w;
    int rc;
    if (!json) {
        rc = buf_addf(&out, e, "restored %llu tables, %llu rows, %llu changes from %llu links%s\n%s\n", (unsigned long long)r->tables, (unsigned long long)r->rows,
                      (unsigned long long)r->changes, (unsigned long long)r->links, r->resumed ? " (resumed)" : "", r->id[0] ? r->id : "(inside a link: go on with --at-chain-id restore)");
    } else {
        jw_begin(&w, &out, e);
        jw_obj(&w);
        jw_kv_str(&w, "tail_id", r->id[0] ? r->id : NULL);
        jw_kv_uint(&w, "seq", r->seq);
        jw_kv_str(&w, "lineage", r->lineage);
        jw_kv_uint(&w, "tables", r->tables);
        jw_kv_uint(&w, "rows", r->rows);
        jw_kv_uint(&w, "bytes", r->raw_bytes);
        jw_kv_uint(&w, "links", r->links);
        jw_kv_uint(&w, "changes", r->changes);
        jw_kv_uint(&w, "missing", r->missing);
        jw_kv_bool(&w, "resumed", r->resumed);
        jw_obj_end(&w);
        rc = jw_end(&w) < 0 ? -1 : buf_addc(&out, '\n', e);
    }
    if (rc == 0) rc = cli_print(&out, e);
    buf_free(&out);
    return rc;
}

int cmd_restore(struct args *a, struct err *e) {
    struct control *c = NULL;
    struct job *j = NULL;
    struct cli_job cj = {.kind = "task"};
    struct buf plan = BUF_INIT(MiB(1));
    char name[256], *url = NULL;
    bool json, dry = a->options.dry_run;
    int rc = -1;
    if ((a->options.to_id != NULL) + (a->options.to_position != NULL) + (a->options.to_time != NULL) > 1) {
        err_set(e, CODE_USAGE, "--to-id, --to-position and --to-time exclude each other");
        goto out;
    }
    if (cli_json(a, &json, e) < 0 || cli_dsn(a, "target", "SLUICE_TARGET", &cj.target_driver, &cj.target_dsn, e) < 0 || cli_store_url(a, &url, e) < 0) goto out;
    if (task_name(url, cj.target_dsn, name, e) < 0) goto out;
    if (dry) { /* the control DB does not hear of it */
        if (job_look("task", name, url, cj.target_driver, cj.target_dsn, &a->options, &j, e) < 0 || restore_dry_run(j, &plan, e) < 0) goto out;
        rc = cli_print(&plan, e);
        goto out;
    }
    if (cli_control(a, &c, e) < 0) goto out;
    cj.name = name;
    cj.store_url = url;
    if (cli_job_open(a, c, &cj, &j, e) < 0) goto out;
    if (flow_drive(j, DRIVE_DONE, 0, NULL, e) < 0) goto out;
    rc = print(&j->result, json, e);
out:
    buf_free(&plan);
    job_close(j);
    control_close(c);
    mem_free(url);
    return rc;
}
