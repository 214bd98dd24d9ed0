/* The slot and what can befall it: checks, sequences, a plain role, servers in trouble. Needs SLUICE_TEST_PG. */
#include "tests/unit/drivers/postgres/pg_fixture.h"

static void slots(void) {
    struct fixture f;
    struct err e = {0};
    sql("CREATE TABLE c(id int PRIMARY KEY)");
    if (!ok(anchor(&f, "chk_slot", NULL), "an anchor is set")) return;
    P->snapshot_close(f.snap);
    f.snap = NULL;
    sql("ALTER PUBLICATION chk_slot DROP TABLE c");
    ok(P->stream_open(f.s, &f.anchor, f.c->tables, f.c->ntables, &f.st, &e) == -1 && e.code == CODE_PUBLICATION,
       "a table taken out of the publication is refused: %s", e.msg);
    err_clear(&e);
    sql("ALTER PUBLICATION chk_slot ADD TABLE c; SELECT pg_drop_replication_slot('chk_slot')");
    ok(P->check(f.s, &f.anchor, &f.anchor, &e) == -1 && e.code == CODE_SLOT_MISSING, "a missing slot is refused: %s", e.msg);
    err_clear(&e);
    sql("INSERT INTO c VALUES (1)");
    sql("SELECT pg_create_logical_replication_slot('chk_slot', 'pgoutput')");
    ok(P->check(f.s, &f.anchor, &f.anchor, &e) == -1 && e.code == CODE_SLOT_ADVANCED, "so is one made anew: %s", e.msg);
    err_clear(&e);
    sql("SELECT pg_drop_replication_slot('chk_slot')");
    sql("SELECT pg_create_logical_replication_slot('chk_slot', 'test_decoding')");
    ok(P->check(f.s, &f.anchor, &f.anchor, &e) == -1 && e.code == CODE_SLOT_FOREIGN, "so is one of another plugin: %s", e.msg);
    err_clear(&e);
    ok(P->unanchor(f.s, &e) == -1 && e.code == CODE_SLOT_FOREIGN, "which is not ours to drop");
    err_clear(&e);
    sql("SELECT pg_drop_replication_slot('chk_slot')");
    struct pos far;
    pos_set(&far, "postgres", "FFFF/0", &e);
    sql("SELECT pg_create_logical_replication_slot('chk_slot', 'pgoutput')");
    ok(P->check(f.s, &far, &far, &e) == -1 && e.code == CODE_SOURCE_CHANGED, "a log that ends before the chain is refused: %s", e.msg);
    err_clear(&e);
    char id[128], id2[128];
    ok(P->identity(f.s, id, &e) == 0 && strncmp(id, "postgres:", 9) == 0, "identity: %s", id);
    struct source *again = open_source(pgs_dsn, NULL, NULL, NULL, &e);
    ok(P->identity(again, id2, &e) == 0 && strcmp(id, id2) == 0, "is the same on another connection");
    P->close(again);
    finish(&f);
    sql("DROP TABLE c");
}

