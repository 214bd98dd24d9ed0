/* PostgreSQL as a source on a real server: catalogue, anchor, readers, stream. Needs SLUICE_TEST_PG (a superuser's DSN). */
#include "tests/unit/drivers/postgres/pg_fixture.h"

/* ---- catalogue ------------------------------------------------------------------------------------------------------- */

static void catalogue(void) {
    struct err e = {0};
    struct catalog *c = NULL;
    sql("CREATE TYPE mood AS ENUM ('sad', 'it''s ok'); CREATE DOMAIN posint AS int CHECK (VALUE > 0); CREATE TYPE pair AS (a posint, b "
        "mood);"
        "CREATE COLLATION ci (PROVIDER = icu, LOCALE = 'und-u-ks-level2', DETERMINISTIC = false);"
        "CREATE SEQUENCE alone START 7; SELECT nextval('alone'), nextval('alone');"
        "CREATE TABLE cat(id int GENERATED ALWAYS AS IDENTITY, n numeric(12,2) NOT NULL DEFAULT 1.5, m numeric, t varchar(20), c char(3), "
        "b bytea, at timestamptz(3),"
        " mo mood, mos mood[], p pair, pi posint, g int GENERATED ALWAYS AS (1 + 2) STORED, j jsonb, u uuid, ci text COLLATE ci, r "
        "int4range, neg numeric(4),"
        " PRIMARY KEY (id), UNIQUE (t, n) DEFERRABLE, CHECK (n > 0), EXCLUDE USING gist (r WITH &&));"
        "ALTER TABLE cat DROP COLUMN j; CREATE UNIQUE INDEX cat_ci ON cat(ci); CREATE INDEX cat_ex ON cat(lower(t)) WHERE n > 1;"
        "CREATE TABLE kid(k int GENERATED ALWAYS AS IDENTITY (INCREMENT BY 5), cid int REFERENCES cat ON DELETE CASCADE, s serial, PRIMARY "
        "KEY (s));"
        "CREATE VIEW vw AS SELECT 1 AS x; CREATE FUNCTION fn() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE UNLOGGED TABLE ul(id int "
        "PRIMARY KEY);"
        "SELECT lo_create(0); CREATE TABLE sluice_cdc_state(id int PRIMARY KEY)");
    if (PQserverVersion(pgs_db) >= 150000) sql("ALTER TABLE cat ALTER neg TYPE numeric(4,-2)");
    struct source *s = open_source(pgs_dsn, "cat_slot", NULL, NULL, &e);
    ok(P->catalog(s, true, &c, &e) == 0, "the catalogue is read %s", e.msg);
    const struct shape *t = table(c, "cat");
    ok(t != NULL && t->ncols == 16, "a dropped column is no column");
    if (t == NULL) return;
    ok(t->cols[15].id == 17 && t->oid > 0, "a column keeps its number behind a dropped one");
    ok(t->cols[1].type == LT_NUMERIC && t->cols[1].precision == 12 && t->cols[1].scale == 2 && t->cols[1].not_null &&
           t->cols[1].equality == EQ_BYTES,
       "numeric(12,2)");
    is_str(t->cols[1].default_sql, "1.5", "a default");
    ok(t->cols[2].precision == -1 && t->cols[2].equality == EQ_NUMERIC, "a bare numeric has no scale");
    ok(t->cols[15].type == LT_NUMERIC && (PQserverVersion(pgs_db) < 150000 || t->cols[15].scale == -2), "a negative scale");
    ok(t->cols[3].type == LT_TEXT && t->cols[3].length == 20 && t->cols[4].length == 3, "varchar(20), char(3)");
    ok(t->cols[5].type == LT_BYTES && t->cols[6].type == LT_TIMESTAMPTZ && t->cols[6].precision == 3, "bytea, timestamptz(3)");
    is_str(t->cols[7].native, "public.mood", "a type's name is qualified");
    ok(t->cols[7].type == LT_ENUM && t->cols[8].type == LT_ARRAY && t->cols[8].elem == LT_ENUM, "enum and array of it");
    ok(t->cols[9].type == LT_NATIVE && t->cols[10].type == LT_INT32, "composite; a domain is what it is made of");
    ok(t->cols[11].generated != NULL && t->cols[11].default_sql == NULL && t->cols[11].generated_stored, "generated");
    ok(t->cols[13].equality == EQ_NONDET && t->cols[13].collation != NULL, "a nondeterministic collation");
    ok(t->cols[0].ident == IDENT_ALWAYS, "identity");
    ok(t->primary >= 0 && t->identity == t->primary && t->keys[t->primary].ncols == 1 && !t->full_image,
       "rows are known by the primary key");
    const struct key *k = key(t, "cat_t_n_key");
    ok(k != NULL && k->kind == KEY_UNIQUE && k->constraint && k->deferrable && k->ncols == 2 && k->cols[0] == 3,
       "a deferrable unique constraint");
    k = key(t, "cat_ci");
    ok(k != NULL && !k->constraint && k->equality[0] == EQ_NONDET && strstr(k->def, "CREATE UNIQUE INDEX") != NULL,
       "a unique index under a collation");
    k = key(t, "cat_ex");
    ok(k != NULL && k->kind == KEY_INDEX && k->partial && k->expression && k->ncols == 0, "a partial index on an expression");
    k = key(t, "cat_r_excl");
    ok(k != NULL && k->kind == KEY_EXCLUDE, "an exclusion constraint");
    k = key(table(c, "kid"), "kid_cid_fkey");
    ok(k != NULL && k->kind == KEY_FOREIGN && strcmp(k->ref_table, "cat") == 0 && k->nref == 1 && strcmp(k->ref_cols[0], "id") == 0,
       "a foreign key");
    is_str(k != NULL ? k->on_delete : NULL, "CASCADE", "and what it does on delete");
    ok(table(c, "ul") == NULL && warned(c, "public.ul"), "an unlogged table is left out of a chain, with a warning");
    ok(table(c, "sluice_cdc_state") == NULL, "our own tables are left out");
    ok(warned(c, "views") && warned(c, "functions") && warned(c, "large objects"), "views, functions and large objects are warned of");
    ok(warned(c, "identity 'public.kid.k'") && !warned(c, "identity 'public.cat"), "an identity's own options are warned of");
    const struct object *o = object(c, "mood");
    is_str(o != NULL ? o->sql : NULL, "CREATE TYPE public.mood AS ENUM ('sad', 'it''s ok')", "an enum's statement");
    ok(object(c, "posint") != NULL && object(c, "pair") != NULL && object(c, "posint") < object(c, "pair"),
       "types come after what they are made of");
    ok(object(c, "ci") != NULL && object(c, "ci")->kind == OBJECT_COLLATION, "a collation");
    o = object(c, "alone");
    ok(o != NULL && o->value == 8 && o->is_called && o->owned_by == NULL, "a sequence of its own, with its value");
    o = object(c, "kid_s_seq");
    ok(o != NULL && o->owned_by != NULL && strcmp(o->owned_by, "public.kid.s") == 0 && !o->is_called && o->value == 1,
       "a serial's sequence");
    o = object(c, "cat_id_seq");
    ok(o != NULL && o->sql[0] == 0, "an identity's sequence is made by its column");
    /* everything that was said can be done */
    char text[4096];
    sql("CREATE SCHEMA again");
    for (size_t i = 0; i < c->nobjects; i++) {
        if (c->objects[i].kind == OBJECT_SCHEMA || c->objects[i].sql[0] == 0) continue;
        char *at = strstr((char *)c->objects[i].sql, "public.");
        snprintf(text, sizeof text, "%.*sagain.%s", at != NULL ? (int)(at - c->objects[i].sql) : 0, c->objects[i].sql,
                 at != NULL ? at + 7 : "");
        ok(at != NULL && sql(text), "runs: %s", text);
    }
    sql("DROP SCHEMA again CASCADE");
    catalog_free(c);
    P->close(s);
    sql("DROP TABLE kid, cat, ul; DROP SEQUENCE alone; DROP TYPE pair; DROP DOMAIN posint; DROP TYPE mood; DROP VIEW vw; DROP FUNCTION fn; "
        "DROP COLLATION ci");
}

