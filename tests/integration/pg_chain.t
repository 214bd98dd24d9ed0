#!/bin/bash
# A chain from PostgreSQL into PostgreSQL: full, incrementals with each reason to end, restore, broker; as a superuser. PG_FROM picks the source's server.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
need_pg
FROM=${PG_FROM:-$PG_A}
S=$(pg_db "$FROM" src) C=$T/chain
export SLUICE_SOURCE=$S
app_create "$S"
SRC="--source-driver postgres --output-dir $C"
SLOT="--slot-name s$$"
full() { done_ok backup full $SRC --chain-slot $SLOT "$@"; }
incr() { done_ok backup incremental $SRC "$@"; }
nothing_new() { cat "$T/out" "$T/err" | grep -q "nothing new"; }
k=0
restored() { # the chain, restored into a new database, equals the source
    local D
    D=$(pg_db "$PG_B" "r$1") && SLUICE_TARGET=$D SLUICE_CONTROL=$T/r-control.db done_ok restore --from-dir "$C" --target-driver postgres && same_all "$S" "$D"
}

test_it '--dry-run lists the tables and changes nothing' '
    full --dry-run && out_has "customer" && [ ! -e $C/lineage.json ]
    is "$(q $S "select count(*) from pg_publication")" 0'
test_it 'a full with --chain-slot makes publication and slot, and --format json says what it made' '
    full --format json
    json "\$.id" | grep -Eq "^[0-9a-f]{40}$"
    is "$(json "\$.rows")" "$(q $S "select (select count(*) from customer)+(select count(*) from item)+(select count(*) from visit)")"
    is "$(q $S "select plugin from pg_replication_slots where slot_name = '\''s$$'\''")" pgoutput
    is "$(q $S "select puballtables from pg_publication")" f
    done_ok backup verify --from-dir $C --depth read
    restored 1'
test_it 'nothing new makes no link' 'sum=$(json "\$.tip" $C/lineage.json); incr && nothing_new'
test_it 'an incremental takes what changed, keyed and keyless, and says that it caught up' '
    app_change $S 1; incr; cat $T/out | grep -q "caught up"; restored 2'
test_it '--format json is one object' '
    app_change $S 2; incr --format json
    json "\$.id" | grep -Eq "^[0-9a-f]{40}$"; [ "$(json "\$.changes")" -gt 0 ]; is "$(json "\$.ended")" "caught up"'
test_it '--max-changes ends at the next commit and goes on from link to link' '
    for r in 3 4 5; do app_change $S $r; done
    incr --max-changes 10 --format json; is "$(json "\$.ended")" "max changes"; [ "$(json "\$.changes")" -ge 10 ]
    i=1
    while incr --max-changes 10 && ! nothing_new; do i=$((i + 1)); [ $i -lt 100 ]; done
    [ $i -ge 6 ] && restored 3'
test_it '--window ends at the next commit after it' '
    for r in 6 7 8; do app_change $S $r; done
    incr --window 1ms --format json; is "$(json "\$.ended")" "window"
    i=1
    while incr --window 1ms && ! nothing_new; do i=$((i + 1)); [ $i -lt 100 ]; done
    [ $i -ge 2 ] && restored 4'
test_it 'an incremental that is killed leaves a whole chain and is done again' '
    for p in follow.before_link_end follow.before_ack follow.after_ack; do
        q $S "update customer set name = name || '\''*'\'' where id < 50"
        SLUICE_FAULT=$p run backup incremental $SRC
        is $rc 137; done_ok backup verify --from-dir $C; incr
    done; restored 5'
