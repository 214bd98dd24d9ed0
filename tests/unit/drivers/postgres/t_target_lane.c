/* Windows on a real server: every kind of run, and what is refused. */
#include "engine/base/fault.h"
#include "tests/unit/drivers/postgres/target_kit.h"

static struct lane *lane;
static struct apply_result r;

struct bound { struct shape *s; struct target_table *tt; };
static struct bound make(const char *name, const char *ddl) {
    struct err e = {0};
    struct bound b;
    if (ddl != NULL) kit_do("CREATE TABLE %s.%s(%s)", kit_ns, name, ddl);
    b.s = kit_shape(kit_ns, name);
    b.tt = NULL;
    if (ops->bind(kit_t, b.s, kit_ns, name, &b.tt, &e) < 0) note("bind %s: %s", name, e.msg);
    return b;
}
static void drop(struct bound b) {
    ops->unbind(b.tt);
    shape_free(b.s);
}
#define INS(s, ...) kit_change((s), CHANGE_INSERT, IMAGE_NONE, NULL, ROW(__VA_ARGS__))

static void every_type_arrives_as_it_was(void) {
    struct err e = {0};
    kit_do("CREATE TYPE %s.mood AS ENUM ('sad', 'it''s \"ok\"'); CREATE DOMAIN %s.pos AS int CHECK (VALUE > 0); CREATE TYPE %s.pair AS (a int, b text)", kit_ns, kit_ns, kit_ns);
    char ddl[2000];
    snprintf(ddl, sizeof ddl, "id bigint primary key, b bool, i2 smallint, i4 int, n numeric, n2 numeric(12,2), f4 real, f8 float8, t text, v varchar(5), c char(4), by bytea, "
             "d date, ti time, tz timetz, ts timestamp(3), tsz timestamptz, iv interval, u uuid, j json, jb jsonb, m %s.mood, p %s.pos, a int[], ta text[], bi bit(8), vb varbit, ip inet, "
             "pr %s.pair, oc \"char\", r int4range, x xml, mo money, ch cidr", kit_ns, kit_ns, kit_ns);
    struct bound b = make("types", ddl);
    const char *const row[] = {"9223372036854775807", "t", "-32768", "-2147483648", "NaN", "-0.10", "1.1754944e-38", "-0", "a\"b\\c,{}'NULL", "NULL", "ab  ", "\\x00ff", "infinity",
        "24:00:00", "12:00:00.5+05:30", "2026-01-31 12:00:00.123", "0044-03-15 12:00:00+00 BC", "-10 mons -3 days +04:05:06.7", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "{\"a\":  1, \"a\":2}", "{\"b\": 1.00}", "it's \"ok\"", "5", "[0:1]={1,NULL}", "{\"\",NULL,\"a,\\\"b\"}", "10101010", "", "192.168.0.1/24", "(1,\"x y\")", "q", "[1,5)", "<a/>",
        "-$1.50", "10.0.0.0/8"};
    struct change *c[2] = {kit_change(b.s, CHANGE_INSERT, IMAGE_NONE, NULL, row), NULL};
    const char *nulls[34] = {"1"};
    c[1] = kit_change(b.s, CHANGE_INSERT, IMAGE_NONE, NULL, nulls);
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 2, NULL, &r, &e) == 0 && r.rows == 2, "two rows: %s", e.msg);
    struct buf q = BUF_INIT(65536);
    for (uint16_t i = 0; i < b.s->ncols; i++) buf_addf(&q, &e, "%s\"%s\"", i ? ", " : "", b.s->cols[i].name);
    PGresult *res = PQexec(kit_c, "SELECT 1");
    PQclear(res);
    char sql[4000];
    snprintf(sql, sizeof sql, "SELECT %s FROM %s.types WHERE id > 1", buf_str(&q, &e), kit_ns);
    res = PQexec(kit_c, sql);
    int same = 0;
    for (int i = 0; i < PQnfields(res) && PQntuples(res) == 1; i++) {
        if (strcmp(PQgetvalue(res, 0, i), row[i]) == 0) same++;
        else note("%s: %s instead of %s", PQfname(res, i), PQgetvalue(res, 0, i), row[i]);
    }
    PQclear(res);
    is_int(same, 34, "every value reads back as it was sent");
    is_str(kit_rows("SELECT count(*) FROM %s.types WHERE id = 1 AND num_nulls(b, i2, t, by, a) = 5", kit_ns), "1", "and NULL is NULL");
    /* matched by its whole row as text */
    struct bound f = b;
    struct change *d[1] = {kit_change(b.s, CHANGE_DELETE, IMAGE_FULL, row, NULL)};
    ok(kit_apply1(lane, RUN_DELETE_FULL, f.tt, d, 1, NULL, &r, &e) == 0 && r.rows == 1 && r.missing == 0, "the whole row is found by its text: %s", e.msg);
    buf_free(&q);
    drop(b);
}

