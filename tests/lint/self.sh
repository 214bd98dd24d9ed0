#!/bin/sh
# Does the lint see what it forbids? A small tree with one fault of each kind, then without any. TAP.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0
failed=0

clean_tree() {
    rm -rf "$tmp/t"
    mkdir -p "$tmp/t/engine/base" "$tmp/t/engine/chain" "$tmp/t/engine/flow" "$tmp/t/engine/lua" "$tmp/t/drivers/postgres" "$tmp/t/drivers/sqlite"
    printf '#ifndef SLUICE_A_H\n#define SLUICE_A_H\nint a(void);\n#endif\n' >"$tmp/t/engine/base/a.h"
    printf '#ifndef SLUICE_F_H\n#define SLUICE_F_H\nint f(void);\n#endif\n' >"$tmp/t/engine/flow/f.h"
    printf '#ifndef SLUICE_P_H\n#define SLUICE_P_H\nint p(void);\n#endif\n' >"$tmp/t/drivers/postgres/p.h"
    # what looks like a fault and is none
    cat >"$tmp/t/engine/chain/c.c" <<'C'
#include "engine/base/a.h"
/* sprintf(x) // and "postgres" in a comment */
const char *s = "http://x strcpy(\" // postgres://u@h/db sqlite3 'x";
char c = '"', d = '\'';
int x(void) { return my_sprintf(1) + FAULT("chain.one", 0) + FAULT("chain.two", 0); }
C
}

# sees NAME CLAIM: after the tree was changed, exactly the check with that claim fails
sees() {
    n=$((n + 1))
    got=$(sh "$here/layers.sh" "$tmp/t" 2>&1 | sed -n 's/^not ok [0-9]* - //p')
    if [ "$got" = "$2" ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        echo "#  got: $got"
        echo "# want: $2"
        failed=1
    fi
    clean_tree
}
add() { printf '%s\n' "$2" >>"$tmp/t/$1"; }

clean_tree
sees 'a clean tree holds' ''
add engine/chain/c.c '#include "engine/flow/f.h"'
sees 'an include to the right' 'a file includes its own room and rooms to its left only'
add drivers/sqlite/s.c '#include "engine/chain/x.h"'
sees 'a driver that includes the chain' 'a file includes its own room and rooms to its left only'
add engine/chain/c.c '#include "a.h"'
sees 'a relative include' 'includes are full paths from the root'
add engine/chain/c.c '#include <sqlite3.h>'
sees 'sqlite3.h outside its rooms' 'each library is included by its own rooms only'
add engine/base/a.c '#include <lua.h>'
sees 'lua.h outside its room' 'each library is included by its own rooms only'
add drivers/sqlite/s.c '#include <libpq-fe.h>'
sees 'libpq-fe.h outside its room' 'each library is included by its own rooms only'
add engine/flow/f.c '#include "drivers/postgres/p.h"'
sees 'a driver header in the engine' 'only the registry names concrete drivers'
add drivers/sqlite/s.c '#include "drivers/postgres/p.h"'
sees 'a driver that includes another' 'only the registry names concrete drivers'
add engine/flow/f.c 'const void *d = &postgres_driver;'
sees 'a driver symbol in the engine' 'only the registry names concrete drivers'
add engine/flow/f.c 'int y(const char *d) { return strcmp(d, "sqlite"); }'
sees 'a compared driver name' 'the engine names no driver in a text'
add engine/base/pos.c 'const char *t = "sqlite";'
sees 'engine tags in pos.c are allowed' ''
add engine/flow/f.c 'int y(char *d) { return sprintf (d, "x"); }'
sees 'sprintf' 'no unbounded or unchecked string functions'
add engine/flow/f.c 'int y; // why'
sees 'a line comment' 'comments are /* … */'
add engine/flow/f.c "$(printf '\tint y;')"
sees 'a tab' 'no tabs in C'
add engine/flow/f.c 'int y(void) { return FAULT("Flow", 0); }'
sees 'a fault point without a room' 'fault points are literals of the form room.name'
add engine/flow/f.c 'int y(void) { return FAULT(name, 0); }'
sees 'a fault point without a literal' 'fault points are literals of the form room.name'
add engine/flow/f.c 'int y(void) { return FAULT("chain.two", 0); }'
sees 'a fault point twice' 'fault points have unique names'
printf '#ifndef SLUICE_B_H\n#define SLUICE_B_H\nsize_t b(void);\n#endif\n' >"$tmp/t/engine/base/b.h"
sees 'a header that needs another' 'headers compile alone, and twice'
printf 'int b(void);\n' >"$tmp/t/engine/base/b.h"
sees 'a header without a guard' 'headers have a guard'
yes 'int y;' | head -801 >"$tmp/t/engine/flow/f.c"
sees 'a file of 801 lines' 'no file has more than 800 lines'
add README.md "see /wor""k/x"
sees 'a path of the machine' 'no file names a path of the machine it was written on'
add README.md "as iss""ue 12 says"
sees 'a word about how it was made' 'the project speaks of itself alone'
echo "1..$n"
exit $failed
