/* The stream's manners: whose file it is, what it refuses, what it leaves alone. */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "tests/unit/drivers/sqlite/feed.h"

#define BASE "create table t(id integer primary key, k text unique, v); insert into t values(1,'a',1),(2,'b',2),(3,'c',3)"

static int64_t app_int(struct feed *f, const char *sql) {
    sqlite3_stmt *st;
    int64_t v = -1;
    if (sqlite3_prepare_v2(f->app, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) v = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return v;
}
static char *app_text(struct feed *f, const char *sql) { /* caller frees */
    sqlite3_stmt *st;
    char *out = NULL;
    if (sqlite3_prepare_v2(f->app, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        out = strdup((const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    return out;
}
static void shell(const char *fmt, const char *a, const char *b) {
    char cmd[512];
    snprintf(cmd, sizeof cmd, fmt, a, b);
    if (system(cmd) != 0) printf("Bail out! %s\n", cmd), exit(1);
}

static void cascades_and_triggers(void) {
    struct feed f = {0};
    feed_begin(&f,
               "create table p(id integer primary key, n int default 0);"
               "create table c(id integer primary key, pid int references p(id) on delete cascade on update cascade);"
               "create trigger cnt after insert on c begin update p set n=n+1 where id=new.pid; end;"
               "create view w as select * from p; create trigger iw instead of insert on w begin insert into p values(new.id, 100); end;"
               "insert into p(id) values(1),(2)");
    app(&f, "pragma foreign_keys=on; insert into c values(10,1),(11,1),(12,2); insert into c values(10,2) on conflict(id) do update set "
            "pid=excluded.pid;"
            "update p set id=20 where id=2; delete from p where id=1; insert into w(id) values(77)");
    feed_tick(&f);
    ok(feed_same(&f) && f.missing == 0, "cascades, triggers, upserts and writes through a view");
    is_int(f.commits, 1, "one tick is one commit");
    feed_end(&f);
}

static void parents_first(void) {
    struct feed f = {0};
    struct err e = {0};
    struct pos seen;
    char order[64] = "";
    feed_begin(&f, "create table a(id integer primary key, b int references b(id)); create table b(id integer primary key, c int "
                   "references c(id)); create table c(id integer primary key);"
                   "insert into c values(1); insert into b values(1,1); insert into a values(1,1)");
    app(&f, "insert into c values(2); insert into b values(2,2); insert into a values(2,2); delete from a where id=1; delete from b where "
            "id=1; delete from c where id=1");
    batch_reset(&f.b);
    if (ops()->stream_next(f.st, &f.b, 65536, 0, &seen, &e) < 0) die("next", &e);
    for (size_t i = 0; i < f.b.n; i++)
        if (f.b.v[i].shape)
            snprintf(order + strlen(order), sizeof order - strlen(order), "%s%s ", f.b.v[i].op == CHANGE_DELETE ? "-" : "+",
                     f.b.v[i].shape->name);
    is_str(order, "-a -b -c +c +b +a ", "children go before their parents and come after them");
    feed_end(&f);
}

/* A full that goes on under a later snapshot: the stream still begins at the anchor. */
static void resumed_copy(void) {
    struct feed f = {0};
    struct err e = {0};
    struct snapshot *snap;
    struct pos later;
    feed_begin(&f, BASE);
    app(&f, "insert into t values(10,'new',1),(11,'gone later',2),(12,'changed later',3); update t set v=5 where id=1; delete from t where "
            "id=2");
    while (f.n)
        model_cut(&f, 0);
    if (ops()->snapshot(f.s, f.c, &later, &snap, &e) < 0) die("snapshot", &e);
    read_table(snap, f.c->tables[0], row_to_model, &f);
    ops()->snapshot_close(snap);
    app(&f, "delete from t where id=11; update t set v=6 where id=12; insert into t values(13,'after',1)");
    feed_tick(&f);
    ok(feed_same(&f), "changes that a later snapshot has already, and those behind it");
    is_int(f.deletes, 4, "rows that it may have are deleted before they are inserted");
    is_int(f.inserts, 3, "those of the time between, and those behind it");
    is_int(f.missing, 1, "what it had deleted already");
    feed_end(&f);
}

/* A view that is newer than a snapshot whose place is not known yet: a copy of another thread is being begun, or was killed there. */
static void snapshot_begun(void) {
    struct feed f = {0};
    struct err e = {0};
    struct snapshot *snap;
    struct pos later;
    feed_begin(&f, BASE);
    app(&f, "insert into t values(10,'new',1),(11,'gone later',2)");
    while (f.n)
        model_cut(&f, 0);
    if (sq_snapshot_open(f.s, &later, &snap, &e) < 0) die("snapshot", &e);
    read_table(snap, f.c->tables[0], row_to_model, &f);
    sq_snapshot_close(snap);
    setenv("SLUICE_FAULT", "sqlite.snapshot_opened=err", 1);
    fault_setup();
    ok(ops()->snapshot(f.s, f.c, &later, &snap, &e) < 0, "a copy that ends between its view and saying where that is");
    unsetenv("SLUICE_FAULT");
    fault_setup();
    app(&f, "delete from t where id=11; insert into t values(13,'after',1)");
    feed_tick(&f);
    ok(feed_same(&f), "rows that it may have seen do not stay");
    if (ops()->snapshot(f.s, f.c, &later, &snap, &e) < 0) die("snapshot", &e);
    ops()->snapshot_close(snap);
    app(&f, "insert into t values(14,'later',1)");
    f.deletes = 0;
    feed_tick(&f);
    ok(feed_same(&f) && f.deletes == 0, "behind a later one that is known, a new row is told as new again");
    feed_end(&f);
}

static void identity(void) {
    struct feed f = {0}, g = {0};
    struct err e = {0};
    char before[128], after[128], again[128], other[128];
    feed_file(&f, BASE);
    feed_open(&f);
    ops()->identity(f.s, before, &e);
    feed_end(&f);
    feed_begin(&f, BASE);
    struct source *s2;
    ops()->identity(f.s, after, &e);
    struct source_opts o = {.dsn = f.path};
    if (ops()->open(&o, &s2, &e) < 0) die("open", &e);
    ops()->identity(s2, again, &e);
    is_str(again, after, "two connections see one identity");
    ok(strncmp(after, "sqlite:", 7) == 0 && strlen(after) == 39, "its form");
    ops()->unanchor(s2, &e);
    ops()->identity(s2, again, &e);
    is_str(again, after, "it stays the same through the anchor");
    ops()->close(s2);
    feed_begin(&g, BASE);
    ops()->identity(g.s, other, &e);
    ok(strcmp(other, after) != 0 && strcmp(other, before) != 0, "another file has another identity");
    feed_end(&g);
    feed_end(&f);
}

static void opening(void) {
    struct feed f = {0};
    struct err e = {0};
    struct source *s = NULL;
    struct stat st;
    char dsn[256];
    struct source_opts o = {.dsn = "/tmp/sluice-there-is-no-such.db"};
    ok(ops()->open(&o, &s, &e) < 0 && e.code == CODE_UNREACHABLE && stat(o.dsn, &st) < 0, "an absent source is refused, not made");
    feed_file(&f, BASE);
    static const char *const forms[] = {"%s", "file:%s", "sqlite:%s", "sqlite://%s", "sqlite://localhost%s"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        e = (struct err){0};
        char spelled[256];
        size_t n = strlen(forms[i]) - 2;
        memcpy(spelled, forms[i], n);
        snprintf(spelled + n, sizeof spelled - n, "%s", f.path);
        o.dsn = spelled;
        ok(ops()->open(&o, &s, &e) == 0, "%s", forms[i]);
        ops()->close(s);
    }
    static const char *const bad[] = {"",     "file:", "sqlite://relative/app.db", "postgresql://h/d", ":memory:", "file:app.db?mode=ro",
                                      "/tmp/"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        e = (struct err){0};
        ok(sqlite_driver.dsn_check(bad[i], &e) < 0 && e.code == CODE_DSN && e.class == ERR_CONFIG && e.hint[0], "refused: '%s'", bad[i]);
    }
    shell("echo this is no database, only some text that is long enough > %s/x", f.dir, "");
    snprintf(dsn, sizeof dsn, "%s/x", f.dir);
    o.dsn = dsn;
    e = (struct err){0};
    ok(ops()->open(&o, &s, &e) < 0 && e.code == CODE_DSN, "a file that is no database");
    feed_end(&f);
}

static void not_wal(void) {
    struct feed f = {0};
    struct err e = {0};
    struct catalog *c = NULL;
    feed_file(&f, "pragma journal_mode=delete; create table t(id integer primary key)");
    feed_open(&f);
    ok(ops()->catalog(f.s, true, &c, &e) < 0 && e.code == CODE_SOURCE_NOT_WAL, "not in WAL mode is refused for a chain");
    e = (struct err){0};
    ok(ops()->catalog(f.s, false, &c, &e) == 0 && c->nwarnings == 1, "a plain copy warns of it");
    catalog_free(c);
    ops()->close(f.s);
    struct source_opts o = {.dsn = f.path, .allow_blocking = true};
    if (ops()->open(&o, &f.s, &e) < 0) die("open", &e);
    ok(ops()->catalog(f.s, true, &c, &e) == 0, "and taken with --allow-blocking");
    catalog_free(c);
    feed_end(&f);
}

static void catalogue(void) {
    struct feed f = {0};
    struct err e = {0};
    struct catalog *c;
    static const char *const exclude[] = {"main.hidden*"};
    f.exclude = exclude;
    f.nexclude = 1;
    feed_file(&f, "create table a(id integer primary key autoincrement, v); insert into a(id) values(41); create table hidden1(x);"
                  "create table sluice_x(x); create view v as select 1; create trigger tr after insert on a begin select 1; end;"
                  "create virtual table ft using fts5(x); create temp table tt(x)");
    feed_open(&f);
    if (ops()->catalog(f.s, false, &c, &e) < 0) die("catalog", &e);
    ok(c->ntables == 1 && strcmp(c->tables[0]->name, "a") == 0, "ordinary tables that the filter lets through");
    ok(c->nobjects == 1 && c->objects[0].kind == OBJECT_SEQUENCE && c->objects[0].value == 41, "AUTOINCREMENT's value");
    is_str(c->nobjects ? c->objects[0].owned_by : "", "main.a.id", "and whose it is");
    char all[2048] = "";
    for (size_t i = 0; i < c->nwarnings; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s\n", c->warnings[i]);
    ok(strstr(all, "view 'v'") && strstr(all, "trigger 'tr'") && strstr(all, "virtual table 'ft'"), "what is not carried is named");
    catalog_free(c);
    feed_end(&f);
}

static void anchors(void) {
    struct feed f = {0};
    struct err e = {0};
    struct snapshot *snap;
    struct pos p;
    feed_file(&f, BASE "; create table sluice_cdc_state(x)");
    char *before = app_text(&f, "select group_concat(type||name||coalesce(sql,'')) from sqlite_schema");
    feed_open(&f);
    if (ops()->catalog(f.s, true, &f.c, &e) < 0) die("catalog", &e);
    ok(ops()->anchor_absent(f.s, &e) == 0, "no anchor yet");
    if (ops()->anchor(f.s, f.c, &p, &snap, &e) < 0) die("anchor", &e);
    ops()->snapshot_close(snap);
    ok(ops()->anchor_absent(f.s, &e) < 0 && e.code == CODE_SLOT_EXISTS, "an anchor is there");
    e = (struct err){0};
    ok(ops()->anchor(f.s, f.c, &p, &snap, &e) < 0 && e.code == CODE_SLOT_EXISTS && snap == NULL, "a second one is refused");
    ok(ops()->unanchor(f.s, &e) == 0 && ops()->unanchor(f.s, &e) == 0, "undone, twice is fine");
    char *after = app_text(&f, "select group_concat(type||name||coalesce(sql,'')) from sqlite_schema");
    is_str(after, before, "the schema is what it was");
    free(before);
    free(after);
    e = (struct err){0};
    ok(ops()->check(f.s, &p, &p, &e) < 0 && e.code == CODE_SLOT_MISSING, "without a log a chain cannot go on");
    app(&f, "alter table t add column late");
    e = (struct err){0};
    ok(ops()->anchor(f.s, f.c, &p, &snap, &e) < 0 && e.code == CODE_SHAPE_CHANGED && e.class == ERR_RETRY,
       "a shape that changed since the catalogue was read");
    e = (struct err){0};
    ok(ops()->anchor_absent(f.s, &e) == 0, "and nothing of it stays");
    feed_end(&f);
}

static void keyless_too_big(void) {
    struct feed f = {.keyless_max = 20000};
    struct err e = {0};
    struct catalog *c = NULL;
    feed_file(&f, "create table big(a); insert into big values(zeroblob(30000)); create table k(id integer primary key, b); insert into k "
                  "values(1,zeroblob(30000))");
    f.keyless_max = 20000;
    feed_open(&f);
    ok(ops()->catalog(f.s, true, &c, &e) < 0 && e.code == CODE_KEYLESS_TOO_BIG && strstr(e.msg, "main.big") &&
           strstr(e.hint, "--exclude-table"),
       "refused by name, with the way out");
    e = (struct err){0};
    ok(ops()->catalog(f.s, false, &c, &e) == 0, "a plain copy takes it");
    catalog_free(c);
    feed_end(&f);
}

static void log_is_forgotten(void) {
    struct feed f = {0};
    struct err e = {0};
    feed_begin(&f, BASE);
    struct pos old = f.at;
    app(&f, "with recursive n(i) as (select 10 union all select i+1 from n where i<3010) insert into t(id) select i from n");
    feed_tick(&f);
    feed_ack(&f);
    is_int(app_int(&f, "select count(*) from sluice_log"), 1, "only the last row stays");
    ok(ops()->check(f.s, &f.at, &f.at, &e) == 0, "the position is still there");
    ok(ops()->check(f.s, &old, &f.at, &e) == 0, "an older one too, when all behind it is covered");
    ok(ops()->check(f.s, &old, &old, &e) < 0 && e.code == CODE_SLOT_ADVANCED && e.marker == MARKER_SLOT_ACKED_PAST_TARGET_POSITION,
       "else it was acknowledged too far");
    app(&f, "update t set v='x' where id<5");
    feed_tick(&f);
    ok(feed_same(&f), "and it goes on");
    feed_end(&f);
}

static void older_copy(bool outgrown) {
    struct feed f = {0};
    struct err e = {0};
    feed_begin(&f, BASE);
    app(&f, "update t set v=5");
    feed_tick(&f);
    app(&f, "pragma wal_checkpoint(truncate)");
    shell("cp %s %s.old", f.path, f.path);
    app(&f, "update t set v=6; delete from t where id=1");
    feed_tick(&f);
    feed_ack(&f);
    ops()->stream_close(f.st);
    ops()->close(f.s);
    sqlite3_close(f.app);
    shell("rm -f %s-wal %s-shm", f.path, f.path);
    shell("mv %s.old %s", f.path, f.path);
    sqlite3_open(f.path, &f.app);
    if (outgrown) app(&f, "update t set v=7; update t set v=8; update t set v=9");
    feed_open(&f);
    ok(ops()->check(f.s, &f.at, &f.at, &e) < 0 && e.code == CODE_SOURCE_CHANGED && strstr(e.msg, "older copy"),
       "a file restored from an older copy is refused%s", outgrown ? ", also when its log has grown past" : "");
    e = (struct err){0};
    struct pos seen;
    int rc = ops()->stream_open(f.s, &f.at, f.told, f.ntold, &f.st, &e);
    if (rc == 0) rc = ops()->stream_next(f.st, &f.b, 1000, 0, &seen, &e);
    ok(rc < 0 && e.code == CODE_SOURCE_CHANGED, "and the stream itself refuses");
    feed_end(&f);
}

static void idle_and_polite(void) {
    struct feed f = {0};
    feed_begin(&f, BASE);
    app(&f, "update t set v=5");
    feed_tick(&f);
    feed_ack(&f);
    int64_t version = app_int(&f, "pragma data_version");
    for (int i = 0; i < 20; i++)
        feed_tick(&f);
    feed_ack(&f);
    is_int(app_int(&f, "pragma data_version"), version, "an idle stream writes nothing");
    app(&f, "pragma busy_timeout=0");
    app(&f,
        "with recursive n(i) as (select 100 union all select i+1 from n where i<20100) insert into t(id,v) select i, zeroblob(100) from n");
    is_int(app_int(&f, "pragma wal_checkpoint(truncate)"), 0, "a checkpoint is not held up");
    struct err e = {0};
    struct pos seen, was = f.at;
    batch_reset(&f.b);
    size_t batches = 0, most = 0;
    for (;;) {
        batch_reset(&f.b);
        if (ops()->stream_next(f.st, &f.b, 50000, 0, &seen, &e) < 0) die("next", &e);
        for (size_t i = 0; i < f.b.n; i++)
            feed_apply(&f, &f.b.v[i]);
        size_t bytes = arena_bytes(f.b.arena);
        if (bytes > most) most = bytes;
        batches++;
        if (f.b.ends_at_commit) break;
        if (batches == 3)
            is_int(app_try(&f, "insert into t(id) values(-1)"), SQLITE_OK,
                   "the application writes in the middle of a tick, without waiting");
        if (pos_compare(&seen, &was) != POS_EQUAL) f.broken_law++;
    }
    ok(batches > 40 && most < 52000, "a huge transaction comes in bounded batches");
    f.at = seen;
    ok(f.broken_law == 0, "nothing is seen before its commit");
    feed_tick(&f);
    ok(feed_same(&f) && f.missing == 0, "and what was written meanwhile is the next commit");
    app(&f, "pragma wal_checkpoint(truncate)");
    is_int(app_int(&f, "pragma wal_checkpoint(truncate)"), 0, "the WAL is free again");
    feed_end(&f);
}

static void *write_later(void *arg) {
    app(arg, "insert into t(id) values(500)");
    return NULL;
}
static void waiting(void) {
    struct feed f = {0};
    struct err e = {0};
    struct pos seen;
    pthread_t th;
    feed_begin(&f, BASE);
    feed_tick(&f);
    batch_reset(&f.b);
    int64_t t0 = clock_mono_us();
    pthread_create(&th, NULL, write_later, &f);
    int rc = ops()->stream_next(f.st, &f.b, 65536, 20000000, &seen, &e);
    pthread_join(th, NULL);
    ok(rc == 0 && f.b.n == 2 && f.b.v[0].op == CHANGE_INSERT && clock_mono_us() - t0 < 5000000, "a change ends the wait");
    feed_end(&f);
}

static void killed_writer(void) {
    struct feed f = {0};
    int ready[2];
    char c;
    feed_begin(&f, BASE);
    if (pipe(ready) < 0) exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sqlite3 *db;
        sqlite3_open(f.path, &db);
        sqlite3_exec(db,
                     "insert into t(id,k) values(50,'done'); begin immediate; update t set v='half'; delete from t where id=2; pragma "
                     "cache_size=1; insert into t(id,v) select i, zeroblob(5000) from (with recursive n(i) as (select 100 union all select "
                     "i+1 from n where i<200) select i from n)",
                     0, 0, 0);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        pause();
    }
    if (read(ready[0], &c, 1) != 1) exit(1);
    feed_tick(&f);
    ok(feed_same(&f) && f.inserts == 1, "what is not committed is not told");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    app(&f, "update t set v='after' where id=3");
    feed_tick(&f);
    ok(feed_same(&f) && f.missing == 0, "a killed writer leaves nothing behind");
    feed_end(&f);
}

static void rearming_fails(void) {
    struct feed f = {0};
    struct err e = {0};
    feed_begin(&f, BASE);
    app(&f, "alter table t add column n; update t set n=4 where id=2");
    setenv("SLUICE_FAULT", "sqlite.rearm=err", 1);
    fault_setup();
    ok(feed_try_tick(&f, &e) < 0 && e.class == ERR_RETRY, "a failure while rearming");
    unsetenv("SLUICE_FAULT");
    fault_setup();
    feed_tick(&f);
    ok(feed_same(&f) && f.shapes == 1, "is made good by the next tick");
    app(&f, "create table n(id integer primary key); insert into n values(1)");
    feed_save(&f);
    feed_tick(&f);
    feed_crash(&f);
    f.shapes = 0;
    feed_tick(&f);
    ok(feed_same(&f) && f.shapes == 1, "a new table that was armed but not made durable is told again");
    feed_end(&f);
}

static void nothing_to_tell(void) {
    struct feed f = {0};
    feed_begin(&f, BASE);
    struct pos was = f.at;
    app(&f, "insert into t(id) values(9); delete from t where id=9");
    feed_tick(&f);
    ok(f.commits == 0 && pos_compare(&f.at, &was) == POS_GREATER, "a row that came and went moves only the position");
    struct err e = {0};
    struct pos end;
    ok(ops()->end(f.s, &end, &e) == 0 && pos_compare(&end, &f.at) == POS_EQUAL, "to the log's end");
    feed_end(&f);
}

static void utf16(void) {
    struct feed f = {0};
    feed_file(&f, NULL);
    sqlite3_close(f.app);
    unlink(f.path);
    sqlite3_open(f.path, &f.app);
    app(&f, "pragma encoding='UTF-16le'; pragma journal_mode=wal; create table t(k text not null primary key, v); insert into t "
            "values('gr\xc3\xbc\xc3\x9f', 'x'), ('\xf0\x9f\x90\x98', 1)");
    struct feed g = f;
    struct err e = {0};
    struct snapshot *snap;
    feed_open(&g);
    if (batch_init(&g.b, 4096, &e) < 0 || ops()->catalog(g.s, true, &g.c, &e) < 0 || ops()->anchor(g.s, g.c, &g.at, &snap, &e) < 0)
        die("anchor", &e);
    read_table(snap, g.c->tables[0], row_to_model, &g);
    ops()->snapshot_close(snap);
    g.told[g.ntold++] = shape_copy(g.c->tables[0], &e);
    feed_stream(&g);
    app(&g, "update t set k='\xc3\xbc' where v=1; insert or replace into t values('gr\xc3\xbc\xc3\x9f', 7)");
    feed_tick(&g);
    ok(feed_same(&g) && g.missing == 0, "a file in UTF-16");
    feed_end(&g);
}

int main(void) {
    cascades_and_triggers();
    parents_first();
    resumed_copy();
    snapshot_begun();
    identity();
    opening();
    not_wal();
    catalogue();
    anchors();
    keyless_too_big();
    log_is_forgotten();
    older_copy(false);
    older_copy(true);
    idle_and_polite();
    waiting();
    killed_writer();
    rearming_fails();
    nothing_to_tell();
    utf16();
    return done_testing();
}
