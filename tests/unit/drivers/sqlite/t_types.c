/* Declared types, stored values and shapes. */
#include "drivers/sqlite/ddl.h"
#include "drivers/sqlite/sqlite.h"
#include "tests/unit/drivers/sqlite/feed.h"

static void types(void) {
    static const struct {
        const char *declared;
        enum ltype type;
        int aff, precision, scale;
    } t[] = {
        {"INTEGER", LT_INT64, SQ_AFF_INTEGER, -1, -1},
        {"int unsigned", LT_INT64, SQ_AFF_INTEGER, -1, -1},
        {"VARCHAR(20)", LT_TEXT, SQ_AFF_TEXT, -1, -1},
        {"text", LT_TEXT, SQ_AFF_TEXT, -1, -1},
        {"BLOB", LT_BYTES, SQ_AFF_BLOB, -1, -1},
        {"", LT_NATIVE, SQ_AFF_BLOB, -1, -1},
        {"DOUBLE PRECISION", LT_FLOAT8, SQ_AFF_REAL, -1, -1},
        {"DECIMAL(10,2)", LT_NUMERIC, SQ_AFF_NUMERIC, 10, 2},
        {"numeric( 12 , 3 )", LT_NUMERIC, SQ_AFF_NUMERIC, 12, 3},
        {"BOOLEAN", LT_BOOL, SQ_AFF_NUMERIC, -1, -1},
        {"DATE", LT_DATE, SQ_AFF_NUMERIC, -1, -1},
        {"datetime", LT_TIMESTAMP, SQ_AFF_NUMERIC, -1, -1},
        {"timestamp with time zone", LT_TIMESTAMPTZ, SQ_AFF_NUMERIC, -1, -1},
        {"timestamp without time zone", LT_TIMESTAMP, SQ_AFF_NUMERIC, -1, -1},
        {"TIME", LT_TIME, SQ_AFF_NUMERIC, -1, -1},
        {"UUID", LT_UUID, SQ_AFF_NUMERIC, -1, -1},
        {"json", LT_JSON, SQ_AFF_NUMERIC, -1, -1},
        {"STRING", LT_TEXT, SQ_AFF_NUMERIC, -1, -1},
        {"DECIMAL_TEXT(10,2)", LT_NUMERIC, SQ_AFF_TEXT, 10, 2},
        {"TIMESTAMP_TEXT", LT_TIMESTAMP, SQ_AFF_TEXT, -1, -1},
        {"FLOATING POINT", LT_INT64, SQ_AFF_INTEGER, -1, -1},
        {"money", LT_NUMERIC, SQ_AFF_NUMERIC, -1, -1},
        {"ANY", LT_NUMERIC, SQ_AFF_NUMERIC, -1, -1},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct column c = {0};
        sq_logical_type(t[i].declared, false, &c);
        ok(c.type == t[i].type && c.precision == t[i].precision && c.scale == t[i].scale &&
               (int)sq_affinity(t[i].declared, false) == t[i].aff,
           "'%s' is %s", t[i].declared, ltype_name(c.type));
    }
    struct column c = {0};
    sq_logical_type("ANY", true, &c);
    ok(c.type == LT_NATIVE && sq_affinity("ANY", true) == SQ_AFF_BLOB, "ANY of a strict table takes everything as it is");
}

static void reals(void) {
    static const struct {
        double r;
        const char *text;
    } t[] = {
        {0.1, "0.1"},
        {1.0, "1"},
        {19.99, "19.99"},
        {1e300, "1e+300"},
        {9007199254740993.0, "9007199254740992"},
        {0.1 + 0.2, "0.30000000000000004"},
        {5e-324, "4.94065645841247e-324"},
        {1e308 * 10, "Infinity"},
        {-1e308 * 10, "-Infinity"},
        {-2.5, "-2.5"},
    };
    char out[40];
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        sq_real_text(t[i].r, out);
        is_str(out, t[i].text, t[i].text);
    }
}

