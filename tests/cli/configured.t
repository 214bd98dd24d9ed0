#!/bin/bash
# Configuring by SQL equals the flags: the same chain links, the same rows, the same states; and what an operator reads and moves with a plain shell.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
S=$T/app.db
app_create "$S"
sqlite3 "$S" "vacuum into '$T/app2.db'"; sqlite3 "$T/app2.db" 'pragma journal_mode=wal' >/dev/null
by_sql() { SLUICE_CONTROL=$T/sql.db "$@"; }

test_it 'the documented file, with other paths, and sluice run producer: a full, then links until there is nothing new' '
    by_sql done_ok machine; out_has producer
    sed -e "s|/srv/app.db|$S|; s|/srv/chain|$T/chain|; s|/srv/copy.db|$T/copy.db|" $ROOT/contrib/configure.sql | sqlite3 -bail $T/sql.db
    by_sql done_ok run producer app --until idle
    app_change $S 1; by_sql done_ok run producer app --until idle; by_sql done_ok run producer app
    done_ok backup verify --from-dir $T/chain --depth read'
test_it 'sluice run broker: the reset, then links' '
    by_sql done_ok run broker app --until idle; same_all $S $T/copy.db
    app_change $S 2; by_sql done_ok run producer app --until idle; by_sql done_ok run broker app --until idle; same_all $S $T/copy.db'
test_it 'the flag form leaves the same states and the same rows' '
    done_ok backup full --source-driver sqlite --source $T/app2.db --output-dir $T/chain2 --chain-slot --name app
    app_change $T/app2.db 1; done_ok backup incremental --source-driver sqlite --source $T/app2.db --output-dir $T/chain2 --name app
    done_ok sync from-backup run --backup-dir $T/chain2 --target-driver sqlite --target $T/copy2.db --stream-id app --reset-target-data --yes --once
    app_change $T/app2.db 2; done_ok backup incremental --source-driver sqlite --source $T/app2.db --output-dir $T/chain2 --name app
    done_ok sync from-backup run --backup-dir $T/chain2 --target-driver sqlite --target $T/copy2.db --stream-id app --once
    same_all $T/copy.db $T/copy2.db
    is "$(q $SLUICE_CONTROL "select kind, state from entity where kind <> '\''task'\'' order by 1")" "$(q $T/sql.db "select kind, state from entity where kind <> '\''task'\'' order by 1")"
    is "$(q $SLUICE_CONTROL "select count(*) from link")" "$(q $T/sql.db "select count(*) from link")"'
test_it 'sluice run prints what it did; --steps bounds it; an unknown name lists where to look' '
    app_change $S 3; by_sql done_ok run producer app --steps 1; cat $T/out $T/err | grep -q "link"
    by_sql ends 2 "nobody" run producer nobody; by_sql ends 2 "kind|steps|producer" run nonsense app'
test_it 'a move by hand is a history row of its own, and an illegal one is refused' '
    sqlite3 $T/sql.db "update entity set state = '\''stopped'\'', move_actor = '\''ann'\'', move_message = '\''maintenance'\'' where kind = '\''producer'\'' and name = '\''app'\''"
    by_sql done_ok history app --format csv; out_has "ann.*stopped.*maintenance"
    fails sqlite3 -bail $T/sql.db "update entity set state = '\''planned'\'' where kind = '\''broker'\'' and name = '\''app'\''"
    by_sql done_ok run producer app --until idle; by_sql done_ok run broker app --until idle; same_all $S $T/copy.db'
test_it 'sql, history, machine, status, errors in their formats' '
    by_sql done_ok sql "select kind, name, state from entity order by 1"; out_has "broker"
    by_sql done_ok sql "select 1 as one, null as nil" --format json; is "$(sqlite3 :memory: "select json_extract(readfile('\''$T/out'\''), '\''\$[0].one'\'')" 2>/dev/null || cat $T/out)" 1
    by_sql done_ok sql "select 1 as one" --format csv; out_has "^one"
    by_sql done_ok history --since 2020-01-01 --format json; out_has "full_done"; by_sql done_ok history --since 2999-01-01T00:00:00Z --format csv; by_sql ends 2 "since" history --since yesterday
    by_sql done_ok machine producer; out_has "full_done"; by_sql done_ok machine broker --dot; out_has "digraph"; by_sql run machine nonsense; isnt $rc 0
    by_sql done_ok sync status --format json; out_has app; by_sql done_ok sync status --format csv
    done_ok errors; out_has "SLUICE-E-SLOT-LOST"; done_ok errors SLUICE-E-SLOT-LOST; done_ok errors --format json; out_has "KEY-COLLATION-MERGE"'
test_it '--explain-sql prints the statement and does nothing' '
    by_sql done_ok sync status --explain-sql; out_has "(?i)select|SELECT"; by_sql done_ok history --explain-sql; out_has "SELECT"
    n=$(q $T/sql.db "select count(*) from history"); by_sql run backup full --source-driver sqlite --source $S --output-dir $T/never --explain-sql; [ ! -e $T/never ]; is "$(q $T/sql.db "select count(*) from history")" "$n"'
