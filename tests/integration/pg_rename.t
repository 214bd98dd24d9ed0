#!/bin/bash
# Tables of PostgreSQL that exchange their names: refused with a text that says so, nothing of the link applied.
. "$(dirname "$0")/../lib/lib.sh"
need_pg
test_it 'two tables that exchange their names are refused by name' '
    S=$(pg_db $PG_A s) D=$(pg_db $PG_B d); export SLUICE_SOURCE=$S SLUICE_TARGET=$D
    q $S "create table k(id int primary key, v text); create table k2(id int primary key, v text); insert into k values (1, '\''k'\''); insert into k2 values (1, '\''k2'\'')"
    done_ok backup full --source-driver postgres --output-dir $T/chain --chain-slot --slot-name ren$$
    done_ok restore --from-dir $T/chain --target-driver postgres
    q $S "begin; alter table k rename to t; alter table k2 rename to k; alter table t rename to k2; commit"
    q $S "update k set v = '\''is k2'\''; update k2 set v = '\''is k'\''"
    done_ok backup incremental --source-driver postgres --output-dir $T/chain
    ends 3 "took the name .public.k2?. from another" sync from-backup run --backup-dir $T/chain --target-driver postgres --stream-id b --once --at-chain-id restore
    is "$(q $D "select v from k")" k; is "$(q $D "select v from k2")" k2'
done_testing
