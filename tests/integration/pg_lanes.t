#!/bin/bash
# Several lanes into PostgreSQL: the same rows and the same place as with one, whatever is killed, stalled, added or dropped between.
. "$(dirname "$0")/../lib/lib.sh"
need_pg
S=$(pg_db "$PG_A" lanes) C=$T/chain
export SLUICE_SOURCE=$S
BASE=$(pg_db "$PG_B" base)
incr() { done_ok backup incremental --source-driver postgres --output-dir "$C"; }
copy_of() { # copy_of NAME: a target that stands where the full does
    local db="t$$_$1"
    q "$PG_B/postgres" "create database $db template ${BASE##*/}" && echo "$PG_B $db" >>"$T/databases"
    echo "$PG_B/$db"
}
broker() { # broker TARGET LANES FLAG…: the exit code is in $rc
    local d=$1 w=$2
    shift 2
    SLUICE_CONTROL=$T/b-${d##*_}.db run sync from-backup run --backup-dir "$C" --target-driver postgres --target "$d" --stream-id "${d##*_}" --apply-concurrency "$w" --once "$@"
}
broker_ok() { broker "$@"; [ "$rc" = 0 ] || { say_run "$@"; return 1; }; }
seqs() { q "$1" "select count(distinct seq) from sluice_cdc_lane where stream_id = '${1##*_}'"; }
lanes() { q "$1" "select count(*) from sluice_cdc_lane where stream_id = '${1##*_}'"; }
place() { q "$1" "select link_id, seq, (select min(seq) from sluice_cdc_lane l where l.stream_id = s.stream_id) from sluice_cdc_state s where stream_id = '${1##*_}'"; }
rules() { q "$1" "select rules from sluice_cdc_route where stream_id = '${1##*_}'"; }

q "$S" "create table acc(aid int primary key, bal int, code int, filler text);
    create table pair(a text, b int, v int, primary key (a, b));
    create table nokey(a int, b text); alter table nokey replica identity full;
    create table uq(id int primary key, u int unique);
    create table ring(id int primary key, pos int unique deferrable initially immediate);
    create table par(id int primary key, v int);
    create table kid(id int primary key, par int references par, v int);
    insert into acc select i, 0, i, repeat('x', 20) from generate_series(1, 4000) i;
    insert into pair select 'p' || i % 100, i, 0 from generate_series(1, 1500) i;
    insert into nokey select i % 50, 'v' from generate_series(1, 300) i;
    insert into uq select i, i from generate_series(1, 400) i; insert into ring select i, i from generate_series(1, 400) i;
    insert into par select i, 0 from generate_series(1, 300) i; insert into kid select i, i % 300 + 1, 0 from generate_series(1, 900) i;"
round() { # everything that makes lanes depend on each other, in transactions large and small
    local r=$1
    cat >"$T/round.sql" <<END
        update acc set bal = bal + aid where aid % 3 <> $((r % 3));
        insert into acc select 10000 * $r + i, $r, 10000 * $r + i, 'new' from generate_series(1, 1200) i;
        delete from acc where aid % 11 = $r;
        begin; update acc set aid = -aid where aid % 97 = $r; update acc set bal = bal + 1 where aid % 5 = 0; update acc set aid = 500000 * $r - aid where aid < 0; commit;
        update pair set v = v + 1; update pair set b = b + 10000 where b % 50 = $r; update pair set v = v + 1 where b > 5000;
        insert into nokey select i % 40, 'r$r' from generate_series(1, 800) i; update nokey set b = b || 'z' where a % 7 = $((r % 7)); delete from nokey where a = $r;
        begin; update uq set u = -u; update uq set u = 401 + u; commit;
        update ring set pos = pos % 400 + 1;
        begin; insert into par select 1000 * $r + i, 0 from generate_series(1, 200) i; insert into kid select 10000 * $r + i, 1000 * $r + i, 0 from generate_series(1, 200) i; commit;
        begin; delete from kid where par between 1 + 10 * $r and 8 + 10 * $r; delete from par where id between 1 + 10 * $r and 8 + 10 * $r; commit; update kid set v = v + $r; update par set v = $r;
        update acc set filler = 'r$r' where aid % 2 = 0;
END
    qf "$S" "$T/round.sql" # statement by statement, each a transaction
    # two rows exchange what is unique on one target alone
    q "$S" "begin; update acc set code = -1 where aid = (select min(aid) from acc where aid > 0); update acc set code = 1000000 + $r where aid = (select max(aid) from acc); commit"
    [ "$r" != 3 ] || q "$S" "begin; truncate pair; insert into pair select 't', i, i from generate_series(1, 1200) i; commit; alter table acc add column extra int default 7; update acc set extra = aid"
}
ALL="acc pair nokey uq ring par kid"
done_ok backup full --source-driver postgres --output-dir "$C" --chain-slot --slot-name "s$$"
done_ok restore --from-dir "$C" --target-driver postgres --target "$BASE" --to-id "$(tail -1 "$T/out")"
ONE=$(copy_of one) MANY=$(copy_of many) KEY=$(copy_of key)
broker "$ONE" 1 --at-chain-id restore; broker "$MANY" 4 --at-chain-id restore; broker "$KEY" 4 --at-chain-id restore

test_it 'four lanes and one: the same rows at the same place' '
    round 1; incr; broker_ok $ONE 1; broker_ok $MANY 4; err_has "applying with lanes .*lanes=4"
    same_rows $S $MANY $ALL; same_rows $S $ONE $ALL
    is "$(place $MANY)" "$(place $ONE)"; is "$(lanes $MANY)" 4; is "$(seqs $MANY)" 1; is "$(lanes $ONE)" 1'
test_it 'the routing says why a table is in one lane' '
    r=$(rules $MANY); echo "$r"
    echo "$r" | grep -q "public.acc\",\"hash\":\[\"aid\"\]"; echo "$r" | grep -q "public.pair\",\"hash\":\[\"a\",\"b\"\]"
    echo "$r" | grep -q "public.nokey\",\"lane\":[0-3],\"why\":\"no key\""; echo "$r" | grep -q "public.uq\",\"lane\":[0-3],\"why\":\"another unique key"
    echo "$r" | grep -q "public.kid\",\"hash\""'
test_it 'the number of lanes changes between runs, one among them' '
    broker_ok $KEY 4
    round 2; incr; broker_ok $MANY 2; broker_ok $ONE 1; same_rows $S $MANY $ALL; is "$(lanes $MANY)" 2; is "$(place $MANY)" "$(place $ONE)"
    round 3; incr; broker_ok $MANY 1; broker_ok $ONE 1; same_rows $S $MANY $ALL; is "$(lanes $MANY)" 1; is "$(rules $MANY)" ""
    round 4; incr; broker_ok $MANY 7; broker_ok $ONE 4; same_rows $S $MANY $ALL; same_rows $S $ONE $ALL; is "$(lanes $MANY)" 7; is "$(place $MANY)" "$(place $ONE)"'
test_it 'a restore takes lanes too, and leaves the same place' '
    A=$(pg_db $PG_B r1) B=$(pg_db $PG_B r4)
    done_ok restore --from-dir $C --target-driver postgres --target $A --apply-concurrency 1 --format json; cp $T/out $T/one.json
    SLUICE_CONTROL=$T/r4.db done_ok restore --from-dir $C --target-driver postgres --target $B --format json
    err_has "applying with lanes"; is "$(json "\$.tail_id")" "$(json "\$.tail_id" $T/one.json)"; is "$(json "\$.seq")" "$(json "\$.seq" $T/one.json)"
    same_rows $S $A $ALL; same_rows $S $B $ALL'
test_it 'killed between the commits of two lanes, it goes on with any number of lanes' '
    apart=0
    for k in 1 2 3 6 10; do
        D=$(copy_of kill$k)
        SLUICE_FAULT=lanes.after_share:$k broker $D 4 --at-chain-id restore; is $rc 137
        [ "$(seqs $D)" = 1 ] || apart=$((apart + 1))
        w=$((k % 4 + 1)); broker $D $w; [ $rc = 0 ] || { say_run after $k; exit 1; }
        same_rows $S $D $ALL || { echo "after kill $k with $w lanes"; exit 1; }
        is "$(place $D | cut -d"|" -f1,2)" "$(place $ONE | cut -d"|" -f1,2)"; is "$(seqs $D)" 1
        q "$PG_B/postgres" "drop database ${D##*/} with (force)"
    done
    echo "$apart times apart"; [ $apart -ge 2 ]'
test_it 'killed around routing, state row and shape change' '
    for p in lanes.after_route postgres.route_before_commit lanes.before_state lanes.after_state:2 apply.before_shape apply.after_shape; do
        D=$(copy_of at)
        SLUICE_FAULT=$p broker $D 4 --at-chain-id restore; is $rc 137
        broker $D 4; [ $rc = 0 ] || { say_run after $p; exit 1; }
        same_rows $S $D $ALL || { echo "after kill at $p"; exit 1; }
        rm -f $T/b-at.db*; rm -rf $C/consumers; q "$PG_B/postgres" "drop database ${D##*/} with (force)"
    done'
test_it 'a unique index added on the target between two runs' '
    q $KEY "create unique index acc_code on acc(code)"; broker $KEY 4; is $rc 3; err_has "SOURCE-UNIQUE-KEY-ABSENT"
    q $KEY "drop index acc_code; create unique index acc_both on acc(filler, aid)"; broker_ok $KEY 4; same_rows $S $KEY $ALL
    rules $KEY | grep -q "public.acc\",\"hash\""'
test_it 'tables joined by enforced foreign keys go together, until the key is dropped' '
    R=lane_$$ D=$(copy_of fk); pg_role $PG_B $R ""; db=${D##*/}
    q $D "alter database $db owner to $R; grant all on schema public to $R; do \$\$ declare t record; begin for t in select relname from pg_class where relkind = '\''r'\'' and relnamespace = '\''public'\''::regnamespace loop execute format('\''alter table %I owner to $R'\'', t.relname); end loop; end \$\$"
    L=$(as_role $D $R)
    k=$(q $S "select count(*) from kid"); broker_as() { SLUICE_CONTROL=$T/b-fk.db run sync from-backup run --backup-dir $C --target-driver postgres --target $L --stream-id fk --apply-concurrency 4 --once "$@"; [ $rc = 0 ] || { say_run; exit 1; }; }
    broker_as --at-chain-id restore; same_rows $S $D $ALL
    rules $D | grep -q "public.kid\",\"lane\":\([0-3]\),\"why\":\"foreign keys\".*public.par\",\"lane\":\1,\"why\":\"foreign keys\""
    q $D "alter table kid drop constraint kid_par_fkey"; broker_as; rules $D | grep -q "foreign keys" || true
    round 5; incr; broker_as; same_rows $S $D $ALL
    rules $D | grep -q "public.kid\",\"hash\""; fails grep -q "foreign keys" <<<"$(rules $D)"'
test_it 'marks and routing that somebody changed are refused' '
    D=$(copy_of bad); broker_ok $D 4 --at-chain-id restore
    q $D "insert into sluice_cdc_lane select stream_id, 4, epoch, route_epoch, seq from sluice_cdc_lane where lane = 3"
    broker $D 4; is $rc 3; err_has "APPLY-MARK-MISMATCH"; q $D "delete from sluice_cdc_lane where lane = 4"
    q $D "create table keep as select * from sluice_cdc_route; delete from sluice_cdc_route"
    broker $D 4; is $rc 3; err_has "APPLY-MARK-MISMATCH"; q $D "insert into sluice_cdc_route select * from keep; drop table keep"
    q $D "update sluice_cdc_lane set seq = 99999999 where lane = 2"; broker $D 4; is $rc 3; err_has "APPLY-MARK-MISMATCH"'
holder() { # a session that keeps a row of acc locked until $T/let exists
    rm -f "$T/let"
    { echo "begin; update acc set bal = bal where aid = $2; select 'held';"; until [ -e "$T/let" ]; do sleep 0.1; done; echo "rollback;"; } | psql -XAtq "$1" >"$T/held" 2>&1 &
    echo $! >>"$T/pids"
    wait_for 10 "grep -q held $T/held"
}
test_it 'a lane whose server stalls holds the others at its window; a takeover waits for what is in flight' '
    D=$(copy_of stall); aid=$(q $S "select min(aid) from acc where aid > 0")
    holder $D $aid
    SLUICE_CONTROL=$T/b-stall.db spawn st sync from-backup run --backup-dir $C --target-driver postgres --target $D --stream-id stall --apply-concurrency 4 --at-chain-id restore
    wait_for 20 "[ \"\$(seqs $D)\" = 2 ]"
    pid=$(q $D "select pid from pg_stat_activity where datname = current_database() and wait_event_type = '\''Lock'\'' limit 1"); [ -n "$pid" ]
    kill -STOP $pid; touch $T/let
    before=$(q $D "select max(seq) from sluice_cdc_lane where stream_id = '\''stall'\''")
    wait_for 20 "[ \"\$(q $D \"select count(*) from sluice_cdc_lane where stream_id = '\''stall'\'' and seq = $before\")\" = 3 ]"
    signal_of st KILL; gone st 137
    rm -f $T/b-stall.db*; SLUICE_CONTROL=$T/b2.db spawn st2 sync from-backup run --backup-dir $C --target-driver postgres --target $D --stream-id stall --apply-concurrency 3 --once
    wait_for 20 "[ \"\$(q $D \"select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = '\''Lock'\''\")\" -ge 1 ]"
    running st2; kill -CONT $pid; gone st2 0 60
    same_rows $S $D $ALL; is "$(lanes $D)" 3; is "$(seqs $D)" 1'
test_it 'a takeover while transactions are in flight fences every lane of the first run' '
    D=$(copy_of over); aid=$(q $S "select min(aid) from acc where aid > 0")
    holder $D $aid
    SLUICE_CONTROL=$T/b-over.db spawn ov sync from-backup run --backup-dir $C --target-driver postgres --target $D --stream-id over --apply-concurrency 4 --at-chain-id restore
    wait_for 20 "[ \"\$(seqs $D)\" = 2 ]"
    signal_of ov STOP; q $D "select count(pg_terminate_backend(pid)) from pg_locks where locktype = '\''advisory'\'' and database = (select oid from pg_database where datname = current_database())" >/dev/null
    SLUICE_CONTROL=$T/b3.db spawn ov2 sync from-backup run --backup-dir $C --target-driver postgres --target $D --stream-id over --apply-concurrency 4 --once
    wait_for 20 "[ \"\$(q $D \"select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = '\''Lock'\''\")\" -ge 2 ]"
    touch $T/let; gone ov2 0 60; same_rows $S $D $ALL
    signal_of ov CONT; wait_for 30 "[ -f $T/ov.rc ] || ! q $D \"select 1\" >/dev/null || grep -q \"again\|FENCED\|took stream\" $T/ov.err"
    same_rows $S $D $ALL; signal_of ov TERM || true; wait_for 20 "[ -f $T/ov.rc ]"; same_rows $S $D $ALL; is "$(seqs $D)" 1'
done_testing
