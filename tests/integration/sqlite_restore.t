#!/bin/bash
# Restore into SQLite: what it brings, to which link, what it refuses, and that a killed one goes on.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
S=$T/app.db C=$T/chain
app_create "$S"
SRC="--source-driver sqlite --source $S --output-dir $C"
new_link() { run backup incremental $SRC --format json && json '$.id'; }
run backup full $SRC --chain-slot --format json
[ "$rc" = 0 ] || { say_run; echo "Bail out! no full"; exit 1; }
json '$.id' >"$T/id0"; q "$S" "vacuum into '$T/at0.db'"
app_change "$S" 1; new_link >"$T/id1"; q "$S" "vacuum into '$T/at1.db'"
app_change "$S" 2; new_link >"$T/id2"; q "$S" "vacuum into '$T/at2.db'"
restore() { done_ok restore --from-dir "$C" --target-driver sqlite --target "$@"; }

test_it 'text mode prints the id last on stdout' '
    restore $T/a.db
    is "$(tail -1 $T/out | grep -oE "[0-9a-f]{40}")" "$(cat $T/id2)"
    same_all $S $T/a.db'

test_it '--format json is one object on stdout with tail_id and seq; a state row stands at it' '
    restore $T/b.db --format json
    is "$(json "\$.tail_id")" "$(cat $T/id2)"
    is "$(q $T/b.db "select seq from sluice_cdc_state where stream_id like '\''restore:%'\''")" "$(json "\$.seq")"
    is "$(q $T/b.db "select link_id || phase from sluice_cdc_state where stream_id like '\''restore:%'\''")" "$(cat $T/id2)restored"'

test_it '--to-id restores each link exactly, by a prefix too' '
    restore $T/c0.db --to-id $(cat $T/id0) && same_all $T/at0.db $T/c0.db
    restore $T/c1.db --to-id $(head -c 9 $T/id1) && same_all $T/at1.db $T/c1.db
    restore $T/c2.db --to-id $(cat $T/id2) && same_all $T/at2.db $T/c2.db
    ends 3 "no link" restore --from-dir $C --target-driver sqlite --target $T/c3.db --to-id 0123456789abcdef'

test_it 'the indexes and constraints of the source are there' '
    is "$(q $T/a.db "select group_concat(name) from (select name from sqlite_schema where type = '\''index'\'' and name not like '\''sqlite%'\'' and name not like '\''sluice%'\'' order by 1)")" visit_page
    fails q $T/a.db "insert into customer(id, email) values (7777, '\''c1@example.org'\'')" 
    q $T/a.db "pragma integrity_check" | grep -q "^ok$"'

test_it '--dry-run says tables, rows and bytes, and creates nothing' '
    restore $T/dry.db --dry-run
    out_has "3 tables"
    [ ! -s $T/dry.db ]'

test_it '--include-table and --exclude-table' '
    restore $T/d.db --include-table "c*" && is "$(echo $(tables $T/d.db))" "customer" && same_rows $S $T/d.db customer
    restore $T/e.db --exclude-table "*customer" && is "$(echo $(tables $T/e.db))" "item visit" && same_rows $S $T/e.db item visit
    ends 2 "filter|none" restore --from-dir $C --target-driver sqlite --target $T/f.db --include-table nosuch
    ends 2 "exclude each other" restore --from-dir $C --target-driver sqlite --target $T/f.db --include-table a --exclude-table b'

test_it 'a target table with rows is refused before anything changes' '
    q $T/full.db "create table item(sku text not null, warehouse int not null, price decimal(12,2), weight real, note text, primary key (sku, warehouse)) without rowid; insert into item(sku, warehouse) values ('\''mine'\'', 1)"
    ends 3 "item.*rows" restore --from-dir $C --target-driver sqlite --target $T/full.db
    is "$(echo $(tables $T/full.db))" "item" && is "$(q $T/full.db "select count(*) from item")" 1'

test_it 'a target table of another shape is refused before anything changes' '
    q $T/shape.db "create table visit(at text, page text)"
    ends 3 "visit" restore --from-dir $C --target-driver sqlite --target $T/shape.db
    is "$(echo $(tables $T/shape.db))" "visit"'

test_it 'an empty table of the same shape is taken' '
    q $T/empty.db "$(q $S "select sql from sqlite_schema where name = '\''visit'\''")"
    restore $T/empty.db && same_all $S $T/empty.db'

test_it 'a restored target is not restored over' '
    ends 3 "rows" restore --from-dir $C --target-driver sqlite --target $T/a.db
    same_all $S $T/a.db'

test_it 'a restore that is killed goes on with the same command' '
    SLUICE_FAULT_LIST=$T/points restore $T/list.db
    n=0
    for p in $(sort -u $T/points); do
        rm -f $T/k.db*
        SLUICE_FAULT=$p run restore --from-dir $C --target-driver sqlite --target $T/k.db
        [ $rc = 137 ] || { echo "point $p ended with $rc"; cat $T/err; exit 1; }
        restore $T/k.db
        same_all $S $T/k.db || { echo "after a kill at $p"; exit 1; }
        n=$((n + 1))
    done
    [ $n -ge 5 ]'

test_it 'an unfinished restore goes on to the link that it began with, though the chain has grown, and is not taken for one to another link' '
    SLUICE_FAULT=rebuild.before_last_phase run restore --from-dir $C --target-driver sqlite --target $T/u.db --to-id $(cat $T/id1)
    is $rc 137
    is "$(q $T/u.db "select phase from sluice_cdc_state")" restoring
    ends 3 "unfinished" restore --from-dir $C --target-driver sqlite --target $T/u.db --to-id $(cat $T/id2)
    restore $T/u.db
    is "$(tail -1 $T/out)" "$(cat $T/id1)"
    same_all $T/at1.db $T/u.db'

test_it 'a URL names the same folder; both or neither place is a usage error' '
    done_ok restore --from file://$C --target-driver sqlite --target $T/g.db && same_all $S $T/g.db
    ends 2 "from" restore --from file://$C --from-dir $C --target-driver sqlite --target $T/h.db
    ends 2 "from" restore --target-driver sqlite --target $T/h.db
    ends 2 "driver" restore --from-dir $C --target-driver oracle --target $T/h.db
    [ ! -e $T/h.db ]'

test_it 'the target may be named by SLUICE_TARGET' '
    SLUICE_TARGET=$T/i.db done_ok restore --from-dir $C --target-driver sqlite && same_all $S $T/i.db'

test_it 'a place without a chain is refused and nothing is created' '
    mkdir -p $T/void
    ends 3 "no chain" restore --from-dir $T/void --target-driver sqlite --target $T/j.db
    [ ! -s $T/j.db ]'

test_it 'a target that cannot be reached is exit code 1' 'ends 1 "nodir" restore --from-dir $C --target-driver sqlite --target $T/nodir/x.db'

test_it 'a captured source is not taken for a target' '
    ends 3 "captured|rows|source" restore --from-dir $C --target-driver sqlite --target $S'

done_testing