static void refusals(void) {
    struct err e = {0};
    struct catalog *c = NULL;
    sql("CREATE TABLE nokey(v int)");
    struct source *s = open_source(pgs_dsn, "ref_slot", NULL, NULL, &e);
    ok(P->catalog(s, true, &c, &e) == -1 && e.code == CODE_REPLICA_IDENTITY && strstr(e.msg, "public.nokey") != NULL &&
           strstr(e.hint, "--exclude-table") != NULL,
       "a table without a key is refused for a chain, by name");
    ok(strcmp(sql_one("SELECT count(*) FROM pg_publication"), "0") == 0, "and nothing was made");
    err_clear(&e);
    ok(P->catalog(s, false, &c, &e) == 0 && table(c, "nokey") != NULL && table(c, "nokey")->identity == -1, "a plain full takes it");
    catalog_free(c);
    sql("ALTER TABLE nokey REPLICA IDENTITY FULL");
    ok(P->catalog(s, true, &c, &e) == 0 && table(c, "nokey")->full_image && table(c, "nokey")->identity == -1,
       "with FULL it is known by its whole row");
    catalog_free(c);
    sql("ALTER TABLE nokey ADD PRIMARY KEY (v) DEFERRABLE; ALTER TABLE nokey REPLICA IDENTITY DEFAULT");
    ok(P->catalog(s, true, &c, &e) == -1 && e.code == CODE_REPLICA_IDENTITY && strstr(e.msg, "deferrable") != NULL,
       "a deferrable key is no identity");
    err_clear(&e);
    sql("ALTER TABLE nokey DROP CONSTRAINT nokey_pkey; ALTER TABLE nokey ALTER v SET NOT NULL; CREATE UNIQUE INDEX nk ON nokey(v);"
        "ALTER TABLE nokey REPLICA IDENTITY USING INDEX nk");
    ok(P->catalog(s, true, &c, &e) == 0 && table(c, "nokey")->identity >= 0 &&
           strcmp(table(c, "nokey")->keys[table(c, "nokey")->identity].name, "nk") == 0,
       "an index as replica identity %s", e.msg);
    catalog_free(c);
    c = NULL;
    sql("DROP INDEX nk");
    ok(P->catalog(s, true, &c, &e) == -1 && strstr(e.msg, "is gone") != NULL, "and after its index was dropped");
    err_clear(&e);
    P->close(s);
    s = open_source(pgs_dsn, "ref_slot", NULL, "nokey", &e);
    ok(P->catalog(s, true, &c, &e) == 0 && table(c, "nokey") == NULL, "left out with --exclude-table %s", e.msg);
    catalog_free(c);
    P->close(s);
    sql("DROP TABLE nokey; CREATE TABLE rls(id int PRIMARY KEY); ALTER TABLE rls ENABLE ROW LEVEL SECURITY");
    sql("CREATE TABLE secret(id int PRIMARY KEY); DROP ROLE IF EXISTS sluice_t_plain; CREATE ROLE sluice_t_plain LOGIN PASSWORD 'plainpw'; "
        "GRANT SELECT ON rls TO sluice_t_plain");
    char dsn[1024];
    pgs_make_dsn(dsn, pgs_name, "sluice_t_plain", "plainpw");
    s = open_source(dsn, NULL, NULL, "secret", &e);
    ok(P->catalog(s, false, &c, &e) == -1 && e.code == CODE_ROW_SECURITY && strstr(e.msg, "public.rls") != NULL,
       "row security that hides rows is refused: %s", e.msg);
    err_clear(&e);
    P->close(s);
    s = open_source(dsn, NULL, "secret", NULL, &e);
    ok(P->catalog(s, false, &c, &e) == -1 && e.code == CODE_PRIVILEGE && strstr(e.hint, "GRANT SELECT ON") != NULL,
       "a missing SELECT names its GRANT: %s", e.hint);
    err_clear(&e);
    P->close(s);
    s = open_source(dsn, "ref_slot", "secret", NULL, &e);
    ok(P->catalog(s, true, &c, &e) == -1 && e.code == CODE_PRIVILEGE && strstr(e.hint, "REPLICATION") != NULL,
       "a missing REPLICATION says so: %s", e.hint);
    err_clear(&e);
    P->close(s);
    pgs_make_dsn(dsn, pgs_name, "sluice_t_plain", "wrongpw");
    PGconn *pc;
    ok(pg_connect(dsn, PG_SQL, &pc, &e) == -1 && e.code == CODE_PRIVILEGE && strstr(e.msg, "wrongpw") == NULL, "a wrong password: %s",
       e.msg);
    err_clear(&e);
    pgs_make_dsn(dsn, "no_such_db", NULL, NULL);
    ok(pg_connect(dsn, PG_SQL, &pc, &e) == -1 && e.code == CODE_DSN && e.class == ERR_CONFIG, "a database that is not there: %s", e.msg);
    sql("DROP TABLE rls, secret; DROP ROLE sluice_t_plain");
}

