#include <fcntl.h>

#include "tests/unit/control/help.h"

/* What a call printed on stdout (static). */
static char printed[65536];
static int saved, capture;
static void print_begin(void) {
    char path[300];
    snprintf(path, sizeof path, "%.255s/out", help_dir);
    fflush(stdout);
    saved = dup(1);
    capture = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(capture, 1);
}
static const char *print_end(void) {
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    ssize_t n = pread(capture, printed, sizeof printed - 1, 0);
    printed[n > 0 ? n : 0] = 0;
    close(capture);
    return printed;
}

static struct control *c;
static const char *run(const char *sql, enum report_format f, struct err *e) {
    err_clear(e);
    print_begin();
    report_sql(c, sql, f, e);
    return print_end();
}

static void formats_are_exact(void) {
    struct err e = {0};
    is_str(run("SELECT 1 AS n, 'ä€' AS t, NULL AS x UNION ALL SELECT 234, 'a', 'b'", REPORT_TABLE, &e),
           "  n  t   x\n---  --  -\n  1  ä€  \n234  a   b\n", "a table is aligned by what is seen");
    is_str(run("SELECT '漢字' AS t, 1 AS n UNION ALL SELECT 'ab', 2", REPORT_TABLE, &e), "t     n\n----  -\n漢字  1\nab    2\n",
           "wide characters count twice");
    is_str(run("SELECT 'a' || char(10) || 'b' || char(27) AS t", REPORT_TABLE, &e), "t\n--------\na\\nb\\x1b\n",
           "control characters cannot forge a row");
    is_str(run("SELECT 1 AS n WHERE 0", REPORT_TABLE, &e), "n\n-\n", "no rows: the head alone");
    is_str(run("SELECT 1 AS n, 'q\"\\' || char(9) AS t, NULL AS x, x'0aff' AS b, 1.5 AS r", REPORT_JSON, &e),
           "[{\"n\":1,\"t\":\"q\\\"\\\\\\t\",\"x\":null,\"b\":\"0aff\",\"r\":1.5}]\n", "JSON");
    is_str(run("SELECT 9223372036854775807 AS n UNION ALL SELECT -1 ORDER BY 1", REPORT_JSON, &e),
           "[{\"n\":-1},\n {\"n\":9223372036854775807}]\n", "integers are exact");
    is_str(run("SELECT 1 AS n WHERE 0", REPORT_JSON, &e), "[]\n", "no rows: an empty array");
    is_str(run("SELECT 'a,b' AS \"x,y\", 'q\"q' AS q, '' AS empty, NULL AS none, 'l' || char(10) || 'm' AS l", REPORT_CSV, &e),
           "\"x,y\",q,empty,none,l\r\n\"a,b\",\"q\"\"q\",\"\",,\"l\nm\"\r\n", "CSV quotes what must be, and tells empty from NULL");
    run("WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < 60000) SELECT i, printf('%0100d', i) AS t FROM k",
        REPORT_TABLE, &e);
    ok(e.class == ERR_NONE, "a table bigger than the memory for its widths is streamed: %s", e.msg);
}

static void an_operators_query_is_bound_by_the_guards(void) {
    struct err e = {0};
    struct entity en;
    put_broker(c, "app", &en);
    run("DELETE FROM history", REPORT_TABLE, &e);
    ok(e.code == CODE_CONTROL && strstr(e.msg, "append-only"), "refused: %s", e.msg);
    run("SELECT nonsense", REPORT_TABLE, &e);
    ok(e.code == CODE_USAGE && err_exit_code(&e) == 2, "an error in the query: %s", e.msg);
    run("UPDATE entity SET state = 'tailing', move_event = 'warm' WHERE name = 'app'; SELECT 1", REPORT_TABLE, &e);
    ok(e.class == ERR_NONE, "a move: %s", e.msg);
    is_str(one("SELECT max(upto) = (SELECT max(id) FROM history) FROM history_seal"), "1", "is sealed at once");
    run("BEGIN; UPDATE entity SET state = 'stopped' WHERE name = 'app'", REPORT_TABLE, &e);
    ok(e.code == CODE_USAGE, "a transaction left open: %s", e.msg);
    is_str(one("SELECT state FROM entity WHERE name = 'app'"), "tailing", "was rolled back");
    run("-- nothing\n", REPORT_TABLE, &e);
    ok(e.class == ERR_NONE, "a comment is no query: %s", e.msg);
    entity_free(&en);
}