static void too_long_is_refused_not_cut(void) {
    struct err e = {0};
    struct bound b = make("cut", "id int primary key, v varchar(3), n numeric(4,1)");
    struct change *c[1] = {INS(b.s, "1", "abcd", "1")};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE && e.class == ERR_REFUSE, "a text too long: %s", e.msg);
    c[0] = INS(b.s, "x", "a", "1");
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE && strstr(e.msg, "column 'id'") != NULL, "no integer: %s", e.msg);
    c[0] = INS(b.s, "2147483648", "a", "1");
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE, "an integer out of range");
    is_str(kit_rows("SELECT count(*) FROM %s.cut", kit_ns), "0", "nothing of them is there");
    c[0] = INS(b.s, "1", "abc", "1.5");
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == 0, "and the lane goes on: %s", e.msg);
    drop(b);
}

static void keyed_runs(void) {
    struct err e = {0};
    struct bound b = make("k", "a int, b text, v int, w text, primary key (b, a)");
    struct change *c[4] = {INS(b.s, "1", "x", "10", "p"), INS(b.s, "2", "x", "20", "q"), INS(b.s, "3", "y", NULL, NULL), INS(b.s, "4", "y", "40", "r")};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 4, NULL, &r, &e) == 0 && r.rows == 4, "insert: %s", e.msg);
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 2, NULL, &r, &e) == 0, "the same again does nothing new");
    const uint8_t mask[4] = {1, 1, 1, 0};
    struct change *u[3] = {kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("1", "x", "11", "~")), kit_change(b.s, CHANGE_UPDATE, IMAGE_KEY, ROW("2", "x", "~", "~"), ROW("22", "x", "21", "~")),
                           kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("99", "x", "1", "~"))};
    ok(kit_apply1(lane, RUN_UPDATE, b.tt, u, 3, mask, &r, &e) == 0 && r.rows == 2 && r.missing == 1, "update by key, one moves, one is missing: %s", e.msg);
    struct change *d[2] = {kit_change(b.s, CHANGE_DELETE, IMAGE_KEY, ROW("3", "y", "~", "~"), NULL), kit_change(b.s, CHANGE_DELETE, IMAGE_KEY, ROW("77", "y", "~", "~"), NULL)};
    ok(kit_apply1(lane, RUN_DELETE, b.tt, d, 2, NULL, &r, &e) == 0 && r.rows == 1 && r.missing == 1, "delete by key: %s", e.msg);
    is_str(kit_rows("SELECT * FROM %s.k ORDER BY a", kit_ns), "1|x|11|p 4|y|40|r 22|x|21|q", "as printed");
    /* all in one window */
    struct run runs[3] = {{.kind = RUN_DELETE, .table = b.tt, .changes = (struct change *[]){kit_change(b.s, CHANGE_DELETE, IMAGE_KEY, ROW("1", "x", "~", "~"), NULL)}, .n = 1},
                          {.kind = RUN_UPDATE, .table = b.tt, .changes = (struct change *[]){kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("4", "y", "41", "~"))}, .n = 1, .mask = mask},
                          {.kind = RUN_UPSERT, .table = b.tt, .changes = (struct change *[]){INS(b.s, "5", "z", "50", "s")}, .n = 1}};
    ok(kit_apply(lane, runs, 3, &r, &e) == 0 && r.rows == 3, "three runs in one window: %s", e.msg);
    is_str(kit_rows("SELECT * FROM %s.k ORDER BY a", kit_ns), "4|y|41|r 5|z|50|s 22|x|21|q", "as printed");
    is_str(kit_rows("SELECT seq FROM %s.sluice_cdc_lane WHERE lane = 0", kit_ctl), tg_u64((char[24]){0}, kit_seq), "the mark stands at the window's end");
    /* many rows, several parts */
    size_t n = 45000;
    struct change **many = arena_alloc(kit_a, n * sizeof *many, &e);
    for (size_t i = 0; i < n; i++) many[i] = INS(b.s, arena_printf(kit_a, &e, "%zu", 1000 + i), "bulk", "1", "a longer text with some bytes in it");
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, many, n, NULL, &r, &e) == 0 && r.rows == n, "%zu rows: %s", n, e.msg);
    is_str(kit_rows("SELECT count(*), sum(a) FROM %s.k WHERE b = 'bulk'", kit_ns), "45000|1057477500", "all of them");
    drop(b);
}

