#!/bin/bash
# The broker on SQLite: where it may begin, how it goes on, and everything that must stop it.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
S=$T/app.db C=$T/chain
app_create "$S"
SRC="--source-driver sqlite --source $S --output-dir $C"
new_link() { done_ok backup incremental $SRC --format json >/dev/null && json '$.id'; }
run backup full $SRC --chain-slot --format json
[ "$rc" = 0 ] || { say_run; echo "Bail out! no full"; exit 1; }
json '$.id' >"$T/id0"
app_change "$S" 1; new_link >"$T/id1"
B="sync from-backup run --backup-dir $C --target-driver sqlite --poll-interval 200ms"
broker() { local stream=$1 target=$2; shift 2; run $B --stream-id "$stream" --target "$target" "$@"; }
broker_ok() { broker "$@"; [ "$rc" = 0 ] || { say_run "broker $*"; return 1; }; }
broker_ends() { local want=$1 text=$2 stream=$3 target=$4; shift 4; ends "$want" "$text" $B --stream-id "$stream" --target "$target" "$@"; }
restore_to() { done_ok restore --from-dir "$C" --target-driver sqlite --target "$1" --format json; }
at() { q "$1" "select link_id from sluice_cdc_state where stream_id = '$2'"; }
epoch() { q "$T/a.db" "select epoch from sluice_cdc_state where stream_id = '$1'"; }
raised() { [ "$(epoch "$1")" -gt "$(cat "$T/epoch")" ]; } # the broker that was spawned has taken the stream over
tip() { cat "$T"/id? | tail -1; }
reached() { wait_for 20 "[ \"\$(at $1 $2)\" = $3 ]" || { at "$1" "$2"; echo "never reached $3"; return 1; }; }

test_it 'no row and no flag: refused with both ways past it' '
    broker_ends 3 "no saved position" cold $T/cold.db
    err_has "reset-target-data" && err_has "at-chain-id"
    is "$(echo $(tables $T/cold.db 2>/dev/null))" ""'

test_it '--stream-id is required; flags that exclude each other are usage errors' '
    ends 2 "stream-id" $B --target $T/x.db --once
    broker_ends 2 "exclude" x $T/x.db --reset-target-data --at-chain-id restore --once
    ends 2 "backup-target|backup-dir" sync from-backup run --target-driver sqlite --target $T/x.db --stream-id x --once'

test_it '--reset-target-data without a terminal and without --yes: refused, nothing is dropped' '
    q $T/mine.db "create table customer(id int); insert into customer values (1)"
    broker_ends 3 "yes|terminal" r $T/mine.db --reset-target-data --once
    is "$(q $T/mine.db "select count(*) from customer")" 1'

test_it '--reset-target-data --yes rebuilds over whatever is there and goes on by itself' '
    broker_ok r $T/mine.db --reset-target-data --yes --once
    same_all $S $T/mine.db && is "$(at $T/mine.db r)" "$(cat $T/id1)"
    app_change $S 2; new_link >$T/id2
    broker_ok r $T/mine.db --once
    same_all $S $T/mine.db && is "$(at $T/mine.db r)" "$(cat $T/id2)"'

test_it 'after a restore: --at-chain-id ID, then warm without a flag' '
    restore_to $T/a.db; id=$(json "\$.tail_id")
    broker_ok a $T/a.db --at-chain-id $id --once
    app_change $S 3; new_link >$T/id3
    broker_ok a $T/a.db --once
    same_all $S $T/a.db'

test_it '--at-chain-id restore adopts the restore exactly; an id that it does not stand at is refused' '
    restore_to $T/b.db
    broker_ends 3 "stands at" b $T/b.db --at-chain-id $(cat $T/id1) --once
    broker_ends 3 "no link" b $T/b.db --at-chain-id 00000000000000000000 --once
    broker_ok b $T/b.db --at-chain-id restore --once
    app_change $S 4; new_link >$T/id4
    broker_ok b $T/b.db --once && same_all $S $T/b.db
    broker_ends 3 "no restore" b2 $T/mine.db --at-chain-id restore --once'

test_it '--at-chain-id on a row that stands elsewhere is refused, at the same place it is accepted' '
    broker_ends 3 "stands at" b $T/b.db --at-chain-id $(cat $T/id2) --once
    broker_ok b $T/b.db --at-chain-id $(head -c 10 $T/id4) --once
    is "$(at $T/b.db b)" "$(cat $T/id4)"'

test_it 'without a restore, an operator'\''s word is taken: --at-chain-id of the full on an equal target' '
    q $T/mine.db "select 1" >/dev/null
    done_ok restore --from-dir $C --target-driver sqlite --target $T/w.db --to-id $(cat $T/id2)
    q $T/w.db "delete from sluice_cdc_state; delete from sluice_cdc_lane"
    broker_ok w $T/w.db --at-chain-id $(cat $T/id2) --once
    same_all $S $T/w.db'

