/* PostgreSQL as a source on a real server: catalogue, anchor, readers, stream, checks. Needs SLUICE_TEST_PG (a superuser's DSN). */
#include "drivers/postgres/pg.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "tests/tap.h"
#include "tests/unit/drivers/postgres/pg_server.h"

static const struct source_ops *const P = &postgres_source_ops;

static struct source *open_source(const char *dsn, const char *slot, const char *include, const char *exclude, struct err *e) {
    static const char *in[1], *out[1];
    struct source_opts o = {.dsn = dsn, .slot_name = slot};
    struct source *s = NULL;
    in[0] = include;
    out[0] = exclude;
    if (include != NULL) o.filter.include = in, o.filter.ninclude = 1;
    if (exclude != NULL) o.filter.exclude = out, o.filter.nexclude = 1;
    if (P->open(&o, &s, e) < 0) printf("# open: %s\n", e->msg);
    return s;
}

static const struct shape *table(const struct catalog *c, const char *name) {
    for (size_t i = 0; c != NULL && i < c->ntables; i++)
        if (strcmp(c->tables[i]->name, name) == 0) return c->tables[i];
    return NULL;
}
static const struct object *object(const struct catalog *c, const char *name) {
    for (size_t i = 0; c != NULL && i < c->nobjects; i++)
        if (strcmp(c->objects[i].name, name) == 0 && c->objects[i].kind != OBJECT_SCHEMA) return &c->objects[i];
    return NULL;
}
static bool warned(const struct catalog *c, const char *part) {
    for (size_t i = 0; c != NULL && i < c->nwarnings; i++)
        if (strstr(c->warnings[i], part) != NULL) return true;
    return false;
}
static const struct key *key(const struct shape *s, const char *name) {
    for (uint16_t i = 0; s != NULL && i < s->nkeys; i++)
        if (strcmp(s->keys[i].name, name) == 0) return &s->keys[i];
    return NULL;
}

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

static size_t read_table(struct snapshot *snap, const struct shape *t, struct buf *text, struct err *e) {
    struct reader *r = NULL;
    enum rows_encoding enc;
    const char *p;
    size_t n, total = 0;
    uint64_t rows;
    if (P->reader_open(snap, &r, e) < 0 || P->reader_table(r, t, &enc, e) < 0) {
        P->reader_close(r);
        return (size_t)-1;
    }
    do {
        if (P->reader_next(r, &p, &n, &rows, e) < 0) {
            total = (size_t)-1;
            break;
        }
        total += rows;
        if (text != NULL) buf_add(text, p, n, e);
    } while (n > 0);
    P->reader_close(r);
    return total;
}

struct fixture {
    struct source *s;
    struct catalog *c;
    struct pos anchor;
    struct snapshot *snap;
    struct stream *st;
    struct batch b;
    struct pos seen;
    struct err e;
};

static int anchor(struct fixture *f, const char *slot, const char *include) {
    memset(f, 0, sizeof *f);
    if ((f->s = open_source(pgs_dsn, slot, include, NULL, &f->e)) == NULL || P->catalog(f->s, true, &f->c, &f->e) < 0 ||
        P->anchor(f->s, f->c, &f->anchor, &f->snap, &f->e) < 0 || batch_init(&f->b, KiB(64), &f->e) < 0) {
        printf("# anchor: %s\n", f->e.msg);
        return 0;
    }
    for (size_t i = 0; i < f->c->ntables; i++) f->c->tables[i]->table = (uint32_t)i + 1;
    return 1;
}
static int follow(struct fixture *f, const struct pos *from) {
    P->snapshot_close(f->snap);
    f->snap = NULL;
    if (P->stream_open(f->s, from, f->c->tables, f->c->ntables, &f->st, &f->e) < 0) {
        printf("# stream: %s\n", f->e.msg);
        return 0;
    }
    return 1;
}
/* Fill the batch until everything up to the log's end was seen. */
static int drain(struct fixture *f) {
    struct pos end;
    int64_t until = clock_mono_us() + 20 * INT64_C(1000000);
    batch_reset(&f->b);
    if (P->end(f->s, &end, &f->e) < 0) return -1;
    do {
        if (P->stream_next(f->st, &f->b, MiB(64), 500000, &f->seen, &f->e) < 0) return -1;
    } while (pos_compare(&f->seen, &end) == POS_LESS && clock_mono_us() < until);
    return pos_compare(&f->seen, &end) == POS_LESS ? -1 : 0;
}
static void finish(struct fixture *f) {
    struct err e = {0};
    P->stream_close(f->st);
    f->st = NULL;
    P->snapshot_close(f->snap);
    ok(P->unanchor(f->s, &e) == 0, "the anchor is undone %s", e.msg);
    ok(P->unanchor(f->s, &e) == 0, "twice is fine %s", e.msg);
    catalog_free(f->c);
    P->close(f->s);
    batch_free(&f->b);
}
static const struct change *nth(const struct fixture *f, size_t n) {
    static const struct change none;
    return n < f->b.n ? &f->b.v[n] : &none;
}
static bool val(const struct value *row, int col, const char *text) {
    return row != NULL && row[col].kind == VALUE_TEXT && row[col].len == strlen(text) && memcmp(row[col].p, text, row[col].len) == 0;
}

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