static void unique_conflict_rolls_back(void) {
    struct err e = {0};
    struct bound b = make("u", "id int primary key, e text unique");
    struct change *c[1] = {INS(b.s, "1", "x")}, *d[2] = {INS(b.s, "5", "z"), INS(b.s, "2", "x")};
    kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e);
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, d, 2, NULL, &r, &e) == -1 && e.code == CODE_UNIQUE_CONFLICT, "another row's unique value: %s", e.msg);
    ok(strstr(e.msg, "u_e_key") != NULL && strstr(e.msg, "(e)=(x)") != NULL, "named with its key");
    is_str(kit_rows("SELECT * FROM %s.u", kit_ns), "1|x", "everything is rolled back");
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, d, 1, NULL, &r, &e) == 0, "the lane goes on: %s", e.msg);
    drop(b);
    b = make("chk", "id int primary key, secret text check (length(secret) < 5), nn int not null");
    c[0] = INS(b.s, "1", "topsecretvalue", "1");
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == -1 && e.code == CODE_CONSTRAINT && strstr(e.msg, "chk_secret_check") != NULL && strstr(e.msg, "topsecret") == NULL,
       "a check is named without the row: %s", e.msg);
    c[0] = INS(b.s, "1", "a", NULL);
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == -1 && e.code == CODE_CONSTRAINT && strstr(e.msg, "'nn'") != NULL, "a missing value names its column: %s", e.msg);
    drop(b);
}

static void a_key_that_matches_twice(void) {
    struct err e = {0};
    struct bound b = make("m", "id int primary key, v int");
    ops->unbind(b.tt);
    kit_do("ALTER TABLE %s.m DROP CONSTRAINT m_pkey; INSERT INTO %s.m VALUES (1, 1), (1, 2), (2, 3)", kit_ns, kit_ns);
    ok(ops->bind(kit_t, b.s, kit_ns, "m", &b.tt, &e) == 0 && !b.tt->unique, "the target lost its key");
    struct change *u[2] = {kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("1", "9")), kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("50", "9"))};
    ok(kit_apply1(lane, RUN_UPDATE, b.tt, u, 2, NULL, &r, &e) == -1 && e.code == CODE_CDC_KEY_MATCHED_MULTIPLE_ROWS && e.marker == MARKER_KEY_SCOPED_WRITE_MATCHED_MULTIPLE_ROWS,
       "an update by key matched two rows (and another none): %s", e.msg);
    is_str(kit_rows("SELECT * FROM %s.m ORDER BY 1, 2", kit_ns), "1|1 1|2 2|3", "rolled back");
    struct change *d[1] = {kit_change(b.s, CHANGE_DELETE, IMAGE_KEY, ROW("1", "~"), NULL)};
    ok(kit_apply1(lane, RUN_DELETE, b.tt, d, 1, NULL, &r, &e) == -1 && e.code == CODE_CDC_KEY_MATCHED_MULTIPLE_ROWS, "a delete too");
    d[0] = kit_change(b.s, CHANGE_DELETE, IMAGE_KEY, ROW("2", "~"), NULL);
    ok(kit_apply1(lane, RUN_DELETE, b.tt, d, 1, NULL, &r, &e) == 0 && r.rows == 1, "one row is one row: %s", e.msg);
    struct change *i[1] = {INS(b.s, "2", "7")};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, i, 1, NULL, &r, &e) == 0 && kit_apply1(lane, RUN_UPSERT, b.tt, i, 1, NULL, &r, &e) == 0, "an upsert without an index to use: %s", e.msg);
    is_str(kit_rows("SELECT * FROM %s.m ORDER BY 1, 2", kit_ns), "1|1 1|2 2|7", "stands once");
    drop(b);
}

