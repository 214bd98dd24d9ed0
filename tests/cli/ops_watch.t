#!/bin/bash
# sync status --watch: the report again and again; redrawn on a terminal, one below the other elsewhere; a signal ends it with 0.
. "$(dirname "$0")/../lib/lib.sh"
run machine broker
sqlite3 "$SLUICE_CONTROL" <"$ROOT/contrib/configure.sql"
W="sync status --watch 50ms"

test_it 'elsewhere: a time and the table, again and again, without control sequences' '
    spawn w1 $W
    wait_for 20 "[ \$(grep -c ^broker $T/w1.out) -ge 3 ]"
    stop_of w1; gone w1 0
    grep -Eq "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z$" $T/w1.out
    fails grep -q "$(printf "\\033")" $T/w1.out'

test_it 'it shows what changes meanwhile' '
    spawn w2 $W
    wait_for 20 "grep -q ^broker $T/w2.out"
    fails grep -q later $T/w2.out
    sqlite3 $SLUICE_CONTROL "insert into entity(kind, name, target, store) values ('\''broker'\'', '\''later'\'', '\''app-target'\'', '\''app-chain'\'')"
    wait_for 20 "grep -q later $T/w2.out"
    signal_of w2 INT; gone w2 0'

test_it 'JSON: one document after the other and nothing between them' '
    spawn w3 $W --format json
    wait_for 20 "[ \$(grep -c \"^\\[{\" $T/w3.out) -ge 2 ]"
    stop_of w3; gone w3 0
    awk "/^\\[/ { n++ } n == 1" $T/w3.out >$T/one
    is "$(json "\$[0].kind" $T/one)" broker'

if script -qec true /dev/null >/dev/null 2>&1; then
    test_it 'on a terminal the screen is redrawn' '
        TERM=xterm timeout 20 script -qec "timeout -s INT 2 $SLUICE $W" $T/typed >/dev/null </dev/null || true
        [ $(grep -c "$(printf "\\033\\[H\\033\\[2J")" $T/typed) -ge 2 ]
        grep -q "interrupt to end" $T/typed && grep -q "^broker" $T/typed'
else
    skip_it 'on a terminal the screen is redrawn' 'script(1) is not here'
fi

test_it 'a reader that goes away ends it' '
    rc=0; timeout 20 $SLUICE $W 2>$T/err | head -1 >$T/first || true
    grep -q Z $T/first'

test_it 'a time that is none is a usage error' '
    ends 2 "watch" sync status --watch 0
    ends 2 "watch" sync status --watch soon
    ends 2 "watch" sync health --watch 1s'

done_testing
