#!/bin/bash
# Tables that the source drops: a target keeps them until their name is needed, and follows then.
. "$(dirname "$0")/../lib/lib.sh"
S=$T/app.db C=$T/chain B=$T/b.db
SRC="--source-driver sqlite --source $S --output-dir $C"
q "$S" "pragma journal_mode=wal" >"$T/wal"
q "$S" "create table t(id integer primary key, name text); insert into t values (1,'a'),(2,'b'); create table u(id integer primary key)"
broker() { done_ok sync from-backup run --backup-dir "$C" --target-driver sqlite --target "$B" --stream-id b --once "$@"; }
run backup full $SRC --chain-slot; [ "$(cat "$T/rc")" = 0 ] || { say_run full; echo "Bail out! no full"; exit 1; }
run sync from-backup run --backup-dir "$C" --target-driver sqlite --target "$B" --stream-id b --once --reset-target-data --yes

test_it 'a dropped table stays on the target' '
    q $S "drop table t; insert into u values (5)"
    done_ok backup incremental $SRC && broker && is "$(q $B "select count(*) from t")" 2'

test_it 'a table made anew under its name takes its place, after a restart too' '
    q $S "create table t(id integer primary key, other int); insert into t values (7,8)"
    done_ok backup incremental $SRC && broker && same_all $S $B
    is "$(q $B "select id || other from t")" 78'

test_it 'so does one renamed onto a dropped name' '
    q $S "drop table t; create table v(id integer primary key, x text)" && done_ok backup incremental $SRC
    q $S "insert into v values (1, '\''y'\'')" && done_ok backup incremental $SRC && broker
    q $S "alter table v rename to t; insert into t values (2, '\''z'\'')" && done_ok backup incremental $SRC && broker
    is "$(q $B "select count(*) || max(x) from t")" 2z'

test_it 'dropped and made anew between two ticks' '
    q $S "drop table t; create table t(k text primary key) without rowid; insert into t values ('\''one'\'')"
    done_ok backup incremental $SRC && broker && is "$(q $B "select k from t")" one'

test_it 'the whole chain restores to the same' '
    done_ok restore --from-dir $C --target-driver sqlite --target $T/r.db && same_all $S $T/r.db'

test_it 'a stranger of that name on the target is refused, not dropped' '
    q $B "create table w(mine int); insert into w values (1)"
    q $S "create table w(id integer primary key); insert into w values (9)" && done_ok backup incremental $SRC
    ends 3 "w" sync from-backup run --backup-dir $C --target-driver sqlite --target $B --stream-id b --once
    is "$(q $B "select mine from w")" 1'
done_testing
