/* Shape changes of the source, followed or refused, with their mark. */
#include <sys/wait.h>

#include "engine/base/fault.h"
#include "engine/base/mem.h"
#include "tests/unit/drivers/sqlite/target_fixture.h"

static struct target *t;
static struct target_state st;
static struct lane *lane;
static struct err e;
static uint64_t seq;

static void begin(void) {
    t = fx_target();
    st = fx_state(t);
    seq = 0;
    if (T->lane_open(t, &st, 0, &lane, &e) < 0) abort();
}

static void end(void) {
    T->lane_close(lane);
    T->close(t);
}

static int change(const struct shape *before, const struct shape *after) {
    struct mark m = {.epoch = st.epoch, .seq = ++seq};
    err_clear(&e);
    return T->table_alter(lane, before, after, "main", before ? before->name : after->name, "main", after->name, &m, &e);
}

/* The table's columns, indexes and whatever else the schema says of it. */
static const char *schema(void) {
    return fx_rows("SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sluice%' AND sql IS NOT NULL ORDER BY type DESC, name");
}

static const char *mark(void) {
    return fx_rows("SELECT seq FROM sluice_cdc_lane");
}

/* A SQLite source's table before and after; rows are on the target when it changes. Ends with the source's own schema. */
static void own(const char *what, const char *before, const char *ids_b, const char *rows, const char *change_sql, const char *ids_a,
                const char *name_after, const char *want, bool fast) {
    int64_t b[8] = {0}, a[8] = {0};
    for (int i = 0; ids_b[i]; i++)
        b[i] = ids_b[i] - '0';
    for (int i = 0; ids_a[i]; i++)
        a[i] = ids_a[i] - '0';
    char sql[2000], other[200];
    begin();
    struct shape *sb = fx_source_shape(before, "t", b);
    snprintf(sql, sizeof sql, "%s; %s; %s", before, rows, change_sql);
    struct shape *sa = fx_source_shape(sql, name_after, a);
    fx_sql(before);
    fx_sql(rows);
    snprintf(other, sizeof other,
             "CREATE VIEW vw AS SELECT 1; CREATE TABLE rel(tid REFERENCES t(id)); CREATE TRIGGER trg AFTER INSERT ON t BEGIN SELECT 1; "
             "END; CREATE INDEX theirs ON t(id);");
    fx_sql(other);
    int rc = change(sb, sa);
    ok(rc == 0, "%s: %s", what, e.msg);
    snprintf(sql, sizeof sql, "SELECT * FROM \"%s\"", name_after);
    is_str(fx_rows(sql), want, what);
    struct shape *d = NULL;
    ok(T->table_shape(t, "main", name_after, &d, &e) == 0 && d && d->ncols == sa->ncols && T->compatible(t, sa, d, &e) == 0 &&
           T->keys_check(t, sa, d, &e) == 0,
       "%s: the shape fits", what);
    if (!fast) {
        snprintf(sql, sizeof sql, "SELECT sql FROM sqlite_schema WHERE name='%s'", name_after);
        is_str(fx_rows(sql), fx_rows_in(fx_source, sql), what);
    }
    is_str(fx_rows("SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema WHERE name IN ('trg','theirs','vw') ORDER BY 1)"),
           "theirs,trg,vw", "what the owner added stays");
    is_str(mark(), "1", "the mark came with it");
    shape_free(d);
    shape_free(sa);
    shape_free(sb);
    end();
}

