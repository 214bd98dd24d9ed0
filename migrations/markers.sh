#!/bin/sh
# Write the marker rows of the newest unreleased migration from engine/base/markers.def, and the checksums of all migrations.
# A released migration is never changed: add the next one with the INSERTs of the new markers. Run from the project's root.
set -eu
file=${1:-migrations/0001_control.sql}
ack() { # how a marker is accepted once, where it can be
    case $1 in
    UNFORWARDED-SCHEMA-CHANGE|ADD-COLUMN-BACKFILL-INCOMPLETE|AMBIGUOUS-SCHEMA-BOUNDARY) echo "'--accept-unforwarded-schema-change=FINGERPRINT'" ;;
    SLOT-ACKED-PAST-TARGET-POSITION) echo "'--accept-slot-acked-past-position=LSN'" ;;
    SOURCE-UNIQUE-KEY-ABSENT) echo "'accept-target-only-unique-key: VALUE'" ;;
    TABLE-IDENTITY-CHANGED) echo "'--accept-table-rename OLD=NEW'" ;;
    *) echo NULL ;;
    esac
}
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
sed -n 's/^X([A-Z_0-9]*, *"\([^"]*\)", *\([01]\), *"\([^"]*\)", *"\([^"]*\)", *"\([^"]*\)") *$/\1\t\2\t\3\t\4\t\5/p' engine/base/markers.def |
    sed "s/'/''/g" | while IFS='	' read -r line; do
    name=$(printf '%s' "$line" | cut -f1)
    printf '%s' "$line" | awk -F '\t' -v ack="$(ack "$name")" \
        '{ printf "INSERT INTO marker VALUES (\047%s\047, %s, %s, \047%s\047, %s, \047%s\047);\n", $1, $2, $3 == "" ? "NULL" : "\047" $3 "\047", $4, ack, $5 }'
done >"$rows"
[ "$(grep -c '^X(' engine/base/markers.def)" = "$(wc -l <"$rows")" ] || { echo "markers.sh: a line of markers.def was not understood" >&2; exit 1; }
awk -v rows="$rows" '
    /^-- markers: begin/ { print; while ((getline line < rows) > 0) print line; skip = 1; next }
    /^-- markers: end/ { skip = 0 }
    !skip' "$file" >"$file.tmp"
mv "$file.tmp" "$file"
(cd migrations && sha256sum [0-9]*.sql >checksums)
