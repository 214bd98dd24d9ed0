/* What a target refuses before anything changes. */
#include "tests/unit/drivers/sqlite/target_fixture.h"

static struct target *t;
static struct err e;

/* The target's own table of this SQL. */
static struct shape *on_target(const char *sql, const char *name) {
    struct shape *s = NULL;
    fx_sql(sql);
    if (T->table_shape(t, "main", name, &s, &e) < 0 || !s) {
        printf("Bail out! %s: %s\n", sql, e.msg);
        exit(1);
    }
    return s;
}

static int fits(struct shape *src, const char *sql, const char *name) {
    char drop[100];
    snprintf(drop, sizeof drop, "DROP TABLE IF EXISTS %s", name);
    fx_sql(drop);
    struct shape *d = on_target(sql, name);
    err_clear(&e);
    int rc = T->compatible(t, src, d, &e);
    if (rc == 0) rc = T->keys_check(t, src, d, &e);
    shape_free(d);
    return rc;
}

static void types(void) {
    static const struct {
        const char *native;
        enum ltype type;
    } out[] = {
        {"time with time zone", LT_TIMETZ},
        {"interval", LT_INTERVAL},
        {"mood", LT_ENUM},
        {"bit(3)", LT_BIT},
        {"int[]", LT_ARRAY},
        {"inet", LT_INET},
        {"point", LT_GEOMETRY},
        {"tsvector", LT_NATIVE},
    };
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++) {
        struct fx_col c[] = {{"id", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0},
                             {"odd", out[i].native, out[i].type, false, NULL, 2, EQ_BYTES, 0, 0}};
        struct shape *s = fx_pg_shape("t", c, 2, 1, -1);
        err_clear(&e);
        ok(T->compatible(t, s, NULL, &e) == -1 && e.code == CODE_TYPE_UNSUPPORTED && strstr(e.msg, "public.t") && strstr(e.msg, "'odd'") &&
               strstr(e.msg, out[i].native),
           "%s is refused by name", out[i].native);
        shape_free(s);
    }
    struct fx_col two[] = {{"a", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0},
                           {"A", "text", LT_TEXT, false, NULL, 2, EQ_BYTES, 0, 0}};
    struct shape *s = fx_pg_shape("t", two, 2, 1, -1);
    err_clear(&e);
    ok(T->compatible(t, s, NULL, &e) == -1 && e.code == CODE_NAME_COLLISION && strstr(e.msg, "'a' and 'A'"),
       "columns that differ by ASCII case");
    shape_free(s);
}

static void names(void) {
    struct fx_col c[] = {{"id", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0}};
    struct shape *s = fx_pg_shape("SQLite_x", c, 1, 1, -1);
    err_clear(&e);
    ok(T->compatible(t, s, NULL, &e) == -1 && e.code == CODE_NAME_COLLISION, "a table under a name that SQLite keeps to itself");
    shape_free(s);
    s = fx_pg_shape("none", c, 0, -1, -1);
    err_clear(&e);
    ok(T->compatible(t, s, NULL, &e) == -1 && e.code == CODE_TYPE_UNSUPPORTED, "a table without columns");
    shape_free(s);
}

static void divergence(void) {
    struct fx_col c[] = {{"id", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0},
                         {"n", "numeric", LT_NUMERIC, false, NULL, 2, EQ_NUMERIC, 0, 0},
                         {"d", "date", LT_DATE, false, NULL, 3, EQ_BYTES, 0, 0},
                         {"b", "bytea", LT_BYTES, false, NULL, 4, EQ_BYTES, 0, 0},
                         {"f", "float8", LT_FLOAT8, false, NULL, 5, EQ_NUMERIC, 0, 0}};
    struct shape *s = fx_pg_shape("t", c, 5, 1, -1);
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT, d DATE, b BLOB, f REAL)", "t") == 0, "fitting affinities: %s", e.msg);
    ok(fits(s, "CREATE TABLE t(ID INTEGER PRIMARY KEY, N, D, B TEXT, F)", "t") == 0, "no type at all takes everything: %s", e.msg);
    ok(fits(s, "CREATE TABLE t(id INT PRIMARY KEY, n ANY, d TEXT, b BLOB, f REAL) STRICT", "t") == 0, "STRICT: %s", e.msg);
    static const struct {
        const char *sql, *why;
    } bad[] = {
        {"CREATE TABLE t(id INTEGER PRIMARY KEY, n NUMERIC, d TEXT, b BLOB, f REAL)", "decimals in a NUMERIC column"},
        {"CREATE TABLE t(id TEXT PRIMARY KEY, n TEXT, d TEXT, b BLOB, f REAL)", "integers in a TEXT column"},
        {"CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT, d INTEGER, b BLOB, f REAL)", "dates in an INTEGER column"},
        {"CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT, d TEXT, b BLOB, f INTEGER)", "floats in an INTEGER column"},
        {"CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT, d TEXT, b TEXT, f REAL) STRICT", "bytes in a STRICT text column"},
        {"CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT, d TEXT, b BLOB)", "a column missing"},
        {"CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT, d TEXT, b BLOB, f REAL, x TEXT)", "a column too many"},
        {"CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT NOT NULL, d TEXT, b BLOB, f REAL)", "NOT NULL on the target only"},
        {"CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT, d TEXT AS (n), b BLOB, f REAL)", "generated on the target only"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ok(fits(s, bad[i].sql, "t") == -1 && e.marker == MARKER_RESUME_SCHEMA_DIVERGENCE, "%s", bad[i].why);
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, d DATE, n TEXT, b BLOB, f REAL)", "t") == -1 &&
           e.marker == MARKER_COLUMN_ORDER_CHANGED,
       "another order of columns");
    shape_free(s);
    s = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v NUMERIC)", "t", NULL);
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, v DECIMAL)", "t") == 0, "the same affinity");
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "t") == -1 && e.marker == MARKER_RESUME_SCHEMA_DIVERGENCE,
       "another affinity than the SQLite source's");
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, v ANY) STRICT", "t") == -1 && e.marker == MARKER_RESUME_SCHEMA_DIVERGENCE,
       "STRICT on one side only");
    shape_free(s);
}

