#!/bin/bash
# sync health: 0 healthy, 1 behind, stale or refused, 2 could not tell. A real chain and broker, whose mirror is then put where a case needs it.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
S=$T/app.db C=$T/chain
app_create "$S"
run backup full --source-driver sqlite --source "$S" --output-dir "$C" --chain-slot --name app
[ "$rc" = 0 ] || { say_run; echo "Bail out! no full"; exit 1; }
app_change "$S" 1
run backup incremental --source-driver sqlite --source "$S" --output-dir "$C" --name app
run sync from-backup run --backup-dir "$C" --target-driver sqlite --target "$T/t.db" --stream-id app-broker --reset-target-data --yes --once
[ "$rc" = 0 ] || { say_run; echo "Bail out! no broker"; exit 1; }
ctl() { sqlite3 "$SLUICE_CONTROL" "$1"; }
now="CAST(strftime('%s','now') AS INTEGER) * 1000000"
entity() { echo "(select id from entity where kind = '$1')"; }
# seen KIND SECONDS_AGO LAG_LINKS LAG_SECONDS: what the mirror of that entity says
seen() { ctl "update position set at_us = $now - $2 * 1000000, lag_links = $3, lag_us = $4 * 1000000 where entity_id = $(entity "$1")"; }
health() { run sync health "$@"; }
answers() { # answers RC ARG…
    local want=$1
    shift
    run sync health "$@"
    [ "$rc" = "$want" ] || { echo "wanted exit code $want"; say_run sync health "$@"; return 1; }
}
member() { sqlite3 :memory: "select json_extract(value, '\$.$2') from json_each(cast(readfile('$T/out') as text)) where json_extract(value, '\$.kind') = '$1'"; }

test_it 'both are well after their work: 0, and nothing on stderr' '
    answers 0
    out_has "broker +app-broker +healthy" && out_has "producer +app +healthy"
    is "$(cat $T/err)" ""'

test_it 'one name, and every format' '
    answers 0 app --format json
    is "$(json "\$[0].kind")|$(json "\$[0].health")|$(json "\$[1]")" "producer|healthy|"
    answers 0 app-broker --format csv && out_has "^broker,app-broker,healthy,"'

test_it 'links behind count when they are asked about, and only above the limit' '
    seen broker 0 3 5
    answers 0
    answers 0 --max-lag-links 3
    answers 1 --max-lag-links 2 --format json
    is "$(member broker health)|$(member broker why)" "behind|3 links behind"
    is "$(member producer health)" healthy
    answers 1 app-broker --max-lag-links 0
    answers 0 app --max-lag-links 0'

test_it 'seconds behind have a limit of their own, 900 when none is given' '
    seen broker 0 1 901
    answers 1 --format json
    is "$(member broker why)" "901 s behind"
    answers 0 --max-lag-seconds 1000
    seen broker 0 1 890
    answers 0 && answers 1 --max-lag-seconds 60'

test_it 'what was behind when it was last seen goes on growing older' '
    seen broker 800 1 200
    answers 1 --format json && is "$(member broker health)" behind
    seen broker 800 0 0
    answers 0'

test_it 'nothing heard of it: stale, and whether a process has it is said' '
    seen broker 1000 0 0
    answers 1 --format json
    is "$(member broker health)" stale
    member broker why | grep -Eq "^last heard of 100[0-9] s ago, and does not run$"
    answers 0 --max-stale-seconds 2000
    seen producer 5000 0 0; seen broker 0 0 0
    answers 1 && out_has "producer +app +stale"
    answers 0 app-broker
    seen producer 0 0 0'

test_it 'two reasons are both told, the worse one first' '
    seen broker 1000 7 2000
    answers 1 --max-lag-links 5 --format json
    is "$(member broker health)" stale
    member broker why | grep -Eq "^last heard of .*; 7 links behind; 300[0-9] s behind$"
    seen broker 0 0 0'

test_it 'a refusal that stands is ill whatever the lag, with its text; the remedy makes it well' '
    q $T/t.db "alter table item add column extra int"
    app_change $S 2
    done_ok backup incremental --source-driver sqlite --source $S --output-dir $C --name app
    ends 3 extra sync from-backup run --backup-dir $C --target-driver sqlite --target $T/t.db --stream-id app-broker --once
    answers 1 --format json
    is "$(member broker health)" refused
    member broker why | grep -q "^refused: RESUME-SCHEMA-DIVERGENCE: .*extra"
    is "$(member broker marker)" RESUME-SCHEMA-DIVERGENCE
    q $T/t.db "alter table item drop column extra"
    done_ok sync from-backup run --backup-dir $C --target-driver sqlite --target $T/t.db --stream-id app-broker --once
    answers 0'

test_it 'an entity that was configured and never run is not well' '
    ctl "insert into endpoint(name, role, driver, dsn) values ('\''e.t'\'', '\''target'\'', '\''sqlite'\'', '\''$T/e.db'\''), ('\''e.s'\'', '\''store'\'', '\''file'\'', '\''file://$C'\'');
         insert into entity(kind, name, target, store) values ('\''broker'\'', '\''early'\'', '\''e.t'\'', '\''e.s'\'')"
    answers 1 early && out_has "behind +does not follow yet"
    answers 0 app-broker'

test_it 'a full without an anchor is finished, and never stale' '
    SLUICE_CONTROL=$T/plain.db done_ok backup full --source-driver sqlite --source $S --output-dir $T/plain --name once
    sqlite3 $T/plain.db "update position set at_us = 1" || true
    SLUICE_CONTROL=$T/plain.db answers 0'

test_it 'a running broker is healthy, and its process is named' '
    spawn b1 sync from-backup run --backup-dir $C --target-driver sqlite --target $T/t.db --stream-id app-broker --poll-interval 100ms
    wait_for 20 "[ \"\$(ctl \"select owner_pid from brokers where stream_id = '\''app-broker'\''\")\" = \$(cat $T/b1.pid) ]"
    answers 0 app-broker --format json
    is "$(member broker owner_pid)" "$(cat $T/b1.pid)"
    stop_of b1; gone b1 0'

test_it 'could not tell is 2: no such name, an empty file, a wrong flag, a file that is none' '
    answers 2 nobody && err_has "nobody" && err_has "sync status"
    SLUICE_CONTROL=$T/empty.db answers 2 && err_has "no broker and no producer"
    answers 2 --max-lag-links many && answers 2 --max-lag-links -1 && answers 2 --format xml && answers 2 a b
    echo "this is no database, and long enough that nobody could take it for one: ......................................................................." >$T/junk.db
    SLUICE_CONTROL=$T/junk.db answers 2'

test_it 'a control DB that was tampered with is 2 here and 3 elsewhere' '
    sqlite3 $SLUICE_CONTROL ".backup $T/bad.db"
    sqlite3 $T/bad.db "drop trigger history_delete"
    SLUICE_CONTROL=$T/bad.db answers 2
    SLUICE_CONTROL=$T/bad.db ends 3 "." sync status'

test_it '--explain-sql prints a statement that a shell can run' '
    done_ok sync health --explain-sql
    { echo ".parameter init"; for p in name max_links max_seconds max_stale; do echo ".parameter set :$p NULL"; done; cat $T/out; } | sqlite3 $SLUICE_CONTROL >$T/rows
    grep -q "^broker|app-broker|" $T/rows'

done_testing
