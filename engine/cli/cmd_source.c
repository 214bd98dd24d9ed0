/* `source clean`: take down what a chain left on its source, when no chain needs it any more. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/cli/cli.h"

static int confirm(struct args *a, const char *what, struct err *e) {
    char line[64];
    if (a->options.yes) return 0;
    if (!isatty(STDIN_FILENO)) {
        err_set(e, CODE_CONFIRM, "`source clean` ends what every chain of %s could still be extended by, and there is no terminal to ask on", what);
        return err_hint(e, "add --yes if no chain needs it any more");
    }
    fprintf(stderr, "What anchors chains on %s is taken down; none of them can be extended afterwards.\nType clean to go on: ", what);
    fflush(stderr);
    if (fgets(line, sizeof line, stdin) && strcmp(line, "clean\n") == 0) return 0;
    return err_set(e, CODE_CONFIRM, "not confirmed; nothing was changed");
}

int cmd_source_clean(struct args *a, struct err *e) {
    const char *driver, *dsn;
    char *resolved = NULL, shown[1024], what[1280];
    struct source *s = NULL;
    int rc = -1;
    if (cli_dsn(a, "source", "SLUICE_SOURCE", &driver, &dsn, e) < 0) return -1;
    const struct db_driver *d = db_driver_find(driver, e);
    if (!d || secret_resolve(dsn, &resolved, e) < 0) return -1;
    text_dsn_redact(dsn, shown, sizeof shown);
    snprintf(what, sizeof what, "'%s'", shown);
    struct source_opts o = {.dsn = resolved, .slot_name = a->options.slot_name ? a->options.slot_name : "sluice_slot", .allow_blocking = true};
    if (confirm(a, what, e) < 0 || d->source->open(&o, &s, e) < 0 || d->source->unanchor(s, e) < 0) goto out;
    log_info("the anchor is gone", KV_STR("source", shown), KV_STR("slot", d->caps & CAP_SLOT ? o.slot_name : "capture"));
    rc = 0;
out:
    if (s) d->source->close(s);
    explicit_bzero(resolved, strlen(resolved));
    mem_free(resolved);
    return rc;
}
