/* Migrations: the rows of the registry, released fixtures, rebuilding tables, crashes, and who is in the way. */
#include <signal.h>
#include <sys/prctl.h>

#include "engine/base/embed.h"
#include "engine/base/fault.h"
#include "tests/unit/control/help.h"

static void checksums_hold(void) {
    struct err e = {0};
    ok(migration_checksums(&e) == 0, "each migration is the text that its checksum tells of: %s", e.msg);
    ok(migration_latest() >= 1, "version %d", migration_latest());
}

static void the_registry_equals_the_code(void) {
    struct err e;
    struct control *c = help_open(&e);
    char sql[300], want[4096];
    for (int m = MARKER_NONE + 1; m < MARKER_COUNT; m++) {
        snprintf(sql, sizeof sql,
                 "SELECT restartable || '|' || coalesce(parent, '') || '|' || meaning || '|' || remedy FROM marker WHERE name = '%s'",
                 marker_name((enum marker)m));
        snprintf(want, sizeof want, "%d|%s|%s|%s", marker_restartable((enum marker)m), marker_parent((enum marker)m),
                 marker_meaning((enum marker)m), marker_remedy((enum marker)m));
        is_str(one(sql), want, marker_name((enum marker)m));
    }
    snprintf(want, sizeof want, "%d", MARKER_COUNT - 1);
    is_str(one("SELECT count(*) FROM marker"), want, "and no row more");
    is_str(one("SELECT count(*) FROM marker m WHERE parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM marker p WHERE p.name = m.parent)"),
           "0", "parents are markers");
    control_close(c);
}

/* Every released version opens with this binary, with its rows. */
static void released_files_open(void) {
    for (int v = 1; v <= migration_latest(); v++) {
        struct err e;
        char cmd[900], name[40];
        snprintf(name, sizeof name, "fixture%d.db", v);
        help_file(name);
        snprintf(cmd, sizeof cmd, "sqlite3 -bail '%s' < tests/unit/control/fixtures/%04d.sql", help_path, v);
        ok(system(cmd) == 0, "fixture %04d loads", v);
        struct control *c = help_open(&e);
        ok(c != NULL, "and opens: %s", e.msg);
        struct buf f = BUF_INIT(65536);
        size_t n = 9;
        ok(c && control_check(c, &f, &n, &e) == 0 && n == 0, "and is whole: %.*s", (int)f.n, f.p ? f.p : "");
        buf_free(&f);
        is_str(one("SELECT group_concat(kind || ':' || name || ':' || state, ' ') FROM (SELECT * FROM entity ORDER BY id)"),
               "producer:app:following broker:app:tailing broker:other:new", "with its entities");
        struct entity en = {0};
        bool found, moved;
        ok(c && entity_find(c, "broker", "app", &en, &found, &e) == 0 && found &&
               entity_advance(c, &en, "stopped", NULL, NULL, NULL, &moved, &e) == 0 && moved,
           "which move on: %s", e.msg);
        entity_free(&en);
        control_close(c);
    }
}

/* A second version, as a later one will look: a table is rebuilt, its comments kept. */
static const char second[] =
    "DROP TRIGGER request_insert; DROP TRIGGER request_inserted; DROP TRIGGER request_update; DROP TRIGGER request_delete;"
    "ALTER TABLE request RENAME TO request_old;"
    "CREATE TABLE request( -- rebuilt\n id INTEGER PRIMARY KEY AUTOINCREMENT, at_us INTEGER NOT NULL, actor TEXT NOT NULL, kind TEXT NOT "
    "NULL,"
    " name TEXT NOT NULL, verb TEXT NOT NULL, done_us INTEGER, result TEXT, urgent INTEGER NOT NULL DEFAULT 0 -- new\n) STRICT;"
    "INSERT INTO request SELECT *, 0 FROM request_old; DROP TABLE request_old;"
    "DROP TRIGGER meta_update; UPDATE meta SET value = '2' WHERE name = 'schema_version';"
    "CREATE TRIGGER meta_update BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'meta: only a migration changes it'); END;";

static size_t two(struct migration *list) {
    struct err e = {0};
    size_t n = 0;
    migration_list(list, 8, &n, &e);
    list[1] = (struct migration){2, "second", second};
    return 2;
}

static void begin_version_one(const char *name, struct entity *en) {
    struct err e;
    help_file(name);
    struct control *c = help_open(&e);
    put_broker(c, "app", en);
    ok(request_add(c, "broker", "app", "stop", &e) == 0, "a request: %s", e.msg);
    control_close(c);
}

