/* DESIGN: opening the control DB.
 *  1. Nothing is written before the place was found fit: a local file system, a file that is empty or ours, a version that we know.
 *  2. The file appears with mode 0600 and is never opened beside SQLite once it is one: closing any other descriptor of it would drop
 *     SQLite's locks.
 *  3. An open that returns has verified tables, triggers and guarded rows against the migrations and the last 256 seals against history;
 *     `inspect` opens what fails that, read-only, so that `sluice control check` can tell what is wrong.
 *  4. Passwords that a shell wrote in clear are sealed before anything else uses them. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/control/room.h"

#define WAIT_US (60 * INT64_C(1000000))
#define OPEN_SEALS 256 /* an open verifies the last so many; `sluice control check` all of them */

static char *default_path(struct err *e) {
    const char *env = getenv("SLUICE_CONTROL"), *home;
    if (env && *env) return mem_strdup(env, e);
    if (geteuid() == 0) return mem_strdup("/var/lib/sluice/control.db", e);
    env = getenv("XDG_STATE_HOME");
    if (env && *env == '/') return mem_printf(e, "%s/sluice/control.db", env);
    if ((home = getenv("HOME")) && *home) return mem_printf(e, "%s/.local/state/sluice/control.db", home);
    err_set(e, CODE_CONFIG, "there is no place for the control DB: neither --control, SLUICE_CONTROL, XDG_STATE_HOME nor HOME is set");
    return NULL;
}

static char *folder_of(const char *path, struct err *e) {
    const char *slash = strrchr(path, '/');
    if (!slash) return mem_strdup(".", e);
    return mem_strndup(path, slash == path ? 1 : (size_t)(slash - path), e);
}

/* Every missing folder down to `dir`, private. */
static int make_folders(const char *dir, struct err *e) {
    char *d = mem_strdup(dir, e);
    int rc = d ? 0 : -1;
    for (char *p = d ? d + 1 : NULL; rc == 0 && p; p = p ? p + 1 : NULL) {
        if ((p = strchr(p, '/'))) *p = 0;
        if (mkdir(d, 0700) < 0 && errno != EEXIST) rc = err_set(e, CODE_IO, "cannot make the folder '%s': %s", d, strerror(errno));
        if (p) *p = '/';
    }
    mem_free(d);
    return rc;
}

static void actor_set(struct control *c, const char *actor) {
    struct passwd pw, *found = NULL;
    char text[4096];
    if (getpwuid_r(getuid(), &pw, text, sizeof text, &found) == 0 && found)
        snprintf(c->actor, sizeof c->actor, "%.180s (%.64s)", actor, pw.pw_name);
    else snprintf(c->actor, sizeof c->actor, "%.180s (uid %u)", actor, (unsigned)getuid());
}

/* A file that is not there yet, with its mode. Only then is it opened by us: nobody has locks on it. */
static int make_file(struct control *c, struct err *e) {
    struct stat st;
    if (stat(c->path, &st) == 0) {
        if (S_ISREG(st.st_mode)) return 0;
        return err_set(e, CODE_CONFIG, "the control DB '%s' is not a file", c->path);
    }
    if (errno != ENOENT) return err_set(e, CODE_IO, "cannot examine '%s': %s", c->path, strerror(errno));
    if (c->inspect) {
        err_set(e, CODE_NOT_FOUND, "there is no control DB '%s'", c->path);
        return err_hint(e, "name one with --control");
    }
    int fd = open(c->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) return err_set(e, CODE_IO, "cannot make the control DB '%s': %s", c->path, strerror(errno));
    if (fd >= 0) close(fd);
    return 0;
}

/* Journal mode does not wait for locks by itself: byte 0 of the lock file keeps two beginners apart. */
static int make_wal(struct control *c, struct err *e) {
    int64_t until = clock_mono_us() + c->wait_us;
    for (;;) {
        sqlite3_stmt *s = NULL;
        bool got = false, wal = false;
        int rc = sqlite3_prepare_v2(c->db, "PRAGMA journal_mode", -1, &s, NULL);
        if (rc == SQLITE_OK) rc = sqlite3_step(s);
        if (rc == SQLITE_ROW) wal = strcmp(stmt_str(s, 0), "wal") == 0;
        sqlite3_finalize(s);
        if (wal || c->inspect) return 0;
        if (rc != SQLITE_ROW && (rc & 0xff) != SQLITE_BUSY) return db_fail(c, rc, e, "cannot open the control DB '%s'", c->path);
        if (lock_try(c, 0, 1, &got, e) < 0) return -1;
        if (got) {
            rc = sqlite3_exec(c->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
            lock_drop(c, 0, 1);
            if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY) return db_fail(c, rc, e, "cannot open the control DB '%s'", c->path);
            if (rc == SQLITE_OK) continue;
        }
        if (clock_mono_us() >= until) return db_fail(c, SQLITE_BUSY, e, "cannot open the control DB");
        nanosleep(&(struct timespec){0, 10 * 1000 * 1000}, NULL);
    }
}