static void keyless_rows_one_by_one(void) {
    struct err e = {0};
    struct bound b = make("n", "a int, f float8, j json, t text");
    b.s->identity = -1;
    kit_do("INSERT INTO %s.n VALUES (1, 'NaN', '{\"x\": 1}', NULL), (1, 'NaN', '{\"x\": 1}', NULL), (1, 'NaN', '{\"x\":1}', NULL), (2, 0.1, NULL, '')", kit_ns);
    const char *const row[] = {"1", "NaN", "{\"x\": 1}", NULL};
    struct change *d[1] = {kit_change(b.s, CHANGE_DELETE, IMAGE_FULL, row, NULL)};
    ok(kit_apply1(lane, RUN_DELETE_FULL, b.tt, d, 1, NULL, &r, &e) == 0 && r.rows == 1 && r.missing == 0, "one of two equal rows: %s", e.msg);
    is_str(kit_rows("SELECT count(*) FROM %s.n", kit_ns), "3", "exactly one");
    kit_do("INSERT INTO %s.n VALUES (1, 'NaN', '{\"x\": 1}', NULL), (1, 'NaN', '{\"x\": 1}', NULL)", kit_ns);
    struct change *u[2] = {kit_change(b.s, CHANGE_UPDATE, IMAGE_FULL, row, ROW("5", "1", NULL, "first")), kit_change(b.s, CHANGE_UPDATE, IMAGE_FULL, row, ROW("6", "2", NULL, "second"))};
    ok(kit_apply1(lane, RUN_UPDATE_FULL, b.tt, u, 2, NULL, &r, &e) == 0 && r.rows == 2, "two equal images take two rows: %s", e.msg);
    is_str(kit_rows("SELECT a, f, j, t FROM %s.n ORDER BY a, j::text", kit_ns), "1|NaN|{\"x\": 1}|NULL 1|NaN|{\"x\":1}|NULL 2|0.1|NULL| 5|1|NULL|first 6|2|NULL|second", "each its own");
    ok(kit_apply1(lane, RUN_UPDATE_FULL, b.tt, u, 2, NULL, &r, &e) == 0 && r.rows == 1 && r.missing == 1, "the one left takes one, the other is missing: %s", e.msg);
    struct change *x[1] = {kit_change(b.s, CHANGE_DELETE, IMAGE_FULL, ROW("2", "0.1", NULL, ""), NULL)};
    ok(kit_apply1(lane, RUN_DELETE_FULL, b.tt, x, 1, NULL, &r, &e) == 0 && r.rows == 1, "NULL and empty are told apart");
    struct change *i[2] = {INS(b.s, "3", "1", NULL, "i"), INS(b.s, "3", "1", NULL, "i")};
    ok(kit_apply1(lane, RUN_INSERT, b.tt, i, 2, NULL, &r, &e) == 0 && r.rows == 2, "equal rows are inserted twice");
    drop(b);
}

static void identity_always(void) {
    struct err e = {0};
    struct bound b = make("ia", "id bigint generated always as identity primary key, v int");
    struct change *c[2] = {INS(b.s, "1", "10"), INS(b.s, "2", "20")};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 2, NULL, &r, &e) == 0 && kit_apply1(lane, RUN_UPSERT, b.tt, c, 2, NULL, &r, &e) == 0, "given values overrule the identity: %s", e.msg);
    struct change *u[2] = {kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("1", "11")), kit_change(b.s, CHANGE_UPDATE, IMAGE_KEY, ROW("2", "~"), ROW("3", "20"))};
    ok(kit_apply1(lane, RUN_UPDATE, b.tt, u, 2, NULL, &r, &e) == 0 && r.rows == 2, "such a key can move: %s", e.msg);
    is_str(kit_rows("SELECT * FROM %s.ia ORDER BY 1", kit_ns), "1|11 3|20", "as printed");
    drop(b);
    b = make("ib", "k text primary key, no int generated always as identity, v int");
    struct change *d[1] = {INS(b.s, "a", "7", "1")};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, d, 1, NULL, &r, &e) == 0, "an identity beside the key: %s", e.msg);
    d[0] = kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("a", "7", "2"));
    ok(kit_apply1(lane, RUN_UPDATE, b.tt, d, 1, NULL, &r, &e) == 0 && r.rows == 1, "stays as it is: %s", e.msg);
    d[0] = kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("a", "8", "3"));
    ok(kit_apply1(lane, RUN_UPDATE, b.tt, d, 1, NULL, &r, &e) == 0 && r.rows == 1, "or changes: %s", e.msg);
    d[0] = INS(b.s, "a", "9", "4");
    is_str(kit_rows("SELECT * FROM %s.ib", kit_ns), "a|8|3", "to what the source has");
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, d, 1, NULL, &r, &e) == 0, "by upsert too: %s", e.msg);
    is_str(kit_rows("SELECT t.*, a.attidentity FROM %s.ib t, pg_attribute a WHERE attrelid = '%s.ib'::regclass AND attname = 'no'", kit_ns, kit_ns), "a|9|4|a",
           "and the column is what it was");
    drop(b);
    b = make("ic", "id int generated by default as identity primary key");
    struct change *o[1] = {INS(b.s, "77")};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, o, 1, NULL, &r, &e) == 0 && kit_apply1(lane, RUN_UPSERT, b.tt, o, 1, NULL, &r, &e) == 0, "a table of a key alone: %s", e.msg);
    drop(b);
}

