/* DESIGN: transactions.
 *  1. A write transaction is immediate, so it cannot fail half way for a lock, and it never spans a network call.
 *  2. Every write transaction ends with a seal over the history rows that have none, whoever wrote them.
 *  3. A binary older than the file's min_writer writes nothing, also when the file was migrated under it. */
#include "engine/base/fault.h"
#include "engine/control/room.h"

void control_patience(struct control *c, int64_t wait_us) {
    if (wait_us < 0) wait_us = c->wait_us;
    int64_t ms = (wait_us + 999) / 1000;
    sqlite3_busy_timeout(c->db, ms > INT32_MAX ? INT32_MAX : (int)ms);
}

static int may_write(struct control *c, struct err *e) {
    sqlite3_stmt *s = stmt_get(c, "control/meta_min_writer", e);
    if (!s) return -1;
    int rc = stmt_step(c, s, e);
    if (rc < 0) return -1;
    int64_t min = rc ? sqlite3_column_int64(s, 0) : INT64_MAX;
    stmt_end(s);
    if (min <= migration_latest()) return 0;
    err_set(e, CODE_CONTROL_NEWER, "the control DB '%s' was migrated by a newer sluice", c->path);
    return err_hint(e, "use the newer binary");
}

int txn_begin(struct txn *t, struct control *c, enum txn_kind kind, struct err *e) {
    *t = (struct txn){c, kind};
    int rc = sqlite3_exec(c->db, kind == TXN_WRITE ? "BEGIN IMMEDIATE" : "BEGIN", NULL, NULL, NULL);
    if (rc != SQLITE_OK) return db_fail(c, rc, e, "cannot begin a transaction");
    if (kind == TXN_WRITE && may_write(c, e) < 0) {
        sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
        return -1;
    }
    return 0;
}

int txn_end(struct txn *t, int rc, struct err *e) {
    struct control *c = t->c;
    if (rc == 0 && t->kind == TXN_WRITE) {
        rc = seal_append(c, e);
        if (rc == 0) rc = FAULT("control.commit", e);
    }
    if (rc == 0) {
        int src = sqlite3_exec(c->db, "COMMIT", NULL, NULL, NULL);
        if (src == SQLITE_OK) return t->kind == TXN_WRITE ? FAULT("control.committed", e) : 0;
        rc = db_fail(c, src, e, "cannot commit");
    }
    if (!sqlite3_get_autocommit(c->db)) sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
