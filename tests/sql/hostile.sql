-- Each block is run alone in a plain sqlite3 shell on a control DB that holds a producer 'app' (following), a broker 'app' (tailing), a broker
-- 'other' (new), their endpoints app-source, app-store and app-target, one open refusal and one request. Each must be refused, and nothing may
-- have changed afterwards.
-- name: an illegal edge
UPDATE entity SET state = 'new' WHERE kind = 'broker' AND name = 'app';
-- name: an illegal edge with OR IGNORE
UPDATE OR IGNORE entity SET state = 'new' WHERE kind = 'broker' AND name = 'app';
-- name: an illegal edge with OR REPLACE
UPDATE OR REPLACE entity SET state = 'new' WHERE kind = 'broker' AND name = 'app';
-- name: a state that no machine has
UPDATE OR IGNORE entity SET state = 'flying' WHERE kind = 'broker' AND name = 'app';
-- name: no state
UPDATE OR REPLACE entity SET state = '' WHERE kind = 'broker' AND name = 'app';
-- name: a legal edge under a false event
UPDATE entity SET state = 'stopped', move_event = 'refused' WHERE kind = 'broker' AND name = 'app';
-- name: a move whose event is not said and not clear
UPDATE entity SET state = 'tailing' WHERE kind = 'broker' AND name = 'other';
-- name: a name displaced by OR REPLACE
UPDATE OR REPLACE entity SET name = 'app' WHERE kind = 'broker' AND name = 'other';
-- name: a name changed with OR IGNORE
UPDATE OR IGNORE entity SET name = 'app' WHERE kind = 'broker' AND name = 'other';
-- name: a kind changed
UPDATE entity SET kind = 'producer' WHERE kind = 'broker' AND name = 'other';
-- name: an id changed
UPDATE OR REPLACE entity SET id = 1 WHERE kind = 'broker' AND name = 'other';
-- name: an id changed as rowid
UPDATE OR REPLACE entity SET rowid = 1 WHERE kind = 'broker' AND name = 'other';
-- name: a token set back
UPDATE entity SET token = 1 WHERE kind = 'broker' AND name = 'app';
-- name: a token two further
UPDATE entity SET token = token + 2, state = 'stopped' WHERE kind = 'broker' AND name = 'app';
-- name: a token without a move
UPDATE OR IGNORE entity SET token = token + 1 WHERE kind = 'broker' AND name = 'app';
-- name: a checkpoint without a move
UPDATE entity SET checkpoint = '{"seq":0}' WHERE kind = 'broker' AND name = 'app';
-- name: an actor forged after the fact
UPDATE entity SET move_actor = 'nobody' WHERE kind = 'broker' AND name = 'app';
-- name: a configuration that is not JSON
UPDATE OR IGNORE entity SET config = 'fast please' WHERE kind = 'broker' AND name = 'app';
-- name: a configuration that is no object
UPDATE entity SET config = '[1]' WHERE kind = 'broker' AND name = 'app';
-- name: a target that is not there
UPDATE entity SET target = 'nowhere' WHERE kind = 'broker' AND name = 'app';
-- name: a source taken for a target
UPDATE entity SET target = 'app-source' WHERE kind = 'broker' AND name = 'app';
-- name: an entity replaced
INSERT OR REPLACE INTO entity(kind, name) VALUES ('broker', 'app');
-- name: an entity replaced by id
INSERT OR REPLACE INTO entity(id, kind, name) VALUES (1, 'task', 'fresh');
-- name: an entity inserted twice with OR IGNORE
INSERT OR IGNORE INTO entity(kind, name) VALUES ('broker', 'app');
-- name: an entity upserted
INSERT INTO entity(kind, name) VALUES ('broker', 'app') ON CONFLICT (kind, name) DO UPDATE SET state = 'stopped';
-- name: an entity born in another state
INSERT INTO entity(kind, name, state) VALUES ('broker', 'young', 'tailing');
-- name: an entity of no kind
INSERT INTO entity(kind, name) VALUES ('leg', 'young');
-- name: an entity without a name
INSERT INTO entity(kind, name) VALUES ('broker', '');
-- name: an entity born with a token
INSERT INTO entity(kind, name, token) VALUES ('broker', 'young', 7);
-- name: an entity with a negative id
INSERT INTO entity(id, kind, name) VALUES (-1, 'broker', 'young');
-- name: an entity deleted
DELETE FROM entity WHERE kind = 'broker' AND name = 'other';
-- name: all entities deleted
DELETE FROM entity;
-- name: history replaced
INSERT OR REPLACE INTO history(id, actor, entity_id, kind, name, token, from_state, event, to_state)
SELECT id, 'somebody else', entity_id, kind, name, token, from_state, event, to_state FROM history WHERE id = 1;
-- name: history with a given id
INSERT INTO history(id, actor, entity_id, kind, name, token, event, to_state) VALUES (900, 'a', 1, 'producer', 'app', 9, 'x', 'following');
-- name: history with a negative id
INSERT OR IGNORE INTO history(id, actor, entity_id, kind, name, token, from_state, event, to_state)
SELECT -1, 'a', id, kind, name, token, state, 'configured', state FROM entity WHERE id = 1;
-- name: a forged move
INSERT INTO history(actor, entity_id, kind, name, token, from_state, event, to_state)
SELECT 'boss', id, kind, name, token, 'stopped', 'resume', state FROM entity WHERE kind = 'broker' AND name = 'app';
-- name: the last move once more
INSERT INTO history(actor, entity_id, kind, name, token, from_state, event, to_state)
SELECT 'boss', entity_id, kind, name, token, from_state, event, to_state FROM history ORDER BY id DESC LIMIT 1;
-- name: a forged configuration
INSERT OR REPLACE INTO history(actor, entity_id, kind, name, token, from_state, event, to_state, source, target, store, config)
SELECT 'boss', id, kind, name, token, state, 'configured', state, source, target, store, config FROM entity WHERE kind = 'broker' AND name = 'app';
-- name: history of nobody
INSERT INTO history(actor, event) VALUES ('boss', 'nothing');
-- name: history altered
UPDATE OR REPLACE history SET actor = 'somebody else' WHERE id = 1;
-- name: history renumbered
UPDATE OR IGNORE history SET id = id + 1000;
-- name: history deleted
DELETE FROM history;
-- name: a seal altered
UPDATE history_seal SET sha256 = '0000000000000000000000000000000000000000000000000000000000000000';
-- name: a seal deleted
DELETE FROM history_seal WHERE id = 1;
-- name: a seal replaced
INSERT OR REPLACE INTO history_seal(id, upto, rows, sha256) SELECT id, upto, rows, sha256 FROM history_seal WHERE id = 1;
-- name: a seal over rows that have one
INSERT INTO history_seal(upto, rows, sha256) SELECT upto, rows, sha256 FROM history_seal ORDER BY id DESC LIMIT 1;
-- name: a new edge
INSERT INTO transition VALUES ('broker', 'tailing', 'back', 'new', 'because');
-- name: an edge bent
UPDATE transition SET to_state = 'tailing' WHERE kind = 'broker' AND from_state = 'resetting' AND event = 'refused';
-- name: an edge replaced
INSERT OR REPLACE INTO transition VALUES ('broker', 'tailing', 'stopped', 'new', 'because');
-- name: an edge deleted
DELETE FROM transition WHERE kind = 'broker';
-- name: a new state
INSERT INTO state VALUES ('broker', 'flying', 0, 0, NULL, 'because');
-- name: another initial state
UPDATE OR IGNORE state SET initial = 1 WHERE kind = 'broker' AND state = 'tailing';
-- name: a state deleted
DELETE FROM state WHERE state = 'refused';
-- name: a marker that a restart may clear
UPDATE marker SET restartable = 1 WHERE name = 'APPLY-MARK-MISMATCH';
-- name: a marker deleted
DELETE FROM marker WHERE name = 'APPLY-MARK-MISMATCH';
-- name: a marker replaced
INSERT OR REPLACE INTO marker SELECT name, 1, parent, meaning, acknowledgement, remedy FROM marker WHERE name = 'APPLY-MARK-MISMATCH';
-- name: another schema version
UPDATE meta SET value = '0' WHERE name = 'min_writer';
-- name: an endpoint in use deleted
DELETE FROM endpoint WHERE name = 'app-target';
-- name: an endpoint in use renamed over another
UPDATE OR REPLACE endpoint SET name = 'app-store' WHERE name = 'app-target';
-- name: an endpoint in use given another role
INSERT OR REPLACE INTO endpoint(name, role, driver, dsn) VALUES ('app-target', 'store', 'file', '/elsewhere');
-- name: a request of nobody's
INSERT INTO request(kind, name, verb) VALUES ('broker', 'nobody', 'stop');
-- name: a request rewritten
UPDATE OR REPLACE request SET name = 'other';
-- name: a request deleted
DELETE FROM request;
-- name: a refusal rewritten
UPDATE refusal SET message = 'all is well';
-- name: a refusal deleted
DELETE FROM refusal;
-- name: a refusal replaced
INSERT OR REPLACE INTO refusal(id, entity_id, class, code, restartable, message) VALUES (1, 1, 'retry', 'X', 1, 'all is well');
