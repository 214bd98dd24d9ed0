-- What a SQLite source is asked. Everything here reads; what writes into the source stands in sql/sqlite/capture.sql.

--| name: source_tables
--| out: name TEXT
SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND lower(name) NOT GLOB 'sqlite_*' AND lower(name) NOT GLOB 'sluice_*'
ORDER BY name;

--| name: source_not_carried
--| out: kind TEXT, name TEXT, tbl TEXT
SELECT CASE l.type WHEN 'view' THEN 'view' WHEN 'virtual' THEN 'virtual table' ELSE 'shadow table' END, l.name, l.name FROM pragma_table_list AS l
 WHERE l.schema = 'main' AND l.type IN ('view', 'virtual', 'shadow')
UNION ALL
SELECT 'trigger', name, tbl_name FROM main.sqlite_schema WHERE type = 'trigger' AND lower(name) NOT GLOB 'sluice_*'
ORDER BY 1, 2;

--| name: source_table
--| in: name TEXT   out: name TEXT, sql TEXT, without_rowid INTEGER, strict INTEGER
SELECT l.name, s.sql, l.wr, l.strict
  FROM main.sqlite_schema AS s, pragma_table_list(s.name) AS l
 WHERE s.type = 'table' AND s.name = :name COLLATE NOCASE AND l.schema = 'main' AND l.type = 'table';

--| name: source_columns
--| in: name TEXT   out: name TEXT, type TEXT, not_null INTEGER, dflt TEXT, pk INTEGER, hidden INTEGER
SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(:name, 'main') ORDER BY cid;

--| name: source_indexes
--| in: name TEXT   out: name TEXT, is_unique INTEGER, origin TEXT, partial INTEGER, sql TEXT
SELECT i.name, i."unique", i.origin, i.partial, s.sql
  FROM pragma_index_list(:name, 'main') AS i LEFT JOIN main.sqlite_schema AS s ON s.type = 'index' AND s.name = i.name
 ORDER BY i.origin <> 'pk', i.origin = 'c', i.origin <> 'c' AND -i.seq, i.name;

--| name: source_index_columns
--| in: name TEXT   out: cid INTEGER, coll TEXT
SELECT cid, coll FROM pragma_index_xinfo(:name, 'main') WHERE "key" ORDER BY seqno;

--| name: source_foreign_keys
--| in: name TEXT   out: id INTEGER, ref_table TEXT, col TEXT, ref_col TEXT, on_update TEXT, on_delete TEXT
SELECT id, "table", "from", coalesce("to", (SELECT p.name FROM pragma_table_info(f."table", 'main') AS p WHERE p.pk = f.seq + 1)), on_update, on_delete
  FROM pragma_foreign_key_list(:name, 'main') AS f ORDER BY id DESC, seq;

--| name: source_sequences
--| out: name TEXT, value INTEGER
SELECT name, seq FROM main.sqlite_sequence WHERE lower(name) NOT GLOB 'sluice_*' ORDER BY name;

--| name: source_sequence_table
--| out: n INTEGER
SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = 'sqlite_sequence';
