#!/bin/bash
# `source clean`: what a chain left on its source is taken down, and nothing else.
. "$(dirname "$0")/../lib/lib.sh"
S=$T/app.db C=$T/chain
q "$S" "pragma journal_mode=wal" >"$T/wal"
q "$S" "create table t(id integer primary key, name text); insert into t values (1,'a'); create trigger mine after insert on t begin select 1; end"
SRC="--source-driver sqlite --source $S --output-dir $C"

test_it 'a capture whose store is lost stands in the way of a new full, and the hint names the verb' '
    done_ok backup full $SRC --chain-slot
    rm -rf $C
    ends 3 "captured" backup full $SRC --chain-slot --name again
    err_has "source clean"'

test_it 'without --yes and a terminal nothing is done' '
    ends 3 "no terminal" source clean --source-driver sqlite --source $S </dev/null
    isnt "$(q $S "select count(*) from sqlite_schema where name = '\''sluice_log'\''")" 0'

test_it 'it takes down our tables and triggers, leaves the others, and may be repeated' '
    done_ok source clean --source-driver sqlite --source $S --yes
    is "$(q $S "select count(*) from sqlite_schema where name like '\''sluice%'\''")" 0
    is "$(q $S "select group_concat(name) from sqlite_schema where type = '\''trigger'\''")" mine
    done_ok source clean --source-driver sqlite --source $S --yes
    done_ok backup full $SRC --chain-slot --name again'

test_it 'on PostgreSQL it drops the slot and its publication, and no other' '
    [ -n "${PG_A:-}" ] || skip_rest "no PostgreSQL here"
    P=$(pg_db "$PG_A" clean); q $P "create table t(id int primary key)"; n=clean_$$
    q $P "select 1 from pg_create_logical_replication_slot('\''${n}_other'\'', '\''pgoutput'\'')" >/dev/null
    done_ok backup full --source-driver postgres --source $P --output-dir $T/pgchain --chain-slot --slot-name $n
    done_ok source clean --source-driver postgres --source $P --slot-name $n --yes
    is "$(q $P "select count(*) from pg_replication_slots where slot_name = '\''$n'\''")" 0
    is "$(q $P "select count(*) from pg_publication where pubname = '\''$n'\''")" 0
    is "$(q $P "select count(*) from pg_replication_slots where slot_name = '\''${n}_other'\''")" 1
    q $P "select pg_drop_replication_slot('\''${n}_other'\'')" >/dev/null
    ends 3 "slot" backup incremental --source-driver postgres --source $P --output-dir $T/pgchain'
test_it 'the control DB itself is never captured' '
    ends 2 "control DB" backup full --source-driver sqlite --source $SLUICE_CONTROL --output-dir $T/own --chain-slot
    done_ok control check'
done_testing
