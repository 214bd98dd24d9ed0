/* The target's control tables, schema and bulk load. */
#include "tests/unit/drivers/sqlite/target_fixture.h"

static void control_tables(void) {
    struct err e = {0};
    struct target_state st = {0}, got;
    bool found = true;
    char id[128], again[128];
    size_t lanes = 4;
    uint64_t seq[4];
    struct target *t = fx_target();
    ok(T->state_read(t, "app", &got, &found, &e) == 0 && !found, "a fresh file has no state");
    is_str(fx_rows("SELECT count(*) FROM sqlite_schema"), "0", "and reading it creates nothing");
    ok(T->identity(t, id, &e) == 0 && strncmp(id, "sqlite:", 7) == 0 && strlen(id) == 39, "identity of a fresh file");
    ok(T->control_ensure(t, &e) == 0 && T->control_ensure(t, &e) == 0, "control_ensure is repeatable");
    ok(T->identity(t, again, &e) == 0 && strcmp(id, again) == 0, "identity stays once it is kept");
    is_str(fx_rows("SELECT v FROM sluice_cdc_meta WHERE k='format'"), "1", "format is kept");
    is_str(fx_rows("PRAGMA journal_mode"), "wal", "the file is in WAL mode");

    snprintf(st.stream_id, sizeof st.stream_id, "App");
    snprintf(st.lineage, sizeof st.lineage, "0123456789abcdef0123456789abcdef");
    snprintf(st.link_id, sizeof st.link_id, "%s", "00112233445566778899aabbccddeeff00112233");
    snprintf(st.detail, sizeof st.detail, "{\"a\":\"it's\"}");
    st.seq = 7;
    st.epoch = 3;
    ok(T->state_write(t, &st, &e) == 0, "state_write inserts");
    ok(T->state_read(t, "app", &got, &found, &e) == 0 && !found, "stream ids are compared bytewise");
    ok(T->state_read(t, "App", &got, &found, &e) == 0 && found && got.seq == 7 && got.epoch == 3 && got.format == 1 &&
           strcmp(got.detail, st.detail) == 0 && strcmp(got.link_id, st.link_id) == 0 && got.updated_us > 0,
       "state_read gives what was written");
    st.seq = 8;
    ok(T->state_write(t, &st, &e) == 0 && T->state_read(t, "App", &got, &found, &e) == 0 && got.seq == 8,
       "state_write updates in its epoch");
    ok(T->stop_request(t, "App", 55, &e) == 0 && T->state_write(t, &st, &e) == 0 && T->state_read(t, "App", &got, &found, &e) == 0 &&
           got.stop_requested_us == 55,
       "a stop survives state_write");
    ok(T->stop_request(t, "nobody", 55, &e) == -1 && e.code == CODE_STREAM_UNKNOWN, "a stop of an unknown stream is an error");
    got = st;
    ok(T->takeover(t, &got, &e) == 0 && got.epoch == 4 && got.seq == 8, "takeover raises the epoch");
    ok(T->state_write(t, &st, &e) == -1 && e.code == CODE_FENCED, "the former writer is fenced");
    snprintf(got.stream_id, sizeof got.stream_id, "nobody");
    ok(T->takeover(t, &got, &e) == -1 && e.code == CODE_STREAM_UNKNOWN, "takeover of an unknown stream");
    struct target_state *list = NULL;
    size_t n = 0;
    ok(T->state_list(t, fx_arena, &list, &n, &e) == 0 && n == 1 && list[0].epoch == 4, "state_list");
    ok(T->marks_read(t, "App", seq, &lanes, &e) == 0 && lanes == 0, "no lanes yet");
    fx_sql("UPDATE sluice_cdc_meta SET v='2' WHERE k='format'");
    ok(T->control_ensure(t, &e) == -1 && e.code == CODE_FORMAT_UNSUPPORTED, "a newer format is refused");
    T->close(t);
}

static void connections(void) {
    struct err e = {0};
    struct target *t = NULL;
    struct target_opts o = {.dsn = fx_dsn, .stream_id = "app", .control_schema = "other"};
    ok(T->open(&o, &t, &e) == -1 && e.code == CODE_CONFIG, "a control schema other than main is refused");
    char utf16[128], dir[128];
    snprintf(utf16, sizeof utf16, "%s/utf16.db", fx_dir);
    fx_sql_in(utf16, "PRAGMA encoding='UTF-16'; CREATE TABLE x(a)");
    o = (struct target_opts){.dsn = utf16};
    ok(T->open(&o, &t, &e) == -1 && strstr(e.msg, "UTF-16"), "another encoding is refused");
    snprintf(dir, sizeof dir, "%s/no/such/target.db", fx_dir);
    o.dsn = dir;
    ok(T->open(&o, &t, &e) == -1 && e.code == CODE_UNREACHABLE, "a missing folder");
}

