# Databases of tests by their DSN: postgresql://… is asked with psql, everything else is an SQLite file. Used by lib.sh, the cases and the crash run.

is_pg() { case $1 in postgres://* | postgresql://*) return 0 ;; *) return 1 ;; esac; }
engine_of() { if is_pg "$1"; then echo postgres; else echo sqlite; fi; }

# q DSN SQL: run it; rows on stdout, fields joined with |
q() {
    if is_pg "$1"; then PGOPTIONS=--client-min-messages=warning psql -XAtq -v ON_ERROR_STOP=1 "$1" -c "$2"
    else sqlite3 -bail -cmd '.timeout 20000' "$1" "$2"; fi
}
# qf DSN FILE: the same with a file of statements
qf() {
    if is_pg "$1"; then PGOPTIONS=--client-min-messages=warning psql -XAtq -v ON_ERROR_STOP=1 -f "$2" "$1"
    else sqlite3 -bail -cmd '.timeout 20000' "$1" <"$2"; fi
}

# tables DSN: the user's tables, schema.name on Postgres unless public
tables() {
    if is_pg "$1"; then
        q "$1" "select case n.nspname when 'public' then '' else n.nspname || '.' end || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                 where c.relkind in ('r', 'p') and not c.relispartition and n.nspname not in ('pg_catalog', 'information_schema')
                   and n.nspname not like 'pg\\_%' and c.relname not like 'sluice\\_%' order by 1"
    else q "$1" "select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\' and name not like 'sluice\\_%' escape '\\' order by 1"; fi
}

# rows_of DSN TABLE [cross]: every row as a line of text, sorted bytewise; same engine: exact (storage classes too); cross: what both engines can say
rows_of() {
    local dsn=$1 table=$2 mode=${3:-same} cols quoted
    if is_pg "$dsn"; then
        case $table in *.*) quoted="\"${table%%.*}\".\"${table#*.}\"" ;; *) quoted="public.\"$table\"" ;; esac
        if [ "$mode" = same ]; then q "$dsn" "copy (select * from $quoted) to stdout" | LC_ALL=C sort; return; fi
        cols=$(q "$dsn" "select string_agg(format(case
                   when t.typname = 'bool' then 'coalesce(%1\$I::int::text, ''~'')'
                   when t.typname = 'bytea' then 'coalesce(upper(encode(%1\$I, ''hex'')), ''~'')'
                   else 'coalesce(replace(%1\$I::text, chr(10), ''\\n''), ''~'')' end, a.attname), ' || ''|'' || ' order by a.attnum)
                 from pg_attribute a join pg_type t on t.oid = a.atttypid where a.attrelid = '$quoted'::regclass and a.attnum > 0 and not a.attisdropped")
        q "$dsn" "set timezone = 'UTC'; select $cols from $quoted" | LC_ALL=C sort
    elif [ "$mode" = same ]; then
        cols=$(q "$dsn" "select group_concat('typeof(\"' || name || '\")||'':''||replace(quote(\"' || name || '\"), char(10), ''\n'')', '||''|''||') from pragma_table_xinfo('$table') where hidden <> 1")
        q "$dsn" "select $cols from \"$table\"" | LC_ALL=C sort
    else
        cols=$(q "$dsn" "select group_concat('case typeof(\"' || name || '\") when ''null'' then ''~'' when ''blob'' then hex(\"' || name || '\") else replace(\"' || name || '\", char(10), ''\\n'') end', '||''|''||')
                 from pragma_table_xinfo('$table') where hidden <> 1")
        q "$dsn" "select $cols from \"$table\"" | LC_ALL=C sort
    fi
}

# same_rows SRC DST TABLE…: the tables hold the same rows; says the first differences
same_rows() {
    local src=$1 dst=$2 mode=same t d rc=0
    shift 2
    [ "$(engine_of "$src")" = "$(engine_of "$dst")" ] || mode=cross
    d=$(mktemp -d) || return 1
    for t in "$@"; do
        rows_of "$src" "$t" $mode >"$d/src" || { echo "cannot read '$t' of the source"; rc=1; }
        rows_of "$dst" "$t" $mode >"$d/dst" || { echo "cannot read '$t' of the target"; rc=1; }
        cmp -s "$d/src" "$d/dst" && continue
        rc=1
        echo "table '$t' differs (< source, > target; $(wc -l <"$d/src") and $(wc -l <"$d/dst") rows):"
        diff "$d/src" "$d/dst" | grep '^[<>]' | head -6 | cut -c1-200
    done
    rm -rf "$d"
    return $rc
}
# same_all SRC DST: the same tables, and the same rows in each
same_all() {
    local a b
    a=$(tables "$1") && b=$(tables "$2") || return 1
    [ "$a" = "$b" ] || { echo "tables differ: source has" $a "; target has" $b; return 1; }
    same_rows "$1" "$2" $a
}
