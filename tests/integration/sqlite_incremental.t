#!/bin/bash
# Incrementals of an SQLite source: each reason to end, and every way in which the source may not fit the chain.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
S=$T/app.db C=$T/chain
app_create "$S"
SRC="--source-driver sqlite --source $S --output-dir $C"
run backup full $SRC --chain-slot
[ "$rc" = 0 ] || { say_run; echo "Bail out! no full"; exit 1; }
incr() { done_ok backup incremental $SRC "$@"; }
restored() { rm -f "$T/r.db"*; SLUICE_CONTROL=$T/r-control.db "$SLUICE" restore --from-dir "${1:-$C}" --target-driver sqlite --target "$T/r.db" >"$T/r.out" 2>&1 || { cat "$T/r.out"; return 1; }; }
links() { "$SLUICE" backup list --from-dir "$C" --format json | grep -oE '"[0-9a-f]{40}"' | wc -l; }
tip() { json '$.tip_id' "$T/restore.json" 2>/dev/null; }

test_it 'nothing new makes no link and says so' '
    n=$(links)
    incr && cat $T/out $T/err | grep -q "nothing new"
    is "$(links)" "$n"'

test_it 'an incremental takes what changed and says that it caught up' '
    app_change $S 1
    incr && cat $T/out $T/err | grep -q "caught up"
    restored && same_all $S $T/r.db'

test_it '--format json is one object with the id, the end reason and the counts' '
    app_change $S 2
    incr --format json
    json "\$.id" | grep -Eq "^[0-9a-f]{40}$"
    [ "$(json "\$.changes")" -gt 0 ]
    json "\$.ended" | grep -q "caught up"
    restored && same_all $S $T/r.db'

test_it '--max-changes goes on from link to link until nothing is left' '
    for r in 3 4 5; do app_change $S $r; done
    i=0
    while incr --max-changes 10 && ! cat $T/out $T/err | grep -q "nothing new"; do i=$((i + 1)); [ $i -lt 200 ]; done
    [ $i -ge 1 ]
    restored && same_all $S $T/r.db'

test_it '--window closes the link early and the next one goes on' '
    for r in 6 7; do app_change $S $r; done
    i=0
    while incr --window 1ms && ! cat $T/out $T/err | grep -q "nothing new"; do i=$((i + 1)); [ $i -lt 200 ]; done
    [ $i -ge 1 ]
    restored && same_all $S $T/r.db'

test_it '--since takes the tip, by a prefix too, and refuses any other link' '
    "$SLUICE" backup list --from-dir $C --format json | grep -oE "[0-9a-f]{40}" >$T/ids
    app_change $S 8
    done_ok backup show --from-dir $C --format json
    t=$(json "\$.tip.id"); [ -n "$t" ] || t=$(json "\$.tip_id")
    other=$(grep -v "$t" $T/ids | head -1)
    ends 3 "not the tip" backup incremental $SRC --since $other
    ends 3 "no link|ffff" backup incremental $SRC --since ffffffffffff
    incr --since ${t:0:12}
    restored && same_all $S $T/r.db'

test_it '--dry-run changes nothing' '
    app_change $S 9
    n=$(links); sum=$(cat $C/lineage.json)
    incr --dry-run
    is "$(links)" "$n" && is "$(cat $C/lineage.json)" "$sum"
    incr && restored && same_all $S $T/r.db'

test_it 'a place without a chain is refused' 'ends 3 "no chain" backup incremental --source-driver sqlite --source $S --output-dir $T/empty'

test_it 'another source than the chain'\''s is refused' '
    app_create $T/other.db
    ends 3 "source" backup incremental --source-driver sqlite --source $T/other.db --output-dir $C
    SLUICE_CONTROL=$T/o.db done_ok backup full --source-driver sqlite --source $T/other.db --output-dir $T/chain-other --chain-slot
    ends 3 "source" backup incremental --source-driver sqlite --source $T/other.db --output-dir $C'

test_it 'a source that was put back to an older copy is refused, and nothing is written' '
    q $S "vacuum into '\''$T/older.db'\''"
    app_change $S 10; incr
    app_change $S 11; incr
    sum=$(cat $C/lineage.json)
    cp $S $T/newer.db; [ ! -e $S-wal ] || cp $S-wal $T/newer.db-wal
    rm -f $S $S-wal $S-shm; cp $T/older.db $S; q $S "pragma journal_mode=wal" >/dev/null
    ends 3 "older copy|restored|chain" backup incremental $SRC
    app_change $S 12
    ends 3 "older copy|restored|chain" backup incremental $SRC
    is "$(cat $C/lineage.json)" "$sum"
    rm -f $S $S-wal $S-shm; cp $T/newer.db $S; [ ! -e $T/newer.db-wal ] || cp $T/newer.db-wal $S-wal
    incr && restored && same_all $S $T/r.db'

test_it 'an application that holds a write transaction delays nothing but its own changes' '
    mkfifo $T/hold
    sqlite3 $S <$T/hold >/dev/null 2>&1 & holder=$!
    echo $holder >>$T/pids
    exec 8>$T/hold
    echo "begin immediate; insert into customer(id, email) values (90001, '\''held'\'');" >&8
    wait_for 10 "! sqlite3 $S \"begin immediate; rollback\""
    incr
    echo "commit;" >&8; exec 8>&-
    wait_for 10 "! kill -0 $holder"
    incr && restored && same_all $S $T/r.db'

test_it 'the application is never blocked by capture: its writes succeed between and during ticks' '
    for i in 1 2 3 4 5 6 7 8; do
        q $S "insert into customer(id, email) values ($((91000 + i)), '\''par$i'\'')" &
        incr
        wait $!
    done
    incr && restored && same_all $S $T/r.db'

test_it 'a killed incremental leaves a whole chain and is done again' '
    for p in follow.before_link_end follow.before_ack follow.after_ack; do
        q $S "update customer set name = name || '\''*'\'' where id < 50"
        SLUICE_FAULT=$p run backup incremental $SRC
        is $rc 137
        done_ok backup verify --from-dir $C --depth read
        incr
        restored && same_all $S $T/r.db
    done'

test_it 'two producers on one chain: the loser writes nothing and says so' '
    app_change $S 13
    SLUICE_FAULT=follow.before_link_end=stop spawn slow backup incremental $SRC
    wait_for 20 "grep -q \"^State:.*T\" /proc/\$(cat $T/slow.pid)/status"
    run backup incremental $SRC
    is $rc 75 && err_has "is run by process"
    SLUICE_CONTROL=$T/second.db run backup incremental $SRC
    echo "second control DB: $rc"; cat $T/err
    second=$rc
    signal_of slow CONT
    wait_for 20 "[ -f $T/slow.rc ]"
    first=$(cat $T/slow.rc)
    { [ $second = 0 ] && [ $first = 3 ]; } || { [ $second != 0 ] && [ $first = 0 ]; } || { cat $T/slow.err; is "first=$first second=$second" "one 0, the other refused"; }
    done_ok backup verify --from-dir $C --depth read
    incr && restored && same_all $S $T/r.db'

done_testing
