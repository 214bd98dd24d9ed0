#!/bin/bash
# with_servers.sh COMMAND…: start the servers that tests need, run the command with their addresses in the environment, stop them.
#   PG_A, PG_B    URLs of two PostgreSQL clusters, without a database name at their end (superuser, password from SECRETS in lib.sh)
#   PG_OLD        the same of a third one run by PG13BIN, when that is set
# Without PostgreSQL the command runs all the same: its tests skip what they cannot do.
set -u
here=$(cd "$(dirname "$0")" && pwd)
servers=$here/../servers/pg.sh
PASSWORD=Kq7-Zebra-91
dir=$(mktemp -d "${TMPDIR:-/tmp}/sluice-servers.XXXXXX") || exit 1
chmod 755 "$dir"
started=""
stop_all() {
    local n
    for n in $started; do
        if [ "$n" = old ]; then PGBIN=$PG13BIN "$servers" stop "$n" "$dir"; else "$servers" stop "$n" "$dir"; fi
    done
    started=""
    rm -rf "$dir"
}
trap stop_all EXIT
trap 'exit 130' INT TERM

free_port() { perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1", LocalPort => 0) or die; print $s->sockport'; }
start() { # start NAME VARIABLE
    local port
    port=$(free_port)
    PG_SLOTS=60 "$servers" start "$1" "$dir" "$port" >/dev/null || { echo "with_servers: PostgreSQL '$1' did not start" >&2; exit 1; }
    started="$started $1"
    psql -XAtq "$("$servers" socket "$1" "$dir")" -c "alter role postgres password '$PASSWORD'" || exit 1
    if [ -n "${PREPARED:-}" ]; then # two-phase commit needs a restart
        psql -XAtq "$("$servers" socket "$1" "$dir")" -c "alter system set max_prepared_transactions = 10" || exit 1
        "$servers" stop "$1" "$dir" && "$servers" start "$1" "$dir" >/dev/null || exit 1
    fi
    export "$2=postgresql://postgres:$PASSWORD@127.0.0.1:$port"
    export "$2_CTL=$servers|$1|$dir|$port"   # for tests that crash or restart it
}
PGBIN=${PGBIN:-/usr/lib/postgresql/15/bin}
export PGBIN
if [ -x "$PGBIN/initdb" ]; then
    start a PG_A
    start b PG_B
else
    echo "# no PostgreSQL at $PGBIN: its tests are skipped" >&2
fi
if [ -n "${PG13BIN:-}" ] && [ -x "$PG13BIN/initdb" ]; then PGBIN=$PG13BIN start old PG_OLD; fi
"$@"
