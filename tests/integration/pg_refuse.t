#!/bin/bash
# Every way in which a PostgreSQL source or target may not fit: the code, what the message names, the exit code, and that nothing was changed.
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

test_it 'an unreachable server is exit code 1; a wrong password and an unknown database never print the DSN' '
    src none; p=$(port_of)
    SLUICE_SOURCE=postgresql://postgres:Kq7-Zebra-91@127.0.0.1:$p/x full_ends 1 "127.0.0.1|refused|connect"
    SLUICE_SOURCE=${S/Kq7-Zebra-91/Wm4-Otter-38} full; isnt $rc 0; err_has "password"
    SLUICE_SOURCE=$PG_A/nosuchdb full; isnt $rc 0; err_has "nosuchdb"'
test_it 'a malformed DSN is exit code 2' '
    src dsn
    SLUICE_SOURCE="postgresql://u:Kq7-Zebra-91@h:port/x" full_ends 2 "DSN|port"
    SLUICE_SOURCE="nonsense" full_ends 2 "DSN"'
test_it 'a table without a replica identity is refused before anything is made, with both ways out' '
    src ident; keyed; q $S "create table nokey(a int); create table nothing(id int primary key); alter table nothing replica identity nothing"
    full_ends 3 "nokey"; err_has "REPLICA IDENTITY" && err_has "exclude-table"; clean
    full_ends 3 "nothing" --exclude-table nokey; clean
    full_ok --exclude-table nokey,nothing
    q $S "insert into nokey values (1); delete from nokey"'
test_it 'every leaf of a partitioned table is looked at' '
    src leaf; q $S "create table t(id int, ts date not null) partition by range (ts); create table t1 partition of t for values from ('\''2024-01-01'\'') to ('\''2025-01-01'\''); alter table t replica identity full"
    full_ends 3 "t1"; clean'
test_it 'wal_level below logical' '
    d=$T/low; mkdir -p $d; chmod 755 $T $d; p=$(port_of)
    PG_WAL_LEVEL=replica $servers start low $d $p >/dev/null
    psql -XAtq "$($servers socket low $d)" -c "alter role postgres password '\''Kq7-Zebra-91'\''; create table t(id int primary key)"
    src low; SLUICE_SOURCE=postgresql://postgres:Kq7-Zebra-91@127.0.0.1:$p/postgres
    full_ends 3 "wal_level" || bad=1
    done_ok backup full --source-driver postgres --output-dir $C || bad=1
    $servers stop low $d
    [ -z "${bad:-}" ]'
test_it 'no free replication slot: its marker, and a restart may clear it' '
    d=$T/few; mkdir -p $d; chmod 755 $T $d; p=$(port_of)
    PG_SLOTS=1 $servers start few $d $p >/dev/null
    psql -XAtq "$($servers socket few $d)" -c "alter role postgres password '\''Kq7-Zebra-91'\''; create table t(id int primary key)"
    psql -XAtq "$($servers socket few $d)" -c "select pg_create_logical_replication_slot('\''taken'\'', '\''pgoutput'\'')"
    src few; SLUICE_SOURCE=postgresql://postgres:Kq7-Zebra-91@127.0.0.1:$p/postgres
    full; echo "exit $rc"; cat $T/err
    { [ $rc = 1 ] || [ $rc = 3 ]; } && grep -q "SLUICE-E-CDC-REPLICATION-HEADROOM" $T/err && [ ! -e $C/seg-* ] || bad=1
    psql -XAtq "$($servers socket few $d)" -c "select pg_drop_replication_slot('\''taken'\'')"
    full; [ $rc = 0 ] || bad=1
    $servers stop few $d
    [ -z "${bad:-}" ]'
test_it 'a slot of that name that is a stranger'\''s is refused' '
    src strange; keyed; q $S "select pg_create_logical_replication_slot('\''$SLOT'\'', '\''pgoutput'\'')"
    full_ends 3 "slot.*exists|exists.*slot"; [ ! -e $C/lineage.json ]
    is "$(q $S "select count(*) from pg_replication_slots where slot_name = '\''$SLOT'\''")" 1'
test_it 'slot dropped' 'src dropped; keyed; full_ok; q $S "select pg_drop_replication_slot('\''$SLOT'\'')"; q $S "insert into t values (3, 3)"; incr_ends 3 "slot.*does not exist"; err_has "chain-slot"'
test_it 'slot dropped and made anew, later than the chain'\''s end' '
    src anew; keyed; full_ok; q $S "insert into t values (3, 3)"; q $S "select pg_drop_replication_slot('\''$SLOT'\'')"
    q $S "select pg_create_logical_replication_slot('\''$SLOT'\'', '\''pgoutput'\'')"; q $S "insert into t values (4, 4)"
    sum=$(cat $C/lineage.json); incr_ends 3 "slot"; is "$(cat $C/lineage.json)" "$sum"'