/* Values as "T:text", "Y:bytes", "B:class and text", "N:". */
static void values(void) {
    static const struct {
        const char *type, *expr, *want;
    } t[] = {
        {"int", "9007199254740993", "T:9007199254740993"},
        {"int", "-9223372036854775808", "T:-9223372036854775808"},
        {"int", "'abc'", "B:tabc"},
        {"int", "1.5", "B:r1.5"},
        {"int", "x'3132'", "B:b12"},
        {"int", "null", "N:"},
        {"boolean", "1", "T:t"},
        {"boolean", "0", "T:f"},
        {"boolean", "2", "B:i2"},
        {"boolean", "'true'", "B:ttrue"},
        {"real", "1", "T:1"},
        {"real", "0.1", "T:0.1"},
        {"real", "9e999", "T:Infinity"},
        {"real", "-9e999", "T:-Infinity"},
        {"real", "'x'", "B:tx"},
        {"numeric", "'007'", "T:7"},
        {"numeric", "'19.99'", "B:r19.99"},
        {"numeric", "'1e3'", "T:1000"},
        {"numeric", "'0x10'", "B:t0x10"},
        {"decimal_text", "'19.90'", "T:19.90"},
        {"decimal_text", "'007'", "B:t007"},
        {"decimal_text", "7", "T:7"},
        {"text", "'gr\xc3\xbc\xc3\x9f'", "T:gr\xc3\xbc\xc3\x9f"},
        {"text", "''", "T:"},
        {"text", "1", "T:1"},
        {"text", "cast(x'ff41' as text)",
         "B:t\xff"
         "A"},
        {"text", "x'41'", "B:bA"},
        {"blob", "x'4142'", "Y:AB"},
        {"blob", "x''", "Y:"},
        {"blob", "'AB'", "B:tAB"},
        {"blob", "1", "B:i1"},
        {"blob", "1.0", "B:r1"},
        {"", "1", "B:i1"},
        {"", "'a'", "B:ta"},
        {"", "null", "N:"},
        {"date", "'2026-01-31'", "T:2026-01-31"},
        {"date", "'2026-02-31'", "B:t2026-02-31"},
        {"date", "'yesterday'", "B:tyesterday"},
        {"date", "'infinity'", "B:tinfinity"},
        {"date", "'2026-1-5'", "B:t2026-1-5"},
        {"date", "20260105", "B:i20260105"},
        {"datetime", "'2026-01-31 12:00:00.5'", "T:2026-01-31 12:00:00.5"},
        {"datetime", "'2026-01-31T12:00:00Z'", "B:t2026-01-31T12:00:00Z"},
        {"datetime", "'now'", "B:tnow"},
        {"time", "'12:30:00'", "T:12:30:00"},
        {"time", "'12:30'", "B:t12:30"},
        {"uuid", "'0e984725-c51c-4bf4-9960-e1c80e27aba0'", "T:0e984725-c51c-4bf4-9960-e1c80e27aba0"},
        {"uuid", "'0E984725-C51C-4BF4-9960-E1C80E27ABA0'", "B:t0E984725-C51C-4BF4-9960-E1C80E27ABA0"},
        {"json", "'{\"a\": 1}'", "T:{\"a\": 1}"},
        {"json", "'{a'", "B:t{a"},
        {"string", "'15E2621'", "B:rInfinity"},
        {"string", "'0x10'", "T:0x10"},
        {"string", "'5'", "B:i5"},
    };
    struct err e = {0};
    struct arena *a = arena_new(1024, &e);
    sqlite3 *db;
    sqlite3_open(":memory:", &db);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        char sql[256], got[128];
        sqlite3_stmt *st;
        snprintf(sql, sizeof sql, "drop table if exists t; create table t(c %s); insert into t values(%s)", t[i].type, t[i].expr);
        if (sqlite3_exec(db, sql, 0, 0, 0) != SQLITE_OK) printf("Bail out! %s\n", sql), exit(1);
        sqlite3_prepare_v2(db, "select c from t", -1, &st, NULL);
        sqlite3_step(st);
        struct column c = {.native = t[i].type};
        struct value v;
        sq_logical_type(t[i].type, false, &c);
        if (sq_value(st, 0, &c, i % 2, a, &v, &e) < 0) die("value", &e);
        snprintf(got, sizeof got, "%c:%.*s", "NUTYB"[v.kind], (int)v.len, v.p ? v.p : "");
        is_str(got, t[i].want, sql + 24);
        sqlite3_finalize(st);
    }
    sqlite3_close(db);
    arena_free(a);
}

