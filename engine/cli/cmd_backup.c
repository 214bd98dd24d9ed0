/* backup full, incremental: the producer's steps by hand. */
#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/cli/cli.h"

struct backup { struct control *c; struct job *j; char *url; char name[256]; const char *driver, *dsn; bool json; };

static void backup_free(struct backup *b) {
    job_close(b->j);
    control_close(b->c);
    mem_free(b->url);
}

static int check_compression(struct args *a, struct err *e) {
    const char *c = a->options.compression;
    if (!c || strcmp(c, "none") == 0 || strcmp(c, "zstd") == 0) return 0;
    return err_set(e, CODE_USAGE, "--compression is none or zstd, not '%s'", c);
}

static int begin(struct args *a, struct backup *b, struct err *e) {
    if (cli_json(a, &b->json, e) < 0 || check_compression(a, e) < 0) return -1;
    if (cli_dsn(a, "source", "SLUICE_SOURCE", &b->driver, &b->dsn, e) < 0) return -1;
    if (cli_store_url(a, &b->url, e) < 0) return -1;
    const struct db_driver *d = db_driver_find(b->driver, e);
    if (!(d->caps & CAP_ALLOW_BLOCKING) && (a->options.allow_blocking || a->options.keyless_max_bytes))
        return err_set(e, CODE_USAGE, "--%s has no meaning for a %s source", a->options.allow_blocking ? "allow-blocking" : "keyless-max-bytes", b->driver);
    if (!(d->caps & CAP_SLOT) && a->options.publish_all) return err_set(e, CODE_USAGE, "--publish-all has no meaning for a %s source", b->driver);
    return cli_control(a, &b->c, e);
}

static int open_job(struct args *a, struct backup *b, bool keep_config, struct err *e) {
    struct cli_job cj = {.keep_config = keep_config, .kind = "producer", .name = b->name, .store_url = b->url, .source_driver = b->driver, .source_dsn = b->dsn};
    return cli_job_open(a, b->c, &cj, &b->j, e);
}

static int kept_lineage(struct args *a, const char *config, struct err *e) {
    json_t *o = config ? json_parse(config, strlen(config), "config", e) : NULL;
    const char *id = o ? json_string_value(json_object_get(o, "lineage")) : NULL;
    int rc = config && !o ? -1 : id ? options_set(&a->options, "lineage", id, e) : 0;
    if (o) json_decref(o);
    return rc;
}

/* A fresh chain's producer is named after the lineage id that the chain will get, unless it was given a name. It keeps that id: by it a run that
 * was killed behind the chain's last write knows the chain for its own. */
static int fresh_name(struct args *a, struct backup *b, struct err *e) {
    char hex[33];
    if (b->name[0]) {
        struct entity en = {0};
        bool found;
        if (entity_find(b->c, "producer", b->name, &en, &found, e) < 0) return -1;
        int rc = found ? kept_lineage(a, en.config, e) : 0;
        entity_free(&en);
        if (rc < 0 || found) return rc;
    }
    if (random_hex16(hex, e) < 0 || random_hex16(hex + 16, e) < 0) return -1;
    if (options_set(&a->options, "lineage", hex, e) < 0) return -1;
    if (!b->name[0]) snprintf(b->name, sizeof b->name, "%.12s", hex);
    return 0;
}

/* The entity's state against what lies in the store: a producer that is past its full begins anew only when asked to, or when its chain is gone. */
static int back_to_planned(struct backup *b, struct err *e) {
    struct entity *en = &b->j->entity;
    struct chain *ch = NULL;
    bool found, moved;
    if (strcmp(en->state, "planned") == 0 || strcmp(en->state, "refused_full") == 0) return 0;
    if (chain_open(b->j->store, &ch, &found, e) < 0) return -1;
    bool complete = found && chain_info(ch)->restorable;
    chain_close(ch);
    if (complete && !b->j->options.force_overwrite) {
        err_set(e, CODE_CHAIN_EXISTS, "there is a chain at '%s' already", b->j->store->url);
        return err_hint(e, "extend it with `sluice backup incremental`, or replace it with --force-overwrite");
    }
    return entity_advance(b->c, en, "replace", NULL, NULL, NULL, &moved, e);
}