test_it 'slot acknowledged past the chain'\''s end: its marker' '
    src ahead; keyed; full_ok; q $S "insert into t values (3, 3)"; q $S "select pg_replication_slot_advance('\''$SLOT'\'', pg_current_wal_lsn())"; q $S "insert into t values (4, 4)"
    incr_ends 3 "SLOT-ACKED-PAST-TARGET-POSITION"; err_has "past"
    is "$(q $SLUICE_CONTROL "select marker from refusals")" SLOT-ACKED-PAST-TARGET-POSITION'
test_it 'slot lost' '
    d=$T/lost; mkdir -p $d; chmod 755 $T $d; p=$(port_of)
    $servers start lost $d $p >/dev/null
    src lost; L="$($servers socket lost $d)"; psql -XAtq "$L" -c "alter role postgres password '\''Kq7-Zebra-91'\''"; SLUICE_SOURCE=postgresql://postgres:Kq7-Zebra-91@127.0.0.1:$p/postgres; S=$SLUICE_SOURCE
    keyed; full_ok || bad=1
    q $S "alter system set max_slot_wal_keep_size = '\''1MB'\''"; q $S "select pg_reload_conf()"
    for i in 1 2 3; do q $S "insert into t select $i * 100000 + g, g from generate_series(1, 30000) g; select pg_switch_wal()"; done; q $S "checkpoint"
    wait_for 20 "q $S checkpoint; [ \"\$(q $S \"select wal_status from pg_replication_slots\")\" = lost ]" || bad=1
    incr_ends 3 "slot.*lost|lost.*WAL" || bad=1
    $servers stop lost $d
    [ -z "${bad:-}" ]'
test_it 'a slot that somebody reads is busy, not lost' '
    src busy; keyed; full_ok
    SLUICE_FAULT=follow.before_link_end=stop; export SLUICE_FAULT; q $S "insert into t values (5, 5)"
    spawn reader backup incremental --source-driver postgres --output-dir $C; unset SLUICE_FAULT
    wait_for 20 "grep -q \"^State:.*T\" /proc/\$(cat $T/reader.pid)/status"
    SLUICE_CONTROL=$T/busy2.db incr_ends 1 "read by another|active"
    signal_of reader CONT; gone reader 0; incr'
test_it 'a source that is another server, or another database, than the chain'\''s' '
    src home; keyed; full_ok
    O=$(pg_db $PG_B home); q $O "create table t(id int primary key, v int)"
    SLUICE_SOURCE=$O incr_ends 3 "source"; err_has "postgres:"
    O=$(pg_db $PG_A home2); q $O "create table t(id int primary key, v int)"; SLUICE_SOURCE=$O incr_ends 3 "source"'
test_it 'a publication that was altered or dropped behind it' '
    src pub; keyed; full_ok; p=$(q $S "select pubname from pg_publication"); q $S "alter publication \"$p\" drop table t"; q $S "insert into t values (7, 7)"; incr_ends 3 "publication"
    src pub2; keyed; full_ok; p=$(q $S "select pubname from pg_publication"); q $S "drop publication \"$p\""; q $S "insert into t values (7, 7)"; incr_ends 3 "publication"'
test_it 'row-level security that would hide rows' '
    src rls; keyed; q $S "alter table t enable row level security; create policy p on t using (id = 1)"
    pg_role $PG_A rls_$$ "replication"; q $S "grant select on t to rls_$$; grant create on database $(basename $S) to rls_$$"
    SLUICE_SOURCE=$(as_role $S rls_$$) full_ends 3 "row-level security.*t|\\bt\\b.*row-level"; err_has "BYPASSRLS"; clean
    q $S "drop owned by rls_$$"'
test_it 'privileges that are missing are named with their GRANT' '
    src priv; keyed; pg_role $PG_A priv_$$ ""
    R=$(as_role $S priv_$$)
    SLUICE_SOURCE=$R full_ends 3 "priv_$$"; err_has "GRANT|REPLICATION"; clean
    q $S "alter role priv_$$ replication"; SLUICE_SOURCE=$R full_ends 3 "priv_$$"; err_has "GRANT"; clean
    SLUICE_SOURCE=$R ends 3 "GRANT SELECT" backup full --source-driver postgres --output-dir $C
    q $S "drop owned by priv_$$"'
test_it 'what is not carried is listed before the full' '
    src list; keyed; q $S "create view vw as select * from t; create function f() returns int language sql as '\''select 1'\''; create unlogged table ul(id int primary key); select lo_create(0)"
    full_ok; err_has "vw|view" && err_has "ul|unlogged" && err_has "large object"'
test_it 'a new table after the full is reported by name' 'src later; keyed; full_ok; q $S "create table later(id int primary key); insert into later values (1); insert into t values (9, 9)"; incr; err_has "later"'
done_testing