static const struct key *key_named(const struct shape *s, const char *name) {
    for (int i = 0; i < s->nkeys; i++)
        if (strcmp(s->keys[i].name, name) == 0) return &s->keys[i];
    return NULL;
}

static void shapes(void) {
    struct err e = {0};
    sqlite3 *db;
    struct shape *s;
    sqlite3_open(":memory:", &db);
    sqlite3_exec(db,
                 "create table P(id integer primary key autoincrement, \"Na me\" text not null collate nocase default 'x''y' unique, "
                 "amount decimal(10,2), g text generated always as (\"Na me\" || ',' || ')') stored,"
                 " h as (id+1), d text default (hex(randomblob(4))));"
                 "create unique index pu on P(amount, \"Na me\" collate binary); create index pe on P(lower(d)); create unique index pp on "
                 "P(d) where d is not null;"
                 "create table c(a int, b text, p int references p on delete cascade, q int, foreign key(q) references nowhere(x) on "
                 "update set null, primary key(b, a)) without rowid;"
                 "create table n(k text primary key, v int unique not null); create table nn(k text primary key); create table st(i int "
                 "primary key, a any) strict;"
                 "create table de(id integer primary key desc, v)",
                 0, 0, 0);
    if (sq_table_shape(db, "main", "p", &s, &e) < 0 || !s) die("shape", &e);
    is_str(s->name, "P", "names are found without regard to case and kept as they are");
    ok(s->ncols == 6 && s->cols[0].ident == IDENT_AUTO && s->cols[0].not_null && s->cols[0].id == 1, "a rowid alias");
    is_str(s->cols[1].collation, "nocase", "collation");
    is_str(s->cols[1].default_sql, "'x''y'", "default");
    is_str(s->cols[3].generated, "\"Na me\" || ',' || ')'", "a generated column's expression");
    ok(s->cols[3].generated_stored && !s->cols[4].generated_stored, "stored and virtual");
    is_str(s->cols[4].generated, "id+1", "the short form");
    ok(s->identity >= 0 && s->keys[s->identity].kind == KEY_PRIMARY && s->keys[s->identity].cols[0] == 0 && s->identity == s->primary,
       "identified by its primary key");
    const struct key *k = key_named(s, "P_Na me_key");
    ok(k && k->kind == KEY_UNIQUE && k->constraint && k->equality[0] == EQ_NOCASE, "a unique constraint under NOCASE");
    k = key_named(s, "pu");
    ok(k && !k->constraint && k->ncols == 2 && k->equality[0] == EQ_BYTES && k->equality[1] == EQ_BYTES &&
           strncmp(k->def, "CREATE UNIQUE INDEX pu", 22) == 0,
       "a unique index under its own collation");
    k = key_named(s, "pe");
    ok(k && k->kind == KEY_INDEX && k->expression && k->ncols == 0, "an index on an expression");
    k = key_named(s, "pp");
    ok(k && k->partial, "a partial index");
    shape_free(s);
    if (sq_table_shape(db, "main", "c", &s, &e) < 0 || !s) die("shape", &e);
    ok(s->without_rowid && s->identity >= 0 && s->keys[s->identity].ncols == 2 && s->keys[s->identity].cols[0] == 1 &&
           s->keys[s->identity].cols[1] == 0,
       "key columns in the key's order");
    ok(s->cols[0].not_null && s->cols[1].not_null && !s->cols[2].not_null, "which cannot be NULL without a rowid");
    k = key_named(s, "c_fkey1");
    ok(k && k->kind == KEY_FOREIGN && strcmp(k->ref_table, "p") == 0 && k->nref == 1 && strcmp(k->ref_cols[0], "id") == 0 &&
           strcmp(k->on_delete, "CASCADE") == 0,
       "a foreign key to a primary key");
    k = key_named(s, "c_fkey2");
    ok(k && strcmp(k->ref_table, "nowhere") == 0 && strcmp(k->ref_cols[0], "x") == 0 && strcmp(k->on_update, "SET NULL") == 0,
       "a foreign key to a table that is not there");
    shape_free(s);
    if (sq_table_shape(db, "main", "n", &s, &e) < 0 || !s) die("shape", &e);
    ok(s->primary >= 0 && s->identity >= 0 && s->identity != s->primary && s->keys[s->identity].cols[0] == 1,
       "a primary key that may be NULL does not identify; a unique NOT NULL does");
    shape_free(s);
    if (sq_table_shape(db, "main", "nn", &s, &e) < 0 || !s) die("shape", &e);
    ok(s->identity == s->primary && s->identity >= 0, "else one that holds no NULL now");
    shape_free(s);
    sqlite3_exec(db, "insert into nn values(null)", 0, 0, 0);
    if (sq_table_shape(db, "main", "nn", &s, &e) < 0 || !s) die("shape", &e);
    ok(s->identity < 0 && s->full_image, "else nothing does");
    shape_free(s);
    if (sq_table_shape(db, "main", "st", &s, &e) < 0 || !s) die("shape", &e);
    ok(s->strict && s->cols[1].type == LT_NATIVE, "a strict table");
    shape_free(s);
    if (sq_table_shape(db, "main", "de", &s, &e) < 0 || !s) die("shape", &e);
    ok(s->primary >= 0, "INTEGER PRIMARY KEY DESC is no rowid alias");
    shape_free(s);
    ok(sq_table_shape(db, "main", "absent", &s, &e) == 0 && s == NULL, "an absent table");
    ok(sq_table_shape(db, "other", "P", &s, &e) == 0 && s == NULL, "another namespace");
    sqlite3_close(db);
}

