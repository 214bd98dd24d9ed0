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
done_testing