static void own_changes(void) {
    const char *base = "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b INT); CREATE INDEX t_b ON t(b)";
    const char *rows = "INSERT INTO t VALUES(1,'x',10),(5,NULL,20)";
    own("add column", base, "123", rows, "ALTER TABLE t ADD COLUMN c text collate nocase", "1234", "t", "1|x|10|~ 5|~|20|~", true);
    own("add two, one with a default", base, "123", rows,
        "ALTER TABLE t ADD c DEFAULT 2 CHECK(c<9); ALTER TABLE t ADD d NUMERIC(9,2) NOT NULL DEFAULT '1,2)'", "12345", "t",
        "1|x|10|2|1,2) 5|~|20|2|1,2)", true);
    own("drop column", base, "123", rows, "ALTER TABLE t DROP COLUMN a", "13", "t", "1|10 5|20", true);
    own("drop an indexed column", base, "123", rows, "DROP INDEX t_b; ALTER TABLE t DROP COLUMN b", "12", "t", "1|x 5|~", true);
    own("rename column", base, "123", rows, "ALTER TABLE t RENAME COLUMN b TO \"b b\"", "123", "t", "1|x|10 5|~|20", true);
    own("rename table", base, "123", rows, "ALTER TABLE t RENAME TO u", "123", "u", "1|x|10 5|~|20", true);
    own("names move along a chain", base, "123", rows, "ALTER TABLE t RENAME COLUMN a TO z; ALTER TABLE t RENAME COLUMN b TO a", "123", "t",
        "1|x|10 5|~|20", true);
    own("new index", base, "123", rows, "CREATE UNIQUE INDEX t_u ON t(a, b DESC)", "123", "t", "1|x|10 5|~|20", true);
    own("changed index", base, "123", rows, "DROP INDEX t_b; CREATE INDEX t_b ON t(b, a)", "123", "t", "1|x|10 5|~|20", true);
    /* what ALTER TABLE cannot say: made anew, to the letter */
    own("NOT NULL and a check", base, "123", "INSERT INTO t VALUES(1,'x',10),(5,'',20)",
        "CREATE TABLE n(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT NOT NULL CHECK(a<>'q'), b INT); INSERT INTO n SELECT * FROM t; DROP "
        "TABLE t; ALTER TABLE n RENAME TO t",
        "123", "t", "1|x|10 5||20", false);
    own("another order, a column in the middle", base, "123", rows,
        "DROP TABLE t; CREATE TABLE t(b INT, mid TEXT, a TEXT, id INTEGER PRIMARY KEY)", "3421", "t", "10|~|x|1 20|~|~|5", false);
    own("stored generated column", base, "123", rows,
        "DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INT, g INT GENERATED ALWAYS AS (b*2) STORED)", "1234", "t",
        "1|x|10|20 5|~|20|40", false);
    own("integers become text", base, "123", rows, "DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT)", "123", "t",
        "1|x|10 5|~|20", false);
    own("a key on another column", base, "123", rows, "DROP TABLE t; CREATE TABLE t(id INT, a TEXT, b INTEGER PRIMARY KEY) ", "123", "t",
        "1|x|10 5|~|20", false);
}

static void own_details(void) {
    begin();
    int64_t ids[] = {1, 2};
    struct shape *sb = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v)", "t", ids);
    struct shape *sa = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v INTEGER)", "t", ids);
    fx_sql("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v); INSERT INTO t VALUES(1,7); UPDATE sqlite_sequence SET seq=90");
    ok(change(sb, sa) == 0, "an untyped column of integers becomes INTEGER: %s", e.msg);
    is_str(fx_rows("SELECT seq FROM sqlite_sequence WHERE name='t'"), "90", "the counter goes on");
    ok(change(sa, sb) == 0, "and back");
    fx_sql("INSERT INTO t VALUES(2,'05')");
    const char *before = schema();
    ok(change(sb, sa) == -1 && e.marker == MARKER_SCHEMA_CHANGE_REFUSED && strstr(e.msg, "'v'"),
       "a text that would become a number refuses it");
    is_str(schema(), before, "nothing changed");
    is_str(mark(), "2", "nor did the mark");
    shape_free(sa);
    sa = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v NOT NULL)", "t", ids);
    fx_sql("INSERT INTO t VALUES(3,NULL)");
    ok(change(sb, sa) == -1 && e.marker == MARKER_SCHEMA_CHANGE_REFUSED && e.code == CODE_SHAPE_CHANGED,
       "a NULL under NOT NULL refuses it");
    shape_free(sa);
    int64_t three[] = {1, 2, 0};
    struct shape *noid = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, w)", "t", three);
    ((struct column *)(uintptr_t)noid->cols)[1].id = 0;
    ok(change(sb, noid) == -1 && e.marker == MARKER_SCHEMA_CHANGE_REFUSED, "without ids a rename is not guessed");
    shape_free(noid);
    struct shape *fresh =
        fx_source_shape("CREATE TABLE fresh(k TEXT NOT NULL PRIMARY KEY, v) WITHOUT ROWID; CREATE INDEX fresh_v ON fresh(v)", "fresh", ids);
    ok(change(NULL, fresh) == 0, "a new table");
    is_str(fx_rows("SELECT sql FROM sqlite_schema WHERE tbl_name='fresh' ORDER BY name"),
           "CREATE TABLE fresh(k TEXT NOT NULL PRIMARY KEY, v) WITHOUT ROWID CREATE INDEX fresh_v ON fresh(v)", "with its indexes");
    ok(change(NULL, fresh) == -1 && e.marker == MARKER_SCHEMA_CHANGE_REFUSED && e.code == CODE_TARGET_NOT_EMPTY,
       "a new table under a name that is taken");
    struct mark m = {.epoch = 9, .seq = 99};
    ok(T->table_alter(lane, fresh, fresh, "main", "fresh", "main", "fresh", &m, &e) == -1 && e.code == CODE_FENCED, "fenced");
    fx_sql("DROP TABLE fresh");
    ok(change(fresh, fresh) == -1 && e.marker == MARKER_RESUME_SCHEMA_DIVERGENCE, "a table that the target lost");
    shape_free(fresh);
    shape_free(sb);
    /* a target that its owner changed keeps that, when ALTER says the change */
    sb = fx_source_shape("CREATE TABLE o(id INTEGER PRIMARY KEY, v TEXT)", "o", ids);
    int64_t more[] = {1, 2, 3};
    sa = fx_source_shape("CREATE TABLE o(id INTEGER PRIMARY KEY, v TEXT, w TEXT)", "o", more);
    fx_sql("CREATE TABLE o(id INTEGER PRIMARY KEY, v TEXT DEFAULT 'own')");
    ok(change(sb, sa) == 0, "add a column to an edited table: %s", e.msg);
    is_str(fx_rows("SELECT sql FROM sqlite_schema WHERE name='o'"), "CREATE TABLE o(id INTEGER PRIMARY KEY, v TEXT DEFAULT 'own', w TEXT)",
           "the owner's default stays");
    shape_free(sa);
    shape_free(sb);
    end();
}

