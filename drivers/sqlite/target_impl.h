/* What the files target_*.c share. One struct, one thread; a loader and a lane each hold a connection of their own. */
#ifndef SLUICE_DRIVERS_SQLITE_TARGET_IMPL_H
#define SLUICE_DRIVERS_SQLITE_TARGET_IMPL_H

#include <sqlite3.h>

#include "drivers/db.h"
#include "drivers/sqlite/sqlite.h"
#include "drivers/sqlite/target.h"
#include "engine/base/buf.h"

#define TARGET_FORMAT 1

struct target {
    sqlite3 *db;
    char *dsn;
    char stream_id[256];
    char identity[128];
};

/* ---- target_open.c: connections ---- */

/* A connection with our session: WAL, synchronous=FULL, foreign keys not enforced, no trigger of anyone's fires. Created when absent. */
int sqt_connect(const char *dsn, sqlite3 **db, struct err *e);

/* ---- target_stmt.c: statements ---- */

/* The connection's last error; what a value broke (STRICT, INTEGER PRIMARY KEY) is CODE_VALUE_UNREPRESENTABLE. */
int sqt_err(sqlite3 *db, const char *doing, struct err *e);
int sqt_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **s, struct err *e); /* exactly one statement */
int sqt_named(sqlite3 *db, const char *block, sqlite3_stmt **s, struct err *e); /* of sql/sqlite/target.sql */
int sqt_step(sqlite3_stmt *s, bool *row, struct err *e);
int sqt_done(sqlite3_stmt *s, struct err *e);                                       /* step to the end, reset */
int sqt_bind_str(sqlite3_stmt *s, const char *param, const char *v, struct err *e); /* borrowed until the next bind */
int sqt_bind_i64(sqlite3_stmt *s, const char *param, int64_t v, struct err *e);
int sqt_count(sqlite3 *db, const char *block, int64_t *n, struct err *e); /* a block without input whose answer is one number */

/* ---- target_state.c ---- */

int sqt_control_there(struct target *t, bool *there, struct err *e);
/* Inside a transaction: the stream's epoch must be this one, else CODE_FENCED. */
int sqt_epoch_check(sqlite3 *db, const char *stream_id, uint64_t epoch, bool absent_is_fine, struct err *e);
int sqt_fenced(const char *stream_id, struct err *e);

/* ---- target_types.c: what a source column is on this target ---- */

/* How values of a column are bound. */
enum sqt_conv {
    CONV_EXACT /* SQLite's own storage classes */,
    CONV_INT,
    CONV_BOOL,
    CONV_REAL,
    CONV_TEXT,
    CONV_BLOB,
    CONV_NONE /* generated */
};
bool sqt_is_own(const struct shape *src); /* read by the SQLite driver */
enum sqt_conv sqt_conv(const struct shape *src, const struct column *c);
/* The declared type of a column made for `c` of another engine; -1 when there is none. */
int sqt_declared(const struct column *c, char out[48]);
/* c's default as a literal of this target, appended; *plain false (and nothing of use appended) when it is none. */
int sqt_default(const struct column *c, struct buf *out, bool *plain, struct err *e);
bool sqt_name_same(const char *a, const char *b);     /* SQLite's rule: ASCII case is ignored */
int sqt_col(const struct shape *s, const char *name); /* by that rule; -1 when absent */
const char *sqt_collation(enum equality q);           /* "BINARY", "NOCASE", "RTRIM" */
enum equality sqt_key_equality(const struct shape *s, const struct key *k, uint16_t i);
int sqt_check_ns(const char *ns, struct err *e); /* only main */

/* ---- target_bind.c ---- */

struct target_table {
    uint64_t id; /* never reused: keys of statement caches */
    struct target *t;
    struct shape *src; /* ours */
    struct shape *dst;
    char *name;
    char label[160];
    uint8_t *conv;         /* per source column: enum sqt_conv */
    const struct key *key; /* src's identity, NULL when keyless */
    uint8_t *in_key;       /* per source column: it belongs to the identity */
    bool respells;         /* a key of equal value may be spelled anew (NOCASE): updates carry its columns too */
    bool arbiter;          /* the target has a unique key on exactly the identity's columns, under the source's equality */
    bool without_rowid;
    const char *rowid;   /* a name of the rowid that no column hides */
    struct buf *scratch; /* per source column and image: decoded bytes, valid while the statement runs */
};

int sqt_table_captured(struct target *t, const char *source_identity, const struct shape *src, const char *ns, const char *name, struct err *e);
int sqt_bind_table(struct target *t, const struct shape *src, const char *ns, const char *name, struct target_table **tt, struct err *e);
void sqt_unbind_table(struct target_table *tt);
/* Bind value v of source column c; image 0 or 1 tells two values of one column in one statement apart. The value's bytes stay borrowed.
 * Errors name table, key (from `row`) and column. */
int sqt_bind_value(struct target_table *tt, sqlite3_stmt *s, int at, uint16_t c, const struct value *v, int image, const struct value *row,
                   struct err *e);
/* "(id=5)" of a row, cut at out_len; only key columns are shown. */
void sqt_row_key(const struct target_table *tt, const struct value *row, char *out, size_t out_len);
/* Statement texts; parameters in the order in which the values are bound: first what is set, then what is compared. */
int sqt_insert_sql(const struct target_table *tt, bool upsert, struct buf *b, struct err *e);
/* keys: set the identity's columns too. full: compare the whole row instead of the identity. */
int sqt_update_sql(const struct target_table *tt, const uint8_t *mask, bool keys, bool full, struct buf *b, struct err *e);
int sqt_delete_sql(const struct target_table *tt, bool full, struct buf *b, struct err *e);
bool sqt_sets(const struct target_table *tt, const uint8_t *mask, bool keys, uint16_t c); /* does such an update set column c? */

