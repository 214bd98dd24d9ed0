/* Windows: rows, marks and epochs in one transaction. */
#include <sys/wait.h>
#include <time.h>

#include "engine/base/fault.h"
#include "tests/unit/drivers/sqlite/target_fixture.h"

static struct target *t;
static struct target_state st;
static struct lane *lane;
static struct apply_result res;
static struct err e;
static uint64_t seq;

static void begin(void) {
    t = fx_target();
    st = fx_state(t);
    seq = 0;
    if (T->lane_open(t, &st, 0, &lane, &e) < 0) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
}

static void end(void) {
    T->lane_close(lane);
    T->close(t);
}

static struct target_table *table(const struct shape *s) {
    struct target_table *tt = NULL;
    if (T->table_create(t, s, "main", s->name, &e) < 0 || T->table_finish(t, s, "main", s->name, 0, NULL, NULL, &e) < 0 ||
        T->bind(t, s, "main", s->name, &tt, &e) < 0) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
    return tt;
}

static int apply(struct run *runs, size_t n) {
    struct mark m = {.epoch = st.epoch, .seq = ++seq};
    err_clear(&e);
    return T->lane_apply(lane, runs, n, &m, &res, &e);
}

/* One run of one change. */
static int one(struct target_table *tt, enum run_kind kind, struct change *c, const uint8_t *mask) {
    struct run r = {.kind = kind, .table = tt, .changes = &c, .n = 1, .mask = mask};
    return apply(&r, 1);
}

static int upsert(struct target_table *tt, const struct shape *s, struct value *v) {
    return one(tt, RUN_UPSERT, fx_change(CHANGE_INSERT, s, NULL, v), NULL);
}

static int insert(struct target_table *tt, const struct shape *s, struct value *v) {
    return one(tt, RUN_INSERT, fx_change(CHANGE_INSERT, s, NULL, v), NULL);
}

static int update(struct target_table *tt, const struct shape *s, struct value *b, struct value *a, const uint8_t *mask) {
    return one(tt, RUN_UPDATE, fx_change(CHANGE_UPDATE, s, b, a), mask);
}

static int delete (struct target_table *tt, const struct shape *s, struct value *b) {
    return one(tt, RUN_DELETE, fx_change(CHANGE_DELETE, s, b, NULL), NULL);
}

static void keyed(void) {
    begin();
    struct shape *s =
        fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT REPLACE, v TEXT, gen AS (v||'!'))", "t", NULL);
    struct target_table *tt = table(s);
    ok(upsert(tt, s, VALS("1", "a", "one", "~u")) == 0 && res.rows == 1, "upsert inserts");
    ok(upsert(tt, s, VALS("1", "b", "uno", "~u")) == 0 && upsert(tt, s, VALS("2", "c", "two", "~u")) == 0, "and replaces its own row");
    is_str(fx_rows("SELECT * FROM t"), "1|b|uno|uno! 2|c|two|two!", "rows");
    ok(upsert(tt, s, VALS("3", "c", "x", "~u")) == -1 && e.code == CODE_UNIQUE_CONFLICT && strstr(e.msg, "(id=3)"),
       "another row in the way on another unique key is a conflict, whatever its ON CONFLICT says");
    ok(insert(tt, s, VALS("2", "z", "x", "~u")) == -1 && e.code == CODE_UNIQUE_CONFLICT, "plain insert of a key that is there");
    ok(update(tt, s, NULL, VALS("1", "c", "x", "~u"), NULL) == -1 && e.code == CODE_UNIQUE_CONFLICT,
       "update into another row's unique key");
    is_str(fx_rows("SELECT * FROM t"), "1|b|uno|uno! 2|c|two|two!", "nothing of it stays");
    static const uint8_t only_v[] = {0, 0, 1, 0};
    ok(update(tt, s, NULL, VALS("2", "~u", "deux", "~u"), only_v) == 0 && res.rows == 1 && res.missing == 0, "update of the masked column");
    ok(update(tt, s, VALS("2", "~u", "~u", "~u"), VALS("20", "c", "deux", "~u"), NULL) == 0 && res.rows == 1, "update that moves the key");
    is_str(fx_rows("SELECT id,k,v FROM t"), "1|b|uno 20|c|deux", "moved");
    ok(update(tt, s, NULL, VALS("7", "q", "x", "~u"), NULL) == 0 && res.rows == 0 && res.missing == 1,
       "an update without its row is counted");
    ok(delete (tt, s, VALS("7", "~u", "~u", "~u")) == 0 && res.missing == 1, "so is a delete");
    ok(delete (tt, s, VALS("20", "~u", "~u", "~u")) == 0 && res.rows == 1, "delete");
    ok(update(tt, s, NULL, VALS("1", "~u", "x", "~u"), NULL) == -1 && e.code == CODE_INTERNAL,
       "an unchanged value where one is needed is our bug");
    is_str(fx_rows("SELECT id,k,v FROM t"), "1|b|uno", "rolled back");
    struct value bad[4];
    memcpy(bad, VALS("5", "e", NULL, "~u"), sizeof bad);
    bad[0] = (struct value){"tfive", 5, VALUE_BINARY};
    ok(upsert(tt, s, bad) == -1 && e.code == CODE_VALUE_UNREPRESENTABLE, "text for a rowid");
    T->unbind(tt);
    shape_free(s);
    end();
}

