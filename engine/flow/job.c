/* A job is an entity made ready to run: its row, its options, its endpoints with resolved secrets, its store. Every process that runs an entity
 * comes through job_open, so configuring by SQL and by flags cannot differ. */
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/flow.h"

static int endpoint_of(struct job *j, const char *name, const struct db_driver **driver, char **dsn, struct err *e) {
    char *drv = NULL;
    int rc = -1;
    if (!name[0]) return 0;
    if (endpoint_dsn(j->control, name, &drv, dsn, e) < 0) return err_wrap(e, "endpoint '%s'", name);
    if ((*driver = db_driver_find(drv, e)) && (*driver)->dsn_check(*dsn, e) == 0) rc = 0;
    mem_free(drv);
    return rc < 0 ? err_wrap(e, "endpoint '%s'", name) : 0;
}

static int store_of(struct job *j, struct err *e) {
    char *drv = NULL, *url = NULL;
    if (!j->entity.store[0]) return 0;
    if (endpoint_dsn(j->control, j->entity.store, &drv, &url, e) < 0) return err_wrap(e, "endpoint '%s'", j->entity.store);
    int rc = url[0] == '/' || url[0] == '.' ? store_open_dir(url, &j->store, e) : store_open(url, &j->store, e);
    mem_free(drv);
    mem_free(url);
    return rc;
}

static int schema_map(struct job *j, struct err *e) {
    const struct list *l = &j->options.map_schema;
    if (!(j->map_ns = mem_alloc((l->n * 2 + 1) * sizeof *j->map_ns, e))) return -1;
    for (size_t i = 0; i < l->n; i++) {
        const char *eq = strchr(l->v[i], '=');
        if (!eq || eq == l->v[i] || !eq[1]) return err_set(e, CODE_USAGE, "--map-schema takes A=B, not '%s'", l->v[i]);
        if (!(j->map_ns[i * 2] = arena_copy(j->options.arena, l->v[i], (size_t)(eq - l->v[i]), e))) return -1;
        j->map_ns[i * 2 + 1] = eq + 1;
        j->nmap_ns += 2;
    }
    return 0;
}

static int filter_of(struct job *j, struct err *e) {
    const struct options *o = &j->options;
    if (o->include_table.n && o->exclude_table.n) return err_set(e, CODE_USAGE, "--include-table and --exclude-table exclude each other");
    j->filter = (struct table_filter){o->include_table.v, o->include_table.n, o->exclude_table.v, o->exclude_table.n};
    return 0;
}

static int compression_of(const struct job *j, struct err *e) {
    const char *c = j->options.compression;
    if (!c || strcmp(c, "none") == 0 || strcmp(c, "zstd") == 0) return 0;
    return err_set(e, CODE_USAGE, "--compression is none or zstd, not '%s'", c);
}

/* What nobody gave for this run or this entity may have a default of the installation's. */
static int settings_of(struct job *j, struct err *e) {
    char *json = NULL;
    if (settings_json(j->control, &json, e) < 0) return -1;
    int rc = options_defaults(&j->options, json, e);
    mem_free(json);
    return rc;
}

int job_open(struct control *c, const char *kind, const char *name, struct options *o, struct job **out, struct err *e) {
    struct job *j = mem_alloc(sizeof *j, e);
    bool found;
    if (!j) return -1;
    j->control = c;
    j->options = *o;
    memset(o, 0, sizeof *o);
    if (entity_find(c, kind, name, &j->entity, &found, e) < 0) goto bad;
    if (!found) {
        err_set(e, CODE_NOT_FOUND, "there is no %s '%s'", kind, name);
        err_hint(e, "see `sluice sql \"select kind, name, state from entity\"`");
        goto bad;
    }
    if (j->entity.config && options_from_json(&j->options, j->entity.config, e) < 0) {
        err_wrap(e, "%s '%s'", kind, name);
        goto bad;
    }
    if (settings_of(j, e) < 0 || filter_of(j, e) < 0 || schema_map(j, e) < 0 || compression_of(j, e) < 0) goto bad;
    if (endpoint_of(j, j->entity.source, &j->source_driver, &j->source_dsn, e) < 0) goto bad;
    if (endpoint_of(j, j->entity.target, &j->target_driver, &j->target_dsn, e) < 0) goto bad;
    if (store_of(j, e) < 0 || policy_open(j->options.policy, &j->policy, e) < 0) goto bad;
    if (entity_own(c, &j->entity, e) < 0) goto bad;
    j->owned = true;
    *out = j;
    return 0;
bad:
    job_close(j);
    return -1;
}