static void deferrable_keys(void) {
    struct err e = {0};
    struct bound b = make("d", "id int primary key, u int unique deferrable initially deferred");
    struct change *c[2] = {INS(b.s, "1", "1"), INS(b.s, "2", "2")};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 2, NULL, &r, &e) == 0, "insert: %s", e.msg);
    struct run two[2] = {{.kind = RUN_UPDATE, .table = b.tt, .changes = (struct change *[]){kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("1", "2"))}, .n = 1},
                         {.kind = RUN_UPDATE, .table = b.tt, .changes = (struct change *[]){kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("2", "1"))}, .n = 1}};
    ok(kit_apply(lane, two, 2, &r, &e) == 0, "a swap inside a window passes: %s", e.msg);
    is_str(kit_rows("SELECT * FROM %s.d ORDER BY 1", kit_ns), "1|2 2|1", "as printed");
    ok(kit_apply(lane, two, 1, &r, &e) == 0, "the same value again");
    struct change *x[1] = {INS(b.s, "3", "2")};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, x, 1, NULL, &r, &e) == -1 && e.code == CODE_CONSTRAINT && e.marker == MARKER_DEFERRED_KEY_CHECK_FAILED_AT_COMMIT,
       "a double value fails at commit, although triggers are off: %s", e.msg);
    is_str(kit_rows("SELECT count(*) FROM %s.d", kit_ns), "2", "and nothing stays");
    drop(b);
    b = make("dp", "id int primary key deferrable, v int");
    ok(b.tt != NULL && b.tt->deferrable, "a deferrable primary key");
    b.s->identity = 0;
    ops->unbind(b.tt);
    ok(ops->bind(kit_t, b.s, kit_ns, "dp", &b.tt, &e) == 0 && b.tt->unique && !b.tt->arbiter, "cannot arbitrate");
    struct change *y[1] = {INS(b.s, "1", "1")};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, y, 1, NULL, &r, &e) == 0 && kit_apply1(lane, RUN_UPSERT, b.tt, y, 1, NULL, &r, &e) == 0, "so rows are replaced: %s", e.msg);
    is_str(kit_rows("SELECT * FROM %s.dp", kit_ns), "1|1", "once");
    drop(b);
    kit_do("CREATE TABLE %s.dt(id int primary key, u int unique deferrable); CREATE FUNCTION %s.tf() RETURNS trigger LANGUAGE plpgsql AS 'begin return new; end'; "
           "CREATE TRIGGER tr BEFORE INSERT ON %s.dt FOR EACH ROW EXECUTE FUNCTION %s.tf()", kit_ns, kit_ns, kit_ns, kit_ns);
    struct shape *s = kit_shape(kit_ns, "dt");
    struct target_table *tt = NULL;
    ok(ops->bind(kit_t, s, kit_ns, "dt", &tt, &e) == -1 && e.code == CODE_TARGET_KEYS, "with triggers of its own it is refused: %s", e.msg);
    shape_free(s);
}

