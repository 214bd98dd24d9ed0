/* Connections to SQLite files, their errors, and the few things one does with statements.
 *
 * DESIGN
 * 1. A source is never created: without SQ_CREATE an absent file is an error, and so is a file that is no database.
 * 2. The user's triggers do not fire in our sessions; what we write is what we mean.
 * 3. Busy is waited for, then reported as ERR_RETRY. Nothing here holds a transaction longer than its caller asked for. */
#include "drivers/sqlite/sqlite.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int dsn_refuse(struct err *e, const char *why) {
    err_set(e, CODE_DSN, "cannot read the SQLite DSN: %s", why);
    return err_hint(e, "give a file: app.db, file:app.db, sqlite:app.db or sqlite:///var/lib/app/app.db");
}

int sq_dsn_path(const char *dsn, const char **path, struct err *e) {
    if (!dsn || !*dsn) return dsn_refuse(e, "it is empty");
    const char *p = dsn;
    bool scheme = false;
    if (strncmp(p, "sqlite:", 7) == 0) {
        p += 7;
        scheme = true;
    } else if (strncmp(p, "file:", 5) == 0) {
        p += 5;
        scheme = true;
    }
    if (scheme && strncmp(p, "//", 2) == 0) {
        p += 2;
        if (strncmp(p, "localhost/", 10) == 0) p += 9;
        if (*p != '/') return dsn_refuse(e, "behind // must stand an absolute path (three slashes in all)");
    }
    if (!scheme && strstr(p, "://")) return dsn_refuse(e, "the URL does not begin with sqlite: or file:");
    if (!*p) return dsn_refuse(e, "it names no file");
    if (strcmp(p, ":memory:") == 0) return dsn_refuse(e, "a database in memory cannot be shared with another process");
    if (scheme && strchr(p, '?')) return dsn_refuse(e, "parameters behind '?' are not taken");
    if (p[strlen(p) - 1] == '/') return dsn_refuse(e, "it names a folder, not a file");
    *path = p;
    return 0;
}

int sq_dsn_check(const char *dsn, struct err *e) {
    const char *path;
    return sq_dsn_path(dsn, &path, e);
}

int sq_err(sqlite3 *db, int rc, struct err *e, const char *doing, ...) {
    enum err_class cls = ERR_REFUSE;
    enum err_code code = CODE_SERVER;
    const char *hint = NULL;
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: cls = ERR_RETRY, hint = "another connection holds the database; it is tried again"; break;
    case SQLITE_IOERR: cls = ERR_RETRY, code = CODE_IO; break;
    case SQLITE_CANTOPEN: cls = ERR_RETRY, code = CODE_UNREACHABLE; break;
    case SQLITE_FULL: cls = ERR_RETRY, code = CODE_DISK_FULL; break;
    case SQLITE_NOMEM: cls = ERR_RETRY, code = CODE_NO_MEMORY; break;
    case SQLITE_INTERRUPT: cls = ERR_RETRY, code = CODE_INTERRUPTED; break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        code = CODE_PRIVILEGE, hint = "give sluice's user write access to the database file and its folder (WAL needs both)";
        break;
    case SQLITE_CONSTRAINT:
        code = rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY || rc == SQLITE_CONSTRAINT_ROWID ? CODE_UNIQUE_CONFLICT
                                                                                                                     : CODE_CONSTRAINT;
        break;
    case SQLITE_TOOBIG: code = CODE_LIMIT; break;
    case SQLITE_NOTADB: cls = ERR_CONFIG, code = CODE_DSN, hint = "the file is no SQLite database, or it is encrypted"; break;
    case SQLITE_CORRUPT: hint = "check the file with `PRAGMA integrity_check`"; break;
    case SQLITE_SCHEMA: cls = ERR_RETRY; break;
    case SQLITE_MISUSE:
    case SQLITE_RANGE: cls = ERR_BUG, code = CODE_INTERNAL; break;
    default: break;
    }
    char what[512];
    va_list ap;
    va_start(ap, doing);
    vsnprintf(what, sizeof what, doing, ap);
    va_end(ap);
    err_set_class(e, cls, code, "%s: %s (SQLite %d)", what,
                  db && sqlite3_extended_errcode(db) == rc ? sqlite3_errmsg(db) : sqlite3_errstr(rc), rc);
    if (hint) err_hint(e, "%s", hint);
    return -1;
}

