#!/bin/bash
# The whole job on SQLite, with no server: a full, incrementals, a restore, and a broker that follows the chain while the source goes on.
# Ends with 0 only when the target holds what the source holds. Everything lies in build/demo.
set -eu
cd "$(dirname "$0")/.."
sluice=${SLUICE:-build/sluice}
d=${DEMO:-build/demo}
broker=""
trap '[ -z "$broker" ] || kill -9 "$broker" 2>/dev/null || true' EXIT
rm -rf "$d"
mkdir -p "$d"
export SLUICE_CONTROL=$d/control.db TZ=UTC LC_ALL=C

say() { printf '\n== %s\n' "$*"; }
sh_() { # show a command and run it
    printf '$ %s\n' "$(printf '%s ' "$@" | sed 's/ $//')"
    "$@" 2>&1 | sed 's/^/   /'
    return "${PIPESTATUS[0]}"
}
ask() { # what an operator would ask the control DB
    printf '\n$ sqlite3 -box %s "%s"\n' "$SLUICE_CONTROL" "$1"
    sqlite3 -box "$SLUICE_CONTROL" "$1" | sed 's/^/   /'
}
wait_for() { # wait_for SECONDS COMMAND…
    local until=$((SECONDS + $1))
    shift
    while ! "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $until ] || { echo "waited in vain for: $*" >&2; return 1; }
        sleep 0.05
    done
}

say "1. An application's database: keyed and keyless tables, text, blobs, decimals"
sqlite3 "$d/app.db" <<'SQL' >/dev/null
PRAGMA journal_mode = WAL;
CREATE TABLE customer(id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE, name TEXT, photo BLOB);
CREATE TABLE item(sku TEXT NOT NULL, warehouse INTEGER NOT NULL, price DECIMAL(12,2), note TEXT, PRIMARY KEY (sku, warehouse)) WITHOUT ROWID;
CREATE TABLE visit(at TEXT, page TEXT, ms REAL);                       -- no key at all
CREATE INDEX visit_page ON visit(page);
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO customer SELECT i, 'c' || i || '@example.org', 'Käufer ' || i || CASE i % 7 WHEN 0 THEN ' 🦦' ELSE '' END, CASE WHEN i % 3 THEN randomblob(i % 90) END FROM n;
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
INSERT INTO item SELECT printf('SKU-%05d', i), i % 4, i * 1.25, CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'line one' || char(10) || 'line two' END FROM n;
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
INSERT INTO visit SELECT '2026-01-01', '/p/' || (i % 9), i * 0.5 FROM n;
SQL
sqlite3 "$d/app.db" "SELECT (SELECT count(*) FROM customer) || ' customers, ' || (SELECT count(*) FROM item) || ' items, ' || (SELECT count(*) FROM visit) || ' visits'"

src=(--source-driver sqlite --source "$d/app.db" --output-dir "$d/chain")
dst=(--target-driver sqlite --target "$d/copy.db")

say "2. The root of the chain: a full backup, anchored so that incrementals can follow"
sh_ "$sluice" backup full "${src[@]}" --chain-slot --name app

say "3. The application goes on, and an incremental takes what it did"
sqlite3 "$d/app.db" <<'SQL'
PRAGMA foreign_keys = ON;
INSERT INTO customer(email, name) VALUES ('new@example.org', 'Neu'), ('another@example.org', NULL);
UPDATE customer SET name = upper(name) WHERE id % 50 = 0;
DELETE FROM customer WHERE id BETWEEN 100 AND 120;
INSERT OR REPLACE INTO customer(id, email, name) VALUES (4000, 'c3999@example.org', 'displaced two rows');
UPDATE item SET price = price * 2 WHERE warehouse = 1;
INSERT INTO visit VALUES ('2026-01-02', '/p/1', 0.5), ('2026-01-02', '/p/1', 0.5);
SQL
sh_ "$sluice" backup incremental "${src[@]}" --name app

say "4. Restore into a new database"
sh_ "$sluice" restore --from-dir "$d/chain" "${dst[@]}"

say "5. A broker goes on from there, in the background"
printf '$ %s &\n' "$sluice sync from-backup run --backup-dir $d/chain --target-driver sqlite --target $d/copy.db --stream-id app-broker --at-chain-id restore --poll-interval 1s"
"$sluice" sync from-backup run --backup-dir "$d/chain" "${dst[@]}" --stream-id app-broker --at-chain-id restore --poll-interval 1s >"$d/broker.out" 2>"$d/broker.err" &
broker=$!

say "6. More changes, and incrementals, while it follows"
for round in 1 2 3; do
    sqlite3 "$d/app.db" "
        INSERT INTO customer(email, name, photo) SELECT 'r$round-' || id || '@example.org', name, x'00ff00' FROM customer WHERE id <= 200;
        UPDATE customer SET name = name || ' ($round)' WHERE id % 10 = $round;
        DELETE FROM item WHERE sku LIKE '%$round' AND warehouse = 2;
        UPDATE visit SET ms = ms + 1 WHERE page = '/p/$round';
        DELETE FROM visit WHERE page = '/p/0';"
    sh_ "$sluice" backup incremental "${src[@]}" --name app
done
tip=$("$sluice" backup list --from-dir "$d/chain" --format json | grep -oE '[0-9a-f]{40}' | tail -1)
reached() { [ "$(sqlite3 "$d/copy.db" "SELECT link_id FROM sluice_cdc_state WHERE stream_id = 'app-broker'")" = "$tip" ]; }
wait_for 30 reached || { cat "$d/broker.err" >&2; exit 1; }

say "7. Stop it through the chain, as another host would"
sh_ "$sluice" sync from-backup stop --backup-dir "$d/chain" --wait
rc=0
wait "$broker" || rc=$?
broker=""
[ $rc = 0 ] || { echo "the broker ended with $rc:" >&2; cat "$d/broker.err" >&2; exit 1; }

say "8. What it would not do: guess where a target without a saved position stands"
sh_ "$sluice" sync from-backup run --backup-dir "$d/chain" --target-driver sqlite --target "$d/other.db" --stream-id newcomer --once || echo "   exit code $?"

say "9. The target against the source, table by table"
bad=0
for t in customer item visit; do
    columns=$(sqlite3 "$d/app.db" "SELECT group_concat('typeof(' || name || ')||quote(' || name || ')', '||''|''||') FROM pragma_table_info('$t')")
    for side in app copy; do
        sqlite3 "$d/$side.db" "SELECT $columns FROM $t" | LC_ALL=C sort >"$d/$side.$t"
    done
    if cmp -s "$d/app.$t" "$d/copy.$t"; then printf '   %-10s %6d rows, equal\n' "$t" "$(sqlite3 "$d/app.db" "SELECT count(*) FROM $t")"
    else printf '   %-10s DIFFERS\n' "$t"; diff "$d/app.$t" "$d/copy.$t" | head -5; bad=1; fi
done

say "10. What an operator asks, in plain SQL"
ask "SELECT at, kind, name, from_state, event, to_state, why FROM audit"
ask "SELECT * FROM lag"
ask "SELECT substr(lineage, 1, 12) AS lineage, store, links, substr(tip_id, 1, 12) AS tip, tip_seq, bytes, tip_at FROM chains"
ask "SELECT kind, name, state, link_id, seq FROM positions"
ask "SELECT name, code, message FROM refusals"
printf '\n'
if [ $bad = 0 ]; then echo "the target equals the source"; else echo "the target DIFFERS from the source"; fi
exit $bad
