#!/bin/bash
# A wall clock that steps, forwards and back, loses nothing and stops nobody: nothing expires by it.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
cat >"$T/step.c" <<'C'
/* The wall clock, STEP seconds away from the true one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(id, t);
    const char *step = getenv("STEP");
    if (rc == 0 && step && id == CLOCK_REALTIME) t->tv_sec += atol(step);
    return rc;
}
C
${CC:-cc} -shared -fPIC -o "$T/step.so" "$T/step.c" -ldl 2>"$T/cc.err" || skip_all "no compiler: $(head -1 "$T/cc.err")"
S=$T/app.db C=$T/chain B=$T/b.db
app_create "$S"
SRC="--source-driver sqlite --source $S --output-dir $C"
at() { local step=$1; shift; STEP=$step LD_PRELOAD=$T/step.so done_ok "$@"; }
n=0
broker() { at "$1" sync from-backup run --backup-dir "$C" --target-driver sqlite --target "$B" --stream-id b --once; }

test_it 'the step is felt: a full of yesterday says so' '
    at -86400 backup full $SRC --chain-slot
    "$SLUICE" backup list --from-dir $C --format json >$T/list
    isnt "$(json "\$[0].time" $T/list | cut -c1-10)" "$(date -u +%Y-%m-%d)"'

test_it 'links made in the future, then in the past, are whole and in order' '
    for step in 90000 -90000 0 -604800 31536000 0; do
        app_change $S $((n += 1)); at $step backup incremental $SRC || return 1
    done
    done_ok backup verify --from-dir $C --depth read
    done_ok restore --from-dir $C --target-driver sqlite --target $T/r.db && same_all $S $T/r.db'

test_it 'a broker goes on, whatever its clock says' '
    at 0 sync from-backup run --backup-dir $C --target-driver sqlite --target $B --stream-id b --reset-target-data --yes --once
    for step in -604800 604800 0; do
        app_change $S $((n += 11)); done_ok backup incremental $SRC && broker $step && same_all $S $B || return 1
    done'

test_it 'history written under a stepped clock is sealed and sound' '
    done_ok control check'

test_it 'a running broker writes no core file' '
    spawn tail sync from-backup run --backup-dir $C --target-driver sqlite --target $B --stream-id b --poll-interval 100ms
    wait_for 10 "grep -q \"Max core file size *0 \" /proc/\$(cat $T/tail.pid)/limits"
    stop_of tail; gone tail 0'
done_testing