static int print_full(struct backup *b, struct err *e) {
    struct job_result *r = &b->j->result;
    struct buf out = BUF_INIT(KiB(16));
    struct jw w;
    int rc = -1;
    if (!b->json) {
        rc = buf_addf(&out, e, "full %s of chain %.12s: %llu tables, %llu rows, %llu bytes, %llu stored%s\n%s\n", r->id, r->lineage, (unsigned long long)r->tables,
                      (unsigned long long)r->rows, (unsigned long long)r->raw_bytes, (unsigned long long)r->stored_bytes, r->resumed ? " (resumed)" : "", r->id);
    } else {
        jw_begin(&w, &out, e);
        jw_obj(&w);
        jw_kv_str(&w, "id", r->id);
        jw_kv_str(&w, "lineage", r->lineage);
        jw_kv_str(&w, "producer", b->name);
        jw_kv_uint(&w, "tables", r->tables);
        jw_kv_uint(&w, "rows", r->rows);
        jw_kv_uint(&w, "bytes", r->raw_bytes);
        jw_kv_uint(&w, "stored_bytes", r->stored_bytes);
        jw_kv_bool(&w, "resumed", r->resumed);
        jw_obj_end(&w);
        rc = jw_end(&w) < 0 ? -1 : buf_addc(&out, '\n', e);
    }
    if (rc == 0) rc = cli_print(&out, e);
    buf_free(&out);
    return rc;
}

int cmd_backup_full(struct args *a, struct err *e) {
    struct backup b = {0};
    struct buf plan = BUF_INIT(MiB(1));
    int rc = -1;
    if (begin(a, &b, e) < 0) goto out;
    if (a->options.slot_name && !a->options.chain_slot) {
        err_set(e, CODE_USAGE, "--slot-name names the anchor that --chain-slot makes; without it nothing is made");
        goto out;
    }
    if (cli_producer_name(a, b.c, b.url, b.name, e) < 0) goto out;
    if (fresh_name(a, &b, e) < 0) goto out;
    bool dry = a->options.dry_run;
    if (open_job(a, &b, false, e) < 0) goto out;
    if (dry) {
        if (full_dry_run(b.j, &plan, e) < 0 || cli_print(&plan, e) < 0) goto out;
        rc = 0;
        goto out;
    }
    if (back_to_planned(&b, e) < 0) goto out;
    if (flow_drive(b.j, DRIVE_DONE, 0, NULL, e) < 0) goto out;
    rc = print_full(&b, e);
out:
    buf_free(&plan);
    backup_free(&b);
    return rc;
}

static int print_incremental(struct backup *b, struct err *e) {
    struct job_result *r = &b->j->result;
    struct buf out = BUF_INIT(KiB(16));
    struct jw w;
    int rc = -1;
    if (!b->json) {
        rc = r->committed ? buf_addf(&out, e, "link %s: %llu row changes, %llu bytes, (%s, %s], ended: %s\n%s\n", r->id, (unsigned long long)r->changes,
                                     (unsigned long long)r->raw_bytes, r->start.token, r->end.token, incremental_end_name(r->why), r->id)
                          : buf_addf(&out, e, "no link: %s\n", incremental_end_name(r->why));
    } else {
        jw_begin(&w, &out, e);
        jw_obj(&w);
        jw_kv_str(&w, "id", r->committed ? r->id : NULL);
        jw_kv_str(&w, "lineage", r->lineage);
        jw_kv_str(&w, "producer", b->name);
        jw_kv_bool(&w, "committed", r->committed);
        jw_kv_str(&w, "ended", incremental_end_name(r->why));
        jw_kv_uint(&w, "changes", r->changes);
        jw_kv_uint(&w, "records", r->records);
        jw_kv_uint(&w, "bytes", r->raw_bytes);
        jw_kv_str(&w, "start", r->start.token);
        jw_kv_str(&w, "end", r->committed ? r->end.token : NULL);
        jw_obj_end(&w);
        rc = jw_end(&w) < 0 ? -1 : buf_addc(&out, '\n', e);
    }
    if (rc == 0) rc = cli_print(&out, e);
    buf_free(&out);
    return rc;
}

