#!/bin/bash
# pg.sh start|stop|crash|url|psql NAME DIR [PORT]: a throw-away PostgreSQL cluster under DIR/pg-NAME, on 127.0.0.1 and a socket in that folder.
# PGBIN picks the server (default: Debian's 15). As root the server runs as the unprivileged user pgtest, made when it is missing.
#   start  initdb when new, start, print a URL (TCP, SCRAM password "secret")
#   stop   fast shutdown; crash: immediate shutdown (what a crash leaves)
#   url    the URL again; socket: the key=value DSN over the socket (trust)
set -eu
[ $# -ge 3 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
cmd=$1 name=$2 dir=$3 port=${4:-54320}
PGBIN=${PGBIN:-/usr/lib/postgresql/15/bin}
d=$dir/pg-$name
user=pgtest
as() { if [ "$(id -u)" = 0 ]; then (cd / && setpriv --reuid=$user --regid=$user --clear-groups "$@"); else "$@"; fi; }
own() { if [ "$(id -u)" = 0 ]; then chown $user: "$@"; fi; }
case $cmd in
start)
    if [ "$(id -u)" = 0 ] && ! id $user >/dev/null 2>&1; then useradd --system --no-create-home --shell /usr/sbin/nologin $user || id $user >/dev/null; fi
    mkdir -p "$d" && chmod 755 "$d" && own "$d"
    if [ ! -f "$d/data/PG_VERSION" ]; then
        echo secret >"$d/pw" && own "$d/pw"
        as "$PGBIN/initdb" -D "$d/data" -U postgres --pwfile="$d/pw" --auth-local=trust --auth-host=scram-sha-256 \
            -E UTF8 --locale=C.UTF-8 --no-sync >"$d/initdb.log" 2>&1
        cat >>"$d/data/postgresql.conf" <<CONF
wal_level = ${PG_WAL_LEVEL:-logical}
max_wal_senders = 10
max_replication_slots = ${PG_SLOTS:-10}
fsync = off
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = '$d'
wal_sender_timeout = 10s
CONF
    fi
    as "$PGBIN/pg_ctl" -D "$d/data" -l "$d/data/server.log" -w -t 30 start >/dev/null || { tail -5 "$d/data/server.log" >&2; exit 1; }
    echo "postgresql://postgres:secret@127.0.0.1:$(sed -n 's/^port = //p' "$d/data/postgresql.conf" | tail -1)/postgres" ;;
stop) as "$PGBIN/pg_ctl" -D "$d/data" -m fast -w stop >/dev/null ;;
crash) as "$PGBIN/pg_ctl" -D "$d/data" -m immediate -w stop >/dev/null ;;
url) echo "postgresql://postgres:secret@127.0.0.1:$(sed -n 's/^port = //p' "$d/data/postgresql.conf" | tail -1)/postgres" ;;
socket) echo "host=$d port=$(sed -n 's/^port = //p' "$d/data/postgresql.conf" | tail -1) user=postgres dbname=postgres" ;;
*) echo "unknown command '$cmd'" >&2; exit 2 ;;
esac
