#!/bin/bash
# AUTOINCREMENT is never behind the rows that came with it: also for rows that were written between the catalogue and the snapshot of a full.
. "$(dirname "$0")/../lib/lib.sh"
S=$T/s.db
q "$S" "pragma journal_mode=wal; create table t(id integer primary key autoincrement, v int); create table late(id integer primary key autoincrement); insert into t(v) values (1), (2), (3)" >/dev/null

test_it 'a full whose source went on between its catalogue and its snapshot' '
    SLUICE_FAULT=full.after_intent=stop spawn full backup full --source-driver sqlite --source $S --output-dir $T/chain --chain-slot
    wait_for 20 "grep -q \"^State:.*T\" /proc/\$(cat $T/full.pid)/status"
    q $S "insert into t(v) values (4), (5); delete from t where id = 5; insert into late values (7); delete from late"
    signal_of full CONT; gone full 0
    done_ok restore --from-dir $T/chain --target-driver sqlite --target $T/copy.db
    is "$(q $T/copy.db "select max(id) from t")" 4
    is "$(q $T/copy.db "insert into t(v) values (0) returning id")" 6
    is "$(q $T/copy.db "insert into late default values returning id")" 8'
done_testing