/* The user's triggers, foreign keys and cascades do not act in our sessions. */
static void triggers_and_foreign_keys(void) {
    begin();
    struct shape *p = fx_source_shape("CREATE TABLE p(id INTEGER PRIMARY KEY, n INT)", "p", NULL);
    struct shape *c = fx_source_shape("CREATE TABLE p(id INTEGER PRIMARY KEY, n INT); CREATE TABLE c(id INTEGER PRIMARY KEY, pid INTEGER "
                                      "REFERENCES p(id) ON DELETE CASCADE)",
                                      "c", NULL);
    struct target_table *pt = table(p), *ct = table(c);
    fx_sql("CREATE TRIGGER cnt AFTER INSERT ON c BEGIN UPDATE p SET n=n+1 WHERE id=new.pid; END");
    ok(upsert(ct, c, VALS("10", "1")) == 0, "a child before its parent");
    ok(upsert(pt, p, VALS("1", "5")) == 0 && upsert(ct, c, VALS("11", "1")) == 0 && delete (pt, p, VALS("1", "~u")) == 0, "a parent goes");
    is_str(fx_rows("SELECT * FROM c"), "10|1 11|1", "its children stay until the log says otherwise");
    bool fk = true;
    ok(T->lane_fk_enforced(lane, &fk, &e) == 0 && !fk, "and the lane says so");
    ok(upsert(pt, p, VALS("1", "5")) == 0 && upsert(ct, c, VALS("12", "1")) == 0, "again");
    is_str(fx_rows("SELECT n FROM p"), "5", "no trigger fired");
    T->unbind(pt);
    T->unbind(ct);
    shape_free(p);
    shape_free(c);
    end();
}

