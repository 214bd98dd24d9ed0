# Rotation of a running chain, whatever the source: S, SRC, FULL, C and DRIVER are set, app_create was done, target NAME gives a fresh database's DSN.
. "$ROOT/tests/lib/app.sh"
RUN="backup stream run $SRC --rollover-window 60ms --retain-rotate-at-chain-length 3"
INTO="--from-dir $C --target-driver $DRIVER"

# Writes without a pause until the file is gone; each round differs, keyed and keyless.
round=0
writes() {
    touch "$T/writing"
    ( r=$1
      while [ -e "$T/writing" ]; do app_change "$S" "$r" || sleep 0.05; r=$((r + 1)); echo "$r" >"$T/round"; done ) >/dev/null 2>"$T/writer.err" &
    echo $! >>"$T/pids"
    echo $! >"$T/writer.pid"
}
quiet() {
    rm -f "$T/writing"
    wait_for 30 '! kill -0 $(cat "$T/writer.pid")'
}
next_round() { cat "$T/round" 2>/dev/null || echo 1; }
segments() { sqlite3 :memory: "select count(*) from json_each(cast(readfile('$C/lineage.json') as text), '\$.segments') where ${1:-1}"; }
complete() { segments "value ->> 'state' = 'complete'"; }
# 1 while the open segment is being filled; one that was given up stays filling for good, behind the open one
filling() { sqlite3 :memory: "select json_extract(cast(readfile('$C/lineage.json') as text), '\$.segments[#-1].state') = 'filling'"; }
tip() { sqlite3 :memory: "select json_extract(cast(readfile('$C/lineage.json') as text), '\$.links[#-1].id')"; }
stands() { q "$1" "select link_id from sluice_cdc_state where stream_id = '$2'"; }
fulls() { sqlite3 :memory: "select count(*) from json_each(cast(readfile('$T/out') as text)) where value ->> 'kind' = 'full' and value ->> 'full_complete'"; }
ids() { sqlite3 :memory: "select value ->> 'id', value ->> 'kind' from json_each(cast(readfile('$T/out') as text))"; }
end_of() { done_ok backup show --from-dir "$C" --format json "$1" && json '$.end'; }
links() { sqlite3 :memory: "select json_extract(cast(readfile('$C/lineage.json') as text), '\$.links[#-1].n')"; }
catch_up() { done_ok backup incremental $SRC; }
restored() { # restored NAME [FLAG…]: into a new database, whose DSN is then in $D
    local name=$1
    shift
    D=$(target "$name") && done_ok restore $INTO --target "$D" "$@"
}
like_source() { catch_up; restored "$1" && same_all "$S" "$D"; done_ok backup verify --from-dir "$C" --depth read; }

test_it 'flags take numbers and durations; nothing rotates that was not asked to' '
    ends 2 "retain-rotate-at-chain-length" backup stream run $SRC --retain-rotate-at-chain-length x
    ends 2 "retain-rotate-at" backup stream run $SRC --retain-rotate-at soon
    writes 1
    spawn plain backup stream run $SRC --rollover-window 100ms
    wait_for 30 "[ \$(links) -ge 4 ]"
    stop_of plain; gone plain 0; quiet
    is "$(segments)" 1'

test_it 'under constant writes segments open, fill beside the links and become whole; a broker follows over the seams' '
    K=$(target k)
    writes $(next_round)
    spawn broker sync from-backup run --backup-dir $C --target-driver $DRIVER --target $K --stream-id k --poll-interval 100ms --reset-target-data --yes
    spawn p $RUN
    wait_for 60 "[ \$(complete) -ge 4 ]"
    restored w --to-id $(tip)
    quiet
    wait_for 30 "[ \"\$(complete)\" = \"\$(segments)\" ]"
    stop_of p; gone p 0
    grep -q "a new segment was opened" $T/p.err && grep -q "full of the open segment is complete" $T/p.err
    catch_up
    wait_for 30 "[ \$(stands $K k) = $(tip) ]"
    running broker; stop_of broker; gone broker 0
    same_all $S $K'