static int configure(sqlite3 *db, struct err *e) {
    int rc = SQLITE_OK, was;
    sqlite3_extended_result_codes(db, 1);
    sqlite3_busy_timeout(db, SQ_BUSY_MS);
    static const struct {
        int op, on;
    } settings[] = {
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_DQS_DML, 0},   {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_FKEY, 0},    {SQLITE_DBCONFIG_DEFENSIVE, 0}, {SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 0},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0] && rc == SQLITE_OK; i++)
        rc = sqlite3_db_config(db, settings[i].op, settings[i].on, &was);
    if (rc != SQLITE_OK) return sq_err(db, rc, e, "cannot set up the connection");
    /* the first statement that reads the file: tells a database from another file */
    return sq_exec(
        db, "PRAGMA temp_store=FILE; PRAGMA recursive_triggers=OFF; PRAGMA main.synchronous=FULL; SELECT count(*) FROM sqlite_schema;", e);
}

int sq_open(const char *dsn, unsigned flags, sqlite3 **db, struct err *e) {
    const char *path;
    struct stat st;
    *db = NULL;
    if (sq_dsn_path(dsn, &path, e) < 0) return -1;
    if (stat(path, &st) < 0) {
        if (errno != ENOENT || !(flags & SQ_CREATE)) {
            err_set(e, errno == EACCES ? CODE_PRIVILEGE : CODE_UNREACHABLE, "cannot open the database '%s': %s", path, strerror(errno));
            return err_hint(e, "name the SQLite file; it is never created as a source");
        }
    } else if (!S_ISREG(st.st_mode)) {
        return err_set(e, CODE_DSN, "cannot open the database '%s': it is no file", path);
    }
    int open_flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (flags & SQ_CREATE ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(path, db, open_flags, NULL);
    if (rc != SQLITE_OK) {
        sq_err(*db, *db ? sqlite3_extended_errcode(*db) : rc, e, "cannot open the database '%s'", path);
        goto fail;
    }
    if (configure(*db, e) < 0) {
        err_wrap(e, "cannot open the database '%s'", path);
        goto fail;
    }
    return 0;
fail:
    sqlite3_close(*db);
    *db = NULL;
    return -1;
}

void sq_close(sqlite3 *db) {
    if (db) sqlite3_close_v2(db);
}

int sq_exec(sqlite3 *db, const char *sql, struct err *e) {
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : sq_err(db, rc, e, "'%.200s' failed", sql);
}

int sq_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **st, struct err *e) {
    sqlite3_finalize(*st);
    *st = NULL;
    int rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, st, NULL);
    return rc == SQLITE_OK ? 0 : sq_err(db, rc, e, "'%.300s' failed", sql);
}

int sq_step(sqlite3_stmt *st, struct err *e) {
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) return 1;
    if (rc == SQLITE_DONE) return 0;
    return sq_err(sqlite3_db_handle(st), rc, e, "'%.300s' failed", sqlite3_sql(st));
}

int sq_run(sqlite3_stmt *st, struct err *e) {
    int r;
    while ((r = sq_step(st, e)) > 0) {}
    sqlite3_reset(st);
    return r;
}

int sq_int(sqlite3 *db, const char *sql, int64_t *v, struct err *e) {
    sqlite3_stmt *st = NULL;
    *v = 0;
    int r = sq_prepare(db, sql, &st, e);
    if (r == 0) r = sq_step(st, e);
    if (r > 0) *v = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return r < 0 ? -1 : 0;
}

int sq_begin(sqlite3 *db, bool write, struct err *e) {
    return sq_exec(db, write ? "BEGIN IMMEDIATE" : "BEGIN", e);
}

int sq_commit(sqlite3 *db, struct err *e) {
    if (sq_exec(db, "COMMIT", e) == 0) return 0;
    sq_rollback(db);
    return -1;
}

void sq_rollback(sqlite3 *db) {
    if (db && !sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
}