/* Index names are one space: the table that lost one may be followed later, or is kept though the source dropped it. */
static void index_names(void) {
    begin();
    int64_t ids[] = {1, 2};
    const char *kept = "CREATE TABLE kept(id INTEGER PRIMARY KEY, v); CREATE UNIQUE INDEX moves ON kept(v)";
    struct shape *sb = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v)", "t", ids),
                 *sa = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE INDEX moves ON t(v)", "t", ids);
    fx_sql(kept);
    fx_sql("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    ok(change(sb, sa) == 0, "an index under a name that another table has: %s", e.msg);
    is_str(fx_rows("SELECT tbl_name FROM sqlite_schema WHERE name='moves'"), "t", "is where the source has it");
    fx_sql("CREATE TABLE \"theirs\"(a); DROP INDEX moves; CREATE TABLE moves(a)");
    ok(change(sb, sa) == -1 && e.code == CODE_TARGET_NOT_EMPTY, "a table under that name is not touched");
    shape_free(sa);
    shape_free(sb);
    end();
}

#define COL(n, nat, ty, id_)                                                                                                               \
    { n, nat, ty, false, NULL, id_, EQ_BYTES, 0, 0 }

/* Another engine's table: rows (1,'x',10),(2,NULL,20) in (id, a, b). */
static struct shape *pg_before(void) {
    struct fx_col c[] = {
        {"id", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0}, COL("a", "text", LT_TEXT, 2), COL("b", "integer", LT_INT32, 3)};
    struct shape *s = fx_pg_shape("t", c, 3, 1, -1);
    if (T->table_create(t, s, "main", "t", &e) < 0) abort();
    fx_sql("INSERT INTO t VALUES(1,'x',10),(2,NULL,20)");
    return s;
}

static void other(const char *what, const struct fx_col *c, uint16_t n, int uniq, enum marker refused, const char *want) {
    begin();
    struct shape *b = pg_before(), *a = fx_pg_shape("t", c, n, 1, uniq);
    int rc = change(b, a);
    if (refused) {
        ok(rc == -1 && e.marker == refused, "%s: refused (%s)", what, e.msg);
        is_str(fx_rows("SELECT * FROM t"), "1|x|10 2|~|20", what);
        is_str(mark(), "0", "the mark stays");
    } else {
        ok(rc == 0, "%s: %s", what, e.msg);
        is_str(fx_rows("SELECT * FROM t"), want, what);
        is_str(mark(), "1", "with its mark");
    }
    shape_free(a);
    shape_free(b);
    end();
}
#define OTHER(what, uniq, refused, want, ...)                                                                                              \
    do {                                                                                                                                   \
        struct fx_col c[] = {{"id", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0}, __VA_ARGS__};                                     \
        other(what, c, sizeof c / sizeof c[0], uniq, refused, want);                                                                       \
    } while (0)