static void constants(void) {
    static const struct {
        const char *dflt, *want;
    } t[] = {
        {"5", "5"},
        {"-1.5e-3", "-1.5e-3"},
        {"'it''s'", "'it''s'"},
        {"\"dq\"", "'dq'"},
        {"bare", "'bare'"},
        {"x'00ff'", "x'00ff'"},
        {"NULL", "NULL"},
        {"current_timestamp", "CURRENT_TIMESTAMP"},
        {"true", "TRUE"},
        {"hex(randomblob(8))", NULL},
        {"1+1", NULL},
        {"'a'||'b'", NULL},
        {"-x", NULL},
        {"(1)", NULL},
        {"", NULL},
    };
    struct err e = {0};
    struct arena *a = arena_new(1024, &e);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        const char *expr;
        ok(sq_ddl_constant(t[i].dflt, a, &expr, &e) == 0, "read");
        is_str(expr, t[i].want, t[i].dflt);
    }
    arena_free(a);
}

static void filters(void) {
    const char *const inc[] = {"ord*", "main.users"}, *const exc[] = {"*_tmp"};
    struct table_filter f = {inc, 2, exc, 1}, none = {0};
    struct err e = {0};
    ok(table_filter_match(&none, "main", "t") && table_filter_match(NULL, "main", "t"), "no filter takes all");
    ok(!table_filter_match(&none, "main", "sluice_log") && !table_filter_match(&none, "main", "SLUICE_x"), "but never ours");
    ok(table_filter_match(&f, "main", "orders") && table_filter_match(&f, "main", "users"), "globs on the table and on ns.table");
    ok(!table_filter_match(&f, "other", "users") && !table_filter_match(&f, "main", "orders_tmp"), "exclude wins");
    ok(db_driver_find("sqlite", &e) == &sqlite_driver && db_driver_find("postgres", &e) == &postgres_driver, "drivers by name");
    ok(!db_driver_find("oracle", &e) && e.code == CODE_USAGE && e.class == ERR_CONFIG && strstr(e.hint, "postgres, sqlite"),
       "an unknown one is a usage error that lists them");
}

int main(void) {
    types();
    reals();
    values();
    shapes();
    constants();
    filters();
    return done_testing();
}