test_it 'restore from the newest full; list, show, verify and gc over all segments; the control DB knows them' '
    like_source n
    grep -Eq "restored|links" $T/out
    done_ok backup list --from-dir $C --format json
    is "$(fulls)" "$(complete)"
    done_ok backup show --from-dir $C; out_has "complete"
    done_ok backup gc --from-dir $C --older-than 0s; done_ok backup verify --from-dir $C --depth read
    is "$(q $SLUICE_CONTROL "select count(*) from segment where full_complete")" "$(complete)"
    like_source gc'

test_it 'at the end of every link the newest full that will do and a replay from the first one give the same rows' '
    U=$(target u)
    done_ok backup list --from-dir $C --format json
    ids >$T/all
    done_ok restore $INTO --target $U --to-id "$(head -1 $T/all | cut -d"|" -f1)"
    done_ok sync from-backup run --backup-dir $C --target-driver $DRIVER --target $U --stream-id u --at-chain-id restore --once --until "$(end_of $(sed -n 2p $T/all | cut -d"|" -f1))"
    i=0 from=0
    while IFS="|" read -r id kind; do
        i=$((i + 1))
        [ $i -gt 2 ] || continue
        pos=$(end_of $id)
        done_ok sync from-backup run --backup-dir $C --target-driver $DRIVER --target $U --stream-id u --once --until "$pos"
        restored l$i --to-id $id
        same_all $U $D || { echo "link $i ($kind) $id"; false; }
        out_has "from [0-9] links" && from=$((from + 1))
        [ $i -lt ${LOOK:-24} ] || break
    done <$T/all
    [ $from -ge 3 ]'

test_it 'a point inside a link, before and after a newest full was read, is exact' '
    restored latest; N=$D
    id=$(sed -n "/full/=" $T/all | tail -1); id=$(sed -n "$((id + 1))p" $T/all | cut -d"|" -f1)
    done_ok backup show --from-dir $C --format json $id; a=$(json "\$.start") b=$(json "\$.end")
    restored pa --to-position "$a"; A=$D
    restored pb --to-position "$b"; B=$D
    restored ib --to-id $id; same_all $B $D
    fails same_all $A $B >/dev/null'

test_it 'a producer that is killed at any point of a rotation goes on; nothing is lost or doubled' '
    i=0
    for p in rotate.before_open chain.rotate_start_put chain.rotate_append chain.rotate_catalogued rotate.after_open rotate.after_snapshot rotate.in_table \
             rotate.before_table_end chain.rows_put chain.done_put rotate.after_table_end:2 rotate.before_end chain.full_put chain.full_catalogued \
             rotate.after_complete; do
        i=$((i + 1)) had=$(segments)
        writes $(next_round)
        SLUICE_FAULT=$p spawn x$i $RUN
        gone x$i 137 40 || { echo "at $p"; false; }
        spawn y$i $RUN
        wait_for 40 "[ \$(segments) -gt $had ] && [ \$(filling) = 0 ]" || { echo "after $p"; sed "s/^/err: /" $T/y$i.err; false; }
        stop_of y$i; gone y$i 0; quiet
        like_source kill$i || { echo "after $p"; false; }
    done'

test_it 'a full that fails goes on with the tables that are left; a failing catalogue does not stop the producer' '
    i=0
    for p in rotate.in_table=err rotate.after_table_end=err rotate.after_snapshot=err rotate.before_end=err chain.full_put=err rotate.after_open=err chain.rotate_append=err; do
        i=$((i + 1)) had=$(segments)
        writes $(next_round)
        SLUICE_FAULT=$p spawn z$i $RUN
        wait_for 40 "[ \$(segments) -gt $had ] && [ \$(filling) = 0 ]" || { echo "after $p"; sed "s/^/err: /" $T/z$i.err; false; }
        stop_of z$i; gone z$i 0; quiet
        grep -q "failed" $T/z$i.err
        like_source err$i || { echo "after $p"; false; }
    done'