static void equality(void) {
    begin();
    struct shape *s = fx_source_shape("CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY COLLATE NOCASE, v INT)", "t", NULL);
    struct target_table *tt = table(s);
    ok(upsert(tt, s, VALS("abc", "1")) == 0 && upsert(tt, s, VALS("ABC", "2")) == 0, "a key spelled anew under NOCASE");
    is_str(fx_rows("SELECT * FROM t"), "ABC|2", "is the same row, spelled as the source has it");
    ok(update(tt, s, NULL, VALS("aBc", "3"), NULL) == 0 && res.rows == 1, "update by the source's equality");
    is_str(fx_rows("SELECT * FROM t"), "aBc|3", "the spelling follows");
    ok(delete (tt, s, VALS("AbC", "~u")) == 0 && res.rows == 1, "delete by it");
    T->unbind(tt);
    shape_free(s);
    /* the target's own table is bytewise: NOCASE of the source still decides */
    s = fx_source_shape("CREATE TABLE b(k TEXT NOT NULL PRIMARY KEY COLLATE NOCASE, v INT)", "b", NULL);
    fx_sql("CREATE TABLE b(k TEXT NOT NULL PRIMARY KEY, v INT); INSERT INTO b VALUES('Ab',1)");
    ok(T->bind(t, s, "main", "b", &tt, &e) == 0 && update(tt, s, NULL, VALS("aB", "2"), NULL) == 0 && res.rows == 1,
       "an update finds its row under the source's NOCASE");
    is_str(fx_rows("SELECT * FROM b"), "aB|2", "and spells it");
    T->unbind(tt);
    shape_free(s);
    /* no unique key on the target at all */
    s = fx_source_shape("CREATE TABLE m(k INTEGER PRIMARY KEY, v TEXT)", "m", NULL);
    fx_sql("CREATE TABLE m(k INTEGER, v TEXT); INSERT INTO m VALUES(1,'a'),(1,'b'),(2,'c')");
    ok(T->bind(t, s, "main", "m", &tt, &e) == 0, "a target table without the key");
    ok(upsert(tt, s, VALS("2", "d")) == 0 && upsert(tt, s, VALS("3", "e")) == 0, "upserts look first");
    ok(update(tt, s, NULL, VALS("1", "x"), NULL) == -1 && e.code == CODE_CDC_KEY_MATCHED_MULTIPLE_ROWS &&
           e.marker == MARKER_KEY_SCOPED_WRITE_MATCHED_MULTIPLE_ROWS,
       "one update, two rows: refused");
    ok(delete (tt, s, VALS("1", "~u")) == -1 && e.marker == MARKER_KEY_SCOPED_WRITE_MATCHED_MULTIPLE_ROWS, "one delete, two rows: refused");
    ok(upsert(tt, s, VALS("1", "x")) == -1 && e.marker == MARKER_KEY_SCOPED_WRITE_MATCHED_MULTIPLE_ROWS, "one upsert, two rows: refused");
    is_str(fx_rows("SELECT * FROM m"), "1|a 1|b 2|d 3|e", "and nothing changed");
    T->unbind(tt);
    shape_free(s);
    end();
}

static void keyless(void) {
    begin();
    struct fx_col cols[] = {{"a", "text", LT_TEXT, false, NULL, 1, EQ_BYTES, 0, 0},
                            {"b", "integer", LT_INT32, false, NULL, 2, EQ_BYTES, 0, 0},
                            {"f", "real", LT_FLOAT4, false, NULL, 3, EQ_BYTES, 0, 0}};
    struct shape *s = fx_pg_shape("t", cols, 3, -1, -1);
    struct target_table *tt = table(s);
    for (int i = 0; i < 3; i++)
        insert(tt, s, VALS("x", "1", "0.1"));
    insert(tt, s, VALS("X", "1", "0.1"));
    insert(tt, s, VALS(NULL, NULL, NULL));
    ok(one(tt, RUN_DELETE_FULL, fx_change(CHANGE_DELETE, s, VALS("x", "1", "0.1"), NULL), NULL) == 0 && res.rows == 1,
       "one of three equal rows goes");
    is_str(fx_rows("SELECT count(*) FROM t WHERE a='x'"), "2", "two stay");
    ok(one(tt, RUN_UPDATE_FULL, fx_change(CHANGE_UPDATE, s, VALS("x", "1", "0.1"), VALS("y", "2", "0.5")), NULL) == 0 && res.rows == 1,
       "one is updated");
    ok(one(tt, RUN_UPDATE_FULL, fx_change(CHANGE_UPDATE, s, VALS(NULL, NULL, NULL), VALS("n", NULL, NULL)), NULL) == 0 && res.rows == 1,
       "NULL matches NULL");
    ok(one(tt, RUN_DELETE_FULL, fx_change(CHANGE_DELETE, s, VALS("x", "2", "0.1"), NULL), NULL) == 0 && res.missing == 1,
       "no such row: counted");
    is_str(fx_rows("SELECT a,b,f FROM t ORDER BY a"), "X|1|0.1 n|~|~ x|1|0.1 y|2|0.5", "rows");
    struct change *two[] = {fx_change(CHANGE_DELETE, s, VALS("x", "1", "0.1"), NULL),
                            fx_change(CHANGE_DELETE, s, VALS("x", "1", "0.1"), NULL)};
    struct run r = {.kind = RUN_DELETE_FULL, .table = tt, .changes = two, .n = 2};
    ok(apply(&r, 1) == 0 && res.rows == 1 && res.missing == 1, "each delete takes one");
    T->unbind(tt);
    shape_free(s);
    /* storage classes of an untyped column: 1, 1.0, '1' are three rows; the rowid's names are taken */
    s = fx_source_shape("CREATE TABLE n(v, rowid TEXT, oid INT); INSERT INTO n VALUES(1,'a',1),(1.0,'a',1),('1','a',1),(x'31','a',1)", "n",
                        NULL);
    tt = table(s);
    size_t n;
    struct value *v = fx_source_rows(s, &n);
    for (size_t i = 0; i < n; i++)
        insert(tt, s, v + i * 3);
    ok(one(tt, RUN_DELETE_FULL, fx_change(CHANGE_DELETE, s, v + 3, NULL), NULL) == 0 && res.rows == 1, "delete of 1.0");
    is_str(fx_rows("SELECT typeof(v) FROM n"), "integer text blob", "took the real, not the integer");
    T->unbind(tt);
    shape_free(s);
    s = fx_source_shape("CREATE TABLE r(rowid TEXT, oid INT, _rowid_ INT)", "r", NULL);
    if (T->table_create(t, s, "main", "r", &e) < 0) abort();
    ok(T->bind(t, s, "main", "r", &tt, &e) == -1, "no name is left for the rowid: refused");
    shape_free(s);
    end();
}

