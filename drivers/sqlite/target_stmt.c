/* Statements of the target, and SQLite's errors as ours.
 *
 * DESIGN
 * 1. A constraint that a row breaks is told apart by SQLite's extended code: a unique key is CODE_UNIQUE_CONFLICT (the window may be
 *    replayed in source order), everything else CODE_CONSTRAINT. The rolled back transaction leaves the connection usable.
 * 2. A statement that comes out of a chain is one statement: text behind it is refused, never run. */
#include <stdio.h>
#include <string.h>

#include "drivers/sqlite/target_impl.h"
#include "engine/base/embed.h"

int sqt_err(sqlite3 *db, const char *doing, struct err *e) {
    int rc = sqlite3_extended_errcode(db);
    if (rc == SQLITE_CONSTRAINT_DATATYPE || (rc & 0xff) == SQLITE_MISMATCH || (rc & 0xff) == SQLITE_TOOBIG)
        return err_set(e, CODE_VALUE_UNREPRESENTABLE, "%s: %s", doing, sqlite3_errmsg(db));
    return sq_err(db, rc, e, "%s", doing);
}

int sqt_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **s, struct err *e) {
    const char *tail = NULL;
    char doing[160];
    *s = NULL;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, s, &tail) != SQLITE_OK) {
        snprintf(doing, sizeof doing, "cannot prepare '%.120s'", sql);
        return sqt_err(db, doing, e);
    }
    while (tail && (*tail == ' ' || *tail == '\n' || *tail == '\t' || *tail == '\r' || *tail == ';'))
        tail++;
    if (*s && (!tail || !*tail)) return 0;
    sqlite3_finalize(*s);
    *s = NULL;
    return err_set_class(e, ERR_REFUSE, CODE_SERVER, "not exactly one statement: '%.120s'", sql);
}

int sqt_named(sqlite3 *db, const char *block, sqlite3_stmt **s, struct err *e) {
    return sqt_prepare(db, embed_sql(block), s, e);
}

int sqt_step(sqlite3_stmt *s, bool *row, struct err *e) {
    int rc = sqlite3_step(s);
    if (row) *row = rc == SQLITE_ROW;
    if (rc == SQLITE_ROW || rc == SQLITE_DONE) return 0;
    sqt_err(sqlite3_db_handle(s), "the target refused a statement", e);
    sqlite3_reset(s);
    return -1;
}

int sqt_done(sqlite3_stmt *s, struct err *e) {
    bool row = true;
    while (row)
        if (sqt_step(s, &row, e) < 0) return -1;
    sqlite3_reset(s);
    return 0;
}

int sqt_bind_str(sqlite3_stmt *s, const char *param, const char *v, struct err *e) {
    int i = sqlite3_bind_parameter_index(s, param);
    if (i == 0) return err_set(e, CODE_INTERNAL, "no parameter '%s' in '%.80s'", param, sqlite3_sql(s));
    if ((v ? sqlite3_bind_text(s, i, v, -1, SQLITE_STATIC) : sqlite3_bind_null(s, i)) == SQLITE_OK) return 0;
    return sqt_err(sqlite3_db_handle(s), "cannot bind a text", e);
}

int sqt_bind_i64(sqlite3_stmt *s, const char *param, int64_t v, struct err *e) {
    int i = sqlite3_bind_parameter_index(s, param);
    if (i == 0) return err_set(e, CODE_INTERNAL, "no parameter '%s' in '%.80s'", param, sqlite3_sql(s));
    if (sqlite3_bind_int64(s, i, v) == SQLITE_OK) return 0;
    return sqt_err(sqlite3_db_handle(s), "cannot bind a number", e);
}

int sqt_count(sqlite3 *db, const char *block, int64_t *n, struct err *e) {
    sqlite3_stmt *s = NULL;
    bool row = false;
    *n = 0;
    if (sqt_named(db, block, &s, e) < 0) return -1;
    int rc = sqt_step(s, &row, e);
    if (rc == 0 && row) *n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return rc;
}