test_it 'control check, backup, export, rebuild' '
    by_sql done_ok control check
    by_sql done_ok control backup $T/saved.db; SLUICE_CONTROL=$T/saved.db done_ok control check; is "$(q $T/saved.db "select count(*) from history")" "$(q $T/sql.db "select count(*) from history")"
    by_sql done_ok control export; out_has "full_done"
    mkdir $T/lost; SLUICE_CONTROL=$T/lost/c.db done_ok machine
    sed -e "s|/srv/app.db|$S|; s|/srv/chain|$T/chain|; s|/srv/copy.db|$T/copy.db|" $ROOT/contrib/configure.sql | sqlite3 -bail $T/lost/c.db
    SLUICE_CONTROL=$T/lost/c.db done_ok control rebuild
    is "$(q $T/lost/c.db "select tip_id from chain")" "$(q $T/sql.db "select tip_id from chain")"'
test_it 'a password in a DSN is sealed at the next open, and shows as stars' '
    sqlite3 $T/sql.db "insert into endpoint(name, role, driver, dsn) values ('\''pw'\'', '\''source'\'', '\''postgres'\'', '\''postgresql://u:${SECRETS%% *}@h/d'\'')"
    by_sql done_ok machine; is "$(q $T/sql.db "select dsn from endpoint where name = '\''pw'\''")" "postgresql://u:***@h/d"
    is "$(q $T/sql.db "select count(*) from secret")" 1; is "$(stat -c %a $T/sql.db.key)" 600; is "$(stat -c %a $T/sql.db)" 600
    sqlite3 $T/sql.db "pragma wal_checkpoint(truncate); vacuum" >/dev/null; fails grep -qaF "${SECRETS%% *}" $T/sql.db'
test_it 'a control DB that was tampered with is refused at open, and check names what' '
    for s in "drop trigger entity_delete" "create trigger mine after insert on history begin select 1; end" "drop trigger history_update; create trigger history_update before update on history begin select 1; end"; do
        by_sql done_ok control backup $T/bad.db; sqlite3 $T/bad.db "$s"
        SLUICE_CONTROL=$T/bad.db ends 3 "trigger" sync status; SLUICE_CONTROL=$T/bad.db run control check; is $rc 3; rm -f $T/bad.db*
    done
    by_sql done_ok control backup $T/bad.db; sqlite3 $T/bad.db "create table mine(x); create view myview as select * from audit; create index myindex on history(at_us)"; SLUICE_CONTROL=$T/bad.db done_ok control check'
test_it 'a broken seal is found' '
    by_sql done_ok control backup $T/seal.db
    sqlite3 $T/seal.db "pragma writable_schema=on; delete from sqlite_schema where type='\''trigger'\'' and name='\''history_update'\''" 2>/dev/null
    sqlite3 $T/seal.db "update history set message = '\''forged'\'' where id = 1" 2>/dev/null
    [ "$(q $T/seal.db "select message from history where id = 1")" = forged ]
    SLUICE_CONTROL=$T/seal.db run control check; is $rc 3'
test_it 'a control DB of a newer sluice is refused and left alone' '
    by_sql done_ok control backup $T/newer.db
    sqlite3 $T/newer.db "drop trigger meta_update; update meta set value = '\''999'\''" ; SLUICE_CONTROL=$T/newer.db run sync status; is $rc 3; err_has "newer"'
test_it 'a control DB locked by a shell: --control-wait, then 75' '
    mkfifo $T/hold; sqlite3 $T/sql.db <$T/hold >/dev/null 2>&1 & holder=$!
    echo $holder >>$T/pids; exec 8>$T/hold; echo "begin immediate;" >&8
    wait_for 10 "! sqlite3 $T/sql.db \"begin immediate; rollback\""
    app_change $S 4
    by_sql ends 75 "locked|hold" run producer app --control-wait 1s
    ( wait_for 3 false || echo "rollback;" >&8 ) & 
    by_sql done_ok run producer app --control-wait 30s; exec 8>&-
    by_sql done_ok run broker app --until idle; same_all $S $T/copy.db'
test_it 'signals: TERM ends a broker with 0, and its state is stopped' '
    SLUICE_CONTROL=$T/sql.db; export SLUICE_CONTROL
    spawn b sync from-backup run --backup-dir $T/chain --target-driver sqlite --target $T/copy.db --stream-id app --poll-interval 100ms
    wait_for 10 "[ \"\$(q $T/sql.db \"select owner_pid from entity where kind = '\''broker'\''\")\" = \$(cat $T/b.pid) ]"
    signal_of b TERM; gone b 0; is "$(q $T/sql.db "select state from entity where kind = '\''broker'\''")" stopped'
done_testing