static void named_reports_run(void) {
    struct err e = {0};
    struct bind b[] = {{.name = ":name", .text = "app"}, {.name = ":since_us", .is_null = true}};
    print_begin();
    int rc = report_run(c, "report/history", b, 2, REPORT_JSON, &e);
    const char *p = print_end();
    ok(rc == 0, "history: %s", e.msg);
    ok(strstr(p, "\"event\":\"created\"") && strstr(p, "\"event\":\"warm\""), "has the moves: %s", p);
    ok(report_run(c, "report/none", NULL, 0, REPORT_JSON, &e) == -1 && e.code == CODE_INTERNAL, "an unknown report: %s", e.msg);
    struct bind bad = {.name = ":nope", .text = "x"};
    ok(report_run(c, "report/history", &bad, 1, REPORT_JSON, &e) == -1, "an unknown parameter: %s", e.msg);
    print_begin();
    err_clear(&e);
    rc = control_export(c, &e);
    p = print_end();
    ok(rc == 0 && strstr(p, "{\"history\":{\"id\":1,") && strstr(p, "{\"seal\":{\"id\":1,\"upto\":1,"),
       "an export holds rows and seals: %s", e.msg);
}

static void a_backup_is_whole_and_never_replaces(void) {
    struct err e = {0};
    char to[300];
    struct stat st;
    snprintf(to, sizeof to, "%.255s/copy.db", help_dir);
    ok(control_backup(c, to, &e) == 0, "a backup: %s", e.msg);
    ok(stat(to, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_nlink == 1, "private, without a second name");
    ok(control_backup(c, to, &e) == -1 && e.class == ERR_CONFIG, "a second time is refused: %s", e.msg);
    help_file("copy.db");
    struct control *d = help_open(&e);
    ok(d != NULL, "the copy opens: %s", e.msg);
    struct buf f = BUF_INIT(65536);
    size_t n = 9;
    ok(d && control_check(d, &f, &n, &e) == 0 && n == 0, "and is whole: %.*s", (int)f.n, f.p ? f.p : "");
    buf_free(&f);
    control_close(d);
    d = help_inspect(&e);
    snprintf(to, sizeof to, "%.255s/copy2.db", help_dir);
    ok(d && control_backup(d, to, &e) == 0, "also of one that is only looked at: %s", e.msg);
    control_close(d);
    help_file("control.db");
}

static void mirrors_requests_refusals(void) {
    struct err e = {0};
    struct entity en = {0};
    bool found;
    int64_t id = 0, last = 0;
    char verb[32];
    ok(entity_find(c, "broker", "app", &en, &found, &e) == 0 && found, "the broker");
    struct mirror m = {.link_id = "abc", .pos = "0/1A", .seq = 12, .lag_links = 2, .lag_bytes = 4096, .lag_us = 1500000, .rows = 8};
    position_mirror(c, &en, &m);
    is_str(one("SELECT links || ' ' || bytes || ' ' || seconds FROM lag WHERE name = 'app'"), "2 4096 1.5", "lag");
    is_str(one("SELECT link_id || ' ' || pos || ' ' || seq || ' ' || rows FROM positions"), "abc 0/1A 12 8", "position");
    m.lag_links = m.lag_bytes = (uint64_t)-1;
    m.lag_us = -1;
    position_mirror(c, &en, &m);
    is_str(one("SELECT links IS NULL AND bytes IS NULL AND seconds IS NULL FROM lag"), "1", "an unknown lag is NULL");
    is_str(one("SELECT count(*) FROM history"), "2", "mirrors are no history");

    ok(request_last_id(c, &last, &e) == 0 && last == 0, "no request yet");
    ok(request_add(c, "broker", "app", "stop", &e) == 0 && request_next(c, &en, last, &id, verb, &e) == 0 && id == 1, "a request: %s",
       e.msg);
    is_str(verb, "stop", "to stop");
    ok(request_last_id(c, &last, &e) == 0 && request_next(c, &en, last, &id, verb, &e) == 0 && id == 0,
       "one from before cannot end a later run");
    ok(request_done(c, 1, "stopped", &e) == 0 && request_next(c, &en, 0, &id, verb, &e) == 0 && id == 0, "answered");
    ok(request_add(c, "broker", "nobody", "stop", &e) == -1, "of nobody: %s", e.msg);

    struct err why = {0};
    err_set(&why, CODE_TARGET_KEYS, "keys merge");
    err_mark(&why, MARKER_KEY_COLLATION_MERGE, MARKER_KEY_COLLATION_GUARD_UNSUPPORTED);
    err_clear(&e);
    ok(refusal_record(c, &en, &why, &e) == 0 && refusal_record(c, &en, &why, &e) == 0, "a refusal, twice: %s", e.msg);
    is_str(one("SELECT count(*) FROM refusals"), "1", "is one");
    is_str(one("SELECT marker || ' ' || sub || ' ' || restartable FROM refusals"), "KEY-COLLATION-MERGE KEY-COLLATION-GUARD-UNSUPPORTED 0",
           "with its markers");
    ok(strlen(one("SELECT remedy FROM refusals")) > 10, "and what lifts it");
    err_set(&why, CODE_HEADROOM, "no slot");
    err_mark(&why, MARKER_CDC_REPLICATION_HEADROOM, MARKER_NONE);
    ok(refusal_record(c, &en, &why, &e) == 0, "another: %s", e.msg);
    is_str(one("SELECT group_concat(message || restartable) FROM refusals"), "no slot1", "takes its place; a restart may clear it");
    ok(refusal_clear(c, &en, &e) == 0, "cleared: %s", e.msg);
    is_str(one("SELECT count(*) FROM refusals"), "0", "none is open");
    is_str(one("SELECT count(*) FROM refusal"), "2", "both are kept");

    chain_mirror(c, "st", "11112222333344445555666677778888",
                 "{\"source_engine\":\"sqlite\",\"full_complete\":true,\"nlinks\":2,\"tip_id\":\"bb\",\"tip_seq\":9,\"tip_time_us\":"
                 "1700000000000000,"
                 "\"segments\":[{\"segment\":\"aa\",\"first_n\":0,\"full_complete\":true}],"
                 "\"links\":[{\"n\":0,\"id\":\"aa\",\"segment\":\"aa\",\"opening\":true,\"bytes\":10},{\"n\":1,\"id\":\"bb\",\"segment\":"
                 "\"aa\",\"bytes\":5,"
                 "\"start_seq\":0,\"end_seq\":9,\"time_us\":1700000000000000}]}");
    is_str(one("SELECT links || ' ' || tip_id || ' ' || bytes || ' ' || tip_at || ' ' || full_complete FROM chains"),
           "2 bb 15 2023-11-14T22:13:20.000000Z 1", "a chain");
    chain_mirror(c, "st", "11112222333344445555666677778888",
                 "{\"nlinks\":3,\"links\":[{\"n\":2,\"id\":\"cc\",\"segment\":\"aa\",\"bytes\":1}]}");
    is_str(one("SELECT links || ' ' || bytes || ' ' || source_engine FROM chains"), "3 16 sqlite", "grows by what is given");
    chain_mirror(c, "st", "99992222333344445555666677778888", "{\"nlinks\":1}");
    is_str(one("SELECT count(*) || ' ' || (SELECT count(*) FROM link) FROM chain"), "1 0",
           "a new lineage takes the place of the old one at its store");
    chain_mirror(c, "st", "99992222333344445555666677778888", "not json");
    is_str(one("SELECT count(*) FROM chain"), "1", "nonsense is not written, and no failure");
    entity_free(&en);
}

static void a_report_is_judged_as_it_is_printed(void) {
    struct err e = {0};
    struct bind all[] = {{.name = ":kind", .is_null = true}}, brokers[] = {{.name = ":kind", .text = "broker"}};
    int64_t rows = 0, hits = 0;
    print_begin();
    int rc = report_judge(c, "report/states", brokers, 1, REPORT_CSV, "tailing = 1", &rows, &hits, &e);
    const char *text = print_end();
    int lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++) lines++;
    ok(rc == 0 && rows > 3 && hits == 1, "%d rows, %d hits: %s", (int)rows, (int)hits, e.msg);
    is_int(lines - 1, rows, "as many as were printed");
    print_begin();
    rc = report_judge(c, "report/states", all, 1, REPORT_JSON, "kind = 'broker'", &hits, &rows, &e);
    print_end();
    ok(rc == 0 && rows == lines - 1 && hits > rows, "parameters bind both");
    print_begin();
    rc = report_judge(c, "report/states", all, 1, REPORT_CSV, "no_such_column = 1", &rows, &hits, &e);
    is_str(print_end(), "", "nothing is printed that cannot be judged");
    ok(rc == -1, "as by a column that it has not: %s", e.msg);
    ok(report_judge(c, "report/nothing", NULL, 0, REPORT_CSV, "1", &rows, &hits, &e) == -1 && e.code == CODE_INTERNAL, "an unknown report");
    ok(run("SELECT 1", REPORT_CSV, &e) && e.class == ERR_NONE, "and the handle is usable: %s", e.msg);
}

int main(void) {
    struct err e;
    help_begin();
    c = help_open(&e);
    ok(c != NULL, "opens: %s", e.msg);
    formats_are_exact();
    an_operators_query_is_bound_by_the_guards();
    named_reports_run();
    a_backup_is_whole_and_never_replaces();
    mirrors_requests_refusals();
    a_report_is_judged_as_it_is_printed();
    control_close(c);
    help_end();
    return done_testing();
}
