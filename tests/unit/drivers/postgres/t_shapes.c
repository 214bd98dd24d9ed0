/* Tables that change their shape while the log is read. Needs SLUICE_TEST_PG. */
#include "tests/unit/drivers/postgres/pg_fixture.h"

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

int main(void) {
    if (!pgs_start()) return 0;
    shape_changes();
    surveys();
    partitions();
    pgs_stop();
    return done_testing();
}