/* A role with no more than the README's grants does all of it. */
static void plain_role(void) {
    struct fixture f;
    char dsn[1024], keep[1024];
    sql("DROP ROLE IF EXISTS sluice_t_app, sluice_t_chain; CREATE ROLE sluice_t_app; CREATE ROLE sluice_t_chain LOGIN REPLICATION PASSWORD "
        "'chainpw'; GRANT sluice_t_app TO sluice_t_chain");
    char text[256];
    snprintf(text, sizeof text, "GRANT CREATE ON DATABASE %s TO sluice_t_chain", pgs_name);
    sql(text);
    sql("CREATE TABLE o(id serial PRIMARY KEY, v int); INSERT INTO o(v) VALUES (1); ALTER TABLE o OWNER TO sluice_t_app");
    pgs_make_dsn(dsn, pgs_name, "sluice_t_chain", "chainpw");
    memcpy(keep, pgs_dsn, sizeof keep);
    memcpy(pgs_dsn, dsn, sizeof pgs_dsn);
    if (ok(anchor(&f, "role_slot", "o"), "a role that is no superuser sets an anchor")) {
        is_int(read_table(f.snap, table(f.c, "o"), NULL, &f.e), 1, "reads the snapshot");
        sql("UPDATE o SET v = 2");
        ok(P->check(f.s, &f.anchor, &f.anchor, &f.e) == 0, "checks %s", f.e.msg);
        struct pos p;
        struct snapshot *later = NULL;
        ok(P->snapshot(f.s, f.c, &p, &later, &f.e) == 0, "takes a later snapshot %s", f.e.msg);
        P->snapshot_close(later);
        ok(follow(&f, &f.anchor) && drain(&f) == 0 && f.b.n == 2, "and reads the log %s", f.e.msg);
        struct arena *a = arena_new(4096, &f.e);
        struct object *o;
        const char **lines;
        size_t n;
        ok(P->stream_sequences(f.st, a, &o, &n, &f.e) == 0 && n == 1 && P->stream_uncaptured(f.st, a, &lines, &n, &f.e) == 0,
           "the sequences and the report too %s", f.e.msg);
        arena_free(a);
        finish(&f);
    }
    /* what its owner published before, it need not own */
    snprintf(text, sizeof text,
             "REVOKE CREATE ON DATABASE %s FROM sluice_t_chain; REVOKE sluice_t_app FROM sluice_t_chain; GRANT SELECT ON o, o_id_seq TO "
             "sluice_t_chain",
             pgs_name);
    sql(text);
    struct err e = {0};
    struct catalog *c = NULL;
    struct source *s = open_source(dsn, "role2_slot", "o", NULL, &e);
    ok(P->catalog(s, true, &c, &e) == -1 && e.code == CODE_PRIVILEGE && strstr(e.hint, "GRANT CREATE ON DATABASE") != NULL,
       "a role that may not publish is told: %s", e.hint);
    err_clear(&e);
    P->close(s);
    sql("CREATE PUBLICATION role2_slot FOR TABLE ONLY o");
    if (ok(anchor(&f, "role2_slot", "o"), "with the publication there it need not")) {
        sql("INSERT INTO o(v) VALUES (5)");
        ok(follow(&f, &f.anchor) && drain(&f) == 0 && f.b.n == 2, "and the log is read %s", f.e.msg);
        P->stream_close(f.st);
        f.st = NULL;
        ok(P->unanchor(f.s, &f.e) == 0 && strcmp(sql_one("SELECT count(*) FROM pg_publication WHERE pubname = 'role2_slot'"), "1") == 0,
           "the publication is not its own to drop, and stays %s", f.e.msg);
        sql("DROP PUBLICATION role2_slot");
        finish(&f);
    }
    memcpy(pgs_dsn, keep, sizeof pgs_dsn);
    sql("DROP TABLE o");
    sql("DROP ROLE sluice_t_chain, sluice_t_app");
}

/* A publication may be somebody's: it is never replaced, only used when it is what the chain needs. */
static void strangers_publication(void) {
    struct err e = {0};
    struct catalog *c = NULL;
    struct pos p;
    struct snapshot *snap = NULL;
    sql("CREATE TABLE sp(id int PRIMARY KEY); CREATE TABLE other(id int PRIMARY KEY); CREATE PUBLICATION sp_slot FOR TABLE other");
    struct source *s = open_source(pgs_dsn, "sp_slot", "sp", NULL, &e);
    ok(P->catalog(s, true, &c, &e) == 0 && P->anchor(s, c, &p, &snap, &e) == -1 && e.code == CODE_PUBLICATION_EXISTS && e.class == ERR_REFUSE,
       "a publication of other tables is refused: %s", e.msg);
    ok(strstr(e.hint, "--slot-name") != NULL, "and the hint names a way out: %s", e.hint);
    is_str(sql_one("SELECT string_agg(tablename, ',') FROM pg_publication_tables WHERE pubname = 'sp_slot'"), "other", "it is as it was");
    is_str(sql_one("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'sp_slot'"), "0", "no slot was made");
    catalog_free(c);
    P->close(s);
    sql("DROP PUBLICATION sp_slot; DROP TABLE sp, other");
}

static bool until(const char *query, const char *want) {
    for (int64_t end = clock_mono_us() + 20 * INT64_C(1000000); clock_mono_us() < end;)
        if (strcmp(sql_one(query), want) == 0) return true;
    printf("# %s is '%s'\n", query, sql_one(query));
    return false;
}

