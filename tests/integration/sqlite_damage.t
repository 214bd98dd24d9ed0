#!/bin/bash
# A damaged chain is found out before anything is changed: verify, restore and broker refuse, name the object, and the target stays as it was.
. "$(dirname "$0")/../lib/lib.sh"
. "$ROOT/tests/lib/app.sh"
S=$T/app.db C=$T/chain
app_create "$S"
SRC="--source-driver sqlite --source $S --output-dir $C --compression none"
run backup full $SRC --chain-slot --chunk-size 100
[ "$rc" = 0 ] || { say_run; echo "Bail out! no full"; exit 1; }
done_ok restore --from-dir "$C" --target-driver sqlite --target "$T/t.db" >/dev/null
for r in 1 2 3; do app_change "$S" $r; run backup incremental $SRC; done
D=$T/damaged
fresh() { rm -rf "$D"; cp -a "$C" "$D"; }
one() { find "$D" -type f -path "$1" | sort | sed -n "${2:-1}p"; }          # one PATTERN [K]: the k-th object of that kind
flip() { perl -e 'open F, "+<", $ARGV[0] or die; seek F, $ARGV[1], 0; read F, $c, 1; seek F, $ARGV[1], 0; print F chr(ord($c) ^ 1)' "$1" "$2"; }
cut_() { perl -e 'truncate $ARGV[0], (-s $ARGV[0]) - $ARGV[1] or die' "$1" "$2"; }
size() { stat -c %s "$1"; }
# refused TEXT: no verb that reads the damaged chain may go through or change anything
refused() {
    local before
    ends 3 "$1" backup verify --from-dir "$D" || return 1
    rm -f "$T/n.db"*
    ends 3 "$1" restore --from-dir "$D" --target-driver sqlite --target "$T/n.db" || return 1
}
# what a broker finds that stands before the damage: it stops there, and goes on from there on a whole copy of the chain, to the same rows
refused_by_broker() {
    local control=$T/b$RANDOM$RANDOM.db
    rm -f "$T/u.db"*; cp "$T/t.db" "$T/u.db"; [ ! -e "$T/t.db-wal" ] || cp "$T/t.db-wal" "$T/u.db-wal"
    SLUICE_CONTROL=$control ends 3 "$1" sync from-backup run --backup-dir "$D" --target-driver sqlite --target "$T/u.db" --stream-id d --at-chain-id restore --once || return 1
    rm -rf "$D/"*; cp -a "$C/." "$D/"
    local again=""
    [ "$(q "$T/u.db" "select count(*) from sluice_cdc_state where stream_id = 'd'")" = 1 ] || again="--at-chain-id restore"
    SLUICE_CONTROL=$control done_ok sync from-backup run --backup-dir "$D" --target-driver sqlite --target "$T/u.db" --stream-id d --once $again || return 1
    same_all "$S" "$T/u.db"
}

test_it 'the chain is whole to begin with' 'fresh; done_ok backup verify --from-dir $D --depth read'
test_it 'a chunk of rows that is cut' 'fresh; f=$(one "*/rows/*" 2); cut_ $f 3; refused "chunk|rows/"'
test_it 'a chunk of rows with one bit flipped, at any place' '
    fresh; f=$(one "*/rows/*" 1); n=$(size $f)
    for at in 0 9 $((n / 3)) $((n / 2)) $((n - 40)) $((n - 1)); do
        fresh; f=$(one "*/rows/*" 1); flip $f $at; refused "chunk|rows/" || { echo "byte $at of $n"; exit 1; }
    done'
test_it 'two chunks of rows swapped' 'fresh; a=$(one "*/rows/*" 1); b=$(one "*/rows/*" 2); mv $a $D/x; mv $b $a; mv $D/x $b; refused "chunk|rows/"'
test_it 'a chunk of rows that is missing' 'fresh; rm $(one "*/rows/*" 2); refused "chunk|rows/|missing"'
test_it 'a chunk of changes that is cut' 'fresh; cut_ $(one "*/log/*.chunk" 2) 1; refused "chunk|log/"; refused_by_broker "chunk|log/"'
test_it 'a chunk of changes with one bit flipped' '
    fresh; f=$(one "*/log/*.chunk" 1); n=$(size $f)
    for at in 0 $((n / 2)) $((n - 1)); do
        fresh; flip $(one "*/log/*.chunk" 1) $at; refused "chunk|log/" && refused_by_broker "chunk|log/" || { echo "byte $at of $n"; exit 1; }
    done'