/* A SQLite table with every storage class in every kind of column comes back to the bit. */
static void own_tables(void) {
    struct err e = {0};
    size_t n;
    struct target *t = fx_target();
    struct target_state st = fx_state(t);
    static const char ddl[] =
        "CREATE TABLE [odd name](id INTEGER PRIMARY KEY AUTOINCREMENT, a STRING, b TEXT COLLATE NOCASE DEFAULT 'x', c NUMERIC(10,2), d, e "
        "BLOB, f REAL, g BOOLEAN, "
        "h DATE, j JSON, k DECIMAL_TEXT(12,2), gen INT GENERATED ALWAYS AS (id*2) VIRTUAL, CHECK(id <> 99), FOREIGN KEY(g) REFERENCES "
        "nowhere(x));"
        "CREATE UNIQUE INDEX odd_b ON [odd name](b) WHERE b > 'm'; CREATE INDEX odd_c ON [odd name](c DESC, lower(a));"
        "INSERT INTO [odd name](id,a,b,c,d,e,f,g,h,j,k) "
        "VALUES(1,'15E2621','15E2621','007',9e999,x'00ff',1.5,1,'2026-01-31','{\"a\":1}','12.50'),"
        "(2,'0x10','a'||char(0)||'b',1.25,-9223372036854775808,'text',0.1,0,'x','not "
        "json','abc'),(3,1,'',1e300,'',x'',-9e999,7,x'01',5,12),"
        "(4,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL),(5,cast(x'ff' as text),cast(x'c328' as "
        "text),9223372036854775807,0.1,3,3,'t',20260131,1.5,x'ff');"
        "UPDATE sqlite_sequence SET seq=41;";
    struct shape *s = fx_source_shape(ddl, "odd name", NULL);
    struct value *rows = fx_source_rows(s, &n);
    is_int(n, 5, "source rows");
    ok(T->compatible(t, s, NULL, &e) == 0, "every SQLite table can be carried");
    int rc = fx_load(t, &st, s, rows, n, &e);
    ok(rc == 0, "load: %s", e.msg);
    const char *q = "SELECT "
                    "id,a,typeof(a),hex(b),typeof(b),c,typeof(c),d,typeof(d),hex(e),typeof(e),f,typeof(f),g,typeof(g),hex(h),typeof(h),hex("
                    "j),typeof(j),k,typeof(k),gen FROM \"odd name\" ORDER BY id";
    is_str(fx_rows(q), fx_rows_in(fx_source, q), "every value and storage class is the source's");
    const char *sch = "SELECT type,name,tbl_name,sql FROM sqlite_schema WHERE tbl_name='odd name' ORDER BY name";
    is_str(fx_rows(sch), fx_rows_in(fx_source, sch), "so is the schema, to the letter");
    ok(T->table_finish(t, s, "main", s->name, 0, NULL, NULL, &e) == 0 && T->table_finish(t, s, "main", s->name, 1, NULL, NULL, &e) == 0,
       "table_finish is repeatable");
    struct object seq = {.kind = OBJECT_SEQUENCE, .ns = "main", .name = "odd name", .value = 41, .is_called = true};
    ok(T->sequence_set(t, &seq, "main", &e) == 0, "sequence_set");
    seq.value = 7;
    ok(T->sequence_set(t, &seq, "main", &e) == 0, "never back");
    is_str(fx_rows("SELECT name,seq FROM sqlite_sequence"), "odd name|41", "AUTOINCREMENT goes on where the source was");
    struct shape *d = NULL;
    bool any = false;
    ok(T->table_shape(t, "main", "ODD NAME", &d, &e) == 0 && d, "names ignore ASCII case");
    ok(d && strcmp(d->digest, s->digest) == 0, "the shape has the source's digest");
    ok(T->compatible(t, s, d, &e) == 0 && T->keys_check(t, s, d, &e) == 0, "a table fits its own copy");
    ok(T->table_has_rows(t, "main", "odd name", &any, &e) == 0 && any, "it has rows");
    ok(T->table_create(t, s, "main", "odd name", &e) == -1 && e.code == CODE_TARGET_NOT_EMPTY, "a table that is there is not made again");
    ok(T->table_drop(t, "main", "odd name", &e) == 0 && T->table_drop(t, "main", "odd name", &e) == 0, "table_drop is repeatable");
    shape_free(d);
    d = NULL;
    ok(T->table_shape(t, "main", "odd name", &d, &e) == 0 && !d, "gone");
    ok(T->table_create(t, s, "sales", "odd name", &e) == -1 && e.code == CODE_CONFIG && strstr(e.hint, "--map-schema"),
       "another namespace is refused with the way out");
    ok(T->table_create(t, s, "main", "renamed", &e) == 0, "a table can be made under another name");
    ok(T->table_finish(t, s, "main", "renamed", 0, NULL, NULL, &e) == 0, "and its indexes");
    is_str(fx_rows("SELECT tbl_name FROM sqlite_schema WHERE name='odd_b'"), "renamed", "on that table");
    shape_free(s);
    s = fx_source_shape("CREATE TABLE w(v TEXT, b INT, a TEXT, PRIMARY KEY(a,b)) WITHOUT ROWID, STRICT; INSERT INTO w VALUES('one',1,'p')",
                        "w", NULL);
    rows = fx_source_rows(s, &n);
    s->table = 2;
    ok(fx_load(t, &st, s, rows, n, &e) == 0, "WITHOUT ROWID, STRICT");
    is_str(fx_rows("SELECT * FROM w"), "one|1|p", "its row");
    struct shape *evil = shape_copy(s, &e);
    evil->create_sql = "CREATE TABLE w2(a); DROP TABLE w";
    evil->name = "w2";
    ok(T->table_create(t, evil, "main", "w2", &e) == -1, "two statements in a chain's text are refused");
    evil->create_sql = "DROP TABLE w";
    ok(T->table_create(t, evil, "main", "w2", &e) == -1 && e.code == CODE_MANIFEST_INVALID, "and what is no CREATE TABLE");
    is_str(fx_rows("SELECT count(*) FROM w"), "1", "nothing was run");
    shape_free(evil);
    shape_free(s);
    T->close(t);
}

