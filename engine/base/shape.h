/* The shape of a table: what stands in the chain as shapes/<digest>.json and what every driver's catalogue reader produces.
 * A shape is immutable once made; it owns everything it points to (one arena). */
#ifndef SLUICE_BASE_SHAPE_H
#define SLUICE_BASE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"

enum ltype {
    LT_BOOL, LT_INT16, LT_INT32, LT_INT64, LT_UINT16, LT_UINT32, LT_UINT64, LT_NUMERIC, LT_FLOAT4, LT_FLOAT8, LT_TEXT, LT_BYTES,
    LT_DATE, LT_TIME, LT_TIMETZ, LT_TIMESTAMP, LT_TIMESTAMPTZ, LT_INTERVAL, LT_UUID, LT_JSON, LT_JSONB, LT_ENUM, LT_SET, LT_BIT,
    LT_ARRAY, LT_INET, LT_GEOMETRY, LT_NATIVE /* same-engine copies only; `native` names it */
};
const char *ltype_name(enum ltype t);          /* "bool", "int16", … "native" */
int ltype_find(const char *name);              /* -1 if unknown */

/* How two values of a column are compared for equality in a key. */
enum equality {
    EQ_BYTES,   /* equal only when their bytes are */
    EQ_NOCASE,  /* SQLite NOCASE: ASCII case is ignored */
    EQ_RTRIM,   /* SQLite RTRIM, or PAD SPACE: trailing blanks are ignored */
    EQ_NONDET,  /* a nondeterministic collation: unknowable from the bytes */
    EQ_NUMERIC  /* 1.0 equals 1.00: numeric, floats, SQLite's untyped columns */
};
const char *equality_name(enum equality q);
int equality_find(const char *name);

enum ident { IDENT_NONE, IDENT_ALWAYS, IDENT_BY_DEFAULT, IDENT_AUTO /* SQLite rowid alias with AUTOINCREMENT */ };

struct column {
    const char *name;
    const char *native;      /* the source's own type text, e.g. "numeric(12,2)", "varchar(20)", "INTEGER" */
    const char *collation;   /* source's name for it, NULL for the default */
    const char *default_sql; /* source's expression text, NULL if none */
    const char *generated;   /* expression of a generated column, NULL if it is stored as given; such columns carry no values */
    int64_t id;              /* identity through renames: Postgres attnum; SQLite: a number of ours; 0 = unknown */
    enum ltype type;
    enum ltype elem;         /* LT_ARRAY: its element's type */
    int32_t precision, scale, length; /* -1 when there is none */
    enum equality equality;
    enum ident ident;
    bool not_null;
    bool generated_stored;
};

enum key_kind { KEY_PRIMARY, KEY_UNIQUE, KEY_INDEX, KEY_FOREIGN, KEY_CHECK, KEY_EXCLUDE };
const char *key_kind_name(enum key_kind k);

struct key {
    const char *name;
    const char *def;         /* same-engine DDL: what stands behind ADD CONSTRAINT name, or the whole CREATE INDEX */
    enum key_kind kind;
    uint16_t ncols;
    const uint16_t *cols;    /* ordinals into shape.cols; 0 columns for a pure expression */
    const enum equality *equality; /* per key column: under the index's own collation */
    bool constraint;         /* a constraint (ADD CONSTRAINT), not just an index */
    bool partial, expression;
    bool deferrable, initially_deferred;
    bool nulls_not_distinct;
    /* KEY_FOREIGN */
    const char *ref_ns, *ref_table;
    uint16_t nref;
    const char *const *ref_cols;
    const char *on_delete, *on_update; /* "NO ACTION", "CASCADE", … */
};

struct shape {
    const char *engine;      /* driver that read it: "postgres", "sqlite" */
    const char *ns, *name;   /* namespace ("public", "main") and table */
    uint32_t table;          /* lineage's number; 0 until the producer gave one. Not part of the digest */
    int64_t oid;             /* source's identity of the table; 0 when it has none. Not part of the digest */
    uint16_t ncols;
    const struct column *cols;
    uint16_t nkeys;
    const struct key *keys;
    int16_t identity;        /* ordinal of the key that identifies a row in changes; -1: the full row */
    int16_t primary;         /* ordinal of the primary key, -1 if none */
    bool full_image;         /* changes carry the whole old row (REPLICA IDENTITY FULL, keyless tables) */
    bool without_rowid, strict;
    const char *options;     /* same-engine text behind CREATE TABLE (…), e.g. "PARTITION BY …", NULL if none */
    const char *create_sql;  /* SQLite: the source's own CREATE TABLE, NULL elsewhere */
    char digest[65];         /* SHA-256 of its JSON bytes, hex; filled by shape_finish and shape_from_json */
    struct arena *arena;
};

/* Builder: shape_new, fill cols and keys with arrays from s->arena, then shape_finish computes the digest. */
struct shape *shape_new(struct err *e);
int shape_finish(struct shape *s, struct err *e);
void shape_free(struct shape *s); /* NULL is fine */
struct shape *shape_copy(const struct shape *s, struct err *e);

/* One line of JSON with keys in fixed order: the bytes that are stored and hashed. */
int shape_to_json(const struct shape *s, struct buf *b, struct err *e);
struct shape *shape_from_json(const char *p, size_t n, struct err *e); /* CODE_MANIFEST_INVALID */

int shape_col(const struct shape *s, const char *name); /* ordinal or -1, exact bytes */
/* True if column c belongs to the row identity (all columns when identity is -1). */
bool shape_in_identity(const struct shape *s, uint16_t c);
const char *shape_label(const struct shape *s, char out[160]); /* ns.name for messages */

/* Objects beside tables that a same-engine restore creates first: schemas, enums, domains, extensions' names, sequences. */
enum object_kind { OBJECT_SCHEMA, OBJECT_TYPE, OBJECT_SEQUENCE, OBJECT_COLLATION };
struct object {
    enum object_kind kind;
    const char *ns, *name;
    const char *sql;       /* CREATE statement, one statement; empty for a sequence that an identity column brings along */
    const char *owned_by;  /* sequence: "ns.table.column" it belongs to, NULL if it stands alone */
    int64_t value;         /* sequence: last value */
    bool is_called;
};
struct catalog {
    struct shape **tables; size_t ntables; /* owned */
    struct object *objects; size_t nobjects;
    const char **warnings; size_t nwarnings; /* what will not be carried: views, functions, grants, … one line each */
    struct arena *arena;   /* objects, warnings */
};
/* Builder: the catalog itself and `tables` come from mem_alloc, everything else lives in its arena. */
struct catalog *catalog_new(struct err *e);                                          /* NULL on error */
int catalog_add_table(struct catalog *c, struct shape *s, struct err *e);            /* takes s, on failure too */
struct object *catalog_add_object(struct catalog *c, struct err *e);                 /* zeroed; earlier pointers into objects move */
int catalog_warn(struct catalog *c, struct err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void catalog_free(struct catalog *c); /* NULL is fine */

#endif
