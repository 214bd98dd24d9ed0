#!/bin/sh
# TAP: every block of tests/sql/hostile.sql is refused by the plain sqlite3 program, and the control DB's content stays what it was.
# The DB is the newest released fixture, so nothing of ours runs here. Twice: as the shell is, and with recursive triggers and foreign keys on.
set -u
here=$(dirname "$0")
fixture=$(ls "$here"/../unit/control/fixtures/[0-9]*.sql | LC_ALL=C sort | tail -1)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0 failed=0
ok() { # ok STATUS NAME
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; failed=$((failed + 1)); fi
}

sqlite3 -bail "$dir/control.db" <"$fixture" && sqlite3 "$dir/control.db" 'PRAGMA journal_mode = WAL' >/dev/null
ok $? "the fixture $(basename "$fixture") loads"
sqlite3 "$dir/control.db" .dump >"$dir/before"
[ "$(grep -c '^INSERT INTO history ' "$dir/before")" -ge 3 ] || [ "$(grep -c 'INSERT INTO history ' "$dir/before")" -ge 3 ]
ok $? "and holds history"

# One file a block.
awk -v dir="$dir" '/^-- name: /{ k++; f = sprintf("%s/%03d.sql", dir, k); print substr($0, 10) > (dir "/" sprintf("%03d.name", k)); next } f { print > f }' "$here/hostile.sql"
blocks=$(ls "$dir"/*.name | wc -l)
[ "$blocks" -ge 12 ]
ok $? "$blocks hostile blocks"

for pragmas in '' 'PRAGMA recursive_triggers = ON; PRAGMA foreign_keys = ON;'; do
    for name in "$dir"/*.name; do
        said=$({ echo "$pragmas"; cat "${name%.name}.sql"; } | sqlite3 -bail "$dir/control.db" 2>&1)
        refused=$?
        sqlite3 "$dir/control.db" .dump >"$dir/after"
        cmp -s "$dir/before" "$dir/after"
        same=$?
        [ "$refused" -ne 0 ] && [ "$same" -eq 0 ]
        ok $? "$(cat "$name")${pragmas:+ (recursive triggers, foreign keys)} is refused"
        [ "$refused" -ne 0 ] && [ "$same" -eq 0 ] || { echo "# exit $refused, content $([ $same -eq 0 ] && echo kept || echo CHANGED): $said"; }
    done
done

# What the shell may do.
sqlite3 "$dir/control.db" "UPDATE entity SET state = 'stopped' WHERE kind = 'broker' AND name = 'app'" &&
    [ "$(sqlite3 "$dir/control.db" "SELECT actor, event, to_state FROM audit ORDER BY id DESC LIMIT 1")" = 'shell|stopped|stopped' ]
ok $? "a move along an edge is done and recorded"
echo "1..$n"
[ "$failed" -eq 0 ]
