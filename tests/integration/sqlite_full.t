#!/bin/bash
# A full of an SQLite source: what it takes, what it refuses, and that a killed one goes on.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
S=$T/app.db C=$T/chain
app_create "$S"
full() { done_ok backup full --source-driver sqlite --source "$S" --output-dir "$C" "$@"; }
restored() { rm -f "$T/r.db"*; SLUICE_CONTROL=$T/r-control.db "$SLUICE" restore --from-dir "${1:-$C}" --target-driver sqlite --target "$T/r.db" >"$T/r.out" 2>&1 || { cat "$T/r.out"; return 1; }; }

test_it '--dry-run lists the tables and changes nothing' '
    full --chain-slot --dry-run
    out_has "customer" && out_has "visit"
    [ ! -e $C/lineage.json ]
    is "$(q $S "select count(*) from sqlite_schema where name like '\''sluice%'\''")" 0'

test_it 'a full with --chain-slot is complete, and --format json says what it is' '
    full --chain-slot --format json
    is "$(json "\$.rows")" 912 || is "$(json "\$.rows")" "$(q $S "select (select count(*) from customer)+(select count(*) from item)+(select count(*) from visit)")"
    json "\$.id" | grep -Eq "^[0-9a-f]{40}$"
    [ -s $C/lineage.json ]'

test_it 'list, show and verify agree on it' '
    done_ok backup list --from-dir $C --format json
    out | grep -Eo "[0-9a-f]{40}" | sort -u >$T/ids
    done_ok backup show $(head -c 12 $T/ids) --from-dir $C
    done_ok backup verify --from-dir $C
    done_ok backup verify --from-dir $C --depth read
    done_ok backup gc --from-dir $C --dry-run --older-than 0s'

test_it 'a restore of it holds the same rows' 'restored && same_all $S $T/r.db'

test_it 'a chain that is there is not replaced without --force-overwrite' '
    before=$(cat $C/lineage.json)
    ends 3 "chain.*there|already" backup full --source-driver sqlite --source $S --output-dir $C --chain-slot
    err_has "force-overwrite"
    is "$(cat $C/lineage.json)" "$before"'

test_it '--force-overwrite begins a new lineage' '
    before=$(json "\$.lineage" $C/lineage.json)
    full --chain-slot --force-overwrite
    isnt "$(json "\$.lineage" $C/lineage.json)" "$before"
    restored && same_all $S $T/r.db'

test_it 'the store may be named as a file:// URL, the source by SLUICE_SOURCE' '
    SLUICE_SOURCE=$S done_ok backup full --source-driver sqlite --target file://$T/chain-url
    restored $T/chain-url && same_all $S $T/r.db'

test_it 'a source that one chain captures is not taken by a second chain' '
    ends 3 "captured" backup full --source-driver sqlite --source $S --output-dir $T/second --chain-slot
    [ ! -e $T/second/lineage.json ]'

test_it 'compression, chunk size and parallelism change nothing of the rows' '
    q $S "create table long(id integer primary key, v text); with recursive n(i) as (values (1) union all select i + 1 from n where i < 20000) insert into long select i, hex(randomblob(30)) from n"
    done_ok backup full --source-driver sqlite --source $S --output-dir $T/chain-plain --compression none --chunk-size 500 --table-parallelism 3
    restored $T/chain-plain && same_all $S $T/r.db
    q $S "drop table long"
    n=$(ls $T/chain-plain/seg-*/rows/*/* | wc -l); [ $n -ge 5 ]'

test_it '--include-table and --exclude-table choose tables by globs' '
    done_ok backup full --source-driver sqlite --source $S --output-dir $T/chain-in --include-table "cust*,visit"
    restored $T/chain-in && is "$(echo $(tables $T/r.db))" "customer visit"
    done_ok backup full --source-driver sqlite --source $S --output-dir $T/chain-ex --exclude-table main.visit
    restored $T/chain-ex && is "$(echo $(tables $T/r.db))" "customer item" && same_rows $S $T/r.db customer item'

test_it 'a filter that leaves nothing is a usage error' 'ends 2 "no table" backup full --source-driver sqlite --source $S --output-dir $T/none --include-table nosuch'

test_it 'a full without --chain-slot cannot be extended, and the refusal names the way out' '
    ends 3 "chain-slot" backup incremental --source-driver sqlite --source $S --output-dir $T/chain-plain'

test_it 'a source that is not there is exit code 1 and is not created' '
    ends 1 "nowhere.db" backup full --source-driver sqlite --source $T/nowhere.db --output-dir $T/none
    [ ! -e $T/nowhere.db ] && [ ! -e $T/none/lineage.json ]'

test_it 'a file that is no database is exit code 2' '
    head -c 5000 /dev/urandom >$T/noise
    ends 2 "database" backup full --source-driver sqlite --source $T/noise --output-dir $T/none'

test_it 'a source that is not in WAL mode is refused with both ways out, and --allow-blocking reads it' '
    q $T/rollback.db "create table t(id integer primary key, v); insert into t values (1, 2)"
    ends 3 "WAL" backup full --source-driver sqlite --source $T/rollback.db --output-dir $T/chain-rb --chain-slot
    err_has "allow-blocking" && err_has "journal_mode"
    done_ok backup full --source-driver sqlite --source $T/rollback.db --output-dir $T/chain-rb --chain-slot --allow-blocking
    restored $T/chain-rb && same_all $T/rollback.db $T/r.db'

test_it 'a table without a key that is too big to be logged whole is refused before anything is made' '
    app_create $T/keyless.db
    ends 3 "visit" backup full --source-driver sqlite --source $T/keyless.db --output-dir $T/none --chain-slot --keyless-max-bytes 1000
    err_has "keyless-max-bytes"
    [ ! -e $T/none/lineage.json ]'

test_it 'a full that is killed goes on with the same command, and its anchor is the first one' '
    rm -f $S*; app_create $S
    q $S "create table big(id integer primary key, v text); with recursive n(i) as (values (1) union all select i + 1 from n where i < 20000) insert into big select i, hex(randomblob(20)) from n"
    SLUICE_FAULT=full.after_table_end:2 run backup full --source-driver sqlite --source $S --output-dir $T/chain-kill --chain-slot
    is $rc 137
    is "$(json "\$.full_complete" $T/chain-kill/lineage.json || true)" "" || true
    ends 3 "not complete|incomplete" backup incremental --source-driver sqlite --source $S --output-dir $T/chain-kill
    ends 3 "not complete|incomplete|no complete" restore --from-dir $T/chain-kill --target-driver sqlite --target $T/never.db
    start=$(cat $T/chain-kill/seg-*/full.start.json | cksum)
    app_change $S 1
    done_ok backup full --source-driver sqlite --source $S --output-dir $T/chain-kill --chain-slot
    is "$(cat $T/chain-kill/seg-*/full.start.json | cksum)" "$start"
    done_ok backup incremental --source-driver sqlite --source $S --output-dir $T/chain-kill
    restored $T/chain-kill && same_all $S $T/r.db'

test_it 'gc removes what the killed attempts left, and the chain stays whole' '
    done_ok backup gc --from-dir $T/chain-kill --older-than 0s
    done_ok backup verify --from-dir $T/chain-kill --depth read
    restored $T/chain-kill && same_all $S $T/r.db'

test_it 'a store that is full is exit code 1 and names the place' '
    mkdir -p $T/small && mount -t tmpfs -o size=64k none $T/small 2>/dev/null || skip_rest "a small file system cannot be mounted here"
    run backup full --source-driver sqlite --source $S --output-dir $T/small/chain
    umount -l $T/small
    is $rc 1; err_has "space"'

done_testing