test_it 'unchanged large values, and a replica identity that is not the key' '
    T0=$(pg_db "$FROM" toast)
    q $T0 "create table toast(id int primary key, n int, big text, j jsonb); alter table toast alter big set storage external; alter table toast alter j set storage external;
          insert into toast values (1, 1, repeat('\''x'\'', 9000), jsonb_build_object('\''k'\'', repeat('\''y'\'', 9000)));
          create table byindex(a int not null, b text not null, v int); create unique index byindex_ab on byindex(b, a); alter table byindex replica identity using index byindex_ab;
          insert into byindex values (1, '\''x'\'', 1), (2, '\''y'\'', 2)"
    SLUICE_SOURCE=$T0 done_ok backup full --source-driver postgres --output-dir $T/chain2 --chain-slot --slot-name s2_$$
    q $T0 "update toast set n = 2; update toast set id = 5; update toast set n = 3; update byindex set v = 9 where a = 1; update byindex set b = '\''yy'\'' where a = 2; delete from byindex where a = 1"
    SLUICE_SOURCE=$T0 done_ok backup incremental --source-driver postgres --output-dir $T/chain2
    D=$(pg_db $PG_B toast); SLUICE_TARGET=$D done_ok restore --from-dir $T/chain2 --target-driver postgres
    same_rows $T0 $D toast byindex'
test_it 'every type of PostgreSQL goes into PostgreSQL as it is, by copy and by change' '
    T1=$(pg_db "$FROM" types)
    q $T1 "create type mood as enum ('\''sad'\'', '\''ok, fine'\''); create domain pos as int check (value > 0); create type pt as (x int, label text); create schema \"My.App\";
          create table v(id int primary key, a int2, b int8, c numeric, d numeric(10,3), e float4, f float8, g text, h varchar(9), i char(4), j bytea, k bool, l date, m time, n timetz, o timestamp, p timestamptz,
            q interval, r uuid, s json, t jsonb, u mood, w mood[], x int[], y text[], z pos, aa pt, bb pt[], cc inet, dd cidr, ee macaddr, ff bit(5), gg varbit, hh int4range, ii tsvector, jj xml, kk money, ll point, mm box, nn pg_lsn, oo name);
          create table \"My.App\".\"Order Items\"(\"Id\" int primary key, \"select\" text, \"a\"\"b\" text, \"x.y\" int, \"日本\" int);
          create table gen(id int generated always as identity primary key, p numeric(12,2), m numeric(12,2) generated always as (p * 2) stored);"
    ins="insert into v values (%, -32768, 9223372036854775807, 1e-100, 1.100, 0.1, '\''NaN'\'', E'\''a\\n\\t\\\\b'\'', '\''x'\'', '\''y'\'', '\''\\x00ff5c27'\'', true, '\''infinity'\'', '\''24:00'\'', '\''23:59:59.999999+05:45'\'', '\''0044-03-15 BC'\'', '\''294276-12-31 23:59:59.999999+00'\'',
       '\''1 year -2 mons +3 days -04:05:06.000007'\'', '\''550e8400-e29b-41d4-a716-446655440000'\'', '\''{\"a\": 1}'\'', '\''{\"b\": [1, 2.50]}'\'', '\''ok, fine'\'', '\''{sad,\"ok, fine\",NULL}'\'', '\''[0:2]={7,8,9}'\'', '\''{{a,b},{\"c d\",NULL}}'\'', 5, row(1, '\''a \"q\", b'\''), array[row(1, '\''x'\'')::pt, null],
       '\''10.1.2.3/24'\'', '\''10.1.2.0/24'\'', '\''08:00:2b:01:02:03'\'', '\''10101'\'', '\''001'\'', '\''[1,10)'\'', '\''fat cat'\'', '\''<a>1</a>'\'', 12.34, '\''(1,2)'\'', '\''(2,2),(0,0)'\'', '\''0/16B3748'\'', '\''nm'\''); insert into gen(p) values (1.25); insert into \"My.App\".\"Order Items\" values (%, '\''s'\'', '\''q'\'', 5, 6)"
    q $T1 "${ins//%/1}; insert into v(id) values (10)"
    SLUICE_SOURCE=$T1 done_ok backup full --source-driver postgres --output-dir $T/chain3 --chain-slot --slot-name s3_$$
    q $T1 "${ins//%/2}; update v set g = '\''changed'\'' where id = 1; update \"My.App\".\"Order Items\" set \"a\"\"b\" = '\''q2'\''; update gen set p = 3; insert into v(id) values (11)"
    SLUICE_SOURCE=$T1 done_ok backup incremental --source-driver postgres --output-dir $T/chain3
    D=$(pg_db $PG_B types); SLUICE_TARGET=$D done_ok restore --from-dir $T/chain3 --target-driver postgres
    same_rows $T1 $D v gen
    is "$(q $D "select * from \"My.App\".\"Order Items\" order by 1")" "$(q $T1 "select * from \"My.App\".\"Order Items\" order by 1")"'
