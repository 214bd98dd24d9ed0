/* What the application writes is what the stream tells: one claim a statement, each with recursive_triggers on and off. */
#include "tests/unit/drivers/sqlite/feed.h"

struct try {
    const char *what, *table, *rows, *sql;
};
static const struct try matrix[] = {
    {"insert", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "insert into t values(4,'d',4)"},
    {"insert or replace on the key", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "insert or replace into t values(2,'z',9)"},
    {"insert or replace on a unique column", "create table t(id integer primary key, k text unique, v int)",
     "(1,'a',1),(2,'b',2),(3,'c',3)", "insert or replace into t(k,v) values('b',9)"},
    {"insert or replace displaces two rows", "create table t(id integer primary key, k text unique, v int)",
     "(1,'a',1),(2,'b',2),(3,'c',3)", "insert or replace into t values(1,'c',9)"},
    {"insert or replace displaces by three keys", "create table t(id integer primary key, k text unique, v int unique)",
     "(1,'a',1),(2,'b',2),(3,'c',3)", "insert or replace into t values(1,'b',3)"},
    {"update or replace", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "update or replace t set k='c', v=99 where id=1"},
    {"update or replace of the key", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "update or replace t set id=3 where id=1"},
    {"update or replace of many", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "update or replace t set k='same'"},
    {"update or replace shifting keys", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "update or replace t set id=id+1"},
    {"insert or ignore", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "insert or ignore into t values(1,'q',5),(9,'b',5),(10,'n',5)"},
    {"update or ignore", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "update or ignore t set k='b', v=7"},
    {"upsert that updates", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "insert into t values(2,'y',5),(7,'q',7) on conflict(id) do update set v=excluded.v"},
    {"upsert that does nothing", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "insert into t values(2,'y',5) on conflict do nothing"},
    {"upsert on a unique column moving the key", "create table t(id integer primary key, k text unique, v int)",
     "(1,'a',1),(2,'b',2),(3,'c',3)", "insert into t values(20,'b',5) on conflict(k) do update set id=excluded.id"},
    {"insert or fail keeps what went before", "create table t(id integer primary key, k text unique, v int)",
     "(1,'a',1),(2,'b',2),(3,'c',3)", "insert or fail into t values(4,'d',4),(1,'x',1),(5,'e',5)"},
    {"a statement that is rolled back", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2),(3,'c',3)",
     "insert into t values(4,'d',4),(1,'x',1)"},
    {"insert, then delete", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1)",
     "insert into t values(4,'d',4); delete from t where id=4"},
    {"delete, then insert", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1)",
     "delete from t where id=1; insert into t values(1,'z',4)"},
    {"delete, insert, delete", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1)",
     "delete from t where id=1; insert into t values(1,'z',4); delete from t"},
    {"unique values swapped", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2)",
     "update t set k='tmp' where id=1; update t set k='a' where id=2; update t set k='b' where id=1"},
    {"keys swapped", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2)",
     "update t set id=9 where id=1; update t set id=1 where id=2; update t set id=2 where id=9"},
    {"delete without where", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1),(2,'b',2)", "delete from t"},
    {"rolled back transaction", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1)",
     "begin; delete from t; insert into t values(5,'e',5); rollback"},
    {"savepoint rolled back", "create table t(id integer primary key, k text unique, v int)", "(1,'a',1)",
     "begin; insert into t values(5,'e',5); savepoint s; delete from t; rollback to s; commit"},
    {"null becomes a default", "create table t(id integer primary key, k text not null default 'b' unique, v int)", "(1,'a',1),(2,'b',2)",
     "insert or replace into t values(7,null,7)"},
    {"null becomes a default by update", "create table t(id integer primary key, k text not null default 'b' unique, v int)",
     "(1,'a',1),(2,'b',2)", "update or replace t set k=null where id=1"},
    {"null becomes a number in a text column", "create table t(id integer primary key, k text not null default 5 unique, v int)",
     "(1,'a',1),(2,'5',2)", "insert or replace into t values(7,null,7)"},
    {"null becomes a double-quoted default", "create table t(id integer primary key, k text not null default \"b\" unique, v int)",
     "(1,'a',1),(2,'b',2)", "insert or replace into t values(7,null,7)"},
    {"null becomes a default that nobody foresees",
     "create table t(id integer primary key, k text not null default (lower('B')) unique, v int)", "(1,'a',1),(2,'b',2)",
     "insert or replace into t values(7,null,7)"},
    {"omitted column takes its default", "create table t(id integer primary key, k text not null default 'b' unique, v int)",
     "(1,'a',1),(2,'b',2)", "insert or replace into t(id) values(7)"},
    {"column conflict clauses", "create table t(id integer primary key on conflict replace, k text unique on conflict replace, v int)",
     "(1,'a',1),(2,'b',2),(3,'c',3)", "insert into t values(1,'b',9); update t set k='c' where id=1"},
    {"without rowid, key out of order", "create table t(v text, b int, a text, primary key(a,b)) without rowid",
     "('one',1,'p'),('two',2,'p')", "update t set b=3,v='two!' where b=2; insert or replace into t values('new',1,'p')"},
    {"without rowid, unique column", "create table t(a text primary key, b int unique, v) without rowid", "('x',1,1),('y',2,2),('z',3,3)",
     "insert or replace into t values('x',2,9); update or replace t set b=3"},
    {"nocase key, case changed", "create table t(k text collate nocase not null primary key, v int)", "('ab',1),('cd',2)",
     "update t set k='AB' where k='ab'; insert or replace into t values('CD',9)"},
    {"nocase unique column", "create table t(id integer primary key, k text collate nocase unique, v int)", "(1,'ab',1),(2,'cd',2)",
     "insert or replace into t values(3,'AB',9)"},
    {"index with another collation than its column",
     "create table t(id integer primary key, k text, v int); create unique index u on t(k collate nocase)", "(1,'ab',1),(2,'cd',2)",
     "insert or replace into t values(3,'AB',9); update or replace t set k='Ab' where id=2"},
    {"nocase column under a binary index",
     "create table t(id integer primary key, k text collate nocase, v int); create unique index u on t(k collate binary)",
     "(1,'ab',1),(2,'AB',2)", "update or replace t set k='AB' where id=1"},
    {"rtrim key", "create table t(k text collate rtrim not null primary key, v int)", "('ab',1),('cd',2)",
     "insert or replace into t values('ab  ',9)"},
    {"untyped key: 1, 1.0 and '1'", "create table t(k not null primary key, v int)", "(1,1),('1',2),(x'31',3)",
     "insert or replace into t values(1.0,9); update t set v=7 where k='1'"},
    {"real key", "create table t(k real not null primary key, v int)", "(1,1),(2.5,2)",
     "update t set v=8 where k=1; update t set k=3 where k=2.5; delete from t where k=1.0"},
    {"numeric key holding text and numbers", "create table t(k numeric not null primary key, v int)", "(1,1),('x',2),(2.5,3)",
     "update t set v=8; update t set k='y' where k='x'; update t set k='1e3' where k=2.5"},
    {"composite key", "create table t(a int not null, b text not null, v, primary key(a,b))", "(1,'x',1),(1,'y',2),(2,'x',3)",
     "update t set a=2 where b='y'; insert or replace into t values(2,'x',9)"},
    {"identity by a unique index", "create table t(k text not null, v int); create unique index u on t(k)", "('a',1),('b',2)",
     "insert or replace into t values('a',9); update t set k='c' where k='b'"},
    {"primary key with NULLs", "create table t(k text primary key, v int)", "(null,1),(null,2),('k',3)",
     "insert into t values(null,1); update t set v=v+1; delete from t where v=2"},
    {"no key", "create table t(a text, b int)", "('x',1),('x',1),('y',2)",
     "delete from t where rowid=(select max(rowid) from t where a='x'); update t set b=b+1; insert into t values('x',2)"},
    {"partial unique index", "create table t(id integer primary key, k text, v int); create unique index u on t(k) where v>0",
     "(1,'a',1),(2,'b',0)", "insert or replace into t values(3,'a',5)"},
    {"unique index on an expression", "create table t(id integer primary key, k text); create unique index u on t(lower(k))",
     "(1,'a'),(2,'b')", "insert or replace into t values(3,'A')"},
    {"unique generated column", "create table t(id integer primary key, k text, g text as (lower(k)) unique)", "(1,'a'),(2,'b')",
     "insert or replace into t(id,k) values(3,'A')"},
    {"names that need quoting", "create table t(\"id\"\"x\" integer primary key, \"select\" text unique, [a b] int)", "(1,'a',1),(2,'b',2)",
     "insert or replace into t values(3,'a',5)"},
    {"every storage class in every column",
     "create table t(id integer primary key, a int, b text, c blob, d real, e numeric, f date, g boolean, h, i json, j uuid, k datetime)",
     "(1,1,'t',x'00ff',1.5,2,'2026-01-01',1,null,'{}','00000000-0000-0000-0000-000000000001','2026-01-01 00:00:00')",
     "insert into t values(2,'x',x'00',1,'r','n',5,'maybe','a'||char(0)||'b','{',x'01',1.25);"
     "insert into t values(3,9223372036854775807,cast(x'ff' as text),1.5,9e999,-9e999,2.5,2,0.1,1,2,3); update t set h=9007199254740993.0 "
     "where id=1"},
    {"long values", "create table t(id integer primary key, a, b)", "(1,1,1)",
     "insert into t values(2,zeroblob(300000),hex(zeroblob(300000)))"},
};

