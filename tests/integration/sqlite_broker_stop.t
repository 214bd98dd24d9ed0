#!/bin/bash
# A stop finds a broker in every phase: while it rebuilds the target, and while it waits to try again.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
S=$T/app.db C=$T/chain
app_create "$S"
SRC="--source-driver sqlite --source $S --output-dir $C"
run backup full $SRC --chain-slot --chunk-size 50
[ "$rc" = 0 ] || { say_run; echo "Bail out! no full"; exit 1; }
app_change "$S" 1; run backup incremental $SRC
B="sync from-backup run --backup-dir $C --target-driver sqlite --poll-interval 200ms"
consumer() { cat "$C"/consumers/*.json | tr -d ' ' | grep -o "\"stopped[a-z_]*\":[0-9]*" | grep -o '[0-9]*$'; }

test_it 'a stop in the middle of --reset-target-data is seen, and the same command finishes it' '
    SLUICE_FAULT=load.after_chunk:2=stop spawn r $B --stream-id r --target $T/r.db --reset-target-data --yes
    wait_for 20 "grep -q \"^State:.T\" /proc/\$(cat $T/r.pid)/status"
    done_ok sync from-backup stop --backup-dir $C --stream-id r && is "$(cat $T/out)" r
    signal_of r CONT; gone r 1
    is "$(q $T/r.db "select phase from sluice_cdc_state")" restoring
    isnt "$(consumer)" 0
    done_ok $B --stream-id r --target $T/r.db --reset-target-data --yes --once && same_all $S $T/r.db'

test_it 'while it waits to try again it counts as running; --wait waits for its end' '
    rm -f $C/consumers/*
    app_change $S 2; run backup incremental $SRC
    SLUICE_FAULT=apply.before_window:1=err spawn w $B --stream-id r --target $T/r.db
    wait_for 20 "grep -q \"trying again\" $T/w.err" && is "$(consumer)" 0
    done_ok sync from-backup stop --backup-dir $C --stream-id r --wait --timeout 30s
    gone w 0 && isnt "$(consumer)" 0
    done_ok $B --stream-id r --target $T/r.db --once && same_all $S $T/r.db'

test_it 'moved to stopped by plain SQL, it ends, and history says who' '
    spawn m $B --stream-id m --target $T/m.db --reset-target-data --yes
    wait_for 20 "[ \"\$(sqlite3 $SLUICE_CONTROL \"select state from entity where name = '\''m'\''\")\" = tailing ]"
    sqlite3 -cmd ".timeout 5000" $SLUICE_CONTROL "update entity set state = '\''stopped'\'', move_actor = '\''ann'\'' where kind = '\''broker'\'' and name = '\''m'\''"
    gone m 0
    is "$(sqlite3 $SLUICE_CONTROL "select to_state || '\'' '\'' || actor from history where name = '\''m'\'' order by id desc limit 1")" "stopped ann"
    done_ok $B --stream-id m --target $T/m.db --once && same_all $S $T/m.db && done_ok control check'
done_testing