/* A chain whose producer this control DB does not know yet (another host made it, or the file was lost) is taken as it is. */
static int adopt_unknown(struct backup *b, struct err *e) {
    struct chain *ch = NULL;
    bool found, moved;
    if (!machine_has_event(b->c, "producer", b->j->entity.state, "adopt")) return 0;
    if (job_chain(b->j, &ch, e) < 0) return -1;
    const struct chain_info *ci = chain_info(ch);
    found = ci->restorable;
    int rc = 0;
    if (!found) {
        err_set(e, CODE_CHAIN_INCOMPLETE, "the full of chain '%.12s' is not complete", ci->lineage);
        rc = err_hint(e, "finish it: run the same `sluice backup full` command again");
    } else if (!ci->extendable) {
        err_set(e, CODE_CHAIN_UNEXTENDABLE, "the full of chain '%.12s' was taken without --chain-slot, so nothing says where changes after it begin", ci->lineage);
        rc = err_hint(e, "take a new full with `sluice backup full --chain-slot --force-overwrite`, or into another place");
    } else {
        rc = entity_advance(b->c, &b->j->entity, "adopt", NULL, NULL, NULL, &moved, e);
    }
    chain_close(ch);
    return rc;
}

/* hop by hop the same entity and step as `backup incremental`, repeated on connections that stay open. */
int cmd_stream_run(struct args *a, struct err *e) {
    struct backup b = {0};
    struct store *s = NULL;
    struct chain *ch = NULL;
    int rc = -1;
    if (begin(a, &b, e) < 0) goto out;
    if (a->options.rollover_us <= 0) {
        err_set(e, CODE_USAGE, "--rollover-window must be longer than nothing");
        goto out;
    }
    if (cli_chain(b.url, &s, &ch, e) < 0) {
        if (e->code == CODE_CHAIN_MISSING) err_hint(e, "root one with `sluice backup full --chain-slot`");
        goto out;
    }
    a->options.continuous = true;
    if (cli_producer_name(a, b.c, b.url, b.name, e) < 0) goto out;
    if (open_job(a, &b, true, e) < 0) goto out;
    log_stream(b.name);
    if (adopt_unknown(&b, e) < 0) goto out;
    rc = flow_drive(b.j, DRIVE_STOP, 0, NULL, e);
    if (rc == 0) log_info("producer ended", KV_STR("by", b.j->stopper.why));
out:
    chain_close(ch);
    if (s) store_close(s);
    backup_free(&b);
    return rc;
}

int cmd_stream_stop(struct args *a, struct err *e) {
    struct store *s = NULL;
    struct chain *ch = NULL;
    char *url = NULL;
    int rc = -1;
    if (cli_store_url(a, &url, e) < 0 || cli_chain(url, &s, &ch, e) < 0) goto out;
    rc = chain_stop_put(s, CHAIN_STOP_PRODUCER, e);
out:
    chain_close(ch);
    if (s) store_close(s);
    mem_free(url);
    return rc;
}

int cmd_backup_incremental(struct args *a, struct err *e) {
    struct backup b = {0};
    struct store *s = NULL;
    struct chain *ch = NULL;
    int rc = -1;
    if (begin(a, &b, e) < 0) goto out;
    if (cli_chain(b.url, &s, &ch, e) < 0) {
        if (e->code == CODE_CHAIN_MISSING) err_hint(e, "root one with `sluice backup full --chain-slot`");
        goto out;
    }
    if (cli_producer_name(a, b.c, b.url, b.name, e) < 0) goto out;
    if (open_job(a, &b, true, e) < 0) goto out;
    if (adopt_unknown(&b, e) < 0) goto out;
    bool dry = b.j->options.dry_run;
    struct buf did = BUF_INIT(KiB(64));
    rc = flow_drive(b.j, DRIVE_DONE, 0, &did, e);
    if (rc == 0) rc = dry ? cli_print(&did, e) : print_incremental(&b, e);
    buf_free(&did);
out:
    chain_close(ch);
    if (s) store_close(s);
    backup_free(&b);
    return rc;
}