static const struct fx_col pg_cols[] = {
    {"id", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0},
    {"b", "boolean", LT_BOOL, false, "true", 2, EQ_BYTES, 0, 0},
    {"n", "numeric(12,2)", LT_NUMERIC, false, "0", 3, EQ_NUMERIC, 12, 2},
    {"f", "double precision", LT_FLOAT8, false, "'-1.5'::double precision", 4, EQ_NUMERIC, 0, 0},
    {"t", "text", LT_TEXT, true, "'it''s'::text", 5, EQ_BYTES, 0, 0},
    {"y", "bytea", LT_BYTES, false, "'\\xff'::bytea", 6, EQ_BYTES, 0, 0},
    {"d", "date", LT_DATE, false, "'2020-01-01'::date", 7, EQ_BYTES, 0, 0},
    {"ts", "timestamp with time zone", LT_TIMESTAMPTZ, false, "now()", 8, EQ_BYTES, 0, 0},
    {"u", "uuid", LT_UUID, false, NULL, 9, EQ_BYTES, 0, 0},
    {"j", "jsonb", LT_JSONB, false, "'{}'::jsonb", 10, EQ_BYTES, 0, 0},
};

static void other_tables(void) {
    struct err e = {0};
    struct target *t = fx_target();
    struct target_state st = fx_state(t);
    struct shape *s = fx_pg_shape("t", pg_cols, 10, 1, 4), *d = NULL;
    ok(T->compatible(t, s, NULL, &e) == 0, "the ten types are carried");
    struct value *rows = arena_zalloc(fx_arena, 30 * sizeof *rows, &e);
    memcpy(rows,
           VALS("1", "t", "19.90", "Infinity", "a", "\\x00ff", "infinity", "2026-01-31 12:00:00.5+00",
                "01234567-89ab-cdef-0123-456789abcdef", "{\"a\": 1.0}"),
           10 * sizeof *rows);
    memcpy(rows + 10, VALS("-2147483648", "f", "NaN", "1e-320", "b", "\\x", "0001-01-01 BC", "-infinity", NULL, "1"), 10 * sizeof *rows);
    memcpy(rows + 20, VALS("3", NULL, NULL, "0.1", "", NULL, NULL, NULL, NULL, NULL), 10 * sizeof *rows);
    int rc = fx_load(t, &st, s, rows, 3, &e);
    ok(rc == 0, "load: %s", e.msg);
    is_str(fx_rows("SELECT id,b,n,f,t,hex(y),d,ts,u,j FROM t ORDER BY id"),
           "-2147483648|0|NaN|9.99988867182683e-321|b||0001-01-01 BC|-infinity|~|1 1|1|19.90|Inf|a|00FF|infinity|2026-01-31 "
           "12:00:00.5+00|01234567-89ab-cdef-0123-456789abcdef|{\"a\": 1.0} "
           "3|~|~|0.1|||~|~|~|~",
           "values in canonical text");
    is_str(fx_rows("SELECT group_concat(DISTINCT typeof(n)||typeof(j)||typeof(d)) FROM t WHERE id<>3"), "texttexttext",
           "decimals, dates and JSON are text");
    is_str(fx_rows("SELECT group_concat(name||' '||type||' '||\"notnull\"||' '||ifnull(dflt_value,'-'),', ') FROM pragma_table_info('t')"),
           "id INTEGER 1 -, b BOOLEAN 0 1, n DECIMAL_TEXT(12,2) 0 '0.00', f REAL 0 -1.5, t TEXT 1 'it''s', y BLOB 0 x'ff', d DATE_TEXT 0 "
           "'2020-01-01', ts TIMESTAMPTZ_TEXT 0 -, u UUID_TEXT 0 -, "
           "j JSONB_TEXT 0 '{}'",
           "declared types and literal defaults; what computes is left out");
    is_str(fx_rows("SELECT name FROM pragma_index_list('t')"), "t_t_key",
           "the unique key came after the rows, the primary key is the rowid");
    ok(T->table_shape(t, "main", "t", &d, &e) == 0 && d, "shape of what was made");
    ok(T->compatible(t, s, d, &e) == 0 && T->keys_check(t, s, d, &e) == 0, "which fits its source: %s", e.msg);
    ok(d->cols[2].type == LT_NUMERIC && d->cols[6].type == LT_DATE && d->cols[7].type == LT_TIMESTAMPTZ && d->cols[8].type == LT_UUID &&
           d->cols[9].type == LT_JSON && d->cols[1].type == LT_BOOL,
       "and reads back as the same logical types");
    shape_free(d);

    struct target_table *tt = NULL;
    struct loader *l = NULL;
    ok(T->bind(t, s, "main", "t", &tt, &e) == 0 && T->loader_open(t, &st, &l, &e) == 0, "a loader");
    uint64_t chunks;
    bool whole;
    ok(T->loader_done(l, 1, &chunks, &whole, &e) == 0 && chunks == 1 && whole, "the copy mark is there");
    ok(!T->loader_raw(l, tt, ROWS_COPY_TEXT), "no raw blocks");
    ok(T->loader_begin(l, tt, &e) == 0 && T->loader_rows(l, VALS("9", "t", NULL, "NaN", "n", NULL, NULL, NULL, NULL, NULL), 1, &e) == -1 &&
           e.code == CODE_VALUE_UNREPRESENTABLE && strstr(e.msg, "public.t") && strstr(e.msg, "(id=9)") && strstr(e.msg, "'f'"),
       "NaN is refused with table, key and column");
    ok(T->loader_begin(l, tt, &e) == 0 && T->loader_rows(l, VALS("9", "t", NULL, "-0", "n", NULL, NULL, NULL, NULL, NULL), 1, &e) == -1 &&
           e.code == CODE_VALUE_UNREPRESENTABLE,
       "so is -0");
    ok(T->loader_begin(l, tt, &e) == 0 && T->loader_rows(l, VALS("3", "t", NULL, "1", "n", NULL, NULL, NULL, NULL, NULL), 1, &e) == -1 &&
           e.code == CODE_UNIQUE_CONFLICT,
       "a key twice");
    ok(T->loader_begin(l, tt, &e) == 0 && T->loader_rows(l, VALS("8", "t", NULL, "1", "n", NULL, NULL, NULL, NULL, NULL), 1, &e) == 0 &&
           T->loader_commit(l, 2, 1, false, &e) == 0,
       "the loader goes on behind it");
    ok(T->loader_begin(l, tt, &e) == 0 && T->loader_commit(l, 2, 3, false, &e) == -1 && e.code == CODE_MARK_MISMATCH,
       "a chunk is left out: refused");
    ok(T->takeover(t, &st, &e) == 0, "takeover");
    ok(T->loader_begin(l, tt, &e) == -1 && e.code == CODE_FENCED, "the loader is fenced");
    T->loader_close(l);
    ok(T->marks_clear(t, &st, &e) == 0, "marks_clear");
    is_str(fx_rows("SELECT count(*) FROM sluice_cdc_copy"), "0", "copy marks are gone");
    T->unbind(tt);
    fx_sql("CREATE TRIGGER sluice_1_ins AFTER INSERT ON t BEGIN SELECT 1; END");
    ok(T->bind(t, s, "main", "t", &tt, &e) == -1 && e.code == CODE_TARGET_CAPTURED, "a table captured as a source is no target");
    shape_free(s);
    T->close(t);
}

int main(void) {
    fx_setup();
    control_tables();
    connections();
    own_tables();
    other_tables();
    return done_testing();
}
