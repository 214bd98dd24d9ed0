/* What the files of the PostgreSQL target share. Nothing outside drivers/postgres/target_*.c includes it.
 *
 * A target, lane or loader has a connection of its own. What a lane or loader needs of its target (names, stream, epoch) is copied when it is
 * opened, so that they may live on other threads. */
#ifndef SLUICE_DRIVERS_POSTGRES_TARGET_PRIV_H
#define SLUICE_DRIVERS_POSTGRES_TARGET_PRIV_H

#include <libpq-fe.h>

#include "drivers/db.h"
#include "drivers/postgres/pg.h"
#include "engine/base/arena.h"
#include "engine/base/buf.h"

struct target {
    PGconn *c;
    char *dsn;
    char *default_ns;
    char *ctl_ns;       /* control schema's name */
    char *ctl;          /* the same, quoted */
    char *stream_id;    /* NULL: none was given */
    char *polite;       /* stream whose advisory lock this connection holds */
};

/* How an array of a column's values is written for the server. */
enum wire { WIRE_TEXT, WIRE_INT2, WIRE_INT4, WIRE_INT8, WIRE_BYTEA };
#define WIRES 5
extern const unsigned wire_array_oid[WIRES], wire_elem_oid[WIRES];
extern const char *const wire_name[WIRES]; /* "text", … */

struct target_column {      /* one source column */
    char *ident;            /* quoted name */
    char *cast;             /* quoted qualified type without its modifier: no silent cut or rounding on the way in */
    char *input, *input_args; /* the type's input function and its further arguments, where a cast from text would call another function; else NULL */
    char *native;           /* type with modifier, as DDL writes it */
    char *equals;           /* the key operator of the type, qualified */
    const struct column *to;/* the target's column */
    enum wire wire;
    bool stored;            /* has values: not generated */
    bool key;               /* of the row identity */
    bool always;            /* GENERATED ALWAYS AS IDENTITY on the target */
    bool checked;           /* every value goes through convert_value */
    unsigned convert_flags;
};
struct target_table {
    uint64_t serial;        /* never used twice: names its prepared statements */
    const struct shape *src;/* borrowed from the caller of bind */
    struct shape *dst;
    char *label;            /* ns.table for messages */
    char *name;             /* quoted, qualified */
    char *only;             /* "ONLY " where inheritance must not reach further */
    struct target_column *cols;
    uint16_t nstored, nkey;
    bool unique;            /* the identity has a plain unique index here: a key matches at most one row */
    bool arbiter;           /* … that ON CONFLICT can use */
    bool deferrable;        /* has deferrable unique or exclusion constraints */
    bool toggle;            /* an identity column GENERATED ALWAYS must be opened for updates */
    bool raw;               /* COPY text of the source can go in as it is */
    char *copy_sql;
    struct arena *arena;
};

/* ---- target_open.c ---- */
/* embed_sql("postgres/NAME") with {ctl} (and, if not NULL, {KEY}) replaced; mem_free it. */
char *tg_sql(const char *name, const char *ctl, const char *key, const char *value, struct err *e);
/* Connect a session that writes rows. *replica says whether the server let us switch its triggers and foreign keys off. */
int tg_connect_writer(const char *dsn, PGconn **c, bool *replica, struct err *e);
int tg_begin(PGconn *c, struct err *e);
int tg_commit(PGconn *c, struct err *e); /* a COMMIT that the server answers with ROLLBACK is an error */
void tg_rollback(PGconn *c);
int tg_count(PGconn *c, const char *sql, int n, const char *const *params, const char *what, long *affected, struct err *e);
/* pg_err for a statement that wrote rows: names table, constraint and, where it holds no more than a key, the detail. */
int tg_row_err(struct err *e, PGconn *c, const PGresult *r, const char *label);
int tg_name_check(const char *kind, const char *name, struct err *e); /* CODE_NAME_COLLISION past 63 bytes, never cut */
/* numbers as text parameters */
const char *tg_u64(char out[24], uint64_t v);

