# TAP for shell tests on real databases. A test file begins with:  . "$(dirname "$0")/../lib/lib.sh"  and ends with: done_testing
#
#   test_it 'claim' 'commands'    runs the commands in a subshell under `set -e`; the claim holds when all of them succeed. Shell variables that
#                                 a claim sets are gone afterwards: what later claims need is a file under $T, or set outside.
#   run ARG…                      sluice; exit code, output and errors land in $T/rc, $T/out, $T/err; no password of a test may stand in them
#   done_ok ARG… / ends RC TEXT ARG…      run, and the exit code must be 0 / RC with TEXT (an extended regular expression) on stderr
#   spawn NAME ARG…, stop_of NAME, gone NAME RC     sluice in the background; TERM to it; wait until it ended with RC
#   q DSN SQL, same_rows SRC DST TABLE…, same_all SRC DST    psql or sqlite3 by the DSN; compare data, not logs
#   wait_for SECONDS 'condition'  poll a condition; the only way a test waits
#
# Everything a file makes lies in $T, which goes away at the end with the processes the file started (by pid).
set -u
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SLUICE=${SLUICE:-$ROOT/build/sluice}
. "$ROOT/tests/lib/db.sh"
T=$(mktemp -d "${TMPDIR:-/tmp}/sluice-test.XXXXXX") || exit 1
: >"$T/pids"
: >"$T/alloutput"
export SLUICE_CONTROL=$T/control.db LC_ALL=C TZ=UTC
unset SLUICE_SOURCE SLUICE_TARGET SLUICE_FAULT SLUICE_FAULT_LIST
# Passwords that tests use; none may ever be printed, logged or kept in clear.
SECRETS=${SECRETS:-Kq7-Zebra-91 Wm4-Otter-38}
tap_n=0
tap_failed=0

[ -x "$SLUICE" ] || { echo "Bail out! $SLUICE is not there: run make first"; exit 1; }

