-- The file itself: its version, its objects, the rows that only migrations write. Some of these run on a file that is still empty.
--| name: objects
--| out: n INTEGER
SELECT count(*) FROM sqlite_schema;
--| name: objects_ours
--| out: n INTEGER
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('meta', 'entity', 'history');
--| name: meta_version
--| out: version INTEGER
SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'schema_version';
--| name: meta_min_reader
--| out: min_reader INTEGER
SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'min_reader';
--| name: meta_min_writer
--| out: min_writer INTEGER
SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'min_writer';
--| name: machine_guards
--| out: name TEXT, sql TEXT
SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('state', 'transition');
--| name: entities_stateless
--| out: n INTEGER
SELECT count(*) FROM entity e WHERE NOT EXISTS (SELECT 1 FROM state s WHERE s.kind = e.kind AND s.state = e.state);
--| name: entities_owned
--| out: id INTEGER, kind TEXT, name TEXT, owner_pid INTEGER
SELECT id, kind, name, owner_pid FROM entity WHERE owner_pid IS NOT NULL ORDER BY id;
--| name: secrets
--| out: n INTEGER
SELECT count(*) FROM secret;
--| name: unsealed
--| out: any INTEGER
SELECT (SELECT coalesce(max(id), 0) FROM history) > (SELECT coalesce(max(upto), 0) FROM history_seal);
--| name: schema_made
--| out: type TEXT, name TEXT, sql TEXT
SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\';
--| name: schema_object
--| in: type TEXT, name TEXT   out: sql TEXT
SELECT sql FROM sqlite_schema WHERE type = :type AND name = :name;
--| name: schema_suspects
--| out: type TEXT, name TEXT, on_table TEXT
SELECT s.type, s.name, s.tbl_name FROM sqlite_schema s WHERE s.type = 'trigger'
UNION ALL
SELECT 'unique index', l.name, s.name FROM sqlite_schema s, pragma_index_list(s.name) l WHERE s.type = 'table' AND l."unique" AND l.origin = 'c';
--| name: schema_extra
--| in: name TEXT, on_table TEXT   out: extra INTEGER
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type IN ('table', 'view') AND name = :on_table COLLATE NOCASE)
   AND NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE type IN ('trigger', 'index') AND name = :name);
--| name: rows_meta
--| out: name TEXT, value TEXT
SELECT name, value FROM meta ORDER BY name;
--| name: rows_marker
--| out: name TEXT, restartable INTEGER, parent TEXT, meaning TEXT, acknowledgement TEXT, remedy TEXT
SELECT name, restartable, parent, meaning, acknowledgement, remedy FROM marker ORDER BY name;
--| name: rows_state
--| out: kind TEXT, state TEXT, initial INTEGER, tailing INTEGER, step TEXT, comment TEXT
SELECT kind, state, initial, tailing, step, comment FROM state ORDER BY kind, state;
--| name: rows_transition
--| out: kind TEXT, from_state TEXT, event TEXT, to_state TEXT, comment TEXT
SELECT kind, from_state, event, to_state, comment FROM transition ORDER BY kind, from_state, event;