/* ---- shapes ---------------------------------------------------------------------------------------------------------- */

static void shape_changes(void) {
    struct fixture f;
    sql("CREATE TABLE s(id int PRIMARY KEY, a text)");
    if (!ok(anchor(&f, "shape_slot", NULL), "an anchor is set")) return;
    sql("INSERT INTO s VALUES (1, 'x'); ALTER TABLE s ADD b int; INSERT INTO s VALUES (2, 'y', 5)");
    sql("ALTER TABLE s ADD c int; INSERT INTO s VALUES (3, 'z', 6, 7)");
    ok(follow(&f, &f.anchor) && drain(&f) == 0, "two columns added with rows between, read afterwards %s", f.e.msg);
    is_int(f.b.n, 7, "three rows, two shapes, two commits");
    ok(nth(&f, 0)->op == CHANGE_INSERT && nth(&f, 0)->shape->ncols == 2, "the first row in the shape the chain holds");
    const struct change *c = nth(&f, 1);
    ok(c->op == CHANGE_SHAPE && c->old_shape->ncols == 2 && c->shape->ncols == 3 && strcmp(c->shape->cols[2].name, "b") == 0 &&
           c->table != 0 && c->shape->table == c->table,
       "then the shape between");
    ok(nth(&f, 2)->shape == c->shape && val(nth(&f, 2)->after, 2, "5"), "and its row");
    ok(nth(&f, 4)->op == CHANGE_SHAPE && nth(&f, 4)->shape->ncols == 4 && nth(&f, 5)->op == CHANGE_INSERT, "then the last");
    sql("ALTER TABLE s RENAME a TO aa; ALTER TABLE s DROP b; UPDATE s SET aa = 'r' WHERE id = 1");
    ok(drain(&f) == 0 && nth(&f, 0)->op == CHANGE_SHAPE && nth(&f, 0)->shape->ncols == 3 && nth(&f, 0)->shape->cols[1].id == 2 &&
           strcmp(nth(&f, 0)->shape->cols[1].name, "aa") == 0,
       "a rename keeps the column's number, a drop takes one away %s", f.e.msg);
    sql("ALTER TABLE s RENAME TO s2; INSERT INTO s2 VALUES (4, 'n', 1)");
    ok(drain(&f) == 0 && nth(&f, 0)->op == CHANGE_SHAPE && strcmp(nth(&f, 0)->shape->name, "s2") == 0 &&
           nth(&f, 0)->shape->oid == nth(&f, 0)->old_shape->oid,
       "a renamed table is the same table");
    sql("CREATE INDEX ON s2(aa); INSERT INTO s2 VALUES (5, 'n', 1)");
    ok(drain(&f) == 0 && nth(&f, 0)->op == CHANGE_SHAPE && nth(&f, 0)->shape->nkeys == 2, "a new index comes with the next row");
    sql("ALTER TABLE s2 DROP c; UPDATE s2 SET aa = 'q' WHERE id = 1");
    ok(drain(&f) == 0 && f.b.n == 3 && nth(&f, 0)->shape->ncols == 2, "the last column goes");
    sql("SELECT txid_current()"); /* the log moves on, for an end behind what was looked at */
    sql("ALTER TABLE s2 ADD d int; UPDATE s2 SET d = 1 WHERE id = 1");
    ok(drain(&f) == 0 && f.b.n == 3 && nth(&f, 0)->op == CHANGE_SHAPE && strcmp(nth(&f, 0)->shape->cols[2].name, "d") == 0,
       "and another comes: a hole that the log has passed is only a hole %s", f.e.msg);
    sql("INSERT INTO s2 VALUES (6, 'n', 1); ALTER TABLE s2 DROP aa; ALTER TABLE s2 ADD aa text; INSERT INTO s2(id, aa) VALUES (7, "
        "'other')");
    ok(drain(&f) == -1 && f.e.code == CODE_SHAPE_CHANGED && f.e.sub == MARKER_AMBIGUOUS_SCHEMA_BOUNDARY,
       "a column dropped and made anew under its name is refused: %s", f.e.msg);
    err_clear(&f.e);
    finish(&f);
    sql("DROP TABLE s2");
    /* holes from before the chain */
    sql("CREATE TABLE h(a int, id int PRIMARY KEY, b text, c int); ALTER TABLE h DROP a; ALTER TABLE h DROP c; INSERT INTO h VALUES (1, "
        "'x')");
    if (!ok(anchor(&f, "hole_slot", NULL), "an anchor is set")) return;
    sql("ALTER TABLE h ADD d int; INSERT INTO h VALUES (2, 'y', 5)");
    ok(follow(&f, &f.anchor) && drain(&f) == 0 && f.b.n == 3, "a column added behind a hole %s", f.e.msg);
    ok(nth(&f, 0)->op == CHANGE_SHAPE && nth(&f, 0)->shape->cols[2].id == 5 && val(nth(&f, 1)->after, 2, "5"),
       "keeps numbers and places apart");
    P->stream_close(f.st);
    f.st = NULL;
    sql("DROP TABLE h; CREATE TABLE h(id int PRIMARY KEY)");
    ok(P->stream_open(f.s, &f.anchor, f.c->tables, f.c->ntables, &f.st, &f.e) == -1 && f.e.code == CODE_SHAPE_CHANGED &&
           f.e.sub == MARKER_TABLE_IDENTITY_CHANGED,
       "a table dropped and made anew is another table: %s", f.e.msg);
    err_clear(&f.e);
    finish(&f);
    sql("DROP TABLE h");
}

