/* Schema changes between ticks: the application's DDL succeeds, rows and shapes follow, and where doubt remains the table is copied. */
#include "tests/unit/drivers/sqlite/feed.h"

#define BASE "create table t(id integer primary key, a text, b int, c text); insert into t values(1,'x',1,'p'),(2,'y',2,'q')"

struct try {
    const char *what, *base, *sql;
    int copies, shapes;
};
static const struct try cases[] = {
    {"column added", BASE, "alter table t add column d text; update t set d='new' where id=1; insert into t values(3,'z',3,'r','s')", 0, 1},
    {"column added with a default", BASE, "alter table t add column d int not null default 7; update t set a='n' where id=1", 1, 1},
    {"generated column added", BASE, "alter table t add column g text as (a||b); update t set a='n' where id=1", 0, 1},
    {"middle column dropped", BASE, "update t set a='before' where id=2; alter table t drop column b; update t set a='n' where id=1", 0, 1},
    {"two columns dropped", BASE, "alter table t drop column b; alter table t drop column c; insert into t values(9,'n')", 0, 1},
    {"middle column renamed", BASE, "update t set b=5 where id=1; alter table t rename column b to bb; update t set bb=9 where id=2", 0, 1},
    {"last column renamed", BASE, "alter table t rename column c to cc; update t set cc='n' where id=1", 1, 1},
    {"last column dropped and another added", BASE, "alter table t drop column c; alter table t add column d text", 1, 1},
    {"dropped and added with another type", BASE, "alter table t drop column c; alter table t add column d int; update t set d=1", 1, 1},
    {"key column renamed", BASE,
     "update t set a='m' where id=2; alter table t rename column id to key; delete from t where key=1; insert into t values(7,'u',1,1)", 0,
     1},
    {"column added, then another", BASE, "alter table t add column d; alter table t add column e; update t set e=d", 0, 1},
    {"table renamed", BASE, "update t set a='m' where id=2; alter table t rename to u; insert into u values(3,'z',3,'r')", 0, 1},
    {"table renamed, another of its name made", BASE,
     "alter table t rename to u; create table t(k text not null primary key); insert into t values('v'); delete from u where id=1", 0, 2},
    {"table dropped and made anew", BASE,
     "drop table t; create table t(id integer primary key, a text, b int, c text); insert into t values(5,'v',5,'w')", 1, 0},
    {"table dropped and made anew in another shape", BASE,
     "drop table t; create table t(id integer primary key, z blob); insert into t values(5,x'00')", 1, 1},
    {"the twelve steps", BASE,
     "begin; create table t_new(id integer primary key, a text, b int check(b<100), c text); insert into t_new select * from t; drop table "
     "t; alter table t_new rename to t; commit; delete from t where id=2",
     1, 1},
    {"new table", BASE, "create table n(id integer primary key, v); insert into n values(1,'v'),(2,x'00'); update t set a='m'", 0, 1},
    {"new table without a key", BASE, "create table n(v); insert into n values(1),(1)", 0, 1},
    {"new index", BASE, "create index i on t(a); update t set a='m'", 0, 1},
    {"new unique index, replaced by it before we know", BASE, "create unique index u on t(a); insert or replace into t values(9,'y',1,1)",
     1, 1},
    {"new partial unique index", BASE, "create unique index u on t(a) where b>1; insert or replace into t values(9,'y',2,1)", 1, 1},
    {"unique index dropped",
     "create table t(id integer primary key, a text); create unique index u on t(a); insert into t values(1,'x'),(2,'y')",
     "drop index u; insert into t values(3,'x'); update t set a='y'", 0, 1},
    {"identity's unique index dropped",
     "create table t(a text not null, b); create unique index u on t(a); insert into t values('x',1),('y',2)",
     "update t set b=3 where a='x'; drop index u; insert into t values('x',1)", 1, 1},
    {"partial unique index dropped",
     "create table t(id integer primary key, a text); create unique index u on t(a) where id>1; insert into t values(1,'x'),(2,'y')",
     "drop index u; update t set a='z' where id=1", 1, 1},
    {"vacuum", BASE, "update t set a='m' where id=2; vacuum; update t set a='n' where id=1", 0, 0},
    {"vacuum of a table without a key",
     "create table t(a text, b int); insert into t values('x',1),('x',1),('y',2),('z',3); delete from t where a='y'",
     "vacuum; delete from t where rowid=(select max(rowid) from t where a='x'); update t set b=b+1", 1, 0},
    {"analyze and a view", BASE, "analyze; create view v as select * from t; update t set a='m' where id=2", 0, 0},
    {"trigger of ours dropped", BASE, "drop trigger sluice_1_au; update t set id=10 where id=1", 1, 0},
    {"all triggers of ours dropped", BASE,
     "drop trigger sluice_1_ai; drop trigger sluice_1_bi; drop trigger sluice_1_bu; drop trigger sluice_1_au; drop trigger sluice_1_bd; "
     "delete from t",
     1, 0},
    {"column of a key wider than the log", "create table t(id integer primary key)",
     "create table w(a int not null, b int not null, c int not null, d int not null, e, primary key(a,b,c,d)); insert into w "
     "values(1,2,3,4,5)",
     0, 1},
    {"the first NULL in a primary key", "create table t(k text primary key, v); insert into t values('x',1)",
     "update t set v=2; insert into t values(null,1),(null,1)", 1, 1},
    {"a NULL in a primary key that came and went", "create table t(k text primary key, v); insert into t values('x',1)",
     "insert into t values(null,1); update t set v=5; delete from t where k is null", 0, 0},
    {"a key that becomes NULL", "create table t(a int, b int, primary key(a,b)); insert into t values(1,1),(1,2)",
     "update t set b=null where b=2", 1, 1},
    {"last column dropped and added again", BASE, "alter table t drop column c; alter table t add column c text", 1, 0},
    {"and its rows touched since", BASE, "alter table t drop column c; alter table t add column c text; update t set c='new' where id=1", 1,
     0},
    {"dropped, added again, another added", BASE,
     "alter table t drop column c; alter table t add column c text; alter table t add column d text", 1, 1},
    {"with a default", "create table t(id integer primary key, a text default 'q'); insert into t values(1,'x'),(2,'q')",
     "alter table t drop column a; alter table t add column a text default 'q'", 1, 0},
    {"dropped and added again beside other changes", BASE "; create table p(id integer primary key)",
     "create index i on p(id); alter table t drop column c; create table n(id integer primary key); alter table t add column c text; alter "
     "table p rename to pp",
     1, 2},
    {"several changes of others, values in place", BASE "; create table p(id integer primary key)",
     "vacuum; vacuum; analyze; alter table p add column x; alter table p add column y", 0, 1},
    {"and a write: a unique index may have come and gone", BASE "; create table p(id integer primary key)",
     "vacuum; vacuum; analyze; alter table p add column x; alter table p add column y; update t set a='m' where id=1", 1, 1},
    {"an empty column is copied when in doubt", "create table t(id integer primary key, a text, z); insert into t values(1,'x',null)",
     "vacuum; vacuum", 1, 0},
    {"names exchanged", BASE "; create table u(id integer primary key, z); insert into u values(1,1)",
     "alter table t rename to tmp; alter table u rename to t; alter table tmp rename to u; insert into t values(2,2)", 1, 2},
};

static void later_changes_are_captured(struct feed *f, const char *what) {
    sqlite3_stmt *st;
    feed_forget(f);
    sqlite3_prepare_v2(f->app, "select name from sqlite_schema where type='table' and name not like 'sqlite%' and name not like 'sluice%'",
                       -1, &st, NULL);
    char all[2048] = "";
    while (sqlite3_step(st) == SQLITE_ROW)
        snprintf(all + strlen(all), sizeof all - strlen(all), "delete from \"%s\" where rowid in (select rowid from \"%s\" limit 1);",
                 sqlite3_column_text(st, 0), sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    app(f, all);
    feed_tick(f);
    ok(feed_same(f) && f->missing == 0 && f->shapes == 0, "%s: what comes later is captured", what);
}

int main(void) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct try *c = &cases[i];
        struct feed f = {0};
        feed_begin(&f, c->base);
        app(&f, c->sql);
        feed_tick(&f);
        bool same = feed_same(&f);
        ok(same && f.missing == 0, "%s", c->what);
        is_int(f.truncates, c->copies, c->what);
        is_int(f.shapes, c->shapes, c->what);
        later_changes_are_captured(&f, c->what);
        feed_end(&f);
    }
    return done_testing();
}
