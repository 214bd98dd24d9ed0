#!/bin/bash
# What runs sluice: systemd units and cron lines, parsed, then run as those would run them, on SQLite.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
U=$ROOT/contrib/systemd CRON=$ROOT/contrib/cron/sluice
S=$T/app.db C=$T/chain
app_create "$S"
mkdir "$T/bin"; ln -s "$SLUICE" "$T/bin/sluice"
unit() { echo "$U/sluice-$1@.service"; }
setting() { sed -n "s/^$2=//p" "$(unit "$1")"; } # setting KIND KEY
# verb_of WORDS…: the verb that the first words spell; flags_of VERB: what its help shows
verb_of() {
    local v="" best="" w
    for w in "$@"; do
        case $w in -*) break ;; esac
        v="${v:+$v }$w"
        "$SLUICE" help $v >/dev/null 2>&1 && best=$v
    done
    [ -n "$best" ] || { echo "no verb in: $*"; return 1; }
    echo "$best"
}
# known_flags WORDS…: every flag of the line is one of its verb
known_flags() {
    local verb w
    verb=$(verb_of "$@") || return 1
    "$SLUICE" help $verb >"$T/help"
    for w in "$@"; do
        case $w in
        --*) grep -Eq "^  ${w%%=*}( |\$)" "$T/help" || { echo "\`sluice $verb\` has no $w"; return 1; } ;;
        esac
    done
}

test_it 'units: systemd has nothing to say against them' '
    command -v systemd-analyze >/dev/null || { echo "systemd-analyze is not here"; exit 0; }
    for k in producer broker; do
        sed "s#/usr/local/bin/sluice#$SLUICE#" $(unit $k) >$T/sluice-$k@app.service
        systemd-analyze verify --man=no $T/sluice-$k@app.service >$T/said 2>&1 || { cat $T/said; exit 1; }
        grep -v "^$" $T/said && exit 1
    done; true'

