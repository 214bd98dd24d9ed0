/* DESIGN: copies of the control DB.
 *  1. A backup is one read transaction's state, compacted, under a temporary name and linked when it is durable: whole or not there, never
 *     over another file. The key file is not copied: whoever has both has the passwords.
 *  2. An export is history with its seals, oldest first, one JSON object a line: enough to compute every seal again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/fault.h"
#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/control/room.h"

static int sync_path(const char *path, int flags, struct err *e) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    int rc = fd < 0 || fsync(fd) < 0 ? err_set(e, CODE_IO, "cannot sync '%s': %s", path, strerror(errno)) : 0;
    if (fd >= 0) close(fd);
    return rc;
}

int control_backup(struct control *c, const char *to_path, struct err *e) {
    char hex[17];
    char *tmp = NULL, *dir = NULL;
    sqlite3_stmt *s = NULL;
    int rc = -1, fd = -1;
    struct stat st;
    if (lstat(to_path, &st) == 0) {
        err_set(e, CODE_CONFIG, "'%s' is there already", to_path);
        return err_hint(e, "a backup never replaces a file: give another name");
    }
    if (random_hex16(hex, e) < 0 || !(tmp = mem_printf(e, "%s.%s", to_path, hex)) || !(dir = mem_strdup(to_path, e))) goto out;
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); /* VACUUM INTO takes an empty file, with this mode */
    if (fd < 0) {
        err_set(e, CODE_IO, "cannot write '%s': %s", tmp, strerror(errno));
        goto out;
    }
    close(fd);
    /* A handle that only looks may not write anything, not even another file. */
    if (c->inspect && db_exec(c, "PRAGMA query_only = OFF", e) < 0) goto out;
    int src = sqlite3_prepare_v2(c->db, "VACUUM INTO ?1", -1, &s, NULL);
    if (src == SQLITE_OK) src = sqlite3_bind_text(s, 1, tmp, -1, SQLITE_STATIC);
    if (src == SQLITE_OK) src = sqlite3_step(s);
    if (src != SQLITE_DONE) {
        db_fail(c, src, e, "cannot copy the control DB to '%s'", to_path);
        goto out;
    }
    if (sync_path(tmp, 0, e) < 0 || FAULT("control.backup", e) < 0) goto out;
    if (link(tmp, to_path) < 0) {
        err_set(e, CODE_IO, "cannot make '%s': %s", to_path, strerror(errno));
        goto out;
    }
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    rc = sync_path(slash ? dir : ".", O_DIRECTORY, e);
out:
    sqlite3_finalize(s);
    if (c->inspect) sqlite3_exec(c->db, "PRAGMA query_only = ON", NULL, NULL, NULL);
    if (tmp && fd >= 0) unlink(tmp);
    mem_free(tmp);
    mem_free(dir);
    return rc;
}

int control_export(struct control *c, struct err *e) {
    struct buf b = BUF_INIT(MiB(16));
    struct txn t;
    int rc = -1, more;
    if (txn_begin(&t, c, TXN_READ, e) < 0) return -1;
    sqlite3_stmt *s = stmt_get(c, "control/export", e);
    if (!s) goto out;
    while ((more = stmt_step(c, s, e)) > 0) {
        if (buf_addf(&b, e, "%s\n", stmt_str(s, 0)) < 0) goto out;
        if (fwrite(b.p, 1, b.n, stdout) != b.n) {
            err_set(e, CODE_IO, "cannot write to the standard output");
            goto out;
        }
        buf_reset(&b);
    }
    if (more < 0) goto out;
    rc = fflush(stdout) == 0 ? 0 : err_set(e, CODE_IO, "cannot write to the standard output");
out:
    stmt_end(s);
    buf_free(&b);
    return txn_end(&t, rc, e);
}
