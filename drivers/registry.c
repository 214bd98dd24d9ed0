/* The one place that names concrete drivers, and the rule of table filters. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "drivers/db.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

static const struct db_driver *const drivers[] = {&postgres_driver, &sqlite_driver};

const struct db_driver *db_driver_find(const char *name, struct err *e) {
    char known[128];
    for (size_t i = 0; i < MEM_ARRAY_LEN(drivers); i++)
        if (name && strcmp(name, drivers[i]->name) == 0) return drivers[i];
    err_set(e, CODE_USAGE, "there is no driver '%.64s'", name ? name : "");
    db_driver_names(known);
    err_hint(e, "the drivers are: %s", known);
    return NULL;
}

void db_driver_names(char out[128]) {
    out[0] = 0;
    for (size_t i = 0; i < MEM_ARRAY_LEN(drivers); i++) {
        size_t n = strlen(out);
        snprintf(out + n, 128 - n, "%s%s", n ? ", " : "", drivers[i]->name);
    }
}

static bool matches_any(const char *const *globs, size_t n, const char *ns, const char *name) {
    char whole[1024];
    snprintf(whole, sizeof whole, "%s.%s", ns, name);
    for (size_t i = 0; i < n; i++)
        if (text_glob(globs[i], name) || text_glob(globs[i], whole)) return true;
    return false;
}

bool table_filter_match(const struct table_filter *f, const char *ns, const char *name) {
    if (strncasecmp(name, "sluice_", 7) == 0) return false;
    if (f && f->ninclude && !matches_any(f->include, f->ninclude, ns, name)) return false;
    return !f || !matches_any(f->exclude, f->nexclude, ns, name);
}
