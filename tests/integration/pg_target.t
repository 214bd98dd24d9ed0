#!/bin/bash
# What a PostgreSQL target may do to a chain's changes: conflicts, keys, shapes and collations that would lose or merge rows are refused by their marker,
# and the stream goes on when the remedy was applied.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
need_pg
servers=$ROOT/tests/servers/pg.sh
n=0
src() { S=$(pg_db "$PG_A" "$1"); export SLUICE_SOURCE=$S; C=$T/chain-$1; SLOT=s_$1_$$; export SLUICE_CONTROL=$T/$1.db; }
full() { run backup full --source-driver postgres --output-dir "$C" --chain-slot --slot-name "$SLOT" "$@"; }
full_ok() { full "$@"; [ "$rc" = 0 ] || { say_run full; return 1; }; }
full_ends() { local want=$1 text=$2; shift 2; ends "$want" "$text" backup full --source-driver postgres --output-dir "$C" --chain-slot --slot-name "$SLOT" "$@"; }
incr() { done_ok backup incremental --source-driver postgres --output-dir "$C"; }
incr_ends() { ends "$1" "$2" backup incremental --source-driver postgres --output-dir "$C"; }
clean() { # nothing was made on the source or in the store
    is "$(q "$S" "select (select count(*) from pg_publication) + (select count(*) from pg_replication_slots where database = current_database())")" 0 && [ ! -e "$C/lineage.json" ]
}
keyed() { q "$S" "create table t(id int primary key, v int); insert into t values (1, 1), (2, 2)"; }
port_of() { perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1", LocalPort => 0); print $s->sockport'; }

target() { D=$(pg_db "$PG_B" "$1"); export SLUICE_TARGET=$D; }
restore_ends() { local want=$1 text=$2; shift 2; ends "$want" "$text" restore --from-dir "$C" --target-driver postgres "$@"; }
broker() { done_ok sync from-backup run --backup-dir "$C" --target-driver postgres --stream-id b --once "$@"; }
broker_ends() { local want=$1 text=$2; shift 2; ends "$want" "$text" sync from-backup run --backup-dir "$C" --target-driver postgres --stream-id b --once "$@"; }
marker() { is "$(q "$SLUICE_CONTROL" "select coalesce(sub, marker) from refusals where name = 'b' order by since desc limit 1")" "$1"; }
following() { src "$1"; q "$S" "$2"; full_ok && target "$1" && broker --reset-target-data --yes; }

test_it 'a target table with rows, or of another shape, is refused before anything changes' '
    src filled; keyed; q $S "create table u(id int primary key)"; full_ok
    target filled; q $D "create table u(id int primary key); insert into u values (1)"; restore_ends 3 "u.*rows"; is "$(echo $(tables $D))" u
    target shape; q $D "create table u(id smallint primary key)"; restore_ends 3 "\\bu\\b"; is "$(echo $(tables $D))" u'
test_it 'a target role without privileges: the GRANT is named' '
    src tpriv; keyed; full_ok; target tpriv; pg_role $PG_B tpriv_$$ ""
    SLUICE_TARGET=$(as_role $D tpriv_$$) restore_ends 3 "tpriv_$$|permission"; err_has "GRANT"; is "$(tables $D)" ""'
test_it 'KEY-SCOPED-WRITE-MATCHED-MULTIPLE-ROWS' '
    following many "create table t(id int primary key, v int); insert into t values (1, 1), (2, 2)"
    q $D "alter table t drop constraint t_pkey; insert into t values (1, 10)"; q $S "update t set v = 5 where id = 1"; incr
    broker_ends 3 "more than one|no key|primary|unique"; is "$(q $D "select count(*) from t where v = 5")" 0
    sqlite3 $SLUICE_CONTROL "select marker from refusals" | grep -Eq "KEY-SCOPED-WRITE-MATCHED-MULTIPLE-ROWS|RESUME-SCHEMA-DIVERGENCE"'
test_it 'SOURCE-UNIQUE-KEY-ABSENT' '
    following absent "create table t(id int primary key, v int); insert into t values (1, 1)"
    q $D "create unique index only_here on t(v)"; q $S "insert into t values (2, 1)"; incr
    broker_ends 3 "only_here"; marker SOURCE-UNIQUE-KEY-ABSENT
    q $D "drop index only_here"; broker; same_all $S $D'
test_it 'UNIQUE-KEY-CONFLICT-OTHER-ROW: a row of somebody else holds the value' '
    following conflict "create table t(id int primary key, u text unique); insert into t values (1, '\''a'\'')"
    q $D "insert into t values (99, '\''b'\'')"; q $S "insert into t values (2, '\''b'\'')"; incr
    broker_ends 3 "unique|t_u_key"; marker UNIQUE-KEY-CONFLICT-OTHER-ROW
    q $D "delete from t where id = 99"; broker; same_all $S $D'
test_it 'values of a unique key that move between rows inside one transaction, and across them, go through' '
    following swap "create table t(id int primary key, u text unique deferrable initially deferred, w int unique); insert into t select i, '\''u'\'' || i, i from generate_series(1, 9) i"
    q $S "begin; update t set u = '\''tmp'\'' where id = 1; update t set u = '\''u1'\'' where id = 2; update t set u = '\''u2'\'' where id = 1; commit; delete from t where id = 3; insert into t values (30, '\''u3'\'', 3)"; incr
    broker; same_all $S $D
    q $S "begin; update t set w = -w where id in (4, 5); update t set w = 5 where id = 4; update t set w = 4 where id = 5; commit; begin; update t set id = -6 where id = 6; update t set id = 6 where id = 7; update t set id = 7 where id = -6; commit"; incr
    broker; same_all $S $D'
test_it 'RESUME-SCHEMA-DIVERGENCE' '
    following diverge "create table t(id int primary key, v int)"
    q $D "alter table t drop column v"; q $S "insert into t values (1, 1)"; incr; broker_ends 3 "\\bv\\b"; marker RESUME-SCHEMA-DIVERGENCE
    q $D "alter table t add v int"; broker; same_all $S $D'
test_it 'COLUMN-ORDER-CHANGED: two columns change names' '
    following order "create table t(id int primary key, a int, b int); insert into t values (1, 10, 20)"
    q $S "alter table t rename a to x; alter table t rename b to a; alter table t rename x to b; insert into t values (2, 1, 2)"; run backup incremental --source-driver postgres --output-dir $C
    if [ $rc = 0 ]; then run sync from-backup run --backup-dir $C --target-driver postgres --stream-id b --once; if [ $rc = 0 ]; then same_all $S $D; else is $rc 3; err_has "COLUMN-ORDER-CHANGED"; fi; else is $rc 3; err_has "COLUMN-ORDER-CHANGED"; fi'
test_it 'SCHEMA-CHANGE-REFUSED: a change that rewrites values' '
    following rewrite "create table t(id int primary key, a int, b text); insert into t values (1, 5, '\''007'\'')"
    q $S "alter table t alter b type int using b::int; insert into t values (2, 6, 8)"
    ends 3 "written anew.*\\bb\\b" backup incremental --source-driver postgres --source $S --output-dir $C; err_has SCHEMA-CHANGE-REFUSED
    is "$(q $D "select id, a, b from t")" "1|5|007"'
test_it 'KEY-COLLATION-MERGE and -GUARD-UNSUPPORTED: a target key that takes two values for equal' '
    src coll; q $S "create table t(k text primary key, v int); insert into t values ('\''a'\'', 1)"; full_ok
    target coll; q $D "create collation ci (provider = icu, locale = '\''und-u-ks-level2'\'', deterministic = false); create table t(k text collate ci primary key, v int)"
    restore_ends 3 "\\bk\\b"; err_has "KEY-COLLATION"
    is "$(q $D "select count(*) from t")" 0
    src ndet; q $S "create collation ci (provider = icu, locale = '\''und-u-ks-level2'\'', deterministic = false); create table t(k text collate ci primary key, v int); insert into t values ('\''a'\'', 1)"; full_ok
    ends 3 "KEY-COLLATION-GUARD-UNSUPPORTED" restore --from-dir $C --target-driver sqlite --target $T/ndet.db'
test_it 'DEFERRED-KEY-CHECK-FAILED-AT-COMMIT: a deferred constraint of the target refuses' '
    following deferred "create table t(id int primary key, v int); insert into t values (1, 1)"
    q $D "create table lim(v int primary key); insert into lim values (1); alter table t add constraint t_lim foreign key (v) references lim deferrable initially deferred"
    pg_role $PG_B deferred_$$ ""; q $D "grant create, usage on schema public to deferred_$$; alter table t owner to deferred_$$; grant select, references on lim to deferred_$$; do \$\$ declare r record; begin for r in select tablename from pg_tables where tablename like '\''sluice%'\'' loop execute format('\''alter table %I owner to deferred_$$'\'', r.tablename); end loop; end \$\$"
    q $S "insert into t values (2, 777)"; incr
    SLUICE_TARGET=$(as_role $D deferred_$$); run sync from-backup run --backup-dir $C --target-driver postgres --stream-id b --once
    isnt $rc 0; err_has "DEFERRED-KEY-CHECK-FAILED-AT-COMMIT|t_lim"; is "$(q $D "select count(*) from t where id = 2")" 0
    q $D "insert into lim values (777)"; SLUICE_TARGET=$(as_role $D deferred_$$); broker; same_rows $S $D t'
test_it 'a second consumer with another target under the same stream-id, and fencing by the epoch' '
    following fence "create table t(id int primary key); insert into t values (1)"
    e=$(q $D "select epoch from sluice_cdc_state where stream_id = '\''b'\''")
    spawn older sync from-backup run --backup-dir $C --target-driver postgres --stream-id b --poll-interval 200ms
    wait_for 15 "[ \$(q $D \"select epoch from sluice_cdc_state where stream_id = '\''b'\''\") -gt $e ]"
    SLUICE_CONTROL=$T/fence2.db; export SLUICE_CONTROL
    q $S "insert into t values (2)"; incr; run sync from-backup run --backup-dir $C --target-driver postgres --stream-id b --once
    echo "second: $rc"; cat $T/err; second=$rc
    q $S "insert into t values (3)"; incr
    wait_for 20 "[ -f $T/older.rc ] || [ \$(q $D \"select count(*) from t\") = 3 ]"
    if [ -f $T/older.rc ]; then is "$(cat $T/older.rc)" 3; else stop_of older; gone older 0 && is $second 3; fi
    target fence3; SLUICE_TARGET=$D broker_ends 3 "another target" --reset-target-data --yes'
done_testing