test_it 'a running broker follows incrementals, and a signal ends it cleanly' '
    spawn run1 $B --stream-id a --target $T/a.db
    app_change $S 5; new_link >$T/id5; reached $T/a.db a $(cat $T/id5)
    app_change $S 6; new_link >$T/id6; reached $T/a.db a $(cat $T/id6)
    same_all $S $T/a.db
    running run1; stop_of run1; gone run1 0'

test_it 'lag and position stand in the control DB and in sync status' '
    done_ok sync status --format json && out_has "$(cat $T/id6)|\"a\""
    done_ok sync status --format csv && done_ok sync status
    is "$(q $SLUICE_CONTROL "select links from lag where kind = '\''broker'\'' and name = '\''a'\''")" 0'

test_it 'two brokers on one stream: 75 under one control DB' '
    spawn run2 $B --stream-id a --target $T/a.db
    wait_for 10 "grep -q . $T/run2.err && [ \"\$(q $SLUICE_CONTROL \"select owner_pid from entity where name = '\''a'\''\")\" = \$(cat $T/run2.pid) ]"
    broker_ends 75 "pid|process" a $T/a.db --once
    stop_of run2; gone run2 0'

test_it 'two brokers on one stream: the older one ends with 3 by the target'\''s epoch under two control DBs' '
    epoch a >$T/epoch; spawn run3 $B --stream-id a --target $T/a.db
    wait_for 10 "[ \"\$(q $SLUICE_CONTROL \"select owner_pid from entity where name = '\''a'\''\")\" = \$(cat $T/run3.pid) ]"
    wait_for 10 "raised a"
    SLUICE_CONTROL=$T/other.db broker_ok a $T/a.db --once
    app_change $S 7; new_link >$T/id7
    gone run3 3
    grep -q "took" $T/run3.err
    broker_ok a $T/a.db --once && same_all $S $T/a.db'

test_it 'a bare stop stops every broker of the chain and prints their stream-ids; a leftover stop ends no later run' '
    spawn s1 $B --stream-id a --target $T/a.db
    spawn s2 $B --stream-id b --target $T/b.db
    wait_for 10 "[ \$(ls $C/consumers | wc -l) -ge 2 ]"
    reached $T/a.db a $(cat $T/id7); reached $T/b.db b $(cat $T/id7)
    done_ok sync from-backup stop --backup-dir $C
    out_has "^a$|\\ba\\b" && out_has "\\bb\\b"
    gone s1 0; gone s2 0
    spawn s3 $B --stream-id a --target $T/a.db
    app_change $S 8; new_link >$T/id8; reached $T/a.db a $(cat $T/id8)
    running s3; stop_of s3; gone s3 0'

test_it 'stop --stream-id stops that one, and the other target goes on' '
    spawn s4 $B --stream-id a --target $T/a.db
    spawn s5 $B --stream-id b --target $T/b.db
    reached $T/b.db b $(cat $T/id8)
    wait_for 10 "[ \"\$(q $SLUICE_CONTROL \"select count(*) from brokers where owner_pid is not null\")\" = 2 ]"
    done_ok sync from-backup stop --backup-dir $C --stream-id a --wait --timeout 20s
    gone s4 0
    app_change $S 9; new_link >$T/id9; reached $T/b.db b $(cat $T/id9)
    running s5; same_all $S $T/b.db
    done_ok sync from-backup stop --backup-target file://$C --wait --timeout 20s
    gone s5 0 1
    broker_ok a $T/a.db --once && same_all $S $T/a.db'

test_it 'a stop by SQL: a row in request ends it' '
    epoch a >$T/epoch; spawn s6 $B --stream-id a --target $T/a.db
    wait_for 10 "[ \"\$(q $SLUICE_CONTROL \"select owner_pid from entity where name = '\''a'\''\")\" = \$(cat $T/s6.pid) ]"
    wait_for 10 "raised a"
    q $SLUICE_CONTROL "insert into request(kind, name, verb) values ('\''broker'\'', '\''a'\'', '\''stop'\'')"
    gone s6 0 10'

test_it 'a stop through the target'\''s row ends it' '
    epoch a >$T/epoch; spawn s7 $B --stream-id a --target $T/a.db
    wait_for 10 "raised a"
    done_ok sync from-backup stop --backup-dir $C --stream-id a --target-driver sqlite --target $T/a.db
    gone s7 0 15
    done_ok sync from-backup run --backup-dir $C --target-driver sqlite --target $T/a.db --stream-id a --once'

