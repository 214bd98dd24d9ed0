#!/bin/bash
# sync from-backup run --reset-target-data --dry-run: what would be dropped and loaded, every refusal of the reset itself, and no trace of having asked.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
S=$T/app.db C=$T/chain
app_create "$S"
run backup full --source-driver sqlite --source "$S" --output-dir "$C" --chain-slot --name app
[ "$rc" = 0 ] || { say_run; echo "Bail out! no full"; exit 1; }
app_change "$S" 1
run backup incremental --source-driver sqlite --source "$S" --output-dir "$C" --name app --format json
json '$.id' >"$T/tip"
B="sync from-backup run --backup-dir $C --target-driver sqlite --stream-id app-broker"
# everything that must not change: target, store, control DB (its content: the file itself gets a WAL)
traces() { (cd "$T" && find chain -type f | LC_ALL=C sort | xargs sha256sum; sqlite3 "$SLUICE_CONTROL" .dump; sqlite3 "$1" .dump); }

test_it 'a target that is not there: nothing to drop, and the file is not made' '
    done_ok $B --target $T/new.db --reset-target-data --dry-run
    out_has "^stream .app-broker. has no position on the target$"
    out_has "^would drop 0 tables of the target \(3 are not there\) and load 3 tables, 9[0-9]{2} rows, [0-9]+ bytes, then links up to $(cat $T/tip); nothing was changed$"
    [ ! -e $T/new.db ]'

test_it 'tables of any shape are named, with whether they hold rows; others are not' '
    q $T/mine.db "create table customer(id int); insert into customer values (1); create table visit(a text); create table keep(a int); insert into keep values (7)"
    traces $T/mine.db >$T/before
    done_ok $B --target $T/mine.db --reset-target-data --dry-run
    out_has "^drop main.customer \(holds rows\)$" && out_has "^drop main.visit \(empty\)$" && out_has "would drop 2 tables of the target \(1 are not there\)"
    fails grep -q keep $T/out
    traces $T/mine.db >$T/after; cmp $T/before $T/after'

test_it 'no broker is configured by asking, and --yes asks no more' '
    is "$(sqlite3 $SLUICE_CONTROL "select count(*) from entity where kind = '\''broker'\''")" 0
    done_ok $B --target $T/mine.db --reset-target-data --yes --dry-run
    is "$(q $T/mine.db "select count(*) from customer")" 1'

test_it 'a stream that stands somewhere is told, and keeps its place and its configuration' '
    done_ok $B --target $T/mine.db --reset-target-data --yes --once
    done_ok $B --target $T/mine.db --once
    traces $T/mine.db >$T/before
    done_ok $B --target $T/mine.db --reset-target-data --dry-run
    out_has "^stream .app-broker. stands at $(cat $T/tip) \(tailing\), which would be given up$" && out_has "would drop 3 tables of the target"
    traces $T/mine.db >$T/after; cmp $T/before $T/after
    done_ok $B --target $T/mine.db --once && same_rows $S $T/mine.db customer item visit && is "$(q $T/mine.db "select a from keep")" 7'

test_it 'scope and map are those of the command' '
    done_ok $B --target $T/mine.db --reset-target-data --dry-run --include-table item
    out_has "drop main.item" && out_has "would drop 1 tables of the target .* load 1 tables"
    ends 2 "none of the chain" $B --target $T/mine.db --reset-target-data --dry-run --include-table nothing'

test_it 'what would refuse the reset refuses the plan' '
    ends 3 "no chain" sync from-backup run --backup-dir $T/nowhere --target-driver sqlite --stream-id x --target $T/new.db --reset-target-data --dry-run
    ends 3 "another target" $B --target $T/other.db --reset-target-data --dry-run
    [ ! -e $T/other.db ]'

test_it 'a rebuild that was killed half way would go on' '
    SLUICE_FAULT=load.after_chunk run sync from-backup run --backup-dir $C --target-driver sqlite --stream-id half --target $T/half.db --reset-target-data --yes --once
    [ $rc = 137 ] || { say_run; exit 1; }
    done_ok sync from-backup run --backup-dir $C --target-driver sqlite --stream-id half --target $T/half.db --reset-target-data --dry-run
    out_has "an unfinished rebuild would go on" && out_has "would drop 0 tables"'

test_it 'without a reset there is nothing to plan' '
    ends 2 "reset-target-data" $B --target $T/mine.db --dry-run
    ends 2 "exclude" $B --target $T/mine.db --dry-run --reset-target-data --at-chain-id restore'

done_testing
