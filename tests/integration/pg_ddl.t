#!/bin/bash
# What ALTER TABLE did to rows that were there, on its way through a chain into a target that a broker keeps, and into a new one. PostgreSQL.
. "$(dirname "$0")/../lib/lib.sh"
need_pg
n=0
TABLES="create table k(id int primary key, v text, w int default 7); insert into k select i, 'v' || i from generate_series(1, 20) i;
        create table f(a int, b text); alter table f replica identity full; insert into f select i % 3, 'x' from generate_series(1, 12) i;"
shape() { q "$1" "select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace and c.relname !~ '^sluice_' order by 1, a.attnum"; }
begin() { # begin NAME SETUP: source, full, restore, and a broker that adopted it
    S=$(pg_db "$PG_A" "s$1"); D=$(pg_db "$PG_B" "d$1"); C=$T/chain-$1; export SLUICE_SOURCE=$S SLUICE_TARGET=$D SLUICE_CONTROL=$T/$1.db
    q "$S" "$2"
    done_ok backup full --source-driver postgres --output-dir "$C" --chain-slot --slot-name "ddl$$_$1"
    done_ok restore --from-dir "$C" --target-driver postgres
    broker --at-chain-id restore
}
broker() { done_ok sync from-backup run --backup-dir "$C" --target-driver postgres --stream-id b --once "$@"; }
changed() { echo "$1" | psql -XAtq -v ON_ERROR_STOP=1 "$S" >/dev/null; } # each statement on its own
follows() { # both ways lead to the same rows and columns
    local D2
    done_ok backup incremental --source-driver postgres --output-dir "$C"
    broker && same_all "$S" "$D" && is "$(shape "$D")" "$(shape "$S")"
    D2=$(pg_db "$PG_B" "r$1") && SLUICE_TARGET=$D2 SLUICE_CONTROL=$T/r$1.db done_ok restore --from-dir "$C" --target-driver postgres
    same_all "$S" "$D2" && is "$(shape "$D2")" "$(shape "$S")"
}

test_it 'rows that were there keep the default that a column was added with, though it changed since' '
    begin a "$TABLES"
    changed "alter table k add z int default 5; alter table k alter z set default 6; insert into k(id) values (100); update k set v = '\''x'\'' where id = 2; alter table k alter z drop default;
        alter table k add t text default E'\''it'\'''\''s \\\\ 5'\''; insert into k(id) values (101); alter table k alter t set default 9; insert into k(id) values (102);
        alter table k add a int[] not null default '\''{1,2}'\''; alter table k alter a drop default; alter table f add b2 bool not null default true; alter table f alter b2 drop default;
        update f set a = 9 where a = 1"
    follows a'
test_it 'a default that was set after the column came is not given to rows that were there' '
    begin b "$TABLES"
    changed "alter table k add z int; alter table k alter z set default 6; insert into k(id) values (100)"
    follows b'
test_it '… also where the table was emptied long before' '
    begin c "$TABLES truncate k; insert into k values (1, '\''a'\'')"
    changed "alter table k add z int; alter table k alter z set default 6; insert into k(id) values (100)"
    follows c'
test_it 'a default of one moment is the same moment on the target' '
    begin d "$TABLES"
    changed "alter table k add z timestamptz default now(); update k set v = '\''x'\'' where id = 1"
    follows d'
test_it 'what VACUUM FULL made the catalogue forget is refused, not guessed' '
    begin e "$TABLES"
    changed "alter table k add z int default 3; vacuum full k; insert into k(id, z) values (100, null)"
    ends 3 "written anew since" backup incremental --source-driver postgres --output-dir $C
    err_has AMBIGUOUS-SCHEMA-BOUNDARY'
test_it 'columns of partitioned tables are added, renamed, retyped and dropped in all partitions at once' '
    begin p "create table p(id int, r text, w int, primary key (id, r)) partition by list (r); create table p_a partition of p for values in ('\''a'\'');
        create table p_b partition of p for values in ('\''b'\'') partition by range (id); create table p_b1 partition of p_b for values from (1) to (100);
        insert into p values (1, '\''a'\'', 1), (2, '\''b'\'', 2)"
    changed "alter table p add z int default 4; alter table p alter z set default 8; insert into p values (2, '\''a'\''); alter table p add zz int default 1; insert into p values (7, '\''b'\'', 1)"
    follows p1
    changed "alter table p rename w to ww; update p set ww = 6 where id = 2"; follows p2
    changed "alter table p drop zz; insert into p values (8, '\''b'\'', 1, 1)"; follows p4'
test_it 'retypes that write no row anew are followed' '
    begin w "create table k(id int primary key, v varchar(5), n numeric(5,2)); insert into k values (1, '\''a'\'', 1.5), (2, '\''b'\'', 2)"
    changed "alter table k alter v type varchar(9); alter table k alter n type numeric(9,2); insert into k values (3, '\''longer'\'', 1234567.25)"; follows w1
    changed "alter table k alter v type text; vacuum full k; alter table k rename n to m; update k set m = 7 where id = 1"; follows w2'
test_it 'a table that a retype wrote anew is refused: nobody logged what its old rows hold now' '
    for using in "bigint" "bigint using w * 1000" "int using w + 100" "text using '\''n'\'' || w"; do
        begin u$((n += 1)) "$TABLES"
        changed "alter table k alter w type $using; insert into k(id) values (100)"
        ends 3 "written anew.*w" backup incremental --source-driver postgres --output-dir $C && err_has SCHEMA-CHANGE-REFUSED || return 1
        ends 3 "written anew" backup incremental --source-driver postgres --output-dir $C || return 1
    done'
test_it 'so is one whose old rows were filled with a computed default; constants, moments and generated columns are followed' '
    for add in "z float default random()" "z int generated always as identity" "z serial"; do
        begin v$((n += 1)) "$TABLES"
        changed "alter table k add $add; insert into k(id) values (100)"
        ends 3 "written anew.*z.*added" backup incremental --source-driver postgres --output-dir $C || return 1
    done
    begin g "$TABLES"
    changed "vacuum full k; alter table k add g int generated always as (w * 2) stored; alter table k add c int default 4; insert into k(id) values (100)"; follows g
    changed "begin; alter table k add late int; update k set late = id; commit"; follows g2'
test_it 'sequences that a truncate restarted stand where the source has them' '
    begin q "create table p(id serial primary key); create table ch(id serial primary key, p int references p); insert into p select from generate_series(1, 5); insert into ch(p) select 1 from generate_series(1, 5)"
    changed "truncate p restart identity cascade; insert into p default values; insert into ch(p) values (1)"
    follows q
    is "$(q $D "select last_value, is_called from p_id_seq union all select last_value, is_called from ch_id_seq")" "$(q $S "select last_value, is_called from p_id_seq union all select last_value, is_called from ch_id_seq")"'
test_it 'values whose cast from text reads less than the type writes arrive by changes too' '
    begin t "create table v(id int primary key, r regclass, c \"char\", x xml); create table nk(r regclass, c \"char\"); alter table nk replica identity full; insert into nk select 0, '\''\\377'\'' from generate_series(1, 2)"
    changed "insert into v values (1, 0, '\''\\377'\'', '\''<a/>'\''), (2, '\''pg_class'\'', '\''x'\'', null), (3, null, null, '\''t'\''); update v set r = 0 where id = 2; update nk set c = '\''a'\'' where ctid = (select min(ctid) from nk); delete from nk where c <> '\''a'\''"
    follows t'
done_testing
