#!/bin/bash
# The same work by plain roles: on the source one that owns its tables and may replicate, on the target one with the GRANTs that the README shows.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
need_pg
A=$(pg_db "$PG_A" role) B=$(pg_db "$PG_B" role) C=$T/chain
SRC_ROLE=src_$$ DST_ROLE=dst_$$ WEAK_ROLE=weak_$$
pg_role "$PG_A" $SRC_ROLE replication
pg_role "$PG_B" $DST_ROLE ""
pg_role "$PG_B" $WEAK_ROLE ""
q "$PG_A/postgres" "grant create on database ${A##*/} to $SRC_ROLE"
q "$A" "grant create, usage on schema public to $SRC_ROLE"
q "$B" "grant create, usage on schema public to $DST_ROLE"
S=$(as_role "$A" $SRC_ROLE) D=$(as_role "$B" $DST_ROLE)
version=$(q "$PG_B/postgres" "show server_version_num")
[ "$version" -lt 150000 ] || q "$PG_B/postgres" "grant set on parameter session_replication_role to $DST_ROLE"
app_create "$S"
export SLUICE_SOURCE=$S SLUICE_TARGET=$D
incr() { done_ok backup incremental --source-driver postgres --output-dir "$C"; }
broker() { done_ok sync from-backup run --backup-dir "$C" --target-driver postgres --stream-id role --once "$@"; }

test_it 'full, incremental, restore' '
    done_ok backup full --source-driver postgres --output-dir $C --chain-slot --slot-name role_$$
    app_change $S 1; incr
    done_ok restore --from-dir $C --target-driver postgres
    same_all $S $D'
test_it 'broker: adopt, follow, reset' '
    broker --at-chain-id restore
    app_change $S 2; incr; broker; same_all $S $D
    broker --reset-target-data --yes; same_all $S $D
    app_change $S 3; incr; broker; same_all $S $D'
test_it 'foreign keys and triggers of the target do not fire under replication' '
    [ $version -ge 150000 ] || skip_rest "before 15 only a superuser may set session_replication_role, and a plain role is warned"
    q $S "create table p(id int primary key, n int default 0); create table c(id int primary key, pid int references p on delete cascade); insert into p values (1), (2); insert into c values (1, 1), (2, 2)"
    done_ok backup full --source-driver postgres --output-dir $T/chain2 --chain-slot --slot-name role2_$$ --include-table p,c
    done_ok restore --from-dir $T/chain2 --target-driver postgres
    q $D "create function f() returns trigger language plpgsql as \$\$ begin update p set n = n + 100; return new; end \$\$; create trigger tr after insert on c for each row execute function f()"
    done_ok sync from-backup run --backup-dir $T/chain2 --target-driver postgres --stream-id fk --at-chain-id restore --once
    q $S "delete from p where id = 1; insert into p values (3); insert into c values (3, 3)"
    done_ok backup incremental --source-driver postgres --output-dir $T/chain2
    done_ok sync from-backup run --backup-dir $T/chain2 --target-driver postgres --stream-id fk --once
    same_rows $S $D p c'
test_it 'a target role that may not set session_replication_role works where nothing needs it, and is told' '
    W=$(pg_db $PG_B weak); q $W "grant create, usage on schema public to $WEAK_ROLE"
    SLUICE_TARGET=$(as_role $W $WEAK_ROLE)
    done_ok restore --from-dir $C --target-driver postgres
    done_ok sync from-backup run --backup-dir $C --target-driver postgres --stream-id weak --at-chain-id restore --once
    err_has "session_replication_role"
    app_change $S 4; incr
    done_ok sync from-backup run --backup-dir $C --target-driver postgres --stream-id weak --once
    same_rows $S $W customer item visit'
test_it 'a source role that only reads: a full without an anchor, no more' '
    pg_role $PG_A reader_$$ ""; q $A "grant usage on schema public to reader_$$; grant select on all tables in schema public to reader_$$"
    SLUICE_SOURCE=$(as_role $A reader_$$) run backup full --source-driver postgres --output-dir $T/chain3
    if [ $rc = 0 ]; then SLUICE_TARGET=$(pg_db $PG_B reader) done_ok restore --from-dir $T/chain3 --target-driver postgres; else is $rc 3; err_has "REPLICATION|GRANT"; fi
    q $A "drop owned by reader_$$"'
test_it 'the password stands neither in argv nor in the environment of what others may see' '
    SLUICE_FAULT=broker.after_tick=stop spawn argv sync from-backup run --backup-dir $C --target-driver postgres --target $D --stream-id role
    wait_for 20 "grep -q \"^State:.*T\" /proc/\$(cat $T/argv.pid)/status"
    tr "\\0" " " </proc/$(cat $T/argv.pid)/cmdline >$T/cmdline; signal_of argv CONT; stop_of argv; gone argv 0
    fails grep -q Otter $T/cmdline'
test_it 'a DSN may name its password by variable or file, and keeps that form' '
    export DSTPW=${SECRETS##* }; ref=${D/${SECRETS##* }/\$\{DSTPW\}}
    app_change $S 5; incr
    SLUICE_TARGET=$ref broker; same_rows $S $D customer item visit
    q $SLUICE_CONTROL "select dsn from endpoint where dsn like '\''%DSTPW%'\''" | grep -q DSTPW
    printf %s "${SECRETS##* }" >$T/pwfile; chmod 600 $T/pwfile
    app_change $S 6; incr
    SLUICE_TARGET=${D/${SECRETS##* }/file:$T/pwfile} run sync from-backup run --backup-dir $C --target-driver postgres --stream-id role --once
    if [ $rc = 0 ]; then same_rows $S $D customer item visit; else say_run; exit 1; fi'
q "$B" "drop owned by $DST_ROLE" >/dev/null 2>&1
[ "$version" -lt 150000 ] || q "$PG_B/postgres" "revoke set on parameter session_replication_role from $DST_ROLE"
done_testing
