-- What capture keeps in a SQLite source. Plain tables without constraints beyond their keys: nothing here may ever fail an application's write.

--| name: capture_create
CREATE TABLE main.sluice_meta(key TEXT PRIMARY KEY NOT NULL, value);
CREATE TABLE main.sluice_capture(n INTEGER PRIMARY KEY, name TEXT, shape TEXT, next_column INTEGER);
CREATE TABLE main.sluice_log(id INTEGER PRIMARY KEY, t, op, nonce DEFAULT (randomblob(8)), k1, k2);
CREATE TABLE main.sluice_schema(type, name, sql);
INSERT INTO main.sluice_log(op) VALUES ('A');

--| name: capture_there
--| out: n INTEGER
SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name IN ('sluice_meta', 'sluice_capture', 'sluice_log');

--| name: control_db
--| out: n INTEGER
-- Is the file a control DB of ours? Its own guards refuse our triggers, and every command after them.
SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name IN ('history_seal', 'history', 'entity', 'transition', 'endpoint');

--| name: capture_triggers
--| out: name TEXT, tbl TEXT, sql TEXT
SELECT name, tbl_name, sql FROM main.sqlite_schema WHERE type = 'trigger' AND name GLOB 'sluice_[0-9]*_[ab][iud]' ORDER BY name;

-- SQLite fires the newest trigger first, and one that fails or ignores in the middle leaves the row in place and skips the older ones.
--| name: capture_outrun
--| in: tbl TEXT, first TEXT   out: n INTEGER
SELECT EXISTS (SELECT 1 FROM main.sqlite_schema AS u
                WHERE u.type = 'trigger' AND u.tbl_name = :tbl COLLATE NOCASE AND u.name NOT GLOB 'sluice_[0-9]*_[ab][iud]' AND u.sql LIKE '%after%'
                  AND u.rowid > (SELECT min(o.rowid) FROM main.sqlite_schema AS o WHERE o.type = 'trigger' AND o.name GLOB :first));

--| name: capture_key_columns
--| out: n INTEGER
SELECT count(*) FROM pragma_table_info('sluice_log', 'main') WHERE name GLOB 'k[0-9]*';

--| name: capture_meta_set
--| in: key TEXT, value ANY
INSERT INTO main.sluice_meta(key, value) VALUES (:key, :value) ON CONFLICT(key) DO UPDATE SET value = excluded.value;

--| name: capture_meta_get
--| in: key TEXT   out: value ANY
SELECT value FROM main.sluice_meta WHERE key = :key;

--| name: capture_tables
--| out: n INTEGER, name TEXT, shape TEXT, next_column INTEGER
SELECT n, name, shape, next_column FROM main.sluice_capture ORDER BY n;

--| name: capture_put
--| in: n INTEGER, name TEXT, shape TEXT, next_column INTEGER
INSERT INTO main.sluice_capture(n, name, shape, next_column) VALUES (:n, :name, :shape, :next_column)
    ON CONFLICT(n) DO UPDATE SET name = excluded.name, shape = excluded.shape, next_column = excluded.next_column;

--| name: capture_remove
--| in: n INTEGER
DELETE FROM main.sluice_capture WHERE n = :n;

--| name: schema_remember
DELETE FROM main.sluice_schema;
INSERT INTO main.sluice_schema(type, name, sql)
SELECT type, name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL AND lower(name) NOT GLOB 'sluice_*' AND lower(name) NOT GLOB 'sqlite_*';

--| name: schema_explained
--| out: steps INTEGER
WITH now AS (SELECT type, name, sql FROM main.sqlite_schema
              WHERE sql IS NOT NULL AND lower(name) NOT GLOB 'sluice_*' AND lower(name) NOT GLOB 'sqlite_*'),
     made AS (SELECT type FROM now WHERE NOT EXISTS (SELECT 1 FROM main.sluice_schema AS w WHERE w.type = now.type AND w.name = now.name)),
     gone AS (SELECT type FROM main.sluice_schema AS w WHERE NOT EXISTS (SELECT 1 FROM now WHERE w.type = now.type AND w.name = now.name)),
     edited AS (SELECT 1 FROM now JOIN main.sluice_schema AS w ON w.type = now.type AND w.name = now.name WHERE now.type = 'table' AND w.sql <> now.sql),
     n AS (SELECT (SELECT count(*) FROM made WHERE type = 'table') AS tables_made, (SELECT count(*) FROM gone WHERE type = 'table') AS tables_gone,
                  (SELECT count(*) FROM made WHERE type <> 'table') AS others_made, EXISTS (SELECT 1 FROM edited) AS any_edited)
SELECT max(tables_made, tables_gone) + others_made + (any_edited AND NOT (tables_made AND tables_gone)) FROM n;

--| name: capture_note
--| in: t INTEGER, op TEXT
INSERT INTO main.sluice_log(t, op) VALUES (:t, :op);

--| name: log_end
--| out: id INTEGER, nonce BLOB
SELECT id, nonce FROM main.sluice_log ORDER BY id DESC LIMIT 1;

--| name: log_row
--| in: id INTEGER   out: nonce BLOB
SELECT nonce FROM main.sluice_log WHERE id = :id;

--| name: log_first
--| out: id INTEGER
SELECT min(id) FROM main.sluice_log;

--| name: log_dirty
--| in: after INTEGER, upto INTEGER   out: t INTEGER
SELECT DISTINCT t FROM main.sluice_log WHERE id > :after AND id <= :upto AND op = 'D' ORDER BY t;

--| name: log_wrote
--| in: t INTEGER, after INTEGER   out: n INTEGER
SELECT EXISTS (SELECT 1 FROM main.sluice_log WHERE t = :t AND id > :after AND op IN ('i', 'u'));

--| name: log_null_keys
--| in: after INTEGER, upto INTEGER   out: t INTEGER
SELECT t FROM main.sluice_log WHERE id > :after AND id <= :upto AND op = 'N' LIMIT 1;

--| name: log_forget
--| in: before INTEGER, lim INTEGER
DELETE FROM main.sluice_log WHERE id IN (SELECT id FROM main.sluice_log WHERE id < :before ORDER BY id LIMIT :lim);