static void truncates_and_sequences(void) {
    begin();
    struct shape *s = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v INT)", "t", NULL);
    struct target_table *tt = table(s);
    upsert(tt, s, VALS("1", "1"));
    upsert(tt, s, VALS("2", "1"));
    struct change *c = fx_change(CHANGE_TRUNCATE, NULL, NULL, NULL), *ins = fx_change(CHANGE_INSERT, s, NULL, VALS("9", "9")),
                  *q = fx_change(CHANGE_SEQUENCE, NULL, NULL, NULL);
    struct target_table *tables[] = {tt};
    q->seq_ns = "main";
    q->seq_name = "t";
    q->seq_value = 100;
    struct run runs[] = {{.kind = RUN_TRUNCATE, .changes = &c, .n = 1, .tables = tables, .ntables = 1},
                         {.kind = RUN_UPSERT, .table = tt, .changes = &ins, .n = 1},
                         {.kind = RUN_SEQUENCE, .changes = &q, .n = 1}};
    ok(apply(runs, 3) == 0, "truncate, rows and sequence in one window");
    is_str(fx_rows("SELECT * FROM t"), "9|9", "rows behind the truncate");
    is_str(fx_rows("SELECT seq FROM sqlite_sequence"), "100", "the counter went forward");
    q->seq_value = 50;
    ok(apply(&runs[2], 1) == 0, "an older counter");
    is_str(fx_rows("SELECT seq FROM sqlite_sequence"), "100", "does not take it back");
    q->seq_name = "no_such_sequence";
    ok(apply(&runs[2], 1) == 0, "another engine's sequence has no place here");
    c->flags = TRUNCATE_RESTART_IDENTITY;
    ok(apply(runs, 1) == 0, "truncate with restart");
    is_str(fx_rows("SELECT count(*) FROM sqlite_sequence"), "0", "the counter begins anew");
    T->unbind(tt);
    shape_free(s);
    end();
}

