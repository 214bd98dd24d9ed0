/* Which object stores there are, by URL scheme. */
#include "drivers/store.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/mem.h"

static const struct store_ops *const all[] = {&store_file_ops};

int store_open(const char *url, struct store **s, struct err *e) {
    const char *colon = strstr(url, "://");
    char known[128] = "";
    *s = NULL;
    for (size_t i = 0; i < MEM_ARRAY_LEN(all); i++) {
        if (colon && strlen(all[i]->scheme) == (size_t)(colon - url) && strncmp(url, all[i]->scheme, (size_t)(colon - url)) == 0)
            return all[i]->open(url, s, e);
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s://", i ? ", " : "", all[i]->scheme);
    }
    if (!colon) {
        err_set(e, CODE_USAGE, "'%.200s' is no store URL", url);
        return err_hint(
            e, "a folder's URL is file:///absolute/folder; or name the folder itself with --output-dir, --from-dir or --backup-dir");
    }
    err_set(e, CODE_USAGE, "store scheme '%.*s' is unknown", (int)(colon - url > 40 ? 40 : colon - url), url);
    return err_hint(e, "known schemes: %s", known);
}

int store_open_dir(const char *dir, struct store **s, struct err *e) {
    struct buf b = BUF_INIT(8192);
    char cwd[PATH_MAX];
    const char *url;
    int rc = -1;
    *s = NULL;
    if (dir[0] == '\0') {
        err_set(e, CODE_USAGE, "the folder's name is empty");
        goto out;
    }
    if (buf_adds(&b, "file://", e) < 0) goto out;
    if (dir[0] != '/') {
        if (getcwd(cwd, sizeof cwd) == NULL) {
            err_set(e, CODE_IO, "cannot tell the working folder for '%s'", dir);
            goto out;
        }
        if (buf_adds(&b, cwd, e) < 0 || buf_addc(&b, '/', e) < 0) goto out;
    }
    for (const char *p = dir; *p; p++) /* a name is not a URL: what would be read as an escape is escaped */
        if ((*p == '%' || *p == '?' || *p == '#' ? buf_addf(&b, e, "%%%02X", (unsigned char)*p) : buf_addc(&b, *p, e)) < 0) goto out;
    if ((url = buf_str(&b, e)) == NULL) goto out;
    rc = store_file_ops.open(url, s, e);
out:
    buf_free(&b);
    return rc;
}

void store_close(struct store *s) {
    if (s) s->ops->close(s);
}
