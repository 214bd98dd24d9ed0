/* What the PostgreSQL driver's files share: connections, queries, errors, names, types and table shapes. Nothing outside drivers/postgres
 * includes it. A PGconn belongs to one thread. */
#ifndef SLUICE_DRIVERS_POSTGRES_PG_H
#define SLUICE_DRIVERS_POSTGRES_PG_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "drivers/db.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/shape.h"

#define PG_OLDEST 130000 /* server versions we know: 13 … 18 */
#define PG_NAME_MAX 63   /* bytes of an identifier */

/* ---- dsn.c ----------------------------------------------------------------------------------------------------------- */

/* Form only, no connection: URL or key=value. CODE_DSN; the message never shows any part that may be a password. */
int pg_dsn_check(const char *dsn, struct err *e);

/* ---- conn.c ---------------------------------------------------------------------------------------------------------- */

enum pg_mode { PG_SQL, PG_REPLICATION /* replication=database: a walsender */ };

/* Connect and pin what changes text or waits: client_encoding UTF8, DateStyle ISO, TimeZone UTC, IntervalStyle postgres, bytea_output hex,
 * extra_float_digits 3, lc_monetary C, search_path '', every timeout 0, synchronous_commit on, row_security off (an error instead of
 * missing rows), default isolation read committed. CODE_DSN, CODE_UNREACHABLE, CODE_PRIVILEGE (login refused), CODE_POOLER. */
int pg_connect(const char *dsn, enum pg_mode mode, PGconn **c, struct err *e);
void pg_close(PGconn **c);        /* NULL inside is fine; sets NULL */
int pg_version(PGconn *c);        /* 150020 */

/* Classify by SQLSTATE (a table in conn.c): r may be NULL (the connection's own message). Clears nothing, returns -1.
 * Message: "CONTEXT: server's text (SQLSTATE)". */
int pg_err(struct err *e, PGconn *c, const PGresult *r, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
const char *pg_sqlstate(const PGresult *r);                   /* "" when there is none */
bool pg_sqlstate_is(const PGresult *r, const char *state);

/* One or several statements without rows of interest. `what` is the context of an error ("create the publication 'x'"), NULL for none. */
int pg_do(PGconn *c, const char *sql, const char *what, struct err *e);
/* The same, formatted; identifiers are the caller's business. */
int pg_dof(PGconn *c, const char *what, struct err *e, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* One statement with text parameters (NULL = SQL NULL), text results. *r is set only on success; PQclear it. */
int pg_query(PGconn *c, const char *sql, int n, const char *const *params, const char *what, PGresult **r, struct err *e);
/* First column of the first row into out (cut to n, "" when NULL or no row). *found may be NULL. */
int pg_scalar(PGconn *c, const char *sql, int n, const char *const *params, const char *what, char *out, size_t out_n, bool *found,
              struct err *e);
bool pg_null(const PGresult *r, int row, int col);
const char *pg_text(const PGresult *r, int row, int col);    /* "" for NULL */
bool pg_bool(const PGresult *r, int row, int col);
int64_t pg_i64(const PGresult *r, int row, int col);         /* 0 for NULL */

/* "ns"."name" */
int pg_qualified(struct buf *b, const char *ns, const char *name, struct err *e);

/* ---- types.c --------------------------------------------------------------------------------------------------------- */

struct pg_type {
    int64_t oid;            /* of the type itself, 0 = unknown */
    const char *name;       /* typname */
    char typtype;           /* b base, c composite, d domain, e enum, r range, m multirange, p pseudo */
    bool builtin;           /* in pg_catalog */
};
/* Logical type of a base type (domains resolved by the caller). LT_NATIVE for everything that only PostgreSQL knows. */
enum ltype pg_ltype(const struct pg_type *t);
/* Precision, scale and length from a typmod; -1 where the type has none. */
void pg_typmod(int64_t type_oid, int32_t typmod, int32_t *precision, int32_t *scale, int32_t *length);
/* How two values of the type compare in a key, before collation is looked at. */
enum equality pg_equality(const struct pg_type *t, int32_t typmod);
/* The name PostgreSQL gives a logical type: what a table made for another engine's column uses. precision, scale, length -1 = none.
 * NULL when there is none. */
const char *pg_type_for(enum ltype t, int32_t precision, int32_t scale, int32_t length, char out[64]);

/* ---- catalog_shape.c ------------------------------------------------------------------------------------------------- */

/* Shape of one table as it stands now; *s is NULL when there is no such table (views and others are no tables).
 * shape.oid is the table's oid, column.id the attnum. shape.options: `PARTITION OF ns.parent FOR VALUES …` or `INHERITS (ns.parent, …)`
 * where the table has a parent, then `PARTITION BY …` where it is partitioned itself (and so holds no rows of its own). Names in it are
 * quoted. All columns are listed, inherited ones too: such a table is made with its columns and attached afterwards. */
int pg_table_shape(PGconn *c, const char *ns, const char *name, struct shape **s, struct err *e);
/* The same by oid. */
int pg_table_shape_oid(PGconn *c, int64_t oid, struct shape **s, struct err *e);
/* What a shape does not say of a table's columns, dropped ones included, in order of attnum. */
struct pg_col {
    int64_t attnum, type_oid;
    int32_t typmod;
    bool dropped, generated;
    bool ancient;           /* dropped before anything that a stream can still send; set by the stream */
};
struct pg_cols { struct pg_col *v; size_t n; char replident; }; /* mem_free(v) */
int pg_table_shape_cols(PGconn *c, int64_t oid, struct shape **s, struct pg_cols *cols, struct err *e);
/* A shape made anew from the first n columns of another: keys that name later columns are left out. */
struct shape *pg_shape_head(const struct shape *s, uint16_t n, struct err *e);
/* Shapes of n tables, in the order of the oids, NULL for one that is gone; out[] is filled by us and owned by the caller. */
int pg_table_shapes(PGconn *c, const int64_t *oids, size_t n, struct shape **out, struct err *e);

/* ---- driver.c -------------------------------------------------------------------------------------------------------- */

extern const struct source_ops postgres_source_ops; /* source.c */

#endif
