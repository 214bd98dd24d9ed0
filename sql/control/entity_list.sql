-- Looking entities up by something else than their name.
--| name: entity_by_store
--| in: kind TEXT, dsn TEXT   out: name TEXT
SELECT e.name FROM entity e JOIN endpoint s ON s.name = e.store WHERE e.kind = :kind AND s.dsn = :dsn ORDER BY e.id DESC LIMIT 1;

--| name: entities_all
--| in:   out: id INTEGER, kind TEXT, name TEXT, state TEXT, token INTEGER, config TEXT, checkpoint TEXT, source TEXT, target TEXT, store TEXT
SELECT id, kind, name, state, token, config, checkpoint, source, target, store FROM entity ORDER BY id;