/* Shapes that change without a row behind the change. */
static void surveys(void) {
    struct fixture f;
    sql("CREATE TABLE v(id int PRIMARY KEY, a text); CREATE TABLE calm(id int PRIMARY KEY)");
    if (!ok(anchor(&f, "survey_slot", NULL), "an anchor is set")) return;
    sql("INSERT INTO v VALUES (1, 'x')");
    sql("ALTER TABLE v ADD b int DEFAULT 5");
    sql("CREATE INDEX calm_i ON calm((id + 1))");
    struct pos end;
    ok(P->end(f.s, &end, &f.e) == 0 && follow(&f, &f.anchor), "the log is opened");
    ok(drain(&f) == 0, "and read %s", f.e.msg);
    is_int(f.b.n, 5, "a row, and two shapes after it");
    ok(nth(&f, 0)->op == CHANGE_INSERT && nth(&f, 0)->shape->ncols == 2, "the row in its own shape");
    const struct change *v = nth(&f, 2), *calm = nth(&f, 3);
    if (strcmp(v->shape->name, "v") != 0) v = nth(&f, 3), calm = nth(&f, 2);
    ok(v->op == CHANGE_SHAPE && v->shape->ncols == 3 && v->table == v->old_shape->table && v->table != 0, "a column that no row used");
    ok(calm->op == CHANGE_SHAPE && calm->shape->nkeys == 2 && nth(&f, 4)->op == CHANGE_COMMIT && f.b.ends_at_commit,
       "an index, and a commit of their own");
    struct pos at = *nth(&f, 4)->pos;
    ok(drain(&f) == 0 && f.b.n == 0, "once");
    sql("ALTER TABLE v DROP a; ALTER TABLE v ADD a text");
    ok(drain(&f) == 0 && f.b.n == 2 && nth(&f, 0)->op == CHANGE_SHAPE && nth(&f, 0)->shape->cols[2].id == 4,
       "a column made anew, without a row between: nothing is ambiguous %s", f.e.msg);
    sql("INSERT INTO v VALUES (2, 6, 'new')");
    ok(drain(&f) == 0 && f.b.n == 2 && nth(&f, 0)->op == CHANGE_INSERT && val(nth(&f, 0)->after, 2, "new") &&
           nth(&f, 0)->shape->cols[2].id == 4,
       "and its next row has it %s", f.e.msg);
    sql("ALTER TABLE v ADD c int; INSERT INTO v VALUES (3, 6, 'c', 7); ALTER TABLE v RENAME c TO d");
    ok(drain(&f) == -1 && f.e.code == CODE_SHAPE_CHANGED, "a name between two that no catalogue shows is refused still: %s", f.e.msg);
    err_clear(&f.e);
    ok(P->stream_ack(f.st, &at, &f.e) == 0, "what was told is acknowledged");
    P->stream_close(f.st);
    f.st = NULL;
    is_str(sql_one("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'survey_slot'"), at.token, "at that commit");
    ok(P->check(f.s, &at, &at, &f.e) == 0, "from where the log goes on");
    finish(&f);
    sql("DROP TABLE v, calm");
}

