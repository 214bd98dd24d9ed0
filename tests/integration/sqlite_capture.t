#!/bin/bash
# Capture on SQLite: whatever an application does with its tables arrives exactly, and capture never makes a statement of the application fail.
. "$(dirname "$0")/../lib/lib.sh"
S=$T/app.db C=$T/chain R=$T/copy.db
SRC="--source-driver sqlite --source $S --output-dir $C"
# scene SQL: a new source with that, a full, a restore; then `follow` brings what happened since
scene() {
    rm -rf "$S" "$S"-* "$C" "$R" "$R"-* "$SLUICE_CONTROL"*
    q "$S" "pragma journal_mode = wal; $1" >/dev/null
    done_ok backup full $SRC --chain-slot >/dev/null || return 1
    done_ok restore --from-dir "$C" --target-driver sqlite --target "$R" || return 1
    done_ok sync from-backup run --backup-dir "$C" --target-driver sqlite --target "$R" --stream-id s --at-chain-id restore --once
}
app() { q "$S" "$1" >/dev/null; }
follow() {
    done_ok backup incremental $SRC "$@" || return 1
    done_ok sync from-backup run --backup-dir "$C" --target-driver sqlite --target "$R" --stream-id s --once || return 1
    same_all "$S" "$R" || return 1
    # and by the other route
    rm -f "$T/again.db"*
    SLUICE_CONTROL=$T/again-control.db "$SLUICE" restore --from-dir "$C" --target-driver sqlite --target "$T/again.db" >"$T/again.out" 2>&1 || { cat "$T/again.out"; return 1; }
    same_all "$S" "$T/again.db" || { echo "(by restore)"; return 1; }
}
KEYED="create table t(id integer primary key, k text unique, v not null default 'dflt', w text); insert into t values (1,'a',1,'x'),(2,'b',2,'y'),(3,'c',3,'z'),(4,null,4,null)"

for recursive in off on; do
    P="pragma recursive_triggers = $recursive;"
    test_it "INSERT OR REPLACE that displaces by the key and by another unique key (recursive_triggers $recursive)" '
        scene "$KEYED"
        app "$P insert or replace into t values (1, '\''b'\'', 9, '\''both'\'')"; follow
        app "$P insert or replace into t(id, k) values (5, '\''c'\'')"; follow
        app "$P replace into t values (5, '\''c'\'', 1, null)"; follow'
    test_it "UPDATE OR REPLACE that displaces another row (recursive_triggers $recursive)" '
        scene "$KEYED"
        app "$P update or replace t set k = '\''c'\'', v = 99 where id = 1"; follow
        app "$P update or replace t set id = 2 where id = 1"; follow'
    test_it "UPSERT and OR IGNORE (recursive_triggers $recursive)" '
        scene "$KEYED"
        app "$P insert into t values (1, '\''n'\'', 5, null) on conflict(id) do update set v = excluded.v, w = '\''upserted'\''"; follow
        app "$P insert into t values (7, '\''b'\'', 5, null) on conflict(k) do update set id = 70"; follow
        app "$P insert or ignore into t values (1, '\''zz'\'', 0, 0), (8, '\''h'\'', 0, 0)"; follow
        app "$P update or ignore t set k = '\''h'\''"; follow'
    test_it "NULL into NOT NULL DEFAULT under OR REPLACE (recursive_triggers $recursive)" '
        scene "create table d(id integer primary key, u text not null default '\''std'\'' unique, n int); insert into d values (1, '\''std'\'', 1), (2, '\''q'\'', 2)"
        app "$P insert or replace into d values (3, null, 3)"; follow
        app "$P update or replace d set u = null where id = 2"; follow'
done

test_it 'WITHOUT ROWID with a key out of order, and a key column that may be NULL' '
    scene "create table w(v text, b int, a text, primary key(a, b)) without rowid; create table n(k text primary key, v int); insert into n values (null, 1), (null, 1), ('\''k'\'', 2)"
    app "insert into w values ('\''one'\'', 1, '\''p'\''), ('\''two'\'', 2, '\''p'\''); update w set b = 3, v = '\''two!'\'' where b = 2; delete from w where b = 1"
    app "insert into n values (null, 2); update n set v = 9 where k is null and v = 1"; follow'