/* ---- target_state.c ---- */
int tg_control_ensure(struct target *t, struct err *e);
int tg_state_read(struct target *t, const char *stream_id, struct target_state *st, bool *found, struct err *e);
int tg_state_list(struct target *t, struct arena *a, struct target_state **st, size_t *n, struct err *e);
int tg_state_write(struct target *t, struct target_state *st, struct err *e);
int tg_takeover(struct target *t, struct target_state *st, struct err *e);
int tg_stop_request(struct target *t, const char *stream_id, int64_t us, struct err *e);
int tg_marks_read(struct target *t, const char *stream_id, uint64_t *lane_seq, size_t *nlanes, struct err *e);
int tg_route_read(struct target *t, const char *stream_id, struct target_route *r, bool *found, struct err *e);
int tg_route_write(struct target *t, const struct target_state *st, const struct target_route *r, struct err *e);
int tg_marks_clear(struct target *t, const struct target_state *st, struct err *e);

/* ---- target_type.c ---- */
bool tg_native(const struct shape *src);    /* read by this driver: types, defaults and definitions can be taken over as they stand */
/* DDL type of a source column, with its collation; key: text is compared bytewise where the source is another engine. */
int tg_type_text(struct buf *b, const struct shape *src, uint16_t col, struct err *e);
/* name, type and what stands behind it; ns: where the table lies on the target. */
int tg_column_ddl(struct buf *b, const struct shape *src, uint16_t col, const char *ns, struct err *e);
/* May values of `from` stand in `to`? convert_fit, but exact for types of our own. */
int tg_fit(const struct shape *src, const struct column *from, const struct column *to);
bool tg_constant_default(const char *sql);  /* a literal with at most one cast */
bool tg_in_key(const struct shape *s, uint16_t col); /* of any primary or unique key */

/* ---- target_check.c ---- */
int tg_compatible(struct target *t, const struct shape *src, const struct shape *dst, struct err *e);
int tg_keys_check(struct target *t, const struct shape *src, const struct shape *dst, struct err *e);

/* ---- target_ddl.c, target_finish.c, target_alter.c ---- */
int tg_objects_create(struct target *t, const struct catalog *c, const char *(*map_ns)(void *arg, const char *ns), void *arg, struct err *e);
int tg_table_create(struct target *t, const struct shape *src, const char *ns, const char *name, struct err *e);
int tg_table_create_on(PGconn *c, const struct shape *src, const char *ns, const char *name, struct err *e);
int tg_table_drop(struct target *t, const char *ns, const char *name, struct err *e);
int tg_sequence_set(struct target *t, const struct object *o, const char *ns, struct err *e);
/* Move a sequence forward only. Missing sequences are logged and left. */
int tg_sequence_forward(PGconn *c, const char *ns, const char *default_ns, const char *name, int64_t value, bool called, struct err *e);
/* The same for a transaction that is sent later: appends the statement and its first parameter, each with a NUL behind it; both empty when there is no
 * such sequence. The value and whether it was called are the second and third. */
int tg_sequence_later(PGconn *c, const char *ns, const char *default_ns, const char *name, struct buf *b, struct err *e);
int tg_table_finish(struct target *t, const struct shape *src, const char *ns, const char *name, int stage,
                    const char *(*map_ns)(void *arg, const char *ns), void *arg, struct err *e);
int tg_table_finish_on(PGconn *c, const struct shape *src, const char *ns, const char *name, int stage,
                       const char *(*map_ns)(void *arg, const char *ns), void *arg, struct err *e);
/* Is the target's key d what the source's key k asks for, under whatever name? map_ns NULL: the source's own namespace became ns. */
bool tg_key_same(const struct shape *src, const struct key *k, const struct shape *dst, const struct key *d,
                 const char *(*map_ns)(void *arg, const char *ns), void *arg);
/* Behind `PARTITION OF `: one identifier's end, and whether it is name; a list of ns.table with the table's own namespace exchanged. */
const char *tg_skip_ident(const char *p, const char *name, bool *same);
int tg_options_text(struct buf *b, const struct shape *src, const char *p, const char *ns, struct err *e);
int tg_schema_ensure(PGconn *c, const char *ns, struct err *e);
int tg_table_alter(struct lane *l, const struct shape *before, const struct shape *after, const char *old_ns, const char *old_name, const char *ns, const char *name,
                   const struct mark *m, struct err *e);

