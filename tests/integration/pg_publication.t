#!/bin/bash
# A publication that was altered and altered back between two links: nothing in the log shows what is missing, so the chain is not extended.
. "$(dirname "$0")/../lib/lib.sh"
need_pg
begin() { # begin NAME
    S=$(pg_db "$PG_A" "s$1") C=$T/chain-$1 P=pub$$_$1; export SLUICE_SOURCE=$S SLUICE_CONTROL=$T/$1.db
    q "$S" "create table k(id int primary key, v text); insert into k values (1, 'a')"
    done_ok backup full --source-driver postgres --output-dir "$C" --chain-slot --slot-name "$P"
    q "$S" "insert into k values (2, 'b')"; incr
}
incr() { done_ok backup incremental --source-driver postgres --output-dir "$C"; }
refused() { ends 3 "publication '$P' was altered or made anew" backup incremental --source-driver postgres --output-dir "$C"; err_has SLUICE-E-PUBLICATION; }
# Each statement commits on its own: what is decoded looks the publication up as it was at its record.

test_it 'a table taken out and put back' 'begin a; q $S "alter publication $P drop table k"; q $S "insert into k values (3, '\''lost'\'')"; q $S "alter publication $P add table k"; q $S "insert into k values (4, '\''d'\'')"; refused'
test_it 'operations switched off and on' 'begin b; q $S "alter publication $P set (publish = insert)"; q $S "update k set v = '\''lost'\''"; q $S "alter publication $P set (publish = '\''insert, update, delete, truncate'\'')"; q $S "insert into k values (4, '\''d'\'')"; refused'
test_it 'a row filter set and lifted' 'begin c; q $S "alter publication $P set table only k where (id > 5)"; q $S "insert into k values (3, '\''lost'\'')"; q $S "alter publication $P set table only k"; refused'
test_it 'a publication made anew under the same name' 'begin d; q $S "drop publication $P"; q $S "create publication $P for table only k"; q $S "insert into k values (3, '\''d'\'')"; refused'
test_it 'a table added for others does not matter' 'begin e; q $S "create table o(id int primary key)"; q $S "alter publication $P add table o"; q $S "insert into k values (3, '\''d'\'')"; incr; cat $T/out | grep -q "1 row changes"'
test_it 'transactions that were open when the chain was rooted do not look like an altered publication' '
    S=$(pg_db $PG_A sf); C=$T/chain-f; export SLUICE_SOURCE=$S SLUICE_CONTROL=$T/f.db
    q $S "create table k(id int primary key, v text); insert into k values (1, '\''a'\'')"
    mkfifo $T/hold; psql -XAtq $S <$T/hold >/dev/null & holder=$!; exec 9>$T/hold
    echo "begin; insert into k values (50, '\''open'\'');" >&9
    wait_for 10 "[ \"\$(q $S \"select count(*) from pg_stat_activity where state = '\''idle in transaction'\'' and backend_xid is not null and datname = current_database()\")\" = 1 ]"
    spawn full backup full --source-driver postgres --output-dir $C --chain-slot --slot-name pub$$_f
    wait_for 10 "[ \"\$(q $S \"select count(*) from pg_publication\")\" = 1 ]"
    running full; echo "insert into k values (51, '\''open'\''); commit;" >&9; exec 9>&-; wait $holder
    gone full 0; q $S "insert into k values (60, '\''z'\'')"; incr
    D=$(pg_db $PG_B df); SLUICE_TARGET=$D done_ok restore --from-dir $C --target-driver postgres; same_all $S $D'
done_testing