static void other_changes(void) {
    const struct fx_col a = COL("a", "text", LT_TEXT, 2), b = COL("b", "integer", LT_INT32, 3);
    OTHER("add a nullable column", -1, MARKER_NONE, "1|x|10|~ 2|~|20|~", a, b, COL("c", "date", LT_DATE, 4));
    OTHER("add with a literal default", -1, MARKER_NONE, "1|x|10|1.50 2|~|20|1.50", a, b,
          {"c", "numeric(5,2)", LT_NUMERIC, true, "1.5", 4, EQ_NUMERIC, 5, 2});
    OTHER("add with a computed default", -1, MARKER_SCHEMA_CHANGE_REFUSED, NULL, a, b,
          {"c", "double precision", LT_FLOAT8, false, "random()", 4, EQ_BYTES, 0, 0});
    OTHER("add with now()", -1, MARKER_SCHEMA_CHANGE_REFUSED, NULL, a, b,
          {"c", "timestamp", LT_TIMESTAMP, false, "now()", 4, EQ_BYTES, 0, 0});
    OTHER("add NOT NULL without default over rows", -1, MARKER_SCHEMA_CHANGE_REFUSED, NULL, a, b,
          {"c", "integer", LT_INT32, true, NULL, 4, EQ_BYTES, 0, 0});
    OTHER("drop a column", -1, MARKER_NONE, "1|10 2|20", b);
    OTHER("drop one, add another", -1, MARKER_NONE, "1|x|~ 2|~|~", a, COL("z", "integer", LT_INT32, 4));
    OTHER("drop and add of one name is another column", -1, MARKER_NONE, "1|x|~ 2|~|~", a, COL("b", "integer", LT_INT32, 4));
    OTHER("rename", -1, MARKER_NONE, "1|x|10 2|~|20", COL("c", "text", LT_TEXT, 2), b);
    OTHER("names change places", -1, MARKER_COLUMN_ORDER_CHANGED, NULL, COL("b", "text", LT_TEXT, 2), COL("a", "integer", LT_INT32, 3));
    OTHER("integer to bigint", -1, MARKER_NONE, "1|x|10 2|~|20", a, COL("b", "bigint", LT_INT64, 3));
    OTHER("integer to text", -1, MARKER_NONE, "1|x|10 2|~|20", a, COL("b", "text", LT_TEXT, 3));
    OTHER("integer to numeric(6,2)", -1, MARKER_NONE, "1|x|10.00 2|~|20.00", a,
          {"b", "numeric(6,2)", LT_NUMERIC, false, NULL, 3, EQ_NUMERIC, 6, 2});
    OTHER("text to integer", -1, MARKER_SCHEMA_CHANGE_REFUSED, NULL, COL("a", "integer", LT_INT32, 2), b);
    OTHER("text to date", -1, MARKER_SCHEMA_CHANGE_REFUSED, NULL, COL("a", "date", LT_DATE, 2), b);
    OTHER("a new unique key", 2, MARKER_NONE, "1|x|10 2|~|20", a, b);
    OTHER("by name: add only", -1, MARKER_NONE, "1|x|10|~ 2|~|20|~", COL("a", "text", LT_TEXT, 0), COL("b", "integer", LT_INT32, 0),
          COL("c", "text", LT_TEXT, 0));
    OTHER("by name: gone and new at once", -1, MARKER_SCHEMA_CHANGE_REFUSED, NULL, COL("a", "text", LT_TEXT, 0),
          COL("c", "integer", LT_INT32, 0));
    OTHER("by name: changed places", -1, MARKER_COLUMN_ORDER_CHANGED, NULL, COL("b", "integer", LT_INT32, 0), COL("a", "text", LT_TEXT, 0));
    begin();
    struct shape *sb = pg_before();
    struct fx_col n[] = {
        {"id", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0}, COL("a", "interval", LT_INTERVAL, 2), COL("b", "integer", LT_INT32, 3)};
    struct shape *sa = fx_pg_shape("t", n, 3, 1, -1);
    ok(change(sb, sa) == -1 && e.code == CODE_TYPE_UNSUPPORTED, "a type that a SQLite target does not carry");
    shape_free(sa);
    /* a unique key and a key column's NOT NULL go away */
    struct fx_col nn[] = {{"id", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0},
                          {"a", "text", LT_TEXT, true, NULL, 2, EQ_BYTES, 0, 0}};
    struct fx_col nu[] = {{"id", "integer", LT_INT32, true, NULL, 1, EQ_BYTES, 0, 0}, COL("a", "text", LT_TEXT, 2)};
    struct shape *u1 = fx_pg_shape("u", nn, 2, 1, 1), *u2 = fx_pg_shape("u2", nu, 2, 1, -1);
    if (T->table_create(t, u1, "main", "u", &e) < 0 || T->table_finish(t, u1, "main", "u", 0, NULL, NULL, &e) < 0) abort();
    fx_sql("INSERT INTO u VALUES(1,'k')");
    struct mark m = {.epoch = st.epoch, .seq = 50};
    err_clear(&e);
    ok(T->table_alter(lane, u1, u2, "main", "u", "main", "u2", &m, &e) == 0, "renamed, unique key dropped, NULL allowed: %s", e.msg);
    fx_sql("INSERT INTO u2 VALUES(2,'k'),(3,NULL)");
    is_str(fx_rows("SELECT * FROM u2"), "1|k 2|k 3|~", "the target allows what the source allows");
    shape_free(u1);
    shape_free(u2);
    shape_free(sb);
    end();
}

