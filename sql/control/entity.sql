-- Entities and their machines.
--| name: entity_find
--| in: kind TEXT, name TEXT   out: id INTEGER, kind TEXT, name TEXT, state TEXT, token INTEGER, config TEXT, checkpoint TEXT, source TEXT, target TEXT, store TEXT
SELECT id, kind, name, state, token, config, checkpoint, source, target, store FROM entity WHERE kind = :kind AND name = :name;
--| name: entity_by_id
--| in: id INTEGER   out: id INTEGER, kind TEXT, name TEXT, state TEXT, token INTEGER, config TEXT, checkpoint TEXT, source TEXT, target TEXT, store TEXT
SELECT id, kind, name, state, token, config, checkpoint, source, target, store FROM entity WHERE id = :id;
--| name: entity_insert
--| in: kind TEXT, name TEXT, source TEXT, target TEXT, store TEXT, config TEXT, actor TEXT
INSERT INTO entity(kind, name, source, target, store, config, move_actor)
VALUES (:kind, :name, :source, :target, :store, coalesce(:config, '{}'), :actor);
--| name: entity_configure
--| in: id INTEGER, source TEXT, target TEXT, store TEXT, config TEXT, actor TEXT
UPDATE entity SET source = :source, target = :target, store = :store, config = coalesce(:config, config), token = token + 1,
       move_actor = :actor
 WHERE id = :id AND (source IS NOT :source OR target IS NOT :target OR store IS NOT :store OR config IS NOT coalesce(:config, config));
--| name: entity_advance
--| in: id INTEGER, token INTEGER, seen TEXT, to TEXT, event TEXT, actor TEXT, code TEXT, marker TEXT, message TEXT, detail TEXT, checkpoint TEXT
UPDATE entity SET state = :to, token = token + 1, checkpoint = coalesce(:checkpoint, checkpoint), move_actor = :actor, move_event = :event,
       move_code = :code, move_marker = :marker, move_message = :message, move_detail = :detail
 WHERE id = :id AND token = :token AND state = :seen;
--| name: entity_own
--| in: id INTEGER, pid INTEGER, boot TEXT, start INTEGER, since INTEGER
UPDATE entity SET owner_pid = :pid, owner_boot = :boot, owner_start = :start, owner_since_us = :since WHERE id = :id;
--| name: entity_disown
--| in: id INTEGER, pid INTEGER
UPDATE entity SET owner_pid = NULL, owner_boot = NULL, owner_start = NULL, owner_since_us = NULL WHERE id = :id AND owner_pid = :pid;
--| name: entity_owner
--| in: id INTEGER   out: pid INTEGER, since_us INTEGER
SELECT owner_pid, owner_since_us FROM entity WHERE id = :id AND owner_pid IS NOT NULL;
--| name: transition_find
--| in: kind TEXT, from TEXT, event TEXT   out: to_state TEXT
SELECT to_state FROM transition WHERE kind = :kind AND from_state = :from AND event = :event;
--| name: state_find
--| in: kind TEXT, state TEXT   out: step TEXT, tailing INTEGER
SELECT step, tailing FROM state WHERE kind = :kind AND state = :state;
--| name: steps
--| out: step TEXT
SELECT DISTINCT step FROM state WHERE step IS NOT NULL ORDER BY step;
--| name: machine_states
--| in: kind TEXT   out: kind TEXT, state TEXT, initial INTEGER, tailing INTEGER, step TEXT, comment TEXT
SELECT kind, state, initial, tailing, step, comment FROM state WHERE kind = coalesce(:kind, kind)
 ORDER BY kind, initial DESC, step IS NULL, tailing, state;
--| name: machine_edges
--| in: kind TEXT   out: kind TEXT, from_state TEXT, event TEXT, to_state TEXT, comment TEXT
SELECT t.kind, t.from_state, t.event, t.to_state, t.comment FROM transition t JOIN state s ON s.kind = t.kind AND s.state = t.from_state
 WHERE t.kind = coalesce(:kind, t.kind) ORDER BY t.kind, s.initial DESC, s.step IS NULL, s.tailing, t.from_state, t.event;
--| name: settings
--| out: json TEXT
SELECT json_group_object(name, value) FROM setting;