static void keys(void) {
    struct fx_col c[] = {{"id", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0},
                         {"k", "text", LT_TEXT, true, NULL, 2, EQ_BYTES, 0, 0},
                         {"v", "text", LT_TEXT, false, NULL, 3, EQ_BYTES, 0, 0}};
    struct shape *s = fx_pg_shape("t", c, 3, 1, 1);
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT UNIQUE, v TEXT)", "t") == 0, "the same keys: %s", e.msg);
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v TEXT, UNIQUE(v, k))", "t") == 0, "a wider key is implied: %s", e.msg);
    ok(fits(s, "CREATE TABLE t(id INTEGER, k TEXT, v TEXT)", "t") == 0, "no key forbids nothing");
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v TEXT UNIQUE)", "t") == -1 && e.marker == MARKER_SOURCE_UNIQUE_KEY_ABSENT &&
           e.code == CODE_TARGET_KEYS && strstr(e.msg, "(v)"),
       "a unique key of the target alone");
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v TEXT); CREATE UNIQUE INDEX x ON t(v) WHERE v > ''", "t") == -1 &&
           e.marker == MARKER_SOURCE_UNIQUE_KEY_ABSENT,
       "a partial one");
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v TEXT); CREATE UNIQUE INDEX x ON t(lower(k))", "t") == -1 &&
           e.marker == MARKER_SOURCE_UNIQUE_KEY_ABSENT,
       "one on an expression");
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT UNIQUE COLLATE NOCASE, v TEXT)", "t") == -1 &&
           e.marker == MARKER_KEY_COLLATION_MERGE && e.sub == MARKER_NONE && strstr(e.hint, "COLLATE BINARY"),
       "NOCASE under a bytewise source");
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v TEXT); CREATE UNIQUE INDEX x ON t(k COLLATE RTRIM)", "t") == -1 &&
           e.marker == MARKER_KEY_COLLATION_MERGE,
       "RTRIM too");
    shape_free(s);
    c[1].eq = EQ_NONDET;
    s = fx_pg_shape("t", c, 3, 1, 1);
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT UNIQUE, v TEXT)", "t") == -1 && e.marker == MARKER_KEY_COLLATION_MERGE &&
           e.sub == MARKER_KEY_COLLATION_GUARD_UNSUPPORTED,
       "a nondeterministic source key cannot be guarded");
    err_clear(&e);
    ok(T->keys_check(t, s, NULL, &e) == -1 && e.sub == MARKER_KEY_COLLATION_GUARD_UNSUPPORTED,
       "not by a table that is still to be made either");
    shape_free(s);
    c[0].eq = EQ_NONDET;
    c[1].eq = EQ_BYTES;
    s = fx_pg_shape("t", c, 3, 1, 1);
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT UNIQUE, v TEXT)", "t") == 0,
       "numbers have no collation, whatever the source says of theirs: %s", e.msg);
    shape_free(s);
    s = fx_source_shape("CREATE TABLE t(k TEXT NOT NULL COLLATE NOCASE PRIMARY KEY, v TEXT)", "t", NULL);
    ok(fits(s, "CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY, v TEXT)", "t") == 0, "a bytewise key under a NOCASE source: %s", e.msg);
    ok(fits(s, "CREATE TABLE t(k TEXT NOT NULL COLLATE NOCASE PRIMARY KEY, v TEXT)", "t") == 0, "NOCASE under NOCASE");
    ok(fits(s, "CREATE TABLE t(k TEXT NOT NULL COLLATE RTRIM PRIMARY KEY, v TEXT)", "t") == -1 && e.marker == MARKER_KEY_COLLATION_MERGE,
       "RTRIM under NOCASE");
    shape_free(s);
    s = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); CREATE UNIQUE INDEX x ON t(lower(v)) WHERE v IS NOT NULL", "t",
                        NULL);
    ok(fits(s, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); CREATE UNIQUE INDEX x ON t(lower(v)) WHERE v IS NOT NULL", "t") == 0,
       "the same expression index: %s", e.msg);
    shape_free(s);
}

int main(void) {
    fx_setup();
    t = fx_target();
    types();
    names();
    divergence();
    keys();
    T->close(t);
    return done_testing();
}