test_it 'while a full is being written: restores take the older one, a stop leaves it, the next start ends it' '
    had=$(complete)
    writes $(next_round)
    SLUICE_FAULT=rotate.in_table=sleep4000 spawn s $RUN
    wait_for 30 "[ \$(filling) = 1 ]"
    n=$(links)
    wait_for 20 "[ \$(links) -gt $((n + 2)) ]"      # links do not wait for it
    is "$(filling)" 1; is "$(complete)" $had
    done_ok backup verify --from-dir $C
    restored mid
    stop_of s; gone s 0
    quiet
    like_source before
    is "$(complete)" $had
    spawn s2 $RUN
    wait_for 20 "[ \$(complete) -gt $had ] && [ \$(filling) = 0 ]"
    stop_of s2; gone s2 0
    like_source after'

test_it 'a restore that was killed goes on with the full that it began with, although a newer one is whole by then' '
    D=$(target half)
    SLUICE_FAULT=load.after_chunk=kill run restore $INTO --target $D; is $rc 137
    writes $(next_round)
    had=$(complete)
    spawn h $RUN
    wait_for 40 "[ \$(complete) -gt $had ] && [ \$(filling) = 0 ]"
    stop_of h; gone h 0; quiet
    done_ok restore $INTO --target $D
    catch_up
    done_ok sync from-backup run --backup-dir $C --target-driver $DRIVER --target $D --stream-id half --at-chain-id restore --once
    same_all $S $D'

test_it 'a table that is altered is taken with the next rotation that finds it in the shape that the chain tells' '
    writes $(next_round)
    had=$(complete)
    spawn d $RUN
    wait_for 30 "[ \$(complete) -gt $had ]"
    q $S "alter table customer add column extra text" >/dev/null
    q $S "update customer set extra = '\''e'\'' || id where id % 3 = 0" >/dev/null
    had=$(complete)
    wait_for 40 "[ \$(complete) -gt $((had + 1)) ]"
    quiet; stop_of d; gone d 0
    like_source ddl
    q $D "select count(*) from customer where extra is not null" | grep -qv "^0$"'

test_it 'by age: a segment ends when its full is so old, and an idle source opens none' '
    had=$(segments)
    spawn a backup stream run $SRC --rollover-window 100ms --retain-rotate-at 1s --retain-rotate-at-chain-length 0
    wait_for 30 "r=\$((\$(cat $T/round) + 1)); app_change $S \$r; echo \$r >$T/round; [ \$(segments) -ge $((had + 2)) ]"
    grep -q "for=age" $T/a.err
    now=$(segments)
    wait_for 10 "[ \$(filling) = 0 ]"
    stop_of a; gone a 0
    like_source age'

test_it 'a broker that is killed again and again walks over all seams and the altered table' '
    V=$(target v)
    done_ok backup list --from-dir $C --format json; ids >$T/all
    done_ok restore $INTO --target $V --to-id "$(head -1 $T/all | cut -d"|" -f1)"
    done_ok sync from-backup run --backup-dir $C --target-driver $DRIVER --target $V --stream-id v --apply-concurrency 1 --at-chain-id restore --once --until "$(end_of $(sed -n 2p $T/all | cut -d"|" -f1))"
    lives=0
    while SLUICE_FAULT=apply.after_window:7=kill run sync from-backup run --backup-dir $C --target-driver $DRIVER --target $V --stream-id v --apply-concurrency 1 --once && [ $rc = 137 ]; do
        lives=$((lives + 1)); [ $lives -lt 400 ]
    done 2>/dev/null
    [ $rc = 0 ] || say_run
    [ $rc = 0 ] && [ $lives -gt 3 ]
    same_all $S $V
    done_ok sync status --format json'