test_it 'units: sections, keys and values are what they should be' '
    for k in producer broker; do
        awk -F= "/^\\[/ { s = \$0; next } /^#/ || /^\$/ { next } !/^[A-Z][A-Za-z]*=/ { print FILENAME \": \" \$0; bad = 1 }
            s !~ /^\\[(Unit|Service|Install)\\]\$/ { print \"section \" s; bad = 1 }
            \$1 !~ /^(Environment|SystemCallFilter)\$/ && seen[s \$1]++ { print \"twice: \" \$1; bad = 1 } END { exit bad }" $(unit $k)
        is "$(setting $k Type)|$(setting $k NotifyAccess)" "notify|main"
        is "$(setting $k Restart)|$(setting $k RestartPreventExitStatus)" "on-failure|2 3 75"
        is "$(setting $k NoNewPrivileges)|$(setting $k ProtectSystem)|$(setting $k PrivateTmp)|$(setting $k CapabilityBoundingSet)" "yes|strict|yes|"
        [ -n "$(setting $k WatchdogSec)" ] && [ -n "$(setting $k StateDirectory)" ] && [ -n "$(setting $k SystemCallFilter)" ]
        is "$(setting $k Environment)" "SLUICE_CONTROL=/var/lib/$(setting $k StateDirectory)/control.db"
    done'

test_it 'units: both are hardened alike' '
    for k in producer broker; do sed -n "/^NoNewPrivileges/,\$p" $(unit $k) >$T/hard.$k; done
    [ $(wc -l <$T/hard.producer) -gt 20 ] && cmp $T/hard.producer $T/hard.broker'

test_it 'units: the command line is one of ours, and its variables stand in the environment file' '
    for k in producer broker; do
        x=$(setting $k ExecStart); f=$(sed -n "s/^SLUICE_FLAGS=//p" $U/$k.env)
        is "${x%% *}" /usr/local/bin/sluice
        set -f; known_flags ${x#* } $f; set +f
        grep -Evq "^(#.*|[A-Z_]+=.*|)\$" $U/$k.env && exit 1
        for v in $(grep -o "[\$]{*[A-Z_]*" <<<"$x" | tr -d "\${"); do grep -q "^$v=" $U/$k.env || { echo "$v is not in $k.env"; exit 1; }; done
        echo "$x" | grep -q -- "--target-driver\|--source-driver"
    done'

# as_service NAME KIND INSTANCE ENV…: the unit's command line with its environment, and a service manager that listens; what it hears stands in $T/NAME.heard
as_service() {
    local name=$1 kind=$2 instance=$3 v line
    shift 3
    rm -f "$T/$name.sock" "$T/$name.heard"
    perl -MIO::Socket::UNIX -MSocket -e '$SIG{ALRM} = sub { exit }; alarm 120; my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $ARGV[0]) or die;
        open my $o, ">", $ARGV[1] or die; $o->autoflush(1); while (defined $s->recv(my $m, 4096)) { print $o "$m\n" }' "$T/$name.sock" "$T/$name.heard" &
    echo $! >>"$T/pids"
    wait_for 10 "[ -S '$T/$name.sock' ]"
    line=$(setting "$kind" ExecStart)
    line=${line//%i/$instance}
    for v in "$@"; do
        line=${line//\$\{${v%%=*}\}/${v#*=}}
        line=${line//\$${v%%=*}/${v#*=}}
        export "${v?}"
    done
    set -f
    NOTIFY_SOCKET=$T/$name.sock WATCHDOG_USEC=800000 spawn "$name" ${line#* }
    set +f
}
hears() { wait_for 20 "grep -Eq -- '$2' '$T/$1.heard'" || { cat "$T/$1.heard" "$T/$1.err"; return 1; }; }

done_full() { done_ok backup full --source-driver sqlite --source "$S" --output-dir "$C" --chain-slot --name app; }
test_it 'a producer under a service manager: ready, alive, its work in the status, stopping, 0' '
    done_full
    as_service p producer app SLUICE_SOURCE_DRIVER=sqlite SLUICE_SOURCE=$S SLUICE_STORE=file://$C "SLUICE_FLAGS=--rollover-window 200ms"
    hears p "^READY=1$"
    app_change $S 1
    hears p "^STATUS=producer app: following, link [0-9a-f]+: "
    n=$(grep -c "^WATCHDOG=1$" $T/p.heard); wait_for 20 "[ \$(grep -c ^WATCHDOG=1 $T/p.heard) -gt $((n + 3)) ]"
    fails grep -q "^STOPPING=1" $T/p.heard
    stop_of p; gone p 0
    hears p "^STOPPING=1$"'

test_it 'a broker under a service manager: an idle one is alive too, and a stop from the store is a clean end' '
    done_ok sync from-backup run --backup-dir $C --target-driver sqlite --target $T/t.db --stream-id app --reset-target-data --yes --once
    as_service b broker app SLUICE_TARGET_DRIVER=sqlite SLUICE_TARGET=$T/t.db SLUICE_STORE=file://$C "SLUICE_FLAGS=--poll-interval 1h"
    hears b "^READY=1$" && hears b "^STATUS=broker app: tailing"
    wait_for 20 "[ \$(grep -c ^WATCHDOG=1 $T/b.heard) -gt 4 ]"
    done_ok sync from-backup stop --backup-dir $C --stream-id app
    gone b 0 && hears b "^STOPPING=1$"
    same_rows $S $T/t.db customer item visit'

test_it 'a reset asks the watchdog for patience, and gives it back' '
    as_service r broker app2 SLUICE_TARGET_DRIVER=sqlite SLUICE_TARGET=$T/t2.db SLUICE_STORE=file://$C "SLUICE_FLAGS=--reset-target-data --yes --poll-interval 100ms"
    hears r "^STATUS=broker app2: tailing"
    stop_of r; gone r 0
    is "$(grep ^WATCHDOG_USEC $T/r.heard | sort -u | paste -sd" ")" "WATCHDOG_USEC=800000 WATCHDOG_USEC=86400000000"
    is "$(grep ^WATCHDOG_USEC $T/r.heard | tail -1)" "WATCHDOG_USEC=800000"'

test_it 'a refusal, a usage error and a busy stream end with codes that systemd does not restart' '
    as_service x broker unknown SLUICE_TARGET_DRIVER=sqlite SLUICE_TARGET=$T/x.db SLUICE_STORE=file://$C SLUICE_FLAGS=
    gone x 3
    hears x "^STATUS=ended: .*no saved position"
    as_service y broker app SLUICE_TARGET_DRIVER=nothing SLUICE_TARGET=$T/t.db SLUICE_STORE=file://$C SLUICE_FLAGS=
    gone y 2
    as_service z broker app SLUICE_TARGET_DRIVER=sqlite SLUICE_TARGET=$T/t.db SLUICE_STORE=file://$C "SLUICE_FLAGS=--poll-interval 1h"
    hears z "^STATUS=broker app: tailing"
    as_service z2 broker app SLUICE_TARGET_DRIVER=sqlite SLUICE_TARGET=$T/t.db SLUICE_STORE=file://$C SLUICE_FLAGS=
    gone z2 75
    running z; stop_of z; gone z 0'

# ---- cron

# Also the lines that are there to be uncommented.
sed -n 's/^#\([*0-9]\)/\1/p; /^[*0-9]/p' "$CRON" >"$T/lines"
test_it 'cron: times, user and commands of every line' '
    [ $(wc -l <$T/lines) -ge 6 ]
    fails grep -Ev "^(#|\$|[A-Z_]+=|[*0-9])" $CRON
    while read -r a b c d e user cmd; do
        for f in "$a" "$b" "$c" "$d" "$e"; do echo "$f" | grep -Eq "^(\*(/[0-9]+)?|[0-9]+)\$" || { echo "not a time: $f"; exit 1; }; done
        is "$user" sluice
        sh -n -c "$cmd"
        fails grep -q "[^\\\\]%" <<<"$cmd"
        words=$(grep -o "sluice [^|>)]*" <<<"$cmd" | head -1)
        set -f; known_flags ${words#sluice }; set +f
    done <$T/lines'

# the commands of the lines that match, as cron would start them: sh, a bare environment
as_cron() {
    local PATTERN=$1 rc=0
    grep -- "$PATTERN" "$T/lines" | head -1 | sed -E 's/^([^ ]+ +){6}//' >"$T/cron.sh"
    [ -s "$T/cron.sh" ] || { echo "no line with $PATTERN"; return 1; }
    sed -i "s#file:///srv/sluice/app#file://$C#g; s#--source-driver postgres --source '[^']*'#--source-driver sqlite --source $S#" "$T/cron.sh"
    env -i PATH="$T/bin:/usr/bin:/bin" SLUICE_CONTROL="$SLUICE_CONTROL" sh "$T/cron.sh" >"$T/out" 2>"$T/err" || rc=$?
    cat "$T/out" "$T/err" >>"$T/alloutput"
    return $rc
}

test_it 'cron: a line of each kind does its work' '
    app_change $S 2; app_change $S 3
    n=$(ls $C/*/ | wc -l)
    as_cron "run producer app"
    as_cron "run broker app"
    same_rows $S $T/t.db customer item visit
    app_change $S 4
    as_cron "backup incremental" && as_cron "run broker app" && same_rows $S $T/t.db customer item visit
    as_cron "backup gc" && as_cron "backup verify" && as_cron "control check" && is "$(cat $T/out)" ""'

test_it 'cron: --until idle goes on until there is nothing left' '
    app_change $S 5
    done_ok run producer app --until idle
    [ $(grep -c producer_follow $T/out) -ge 2 ] && out_has "nothing new"
    ends 2 "only idle" run producer app --until tomorrow'

test_it 'cron: a line that meets the owner at work is no failure' '
    spawn own sync from-backup run --backup-dir $C --target-driver sqlite --target $T/t.db --stream-id app --poll-interval 1h
    wait_for 20 "[ \"\$(sqlite3 $SLUICE_CONTROL \"select owner_pid from brokers where stream_id = '\''app'\''\")\" = \$(cat $T/own.pid) ]"
    ends 75 "." run broker app
    as_cron "run broker app"
    stop_of own; gone own 0'

test_it 'cron: the health line is silent when all is well, and mails the report when it is not' '
    SLUICE_CONTROL=$T/well.db done_ok backup full --source-driver sqlite --source $S --output-dir $T/well --name well
    SLUICE_CONTROL=$T/well.db as_cron "sync health"
    is "$(cat $T/out $T/err)" ""
    as_cron "sync health"
    err_has "unknown +refused"
    is "$(cat $T/out)" ""'

done_testing
