#!/bin/bash
# PostgreSQL into SQLite and SQLite into PostgreSQL: every type that both carry, by copy and by change; any other is refused at start by name.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
need_pg
PS=$(pg_db "$PG_A" cross)
Q=$T/s.db

test_it 'PostgreSQL into SQLite: full, changes, broker' '
    app_create $PS
    SLUICE_SOURCE=$PS done_ok backup full --source-driver postgres --output-dir $T/c1 --chain-slot --slot-name x1_$$
    done_ok restore --from-dir $T/c1 --target-driver sqlite --target $T/d1.db
    same_rows $PS $T/d1.db customer item visit
    for r in 1 2 3; do
        app_change $PS $r
        SLUICE_SOURCE=$PS done_ok backup incremental --source-driver postgres --output-dir $T/c1
        [ $r = 1 ] && flag="--at-chain-id restore" || flag=""
        done_ok sync from-backup run --backup-dir $T/c1 --target-driver sqlite --target $T/d1.db --stream-id x --once $flag
        same_rows $PS $T/d1.db customer item visit
    done
    done_ok restore --from-dir $T/c1 --target-driver sqlite --target $T/d1b.db && same_rows $PS $T/d1b.db customer item visit'

test_it 'SQLite into PostgreSQL: full, changes, broker' '
    q $Q "pragma journal_mode=wal;
        create table customer(id integer primary key, email text not null unique, name text, photo blob, active boolean not null default 1, born date, seen timestamp);
        create table item(sku text not null, warehouse integer not null, price decimal(12,2), weight real, note text, primary key (sku, warehouse));
        create table visit(at text, page text, ms real);
        with recursive n(i) as (values (1) union all select i + 1 from n where i < 300)
        insert into customer select i, '\''c'\'' || i, case when i % 5 then '\''n'\'' || i end, case when i % 3 = 0 then x'\''00ff'\'' end, i % 2, date('\''2000-01-01'\'', '\''+'\'' || i || '\'' days'\''), datetime('\''2026-01-01'\'', '\''+'\'' || i || '\'' seconds'\'') from n;
        insert into item select '\''S'\'' || id, id % 4, printf('\''%.2f'\'', id * 1.25), id + 0.5, '\''a'\'' || char(10) || '\''b\\c'\'' from customer;
        insert into visit select seen, '\''/p/'\'' || id % 7, id + 0.25 from customer; insert into visit select * from visit where page = '\''/p/3'\''" >/dev/null
    done_ok backup full --source-driver sqlite --source $Q --output-dir $T/c2 --chain-slot
    D=$(pg_db $PG_B d2); export SLUICE_TARGET=$D
    done_ok restore --from-dir $T/c2 --target-driver postgres
    for t in customer item visit; do is "$(rows_of $D $t cross | sed "s/\.00|/|/" | md5sum)" "$(rows_of $Q $t cross | sed "s/\.00|/|/" | md5sum)" || { echo "table $t"; diff <(rows_of $Q $t cross) <(rows_of $D $t cross) | head -4; exit 1; }; done
    for r in 1 2 3; do
        q $Q "insert into customer(id, email) values ($((1000 + r)), '\''r$r'\''); update customer set name = '\''t$r'\'' where id % 10 = $r; delete from customer where id = $((20 + r)); update customer set id = $((2000 + r)) where id = $((40 + r));
              update item set price = '\''7.50'\'' where warehouse = $r; delete from item where sku = '\''S5$r'\''; insert into visit(page) values ('\''/new'\''), ('\''/new'\''); delete from visit where page = '\''/p/$r'\''"
        done_ok backup incremental --source-driver sqlite --source $Q --output-dir $T/c2
        [ $r = 1 ] && flag="--at-chain-id restore" || flag=""
        done_ok sync from-backup run --backup-dir $T/c2 --target-driver postgres --stream-id x --once $flag
        for t in customer item visit; do is "$(rows_of $D $t cross | sed "s/\.00|/|/" | md5sum)" "$(rows_of $Q $t cross | sed "s/\.00|/|/" | md5sum)" || { echo "table $t"; diff <(rows_of $Q $t cross) <(rows_of $D $t cross) | head -4; exit 1; }; done
    done'