static void killed(void) {
    static const char *const points[] = {"sqlite.alter_before_mark", "sqlite.lane_before_commit", "sqlite.lane_after_commit"};
    for (int i = 0; i < 3; i++) {
        begin();
        int64_t two[] = {1, 2}, three[] = {1, 2, 3};
        struct shape *sb = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v)", "t", two),
                     *sa = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v, w NOT NULL DEFAULT 1, CHECK(w))", "t", three);
        fx_sql("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1,2)");
        T->lane_close(lane);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            setenv("SLUICE_FAULT", points[i], 1);
            fault_setup();
            struct target *mine = NULL;
            struct target_opts o = {.dsn = fx_dsn, .stream_id = "app"};
            if (T->open(&o, &mine, &e) < 0 || T->lane_open(mine, &st, 0, &lane, &e) < 0) _exit(9);
            change(sb, sa);
            _exit(8);
        }
        int status;
        waitpid(pid, &status, 0);
        ok(WIFSIGNALED(status), "killed at %s", points[i]);
        is_str(fx_rows("SELECT * FROM t"), i == 2 ? "1|2|1" : "1|2", "the table is before or behind the change");
        is_str(mark(), i == 2 ? "1" : "0", "as its mark says");
        if (T->lane_open(t, &st, 0, &lane, &e) < 0) abort();
        if (i < 2) ok(change(sb, sa) == 0, "the change again: %s", e.msg);
        is_str(fx_rows("SELECT * FROM t"), "1|2|1", "done");
        shape_free(sa);
        shape_free(sb);
        end();
    }
}

/* Every allocation may fail: the change is then refused whole, and succeeds when asked again. */
static void without_memory(void) {
    begin();
    int64_t two[] = {1, 2}, three[] = {1, 2, 3};
    struct shape *sb = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v)", "t", two),
                 *sa = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v, w CHECK(w)); CREATE INDEX t_w ON t(w)", "t", three);
    fx_sql("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1,2)");
    int failed = 0, rc = -1;
    bool clean = true;
    for (long n = 0; n < 2000 && rc < 0; n++) {
        mem_fail_after(n);
        rc = change(sb, sa);
        mem_fail_after(-1);
        if (rc == 0) break;
        failed++;
        clean = clean && e.code == CODE_NO_MEMORY;
    }
    ok(rc == 0 && failed > 10 && clean, "%d failing allocations, each refused whole (%s)", failed, e.msg);
    is_str(fx_rows("SELECT * FROM t"), "1|2|~", "the row stays");
    struct target_table *tt = NULL;
    failed = 0;
    rc = -1;
    for (long n = 0; n < 2000 && rc < 0; n++) {
        mem_fail_after(n);
        rc = T->bind(t, sa, "main", "t", &tt, &e);
        mem_fail_after(-1);
        failed += rc < 0;
        clean = clean && (rc == 0 || (e.code == CODE_NO_MEMORY && !tt));
    }
    ok(rc == 0 && failed > 5 && clean, "%d failing allocations of a bind", failed);
    T->unbind(tt);
    shape_free(sa);
    shape_free(sb);
    end();
}

int main(void) {
    fx_setup();
    own_changes();
    own_details();
    index_names();
    other_changes();
    without_memory();
    killed();
    return done_testing();
}