static int set_up(struct control *c, struct err *e) {
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int rc = sqlite3_open_v2(c->path, &c->db, flags, NULL);
    if (rc != SQLITE_OK) return db_fail(c, rc, e, "cannot open the control DB '%s'", c->path);
    control_patience(c, -1);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
    if (make_wal(c, e) < 0) return -1;
    return db_exec(c,
                   "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; PRAGMA journal_size_limit = 67108864;"
                   "PRAGMA temp_store = MEMORY",
                   e);
}

static int check_version(struct control *c, const struct migration *list, size_t n, int *version, struct err *e) {
    int min_reader, min_writer;
    if (control_version(c, version, &min_reader, &min_writer, e) < 0) return -1;
    if (*version > (int)n && (min_reader > (int)n || min_writer > (int)n)) {
        err_set(e, CODE_CONTROL_NEWER, "the control DB '%s' was migrated by a newer sluice (version %d, this one knows %zu)", c->path,
                *version, n);
        return err_hint(e, "use the newer binary");
    }
    if (*version < (int)n && !c->inspect) {
        if (migrate(c, list, n, e) < 0) return -1;
        *version = (int)n;
    } else if (*version == 0) {
        err_set(e, CODE_NOT_FOUND, "there is no control DB in '%s'", c->path);
        return err_hint(e, "name one with --control");
    }
    return 0;
}

static int check_intact(struct control *c, const struct migration *list, size_t n, int version, struct err *e) {
    struct buf found = BUF_INIT(MiB(1));
    size_t nfound = 0;
    struct txn t;
    if (version > (int)n) return 0; /* a newer one that lets us in: we cannot know how it looks */
    int rc = txn_begin(&t, c, TXN_READ, e);
    if (rc == 0) {
        rc = tamper_check(c, list, n, version, true, &found, &nfound, e);
        if (rc == 0 && nfound == 0) rc = seal_verify(c, OPEN_SEALS, &found, &nfound, e);
        rc = txn_end(&t, rc, e);
    }
    if (rc == 0 && nfound) {
        rc = err_set(e, CODE_CONTROL_TAMPERED, "the control DB '%s' is not as sluice left it: %.*s", c->path, (int)strcspn(found.p, "\n"),
                     found.p);
        err_hint(e, "see all of it with `sluice control check`; put a backup back, or undo the change");
    }
    buf_free(&found);
    return rc;
}

int control_open(const struct control_opts *o, struct control **out, struct err *e) {
    struct migration list[64];
    size_t n = 0;
    int version = 0, rc = -1;
    char *dir = NULL;
    struct control *c = mem_alloc(sizeof *c, e);
    *out = NULL;
    if (!c) return -1;
    c->lock_fd = -1;
    c->wait_us = o->wait_us > 0 ? o->wait_us : WAIT_US;
    c->inspect = o->inspect;
    actor_set(c, o->actor ? o->actor : "sluice");
    if (migration_list(list, MEM_ARRAY_LEN(list), &n, e) < 0) goto out;
    if (!(c->path = o->path ? mem_strdup(o->path, e) : default_path(e)) || !(c->lock_path = mem_printf(e, "%s.lock", c->path))) goto out;
    if (!(dir = folder_of(c->path, e))) goto out;
    if (!o->path && !c->inspect && make_folders(dir, e) < 0) goto out;
    if (fs_check(dir, e) < 0 || make_file(c, e) < 0 || set_up(c, e) < 0) goto out;
    if (check_version(c, list, n, &version, e) < 0) goto out;
    if (c->inspect) {
        rc = db_exec(c, "PRAGMA query_only = ON", e);
        goto out;
    }
    if (check_intact(c, list, n, version, e) < 0 || secrets_seal_clear(c, e) < 0) goto out;
    rc = 0;
out:
    mem_free(dir);
    if (rc < 0) control_close(c);
    else *out = c;
    return rc;
}

void control_close(struct control *c) {
    if (!c) return;
    for (size_t i = 0; i < c->nstmts; i++)
        sqlite3_finalize(c->stmts[i].s);
    if (c->db) sqlite3_close(c->db);
    lock_close(c);
    mem_free(c->path);
    mem_free(c->lock_path);
    mem_free(c);
}

const char *control_path(const struct control *c) {
    return c->path;
}