test_it 'the same stream-id on one chain with another target is refused' '
    restore_to $T/c.db
    broker_ends 3 "another target" a $T/c.db --at-chain-id restore --once'

test_it 'a consumer that may only read the store works, is warned, and is stopped through its target row' '
    [ $(id -u) = 0 ] || skip_rest "needs root to become somebody else"
    nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
    chmod 755 $T; chmod -R a+rX $C; mkdir $T/nobody; cp $SLUICE $T/nobody/sluice-bin; chmod 755 $T/nobody/sluice-bin; chown -R 65534:65534 $T/nobody
    $nobody $T/nobody/sluice-bin version >/dev/null || skip_rest "the program cannot be run by nobody here"
    $nobody env SLUICE_CONTROL=$T/nobody/c.db HOME=$T/nobody $T/nobody/sluice-bin $B --stream-id ro --target $T/nobody/t.db --reset-target-data --yes --once 2>$T/nobody.err1
    q $T/nobody/t.db "select 1" >/dev/null; chown -R 65534:65534 $T/nobody
    $nobody env SLUICE_CONTROL=$T/nobody/c.db HOME=$T/nobody $T/nobody/sluice-bin $B --stream-id ro --target $T/nobody/t.db >/dev/null 2>$T/nobody.err & pid=$!
    echo $pid >>$T/pids
    wait_for 15 "grep -q cannot $T/nobody.err" || { cat $T/nobody.err; exit 1; }
    same_all $S $T/nobody/t.db; chown -R 65534:65534 $T/nobody
    done_ok sync from-backup stop --backup-dir $C --stream-id ro --target-driver sqlite --target $T/nobody/t.db; chown -R 65534:65534 $T/nobody
    wait_for 15 "! kill -0 $pid" || { cat $T/nobody.err; exit 1; }
    wait $pid'

test_it '--apply-concurrency of every value runs one lane and says so' '
    app_change $S 11; new_link >$T/ida
    broker_ok a $T/a.db --once --apply-concurrency 8 && err_has "one lane"
    same_all $S $T/a.db'

test_it 'rows of tables without a key are written exactly once, wherever it is killed' '
    SLUICE_FAULT_LIST=$T/points broker_ok a $T/a.db --once
    app_change $S 12; new_link >/dev/null
    SLUICE_FAULT_LIST=$T/points broker_ok a $T/a.db --once
    r=0
    for p in $(sort -u $T/points); do
        r=$((r + 1))
        q $S "insert into visit(page, ms) values ('\''/twice/$r'\'', 1), ('\''/twice/$r'\'', 1); update visit set ms = ms + 1 where page = '\''/p/1'\'';"
        new_link >/dev/null
        SLUICE_FAULT=$p broker a $T/a.db --once
        { [ $rc = 137 ] || [ $rc = 0 ]; } || { echo "$p: $rc"; cat $T/err; exit 1; }
        broker_ok a $T/a.db --once
        same_all $S $T/a.db || { echo "after a kill at $p"; exit 1; }
    done
    [ $r -ge 3 ]'

test_it 'a reset that is killed anywhere is finished by the same command' '
    SLUICE_FAULT_LIST=$T/rpoints broker_ok r $T/mine.db --reset-target-data --yes --once
    same_all $S $T/mine.db
    n=0
    for p in $(sort -u $T/rpoints); do
        SLUICE_FAULT=$p broker r $T/mine.db --reset-target-data --yes --once
        { [ $rc = 137 ] || [ $rc = 0 ]; } || { echo "$p: $rc"; cat $T/err; exit 1; }
        broker_ok r $T/mine.db --reset-target-data --yes --once
        same_all $S $T/mine.db || { echo "after a kill at $p"; exit 1; }
        n=$((n + 1))
    done
    [ $n -ge 6 ]'

test_it 'a reset that was killed after its first drop is not taken for a target that can go on' '
    p=$(grep rebuild $T/rpoints | tail -1)
    SLUICE_FAULT=$p broker r $T/mine.db --reset-target-data --yes --once
    ph=$(q $T/mine.db "select phase from sluice_cdc_state where stream_id = '\''r'\''")
    case $ph in resetting | restoring) SLUICE_CONTROL=$T/fresh.db broker_ends 3 "not finished" r $T/mine.db --once ;; esac
    broker_ok r $T/mine.db --reset-target-data --yes --once && same_all $S $T/mine.db'

