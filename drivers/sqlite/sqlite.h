/* What all files of the SQLite driver share: connections, errors, statements, shapes, values.
 *
 * A connection and its statements belong to one thread. */
#ifndef SLUICE_DRIVERS_SQLITE_SQLITE_H
#define SLUICE_DRIVERS_SQLITE_SQLITE_H

#include <sqlite3.h>

#include "drivers/db.h"
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/value.h"

#define SQ_NS "main" /* the only namespace we read or write: attached and temporary tables are not the database's */

/* ---- open.c: connections -------------------------------------------------------------------------------------------------- */

/* The file behind a DSN: a path, `file:PATH`, `sqlite:PATH`, `sqlite:///abs`. CODE_DSN for anything else (URI parameters, :memory:, empty).
 */
int sq_dsn_path(const char *dsn, const char **path, struct err *e); /* points into dsn */
int sq_dsn_check(const char *dsn, struct err *e);

#define SQ_BUSY_MS 5000 /* how long we wait for the application's write */
#define SQ_CREATE 1u    /* make the file when it is absent (targets); without it an absent file is CODE_UNREACHABLE */
/* Open with the settings that every connection of ours has: busy timeout, no trigger of the user's fires in it, double-quoted text is an
 * error, untrusted schema, temporary data in files. A file that is no database is CODE_DSN. */
int sq_open(const char *dsn, unsigned flags, sqlite3 **db, struct err *e);
void sq_close(sqlite3 *db); /* NULL is fine; statements must be finalised before */

/* Fill *e from the connection's last error (rc: an extended result code) and return -1; `doing` goes in front.
 * Busy, locked and snapshot conflicts, I/O: ERR_RETRY; full: CODE_DISK_FULL; read-only, permission: CODE_PRIVILEGE; unique:
 * CODE_UNIQUE_CONFLICT; other constraints: CODE_CONSTRAINT; corrupt, not a database: CODE_SERVER as a refusal. */
int sq_err(sqlite3 *db, int rc, struct err *e, const char *doing, ...) __attribute__((format(printf, 4, 5)));

int sq_exec(sqlite3 *db, const char *sql, struct err *e);                       /* any number of statements */
int sq_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **st, struct err *e); /* finalises what *st held */
int sq_step(sqlite3_stmt *st, struct err *e);                                   /* 1 a row, 0 done, -1 */
int sq_run(sqlite3_stmt *st, struct err *e);                                    /* step to the end and reset */
int sq_int(sqlite3 *db, const char *sql, int64_t *v, struct err *e);            /* first column of the first row; 0 when there is none */
int sq_begin(sqlite3 *db, bool write, struct err *e);                           /* write: BEGIN IMMEDIATE */
int sq_commit(sqlite3 *db, struct err *e);                                      /* rolls back when it fails */
void sq_rollback(sqlite3 *db);                                                  /* fine when no transaction is open */

/* ---- types.c: declared types and values ----------------------------------------------------------------------------------- */

enum sq_affinity { SQ_AFF_INTEGER, SQ_AFF_TEXT, SQ_AFF_BLOB, SQ_AFF_REAL, SQ_AFF_NUMERIC };
enum sq_affinity sq_affinity(const char *declared, bool strict); /* SQLite's rules; NULL or "" is SQ_AFF_BLOB */
/* Fill type, precision, scale, length of a column from its declared type. */
void sq_logical_type(const char *declared, bool strict, struct column *c);
/* Column i of the current row as a value of a column of logical type c->type (value.h). copy: everything lives in `a`; otherwise text and
 * blobs of the natural storage class point into the statement until its next step. */
int sq_value(sqlite3_stmt *st, int i, const struct column *c, bool copy, struct arena *a, struct value *v, struct err *e);
/* The shortest decimal text that reads back as r; Infinity, -Infinity. */
int sq_real_text(double r, char out[40]);

/* ---- catalog.c: shapes ---------------------------------------------------------------------------------------------------- */

/* The shape of main.NAME (or of any other ns: absent), by SQLite's name rule; *s = NULL when it is absent or not an ordinary table.
 * Consistent only inside a transaction. Column ids are 1, 2, … in order; oid is 0; the caller frees. */
int sq_table_shape(sqlite3 *db, const char *ns, const char *name, struct shape **s, struct err *e);
/* The identity is a primary key that holds no NULL now, but may come to. */
bool sq_identity_may_be_null(const struct shape *s);

/* source.c: what identifies a file that no capture is in yet. */
int sq_identity_made(const char *path, char out[128], struct err *e);

#endif