cleanup() {
    local pid
    for pid in $(cat "$T/pids"); do kill -9 "$pid" 2>/dev/null; done
    pg_cleanup
    [ -n "${KEEP:-}" ] && { echo "# kept: $T" >&2; return; }
    rm -rf "$T"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

note() { printf '# %s\n' "$*"; }
skip_all() { echo "1..0 # SKIP $*"; exit 0; }

test_it() {
    tap_n=$((tap_n + 1))
    ( set -eE
      trap 'echo "failed: $BASH_COMMAND"' ERR
      eval "$2" ) >"$T/log" 2>&1 </dev/null
    if [ $? = 0 ]; then
        echo "ok $tap_n - $1$(cat "$T/skip" 2>/dev/null)"
        rm -f "$T/skip"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_n - $1"
        [ -n "${KEEP:-}" ] && cp -a "$T" "$T-failed-$tap_n"
        tail -n 40 "$T/log" | sed 's/^/#   /'
    fi
}
skip_rest() { echo " # SKIP $*" >"$T/skip"; exit 0; } # inside a claim: nothing more can be proved
skip_it() { tap_n=$((tap_n + 1)); echo "ok $tap_n - $1 # SKIP $2"; }

done_testing() {
    local s bad=""
    for s in $SECRETS; do
        grep -qaF -- "$s" "$T/alloutput" && bad="$bad output"
        grep -qaF -- "$s" "$T"/*.db "$T"/*.db-wal 2>/dev/null && bad="$bad control-db"
    done
    tap_n=$((tap_n + 1))
    if [ -z "$bad" ]; then echo "ok $tap_n - no password was printed or kept in clear"
    else tap_failed=$((tap_failed + 1)); echo "not ok $tap_n - a password was printed or kept in clear:$bad"; fi
    echo "1..$tap_n"
    [ "$tap_failed" = 0 ] || exit 1
    exit 0
}

# --- sluice in the foreground

run() {
    rc=0
    "$SLUICE" "$@" >"$T/out" 2>"$T/err" </dev/null || rc=$?
    echo "$rc" >"$T/rc"
    cat "$T/out" "$T/err" >>"$T/alloutput"
    return 0
}
say_run() { echo "exit code $(cat "$T/rc") of: sluice $*"; sed 's/^/out: /' "$T/out" | head -20; sed 's/^/err: /' "$T/err" | head -30; }
done_ok() {
    run "$@"
    [ "$rc" = 0 ] || { say_run "$@"; return 1; }
}
ends() {
    local want=$1 text=$2
    shift 2
    run "$@"
    [ "$rc" = "$want" ] || { echo "wanted exit code $want"; say_run "$@"; return 1; }
    grep -Eq -- "$text" "$T/err" || { echo "wanted on stderr: $text"; say_run "$@"; return 1; }
}
out() { cat "$T/out"; }
out_has() { grep -Eq -- "$1" "$T/out" || { echo "wanted on stdout: $1"; sed 's/^/out: /' "$T/out"; return 1; }; }
err_has() { grep -Eq -- "$1" "$T/err" || { echo "wanted on stderr: $1"; sed 's/^/err: /' "$T/err"; return 1; }; }
# json PATH [FILE]: a member of a JSON object, by SQLite's reader ('$.tail_id')
json() { sqlite3 :memory: "select json_extract(cast(readfile('${2:-$T/out}') as text), '$1')"; }
is() { [ "$1" = "$2" ] || { echo "got:    $1"; echo "wanted: $2"; return 1; }; }
isnt() { [ "$1" != "$2" ] || { echo "both are: $1"; return 1; }; }
fails() { if "$@"; then echo "succeeded: $*"; return 1; fi; }

# --- sluice in the background

spawn() {
    local name=$1
    shift
    rm -f "$T/$name.rc" "$T/$name.pid"
    ( code=0
      bash -c 'echo $$ >"$1"; shift; exec "$@"' - "$T/$name.pid" "$SLUICE" "$@" >"$T/$name.out" 2>"$T/$name.err" </dev/null || code=$?
      cat "$T/$name.out" "$T/$name.err" >>"$T/alloutput"
      echo $code >"$T/$name.rc.new" && mv "$T/$name.rc.new" "$T/$name.rc" ) >/dev/null 2>&1 &
    wait_for 5 "[ -s '$T/$name.pid' ]"
    cat "$T/$name.pid" >>"$T/pids"
}
signal_of() { kill "-$2" "$(cat "$T/$1.pid")"; }
stop_of() { signal_of "$1" TERM; }
running() { [ ! -f "$T/$1.rc" ] && kill -0 "$(cat "$T/$1.pid")"; }
gone() {
    wait_for "${3:-20}" "[ -f '$T/$1.rc' ]" || { echo "still running: $1"; sed 's/^/err: /' "$T/$1.err" | tail -20; return 1; }
    [ "$(cat "$T/$1.rc")" = "$2" ] || { echo "exit code of $1: $(cat "$T/$1.rc"), wanted $2"; sed 's/^/err: /' "$T/$1.err" | tail -20; return 1; }
}

# wait_for SECONDS CONDITION: true as soon as the condition is; false after that time
wait_for() {
    local until=$((SECONDS + $1))
    while ! (eval "$2") >/dev/null 2>&1; do
        [ $SECONDS -lt "$until" ] || { echo "waited $1 s in vain for: $2"; return 1; }
        sleep 0.05
    done
}

# --- PostgreSQL: a database of one's own on each of the servers that with_servers.sh started

need_pg() { [ -n "${PG_A:-}" ] || skip_all "no PostgreSQL here (tests/lib/with_servers.sh starts one)"; }
pg_made=""
pg_db() { # pg_db SERVER NAME: a new database; its URL on stdout. SERVER: the value of PG_A, PG_B or PG_OLD
    local db="t$$_$2"
    q "$1/postgres" "drop database if exists $db with (force)" && q "$1/postgres" "create database $db" && echo "$1/$db"
    echo "$1 $db" >>"$T/databases"
}
pg_role() { # pg_role SERVER NAME ATTRIBUTES: a role that can log in with the second password; its name on stdout
    q "$1/postgres" "create role $2 login password '${SECRETS##* }' $3"
    echo "$1 $2" >>"$T/roles"
}
as_role() { local host=${1#*@}; echo "postgresql://$2:${SECRETS##* }@$host"; } # as_role URL ROLE
pg_cleanup() {
    local server db
    [ -f "$T/databases" ] && while read -r server db; do
        psql -XAtq "$server/postgres" -c "select pg_terminate_backend(active_pid) from pg_replication_slots where database = '$db' and active_pid is not null" >/dev/null 2>&1
        psql -XAtq "$server/postgres" -c "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = '$db'" >/dev/null 2>&1
        psql -XAtq "$server/postgres" -c "drop database if exists $db with (force)" >/dev/null 2>&1
    done <"$T/databases"
    [ -f "$T/roles" ] && while read -r server db; do psql -XAtq "$server/postgres" -c "drop role if exists $db" >/dev/null 2>&1; done <"$T/roles"
    return 0
}
