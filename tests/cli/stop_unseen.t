#!/bin/bash
# A consumer that is not registered in the store is asked through its target's row; when it has ended cannot be seen, and that is said.
. "$(dirname "$0")/../lib/lib.sh"
S=$T/s.db
q "$S" "pragma journal_mode=wal; create table t(id integer primary key); insert into t values (1)" >/dev/null
stop() { run sync from-backup stop --backup-dir $T/chain --stream-id a --target-driver sqlite --target $T/a.db "$@"; }

test_it 'stop asks it; stop --wait does not take it for ended' '
    done_ok backup full --source-driver sqlite --source $S --output-dir $T/chain --chain-slot
    done_ok sync from-backup run --backup-dir $T/chain --target-driver sqlite --target $T/a.db --stream-id a --reset-target-data --yes --once
    rm -r $T/chain/consumers
    stop; is $rc 0; out_has "^a"
    stop --wait; is $rc 1; err_has "not registered"'
done_testing
