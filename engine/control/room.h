/* What the files of engine/control share: the handle, statements, transactions, errors of SQLite. Not for other rooms. */
#ifndef SLUICE_CONTROL_ROOM_H
#define SLUICE_CONTROL_ROOM_H

#include <sqlite3.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/control/control.h"

#define CONTROL_STMTS 96

struct control {
    sqlite3 *db;
    char *path, *lock_path;
    int64_t wait_us;
    char actor[256];
    int lock_fd; /* -1 while closed; see lock.c */
    dev_t lock_dev;
    ino_t lock_ino;
    int owned; /* entities that this handle owns */
    struct {
        const char *name;
        sqlite3_stmt *s;
    } stmts[CONTROL_STMTS];
    size_t nstmts;
    int bind_rc;  /* first failed bind since the last step */
    bool inspect; /* opened to look only */
    bool mem;     /* a scratch DB in memory: no lock file, no seals */
};

/* ---- stmt.c: named statements, prepared once per handle --------------------------------------------------------------- */

sqlite3_stmt *stmt_get(struct control *c, const char *name, struct err *e); /* NULL on error; reset and without bindings */
/* Bind by name, colon included. A name that the statement lacks is a bug and aborts; a failed bind fails the next step. */
void stmt_text(struct control *c, sqlite3_stmt *s, const char *name, const char *v);         /* NULL binds NULL; copied */
void stmt_text_or_null(struct control *c, sqlite3_stmt *s, const char *name, const char *v); /* "" binds NULL too */
void stmt_int(struct control *c, sqlite3_stmt *s, const char *name, int64_t v);
void stmt_blob(struct control *c, sqlite3_stmt *s, const char *name, const void *p, size_t n);
int stmt_step(struct control *c, sqlite3_stmt *s, struct err *e);          /* 1: a row; 0: the end; -1. Reset in the two last cases */
int stmt_run(struct control *c, sqlite3_stmt *s, struct err *e);           /* to the end; rows are ignored */
void stmt_end(sqlite3_stmt *s);                                            /* reset early; NULL is fine */
const char *stmt_str(sqlite3_stmt *s, int column);                         /* "" for NULL; valid until the next step */
int db_exec(struct control *c, const char *sql, struct err *e);            /* several statements */
int db_int(struct control *c, const char *sql, int64_t *v, struct err *e); /* first column of the first row; 0 when there is none */
/* Fill *e from the connection's last error `rc`: BUSY is CODE_CONTROL_LOCKED, a guard's words are CODE_CONTROL. Returns -1. */
int db_fail(struct control *c, int rc, struct err *e, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* ---- txn.c ------------------------------------------------------------------------------------------------------------ */

enum txn_kind { TXN_READ, TXN_WRITE };
struct txn {
    struct control *c;
    enum txn_kind kind;
};
/* Immediate for writing: waits as long as the handle's busy timeout says. A write begins with the check of min_writer. */
int txn_begin(struct txn *t, struct control *c, enum txn_kind kind, struct err *e);
/* rc 0: seals new history and commits; -1: rolls back and leaves *e alone. Returns rc, or -1 when the commit fails. */
int txn_end(struct txn *t, int rc, struct err *e);
void control_patience(struct control *c, int64_t wait_us); /* busy timeout; negative: back to --control-wait */

/* ---- the other files ---------------------------------------------------------------------------------------------------- */

int seal_append(struct control *c, struct err *e);                                                      /* inside a write transaction */
int seal_verify(struct control *c, int64_t last_seals, struct buf *findings, size_t *n, struct err *e); /* INT64_MAX: all */

struct migration {
    int version;
    const char *name, *sql;
};
int migration_list(struct migration *list, size_t cap, size_t *n, struct err *e); /* the compiled ones, in order */
int migration_latest(void);
int migration_checksums(struct err *e); /* each text has the digest that migrations/checksums says */
int control_version(struct control *c, int *version, int *min_reader, int *min_writer,
                    struct err *e); /* 0: empty; CODE_CONTROL: not ours */
int migrate(struct control *c, const struct migration *list, size_t n,
            struct err *e); /* to the last of the list; nothing when it is there */
/* A DB in memory as the migrations up to `version` make it. Close with control_close. */
int migrate_scratch(const struct migration *list, size_t n, int version, struct control **out, struct err *e);

/* Tables, triggers and guarded rows against what the migrations make; `rows` false: without the rows (an older version). */
int tamper_check(struct control *c, const struct migration *list, size_t n, int version, bool rows, struct buf *findings, size_t *found,
                 struct err *e);
int finding_add(struct buf *findings, size_t *n, struct err *e, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

int lock_open(struct control *c, struct err *e);
void lock_close(struct control *c);
int lock_try(struct control *c, int64_t start, int64_t len, bool *got, struct err *e);
void lock_drop(struct control *c, int64_t start, int64_t len);
int lock_same_file(struct control *c, struct err *e); /* CODE_FENCED when the path names another file by now */
bool fs_is_network(long magic);
int fs_check(const char *dir, struct err *e); /* CODE_CONTROL_NETFS */

int entity_read(struct control *c, sqlite3_stmt *s, struct entity *en, struct err *e); /* from a row of the entity_… statements */
int secrets_seal_clear(struct control *c, struct err *e);                              /* passwords that somebody inserted in clear */

#endif