test_it 'VACUUM renumbers rowids and nothing is lost' '
    scene "create table a(x text, b int); insert into a values ('\''x'\'', 1), ('\''x'\'', 1), ('\''y'\'', 2); create table k(id text primary key, v); insert into k values ('\''p'\'', 1), ('\''q'\'', 2), ('\''r'\'', 3); delete from a where x = '\''y'\''; delete from k where id = '\''p'\''"
    app "vacuum"; app "delete from a where rowid = (select max(rowid) from a); update a set b = b + 1; update k set v = 7 where id = '\''r'\''"; follow
    app "vacuum"; follow'

test_it 'ADD, DROP and RENAME COLUMN between ticks' '
    scene "$KEYED"
    app "insert into t values (10, '\''before'\'', 1, null); alter table t add column added text default '\''const'\''; insert into t(id, added) values (11, '\''set'\'')"; follow
    app "alter table t rename column w to w2; update t set w2 = '\''renamed'\'' where id = 1"; follow
    app "alter table t drop column added; update t set v = 5 where id = 2"; follow'

test_it 'DROP INDEX and CREATE UNIQUE INDEX between ticks' '
    scene "create table t(id integer primary key, a int, b int); create unique index t_a on t(a); insert into t values (1, 1, 1), (2, 2, 2)"
    app "drop index t_a; insert into t values (3, 1, 3)"; follow
    app "update t set a = id; create unique index t_b on t(b); insert or replace into t values (9, 9, 1)"; follow'

test_it 'a new table is copied and armed, a dropped one goes, a renamed one is the same' '
    scene "$KEYED"
    app "create table later(id integer primary key, v); insert into later values (1, 2)"; follow
    app "insert into later values (2, 3); update later set v = 0 where id = 1"; follow
    app "alter table later rename to after_; insert into after_ values (3, 3)"; follow
    app "create table gone(id integer primary key); insert into gone values (1)"; follow
    app "drop table gone"; done_ok backup incremental $SRC; done_ok sync from-backup run --backup-dir $C --target-driver sqlite --target $R --stream-id s --once
    same_rows $S $R t after_'

test_it 'unique indexes that are partial or on an expression, generated columns' '
    scene "create table p(id integer primary key, a int, b text, g generated always as (a * 2) stored); create unique index p_part on p(a) where b is not null; create unique index p_expr on p(lower(b)); insert into p(id, a, b) values (1, 1, '\''A'\''), (2, 1, null)"
    app "insert or replace into p(id, a, b) values (3, 9, '\''a'\'')"; follow
    app "insert or replace into p(id, a, b) values (4, 9, '\''other'\''); update p set a = a + 1"; follow'

test_it 'collations: NOCASE and RTRIM keys displace as SQLite compares' '
    scene "create table c(k text collate nocase primary key, v text collate rtrim unique); insert into c values ('\''Key'\'', '\''val'\''), ('\''two'\'', '\''x '\'')"
    app "insert or replace into c values ('\''KEY'\'', '\''new'\'')"; follow
    app "insert or replace into c values ('\''three'\'', '\''x'\'')"; follow
    app "update c set k = upper(k)"; follow'

test_it 'every storage class in every kind of column' '
    scene "create table v(id integer primary key, a, b text, c numeric, d real, e blob, f int)"
    app "insert into v values (1, null, null, null, null, null, null), (2, 9007199254740993, '\''007'\'', '\''1e3'\'', 0.1, x'\''00ff00'\'', '\''abc'\''),
         (3, 9e999, '\'''\'', '\''1.10'\'', -9e999, '\'''\'', 1.5), (4, -9223372036854775808, '\''a'\'' || char(0) || '\''b'\'', 1e300, '\''text'\'', 12, x'\''01'\''), (9223372036854775807, x'\'''\'', x'\''6162'\'', 2, 2, 2.5, 2)"
    follow
    app "update v set a = '\''now text'\'' where id = 2; update v set b = b where id = 4; delete from v where id = 1"; follow'

test_it 'names that need quoting' '
    scene "create table \"Order Items\"(\"Id\" integer primary key, \"select\" text, \"a\"\"b\" text, \"x.y\" int, \"日本\" int); insert into \"Order Items\" values (1, 2, 3, 4, 5)"
    app "insert into \"Order Items\" values (2, '\''s'\'', '\''q'\'', 5, 6); update \"Order Items\" set \"a\"\"b\" = '\''q2'\''"
    done_ok backup incremental $SRC; done_ok sync from-backup run --backup-dir $C --target-driver sqlite --target $R --stream-id s --once
    is "$(q $R "select * from \"Order Items\"")" "$(q $S "select * from \"Order Items\"")"'