test_it 'a chain of another lineage, one begun anew, and a fork are three refusals' '
    cp -a $C $T/chain-copy
    app_create $T/other-src.db
    SLUICE_CONTROL=$T/oc.db done_ok backup full --source-driver sqlite --source $T/other-src.db --output-dir $T/chain-foreign --chain-slot
    ends 3 "follows chain" sync from-backup run --backup-dir $T/chain-foreign --target-driver sqlite --target $T/a.db --stream-id a --once
    cp -a $C $T/chain-fork
    app_change $S 13; new_link >/dev/null; broker_ok a $T/a.db --once
    SLUICE_CONTROL=$T/oc2.db run backup incremental --source-driver sqlite --source $S --output-dir $T/chain-fork
    ends 3 "not on this chain|hole|seq" sync from-backup run --backup-dir $T/chain-fork --target-driver sqlite --target $T/a.db --stream-id a --once
    same_all $S $T/a.db'

test_it 'a reset over another lineage is honoured' '
    ends 0 "" sync from-backup run --backup-dir $T/chain-foreign --target-driver sqlite --target $T/c.db --stream-id cc --reset-target-data --yes --once
    same_all $T/other-src.db $T/c.db'

test_it 'a chain begun anew at the same place is refused as such, and a reset follows it' '
    done_ok backup full $SRC --chain-slot --force-overwrite
    broker_ends 3 "begun anew" a $T/a.db --once
    broker_ok a $T/a.db --reset-target-data --yes --once && same_all $S $T/a.db'

test_it 'a hand on the saved position is found out' '
    q $T/a.db "update sluice_cdc_state set seq = seq + 1 where stream_id = '\''a'\''"
    broker_ends 3 "seq" a $T/a.db --once
    is "$(q $SLUICE_CONTROL "select marker from refusals where name = '\''a'\'' order by since desc limit 1")" APPLY-MARK-MISMATCH
    q $T/a.db "update sluice_cdc_state set seq = seq - 1 where stream_id = '\''a'\''"
    broker_ok a $T/a.db --once'

test_it 'a target table that was altered behind its back is refused by name, and goes on when it is put right' '
    q $T/a.db "alter table item add column extra int"
    app_change $S 14; new_link >/dev/null
    broker_ends 3 "item.*extra|extra.*item" a $T/a.db --once
    q $T/a.db "alter table item drop column extra"
    broker_ok a $T/a.db --once && same_all $S $T/a.db'

test_it 'a unique key that only the target has is refused' '
    q $T/a.db "create unique index only_here on customer(born)"
    broker_ends 3 "unique key" a $T/a.db --once
    is "$(q $SLUICE_CONTROL "select marker from refusals where name = '\''a'\'' order by since desc limit 1")" SOURCE-UNIQUE-KEY-ABSENT
    q $T/a.db "drop index only_here"
    broker_ok a $T/a.db --once && is "$(q $SLUICE_CONTROL "select count(*) from refusals where name = '\''a'\''")" 0'

test_it 'a control DB that a shell holds for a while never ends a run' '
    mkfifo $T/hold
    sqlite3 $SLUICE_CONTROL <$T/hold >/dev/null 2>&1 & holder=$!
    echo $holder >>$T/pids
    exec 8>$T/hold
    epoch a >$T/epoch; spawn s8 $B --stream-id a --target $T/a.db
    wait_for 10 "raised a"
    echo "begin immediate;" >&8
    wait_for 10 "! sqlite3 $SLUICE_CONTROL \"begin immediate; rollback\""
    app_change $S 15; SLUICE_CONTROL=$T/oc3.db done_ok backup incremental $SRC --format json
    reached $T/a.db a $(json "\$.id")
    running s8
    echo "rollback;" >&8; exec 8>&-
    stop_of s8; gone s8 0
    same_all $S $T/a.db'

test_it 'the chain'"'"'s own source is no target, by whatever name: nothing is dropped, nothing adopted' '
    ln $S $T/hard.db; ln -s $S $T/sym.db
    for f in $S $T/hard.db $T/sym.db; do broker_ends 3 "captured as a source" self $f --reset-target-data --yes --once; done
    done_ok backup list --from-dir $C --format json
    broker_ends 3 "captured as a source" self $S --at-chain-id $(out | grep -o "[0-9a-f]\{40\}" | tail -1) --once
    rm $T/hard.db
    q $T/plain.db "pragma journal_mode = wal; create table a(id integer primary key); insert into a values (1)" >/dev/null
    done_ok backup full --source-driver sqlite --source $T/plain.db --output-dir $T/plain-chain
    q $T/plain.db "insert into a values (2)"
    ends 3 "chain was taken from" sync from-backup run --backup-dir $T/plain-chain --target-driver sqlite --target $T/plain.db --stream-id p --reset-target-data --yes --once
    is "$(q $T/plain.db "select count(*) from a")" 2
    done_ok backup incremental $SRC'

done_testing
