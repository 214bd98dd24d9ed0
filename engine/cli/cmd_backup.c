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
    if (a->options.include_table.n && a->options.exclude_table.n) return err_set(e, CODE_USAGE, "--include-table and --exclude-table exclude each other");
    return 0;
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

/* What lies in the store, before anything is written down: a refused full must leave the producer that is there configured as it was. A chain of the
 * lineage that a planned full of this name was to get is its own: the run was killed before it could say that it was done. */
static int refuse_existing(struct args *a, struct backup *b, struct err *e) {
    struct entity en = {0};
    struct store *s = NULL;
    struct chain *ch = NULL;
    bool found, known;
    int rc = -1;
    if (a->options.force_overwrite) return 0;
    if (entity_find(b->c, "producer", b->name, &en, &known, e) < 0 || store_open(b->url, &s, e) < 0 || chain_open(s, &ch, &found, e) < 0) goto out;
    bool begun = known && (strcmp(en.state, "planned") == 0 || strcmp(en.state, "refused_full") == 0);
    if (found && chain_info(ch)->restorable && !(begun && a->options.lineage && strcmp(a->options.lineage, chain_info(ch)->lineage) == 0)) {
        err_set(e, CODE_CHAIN_EXISTS, "there is a chain at '%s' already", s->url);
        err_hint(e, "extend it with `sluice backup incremental`, or replace it with --force-overwrite");
        goto out;
    }
    rc = 0;
out:
    chain_close(ch);
    store_close(s);
    entity_free(&en);
    return rc;
}

/* A producer that is past its full begins anew: it was asked to, or its chain is gone. */
static int back_to_planned(struct backup *b, struct err *e) {
    struct entity *en = &b->j->entity;
    bool moved;
    if (strcmp(en->state, "planned") == 0 || strcmp(en->state, "refused_full") == 0) return 0;
    return entity_advance(b->c, en, "replace", NULL, NULL, NULL, &moved, e);
}

/* The producer's name; a chain that cannot be read and is to be replaced has none to give. */
static int full_name(struct args *a, struct backup *b, struct err *e) {
    b->name[0] = 0;
    if (cli_producer_name(a, b->c, b->url, b->name, e) < 0) {
        if (!a->options.force_overwrite || (e->code != CODE_MANIFEST_INVALID && e->code != CODE_FORMAT_UNSUPPORTED)) return -1;
        err_clear(e);
    }
    return fresh_name(a, b, e);
}

/* --dry-run: the control DB does not hear of it, since it would keep the flags as the producer's configuration. */
static int plan_full(struct args *a, struct backup *b, struct err *e) {
    const struct list *in = &a->options.include_table, *ex = &a->options.exclude_table;
    struct job j = {.options = a->options, .filter = {in->v, in->n, ex->v, ex->n}};
    struct buf plan = BUF_INIT(MiB(16));
    int rc = -1;
    if (!(j.source_driver = db_driver_find(b->driver, e)) || secret_resolve(b->dsn, &j.source_dsn, e) < 0) goto out;
    if (full_dry_run(&j, &plan, e) == 0) rc = cli_print(&plan, e);
out:
    buf_free(&plan);
    if (j.source_dsn) explicit_bzero(j.source_dsn, strlen(j.source_dsn));
    mem_free(j.source_dsn);
    return rc;
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
    int rc = -1;
    if (begin(a, &b, e) < 0) goto out;
    if (a->options.slot_name && !a->options.chain_slot) {
        err_set(e, CODE_USAGE, "--slot-name names the anchor that --chain-slot makes; without it nothing is made");
        goto out;
    }
    if (a->options.dry_run) {
        rc = plan_full(a, &b, e);
        goto out;
    }
    if (cli_control(a, &b.c, e) < 0 || full_name(a, &b, e) < 0 || refuse_existing(a, &b, e) < 0) goto out;
    if (open_job(a, &b, false, e) < 0) goto out;
    if (back_to_planned(&b, e) < 0) goto out;
    if (flow_drive(b.j, DRIVE_DONE, 0, NULL, e) < 0) goto out;
    rc = print_full(&b, e);
out:
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
        const struct options *o = &b->j->options;
        if (!o->include_table.n && !o->exclude_table.n)
            log_warn("this control DB does not know which tables the chain was begun with; tables made later are looked at without a filter",
                     KV_STR("chain", ci->lineage), KV_STR("hint", "give the full's --include-table or --exclude-table once"));
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
    if (cli_control(a, &b.c, e) < 0) goto out;
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
    if (cli_control(a, &b.c, e) < 0) goto out;
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
