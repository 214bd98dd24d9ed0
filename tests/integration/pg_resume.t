#!/bin/bash
# Fulls that were killed, and what can be restored of them; a transaction that takes longer to come than the window. PostgreSQL.
. "$(dirname "$0")/../lib/lib.sh"
need_pg
begin() { # begin NAME
    S=$(pg_db "$PG_A" "s$1") C=$T/chain-$1; export SLUICE_SOURCE=$S SLUICE_CONTROL=$T/$1.db
    q "$S" "create table k(id int primary key, v text); create table k2(id int primary key, v text);
            insert into k select i, repeat('x', 100) from generate_series(1, 2000) i; insert into k2 select * from k"
}
full() { run backup full --source-driver postgres --output-dir "$C" --chunk-size 100 --table-parallelism 1 "$@"; }
goes_on() { # the same command went through; the chain verifies, and what a restore of it holds is the source
    D=$(pg_db "$PG_B" "d$1") && SLUICE_TARGET=$D SLUICE_CONTROL=$T/d$1.db done_ok restore --from-dir "$C" --target-driver postgres
    same_all "$S" "$D" && done_ok backup verify --from-dir "$C" --depth read
}
n=0
for point in chain.full_start_put chain.full_started chain.chunk_put:3 chain.done_put; do
    n=$((n + 1))
    test_it "a full without --chain-slot that was killed at $point is read anew at one moment" '
        begin a$n; SLUICE_FAULT=$point full; is $rc 137
        q $S "insert into k values (-1); insert into k2 values (-1)"; full; is $rc 0; goes_on a$n'
done
test_it 'one that had all its tables is only finished: it holds the moment of its snapshot' '
    begin b; SLUICE_FAULT=full.before_end full; is $rc 137; full; is $rc 0; goes_on b'
test_it 'a resumed full of a source that is idle since can be restored once an incremental saw that' '
    begin c; SLUICE_FAULT=chain.chunk_put:3 full --chain-slot --slot-name res$$; is $rc 137
    q $S "select pg_logical_emit_message(false, '\'''\'', '\'''\'')"; full --chain-slot --slot-name res$$; is $rc 0
    D=$(pg_db $PG_B dc0); SLUICE_TARGET=$D SLUICE_CONTROL=$T/dc0.db ends 3 "past the end of link" restore --from-dir $C --target-driver postgres; err_has "backup incremental"
    done_ok backup incremental --source-driver postgres --output-dir $C; cat $T/out | grep -q "nothing new"; goes_on c
    q $S "insert into k values (-2)"; done_ok backup incremental --source-driver postgres --output-dir $C; goes_on c2'
test_it 'a transaction that takes longer to come than the window is not missed' '
    begin w; full --chain-slot --slot-name win$$; is $rc 0
    q $S "insert into k select i, '\''y'\'' from generate_series(10000, 60000) i"
    done_ok backup incremental --source-driver postgres --output-dir $C --window 1ms --format json; [ "$(json "\$.changes")" = 50001 ]'
done_testing
