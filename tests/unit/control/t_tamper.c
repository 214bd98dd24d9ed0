#include "tests/unit/control/help.h"

static void fresh(const char *name) {
    struct err e;
    struct entity en;
    bool moved;
    help_file(name);
    struct control *c = help_open(&e);
    put_broker(c, "app", &en);
    ok(entity_advance(c, &en, "warm", NULL, NULL, NULL, &moved, &e) == 0 &&
           entity_advance(c, &en, "stopped", NULL, NULL, NULL, &moved, &e) == 0,
       "moves: %s", e.msg);
    entity_free(&en);
    control_close(c);
}

/* control_check's findings, joined (static). */
static const char *findings(size_t *n) {
    static char text[8192];
    struct err e;
    struct control *c = help_inspect(&e);
    struct buf f = BUF_INIT(65536);
    text[0] = 0;
    *n = 0;
    if (!c) snprintf(text, sizeof text, "cannot inspect: %s", e.msg);
    else if (control_check(c, &f, n, &e) < 0) snprintf(text, sizeof text, "check failed: %s", e.msg);
    else snprintf(text, sizeof text, "%.*s", (int)f.n, f.p ? f.p : "");
    buf_free(&f);
    control_close(c);
    return text;
}

static void tampering_is_found(const char *name, const char *sql, const char *finding, bool at_open) {
    struct err e;
    size_t n;
    char file[64];
    static int k;
    snprintf(file, sizeof file, "t%d.db", ++k);
    fresh(file);
    const char *said = shell(sql);
    ok(!said, "%s: %s", name, said ? said : "done");
    const char *f = findings(&n);
    ok(n >= 1 && strstr(f, finding), "%s: check says: %s", name, f);
    struct control *c = help_open(&e);
    if (at_open) ok(!c && e.code == CODE_CONTROL_TAMPERED && err_exit_code(&e) == 3, "%s: and it does not open: %s", name, e.msg);
    else ok(c != NULL, "%s: an open does not look that far: %s", name, e.msg);
    control_close(c);
}

static void an_operators_own_things_are_welcome(void) {
    struct err e;
    size_t n;
    fresh("own.db");
    ok(!shell("CREATE TABLE notes(a); CREATE VIEW mine AS SELECT * FROM entity; CREATE INDEX by_actor ON history(actor);"
              "CREATE TRIGGER note AFTER INSERT ON notes BEGIN DELETE FROM notes WHERE a IS NULL; END; CREATE UNIQUE INDEX nu ON notes(a)"),
       "tables, views, indexes, triggers on own tables");
    const char *f = findings(&n);
    ok(n == 0, "check finds nothing: %s", f);
    struct control *c = help_open(&e);
    ok(c != NULL, "and it opens: %s", e.msg);
    control_close(c);
}

int main(void) {
    help_begin();
    tampering_is_found("a dropped trigger", "DROP TRIGGER history_update", "trigger 'history_update' is missing", true);
    tampering_is_found("a dropped trigger, history altered, the trigger put back",
                       "DROP TRIGGER history_update;"
                       "UPDATE history SET actor = 'nobody' WHERE id = (SELECT max(id) FROM history);"
                       "CREATE TRIGGER history_update BEFORE UPDATE ON history BEGIN SELECT RAISE(ABORT, 'history: append-only'); END",
                       "is broken", true);
    tampering_is_found("an old row altered the same way",
                       "DROP TRIGGER history_update; UPDATE history SET actor = 'nobody' WHERE id = 1;"
                       "CREATE TRIGGER history_update BEFORE UPDATE ON history BEGIN SELECT RAISE(ABORT, 'history: append-only'); END",
                       "seal 1 is broken: history rows 1 to 1", true);
    tampering_is_found("an altered trigger",
                       "DROP TRIGGER history_delete; CREATE TRIGGER history_delete BEFORE DELETE ON history WHEN OLD.id > 1 BEGIN SELECT "
                       "RAISE(ABORT, 'no'); END",
                       "trigger 'history_delete' was altered", true);
    tampering_is_found("an extra trigger", "CREATE TRIGGER mine BEFORE INSERT ON entity BEGIN SELECT 1; END",
                       "trigger 'mine' on 'entity' is not one of ours", true);
    tampering_is_found("an extra trigger, the table in capitals", "CREATE TRIGGER mine AFTER UPDATE ON ENTITY BEGIN SELECT 1; END",
                       "trigger 'mine'", true);
    tampering_is_found("an extra trigger on a view", "CREATE TRIGGER mine INSTEAD OF UPDATE ON audit BEGIN SELECT 1; END",
                       "trigger 'mine' on 'audit'", true);
    tampering_is_found("a unique index", "CREATE UNIQUE INDEX mine ON history(entity_id, token, event)", "unique index 'mine' on 'history'",
                       true);
    tampering_is_found("an altered table", "ALTER TABLE history ADD COLUMN more TEXT", "table 'history' was altered", true);
    tampering_is_found("a dropped view", "DROP VIEW audit", "view 'audit' is missing", true);
    tampering_is_found("a dropped table", "DROP TABLE request", "table 'request' is missing", true);
    tampering_is_found("an edge added behind the guard",
                       "DROP TRIGGER transition_insert; INSERT INTO transition VALUES ('broker', 'tailing', 'back', 'new', 'because');"
                       "CREATE TRIGGER transition_insert BEFORE INSERT ON transition BEGIN SELECT RAISE(ABORT, 'transition: only a "
                       "migration adds edges'); END",
                       "rows of table 'transition' were changed", true);
    tampering_is_found(
        "a marker made restartable behind the guard",
        "DROP TRIGGER marker_update; UPDATE marker SET restartable = 1;"
        "CREATE TRIGGER marker_update BEFORE UPDATE ON marker BEGIN SELECT RAISE(ABORT, 'marker: only a migration changes it'); END",
        "rows of table 'marker' were changed", true);
    tampering_is_found(
        "a seal rewritten",
        "DROP TRIGGER history_seal_update; UPDATE history_seal SET sha256 = replace(sha256, 'a', 'b');"
        "CREATE TRIGGER history_seal_update BEFORE UPDATE ON history_seal BEGIN SELECT RAISE(ABORT, 'history_seal: append-only'); END",
        "is broken", true);
    tampering_is_found("sealed history deleted",
                       "DROP TRIGGER history_delete; DELETE FROM history WHERE id = (SELECT max(id) FROM history);"
                       "CREATE TRIGGER history_delete BEFORE DELETE ON history BEGIN SELECT RAISE(ABORT, 'history: append-only'); END",
                       "history ends at row 2, before the last sealed row 3", true);
    tampering_is_found("an entity moved while triggers were off",
                       "UPDATE entity SET state = 'new' WHERE 0; DROP TRIGGER entity_update; DROP TRIGGER entity_updated;"
                       "UPDATE entity SET state = 'new'",
                       "is not what its history says (new at token 3, history: stopped at token 3)", true);
    tampering_is_found("a dangling reference",
                       "INSERT INTO secret(endpoint, param, nonce, sealed) VALUES ('gone', 'password', x'00', x'00')",
                       "a row of 'secret' refers to a row of 'endpoint' that is not there", false);
    an_operators_own_things_are_welcome();
    help_end();
    return done_testing();
}