/* ---- anchor, readers, stream ----------------------------------------------------------------------------------------- */

static void changes(void) {
    struct fixture f;
    sql("CREATE TABLE k(id int PRIMARY KEY, t text, g int GENERATED ALWAYS AS (id * 2) STORED, n numeric);"
        "ALTER TABLE k ALTER t SET STORAGE EXTERNAL;"
        "INSERT INTO k(id, t, n) SELECT i, repeat('x', 3000), i FROM generate_series(1, 500) i;"
        "CREATE TABLE full_(a int, b text); ALTER TABLE full_ REPLICA IDENTITY FULL; INSERT INTO full_ VALUES (1, NULL), (1, NULL)");
    if (!ok(anchor(&f, "chg_slot", NULL), "an anchor is set")) return;
    ok(strcmp(sql_one("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'chg_slot'"), f.anchor.token) == 0,
       "its position is the slot's consistent point");
    sql("INSERT INTO k(id, t, n) VALUES (501, 'late', 1)");
    struct buf text = BUF_INIT(MiB(16));
    is_int(read_table(f.snap, table(f.c, "k"), &text, &f.e), 500, "the snapshot holds what was there at the anchor, no more");
    ok(text.n > 4 && memcmp(text.p, "1\txxx", 5) == 0 && text.p[text.n - 1] == '\n', "as COPY lines without generated columns");
    buf_free(&text);
    is_int(read_table(f.snap, table(f.c, "full_"), NULL, &f.e), 2, "another table from the same snapshot");
    ok(P->anchor_absent(f.s, &f.e) == -1 && f.e.code == CODE_SLOT_EXISTS, "an anchor that is there is found");
    err_clear(&f.e);
    ok(P->check(f.s, &f.anchor, &f.anchor, &f.e) == 0, "the log goes on from the anchor %s", f.e.msg);
    sql("UPDATE k SET n = 7 WHERE id = 1");
    sql("UPDATE k SET id = 1000 WHERE id = 2");
    sql("DELETE FROM k WHERE id = 3");
    sql("UPDATE full_ SET b = 'z' WHERE ctid = '(0,1)'");
    sql("BEGIN; INSERT INTO k(id, t, n) VALUES (600, NULL, NULL); TRUNCATE full_ RESTART IDENTITY; COMMIT");
    sql("CREATE TABLE other(id int); INSERT INTO other VALUES (1)");
    if (!ok(follow(&f, &f.anchor), "the log is opened")) return;
    ok(drain(&f) == 0, "and read to its end %s", f.e.msg);
    is_int(f.b.n, 13, "six transactions of ours with seven changes");
    const struct change *c = nth(&f, 0);
    ok(c->op == CHANGE_INSERT && val(c->after, 0, "501") && val(c->after, 1, "late") && c->after[2].kind == VALUE_UNCHANGED &&
           c->before == NULL,
       "insert; a generated column is not in it");
    ok(c->table == c->shape->table && c->table != 0, "with the table's number");
    ok(nth(&f, 1)->op == CHANGE_COMMIT && nth(&f, 1)->time_us > INT64_C(1700000000000000) &&
           pos_compare(&f.anchor, nth(&f, 1)->pos) == POS_LESS,
       "its commit, behind the anchor");
    c = nth(&f, 2);
    ok(c->op == CHANGE_UPDATE && c->before == NULL && val(c->after, 0, "1") && c->after[1].kind == VALUE_UNCHANGED && val(c->after, 3, "7"),
       "update: a TOASTed value is unchanged, not NULL");
    c = nth(&f, 4);
    ok(c->op == CHANGE_UPDATE && c->before_image == IMAGE_KEY && val(c->before, 0, "2") && c->before[1].kind == VALUE_UNCHANGED &&
           val(c->after, 0, "1000"),
       "update of a key: the old key, and nothing else of the old row");
    c = nth(&f, 6);
    ok(c->op == CHANGE_DELETE && c->before_image == IMAGE_KEY && val(c->before, 0, "3") && c->after == NULL, "delete by key");
    c = nth(&f, 8);
    ok(c->op == CHANGE_UPDATE && c->before_image == IMAGE_FULL && val(c->before, 0, "1") && c->before[1].kind == VALUE_NULL &&
           val(c->after, 1, "z"),
       "update by the whole row");
    c = nth(&f, 10);
    ok(c->op == CHANGE_INSERT && c->after[1].kind == VALUE_NULL, "NULL is NULL");
    c = nth(&f, 11);
    ok(c->op == CHANGE_TRUNCATE && c->ntables == 1 && strcmp(c->tables[0]->name, "full_") == 0 && c->flags == TRUNCATE_RESTART_IDENTITY,
       "truncate with its flag");
    ok(nth(&f, 12)->op == CHANGE_COMMIT && f.b.ends_at_commit, "ends at a commit");
    /* what is acknowledged, and what is not */
    struct pos third = *nth(&f, 5)->pos;
    is_str(sql_one("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'chg_slot'"), f.anchor.token,
           "reading acknowledges nothing");
    ok(P->stream_ack(f.st, &third, &f.e) == 0, "acknowledge up to the third commit");
    ok(drain(&f) == 0 && f.b.n == 0, "and nothing new comes");
    P->stream_close(f.st);
    f.st = NULL;
    is_str(sql_one("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'chg_slot'"), third.token,
           "then the slot stands exactly there");
    ok(P->check(f.s, &f.anchor, &f.anchor, &f.e) == -1 && f.e.code == CODE_SLOT_ADVANCED &&
           f.e.marker == MARKER_SLOT_ACKED_PAST_TARGET_POSITION,
       "a chain that ends before that is refused: %s", f.e.msg);
    err_clear(&f.e);
    ok(P->check(f.s, &f.anchor, &third, &f.e) == 0, "unless it is covered");
    ok(P->check(f.s, &third, &third, &f.e) == 0, "or ends there");
    ok(follow(&f, &third) && drain(&f) == 0, "the log is opened there");
    is_int(f.b.n, 7, "and begins with the fourth");
    ok(nth(&f, 0)->op == CHANGE_DELETE && val(nth(&f, 0)->before, 0, "3"), "which is the delete");
    /* an idle table in a busy database */
    struct pos before = f.seen;
    sql("INSERT INTO other SELECT generate_series(1, 1000)");
    ok(drain(&f) == 0 && f.b.n == 0 && pos_compare(&before, &f.seen) == POS_LESS, "what does not concern us moves on without a change");
    const char **lines;
    size_t n;
    struct arena *a = arena_new(4096, &f.e);
    ok(P->stream_uncaptured(f.st, a, &lines, &n, &f.e) == 0 && n == 1 && strstr(lines[0], "public.other") != NULL,
       "a new table is reported");
    arena_free(a);
    /* a batch may end inside a huge transaction */
    sql("BEGIN; INSERT INTO k(id, t, n) SELECT i, repeat('y', 100), 0 FROM generate_series(2000, 6000) i; COMMIT");
    batch_reset(&f.b);
    size_t rows = 0, batches = 0;
    do {
        batch_reset(&f.b);
        if (P->stream_next(f.st, &f.b, KiB(64), 5000000, &f.seen, &f.e) < 0) break;
        rows += batch_rows(&f.b);
        batches++;
        if (f.b.n > 0 && !f.b.ends_at_commit && pos_compare(&f.seen, &before) == POS_LESS) rows = 0;
    } while (!f.b.ends_at_commit && batches < 1000);
    is_int(rows, 4001, "all its rows came");
    ok(batches > 5, "in several batches of bounded bytes (%zu)", batches);
    finish(&f);
    sql("DROP TABLE k, full_, other");
}

