#!/bin/sh
# The rules of the house, as TAP. Run from anywhere: sh tests/lint/layers.sh [ROOT]
#   rooms include to the left only, libraries and drivers stay in their rooms, headers compile alone, files are short,
#   no dangerous functions, fault points have unique names, and nothing speaks of the machine it was written on.
set -u
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0
failed=0

# check NAME FILE: the claim NAME holds when FILE, the list of violations, is empty
check() {
    n=$((n + 1))
    if [ -s "$2" ]; then
        echo "not ok $n - $1"
        sed 's/^/# /' "$2"
        failed=1
    else
        echo "ok $n - $1"
    fi
}
rule() {
    awk -F '\t' -v rule="$1" '$1 == rule { print $2 }' "$tmp/all" >"$tmp/list"
    check "$2" "$tmp/list"
}

find engine drivers tests -name '*.[ch]' -type f 2>/dev/null | sort >"$tmp/c"
if [ ! -s "$tmp/c" ]; then
    echo "Bail out! no C files under $(pwd)"
    exit 1
fi
xargs awk -f "$here/code.awk" <"$tmp/c" >"$tmp/all" || { echo "Bail out! code.awk failed"; exit 1; }

rule room 'a file includes its own room and rooms to its left only'
rule include 'includes are full paths from the root'
rule library 'each library is included by its own rooms only'
rule driver 'only the registry names concrete drivers'
rule engine-name 'the engine names no driver in a text'
rule banned 'no unbounded or unchecked string functions'
rule comment 'comments are /* … */'
rule tab 'no tabs in C'
rule fault-form 'fault points are literals of the form room.name'
awk -F '\t' '$1 == "fault" { if ($2 in at) print $2 ": " at[$2] " and " $3; else at[$2] = $3 }' "$tmp/all" >"$tmp/list"
check 'fault points have unique names' "$tmp/list"

# Headers alone. The flags are the libraries' own; a header that needs none of them compiles without.
flags=$(pkg-config --cflags sqlite3 libpq libcurl openssl libzstd lua5.4 jansson 2>/dev/null)
: >"$tmp/list"
grep '\.h$' "$tmp/c" | while read -r h; do
    # shellcheck disable=SC2086
    printf '#include "%s"\n#include "%s"\n' "$h" "$h" |
        ${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -I. $flags -fsyntax-only -x c - >"$tmp/out" 2>&1 ||
        { echo "$h"; head -5 "$tmp/out"; }
done >"$tmp/list"
check 'headers compile alone, and twice' "$tmp/list"

# A header without its guard would pass the check above when it declares nothing but functions.
grep '\.h$' "$tmp/c" | xargs grep -L '^#ifndef SLUICE_' >"$tmp/list"
check 'headers have a guard' "$tmp/list"

find engine drivers tests sql lua migrations contrib -type f \( -name '*.[ch]' -o -name '*.sql' -o -name '*.lua' -o -name '*.sh' -o -name '*.t' -o -name '*.awk' \) \
    2>/dev/null | sort | xargs wc -l | awk '$2 != "total" { print $1, $2 }' >"$tmp/lines"
awk '$1 > 800 { print $2 ": " $1 " lines" }' "$tmp/lines" >"$tmp/list"
check 'no file has more than 800 lines' "$tmp/list"
awk '$1 > 600 && $1 <= 800 { print "# warning: " $2 " has " $1 " lines; 600 are usual" }' "$tmp/lines"

# Patterns are broken up so that this file does not match itself.
find . \( -name .git -o -name build \) -prune -o -type f -print | sort >"$tmp/files"
xargs grep -InE "(^|[^A-Za-z0-9_./~-])/(wor""k|roo""t)(/|[^A-Za-z0-9_-]|\$)|\.\./share""d" <"$tmp/files" >"$tmp/list"
check 'no file names a path of the machine it was written on' "$tmp/list"
xargs grep -InEi "clau""de|anthrop""ic|sub-?agen""t|helper[- ](agen""t|sessio""n)|agen""t[- ]sessio""n|(issu""e|ticke""t) #?[0-9]+" <"$tmp/files" >"$tmp/list"
check 'the project speaks of itself alone' "$tmp/list"

echo "1..$n"
exit $failed
