/* What a plain shell can and cannot do. tests/sql/hostile.sql is run here through the library on a DB that the engine made, and by
 * tests/sql/t_hostile.sh through the sqlite3 program on the released fixture. */
#include "tests/unit/control/help.h"

static char *slurp(const char *path) {
    FILE *f = fopen(path, "r");
    char *p = calloc(1, 1 << 20);
    if (f) {
        size_t n = fread(p, 1, (1 << 20) - 1, f);
        p[n] = 0;
        fclose(f);
    }
    return p;
}

/* The whole content as one number of rows and a digest-like text: every table in order of its rowid or key. */
static char *dump(void) {
    char cmd[700];
    snprintf(cmd, sizeof cmd, "sqlite3 '%.299s' .dump > '%.255s/dump'", help_path, help_dir);
    if (system(cmd) != 0) return strdup("dump failed");
    char path[300];
    snprintf(path, sizeof path, "%.255s/dump", help_dir);
    return slurp(path);
}

static void fill(void) {
    struct err e;
    struct control *c = help_open(&e);
    bool moved;
    ok(c && endpoint_put(c, "app-source", ENDPOINT_SOURCE, "sqlite", "/tmp/a.db", &e) == 0, "source: %s", e.msg);
    ok(endpoint_put(c, "app-store", ENDPOINT_STORE, "file", "/tmp/chain", &e) == 0, "store: %s", e.msg);
    ok(endpoint_put(c, "app-target", ENDPOINT_TARGET, "postgres", "postgres://u:hunter2@h/db", &e) == 0, "target: %s", e.msg);
    struct entity p = {.kind = "producer", .name = "app", .source = "app-source", .store = "app-store"};
    ok(entity_put(c, &p, &e) == 0 && entity_advance(c, &p, "full_done", NULL, "{\"id\":\"ab\"}", NULL, &moved, &e) == 0 && moved,
       "producer: %s", e.msg);
    struct entity b = {.kind = "broker", .name = "app", .target = "app-target", .store = "app-store"};
    ok(entity_put(c, &b, &e) == 0 && entity_advance(c, &b, "warm", NULL, NULL, NULL, &moved, &e) == 0 && moved, "broker: %s", e.msg);
    struct entity o = {.kind = "broker", .name = "other"};
    ok(entity_put(c, &o, &e) == 0, "another: %s", e.msg);
    struct err why = {0};
    err_set(&why, CODE_MARK_MISMATCH, "marks differ");
    err_mark(&why, MARKER_APPLY_MARK_MISMATCH, MARKER_NONE);
    ok(refusal_record(c, &o, &why, &e) == 0 && request_add(c, "broker", "app", "stop", &e) == 0, "refusal and request: %s", e.msg);
    entity_free(&p);
    entity_free(&b);
    entity_free(&o);
    control_close(c);
}

static void hostile_statements_change_nothing(const char *pragmas) {
    char *all = slurp("tests/sql/hostile.sql"), *before = dump(), *at = strstr(all, "-- name: ");
    int n = 0;
    ok(strlen(before) > 10000, "a dump to compare with");
    while (at) {
        char name[128], sql[4096], *end = strstr(at + 1, "-- name: ");
        size_t len = strcspn(at + 9, "\n");
        snprintf(name, sizeof name, "%.*s", (int)len, at + 9);
        snprintf(sql, sizeof sql, "%s%.*s", pragmas, end ? (int)(end - at - 9 - (long)len) : 4000, at + 9 + len);
        const char *said = shell(sql);
        ok(said != NULL, "%s is refused: %s", name, said ? said : "IT WAS NOT");
        char *after = dump();
        ok(strcmp(before, after) == 0, "%s changed nothing", name);
        free(after);
        n++;
        at = end;
    }
    ok(n >= 12, "%d hostile statements", n);
    free(all);
    free(before);
}

