#!/bin/bash
# Sequences are never behind the rows that came with them: also for rows that were committed between the catalogue and the snapshot of a full.
. "$(dirname "$0")/../lib/lib.sh"
need_pg
A=$(pg_db "$PG_A" seq) B=$(pg_db "$PG_B" seq)
q "$A" "create table t(id serial primary key, v int); insert into t(v) select g from generate_series(1, 10) g"
export SLUICE_SOURCE=$A SLUICE_TARGET=$B

test_it 'a full whose source went on between its catalogue and its snapshot' '
    SLUICE_FAULT=postgres.anchor_publication=stop spawn full backup full --source-driver postgres --output-dir $T/chain --chain-slot --slot-name seq_$$
    wait_for 20 "grep -q \"^State:.*T\" /proc/\$(cat $T/full.pid)/status"
    q $A "insert into t(v) select g from generate_series(11, 30) g"
    signal_of full CONT; gone full 0
    done_ok restore --from-dir $T/chain --target-driver postgres
    is "$(q $B "select max(id) from t")" 30
    is "$(q $B "insert into t(v) values (0) returning id")" 31'
done_testing