test_it 'foreign keys that cascade, and triggers of the application, fire once' '
    scene "create table p(id integer primary key, n int default 0); create table c(id integer primary key, pid int references p(id) on delete cascade on update cascade);
           create trigger cnt after insert on c begin update p set n = n + 1 where id = new.pid; end; insert into p(id) values (1), (2)"
    app "pragma foreign_keys = on; insert into c values (10, 1), (11, 1), (12, 2); update p set id = 20 where id = 2; delete from p where id = 1"; follow'

test_it 'a row that came and went, a key that moved and came back' '
    scene "$KEYED"
    app "insert into t(id, k) values (50, '\''p'\''); delete from t where id = 50; update t set id = 60 where id = 1; update t set id = 1 where id = 60"; follow
    app "begin; delete from t; insert into t values (1, '\''c'\'', 0, 0), (3, '\''a'\'', 0, 0); commit"; follow
    app "begin; update t set k = '\''tmp'\'' where id = 1; update t set k = '\''c'\'' where id = 3; update t set k = '\''a'\'' where id = 1; commit"; follow'

test_it 'a rolled back transaction leaves nothing' '
    scene "$KEYED"
    app "begin; insert into t(id) values (90); delete from t where id < 3; rollback"; follow
    app "begin; savepoint a; update t set v = 0; rollback to a; insert into t(id) values (91); commit"; follow'

test_it 'DELETE without a WHERE (the truncate optimisation) is seen' '
    scene "$KEYED; create table nokey(a); insert into nokey values (1), (1)"
    app "delete from t; delete from nokey"; follow
    app "insert into t(id) values (1); insert into nokey values (3)"; follow'

test_it 'AUTOINCREMENT goes on above what the source gave out' '
    scene "create table s(id integer primary key autoincrement, v); insert into s(v) values (1), (2), (3)"
    app "insert into s(v) values (4), (5); delete from s where id = 5"; follow
    q $R "insert into s(v) values (0)"; [ "$(q $R "select max(id) from s")" -gt 5 ]'

test_it 'STRICT tables' '
    scene "create table st(id integer primary key, i int, r real, x text, b blob, a any) strict; insert into st values (1, 1, 1, '\''1'\'', x'\''01'\'', '\''1'\'')"
    app "insert into st values (2, null, 2.5, '\''t'\'', x'\'''\'', 1); update st set a = x'\''ff'\'' where id = 1"; follow'

test_it 'an AFTER trigger of the application that ignores or fails: the row it leaves is told' '
    scene "$KEYED"
    app "create trigger ign after insert on t when new.v = 7 begin select raise(ignore); end; insert into t(id, v) values (70, 7), (71, 8)"; follow
    app "insert into t(id, v) values (72, 7), (73, 8)"; follow
    app "create trigger mov after update on t when new.v = 9 begin select raise(ignore); end; update t set id = 700, v = 9 where id = 70"; follow
    app "create trigger fl after insert on t when new.v = 5 begin select raise(fail, '\''no'\''); end"
    fails app "insert into t(id, v) values (74, 5)"; follow
    fails app "insert into t(id, v) values (75, 5)"; follow
    is "$(q $R "select group_concat(id) from (select id from t where id > 60 order by id)")" 71,72,73,74,75,700'

test_it 'the same for a table without a key' '
    scene "create table n(a, b); insert into n values (1, 1)"
    app "create trigger ign after insert on n begin select raise(ignore); end; insert into n values (2, 2)"; follow
    app "insert into n values (3, 3)"; follow
    app "create trigger gone after delete on n begin select raise(ignore); end; delete from n where a = 1"; follow'

test_it 'a unique index that came, displaced a row by REPLACE and went between two ticks' '
    scene "$KEYED"
    app "create unique index tmp on t(w); insert or replace into t(id, w) values (50, '\''x'\''); drop index tmp"; follow'

test_it 'a log that many ticks consumed does not grow without bound' '
    scene "$KEYED"
    for i in 1 2 3 4 5; do app "update t set v = $i; insert into t(id) values ($((100 + i)))"; follow; done
    [ "$(q $S "select count(*) from sluice_log")" -le 20 ]'

done_testing
