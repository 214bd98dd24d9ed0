#!/bin/bash
# What a producer was configured with is not lost by a command that is refused or only plans, and a chain that cannot be read can be replaced.
. "$(dirname "$0")/../lib/lib.sh"
S=$T/s.db
q "$S" "pragma journal_mode=wal; create table t(id integer primary key, v int); create table secret(id integer primary key); insert into t values (1, 1)" >/dev/null
export SLUICE_SOURCE=$S
config() { q "$SLUICE_CONTROL" "select config from entity where kind = 'producer'"; }

test_it '--dry-run leaves no trace in the control DB' '
    done_ok backup full --source-driver sqlite --output-dir $T/chain --chain-slot --dry-run; out_has "secret"; out_has "2 tables would be copied"
    [ ! -e $T/chain ] && { [ ! -e $SLUICE_CONTROL ] || is "$(q $SLUICE_CONTROL "select count(*) from entity")" 0; }'
test_it 'a refused full, and a planned one, leave the scope as it was' '
    done_ok backup full --source-driver sqlite --output-dir $T/chain --chain-slot --include-table t
    was=$(config); [ -n "$was" ] || exit 1
    ends 3 "chain.*already" backup full --source-driver sqlite --output-dir $T/chain --chain-slot; is "$(config)" "$was"
    done_ok backup full --source-driver sqlite --output-dir $T/chain --chain-slot --dry-run; is "$(config)" "$was"
    q $S "create table later(id integer primary key); insert into later values (1); insert into t values (2, 2)"
    done_ok backup incremental --source-driver sqlite --output-dir $T/chain
    done_ok backup show --from-dir $T/chain; fails grep -qE "secret|later" $T/out'
test_it 'a refused full of a chain that this control DB does not know makes no producer' '
    SLUICE_CONTROL=$T/other.db ends 3 "chain.*already" backup full --source-driver sqlite --output-dir $T/chain --chain-slot
    is "$(q $T/other.db "select count(*) from entity")" 0'
test_it 'a control DB that does not know the scope says so, and takes it from the flags; the bounds of one run are not kept' '
    cp $T/other.db $T/third.db; q $S "insert into t values (3, 3)"
    SLUICE_CONTROL=$T/third.db done_ok backup incremental --source-driver sqlite --output-dir $T/chain --include-table t --max-changes 1 --window 3s
    is "$(q $T/third.db "select config from entity")" "{\"include-table\":[\"t\"]}"
    SLUICE_CONTROL=$T/other.db done_ok backup incremental --source-driver sqlite --output-dir $T/chain; err_has "does not know which tables"'
test_it 'a restore that only plans leaves no trace in the control DB' '
    done_ok restore --from-dir $T/chain --target-driver sqlite --target $T/copy.db --dry-run; out_has "would restore"
    is "$(q $SLUICE_CONTROL "select count(*) from entity where kind = '\''task'\''")" 0; [ ! -s $T/copy.db ]'
test_it 'a chain that cannot be read is replaced when that is asked for, whoever knows it' '
    full() { run backup full --source-driver sqlite --output-dir $T/plain --include-table t "$@"; }
    full; is $rc 0
    for c in $SLUICE_CONTROL $T/fourth.db; do
        echo "{" >$T/plain/lineage.json
        SLUICE_CONTROL=$c full; isnt $rc 0; SLUICE_CONTROL=$c full --force-overwrite; is $rc 0
        done_ok backup verify --from-dir $T/plain
    done'
test_it 'a folder may be called as it likes' '
    d="$T/a b%41#c?d"; mkdir "$d"
    done_ok backup full --source-driver sqlite --output-dir "$d/chain"
    [ -e "$d/chain/lineage.json" ]; done_ok backup list --from-dir "$d/chain"; (cd "$d" && done_ok backup list --from-dir ./chain)'
test_it 'a command that finds the entity busy leaves it configured as it was' '
    q $S "create table one(id integer primary key); insert into one values (1)"; T2=$T/one
    done_ok backup full --source-driver sqlite --output-dir $T2/chain --include-table one --name one
    broker() { run sync from-backup run --backup-dir $T2/chain --target-driver sqlite --stream-id one "$@"; }
    broker --target $T2/copy.db --reset-target-data --yes --once; is $rc 0
    spawn held sync from-backup run --backup-dir $T2/chain --target-driver sqlite --target $T2/copy.db --stream-id one --poll-interval 1s
    wait_for 20 "[ -n \"\$(q $SLUICE_CONTROL \"select owner_pid from entity where name = '\''one'\'' and kind = '\''broker'\'' and owner_pid is not null\")\" ]"
    was=$(q $SLUICE_CONTROL "select config || (select dsn from endpoint where name = target) from entity where kind = '\''broker'\''")
    broker --target $T2/other.db --reset-target-data --yes; is $rc 75
    is "$(q $SLUICE_CONTROL "select config || (select dsn from endpoint where name = target) from entity where kind = '\''broker'\''")" "$was"
    stop_of held; gone held 0'
test_it 'the table setting gives defaults for amounts, and for nothing that decides about rows' '
    q $SLUICE_CONTROL "insert into setting(name, value) values ('\''compression'\'', '\''lz4'\'')"
    ends 2 "compression" run producer one
    q $SLUICE_CONTROL "update setting set name = '\''reset-target-data'\'', value = '\''true'\''"
    ends 2 "reset-target-data" run broker one; err_has "delete from setting"
    q $SLUICE_CONTROL "delete from setting"; done_ok run broker one'
done_testing