static void run(const struct try *c, bool recursive, size_t max_bytes) {
    struct feed f = {.max_bytes = max_bytes};
    char sql[2048];
    snprintf(sql, sizeof sql, "%s; insert into t%s values%s", c->table, strstr(c->what, "generated") ? "(id,k)" : "", c->rows);
    feed_begin(&f, sql);
    app(&f, recursive ? "pragma recursive_triggers=on" : "pragma recursive_triggers=off");
    app_try(&f, c->sql);
    feed_tick(&f);
    bool same = feed_same(&f);
    ok(same && f.missing == 0, "%s%s%s", c->what, recursive ? ", recursive triggers" : "", max_bytes < 1000 ? ", small batches" : "");
    if (same && f.missing) note("%d deletes found no row", f.missing);
    feed_end(&f);
}

/* The same writes without us: capture must not change what the application gets. */
static void same_outcome(const struct try *c) {
    char sql[2048], *want = NULL, *have = NULL;
    snprintf(sql, sizeof sql, "%s; insert into t%s values%s", c->table, strstr(c->what, "generated") ? "(id,k)" : "", c->rows);
    for (int captured = 0; captured < 2; captured++) {
        struct feed f = {0};
        sqlite3_stmt *st;
        if (captured) feed_begin(&f, sql);
        else feed_file(&f, sql);
        int rc = app_try(&f, c->sql);
        char *out = sqlite3_mprintf("%d", rc);
        sqlite3_prepare_v2(f.app, "select * from t order by 1, 2", -1, &st, NULL);
        while (sqlite3_step(st) == SQLITE_ROW)
            for (int i = 0; i < sqlite3_column_count(st); i++) {
                char *more = sqlite3_mprintf("%s|%d:%.40s", out, sqlite3_column_type(st, i), sqlite3_column_text(st, i));
                sqlite3_free(out);
                out = more;
            }
        sqlite3_finalize(st);
        *(captured ? &have : &want) = out;
        feed_end(&f);
    }
    is_str(have, want, c->what);
    sqlite3_free(want);
    sqlite3_free(have);
}

int main(void) {
    for (size_t i = 0; i < sizeof matrix / sizeof matrix[0]; i++) {
        run(&matrix[i], false, 64 * 1024);
        run(&matrix[i], true, 64 * 1024);
        run(&matrix[i], false, 1);
        same_outcome(&matrix[i]);
    }
    return done_testing();
}
