#!/bin/bash
# A chain of PostgreSQL rotates while the application writes: at every kill point, keyed and keyless, and under a broker that follows.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
need_pg
S=$(pg_db "$PG_A" src) C=$T/chain DRIVER=postgres LOOK=16
SRC="--source-driver postgres --source $S --output-dir $C"
target() { pg_db "$PG_B" "$1"; }
app_create "$S"
run backup full $SRC --chain-slot --slot-name "r$$"
[ "$rc" = 0 ] || { say_run; echo "Bail out! no full"; exit 1; }
. "$ROOT/tests/lib/rotation.sh"
done_testing
