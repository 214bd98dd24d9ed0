#!/bin/bash
# A point in the log: restore to a position or a moment, going on from inside a link, a broker that ends at a point or lags behind on purpose.
. "$(dirname "$0")/../lib/lib.sh"
need_pg
S=$(pg_db "$PG_A" src) C=$T/chain
SRC="--source-driver postgres --source $S --output-dir $C"
q "$S" "create table t(id int primary key, v int); create table k(v int); alter table k replica identity full"
run backup full $SRC --chain-slot --slot-name "point_$$"; [ "$(cat "$T/rc")" = 0 ] || { say_run full; echo "Bail out! no full"; exit 1; }
add() { q "$S" "begin; insert into t values ($1,$1); insert into k values ($1); insert into k values ($1); commit"; }
moment() { q "$S" "select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"; }
for i in 1 2 3 4 5; do add $i; done
moment >"$T/time"; q "$S" "select pg_current_wal_lsn()" >"$T/lsn"
for i in 6 7 8 9; do add $i; done
run backup incremental $SRC --format json; json '$.id' >"$T/id1"
holds() { is "$(q "$1" "select count(*) || ' ' || max(id) from t")" "$2 $2" && is "$(q "$1" "select count(*) || ' ' || max(v) from k")" "$((2 * $2)) $2"; }
sluice_id0() { "$SLUICE" backup list --from-dir "$C" --format json >"$T/list" && json '$[0].id' "$T/list"; }
restore() { done_ok restore --from-dir "$C" --target-driver postgres --target "$@"; }
broker() { done_ok sync from-backup run --backup-dir "$C" --target-driver postgres --target "$@"; }

test_it '--to-time stops before the first later commit, inside a link; tail_id is null and seq is given' '
    A=$(pg_db "$PG_B" a); echo $A >$T/a
    restore $A --to-time $(cat $T/time) --format json && holds $A 5
    is "$(json "\$.tail_id is null")" "" && isnt "$(json "\$.seq")" ""'

test_it '--to-position includes the transaction that ends there' '
    A=$(pg_db "$PG_B" p); restore $A --to-position $(cat $T/lsn) && holds $A 5'

test_it 'a point before the first full, a position that is none, two points at once: refused' '
    A=$(pg_db "$PG_B" n)
    ends 3 "before the chain" restore --from-dir $C --target-driver postgres --target $A --to-time 2001-01-01
    ends 3 "before the chain" restore --from-dir $C --target-driver postgres --target $A --to-position 0/1
    ends 2 "no position" restore --from-dir $C --target-driver postgres --target $A --to-position nonsense
    ends 2 "no time" restore --from-dir $C --target-driver postgres --target $A --to-time yesterday
    ends 2 "exclude each other" restore --from-dir $C --target-driver postgres --target $A --to-time 2030-01-01 --to-position 0/1'

test_it 'a later time than any commit is the tail' '
    A=$(pg_db "$PG_B" l); restore $A --to-time 2099-01-01T00:00:00Z --format json && holds $A 9 && is "$(json "\$.tail_id")" "$(cat $T/id1)"'

test_it '--at-chain-id with the id in front of it is refused: the target stands inside the link' '
    ends 3 "inside the link" sync from-backup run --backup-dir $C --target-driver postgres --target $(cat $T/a) --stream-id x --once --at-chain-id $(sluice_id0)'

test_it '--at-chain-id restore goes on exactly there, rows of a table without a key included' '
    A=$(cat $T/a); broker $A --stream-id b --at-chain-id restore --once && holds $A 9'

test_it 'a kill between the two writes of such an adoption is finished by the same command' '
    for f in broker.before_adopt broker.before_adopt_mark broker.after_adopt_mark; do
        A=$(pg_db "$PG_B" "k$RANDOM"); restore $A --to-position $(cat $T/lsn)
        SLUICE_FAULT=$f run sync from-backup run --backup-dir $C --target-driver postgres --target $A --stream-id "k.$f" --at-chain-id restore --once
        is "$(cat $T/rc)" 137
        broker $A --stream-id "k.$f" --at-chain-id restore --once && holds $A 9 || return 1
    done'

test_it 'a second stream cannot adopt what another has moved on from' '
    ends 3 "moved this target on" sync from-backup run --backup-dir $C --target-driver postgres --target $(cat $T/a) --stream-id c --at-chain-id restore --once'

test_it '--until ends the run at the point, and a later run goes on' '
    A=$(pg_db "$PG_B" u)
    broker $A --stream-id u --reset-target-data --yes --once && holds $A 9
    moment >$T/time2; add 10; done_ok backup incremental $SRC
    broker $A --stream-id u --until $(cat $T/time2) && holds $A 9
    broker $A --stream-id u --once && holds $A 10'

test_it '--apply-delay leaves young commits for later' '
    A=$(pg_db "$PG_B" d)
    broker $A --stream-id d --reset-target-data --yes --once && holds $A 10
    add 11; done_ok backup incremental $SRC
    broker $A --stream-id d --apply-delay 1h --once && holds $A 10
    broker $A --stream-id d --apply-delay 1ms --once && holds $A 11'
done_testing