/* ---- target_bind.c ---- */
int tg_bind(struct target *t, const struct shape *src, const char *ns, const char *name, struct target_table **tt, struct err *e);
void tg_unbind(struct target_table *tt);
/* The value as the target's column takes it; errors name table, key and column. key_row: the row's values, for the message. */
int tg_value(const struct target_table *tt, uint16_t col, const struct value *in, const struct value *key_row, struct arena *a,
             struct value *out, struct err *e);

/* ---- target_array.c: one-dimensional arrays in binary form, so that no text needs quoting ---- */
int array_begin(struct buf *b, enum wire w, size_t n, struct err *e);
/* v: NULL, TEXT or BYTES. -1 with CODE_VALUE_UNREPRESENTABLE when the text is not of that wire. */
int array_put(struct buf *b, enum wire w, const struct value *v, struct err *e);

/* ---- target_sql.c: the statements of runs ---- */
enum stmt_kind { STMT_UPSERT, STMT_INSERT, STMT_UPDATE, STMT_DELETE, STMT_UPDATE_FULL, STMT_DELETE_FULL };
struct stmt_shape {
    enum stmt_kind kind;
    bool rekey;             /* update: key columns are set too */
    bool counted;           /* answers (rows, distinct changes) instead of a bare row count: the key may match several rows */
};
enum param_from { PARAM_KEY /* before, else after */, PARAM_BEFORE, PARAM_AFTER };
struct param { uint16_t col; enum param_from from; enum wire wire; };
/* *nparams of p (room for 2 * ncols) are filled. An empty text: there is nothing to do. */
int tg_stmt_text(struct buf *b, const struct target_table *tt, const struct stmt_shape *s, const uint8_t *mask, struct param *p,
              size_t *nparams, struct err *e);

/* ---- target_load.c ---- */
int tg_loader_open(struct target *t, const struct target_state *st, struct loader **l, struct err *e);
bool tg_loader_raw(struct loader *l, const struct target_table *tt, enum rows_encoding enc);
int tg_loader_done(struct loader *l, uint32_t table, uint64_t *chunks, bool *whole, struct err *e);
int tg_loader_begin(struct loader *l, struct target_table *tt, struct err *e);
int tg_loader_raw_put(struct loader *l, const char *p, size_t n, struct err *e);
int tg_loader_rows(struct loader *l, const struct value *rows, size_t nrows, struct err *e);
int tg_loader_commit(struct loader *l, uint32_t table, uint64_t chunks, bool whole, struct err *e);
void tg_loader_close(struct loader *l);

/* ---- target_lane.c ---- */
struct lane_stmt;
struct lane {
    PGconn *c;
    char *ctl, *stream_id, *default_ns;
    char *mark_sql, *state_sql, *look_sql;
    uint64_t epoch;
    unsigned number;
    bool replica;           /* session_replication_role = replica is in force */
    bool prepared;          /* mark and state statements */
    bool missed, guard, referenced; /* why the last attempt failed: the mark's epoch, a fixed identity column, a table others refer to */
    bool by_delete;         /* this attempt deletes rows instead of truncating */
    struct lane_stmt *stmts; size_t nstmts, stmts_cap;
    uint64_t next_name;
    struct lane_op *ops; size_t nops, ops_cap;
    struct buf *params; size_t nparams_cap;
    const char **pv; int *pl, *pf;
    struct buf sql;
    struct buf later;       /* tg_sequence_later of every sequence of the window, while a truncate of it restarts sequences */
    struct arena *arena;
};
int tg_lane_open(struct target *t, const struct target_state *st, unsigned lane, struct lane **l, struct err *e);
int tg_lane_apply(struct lane *l, const struct run *runs, size_t nruns, const struct mark *m, struct apply_result *r, struct err *e);
int tg_lane_fk_enforced(struct lane *l, bool *yes, struct err *e);
void tg_lane_close(struct lane *l);
/* The mark alone, on an open transaction (schema changes): CODE_FENCED, CODE_MARK_MISMATCH. */
int lane_mark(struct lane *l, const struct mark *m, struct err *e);
/* Why did the mark's statement miss? */
int lane_mark_missed(struct lane *l, const struct mark *m, struct err *e);

#endif