static void marks_and_epochs(void) {
    begin();
    uint64_t lanes[4];
    size_t n = 4;
    struct shape *s = fx_source_shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v INT)", "t", NULL);
    struct target_table *tt = table(s);
    struct change *c = fx_change(CHANGE_INSERT, s, NULL, VALS("1", "1"));
    struct run r = {.kind = RUN_UPSERT, .table = tt, .changes = &c, .n = 1};
    struct mark m = {.epoch = st.epoch, .seq = 40, .link_id = "00112233445566778899aabbccddeeff00112233", .state_seq = 40};
    ok(T->lane_apply(lane, &r, 1, &m, &res, &e) == 0, "a window that ends a link");
    struct target_state got;
    bool found;
    ok(T->state_read(t, "app", &got, &found, &e) == 0 && got.seq == 40 && strcmp(got.link_id, m.link_id) == 0, "moves the state row");
    ok(T->marks_read(t, "app", lanes, &n, &e) == 0 && n == 1 && lanes[0] == 40, "and the lane's mark");
    m.link_id = NULL;
    m.seq = 50;
    ok(T->lane_apply(lane, NULL, 0, &m, &res, &e) == 0 && T->state_read(t, "app", &got, &found, &e) == 0 && got.seq == 40,
       "a mark alone leaves the state row");
    m.seq = 45;
    ok(T->lane_apply(lane, &r, 1, &m, &res, &e) == -1 && e.code == CODE_MARK_MISMATCH && e.marker == MARKER_APPLY_MARK_MISMATCH,
       "a mark never goes back");
    m.seq = 50;
    ok(T->lane_apply(lane, &r, 1, &m, &res, &e) == -1 && e.code == CODE_MARK_MISMATCH, "rows that the mark covers are not written again");
    ok(T->lane_apply(lane, NULL, 0, &m, &res, &e) == 0, "the mark alone may be repeated");
    m.epoch = 9;
    ok(T->lane_apply(lane, &r, 1, &m, &res, &e) == -1 && e.code == CODE_FENCED, "a mark of another epoch");
    struct target_state mine = st;
    ok(T->takeover(t, &st, &e) == 0 && st.epoch == 2, "takeover");
    m = (struct mark){.epoch = mine.epoch, .seq = 60};
    c = fx_change(CHANGE_INSERT, s, NULL, VALS("2", "2"));
    ok(T->lane_apply(lane, &r, 1, &m, &res, &e) == -1 && e.code == CODE_FENCED, "the former writer's lane is fenced");
    struct lane *other = NULL;
    ok(T->lane_open(t, &mine, 0, &other, &e) == -1 && e.code == CODE_FENCED && !other, "and opens no new one");
    ok(T->lane_open(t, &st, 0, &other, &e) == 0, "the new writer's lane");
    ok(T->marks_read(t, "app", lanes, (n = 4, &n), &e) == 0 && n == 1 && lanes[0] == 50, "stands where the old one stood");
    m.epoch = st.epoch;
    ok(T->lane_apply(other, &r, 1, &m, &res, &e) == 0, "and goes on");
    is_str(fx_rows("SELECT * FROM t"), "1|1 2|2", "rows");
    /* takeover waits for a transaction in flight: it cannot raise the epoch under it */
    T->lane_close(other);
    fx_sql("CREATE TABLE gone(a)");
    T->unbind(tt);
    shape_free(s);
    end();
}

/* Killed at each point: rows and mark are both there or both not. */
static void killed(void) {
    static const char *const points[] = {"sqlite.lane_before_commit", "sqlite.lane_after_commit"};
    for (int i = 0; i < 2; i++) {
        begin();
        struct shape *s = fx_source_shape("CREATE TABLE t(v INT)", "t", NULL);
        struct target_table *tt = table(s);
        T->lane_close(lane);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            setenv("SLUICE_FAULT", points[i], 1);
            fault_setup();
            struct target *mine = NULL;
            struct target_table *mt = NULL;
            struct target_opts o = {.dsn = fx_dsn, .stream_id = "app"};
            if (T->open(&o, &mine, &e) < 0 || T->lane_open(mine, &st, 0, &lane, &e) < 0 || T->bind(mine, s, "main", "t", &mt, &e) < 0)
                _exit(9);
            insert(mt, s, VALS("5"));
            _exit(8);
        }
        int status;
        waitpid(pid, &status, 0);
        ok(WIFSIGNALED(status), "killed at %s", points[i]);
        is_str(fx_rows("SELECT (SELECT count(*) FROM t)||','||(SELECT seq FROM sluice_cdc_lane)"), i ? "1,1" : "0,0",
               "rows and mark agree");
        lane = NULL;
        T->unbind(tt);
        shape_free(s);
        end();
    }
}

