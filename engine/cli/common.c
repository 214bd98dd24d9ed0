/* What several verbs need: the control DB, the store's and the database's address, the entity behind a verb. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/cli/cli.h"

int cli_control(struct args *a, struct control **c, struct err *e) {
    struct control_opts o = {.path = arg(a, "control"), .actor = a->command->path};
    if (cli_duration(a, "control-wait", 60 * INT64_C(1000000), &o.wait_us, e) < 0) return -1;
    return control_open(&o, c, e);
}

int cli_duration(struct args *a, const char *flag, int64_t dflt_us, int64_t *us, struct err *e) {
    const char *v = arg(a, flag);
    *us = dflt_us;
    if (v && clock_duration_parse(v, us, e) < 0) return err_set(e, CODE_USAGE, "--%s takes a duration such as 10s or 5m, not '%s'", flag, v);
    return 0;
}

int cli_format(struct args *a, enum report_format *f, struct err *e) {
    const char *v = arg(a, "format");
    *f = REPORT_TABLE;
    if (!v || strcmp(v, "table") == 0 || strcmp(v, "text") == 0) return 0;
    if (strcmp(v, "json") == 0) *f = REPORT_JSON;
    else if (strcmp(v, "csv") == 0) *f = REPORT_CSV;
    else return err_set(e, CODE_USAGE, "--format is table, json or csv, not '%s'", v);
    return 0;
}

int cli_json(struct args *a, bool *json, struct err *e) {
    const char *v = arg(a, "format");
    *json = v && strcmp(v, "json") == 0;
    if (!v || *json || strcmp(v, "text") == 0) return 0;
    return err_set(e, CODE_USAGE, "--format is text or json, not '%s'", v);
}

/* What a folder cannot use is refused by its name rather than ignored. */
static int check_store_flags(struct args *a, struct err *e) {
    static const char *const remote[] = {"backup-endpoint", "backup-region", "backup-path-style"};
    static const char *const sealing[] = {"encrypt", "encryption-passphrase", "encryption-passphrase-env", "encryption-passphrase-file", "encrypt-mode"};
    for (size_t i = 0; i < MEM_ARRAY_LEN(remote); i++)
        if (arg_is(a, remote[i])) return err_set(e, CODE_USAGE, "--%s has no meaning for a file:// store", remote[i]);
    for (size_t i = 0; i < MEM_ARRAY_LEN(sealing); i++)
        if (arg_is(a, sealing[i])) return err_set(e, CODE_USAGE, "--%s: this version does not seal chains", sealing[i]);
    return 0;
}

/* A folder's name is no URL: what a URL would read otherwise is escaped. */
static int add_path(struct buf *b, const char *p, struct err *e) {
    for (; *p; p++)
        if ((strchr("%?#", *p) ? buf_addf(b, e, "%%%02X", (unsigned char)*p) : buf_addc(b, *p, e)) < 0) return -1;
    return 0;
}

static int absolute_dir(const char *dir, char **url, struct err *e) {
    struct buf b = BUF_INIT(4 * PATH_MAX);
    char cwd[PATH_MAX] = "";
    int rc = -1;
    if (dir[0] != '/' && !getcwd(cwd, sizeof cwd)) return err_set(e, CODE_IO, "the working directory cannot be read: %s", strerror(errno));
    while (strncmp(dir, "./", 2) == 0) dir += 2;
    if (buf_adds(&b, "file://", e) < 0 || add_path(&b, cwd, e) < 0 || (dir[0] != '/' && buf_addc(&b, '/', e) < 0) || add_path(&b, dir, e) < 0) goto out;
    rc = (*url = buf_take(&b, NULL, e)) ? 0 : -1;
out:
    buf_free(&b);
    return rc;
}

int cli_store_url(struct args *a, char **url, struct err *e) {
    static const char *const pairs[][2] = {{"from", "from-dir"}, {"backup-target", "backup-dir"}, {"target", "output-dir"}};
    const char *u = NULL, *d = NULL, *un = NULL, *dn = NULL;
    bool restore = strcmp(a->command->path, "restore") == 0, broker = strncmp(a->command->path, "sync ", 5) == 0;
    for (size_t i = 0; i < MEM_ARRAY_LEN(pairs); i++) {
        if (i == 2 && (restore || broker)) continue; /* there --target is the database */
        if (broker != (i == 1)) continue;
        if (!un || i == 2) {
            un = un ? un : pairs[i][0];
            dn = dn ? dn : pairs[i][1];
        }
        for (int k = 0; k < 2; k++) {
            const char *v = arg(a, pairs[i][k]);
            if (!v) continue;
            if (u || d) return err_set(e, CODE_USAGE, "the store is named twice: --%s and --%s exclude each other", u ? un : dn, pairs[i][k]);
            if (k == 0) {
                u = v;
                un = pairs[i][0];
            } else {
                d = v;
                dn = pairs[i][1];
            }
        }
    }
    if (strncmp(a->command->path, "backup full", 11) == 0 || strncmp(a->command->path, "backup inc", 10) == 0 || strncmp(a->command->path, "backup str", 10) == 0) {
        un = "target";
        dn = "output-dir";
    }
    if (!u && !d) {
        err_set(e, CODE_USAGE, "no store is named");
        return err_hint(e, "give --%s URL or --%s DIR", un, dn);
    }
    if (check_store_flags(a, e) < 0) return -1;
    return d ? absolute_dir(d, url, e) : (*url = mem_strdup(u, e)) ? 0 : -1;
}

