/* DESIGN: statements by name.
 *  1. Every statement of the room stands in sql/control/ and is prepared at most once per handle.
 *  2. A statement that ended or failed is reset at once, so no read transaction lingers and no checkpoint is held up.
 *  3. A bind that failed for want of memory never becomes a NULL in a row: the next step fails. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/embed.h"
#include "engine/control/room.h"

int db_fail(struct control *c, int rc, struct err *e, const char *fmt, ...) {
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    const char *msg = c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc);
    enum err_code code;
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        err_set(e, CODE_CONTROL_LOCKED, "%s: the control DB '%s' is locked by another process", what, c->path);
        return err_hint(e, "end the shell or program that holds a transaction open on it, or raise --control-wait");
    case SQLITE_NOMEM: code = CODE_NO_MEMORY; break;
    case SQLITE_FULL: code = CODE_DISK_FULL; break;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN: code = CODE_IO; break;
    default: code = CODE_CONTROL; break;
    }
    err_set(e, code, "%s: %s", what, msg);
    if ((rc & 0xff) == SQLITE_NOTADB || (rc & 0xff) == SQLITE_CORRUPT)
        err_hint(e, "'%s' is damaged or not a SQLite file: restore it from a backup, or name another one with --control", c->path);
    else if ((rc & 0xff) == SQLITE_READONLY || (rc & 0xff) == SQLITE_PERM)
        err_hint(e, "make '%s' and its folder writable, or name another one with --control", c->path);
    return -1;
}

sqlite3_stmt *stmt_get(struct control *c, const char *name, struct err *e) {
    for (size_t i = 0; i < c->nstmts; i++)
        if (strcmp(c->stmts[i].name, name) == 0) {
            sqlite3_reset(c->stmts[i].s);
            sqlite3_clear_bindings(c->stmts[i].s);
            return c->stmts[i].s;
        }
    if (c->nstmts == CONTROL_STMTS) {
        err_set(e, CODE_INTERNAL, "more than %d control statements", CONTROL_STMTS);
        return NULL;
    }
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v3(c->db, embed_sql(name), -1, SQLITE_PREPARE_PERSISTENT, &s, NULL);
    if (rc != SQLITE_OK) {
        db_fail(c, rc, e, "cannot prepare '%s'", name);
        return NULL;
    }
    c->stmts[c->nstmts].name = embed_find(name)->name;
    c->stmts[c->nstmts++].s = s;
    return s;
}

static int param(sqlite3_stmt *s, const char *name) {
    int i = sqlite3_bind_parameter_index(s, name);
    if (i == 0) {
        fprintf(stderr, "error: no parameter '%s' in: %s\n", name, sqlite3_sql(s));
        abort();
    }
    return i;
}

static void bound(struct control *c, int rc) {
    if (rc != SQLITE_OK && c->bind_rc == SQLITE_OK) c->bind_rc = rc;
}

void stmt_text(struct control *c, sqlite3_stmt *s, const char *name, const char *v) {
    int i = param(s, name);
    bound(c, v ? sqlite3_bind_text(s, i, v, -1, SQLITE_TRANSIENT) : sqlite3_bind_null(s, i));
}

void stmt_text_or_null(struct control *c, sqlite3_stmt *s, const char *name, const char *v) {
    stmt_text(c, s, name, v && *v ? v : NULL);
}

void stmt_int(struct control *c, sqlite3_stmt *s, const char *name, int64_t v) {
    bound(c, sqlite3_bind_int64(s, param(s, name), v));
}

void stmt_blob(struct control *c, sqlite3_stmt *s, const char *name, const void *p, size_t n) {
    bound(c, sqlite3_bind_blob64(s, param(s, name), p, n, SQLITE_TRANSIENT));
}

int stmt_step(struct control *c, sqlite3_stmt *s, struct err *e) {
    int rc = c->bind_rc;
    c->bind_rc = SQLITE_OK;
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) return 1;
    if (rc != SQLITE_DONE) db_fail(c, rc, e, "the control DB refused");
    stmt_end(s);
    return rc == SQLITE_DONE ? 0 : -1;
}

int stmt_run(struct control *c, sqlite3_stmt *s, struct err *e) {
    int rc;
    while ((rc = stmt_step(c, s, e)) > 0) {}
    return rc;
}

void stmt_end(sqlite3_stmt *s) {
    if (!s) return;
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
}

const char *stmt_str(sqlite3_stmt *s, int column) {
    const char *p = (const char *)sqlite3_column_text(s, column);
    return p ? p : "";
}

int db_exec(struct control *c, const char *sql, struct err *e) {
    int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_fail(c, rc, e, "the control DB refused");
}

int db_int(struct control *c, const char *sql, int64_t *v, struct err *e) {
    sqlite3_stmt *s = NULL;
    *v = 0;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s);
        if (rc == SQLITE_ROW) *v = sqlite3_column_int64(s, 0);
        if (rc == SQLITE_ROW || rc == SQLITE_DONE) rc = SQLITE_OK;
    }
    int out = rc == SQLITE_OK ? 0 : db_fail(c, rc, e, "cannot read the control DB");
    sqlite3_finalize(s);
    return out;
}