static void truncate_and_sequences(void) {
    struct err e = {0};
    struct bound p = make("tp", "id int generated by default as identity primary key"), c;
    kit_do("CREATE TABLE %s.tc(id int primary key, pid int references %s.tp)", kit_ns, kit_ns);
    c = make("tc", NULL);
    kit_do("INSERT INTO %s.tp VALUES (DEFAULT), (DEFAULT); INSERT INTO %s.tc VALUES (1, 1)", kit_ns, kit_ns);
    struct change t = {.op = CHANGE_TRUNCATE, .flags = TRUNCATE_CASCADE | TRUNCATE_RESTART_IDENTITY};
    struct change *ct[1] = {&t};
    struct target_table *one[1] = {p.tt}, *both[2] = {p.tt, c.tt};
    struct run run = {.kind = RUN_TRUNCATE, .changes = ct, .n = 1, .tables = one, .ntables = 1};
    ok(kit_apply(lane, &run, 1, &r, &e) == -1 && e.class == ERR_REFUSE, "a table that is not named is not emptied: %s", e.msg);
    t.flags = TRUNCATE_CASCADE;
    ok(kit_apply(lane, &run, 1, &r, &e) == 0, "a table that others refer to can be emptied alone: %s", e.msg);
    is_str(kit_rows("SELECT (SELECT count(*) FROM %s.tp), (SELECT count(*) FROM %s.tc)", kit_ns, kit_ns), "0|1", "and no other is");
    t.flags = TRUNCATE_CASCADE | TRUNCATE_RESTART_IDENTITY;
    run.tables = both;
    run.ntables = 2;
    ok(kit_apply(lane, &run, 1, &r, &e) == 0, "both named: %s", e.msg);
    is_str(kit_rows("SELECT (SELECT count(*) FROM %s.tp), (SELECT count(*) FROM %s.tc), last_value, is_called FROM %s.tp_id_seq", kit_ns, kit_ns, kit_ns), "0|0|1|f", "emptied and restarted");
    struct change s = {.op = CHANGE_SEQUENCE, .seq_ns = kit_ns, .seq_name = "tp_id_seq", .seq_value = 41, .seq_called = 1};
    struct change *cs[1] = {&s};
    run = (struct run){.kind = RUN_SEQUENCE, .changes = cs, .n = 1};
    ok(kit_apply(lane, &run, 1, &r, &e) == 0, "a sequence goes forward: %s", e.msg);
    s.seq_value = 5;
    ok(kit_apply(lane, &run, 1, &r, &e) == 0, "and not back");
    is_str(kit_rows("SELECT nextval('%s.tp_id_seq')", kit_ns), "42", "so the next value is new");
    s.seq_name = "nowhere_seq";
    ok(kit_apply(lane, &run, 1, &r, &e) == 0, "one that is not here is left: %s", e.msg);
    bool fk;
    ok(ops->lane_fk_enforced(lane, &fk, &e) == 0 && !fk, "foreign keys are off in a superuser's lane");
    struct change *orphan[1] = {INS(c.s, "9", "12345")};
    ok(kit_apply1(lane, RUN_UPSERT, c.tt, orphan, 1, NULL, &r, &e) == 0, "a child may come before its parent");
    drop(p);
    drop(c);
}

static void foreign_values(void) {
    struct err e = {0};
    struct shape *s = kit_foreign("fo", 5, (const char *const[]){"k", "n", "b", "d", "t"}, (const enum ltype[]){LT_TEXT, LT_NUMERIC, LT_BOOL, LT_DATE, LT_TEXT}, 1);
    struct target_table *tt = NULL;
    ok(ops->compatible(kit_t, s, NULL, &e) == 0 && ops->table_create(kit_t, s, kit_ns, "fo", &e) == 0 && ops->table_finish(kit_t, s, kit_ns, "fo", 0, NULL, NULL, &e) == 0,
       "a table for another engine's: %s", e.msg);
    is_str(kit_rows("SELECT string_agg(format_type(atttypid, atttypmod) || coalesce(' ' || nullif(attcollation::regcollation::text, '\"default\"'), ''), ',' ORDER BY attnum) "
                    "FROM pg_attribute WHERE attrelid = '%s.fo'::regclass AND attnum > 0 AND attcollation <> 0", kit_ns), "text \"C\",text", "keys compare bytewise");
    ok(ops->bind(kit_t, s, kit_ns, "fo", &tt, &e) == 0, "bound: %s", e.msg);
    struct value *v = kit_values(5, ROW("a", "1.50", "t", "2026-01-31", "x"));
    struct change *c[1] = {INS(s, "a", "1.50", "t", "2026-01-31", "x")};
    v[1] = (struct value){"i12345678901234567890", 21, VALUE_BINARY};
    v[2] = (struct value){"i1", 2, VALUE_BINARY};
    c[0]->after = v;
    ok(kit_apply1(lane, RUN_UPSERT, tt, c, 1, NULL, &r, &e) == 0 || e.code == CODE_VALUE_UNREPRESENTABLE, "storage classes are converted: %s", e.msg);
    v[1] = (struct value){"i42", 3, VALUE_BINARY};
    ok(kit_apply1(lane, RUN_UPSERT, tt, c, 1, NULL, &r, &e) == 0, "an integer for a numeric, 1 for true: %s", e.msg);
    is_str(kit_rows("SELECT * FROM %s.fo", kit_ns), "a|42|t|2026-01-31|x", "as printed");
    v[3] = (struct value){"thello", 6, VALUE_BINARY};
    ok(kit_apply1(lane, RUN_UPSERT, tt, c, 1, NULL, &r, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE && strstr(e.msg, "k=a") != NULL && strstr(e.msg, "column 'd'") != NULL,
       "what is no date is refused with table, key and column: %s", e.msg);
    v[3] = (struct value){"2026-02-30", 10, VALUE_TEXT};
    ok(kit_apply1(lane, RUN_UPSERT, tt, c, 1, NULL, &r, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE, "nor a day that is none");
    v[3] = (struct value){"2026-02-28", 10, VALUE_TEXT};
    v[4] = (struct value){"a\0b", 3, VALUE_TEXT};
    ok(kit_apply1(lane, RUN_UPSERT, tt, c, 1, NULL, &r, &e) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE, "nor a NUL in a text: %s", e.msg);
    ops->unbind(tt);
    shape_free(s);
}

static void strange_names(void) {
    struct err e = {0};
    kit_do("CREATE TABLE %s.\"we\"\"ird. t%%\"(\"sel ect\" int, \"a\"\"b\\c{}\" text, \"%%s\" text, PRIMARY KEY (\"a\"\"b\\c{}\", \"sel ect\"))", kit_ns);
    struct bound b = make("we\"ird. t%", NULL);
    struct change *c[1] = {INS(b.s, "1", "k", "v")}, *u[1] = {kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW("1", "k", "w"))};
    ok(b.tt != NULL && b.tt->arbiter, "quotes, backslashes, blanks and percents in names");
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == 0 && kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == 0 &&
           kit_apply1(lane, RUN_UPDATE, b.tt, u, 1, NULL, &r, &e) == 0 && r.rows == 1, "are names: %s", e.msg);
    is_str(kit_rows("SELECT * FROM %s.\"we\"\"ird. t%%\"", kit_ns), "1|k|w", "as printed");
    drop(b);
}

