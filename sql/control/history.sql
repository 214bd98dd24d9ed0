-- History and its seals.
--| name: history_span
--| in: after INTEGER, upto INTEGER   out: id INTEGER, at_us INTEGER, actor TEXT, entity_id INTEGER, kind TEXT, name TEXT, token INTEGER, from_state TEXT, event TEXT, to_state TEXT, code TEXT, marker TEXT, message TEXT, detail TEXT, source TEXT, target TEXT, store TEXT, config TEXT
SELECT id, at_us, actor, entity_id, kind, name, token, from_state, event, to_state, code, marker, message, detail, source, target, store, config
  FROM history WHERE id > :after AND id <= :upto ORDER BY id;
--| name: seal_last
--| out: id INTEGER, upto INTEGER, sha256 TEXT, newest INTEGER
SELECT id, upto, sha256, (SELECT coalesce(max(id), 0) FROM history) FROM history_seal ORDER BY id DESC LIMIT 1;
--| name: seal_insert
--| in: upto INTEGER, rows INTEGER, sha256 TEXT
INSERT INTO history_seal(upto, rows, sha256) VALUES (:upto, :rows, :sha256);
--| name: seals
--| in: last INTEGER   out: id INTEGER, upto INTEGER, rows INTEGER, sha256 TEXT, first INTEGER
SELECT id, upto, rows, sha256, id = (SELECT min(id) FROM history_seal)
  FROM (SELECT * FROM history_seal ORDER BY id DESC LIMIT :last) ORDER BY id;
--| name: export
--| out: line TEXT
SELECT line FROM (
  SELECT id AS upto, 0 AS seal, json_object('history', json_object('id', id, 'at_us', at_us, 'actor', actor, 'entity_id', entity_id, 'kind', kind,
         'name', name, 'token', token, 'from_state', from_state, 'event', event, 'to_state', to_state, 'code', code, 'marker', marker,
         'message', message, 'detail', detail, 'source', source, 'target', target, 'store', store, 'config', config)) AS line FROM history
  UNION ALL
  SELECT upto, 1, json_object('seal', json_object('id', id, 'upto', upto, 'rows', rows, 'at_us', at_us, 'sha256', sha256)) FROM history_seal)
 ORDER BY upto, seal;