/* A snapshot later than the anchor, and one without any. */
static void later_snapshot(void) {
    struct fixture f;
    struct pos p;
    struct snapshot *snap = NULL;
    sql("CREATE TABLE l(id int PRIMARY KEY); INSERT INTO l VALUES (1)");
    if (!ok(anchor(&f, "late_slot", NULL), "an anchor is set")) return;
    sql("INSERT INTO l VALUES (2)");
    ok(P->snapshot(f.s, f.c, &p, &snap, &f.e) == 0 && pos_compare(&f.anchor, &p) == POS_LESS, "a later snapshot %s", f.e.msg);
    sql("INSERT INTO l VALUES (3)");
    is_int(read_table(snap, table(f.c, "l"), NULL, &f.e), 2, "holds the row from before it, not the one from after");
    is_int(read_table(f.snap, table(f.c, "l"), NULL, &f.e), 1, "while the first still holds one");
    ok(follow(&f, &f.anchor) && drain(&f) == 0, "the log is read");
    ok(f.b.n == 4 && pos_compare(nth(&f, 1)->pos, &p) != POS_GREATER && pos_compare(nth(&f, 3)->pos, &p) == POS_GREATER,
       "and its position parts the two commits");
    sql("TRUNCATE l");
    ok(read_table(snap, table(f.c, "l"), NULL, &f.e) == (size_t)-1 && f.e.code == CODE_SHAPE_CHANGED && f.e.class == ERR_RETRY,
       "a table emptied under its snapshot is not taken for an empty one: %s", f.e.msg);
    err_clear(&f.e);
    sql("INSERT INTO l VALUES (9)");
    P->snapshot_close(snap);
    for (int64_t until = clock_mono_us() + 5000000;
         clock_mono_us() < until && strcmp(sql_one("SELECT count(*) FROM pg_replication_slots WHERE temporary"), "0") != 0;)
        ;
    is_str(sql_one("SELECT count(*) FROM pg_replication_slots WHERE temporary"), "0", "the temporary slot is gone with its snapshot");
    finish(&f);
    struct err e = {0};
    struct source *s = open_source(pgs_dsn, NULL, NULL, NULL, &e);
    struct catalog *c = NULL;
    ok(P->catalog(s, false, &c, &e) == 0 && P->snapshot(s, c, &p, &snap, &e) == 0, "a snapshot without an anchor %s", e.msg);
    is_int(read_table(snap, table(c, "l"), NULL, &e), 1, "is read");
    P->snapshot_close(snap);
    catalog_free(c);
    P->close(s);
    sql("DROP TABLE l");
}

int main(void) {
    if (!pgs_start()) return 0;
    catalogue();
    refusals();
    changes();
    later_snapshot();
    pgs_stop();
    return done_testing();
}