static void servers_troubles(void) {
    struct fixture f;
    struct err e = {0};
    struct catalog *c = NULL;
    sql("CREATE TABLE w(id int PRIMARY KEY)");
    struct source *s = open_source(pgs_dsn, "full_slot", NULL, NULL, &e);
    sql("SELECT pg_create_physical_replication_slot('sluice_t_fill_' || i) FROM generate_series(1, "
        "current_setting('max_replication_slots')::int -"
        " (SELECT count(*)::int FROM pg_replication_slots)) i");
    ok(P->catalog(s, true, &c, &e) == -1 && e.code == CODE_HEADROOM && e.marker == MARKER_CDC_REPLICATION_HEADROOM,
       "no free slot is refused before anything is made: %s", e.msg);
    err_clear(&e);
    sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'sluice_t_fill_%'");
    P->close(s);
    if (!ok(anchor(&f, "lost_slot", NULL), "an anchor is set")) return;
    ok(follow(&f, &f.anchor) && drain(&f) == 0, "the log is read");
    /* the connection breaks: nothing is lost */
    sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'lost_slot'");
    sql("INSERT INTO w VALUES (1)");
    int rc = 0;
    for (int i = 0; i < 50 && rc == 0; i++) rc = P->stream_next(f.st, &f.b, MiB(1), 100000, &f.seen, &f.e);
    ok(rc == -1 && f.e.class == ERR_RETRY, "a walsender that dies is worth another try: %s", f.e.msg);
    err_clear(&f.e);
    P->stream_close(f.st);
    f.st = NULL;
    ok(P->check(f.s, &f.anchor, &f.anchor, &f.e) == 0 && follow(&f, &f.anchor) && drain(&f) == 0 && batch_rows(&f.b) == 1,
       "and everything comes then %s", f.e.msg);
    /* another reader holds the slot */
    struct stream *second = NULL;
    ok(P->stream_open(f.s, &f.anchor, f.c->tables, f.c->ntables, &second, &f.e) == -1 && f.e.code == CODE_SLOT_ACTIVE &&
           f.e.class == ERR_RETRY,
       "a slot has one reader: %s", f.e.msg);
    err_clear(&f.e);
    P->stream_close(f.st);
    f.st = NULL;
    /* the server throws the WAL away */
    sql("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'");
    sql("SELECT pg_reload_conf()");
    until("SHOW max_slot_wal_keep_size", "1MB");
    for (int i = 0; i < 4; i++) {
        sql("INSERT INTO w SELECT g FROM generate_series(1000, 60000) g ON CONFLICT DO NOTHING; TRUNCATE w; SELECT pg_switch_wal()");
        sql("CHECKPOINT");
    }
    if (ok(until("SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'lost_slot'", "lost"), "the slot lost its WAL"))
        ok(P->check(f.s, &f.anchor, &f.anchor, &f.e) == -1 && f.e.code == CODE_SLOT_LOST, "which is refused: %s", f.e.msg);
    err_clear(&f.e);
    sql("ALTER SYSTEM RESET max_slot_wal_keep_size");
    sql("SELECT pg_reload_conf()");
    finish(&f);
    sql("DROP TABLE w");
}

static void sequences(void) {
    struct fixture f;
    struct object *o;
    size_t n;
    sql("CREATE TABLE q(id serial PRIMARY KEY, i int GENERATED BY DEFAULT AS IDENTITY); INSERT INTO q DEFAULT VALUES; CREATE SEQUENCE "
        "free");
    if (!ok(anchor(&f, "seq_slot", NULL), "an anchor is set")) return;
    ok(follow(&f, &f.anchor), "the log is opened");
    sql("SELECT setval('free', 40)");
    sql("INSERT INTO q DEFAULT VALUES");
    struct arena *a = arena_new(4096, &f.e);
    ok(P->stream_sequences(f.st, a, &o, &n, &f.e) == 0 && n == 3, "three sequences %s", f.e.msg);
    int64_t free_ = 0, id = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(o[i].name, "free") == 0) free_ = o[i].value;
        if (strcmp(o[i].name, "q_id_seq") == 0) id = o[i].value;
    }
    ok(free_ == 40 && id == 2, "with their values");
    arena_free(a);
    finish(&f);
    sql("DROP TABLE q; DROP SEQUENCE free");
}

/* What was inserted between catalogue and snapshot is in the snapshot; its sequence must not stay behind. */
static void sequences_behind_rows(void) {
    struct fixture f;
    sql("CREATE TABLE qb(id serial PRIMARY KEY); CREATE SEQUENCE qb_free; INSERT INTO qb DEFAULT VALUES");
    if (!ok(anchor(&f, "seqb_slot", "qb"), "an anchor is set")) return;
    const struct object *o = object(f.c, "qb_id_seq");
    if (ok(o != NULL && o->value == 1, "the catalogue has the sequence")) {
        sql("INSERT INTO qb DEFAULT VALUES; INSERT INTO qb DEFAULT VALUES");
        ok(P->sequences_again(f.s, f.c, &f.e) == 0 && o->value == 3 && o->is_called, "and its value of later %s", f.e.msg);
        sql("DROP TABLE qb");
        ok(P->sequences_again(f.s, f.c, &f.e) == 0 && o->value == 3, "one that is gone keeps its last %s", f.e.msg);
    }
    finish(&f);
    sql("DROP TABLE IF EXISTS qb; DROP SEQUENCE qb_free");
}

int main(void) {
    if (!pgs_start()) return 0;
    slots();
    sequences();
    sequences_behind_rows();
    strangers_publication();
    plain_role();
    servers_troubles();
    pgs_stop();
    return done_testing();
}