static void one_row_a_run(void) {
    struct err e = {0};
    struct bound b = make("single", "id int primary key, v text");
    size_t n = 6000;
    struct run *runs = arena_zalloc(kit_a, n * sizeof *runs, &e);
    struct change **c = arena_alloc(kit_a, n * sizeof *c, &e);
    for (size_t i = 0; i < n; i++) {
        c[i] = i % 2 ? kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, ROW(arena_printf(kit_a, &e, "%zu", i - 1), "u"))
                     : INS(b.s, arena_printf(kit_a, &e, "%zu", i), "i");
        runs[i] = (struct run){.kind = i % 2 ? RUN_UPDATE : RUN_UPSERT, .table = b.tt, .changes = &c[i], .n = 1};
    }
    ok(kit_apply(lane, runs, n, &r, &e) == 0 && r.rows == n, "6000 runs in one pipeline: %s", e.msg);
    is_str(kit_rows("SELECT count(*), min(v), max(v) FROM %s.single", kit_ns), "3000|u|u", "in order");
    drop(b);
}

static void a_huge_value(void) {
    struct err e = {0};
    struct bound b = make("huge", "id int primary key, v text, w bytea");
    size_t n = MiB(60);
    char *big = mem_alloc(n + 1, &e);
    memset(big, 'z', n);
    struct change *c[3] = {INS(b.s, "1", "~", NULL), INS(b.s, "2", "small", "\\x00"), INS(b.s, "3", "~", NULL)};
    for (int i = 0; i < 3; i += 2) ((struct value *)(uintptr_t)c[i]->after)[1] = (struct value){big, (uint32_t)n, VALUE_TEXT};
    ((struct value *)(uintptr_t)c[0]->after)[2] = (struct value){big, (uint32_t)n, VALUE_BYTES};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 3, NULL, &r, &e) == 0 && r.rows == 3, "values of 60 MiB: %s", e.msg);
    is_str(kit_rows("SELECT id, length(v), length(w) FROM %s.huge ORDER BY 1", kit_ns), "1|62914560|62914560 2|5|1 3|62914560|NULL", "whole");
    size_t kept = 0;
    for (size_t i = 0; i < lane->nparams_cap; i++) kept += lane->params[i].cap;
    ok(kept < MiB(40), "%zu bytes are kept for the next window", kept);
    mem_free(big);
    drop(b);
}