static void a_table_is_rebuilt(void) {
    struct migration list[8];
    size_t n = two(list);
    struct err e;
    struct entity en;
    begin_version_one("rebuild.db", &en);
    entity_free(&en);
    struct control *c = help_open(&e);
    ok(migrate(c, list, n, &e) == 0, "to version 2: %s", e.msg);
    is_str(one("SELECT value FROM meta WHERE name = 'schema_version'"), "2", "it says so");
    is_str(one("SELECT name || verb || urgent FROM request"), "appstop0", "rows are kept");
    ok(strstr(one("SELECT sql FROM sqlite_schema WHERE name = 'request'"), "CREATE TABLE request( -- rebuilt") != NULL, "and the comments");
    struct buf f = BUF_INIT(65536);
    size_t found = 0;
    ok(tamper_check(c, list, n, 2, true, &f, &found, &e) == 0 && found == 0, "it is what the migrations make: %.*s", (int)f.n,
       f.p ? f.p : "");
    buf_free(&f);
    ok(migrate(c, list, n, &e) == 0, "once more does nothing: %s", e.msg);
    is_str(one("PRAGMA foreign_keys"), "0", "a plain connection");
    int64_t fk = 0;
    ok(db_int(c, "PRAGMA foreign_keys", &fk, &e) == 0 && fk == 1, "ours checks references again");
    control_close(c);
}

static void a_tampered_file_is_not_migrated(void) {
    struct migration list[8];
    size_t n = two(list);
    struct err e;
    struct entity en;
    begin_version_one("tampered.db", &en);
    entity_free(&en);
    struct control *c = help_open(&e);
    shell("DROP TRIGGER history_delete");
    ok(migrate(c, list, n, &e) == -1 && e.code == CODE_CONTROL_TAMPERED, "refused: %s", e.msg);
    is_str(one("SELECT value FROM meta WHERE name = 'schema_version'"), "1", "and still version 1");
    control_close(c);
}

static void an_owned_entity_is_in_the_way(void) {
    struct migration list[8];
    size_t n = two(list);
    struct err e;
    struct entity en;
    begin_version_one("owned.db", &en);
    struct control *c = help_open(&e), *d = help_open(&e);
    ok(entity_own(c, &en, &e) == 0, "owned: %s", e.msg);
    ok(migrate(d, list, n, &e) == -1 && e.code == CODE_BUSY && err_exit_code(&e) == 75 && strstr(e.msg, "broker 'app' (pid "),
       "75, and the holder is named: %s", e.msg);
    entity_disown(c, &en);
    err_clear(&e);
    ok(migrate(d, list, n, &e) == 0, "then it goes: %s", e.msg);
    ok(entity_own(c, &en, &e) == 0, "and the entity is free again: %s", e.msg);
    entity_free(&en);
    control_close(c);
    control_close(d);
}

static void a_crash_leaves_the_old_version(const char *point, bool fresh) {
    struct migration list[8];
    size_t n = two(list);
    struct err e;
    struct entity en = {0};
    char name[64];
    snprintf(name, sizeof name, "crash-%s-%d.db", point, fresh);
    if (fresh) help_file(name);
    else begin_version_one(name, &en);
    entity_free(&en);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct control *c = NULL;
        setenv("SLUICE_FAULT", point, 1);
        if (!fresh) c = help_open(&e);
        fault_setup();
        if (fresh) c = help_open(&e);
        else migrate(c, list, n, &e);
        _exit(0);
    }
    int st = 0;
    waitpid(pid, &st, 0);
    ok(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL, "killed at %s", point);
    if (fresh) is_str(one("SELECT count(*) FROM sqlite_schema"), "0", "the file is empty");
    else is_str(one("SELECT value FROM meta WHERE name = 'schema_version'"), "1", "it is version 1");
    struct control *c = help_open(&e);
    ok(c != NULL, "and opens: %s", e.msg);
    ok(fresh || (c && migrate(c, list, n, &e) == 0), "and migrates: %s", e.msg);
    control_close(c);
}

int main(void) {
    help_begin();
    checksums_hold();
    the_registry_equals_the_code();
    released_files_open();
    a_table_is_rebuilt();
    a_tampered_file_is_not_migrated();
    an_owned_entity_is_in_the_way();
    a_crash_leaves_the_old_version("control.migration", false);
    a_crash_leaves_the_old_version("control.migrate", false);
    a_crash_leaves_the_old_version("control.migration", true);
    a_crash_leaves_the_old_version("control.migrate", true);
    help_end();
    return done_testing();
}