static void partitions(void) {
    struct fixture f;
    sql("CREATE TABLE p(id int, r int, PRIMARY KEY (id, r)) PARTITION BY RANGE (r); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO "
        "(10); INSERT INTO p VALUES (1, 1);"
        "CREATE TABLE old(id int, r int, PRIMARY KEY (id, r)); INSERT INTO old VALUES (50, 25)");
    if (!ok(anchor(&f, "part_slot", "public.p*"), "an anchor is set")) return;
    const struct shape *t = table(f.c, "p"), *leaf = table(f.c, "p1");
    ok(t != NULL && leaf != NULL && strstr(t->options, "PARTITION BY RANGE") != NULL &&
           strstr(leaf->options, "PARTITION OF public.p FOR VALUES") != NULL,
       "a partitioned table and its leaf");
    is_int(read_table(f.snap, t, NULL, &f.e), 0, "the parent holds no row of its own");
    is_int(read_table(f.snap, leaf, NULL, &f.e), 1, "the leaf does");
    sql("INSERT INTO p VALUES (2, 2); CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20); INSERT INTO p VALUES (3, 12); TRUNCATE "
        "p1");
    ok(follow(&f, &f.anchor) && drain(&f) == 0, "read %s", f.e.msg);
    ok(nth(&f, 0)->op == CHANGE_INSERT && strcmp(nth(&f, 0)->shape->name, "p1") == 0, "rows come as the leaf's");
    ok(nth(&f, 1)->op == CHANGE_SHAPE && nth(&f, 1)->old_shape == NULL && strcmp(nth(&f, 1)->shape->name, "p2") == 0,
       "a partition that was made as one is a new table");
    ok(nth(&f, 2)->op == CHANGE_INSERT && strcmp(nth(&f, 2)->shape->name, "p2") == 0 && nth(&f, 3)->op == CHANGE_TRUNCATE &&
           strcmp(nth(&f, 3)->tables[0]->name, "p1") == 0,
       "with its row; a truncated leaf is one leaf");
    P->stream_close(f.st);
    P->close(f.s);
    f.s = open_source(pgs_dsn, "part_slot", NULL, NULL, &f.e);
    ok(follow(&f, &f.anchor), "opened again with a filter that lets all through");
    sql("ALTER TABLE p ATTACH PARTITION old FOR VALUES FROM (20) TO (30); INSERT INTO p VALUES (4, 27)");
    ok(drain(&f) == -1 && f.e.code == CODE_SHAPE_CHANGED && strstr(f.e.msg, "public.old") != NULL,
       "a partition attached with rows is refused: %s", f.e.msg);
    err_clear(&f.e);
    finish(&f);
    sql("DROP TABLE p");
}

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
    strcpy(keep, pgs_dsn);
    strcpy(pgs_dsn, dsn);
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
        ok(P->unanchor(f.s, &f.e) == -1 && f.e.code == CODE_PRIVILEGE, "but the publication is not its own to drop: %s", f.e.msg);
        err_clear(&f.e);
        sql("DROP PUBLICATION role2_slot");
        finish(&f);
    }
    strcpy(pgs_dsn, keep);
    sql("DROP TABLE o");
    sql("DROP ROLE sluice_t_chain, sluice_t_app");
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

int main(void) {
    if (!pgs_start()) return 0;
    catalogue();
    refusals();
    changes();
    later_snapshot();
    shape_changes();
    surveys();
    partitions();
    slots();
    sequences();
    plain_role();
    servers_troubles();
    pgs_stop();
    return done_testing();
}