test_it 'sequences and identities go on above what the source gave out; constraints and foreign keys are there' '
    T2=$(pg_db "$FROM" seq)
    q $T2 "create table a(id serial primary key, v int check (v > 0)); create table b(id int generated by default as identity primary key, a_id int references a on delete cascade); create sequence alone start 50;
           insert into a(v) values (1), (2), (3); insert into b(a_id) values (1), (2)"
    SLUICE_SOURCE=$T2 done_ok backup full --source-driver postgres --output-dir $T/chain4 --chain-slot --slot-name s4_$$
    q $T2 "insert into a(v) values (4), (5); insert into b(a_id) values (5); delete from a where id = 5; select nextval('\''alone'\'')"
    SLUICE_SOURCE=$T2 done_ok backup incremental --source-driver postgres --output-dir $T/chain4
    D=$(pg_db $PG_B seq); SLUICE_TARGET=$D done_ok restore --from-dir $T/chain4 --target-driver postgres
    same_all $T2 $D
    is "$(q $D "insert into a(v) values (9) returning id > 5")" t
    is "$(q $D "insert into b(a_id) values (1) returning id > 3")" t
    fails q $D "insert into a(v) values (-1)"; fails q $D "insert into b(a_id) values (777)"'
test_it 'partitions and TRUNCATE' '
    T3=$(pg_db "$FROM" part)
    q $T3 "create table p(id int, r int, primary key (id, r)) partition by range (r); create table p1 partition of p for values from (0) to (10); create table p2 partition of p for values from (10) to (20);
           create table x(id int primary key); create table y(id int primary key, x_id int references x); insert into p values (1, 1), (2, 12); insert into x values (1), (2); insert into y values (10, 1)"
    SLUICE_SOURCE=$T3 done_ok backup full --source-driver postgres --output-dir $T/chain5 --chain-slot --slot-name s5_$$
    q $T3 "insert into p values (3, 3), (4, 14); update p set r = 15 where id = 1; truncate p1; insert into y values (11, 2); truncate x cascade; insert into x values (5)"
    SLUICE_SOURCE=$T3 done_ok backup incremental --source-driver postgres --output-dir $T/chain5
    D=$(pg_db $PG_B part); SLUICE_TARGET=$D done_ok restore --from-dir $T/chain5 --target-driver postgres
    same_all $T3 $D'
test_it 'columns that come, go, are renamed or widened between and inside links' '
    T4=$(pg_db "$FROM" ddl)
    q $T4 "create table t(id int primary key, v int, gone text); insert into t select i, i, '\''g'\'' from generate_series(1, 20) i"
    SLUICE_SOURCE=$T4 done_ok backup full --source-driver postgres --output-dir $T/chain6 --chain-slot --slot-name s6_$$
    D=$(pg_db $PG_B ddl)
    SLUICE_TARGET=$D done_ok sync from-backup run --backup-dir $T/chain6 --target-driver postgres --stream-id ddl --reset-target-data --yes --once
    for sql in "alter table t add c varchar(20) not null default '\''const'\''; insert into t(id, c) values (100, '\''set'\'')" "update t set v = 7 where id = 1; alter table t drop gone; insert into t(id) values (101)" \
               "alter table t rename v to w; update t set w = 8 where id = 2" "alter table t alter c type varchar(40); alter table t alter c type text; insert into t(id, c) values (102, repeat('\''x'\'', 60))"; do
        q $T4 "$sql"
        SLUICE_SOURCE=$T4 done_ok backup incremental --source-driver postgres --output-dir $T/chain6
        SLUICE_TARGET=$D done_ok sync from-backup run --backup-dir $T/chain6 --target-driver postgres --stream-id ddl --once
        same_all $T4 $D || { echo "after: $sql"; exit 1; }
    done'