int job_look(const char *kind, const char *name, const char *store_url, const char *target_driver, const char *target_dsn, struct options *o, struct job **out,
             struct err *e) {
    struct job *j = mem_alloc(sizeof *j, e);
    if (!j) return -1;
    j->options = *o;
    memset(o, 0, sizeof *o);
    snprintf(j->entity.kind, sizeof j->entity.kind, "%s", kind);
    snprintf(j->entity.name, sizeof j->entity.name, "%s", name);
    if (filter_of(j, e) < 0 || schema_map(j, e) < 0) goto bad;
    if (!(j->target_driver = db_driver_find(target_driver, e)) || secret_resolve(target_dsn, &j->target_dsn, e) < 0) goto bad;
    if (j->target_driver->dsn_check(j->target_dsn, e) < 0 || store_open(store_url, &j->store, e) < 0) goto bad;
    *out = j;
    return 0;
bad:
    job_close(j);
    return -1;
}

static void drop_ctx(struct job *j) {
    if (j->ctx) j->ctx_free(j->ctx);
    j->ctx = NULL;
}

static void wipe(char *s) {
    if (s) explicit_bzero(s, strlen(s));
    mem_free(s);
}

void job_close(struct job *j) {
    if (!j) return;
    if (j->side) j->side_free(j->side);
    drop_ctx(j);
    broker_farewell(j);
    if (j->owned) entity_disown(j->control, &j->entity);
    if (j->store) store_close(j->store);
    policy_close(j->policy);
    entity_free(&j->entity);
    options_free(&j->options);
    mem_free(j->map_ns);
    wipe(j->source_dsn);
    wipe(j->target_dsn);
    mem_free(j);
}

enum compression job_compression(const struct job *j) {
    return j->options.compression && strcmp(j->options.compression, "none") == 0 ? COMPRESSION_NONE : COMPRESSION_ZSTD;
}

int job_chain(struct job *j, struct chain **c, struct err *e) {
    bool found;
    if (!j->store) return err_set(e, CODE_CONFIG, "%s '%s' names no store", j->entity.kind, j->entity.name);
    if (chain_open(j->store, c, &found, e) < 0) return -1;
    if (!found) return err_set(e, CODE_CHAIN_MISSING, "there is no chain at '%s'", j->store->url);
    return 0;
}

int job_source(struct job *j, const char *slot_name, struct source **s, struct err *e) {
    if (!j->source_driver) return err_set(e, CODE_CONFIG, "%s '%s' names no source", j->entity.kind, j->entity.name);
    struct source_opts o = {.dsn = j->source_dsn, .slot_name = slot_name, .publish_all = j->options.publish_all, .allow_blocking = j->options.allow_blocking,
                            .keyless_max_bytes = j->options.keyless_max_bytes, .filter = j->filter};
    return j->source_driver->source->open(&o, s, e);
}

int job_target(struct job *j, const char *stream_id, struct target **t, struct err *e) {
    if (!j->target_driver) return err_set(e, CODE_CONFIG, "%s '%s' names no target", j->entity.kind, j->entity.name);
    struct target_opts o = {.dsn = j->target_dsn, .control_schema = j->options.control_schema, .stream_id = stream_id, .look = j->options.dry_run};
    return j->target_driver->target->open(&o, t, e);
}