/* law: whatever an application does row by row, the same changes in windows of any size leave the same table. */
static void random_windows(void) {
    unsigned seed = (unsigned)time(NULL), n = 0;
    struct change *pending[50];
    struct run runs[50];
    sqlite3 *db = NULL;
    const char *given = getenv("SEED");
    if (given) seed = (unsigned)strtoul(given, NULL, 10);
    note("seed=%u, replay with SEED=%u", seed, seed);
    srand(seed);
    begin();
    struct shape *s = fx_source_shape(
        "CREATE TABLE t(a INT NOT NULL, b TEXT COLLATE NOCASE NOT NULL, u TEXT UNIQUE, v, PRIMARY KEY(a,b)) WITHOUT ROWID", "t", NULL);
    struct target_table *tt = table(s);
    if (sqlite3_open(fx_source, &db) != SQLITE_OK) abort();
    sqlite3_exec(db, "PRAGMA synchronous=OFF", NULL, NULL, NULL);
    bool good = true;
    for (int op = 0; op < 3000 && good; op++) {
        char sql[300], *x[6];
        for (int i = 0; i < 6; i++)
            x[i] = arena_printf(fx_arena, &e, i % 2 ? "%s%d" : "%s%d", i % 2 == 0 ? "" : rand() % 2 ? "k" : "K", rand() % (i < 2 ? 4 : 40));
        struct value *b = VALS(x[0], x[1], "~u", "~u"), *a = VALS(x[2], x[3], x[5], "vv");
        a[3] = (struct value){rand() % 2 ? "i7" : "tseven", 0, VALUE_BINARY};
        a[3].len = (uint32_t)strlen(a[3].p);
        const char *v = a[3].p[0] == 'i' ? "7" : "'seven'";
        int kind = rand() % 4;
        if (kind < 2) {
            memcpy(a, b, 2 * sizeof *a);
            snprintf(sql, sizeof sql, "INSERT INTO t VALUES(%s,'%s','%s',%s)", x[0], x[1], x[5], v);
        } else if (kind == 2)
            snprintf(sql, sizeof sql, "UPDATE t SET a=%s,b='%s',u='%s',v=%s WHERE a=%s AND b='%s'", x[2], x[3], x[5], v, x[0], x[1]);
        else snprintf(sql, sizeof sql, "DELETE FROM t WHERE a=%s AND b='%s'", x[0], x[1]);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK || sqlite3_changes(db) != 1) continue;
        pending[n] = kind < 2 ? fx_change(CHANGE_INSERT, s, NULL, a)
                              : fx_change(kind == 2 ? CHANGE_UPDATE : CHANGE_DELETE, s, b, kind == 2 ? a : NULL);
        runs[n] = (struct run){.kind = kind < 2    ? RUN_UPSERT
                                       : kind == 2 ? RUN_UPDATE
                                                   : RUN_DELETE,
                               .table = tt,
                               .changes = &pending[n],
                               .n = 1};
        n++;
        if (n < 50 && rand() % 12) continue;
        good = apply(runs, n) == 0 && res.missing == 0 && res.rows == n;
        if (!good) note("%s (missing %llu)", e.msg, (unsigned long long)res.missing);
        n = 0;
    }
    if (n) good = good && apply(runs, n) == 0;
    sqlite3_close(db);
    ok(good, "every window applied wholly");
    const char *q = "SELECT group_concat(a||b||u||v||typeof(v)) FROM (SELECT * FROM t ORDER BY a, b)";
    ok(strlen(fx_rows(q)) > 100, "rows are left to compare");
    is_str(fx_rows(q), fx_rows_in(fx_source, q), "the tables are equal");
    T->unbind(tt);
    shape_free(s);
    end();
}

int main(void) {
    fx_setup();
    random_windows();
    keyed();
    triggers_and_foreign_keys();
    equality();
    keyless();
    truncates_and_sequences();
    marks_and_epochs();
    killed();
    return done_testing();
}
