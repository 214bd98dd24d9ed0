#!/bin/bash
# What is wrong on the command line is exit code 2 with a text that names it, before anything is touched.
. "$(dirname "$0")/../lib/lib.sh"
q "$T/s.db" "pragma journal_mode=wal; create table t(id integer primary key)" >/dev/null
FULL="backup full --source-driver sqlite --source $T/s.db"
BROKER="sync from-backup run --backup-dir $T/c --target-driver sqlite --target $T/t.db"
untouched() { [ ! -e "$T/c" ] && [ ! -e "$T/t.db" ]; }

test_it 'no verb, an unknown verb, half a verb' 'ends 2 "no verb"; ends 2 "frobnicate" frobnicate; ends 2 "backup" backup; ends 2 "backup fulll" backup fulll; err_has "sluice help"'
test_it 'an unknown flag is named, and so is a flag of another verb' 'ends 2 "nosuch" $FULL --output-dir $T/c --nosuch; ends 2 "stream-id" $FULL --output-dir $T/c --stream-id x; ends 2 "chain-slot" $BROKER --stream-id x --chain-slot; untouched'
test_it 'a flag without its value, a value for a flag without one, a flag twice' '
    ends 2 "slot-name" $FULL --output-dir $T/c --chain-slot --slot-name; ends 2 "dry-run" $FULL --output-dir $T/c --dry-run=yes; ends 2 "twice" $FULL --output-dir $T/c --output-dir $T/d; untouched'
test_it 'a word too many' 'ends 2 "stray" $FULL --output-dir $T/c stray; ends 2 "KIND NAME" run producer; untouched'
test_it 'a driver that is unknown or missing' 'ends 2 "oracle.*postgres|postgres.*sqlite|oracle" backup full --source-driver oracle --source x --output-dir $T/c; ends 2 "source-driver" backup full --source x --output-dir $T/c; untouched'
test_it 'no source, no target' 'ends 2 "SLUICE_SOURCE" backup full --source-driver sqlite --output-dir $T/c; ends 2 "SLUICE_TARGET" sync from-backup run --backup-dir $T/c --target-driver sqlite --stream-id x; untouched'
test_it 'both or neither of two exclusive flags' '
    ends 2 "output-dir" $FULL; ends 2 "output-dir" $FULL --output-dir $T/c --target file://$T/c; ends 2 "backup-dir" $BROKER --backup-target file://$T/c --stream-id x
    ends 2 "exclude" $BROKER --stream-id x --reset-target-data --at-chain-id 12345678; ends 2 "exclude" $FULL --output-dir $T/c --include-table a --exclude-table b; untouched'
test_it 'URL schemes' 'ends 2 "ftp" $FULL --target ftp://h/x; for u in s3://b/x gs://b/x azblob://b/x; do ends 2 "${u%%:*}" $FULL --target $u; done; untouched'
test_it 'flags that a folder cannot use are named, encryption too' '
    for f in "--backup-endpoint x" "--backup-region x" --backup-path-style --encrypt "--encryption-passphrase-env X"; do ends 2 "${f%% *}" $FULL --output-dir $T/c $f; done; untouched'
test_it 'numbers, sizes, durations, choices' '
    ends 2 "max-changes" backup incremental --source-driver sqlite --source $T/s.db --output-dir $T/c --max-changes many
    ends 2 "window" backup incremental --source-driver sqlite --source $T/s.db --output-dir $T/c --window soon
    ends 2 "keyless-max-bytes" $FULL --output-dir $T/c --keyless-max-bytes 1furlong; ends 2 "compression" $FULL --output-dir $T/c --compression lzma
    ends 2 "chunk-size" $FULL --output-dir $T/c --chunk-size -1; ends 2 "poll-interval" $BROKER --stream-id x --poll-interval 1fortnight; ends 2 "format" $FULL --output-dir $T/c --format yaml
    untouched'
test_it '--map-schema takes A=B' '
    done_ok $FULL --output-dir $T/chain; ends 2 "map-schema" restore --from-dir $T/chain --target-driver sqlite --target $T/t.db --map-schema a; untouched'
test_it '--slot-name without --chain-slot, flags of another engine' 'ends 2 "slot-name" $FULL --output-dir $T/c --slot-name x; ends 2 "publish-all" $FULL --output-dir $T/c --publish-all; untouched'
test_it '--stream-id is required, at most 255 bytes' 'ends 2 "stream-id" $BROKER; ends 2 "stream-id" $BROKER --stream-id $(printf %0300d 0); [ ! -e $T/t.db ]'
test_it 'malformed DSNs never repeat what they hold' '
    for d in "postgresql://u:${SECRETS%% *}@h:notaport/x" "postgres://u:${SECRETS%% *}@[::1/x" "host=h password=${SECRETS%% *} junk"; do ends 2 "DSN|port" backup full --source-driver postgres --source "$d" --output-dir $T/c; done
    for d in "" "sqlite://relative.db" ":memory:" "http://x/y.db" "file:x.db?mode=ro"; do SLUICE_SOURCE=$d run backup full --source-driver sqlite --output-dir $T/c; is $rc 2; done; untouched'
test_it '--format json of the log does not change the result' 'run --version; ends 2 "{.*nosuch" $FULL --output-dir $T/c --log-format json --nosuch || ends 2 "nosuch" $FULL --output-dir $T/c --log-format json --nosuch'
test_it 'help and version' 'done_ok version; done_ok --version; done_ok help; done_ok --help; done_ok backup full --help; out_has "chain-slot"; done_ok help sync from-backup run; out_has "stream-id"; ends 2 "nosuch" help nosuch'
done_testing
