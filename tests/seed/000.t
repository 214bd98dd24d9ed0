#!/bin/bash
# The commands of the first request, as they are written there: a chain produced from PostgreSQL, replayed into another, stopped through the store.
# Apart from the URL, and the three --backup-* flags of object stores: with a file:// URL they would do nothing, so they are usage errors.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
need_pg
PATH=$(dirname "$SLUICE"):$PATH
S=$(pg_db "$PG_A" seed) D=$(pg_db "$PG_B" seed) CHAIN=file://$T/app-chain
app_create "$S"
literal() { # a command as it stands, by a shell; rc, out, err as with run
    rc=0
    bash -c "$1" >"$T/out" 2>"$T/err" </dev/null || rc=$?
    echo $rc >"$T/rc"
    cat "$T/out" "$T/err" >>"$T/alloutput"
    return 0
}
export S D CHAIN
works() { literal "$1"; [ "$rc" = 0 ] || { say_run "$1"; return 1; }; }

FULL='sluice backup full --source-driver postgres --source "$S" \
        --target $CHAIN \
        --chain-slot'
INCREMENTAL='sluice backup incremental --source-driver postgres --source "$S" \
        --target $CHAIN'
BROKER='sluice sync from-backup run \
        --backup-target $CHAIN \
        --target-driver postgres --target "$D" \
        --stream-id app-broker \
        --apply-concurrency 4 \
        --poll-interval 1s'

test_it '1. the full, and incrementals from a scheduler' '
    works "$FULL"
    app_change $S 1; works "$INCREMENTAL"
    app_change $S 2; works "$INCREMENTAL"'

test_it '3. on its first launch the broker refuses loudly and names two ways past that' '
    literal "$BROKER --once"; is $rc 3; err_has "reset-target-data" && err_has "at-chain-id"'
test_it 'the two ways exclude each other' 'literal "$BROKER --once --reset-target-data --at-chain-id 1234"; is $rc 2'
test_it '--reset-target-data prompts unless --yes; without a terminal nothing is dropped' '
    q $D "create table customer(mine int)"; literal "$BROKER --once --reset-target-data"; is $rc 3; is "$(q $D "select count(*) from customer")" 0
    q $D "drop table customer"'

test_it '2. and 3. a restore, then the broker with --at-chain-id set to its tail' '
    works "sluice restore --from $CHAIN --target-driver postgres --target $D --format json"
    json "\$.tail_id" >$T/tail
    grep -Eq "^[0-9a-f]{40}$" $T/tail
    works "$BROKER --once --at-chain-id $(cat $T/tail)"
    same_all $S $D'

test_it 'every restart after that needs no flag: it follows while the producer goes on' '
    spawn broker sync from-backup run --backup-target $CHAIN --target-driver postgres --target "$D" --stream-id app-broker --apply-concurrency 4 --poll-interval 1s
    for r in 3 4 5; do app_change $S $r; works "$INCREMENTAL"; done
    tip=$(tail -1 $T/out)
    wait_for 30 "[ \"\$(q $D \"select link_id from sluice_cdc_state where stream_id = '\''app-broker'\''\")\" = $tip ]"
    same_all $S $D
    running broker'

test_it '2. or a continuous producer, that begins a fresh segment now and then: the broker follows over the seam, and a restore takes the newest full' '
    spawn producer backup stream run --source-driver postgres --source "$S" --target $CHAIN --rollover-window 1s --retain-rotate-at-chain-length 2
    r=20
    grow() { app_change $S $r; r=$((r + 1)); [ "$(sluice backup list --from $CHAIN --format json | grep -o "\"full_complete\":true" | wc -l)" -ge 2 ]; }
    wait_for 60 grow || { cat $T/producer.err; exit 1; }
    works "sluice backup stream stop --target $CHAIN"; gone producer 0
    app_change $S 90; works "$INCREMENTAL"; tip=$(tail -1 $T/out)
    wait_for 30 "[ \"\$(q $D \"select link_id from sluice_cdc_state where stream_id = '\''app-broker'\''\")\" = $tip ]"
    same_all $S $D
    works "sluice backup verify --from $CHAIN --depth read"
    N=$(pg_db "$PG_B" newest); works "sluice restore --from $CHAIN --target-driver postgres --target $N"; same_all $S $N'

test_it '4. stopping cleanly, by a stop signal in the store' '
    works "sluice sync from-backup stop --backup-target $CHAIN"
    out_has app-broker
    gone broker 0 15'

test_it 'it resumes after that, and its position is in sluice_cdc_state on the target' '
    app_change $S 6; works "$INCREMENTAL"
    works "$BROKER --once"
    same_all $S $D
    is "$(q $D "select link_id from sluice_cdc_state where stream_id = '\''app-broker'\''")" "$(works "$INCREMENTAL"; sluice backup list --from $CHAIN --format json | grep -oE "\"[0-9a-f]{40}\"" | tail -1 | tr -d \")"'

test_it '--reset-target-data --yes: drop, restore the chain, go on to live polling' '
    q $D "delete from customer"
    works "$BROKER --once --reset-target-data --yes"
    same_all $S $D'

test_it 'two consumers with distinct stream-ids for distinct targets' '
    D2=$(pg_db $PG_B seed2); export D2
    works "sluice sync from-backup run --backup-target $CHAIN --target-driver postgres --target $D2 --stream-id second --reset-target-data --yes --once"
    app_change $S 7; works "$INCREMENTAL"; works "$BROKER --once"
    works "sluice sync from-backup run --backup-target $CHAIN --target-driver postgres --target $D2 --stream-id second --once"
    same_all $S $D; same_all $S $D2
    literal "sluice sync from-backup run --backup-target $CHAIN --target-driver postgres --target $D2 --stream-id app-broker --once"; is $rc 3'

for flag in "--backup-endpoint https://account.r2.cloudflarestorage.com" "--backup-region auto" "--backup-path-style"; do
    test_it "with a file:// URL ${flag%% *} is a usage error that names it" '
        for cmd in "$FULL" "$INCREMENTAL" "$BROKER" "sluice sync from-backup stop --backup-target $CHAIN"; do
            literal "$cmd $flag"; is $rc 2; err_has "${flag%% *}"
        done'
done
test_it 'an unknown URL scheme is a usage error' 'literal "sluice backup full --source-driver postgres --source \$S --target ftp://x/y --chain-slot"; is $rc 2; err_has "ftp"'
done_testing