test_it 'the edges of each type that both carry, PostgreSQL into SQLite' '
    E=$(pg_db $PG_A edges)
    q $E "create table e(id bigint primary key, b bool, i2 int2, i4 int4, i8 int8, n numeric, nd numeric(20,5), f4 float4, f8 float8, t text, v varchar(10), by bytea, d date, tm time, ts timestamp, tz timestamptz, u uuid, j json, jb jsonb)"
    r="insert into e values (%, true, -32768, -2147483648, -9223372036854775808, 1234567890987654321.1234567890987654321, 1.10000, 0.5, -1.25e300, E'\''\\n\\t\\\\ \\U0001F9A6 '\'\''q'\'\'''\'', '\'''\'', '\''\\x00ff275c'\'', '\''0001-01-01'\'', '\''23:59:59.999999'\'', '\''2026-01-01 00:00:00.000001'\'', '\''2026-06-30 23:59:59.5+05:45'\'', '\''550e8400-e29b-41d4-a716-446655440000'\'', '\''{\"a\": 1}'\'', '\''{\"b\": [1, 2.50]}'\'')"
    q $E "${r//%/1}; insert into e(id) values (2)"
    SLUICE_SOURCE=$E done_ok backup full --source-driver postgres --output-dir $T/c3 --chain-slot --slot-name x3_$$
    q $E "${r//%/3}; insert into e(id) values (9223372036854775807)"
    SLUICE_SOURCE=$E done_ok backup incremental --source-driver postgres --output-dir $T/c3
    done_ok restore --from-dir $T/c3 --target-driver sqlite --target $T/d3.db
    q $T/d3.db "select * from e where id = 1" | sed "s/^1|//" >$T/one; q $T/d3.db "select * from e where id = 3" | sed "s/^3|//" >$T/three
    cmp $T/one $T/three
    is "$(q $T/d3.db "select i8, typeof(i8), n, typeof(n), nd, hex(by), d, tm, ts, u, j, jb, b, length(t), v is null from e where id = 3")" "-9223372036854775808|integer|1234567890987654321.1234567890987654321|text|1.10000|00FF275C|0001-01-01|23:59:59.999999|2026-01-01 00:00:00.000001|550e8400-e29b-41d4-a716-446655440000|{\"a\": 1}|{\"b\": [1, 2.50]}|1|9|0"
    is "$(q $T/d3.db "select count(*) from e where id in (2, 9223372036854775807) and b is null and i2 is null and t is null and by is null and jb is null")" 2
    q $T/d3.db "select tz from e where id = 1" | grep -Eq "2026-06-30 18:14:59.5"'

test_it 'a type that the target does not carry is refused at start, with table and column' '
    for ty in "int[]" interval inet point "int4range" money xml "bit(3)"; do
        X=$(pg_db $PG_A badtype)
        q $X "create table good(id int primary key); create table bad(id int primary key, odd $ty); insert into good values (1)"
        rm -rf $T/c4; SLUICE_CONTROL=$T/bad$RANDOM.db; export SLUICE_CONTROL
        SLUICE_SOURCE=$X done_ok backup full --source-driver postgres --output-dir $T/c4
        rm -f $T/d4.db*
        ends 3 "bad.*odd" restore --from-dir $T/c4 --target-driver sqlite --target $T/d4.db || { echo "type $ty"; exit 1; }
        is "$(echo $(tables $T/d4.db 2>/dev/null))" ""
        done_ok restore --from-dir $T/c4 --target-driver sqlite --target $T/d4.db --exclude-table bad
        is "$(q $T/d4.db "select count(*) from good")" 1
    done'

test_it 'a value that the declared type does not admit is refused by table, key and column, SQLite into PostgreSQL' '
    q $T/odd.db "pragma journal_mode=wal; create table o(id integer primary key, n integer, t text); insert into o values (1, 1, '\''a'\''), (2, '\''not a number'\'', '\''b'\'')" >/dev/null
    done_ok backup full --source-driver sqlite --source $T/odd.db --output-dir $T/c5
    D=$(pg_db $PG_B odd)
    SLUICE_TARGET=$D run restore --from-dir $T/c5 --target-driver postgres
    if [ $rc = 0 ]; then is "$(q $D "select n from o where id = 2")" "not a number"; else is $rc 3; err_has "\\bo\\b" && err_has "\\bn\\b"; fi
    q $T/nul.db "pragma journal_mode=wal; create table z(id integer primary key, t text); insert into z values (1, '\''a'\'' || char(0) || '\''b'\'')" >/dev/null
    done_ok backup full --source-driver sqlite --source $T/nul.db --output-dir $T/c6
    D=$(pg_db $PG_B nul)
    SLUICE_TARGET=$D ends 3 "z.*t|NUL" restore --from-dir $T/c6 --target-driver postgres'

test_it 'names that a target would merge are refused, both named' '
    N=$(pg_db $PG_A names); q $N "create table \"Order\"(id int primary key); create table \"order\"(id int primary key)"
    SLUICE_SOURCE=$N done_ok backup full --source-driver postgres --output-dir $T/c7
    ends 3 "Order.*order|order.*Order" restore --from-dir $T/c7 --target-driver sqlite --target $T/d7.db
    N=$(pg_db $PG_A names2); q $N "create table n(id int primary key, \"A\" int, a int)"
    SLUICE_SOURCE=$N done_ok backup full --source-driver postgres --output-dir $T/c8
    ends 3 "A.*a" restore --from-dir $T/c8 --target-driver sqlite --target $T/d8.db'

done_testing