static void a_shell_moves_along_edges_and_is_recorded(void) {
    struct err e;
    ok(!shell("UPDATE entity SET state = 'stopped' WHERE kind = 'broker' AND name = 'app'"), "a plain move");
    is_str(one("SELECT actor || ' ' || event || ' ' || from_state || ' ' || to_state FROM audit ORDER BY id DESC LIMIT 1"),
           "shell stopped tailing stopped", "is recorded with the only event that leads there");
    is_str(one("SELECT token = (SELECT max(token) FROM history h WHERE h.entity_id = e.id) FROM entity e WHERE kind = 'broker' AND name = "
               "'app'"),
           "1", "and the token grew");
    ok(!shell("PRAGMA recursive_triggers = ON; UPDATE entity SET state = 'tailing' WHERE kind = 'broker' AND name = 'app'"),
       "with recursive triggers");
    ok(!shell("UPDATE OR IGNORE entity SET state = 'stopped', token = token + 1, move_actor = 'ann',"
              " move_message = 'maintenance' WHERE kind = 'broker' AND name = 'app'"),
       "a move that says who and why, and sets its token");
    is_str(one("SELECT actor || ' ' || event || ' ' || why FROM audit ORDER BY id DESC LIMIT 1"), "ann stopped maintenance",
           "is recorded so");
    ok(!shell("UPDATE entity SET state = 'tailing' WHERE kind = 'broker' AND name = 'app'"), "a plain move after it");
    is_str(one("SELECT actor || ' ' || event || ' ' || coalesce(why, '-') FROM audit ORDER BY id DESC LIMIT 1"), "shell resume -",
           "does not speak with that voice");
    ok(!shell("UPDATE entity SET config = json_set(config, '$.\"poll-interval\"', '5s') WHERE kind = 'broker' AND name = 'app'"),
       "a configuration");
    is_str(one("SELECT actor || ' ' || event || ' ' || detail FROM audit ORDER BY id DESC LIMIT 1"),
           "shell configured {\"poll-interval\":\"5s\"}", "is recorded with what it became");
    ok(!shell("UPDATE entity SET config = config, state = state WHERE kind = 'broker' AND name = 'app'"), "an UPDATE of nothing");
    is_str(one("SELECT event FROM audit ORDER BY id DESC LIMIT 1"), "configured", "is no row");
    ok(!shell("UPDATE entity SET state = 'refused' WHERE kind = 'broker' AND name = 'app'; "
              "UPDATE entity SET state = 'resetting' WHERE kind = 'broker' AND name = 'app'; "
              "UPDATE entity SET state = 'tailing' WHERE kind = 'broker' AND name = 'app'"),
       "three moves");
    struct control *c = help_open(&e);
    ok(c != NULL, "the engine opens it: %s", e.msg);
    struct buf f = BUF_INIT(65536);
    size_t n = 9;
    ok(control_check(c, &f, &n, &e) == 0 && n == 0, "and finds nothing: %.*s", (int)f.n, f.p ? f.p : "");
    buf_free(&f);
    control_close(c);
}

static void a_shell_configures(void) {
    struct err e;
    ok(!shell("INSERT INTO endpoint(name, role, driver, dsn) VALUES ('s2', 'source', 'sqlite', '/tmp/b.db');"
              "INSERT INTO endpoint(name, role, driver, dsn) VALUES ('c2', 'store', 'file', '/tmp/chain2');"
              "INSERT INTO entity(kind, name, source, store, config) VALUES ('producer', 's2', 's2', 'c2', '{\"window\":\"1m\"}')"),
       "endpoint and entity by plain SQL");
    is_str(one("SELECT state || ' ' || token FROM entity WHERE kind = 'producer' AND name = 's2'"), "planned 1",
           "the state is the initial one");
    is_str(one("SELECT actor || ' ' || event || ' ' || coalesce(from_state, '-') || ' ' || to_state || ' ' || detail FROM audit ORDER BY "
               "id DESC LIMIT 1"),
           "shell created - planned {\"window\":\"1m\"}", "and its birth is recorded");
    struct control *c = help_open(&e);
    struct entity en = {0};
    bool found = false, moved = false;
    ok(c && entity_find(c, "producer", "s2", &en, &found, &e) == 0 && found, "the engine finds it");
    is_str(en.source, "s2", "its source");
    is_str(en.target, "", "no target");
    ok(entity_own(c, &en, &e) == 0 && entity_advance(c, &en, "full_done", "{\"rows\":3}", NULL, NULL, &moved, &e) == 0 && moved,
       "and moves it: %s", e.msg);
    entity_disown(c, &en);
    entity_free(&en);
    control_close(c);
    is_str(one("SELECT (SELECT max(upto) FROM history_seal) = (SELECT max(id) FROM history)"), "1", "the shell's rows were sealed with it");
    ok(!shell("INSERT OR REPLACE INTO endpoint(name, role, driver, dsn) VALUES ('s2', 'source', 'sqlite', '/tmp/moved.db')"),
       "an endpoint may be given anew");
}

static void a_swallowed_history_row_stops_the_move(void) {
    char *before = dump();
    const char *said = shell("CREATE TEMP TRIGGER t BEFORE INSERT ON main.history BEGIN SELECT RAISE(IGNORE); END;"
                             "UPDATE entity SET state = 'stopped' WHERE kind = 'broker' AND name = 'app'");
    ok(said != NULL, "a temporary trigger that swallows history: %s", said ? said : "NOT REFUSED");
    said = shell("CREATE TEMP TRIGGER t BEFORE INSERT ON main.history BEGIN SELECT RAISE(IGNORE); END;"
                 "INSERT OR IGNORE INTO entity(kind, name) VALUES ('task', 'ghost')");
    ok(said != NULL, "also at a birth: %s", said ? said : "NOT REFUSED");
    char *after = dump();
    ok(strcmp(before, after) == 0, "nothing changed");
    free(before);
    free(after);
}

/* For fixtures/make.sh: the filled DB as a dump, its sealed password without meaning elsewhere. */
static int leave_fixture(const char *path) {
    char cmd[900];
    snprintf(cmd, sizeof cmd, "sqlite3 '%s' .dump > '%.500s'", help_path, path);
    return system(cmd);
}

int main(void) {
    help_begin();
    fill();
    if (getenv("SLUICE_FIXTURE")) {
        int rc = leave_fixture(getenv("SLUICE_FIXTURE"));
        help_end();
        return rc != 0;
    }
    hostile_statements_change_nothing("");
    hostile_statements_change_nothing("PRAGMA recursive_triggers = ON; PRAGMA foreign_keys = ON; ");
    a_shell_moves_along_edges_and_is_recorded();
    a_shell_configures();
    a_swallowed_history_row_stops_the_move();
    help_end();
    return done_testing();
}