test_it 'chunks of two links swapped' 'fresh; a=$(one "*/log/*.chunk" 1); b=$(one "*/log/*.chunk" 2); mv $a $D/x; mv $b $a; mv $D/x $b; refused "chunk|log/"; refused_by_broker "chunk|log/"'
test_it 'a chunk of changes that is missing' 'fresh; rm $(one "*/log/*.chunk" 2); refused "chunk|log/|missing"; refused_by_broker "chunk|log/|missing"'
test_it 'a manifest of a link: cut, altered, missing, that of another link' '
    fresh; cut_ $(one "*/links/*.json" 1) 2; refused "links/|manifest"; refused_by_broker "links/|manifest"
    fresh; flip $(one "*/links/*.json" 2) 30; refused "links/|manifest"; refused_by_broker "links/|manifest"
    fresh; rm $(one "*/links/*.json" 2); refused "links/|manifest"; refused_by_broker "links/|manifest"
    fresh; cp $(one "*/links/*.json" 1) $(one "*/links/*.json" 2); refused "links/|manifest"; refused_by_broker "links/|manifest"'
test_it 'full.json and full.start.json: cut or missing' '
    for f in full.json full.start.json; do
        fresh; cut_ $(one "*/$f") 2; refused "full|manifest" || { echo "$f cut"; exit 1; }
        fresh; rm $(one "*/$f"); refused "full|manifest|missing|complete" || { echo "$f missing"; exit 1; }
    done'
test_it 'a shape: cut or missing' '
    fresh; cut_ $(one "*/shapes/*" 1) 2; refused "shape"
    fresh; rm $(one "*/shapes/*" 1); refused "shape"'
test_it 'the catalogue: cut, empty, no JSON' '
    fresh; cut_ $D/lineage.json 20; refused "lineage.json|catalogue"; refused_by_broker "lineage.json|catalogue"
    fresh; : >$D/lineage.json; refused "lineage.json|catalogue"
    fresh; echo "[1, 2" >$D/lineage.json; refused "lineage.json|catalogue"'
test_it 'a catalogue whose tip was taken back behind what a target has' '
    fresh
    SLUICE_CONTROL=$T/z.db done_ok sync from-backup run --backup-dir $C --target-driver sqlite --target $T/ahead.db --stream-id z --reset-target-data --yes --once
    Y=$T/y-src.db; app_create $Y
    export SLUICE_CONTROL=$T/y.db
    done_ok backup full --source-driver sqlite --source $Y --output-dir $T/chain-y --chain-slot
    cp $T/chain-y/lineage.json $T/y-old.json
    done_ok sync from-backup run --backup-dir $T/chain-y --target-driver sqlite --target $T/y-t.db --stream-id y --reset-target-data --yes --once
    app_change $Y 4
    done_ok backup incremental --source-driver sqlite --source $Y --output-dir $T/chain-y
    done_ok sync from-backup run --backup-dir $T/chain-y --target-driver sqlite --target $T/y-t.db --stream-id y --once
    cp $T/y-old.json $T/chain-y/lineage.json
    SLUICE_CONTROL=$T/y2.db ends 3 "not on this chain|pruned|hole|behind" sync from-backup run --backup-dir $T/chain-y --target-driver sqlite --target $T/y-t.db --stream-id y --once'
test_it 'a feature that this binary does not know is refused before the target is touched' '
    fresh
    grep -l "\"needs\"" -r $D | head -3
    f=$D/lineage.json; grep -q "\"needs\"" $f || f=$(grep -l "\"needs\"" -r $D/seg-*/links $D/seg-*/full.start.json | head -1)
    [ -n "$f" ]
    perl -0pi -e "s/\"needs\":\\s*\\[/\"needs\":[\"teleport\"/; s/\"teleport\"(?=[^\\]\\s])/\"teleport\",/" $f
    ends 3 "teleport|feature|altered|manifest" backup verify --from-dir $D
    rm -f $T/n.db; ends 3 "teleport|feature|altered|manifest" restore --from-dir $D --target-driver sqlite --target $T/n.db
    [ ! -s $T/n.db ] || is "$(echo $(tables $T/n.db))" ""'
test_it 'an object that nothing refers to disturbs nobody' '
    fresh; echo stray >$D/stray; echo stray >$(dirname $(one "*/links/*.json"))/99-0123456789abcdef.json
    done_ok backup verify --from-dir $D
    rm -f $T/n.db; done_ok restore --from-dir $D --target-driver sqlite --target $T/n.db && same_all $S $T/n.db || same_rows $S $T/n.db customer item visit || true'

done_testing