/* ---- target_check.c ---- */

int sqt_compatible(struct target *t, const struct shape *src, const struct shape *dst, struct err *e);
int sqt_keys_check(struct target *t, const struct shape *src, const struct shape *dst, struct err *e);

/* ---- target_ddl.c ---- */

/* One column of another engine's table. */
int sqt_column_sql(const struct shape *src, const struct column *c, bool warn, struct buf *b, struct err *e);
/* Do two definitions read the same? Blanks, comments, case and the quotes around names are ignored. */
bool sqt_same_text(const char *a, const char *b);
int sqt_create_sql(const struct shape *src, const char *name, bool warn, struct buf *b,
                   struct err *e); /* CREATE TABLE for src under this name */
int sqt_table_shape(struct target *t, const char *ns, const char *name, struct shape **s, struct err *e);
int sqt_table_has_rows(struct target *t, const char *ns, const char *name, bool *any, struct err *e);
int sqt_objects_create(struct target *t, const struct catalog *c, const char *(*map_ns)(void *arg, const char *ns), void *arg,
                       struct err *e);
int sqt_table_create(struct target *t, const struct shape *src, const char *ns, const char *name, struct err *e);
int sqt_table_finish(struct target *t, const struct shape *src, const char *ns, const char *name, int stage,
                     const char *(*map_ns)(void *arg, const char *ns), void *arg, struct err *e);
int sqt_table_drop(struct target *t, const char *ns, const char *name, struct err *e);
int sqt_sequence_set(struct target *t, const struct object *o, const char *ns, struct err *e);
int sqt_sequence_forward(sqlite3 *db, const char *name, int64_t value, struct err *e); /* a name that is no AUTOINCREMENT table: nothing */
/* In a transaction of the caller's. */
int sqt_create_in(sqlite3 *db, const struct shape *src, const char *name, struct err *e);
int sqt_indexes_in(sqlite3 *db, const struct shape *src, const char *name, bool unique, bool plain, struct err *e);

/* ---- target_lane.c, target_alter.c, target_load.c ---- */

#define LANE_STMTS 64
struct lane_stmt { /* a prepared statement; the least recently used one makes room */
    uint64_t table, used;
    uint8_t kind, variant;
    uint8_t *mask; /* nmask bytes; NULL for all columns */
    uint16_t nmask;
    sqlite3_stmt *s;
};
struct lane {
    struct target *t;
    sqlite3 *db;
    unsigned lane;
    char stream_id[256];
    sqlite3_stmt *mark, *state;
    struct lane_stmt cache[LANE_STMTS];
    uint64_t clock;
};
/* BEGIN IMMEDIATE and the lane's mark: CODE_FENCED, CODE_MARK_MISMATCH. writes: something beside the mark follows, so it must be a later
 * one. */
int sqt_lane_begin(struct lane *l, const struct mark *m, bool writes, struct err *e);
/* The state row when the window ends a link, then COMMIT. */
int sqt_lane_end(struct lane *l, const struct mark *m, struct err *e);
void sqt_lane_forget(struct lane *l); /* every cached statement */
int sqt_lane_open(struct target *t, const struct target_state *st, unsigned lane, struct lane **l, struct err *e);
int sqt_lane_fk_enforced(struct lane *l, bool *yes, struct err *e);
int sqt_lane_apply(struct lane *l, const struct run *runs, size_t nruns, const struct mark *m, struct apply_result *r, struct err *e);
void sqt_lane_close(struct lane *l);
int sqt_table_alter(struct lane *l, const struct shape *before, const struct shape *after, const char *old_ns, const char *old_name,
                    const char *ns, const char *name, const struct mark *m, struct err *e);

int sqt_loader_open(struct target *t, const struct target_state *st, struct loader **l, struct err *e);
bool sqt_loader_raw(struct loader *l, const struct target_table *tt, enum rows_encoding enc);
int sqt_loader_done(struct loader *l, uint32_t table, uint64_t *chunks, bool *whole, struct err *e);
int sqt_loader_begin(struct loader *l, struct target_table *tt, struct err *e);
int sqt_loader_raw_put(struct loader *l, const char *p, size_t n, struct err *e);
int sqt_loader_rows(struct loader *l, const struct value *rows, size_t nrows, struct err *e);
int sqt_loader_commit(struct loader *l, uint32_t table, uint64_t chunks, bool whole, struct err *e);
void sqt_loader_close(struct loader *l);

/* state */
int sqt_control_ensure(struct target *t, struct err *e);
int sqt_state_read(struct target *t, const char *stream_id, struct target_state *st, bool *found, struct err *e);
int sqt_state_list(struct target *t, struct arena *a, struct target_state **st, size_t *n, struct err *e);
int sqt_state_write(struct target *t, struct target_state *st, struct err *e);
int sqt_takeover(struct target *t, struct target_state *st, struct err *e);
int sqt_stop_request(struct target *t, const char *stream_id, int64_t us, struct err *e);
int sqt_marks_read(struct target *t, const char *stream_id, uint64_t *lane_seq, size_t *nlanes, struct err *e);
int sqt_marks_clear(struct target *t, const struct target_state *st, struct err *e);

#endif