int cli_dsn(struct args *a, const char *role, const char *env, const char **driver, const char **dsn, struct err *e) {
    char flag[32];
    snprintf(flag, sizeof flag, "%s-driver", role);
    *driver = arg(a, flag);
    *dsn = arg(a, role);
    if (!*dsn) *dsn = getenv(env);
    if (!*driver) return err_set(e, CODE_USAGE, "--%s is missing", flag);
    const struct db_driver *d = db_driver_find(*driver, e);
    if (!d) return -1;
    if (!*dsn || !**dsn) {
        err_set(e, CODE_USAGE, "no %s is named", role);
        return err_hint(e, "give --%s DSN or set %s", role, env);
    }
    char *resolved = NULL;
    if (secret_resolve(*dsn, &resolved, e) < 0) return -1;
    int rc = d->dsn_check(resolved, e);
    explicit_bzero(resolved, strlen(resolved));
    mem_free(resolved);
    return rc < 0 ? err_wrap(e, "--%s", role) : 0;
}

static int put_endpoint(struct control *c, const char *entity, enum endpoint_role role, const char *driver, const char *dsn, char out[128], struct err *e) {
    static const char *const suffix[] = {"source", "target", "store"};
    if (!dsn) return 0;
    if (snprintf(out, 128, "%s.%s", entity, suffix[role]) >= 128) return err_set(e, CODE_USAGE, "the name '%.40s…' is too long", entity);
    return endpoint_put(c, out, role, driver, dsn, e);
}

/* How far one incremental goes is of that run alone. */
static void drop_bounds(struct options *o) {
    static const char *const bounds[] = {"window", "max-changes"};
    for (size_t i = 0; i < MEM_ARRAY_LEN(bounds); i++) o->set &= ~(UINT64_C(1) << (option_find(bounds[i]) - option_all));
}

int cli_job_open(struct args *a, struct control *c, const struct cli_job *cj, struct job **j, struct err *e) {
    struct entity en = {0}, was = {0};
    struct buf config = BUF_INIT(KiB(64));
    bool found = false, held = false;
    int rc = -1;
    if (entity_find(c, cj->kind, cj->name, &was, &found, e) < 0) goto out;
    if (found && entity_own(c, &was, e) < 0) goto out; /* what another process runs stays configured as it is */
    held = found;
    found = found && cj->keep_config;
    if (found && options_from_json(&a->options, was.config, e) < 0) goto out;
    snprintf(en.kind, sizeof en.kind, "%s", cj->kind);
    snprintf(en.name, sizeof en.name, "%s", cj->name);
    if (put_endpoint(c, cj->name, ENDPOINT_SOURCE, cj->source_driver, cj->source_dsn, en.source, e) < 0) goto out;
    if (put_endpoint(c, cj->name, ENDPOINT_TARGET, cj->target_driver, cj->target_dsn, en.target, e) < 0) goto out;
    if (put_endpoint(c, cj->name, ENDPOINT_STORE, "file", cj->store_url, en.store, e) < 0) goto out;
    if (found) {
        en.config = was.config;
        was.config = NULL;
    } else {
        size_t n;
        struct options kept = a->options;
        if (cj->keep_config) drop_bounds(&kept);
        if (options_to_json(&kept, &config, e) < 0 || !(en.config = buf_take(&config, &n, e))) goto out;
    }
    if (entity_put(c, &en, e) < 0) goto out;
    if (held) entity_disown(c, &was);
    held = false;
    rc = job_open(c, cj->kind, cj->name, &a->options, j, e);
out:
    if (held) entity_disown(c, &was);
    entity_free(&was);
    entity_free(&en);
    buf_free(&config);
    return rc;
}

int cli_chain(const char *url, struct store **s, struct chain **c, struct err *e) {
    bool found;
    *c = NULL;
    if (store_open(url, s, e) < 0) return -1;
    if (chain_open(*s, c, &found, e) == 0) {
        if (found) return 0;
        err_set(e, CODE_CHAIN_MISSING, "there is no chain at '%s'", url);
    }
    store_close(*s);
    *s = NULL;
    return -1;
}

int cli_producer_name(struct args *a, struct control *c, const char *store_url, char name[256], struct err *e) {
    struct store *s = NULL;
    struct chain *ch = NULL;
    bool found;
    int rc = -1;
    if (arg(a, "name")) {
        snprintf(name, 256, "%s", arg(a, "name"));
        return 0;
    }
    if (entity_by_store(c, "producer", store_url, name, &found, e) < 0) return -1;
    if (found) return 0;
    if (store_open(store_url, &s, e) < 0) return -1;
    if (chain_open(s, &ch, &found, e) < 0) goto out;
    name[0] = 0;
    if (found) snprintf(name, 256, "%.12s", chain_info(ch)->lineage);
    rc = 0;
out:
    chain_close(ch);
    store_close(s);
    return rc;
}

int cli_print(struct buf *b, struct err *e) {
    if (b->n && fwrite(b->p, 1, b->n, stdout) != b->n) return err_set(e, CODE_IO, "the result could not be written to standard output");
    return 0;
}
