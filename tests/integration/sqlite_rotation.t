#!/bin/bash
# A chain of SQLite rotates while the application writes: at every kill point, keyed and keyless, and under a broker that follows.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
S=$T/app.db C=$T/chain DRIVER=sqlite
SRC="--source-driver sqlite --source $S --output-dir $C"
target() { echo "$T/target-$1.db"; }
app_create "$S"
run backup full $SRC --chain-slot
[ "$rc" = 0 ] || { say_run; echo "Bail out! no full"; exit 1; }
. "$ROOT/tests/lib/rotation.sh"

test_it 'a row that comes and goes around a snapshot does not stay, and a value that moves to another row meanwhile is taken' '
    q $S "create table flash(id integer primary key, v text unique)"
    for p in sqlite.snapshot_opened; do
        had=$(segments)
        touch $T/writing
        ( while [ -e $T/writing ]; do
            q $S "insert into flash(v) values ('\''v'\'')"; q $S "update item set note = hex(randomblob(4)) where warehouse = 1"
            q $S "delete from flash"
          done ) >/dev/null 2>&1 &
        echo $! >$T/writer.pid
        SLUICE_FAULT=$p=sleep600 spawn f $RUN
        wait_for 40 "[ \$(segments) -gt $had ] && [ \$(filling) = 0 ]" || { sed "s/^/err: /" $T/f.err; false; }
        stop_of f; gone f 0; quiet
        like_source flash-$p || { echo "after $p"; false; }
    done'
done_testing