test_it '--include-table, --map-schema and --control-schema' '
    D=$(pg_db $PG_B maps); q $D "create schema app; create schema ctl"
    SLUICE_TARGET=$D done_ok restore --from-dir $C --target-driver postgres --include-table "customer" --map-schema public=app --control-schema ctl
    is "$(q $D "select count(*) from app.customer")" "$(q $S "select count(*) from customer")"
    is "$(q $D "select count(*) from ctl.sluice_cdc_state")" 1
    is "$(q $D "select count(*) from pg_tables where schemaname = '\''public'\''")" 0'
test_it 'the broker tails while the source goes on, and stops through the chain' '
    D=$(pg_db $PG_B tail); export SLUICE_TARGET=$D
    done_ok restore --from-dir $C --target-driver postgres
    spawn tail sync from-backup run --backup-dir $C --target-driver postgres --stream-id tail --at-chain-id restore --poll-interval 200ms
    for r in 21 22 23; do app_change $S $r; incr --format json; done
    id=$(json "\$.id")
    wait_for 30 "[ \"\$(q $D \"select link_id from sluice_cdc_state where stream_id = '\''tail'\''\")\" = $id ]"
    same_all $S $D
    done_ok sync from-backup stop --backup-dir $C --stream-id tail --wait --timeout 30s
    gone tail 0 10
    app_change $S 24; incr
    done_ok sync from-backup run --backup-dir $C --target-driver postgres --stream-id tail --once
    same_all $S $D'
test_it 'a broker that is killed anywhere writes keyless rows exactly once' '
    D=$(pg_db $PG_B once); export SLUICE_TARGET=$D
    SLUICE_FAULT_LIST=$T/points done_ok sync from-backup run --backup-dir $C --target-driver postgres --stream-id once --reset-target-data --yes --once
    app_change $S 25; incr
    SLUICE_FAULT_LIST=$T/points done_ok sync from-backup run --backup-dir $C --target-driver postgres --stream-id once --once
    r=0
    for p in $(sort -u $T/points | grep -E "apply|lane|broker|state"); do
        r=$((r + 1))
        q $S "insert into visit(page, ms) values ('\''/twice/$r'\'', 1), ('\''/twice/$r'\'', 1); update visit set ms = ms + 1 where page = '\''/p/1'\''"; incr
        SLUICE_FAULT=$p run sync from-backup run --backup-dir $C --target-driver postgres --stream-id once --once
        { [ $rc = 137 ] || [ $rc = 0 ]; } || { say_run; exit 1; }
        done_ok sync from-backup run --backup-dir $C --target-driver postgres --stream-id once --once
        same_all $S $D || { echo "after a kill at $p"; exit 1; }
    done; [ $r -ge 4 ]'
test_it 'a full that is killed goes on with the first anchor, and changes meanwhile are in the chain once' '
    T5=$(pg_db "$FROM" kill); app_create $T5; export SLUICE_SOURCE=$T5
    SLUICE_FAULT=full.after_table_end:2 run backup full --source-driver postgres --output-dir $T/chain7 --chain-slot --slot-name s7_$$ --table-parallelism 1
    is $rc 137
    app_change $T5 1
    done_ok backup full --source-driver postgres --output-dir $T/chain7 --chain-slot --slot-name s7_$$
    app_change $T5 2
    done_ok backup incremental --source-driver postgres --output-dir $T/chain7
    D=$(pg_db $PG_B kill); SLUICE_TARGET=$D done_ok restore --from-dir $T/chain7 --target-driver postgres
    same_all $T5 $D'
done_testing