static void a_broken_connection(void) {
    struct err e = {0};
    struct bound b = make("broken", "id int primary key");
    struct change *c[1] = {INS(b.s, "1")};
    struct lane *l = NULL;
    ok(ops->lane_open(kit_t, &kit_st, 1, &l, &e) == 0, "a second lane: %s", e.msg);
    ok(kit_apply1(l, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == 0, "applies: %s", e.msg);
    kit_do("SELECT pg_terminate_backend(%d)", PQbackendPID(l->c));
    while (strcmp(kit_rows("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", PQbackendPID(l->c)), "0") != 0) {}
    ok(kit_apply1(l, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == -1 && e.class == ERR_RETRY, "a connection that broke may be tried again: %s", e.msg);
    ok(kit_apply1(l, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == -1 && e.class == ERR_RETRY, "and stays broken");
    ops->lane_close(l);
    uint64_t lanes[4];
    size_t n = 4;
    ok(ops->lane_open(kit_t, &kit_st, 1, &l, &e) == 0 && ops->marks_read(kit_t, "s1", lanes, &n, &e) == 0 && n == 2 && lanes[1] == kit_seq, "a new one finds its mark");
    ops->lane_close(l);
    drop(b);
}

static void a_column_dropped_behind_our_back(void) {
    struct err e = {0};
    struct bound b = make("behind", "id int primary key, v text");
    struct change *c[1] = {INS(b.s, "1", "a")};
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == 0, "applies: %s", e.msg);
    kit_do("ALTER TABLE %s.behind DROP v", kit_ns);
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == -1 && e.class == ERR_REFUSE, "a column that is gone is a refusal: %s", e.msg);
    kit_do("ALTER TABLE %s.behind ADD v text", kit_ns);
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == 0, "and applies when it is back: %s", e.msg);
    drop(b);
}

static void faults_around_the_commit(void) {
    struct err e = {0};
    struct bound b = make("fault", "id int primary key");
    struct change *c[1] = {INS(b.s, "1")};
    setenv("SLUICE_FAULT", "postgres.lane_before_commit=err", 1);
    fault_setup();
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == -1 && e.class == ERR_RETRY, "a failure before the commit: %s", e.msg);
    is_str(kit_rows("SELECT (SELECT count(*) FROM %s.fault), seq FROM %s.sluice_cdc_lane WHERE lane = 0", kit_ns, kit_ctl),
           arena_printf(kit_a, &e, "0|%llu", (unsigned long long)kit_seq), "leaves neither row nor mark");
    setenv("SLUICE_FAULT", "postgres.lane_after_commit=err", 1);
    fault_setup();
    ok(kit_apply1(lane, RUN_UPSERT, b.tt, c, 1, NULL, &r, &e) == -1 && e.class == ERR_RETRY, "a failure behind it: %s", e.msg);
    kit_seq++;
    is_str(kit_rows("SELECT (SELECT count(*) FROM %s.fault), seq FROM %s.sluice_cdc_lane WHERE lane = 0", kit_ns, kit_ctl),
           arena_printf(kit_a, &e, "1|%llu", (unsigned long long)kit_seq), "leaves both");
    unsetenv("SLUICE_FAULT");
    fault_setup();
    drop(b);
}

static void statements_do_not_pile_up(void) {
    struct err e = {0};
    struct bound b = make("many", "id int primary key, a int, b int, c int, d int, e int, f int, g int, h int, i int, j int");
    int bad = 0;
    struct change *in[1] = {INS(b.s, "1", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0")};
    kit_apply1(lane, RUN_UPSERT, b.tt, in, 1, NULL, &r, &e);
    for (unsigned m = 1; m < 1024; m++) {
        uint8_t mask[11] = {1};
        const char *row[11] = {"1"};
        for (unsigned k = 0; k < 10; k++) {
            mask[k + 1] = (m >> k) & 1;
            row[k + 1] = mask[k + 1] ? "7" : "~";
        }
        struct change *u[1] = {kit_change(b.s, CHANGE_UPDATE, IMAGE_NONE, NULL, row)};
        bad += kit_apply1(lane, RUN_UPDATE, b.tt, u, 1, mask, &r, &e) < 0 || r.rows != 1;
        if (bad == 1) note("%s", e.msg);
    }
    is_int(bad, 0, "1023 masks");
    is_str(kit_rows("SELECT * FROM %s.many", kit_ns), "1|7|7|7|7|7|7|7|7|7|7", "all set");
    ok(lane->nstmts <= 512, "%zu statements are kept", lane->nstmts);
    drop(b);
}

int main(void) {
    struct err e = {0};
    if (kit_open("lane") < 0) return 0;
    ok(ops->lane_open(kit_t, &kit_st, 0, &lane, &e) == 0, "a lane: %s", e.msg);
    every_type_arrives_as_it_was();
    too_long_is_refused_not_cut();
    keyed_runs();
    unique_conflict_rolls_back();
    a_key_that_matches_twice();
    keyless_rows_one_by_one();
    identity_always();
    deferrable_keys();
    truncate_and_sequences();
    foreign_values();
    statements_do_not_pile_up();
    faults_around_the_commit();
    strange_names();
    one_row_a_run();
    a_huge_value();
    a_broken_connection();
    a_column_dropped_behind_our_back();
    ops->lane_close(lane);
    return kit_close();
}
