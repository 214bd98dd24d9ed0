# Reads C files and prints what breaks a rule of the house: "rule<TAB>file:line: what". FAULT names are printed as "fault<TAB>name<TAB>file:line".
# It reads C as a compiler does as far as comments, strings and characters go, so that a rule about code never looks into a text.

BEGIN {
    # room -> rooms to its left; its own is always allowed
    left["engine/base"] = ""
    left["engine/control"] = left["engine/lua"] = left["drivers"] = "engine/base "
    left["engine/chain"] = "engine/base engine/control engine/lua drivers "
    left["engine/flow"] = left["engine/feed"] = left["engine/chain"] "engine/chain "
    left["engine/fleet"] = left["engine/serve"] = left["engine/flow"] "engine/flow engine/feed "
    left["engine/cli"] = left["engine/fleet"] "engine/fleet engine/serve "
    # header -> the rooms that may include it
    only["lua.h"] = only["lauxlib.h"] = only["lualib.h"] = "engine/lua "
    only["sqlite3.h"] = "engine/control drivers/sqlite "
    only["libpq-fe.h"] = only["postgres_ext.h"] = "drivers/postgres "
    only["mysql.h"] = only["mysql/mysql.h"] = only["mariadb/mysql.h"] = "drivers/mysql "
    only["microhttpd.h"] = "engine/serve "
    only["yaml.h"] = "engine/fleet "
    split("strcpy strcat sprintf vsprintf gets strtok atoi atol atoll atof stpcpy", names, " ")
    for (i in names) banned[names[i]] = 1
}

function say(rule, what) { print rule "\t" FILENAME ":" FNR ": " what }

function dir_of(path,    d) {
    d = path
    sub(/\/[^\/]*$/, "", d)
    return d
}

# engine/chain/x.h -> engine/chain; drivers/sqlite/x.h -> drivers
function room_of(path) {
    if (path ~ /^drivers\//) return "drivers"
    if (path ~ /^engine\/[a-z]+\//) return dir_of(path)
    return ""
}

function include(line,    name, angle, room, mine, dir) {
    if (line !~ /^[ \t]*#[ \t]*include/) return
    angle = line ~ /</
    name = line
    sub(/^[^<"]*[<"]/, "", name)
    sub(/[>"].*$/, "", name)
    mine = room_of(FILENAME)
    dir = dir_of(FILENAME)
    if (mine == "") return # tests may look at everything
    if (name in only && index(only[name], dir " ") == 0) say("library", "<" name "> belongs to " only[name])
    if (angle) {
        if (name ~ /^(engine|drivers)\//) say("include", "our own headers stand in quotes: " name)
        return
    }
    room = room_of(name)
    if (room == "") { say("include", "not a full path from the root: \"" name "\""); return }
    if (room != mine && index(left[mine], room " ") == 0) say("room", mine " may not include " name)
    if (name ~ /^drivers\/[a-z0-9_]+\// && dir_of(name) != dir && FILENAME != "drivers/registry.c" && !(FILENAME == "drivers/store.c" && name ~ /^drivers\/store\//))
        say("driver", "a driver's inside belongs to itself: " name)
}

# A driver's own name as a word of a text. postgres://… is how a DSN is shown to people, no decision; sqlite\_% is a LIKE pattern of the control DB.
function literal(s,    rest, word, before, after) {
    if (FILENAME !~ /^engine\// || FILENAME == "engine/base/pos.c") return
    rest = s
    while (match(rest, /postgres|sqlite|mysql|mariadb/)) {
        word = substr(rest, RSTART, RLENGTH)
        before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : ""
        after = substr(rest, RSTART + RLENGTH)
        if (before !~ /[A-Za-z0-9_]/ && after !~ /^[A-Za-z0-9_]/ && after !~ /^\\+_/ && after !~ /^:\/\//) say("engine-name", "the engine names the driver '" word "' in \"" s "\"")
        rest = after
    }
}

function code(line,    rest, word, after, own) {
    rest = line
    own = dir_of(FILENAME)
    sub(/^.*\//, "", own)
    while (match(rest, /[A-Za-z_][A-Za-z0-9_]*/)) {
        word = substr(rest, RSTART, RLENGTH)
        after = substr(rest, RSTART + RLENGTH)
        if (word in banned && after ~ /^[ \t]*\(/) say("banned", word "()")
        if (word ~ /^(postgres|sqlite|mysql|mariadb|pg)_[a-z]/ && FILENAME ~ /^(engine|drivers)\// && FILENAME !~ /^drivers\/(registry\.c|db\.h)$/) {
            if (FILENAME !~ /^drivers\/(postgres|sqlite|mysql)\// || (word !~ ("^" own "_") && !(own == "postgres" && word ~ /^pg_/)))
                say("driver", "names a concrete driver's symbol: " word)
        }
        rest = after
    }
}

FNR == 1 {
    in_comment = 0
    if (FILENAME ~ /\.h$/) headers++
}

{
    if (index($0, "\t")) say("tab", "a tab")
    line = $0
    out = ""
    nlit = 0
    n = length(line)
    for (i = 1; i <= n; i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (in_comment) {
            if (two == "*/") { in_comment = 0; i++ }
            continue
        }
        if (two == "/*") { in_comment = 1; i++; continue }
        if (two == "//") { say("comment", "a // comment"); break }
        if (c == "\"" || c == "'") {
            lit = ""
            for (i++; i <= n; i++) {
                d = substr(line, i, 1)
                if (d == "\\") { lit = lit substr(line, i, 2); i++; continue }
                if (d == c) break
                lit = lit d
            }
            if (c == "\"") { lits[++nlit] = lit; out = out "\"\001" nlit "\"" }
            else out = out "' '"
            continue
        }
        out = out c
    }
    if (out ~ /^[ \t]*#[ \t]*include/) { include(line); next }
    for (k = 1; k <= nlit; k++) literal(lits[k])
    rest = out
    if (FILENAME !~ /^tests\// && FILENAME != "engine/base/fault.h") {
        while (match(rest, /(^|[^A-Za-z0-9_])FAULT\(/)) {
            rest = substr(rest, RSTART + RLENGTH)
            if (rest ~ /^"\001[0-9]+"/) {
                k = substr(rest, 3)
                sub(/".*$/, "", k)
                print "fault\t" lits[k + 0] "\t" FILENAME ":" FNR
                if (lits[k + 0] !~ /^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$/) say("fault-form", "not room.name: '" lits[k + 0] "'")
            } else {
                say("fault-form", "FAULT needs its name as a literal")
            }
        }
    }
    code(out)
}
