/* Connections to a SQLite target, and the table of its functions.
 *
 * DESIGN
 * 1. A commit of ours is on disk when it returns: WAL with synchronous=FULL, checked, on every connection.
 * 2. Rows come as the source has them: foreign keys are not enforced and no trigger fires in our sessions, since what the source's own
 *    triggers and cascades did stands in its log already. The application's sessions keep both.
 * 3. Only UTF-8 databases: SQLite would convert texts on their way into another encoding, and not every byte string survives that.
 * 4. There is one writer at a time: BEGIN IMMEDIATE waits for it, for at most a minute. */
#include "drivers/sqlite/target.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "drivers/sqlite/target_impl.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define TARGET_BUSY_MS 60000

/* One value of a pragma that answers with text. */
static int pragma_text(sqlite3 *db, const char *sql, char out[32], struct err *e) {
    sqlite3_stmt *s = NULL;
    bool row = false;
    out[0] = '\0';
    if (sqt_prepare(db, sql, &s, e) < 0) return -1;
    int rc = sqt_step(s, &row, e);
    if (rc == 0 && row) snprintf(out, 32, "%s", (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    return rc;
}

static int session(sqlite3 *db, const char *path, struct err *e) {
    char answer[32];
    sqlite3_extended_result_codes(db, 1);
    sqlite3_busy_timeout(db, TARGET_BUSY_MS);
    if (sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 0, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DDL, 1, NULL) != SQLITE_OK)
        return sqt_err(db, "cannot configure the session", e);
    if (pragma_text(db, "PRAGMA encoding", answer, e) < 0) return -1;
    if (strcmp(answer, "UTF-8") != 0) {
        err_set_class(e, ERR_REFUSE, CODE_CONFIG, "target '%s' is encoded in %s: texts would be converted on their way", path, answer);
        return err_hint(e, "make the target with `PRAGMA encoding='UTF-8'`, or let sluice create the file");
    }
    if (pragma_text(db, "PRAGMA journal_mode=WAL", answer, e) < 0) return -1;
    if (strcmp(answer, "wal") != 0) {
        err_set_class(e, ERR_REFUSE, CODE_CONFIG, "target '%s' cannot be put into WAL mode: it stays in '%s'", path, answer);
        return err_hint(e, "end the programs that have it open, and put it on a local disk");
    }
    if (sq_exec(db,
                "PRAGMA synchronous=FULL; PRAGMA recursive_triggers=OFF; PRAGMA cache_size=-32768; "
                "PRAGMA wal_autocheckpoint=16384; PRAGMA journal_size_limit=134217728",
                e) < 0)
        return -1;
    if (pragma_text(db, "PRAGMA synchronous", answer, e) < 0) return -1;
    if (strcmp(answer, "2") != 0) return err_set(e, CODE_INTERNAL, "target '%s' does not take synchronous=FULL", path);
    return 0;
}

int sqt_connect(const char *dsn, sqlite3 **db, struct err *e) {
    const char *path;
    *db = NULL;
    if (sq_dsn_path(dsn, &path, e) < 0 || sq_open(dsn, SQ_CREATE, db, e) < 0) return -1;
    if (session(*db, path, e) == 0) return 0;
    sq_close(*db);
    *db = NULL;
    return err_wrap(e, "target '%s'", path);
}

/* For a dry run: the file as it is; an empty database in memory stands for one that is not there yet. */
static int look(const char *dsn, sqlite3 **db, struct err *e) {
    const char *path;
    char folder[4096];
    *db = NULL;
    if (sq_dsn_path(dsn, &path, e) < 0) return -1;
    if (access(path, F_OK) == 0) return sq_open(dsn, 0, db, e);
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    if (access(folder, W_OK) < 0) return sq_open(dsn, 0, db, e);
    int rc = sqlite3_open_v2(":memory:", db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    return rc == SQLITE_OK ? 0 : sq_err(*db, rc, e, "cannot open a database in memory");
}

static void target_close(struct target *t) {
    if (!t) return;
    sq_close(t->db);
    mem_free(t->dsn);
    mem_free(t);
}

static int target_open(const struct target_opts *o, struct target **out, struct err *e) {
    *out = NULL;
    if (o->control_schema && sqt_check_ns(o->control_schema, e) < 0) return err_wrap(e, "--control-schema");
    if (o->stream_id && strlen(o->stream_id) > 255)
        return err_set(e, CODE_USAGE, "stream-id '%.40s…' is longer than 255 bytes", o->stream_id);
    struct target *t = mem_alloc(sizeof *t, e);
    if (!t) return -1;
    if (o->stream_id) snprintf(t->stream_id, sizeof t->stream_id, "%s", o->stream_id);
    if (!(t->dsn = mem_strdup(o->dsn, e)) || (o->look ? look(o->dsn, &t->db, e) : sqt_connect(o->dsn, &t->db, e)) < 0) {
        target_close(t);
        return -1;
    }
    *out = t;
    return 0;
}

/* The id that control_ensure keeps in the file; before that, the one it is going to keep. */
static int target_identity(struct target *t, char out[128], struct err *e) {
    int64_t there = 0;
    sqlite3_stmt *s = NULL;
    bool row = false;
    if (sqt_count(t->db, "sqlite/target_meta_there", &there, e) < 0) return -1;
    if (there) {
        if (sqt_named(t->db, "sqlite/target_meta_get", &s, e) < 0) return -1;
        if (sqt_bind_str(s, ":k", "identity", e) < 0 || sqt_step(s, &row, e) < 0) {
            sqlite3_finalize(s);
            return -1;
        }
        if (row) snprintf(t->identity, sizeof t->identity, "%s", (const char *)sqlite3_column_text(s, 0));
        sqlite3_finalize(s);
    }
    if (!t->identity[0]) {
        char a[17], b[17];
        if (random_hex16(a, e) < 0 || random_hex16(b, e) < 0) return -1;
        snprintf(t->identity, sizeof t->identity, "sqlite:%s%s", a, b);
    }
    snprintf(out, 128, "%s", t->identity);
    return 0;
}

static const char *target_default_ns(struct target *t) {
    (void)t;
    return "main";
}

const struct target_ops sqlite_target_ops = {
    .open = target_open,
    .close = target_close,
    .identity = target_identity,
    .default_ns = target_default_ns,
    .control_ensure = sqt_control_ensure,
    .state_read = sqt_state_read,
    .state_list = sqt_state_list,
    .state_write = sqt_state_write,
    .takeover = sqt_takeover,
    .stop_request = sqt_stop_request,
    .marks_read = sqt_marks_read,
    .marks_clear = sqt_marks_clear,
    .table_shape = sqt_table_shape,
    .table_has_rows = sqt_table_has_rows,
    .compatible = sqt_compatible,
    .keys_check = sqt_keys_check,
    .objects_create = sqt_objects_create,
    .table_create = sqt_table_create,
    .table_finish = sqt_table_finish,
    .table_drop = sqt_table_drop,
    .table_captured = sqt_table_captured,
    .sequence_set = sqt_sequence_set,
    .table_alter = sqt_table_alter,
    .bind = sqt_bind_table,
    .unbind = sqt_unbind_table,
    .loader_open = sqt_loader_open,
    .loader_raw = sqt_loader_raw,
    .loader_done = sqt_loader_done,
    .loader_begin = sqt_loader_begin,
    .loader_raw_put = sqt_loader_raw_put,
    .loader_rows = sqt_loader_rows,
    .loader_commit = sqt_loader_commit,
    .loader_close = sqt_loader_close,
    .lane_open = sqt_lane_open,
    .lane_fk_enforced = sqt_lane_fk_enforced,
    .lane_apply = sqt_lane_apply,
    .lane_close = sqt_lane_close,
};
