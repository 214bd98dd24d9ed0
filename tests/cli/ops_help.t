#!/bin/bash
# What is made from the table of commands: help, the bash completion, the man page; and what `make install` puts where.
. "$(dirname "$0")/../lib/lib.sh"
S=$T/completion.bash M=$T/sluice.1
"$SLUICE" help --completion bash >"$S" || echo "Bail out! no completion"
"$SLUICE" help --man >"$M" || echo "Bail out! no man page"
"$SLUICE" help | awk '/^  [a-z]/ { sub(/^  /, ""); sub(/  .*/, ""); print }' >"$T/verbs"
# what bash would offer for a line, whose last word is being typed ('sluice backup ' ends in an empty one); split as readline does, at '=' too
offers() {
    bash -c '. "$1"; line=$2; cd "$3"
        read -r -a COMP_WORDS <<<"${line//=/ = }"; [[ $line == *" " || $line == *= ]] && [[ $line != *= ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sluice; printf "%s\n" "${COMPREPLY[@]}"' - "$S" "$1" "$T" | LC_ALL=C sort | paste -sd" "
}
mkdir "$T/folder"; : >"$T/a.file"

test_it 'the help lists verbs, and each verb shows its flags' '
    [ $(wc -l <$T/verbs) -ge 20 ]
    while read -r v; do done_ok help $v; out_has "^usage: sluice $v"; done <$T/verbs'

test_it 'the script is bash, and loading it starts nothing' '
    bash -n $S
    PATH=/nowhere /bin/bash -c ". $S; complete -p sluice" | grep -qx "complete -F _sluice sluice"
    if command -v shellcheck >/dev/null; then shellcheck -s bash -e SC2207,SC2034 $S; fi'

test_it 'verbs, word by word' '
    is "$(offers "sluice backup ")" "full gc incremental list show stream verify"
    is "$(offers "sluice backup i")" "incremental"
    is "$(offers "sluice backup stream ")" "run stop"
    is "$(offers "sluice s")" "source sql sync"
    is "$(offers "sluice sync from-backup ")" "run stop"
    is "$(offers "sluice control ")" "backup check export rebuild"
    is "$(offers "sluice nonsense ")" ""'

test_it 'every verb of the help can be typed with it' '
    while read -r v; do
        typed=sluice
        for w in $v; do offers "$typed $w" | tr " " "\n" | grep -qx -- "$w" || { echo "not offered: $typed $w"; exit 1; }; typed="$typed $w"; done
    done <$T/verbs'

test_it 'flags of the verb, and no others' '
    is "$(offers "sluice sync health --max")" "--max-lag-links --max-lag-seconds --max-stale-seconds"
    is "$(offers "sluice sync status --max")" ""
    is "$(offers "sluice backup full --chain")" "--chain-slot"
    is "$(offers "sluice sync health app --form")" "--format"
    is "$(offers "sluice backup full --compression zstd --chain")" "--chain-slot"
    is "$(offers "sluice --he")" "--help"'

test_it 'every flag that a verb helps with is offered for it' '
    while read -r v; do
        "$SLUICE" help $v | sed -n "s/^  \(--[a-z0-9-]*\).*/\1/p" | LC_ALL=C sort >$T/shown
        offers "sluice $v --" | tr " " "\n" | grep -vx -- --help >$T/offered || true
        cmp $T/shown $T/offered || { echo "sluice $v"; diff $T/shown $T/offered; exit 1; }
    done <$T/verbs'

test_it 'values: words, drivers, kinds, files, folders; both ways of writing them' '
    is "$(offers "sluice backup verify --depth ")" "hash read"
    is "$(offers "sluice backup verify --depth=r")" "read"
    is "$(offers "sluice backup verify --depth=")" "hash read"
    is "$(offers "sluice backup full --source-driver p")" postgres
    is "$(offers "sluice run ")" "broker producer task" && is "$(offers "sluice machine b")" broker
    is "$(offers "sluice backup list --from-dir fo")" folder
    is "$(offers "sluice --control a.")" "" && is "$(offers "sluice machine --control a.")" a.file
    is "$(offers "sluice sync from-backup run --stream-id ")" ""'

test_it 'a value is no verb, and verbs may stand behind flags' '
    is "$(offers "sluice help sync ")" "from-backup health status"
    is "$(offers "sluice help --ma")" --man
    is "$(offers "sluice sync health --format json --max-st")" --max-stale-seconds'

test_it 'a word break that is not ours to choose: --depth=r in one piece' '
    is "$(bash -c ". $S; COMP_WORDS=(sluice backup verify --depth=r); COMP_CWORD=3; _sluice; echo \${COMPREPLY[*]}")" "--depth=read"'

test_it 'the man page names every verb and every flag' '
    sed "s/\\\\-/-/g" $M >$T/plain
    while read -r v; do grep -q "fBsluice $v.fR" $T/plain || { echo "no verb $v"; exit 1; }; done <$T/verbs
    while read -r v; do "$SLUICE" help $v; done <$T/verbs | sed -n "s/^  \(--[a-z0-9-]*\).*/\1/p" | sort -u >$T/flags
    while read -r f; do grep -q -- "^.fB$f.fR" $T/plain || { echo "no flag $f"; exit 1; }; done <$T/flags
    fails grep -q "{drivers}" $M
    fails env LC_ALL=C grep -q "[^ -~]" $M'

if command -v groff >/dev/null; then
    test_it 'groff has nothing to warn of' 'groff -man -ww -z $M 2>$T/warned; cat $T/warned; [ ! -s $T/warned ]'
else
    skip_it 'groff has nothing to warn of' 'groff is not here'
fi
if command -v man >/dev/null && man -l "$M" >/dev/null 2>&1; then
    test_it 'man shows it, dashes and all' '
        MANWIDTH=200 man --warnings -l $M >$T/shown 2>$T/warned; cat $T/warned; [ ! -s $T/warned ]
        col -b <$T/shown 2>/dev/null >$T/text || cp $T/shown $T/text
        grep -q -- "--max-lag-links N" $T/text && grep -q "^EXIT STATUS" $T/text'
else
    skip_it 'man shows it, dashes and all' 'man is not here'
fi

test_it 'what cannot be made is a usage error' '
    ends 2 "bash" help --completion fish
    ends 2 "alone" help --man --completion bash
    ends 2 "alone" help --man backup'

test_it 'make install puts program, man page and completion in their places' '
    command -v make >/dev/null && command -v pkg-config >/dev/null || exit 0
    make -s -C $ROOT -o all install BUILD=$(dirname $SLUICE) DESTDIR=$T/root PREFIX=/usr >$T/made
    cmp $SLUICE $T/root/usr/bin/sluice && cmp $M $T/root/usr/share/man/man1/sluice.1 && cmp $S $T/root/usr/share/bash-completion/completions/sluice'

done_testing
