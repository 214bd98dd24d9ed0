-- The control DB, version 1. Runs inside one transaction; the rows of state and transition come from sql/machine/*.sql while the guards are off.
-- Comments stand inside the statements, where SQLite keeps them: `.schema` is the manual.
--
-- The guards work in any shell: with foreign keys and recursive triggers off, without functions of ours. They
--   * check with SELECT RAISE(ABORT, …), which OR IGNORE does not defeat;
--   * refuse a row that meets another one on any unique key before OR REPLACE could displace it;
--   * look after each history row that a move writes whether it is really there.

CREATE TABLE meta(              -- what this file is; guarded: only a migration changes it
  name  TEXT PRIMARY KEY,       /* schema_version; min_reader, min_writer: the lowest schema_version a binary must know to read, to write */
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('schema_version', '1'), ('min_reader', '1'), ('min_writer', '1');

CREATE TABLE marker(            -- the registry of refusals: whether a restart may clear one is decided by its row here, never by its text
  name            TEXT PRIMARY KEY,
  restartable     INTEGER NOT NULL CHECK (restartable IN (0, 1)),  -- 1: a restart may clear it; 0: only an operator
  parent          TEXT,         -- the marker that it arrives inside of
  meaning         TEXT NOT NULL,
  acknowledgement TEXT,         -- the flag or key that accepts it once, where there is one
  remedy          TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- markers: begin (written by migrations/markers.sh from engine/base/markers.def)
INSERT INTO marker VALUES ('INTERNAL', 1, NULL, 'an invariant of sluice itself is broken', NULL, 'report it with the log');
INSERT INTO marker VALUES ('SLOT-ACKED-PAST-TARGET-POSITION', 0, NULL, 'the slot was acknowledged past what is durable downstream', '--accept-slot-acked-past-position=LSN', 'take a new full; see the message for the positions');
INSERT INTO marker VALUES ('UNFORWARDED-SCHEMA-CHANGE', 0, NULL, 'the source''s constraints, row security, policies or defaults changed, which the stream cannot carry; the refusal is recorded on the target', '--accept-unforwarded-schema-change=FINGERPRINT', 'apply the same change on the target, then acknowledge it as the message says; a version without that flag rebuilds with --reset-target-data');
INSERT INTO marker VALUES ('ADD-COLUMN-BACKFILL-INCOMPLETE', 0, 'UNFORWARDED-SCHEMA-CHANGE', 'a column was added and the values of its older rows were not all carried over; the refusal is recorded on the target', '--accept-unforwarded-schema-change=FINGERPRINT', 'copy the column''s values from the source by primary key for the rows that were there before it, then acknowledge it as the message says; or rebuild with --reset-target-data');
INSERT INTO marker VALUES ('SHARDED-TARGET-VINDEX-UPDATE', 0, NULL, 'an update changes the column by which the target shards its rows', NULL, 'delete the row on the target and copy it anew, or use a target without shards');
INSERT INTO marker VALUES ('APPLY-MARK-MISMATCH', 0, NULL, 'the target''s marks do not fit the stream: they are of another history or another filter', NULL, 'put the original filter back, or rebuild with --reset-target-data');
INSERT INTO marker VALUES ('CHARSET-NOT-DECODABLE', 0, NULL, 'a text value''s character set has no exact conversion to UTF-8', NULL, 'convert the column on the source, then copy the table anew: the log still holds the old bytes');
INSERT INTO marker VALUES ('DSN-TIME-ZONE-NOT-UTC', 0, NULL, 'a DSN pins a session time zone other than UTC', NULL, 'take the time zone out of the DSN, then reload');
INSERT INTO marker VALUES ('KEY-SCOPED-WRITE-MATCHED-MULTIPLE-ROWS', 0, NULL, 'an update or delete by key matched more than one target row; its transaction was rolled back', NULL, 'make the key unique on the target, then rebuild with --reset-target-data');
INSERT INTO marker VALUES ('CHANGE-LOG-WATERMARK-STALLED', 0, NULL, 'a window of the change log was read whole and yet the watermark did not move', NULL, 'report it with the query that the message prints');
INSERT INTO marker VALUES ('HEARTBEAT-TABLE-NOT-SLUICES', 0, NULL, 'a table on the source has the heartbeat''s name and is not ours; nothing was written to it', NULL, 'give the heartbeat another name, or rename that table');
INSERT INTO marker VALUES ('RESUME-SCHEMA-DIVERGENCE', 0, NULL, 'source and target tables grew apart while the stream did not run', NULL, 'make the target match the source, then start it again (fleet: reload)');
INSERT INTO marker VALUES ('SCHEMA-CHANGE-REFUSED', 0, NULL, 'a table changed on the source in a way that this stream does not carry to the target', NULL, 'make the same change on the target, then start it again (fleet: reload)');
INSERT INTO marker VALUES ('COLUMN-ORDER-CHANGED', 0, NULL, 'two columns changed places or names on the source and nothing proves that the target''s did', NULL, 'make the same change on the target, then start it again; where the message names a re-copy, rebuild with --reset-target-data');
INSERT INTO marker VALUES ('DEFERRED-SCHEMA-CHANGE', 0, NULL, 'a row carries a type or collation that no schema change in the log announces before it', NULL, 'rebuild with --reset-target-data');
INSERT INTO marker VALUES ('COLUMN-IDENTITY-CHANGED', 0, NULL, 'a column''s name now holds another column', NULL, 'rebuild with --reset-target-data; there is no acknowledgement');
INSERT INTO marker VALUES ('KEY-COLLATION-MERGE', 0, NULL, 'the target''s key takes two values for equal that the source keeps apart, so two rows would become one', NULL, 'give the target''s key column the collation that the message names, then start it again; where it names a re-copy, rebuild with --reset-target-data');
INSERT INTO marker VALUES ('UNIQUE-KEY-CONFLICT-OTHER-ROW', 0, NULL, 'a row met another row of the target on a unique key that the source evidently does not have', NULL, 'drop that key on the target, then start it again; or copy anew (destructive)');
INSERT INTO marker VALUES ('SOURCE-UNIQUE-KEY-ABSENT', 0, NULL, 'the target has a unique key that no key of the source implies', 'accept-target-only-unique-key: VALUE', 'drop the key on the target, then start it again; where rows may have merged already, rebuild with --reset-target-data');
INSERT INTO marker VALUES ('INCLUDE-TABLE-SCOPE-DRIFT', 0, NULL, 'the stream''s scope holds a table that it never copied or stopped keeping up', NULL, 'take the table out of the scope, or rebuild with --reset-target-data');
INSERT INTO marker VALUES ('AMBIGUOUS-SCHEMA-BOUNDARY', 0, 'SCHEMA-CHANGE-REFUSED', 'the log cannot tell a replay of an older shape from a real change', '--accept-unforwarded-schema-change=FINGERPRINT', 'compare the two current definitions; take a new full and rebuild with --reset-target-data; never narrow the target first');
INSERT INTO marker VALUES ('KEY-COLLATION-CHANGED', 0, 'RESUME-SCHEMA-DIVERGENCE', 'a key column''s collation changed (also inside SCHEMA-CHANGE-REFUSED)', NULL, 'give the target''s key column the same collation, then start it again');
INSERT INTO marker VALUES ('COLLATION-CHANGE-UNANNOUNCED', 0, 'DEFERRED-SCHEMA-CHANGE', 'a text column''s collation changed and the log holds no statement that did it', NULL, 'rebuild with --reset-target-data');
INSERT INTO marker VALUES ('COLUMN-IDENTITY-UNREAD', 0, 'COLUMN-IDENTITY-CHANGED', 'a statement that may have exchanged columns could not be read', NULL, 'rebuild with --reset-target-data; there is no acknowledgement');
INSERT INTO marker VALUES ('KEY-COLLATION-GUARD-UNSUPPORTED', 0, 'KEY-COLLATION-MERGE', 'the target lacks the collation under which the key would have to be compared; none of the table''s changes was applied', NULL, 'create that collation on the target, or give the key column the same collation on both sides');
INSERT INTO marker VALUES ('KEY-COLLATION-HISTORY-UNORDERED', 0, 'KEY-COLLATION-MERGE', 'a link changes a key column''s collation and its shapes cannot be placed between its changes', NULL, 'take a new full after the change, then run the broker on the new chain with --reset-target-data (destructive)');
INSERT INTO marker VALUES ('KEY-COLLATION-VERSION-NAMESPACE', 0, 'KEY-COLLATION-MERGE', 'a key column''s collation versions are of another namespace than the chain''s', NULL, 'take a new full after the change and restore from that');
INSERT INTO marker VALUES ('LIVE-ADDED-TABLE-EXCLUDED', 0, 'INCLUDE-TABLE-SCOPE-DRIFT', 'the exclusion names a table that was added to the running stream', NULL, 'narrow the exclusion, then start it again');
INSERT INTO marker VALUES ('TABLE-IDENTITY-CHANGED', 0, 'INCLUDE-TABLE-SCOPE-DRIFT', 'a table was swapped or created anew while the stream did not run', '--accept-table-rename OLD=NEW', 'rebuild with --reset-target-data');
INSERT INTO marker VALUES ('COLD-START-INCOMPLETE', 0, 'INCLUDE-TABLE-SCOPE-DRIFT', 'a first copy ended after it had begun to change the target', NULL, 'run that first copy again');
INSERT INTO marker VALUES ('PRE-ALTER-REPLAY-WEDGE', 1, NULL, 'one source transaction wrote a table, altered it and wrote it again; each start reads it from its beginning', NULL, 'alert when it repeats; then start once with schema changes forwarded, or drop the slot and copy anew');
INSERT INTO marker VALUES ('KEY-COLLATION-REPLAY-AMBIGUOUS', 1, NULL, 'a copy cannot tell the same row read twice from another row that its key equates', NULL, 'none: the restart copies again');
INSERT INTO marker VALUES ('SOURCE-UNIQUE-KEY-RECHECK-FAILED', 1, NULL, 'a catalogue could not be read when the unique keys were compared', NULL, 'make the catalogue readable; the restart compares again');
INSERT INTO marker VALUES ('INCLUDE-TABLE-ADD-IN-PROGRESS', 1, NULL, 'every table that the scope check misses is being added right now', NULL, 'wait: the restart goes on when the add is done');
INSERT INTO marker VALUES ('INCLUDE-TABLE-NARROWING-UNRECORDED', 1, NULL, 'the scope became narrower and that could not be recorded on the target', NULL, 'when it repeats, run the ALTER that the message names');
INSERT INTO marker VALUES ('SLUICE-E-CDC-REPLICATION-HEADROOM', 1, NULL, 'the source has no free replication slot or sender', NULL, 'drop an unused slot, or raise max_replication_slots and max_wal_senders');
INSERT INTO marker VALUES ('DEFERRED-KEY-CHECK-FAILED-AT-COMMIT', 1, NULL, 'a deferred constraint of the target refused at commit; one cause is how the changes arrived, which another attempt changes', NULL, 'when it repeats, correct the rows that the message names, or make the constraint immediate on both sides');
INSERT INTO marker VALUES ('APPLY-MARKS-UNAVAILABLE', 1, NULL, 'the target cannot keep marks, so a restart may write rows without a key twice', NULL, 'grant what the message names and start again');
INSERT INTO marker VALUES ('APPLY-MARK-UNTRUSTED', 1, NULL, 'a mark is not of the first transaction that was delivered again, and was not used', NULL, 'none: the rows are applied by their keys');
INSERT INTO marker VALUES ('DEFERRED-KEY-CHECK-OFF-IN-REPLICA-MODE', 1, NULL, 'the session''s replica mode leaves a deferred constraint of the target unchecked', NULL, 'check the constraint once after the copy when the source does not hold it');
-- markers: end

CREATE TABLE state(             -- the states of each kind of entity; a machine is data: see also transition, and `sluice machine KIND`
  kind    TEXT NOT NULL,        -- producer, broker, task
  state   TEXT NOT NULL,
  initial INTEGER NOT NULL DEFAULT 0 CHECK (initial IN (0, 1)),    -- an entity is born here; one per kind
  tailing INTEGER NOT NULL DEFAULT 0 CHECK (tailing IN (0, 1)),    -- its step is a tick that may be repeated without moving
  step    TEXT,                 -- the engine's function that does the work of this state; NULL: an operator's event must come
  comment TEXT NOT NULL,
  PRIMARY KEY (kind, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE transition(        -- the edges: an entity moves along these and no others, whoever moves it
  kind       TEXT NOT NULL,
  from_state TEXT NOT NULL,
  event      TEXT NOT NULL,
  to_state   TEXT NOT NULL,
  comment    TEXT NOT NULL,
  PRIMARY KEY (kind, from_state, event),
  FOREIGN KEY (kind, from_state) REFERENCES state(kind, state),
  FOREIGN KEY (kind, to_state) REFERENCES state(kind, state),
  CHECK (from_state <> to_state)
) STRICT, WITHOUT ROWID;

CREATE TABLE endpoint(          -- a database or store; INSERT one before the entity that uses it
  name       TEXT PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 127),
  role       TEXT NOT NULL CHECK (role IN ('source', 'target', 'store')),
  driver     TEXT NOT NULL CHECK (length(CAST(driver AS BLOB)) BETWEEN 1 AND 31),
  dsn        TEXT NOT NULL CHECK (dsn <> ''),   /* a password is sealed into secret and shows as ***; `${VAR}` or `file:PATH` in its
                                                   place stay as they are and are resolved at use. One written here in clear is sealed when
                                                   sluice opens this file next. */
  created_us INTEGER NOT NULL DEFAULT (CAST(strftime('%s','now') AS INTEGER)*1000000 + CAST(substr(strftime('%f','now'),4) AS INTEGER)*1000)
) STRICT;

CREATE TABLE secret(            -- passwords of endpoints, sealed with the key in <this file>.key (AES-256-GCM)
  endpoint TEXT NOT NULL REFERENCES endpoint(name) ON DELETE CASCADE,
  param    TEXT NOT NULL,       -- which part of the dsn it belongs to: password, sslpassword, …
  nonce    BLOB NOT NULL,       -- 12 bytes
  sealed   BLOB NOT NULL,       -- the text, then the 16 bytes of its tag; bound to endpoint and param
  at_us    INTEGER NOT NULL DEFAULT (CAST(strftime('%s','now') AS INTEGER)*1000000 + CAST(substr(strftime('%f','now'),4) AS INTEGER)*1000),
  PRIMARY KEY (endpoint, param)
) STRICT, WITHOUT ROWID;

CREATE TABLE entity(            /* a thing with a life: INSERT (kind, name, source, target, store, config) to configure one; the rest is given.
    A move:     UPDATE entity SET state = 'stopped' WHERE kind = 'broker' AND name = 'app';      -- along an edge of transition, or refused
    with a why: UPDATE entity SET state = 'stopped', move_actor = 'ann', move_message = 'maintenance' WHERE …;
    Each move and each change of configuration becomes a history row. Entities are never deleted. */
  id           INTEGER PRIMARY KEY AUTOINCREMENT,  -- also the byte of <this file>.lock that its owner holds
  kind         TEXT NOT NULL,
  name         TEXT NOT NULL,
  state        TEXT NOT NULL DEFAULT '',           -- leave it out: the initial state of the kind is filled in
  token        INTEGER NOT NULL DEFAULT 1,         -- fencing: grows by one with each history row; an engine moves only what it saw
  source       TEXT REFERENCES endpoint(name),
  target       TEXT REFERENCES endpoint(name),
  store        TEXT REFERENCES endpoint(name),
  config       TEXT NOT NULL DEFAULT '{}',         -- JSON object: options in the names of the flags ({"poll-interval":"5s"})
  checkpoint   TEXT,                               -- JSON object: what the last step left; changes with a move only
  move_actor   TEXT,                               -- the move_* columns speak for the UPDATE that sets them and are NULL again after it: who
  move_event   TEXT,                               -- which edge; needed only where several lead there
  move_code    TEXT,                               -- error code, when an error moved it
  move_marker  TEXT,
  move_message TEXT,                               -- why, for people
  move_detail  TEXT,                               -- why, as JSON
  owner_pid    INTEGER,                            -- for people; the lock is the truth, and nothing expires by the clock
  owner_boot   TEXT,
  owner_start  INTEGER,                            -- start time of that process, clock ticks since boot
  owner_since_us INTEGER,
  created_us   INTEGER NOT NULL DEFAULT (CAST(strftime('%s','now') AS INTEGER)*1000000 + CAST(substr(strftime('%f','now'),4) AS INTEGER)*1000),
  UNIQUE (kind, name)
) STRICT;

CREATE TABLE history(           /* every birth, move and configuration of an entity, written by triggers, append-only. No NOT NULL and no CHECK:
                                   a move must never happen without its row. Sealed by history_seal. */
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  at_us      INTEGER DEFAULT (CAST(strftime('%s','now') AS INTEGER)*1000000 + CAST(substr(strftime('%f','now'),4) AS INTEGER)*1000),
  actor      TEXT DEFAULT 'shell',
  entity_id  INTEGER,
  kind       TEXT,
  name       TEXT,
  token      INTEGER,           -- the entity's, after it
  from_state TEXT,              -- NULL: it was born
  event      TEXT,              -- created, configured, or the edge's
  to_state   TEXT,
  code       TEXT,
  marker     TEXT,
  message    TEXT,
  detail     TEXT,
  source     TEXT,              -- the four of configuration: in rows that changed it
  target     TEXT,
  store      TEXT,
  config     TEXT
) STRICT;
CREATE INDEX history_by_entity ON history(entity_id, id);

CREATE TABLE history_seal(      /* SHA-256 over the seal before it and the history rows since, the shell's included; written at the end of every
                                   write transaction of the engine. `sluice control check` verifies all of them, an open the last 256. Rows after the
                                   last seal are protected by triggers alone; someone who rewrites rows and seals both is outside what this can show. */
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  upto  INTEGER NOT NULL,       -- the last history row in it
  rows  INTEGER NOT NULL,       -- how many since the seal before
  at_us INTEGER NOT NULL DEFAULT (CAST(strftime('%s','now') AS INTEGER)*1000000 + CAST(substr(strftime('%f','now'),4) AS INTEGER)*1000),
  sha256 TEXT NOT NULL          -- 64 hex digits
) STRICT;

CREATE TABLE request(           -- what somebody wants of a running entity: INSERT (kind, name, verb); it sees it at its next tick
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  at_us   INTEGER NOT NULL DEFAULT (CAST(strftime('%s','now') AS INTEGER)*1000000 + CAST(substr(strftime('%f','now'),4) AS INTEGER)*1000),
  actor   TEXT NOT NULL DEFAULT 'shell',
  kind    TEXT NOT NULL,
  name    TEXT NOT NULL,
  verb    TEXT NOT NULL CHECK (verb IN ('stop')),
  done_us INTEGER,              -- when it was answered
  result  TEXT
) STRICT;

CREATE TABLE position(          -- mirror of what the target or chain knows: best effort, at most once a second, never the truth
  entity_id INTEGER PRIMARY KEY REFERENCES entity(id),
  link_id   TEXT,               -- the last whole link
  pos       TEXT,               -- the source's position
  seq       INTEGER,
  lag_links INTEGER,            -- behind the chain's tip; NULL: unknown
  lag_bytes INTEGER,
  lag_us    INTEGER,
  rows      INTEGER,            -- applied in this run
  at_us     INTEGER NOT NULL    -- when the mirror was written
) STRICT;

CREATE TABLE refusal(           -- coded stops; open while cleared_us is NULL. Closed when the entity goes on
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  entity_id   INTEGER NOT NULL REFERENCES entity(id),
  at_us       INTEGER NOT NULL DEFAULT (CAST(strftime('%s','now') AS INTEGER)*1000000 + CAST(substr(strftime('%f','now'),4) AS INTEGER)*1000),
  class       TEXT NOT NULL,    -- retry, refuse, config, busy, bug
  code        TEXT NOT NULL,
  marker      TEXT,             -- see marker
  sub         TEXT,             -- the one that arrived inside it
  restartable INTEGER NOT NULL, -- as decided then
  message     TEXT NOT NULL,
  hint        TEXT,
  cleared_us  INTEGER,
  cleared_by  TEXT
) STRICT;
CREATE INDEX refusal_open ON refusal(entity_id) WHERE cleared_us IS NULL;

CREATE TABLE chain(             -- cache of the catalogues in the stores: read again with `sluice control rebuild`
  lineage         TEXT PRIMARY KEY,
  store           TEXT NOT NULL,   -- endpoint
  source_engine   TEXT,
  source_identity TEXT,
  slot_name       TEXT,
  extendable      INTEGER,
  segment         TEXT,         -- the open one
  full_complete   INTEGER,
  nlinks          INTEGER,
  tip_id          TEXT,
  tip_seq         INTEGER,
  tip_pos         TEXT,
  tip_time_us     INTEGER,
  covered_pos     TEXT,         -- an idle source was seen up to here
  at_us           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE segment(           -- one full and the links after it
  lineage       TEXT NOT NULL REFERENCES chain(lineage) ON DELETE CASCADE,
  segment       TEXT NOT NULL,
  first_n       INTEGER,        -- its opening's number
  full_complete INTEGER,
  PRIMARY KEY (lineage, segment)
) STRICT, WITHOUT ROWID;
CREATE TABLE link(              -- a span of changes; records (start_seq, end_seq]
  lineage   TEXT NOT NULL REFERENCES chain(lineage) ON DELETE CASCADE,
  n         INTEGER NOT NULL,   -- chain-wide
  id        TEXT NOT NULL,      -- 40 hex digits
  segment   TEXT NOT NULL,
  attempt   TEXT,
  start_seq INTEGER,
  end_seq   INTEGER,
  bytes     INTEGER,            -- as stored
  time_us   INTEGER,            -- when it was catalogued
  opening   INTEGER,            -- 1: a segment's opening, stands for its full
  PRIMARY KEY (lineage, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_by_id ON link(id);

CREATE TABLE setting(           -- defaults of this installation, by the flags' names
  name    TEXT PRIMARY KEY,
  value   TEXT NOT NULL,
  comment TEXT
) STRICT, WITHOUT ROWID;

-- ---- views for people

CREATE VIEW recorded AS         -- what history says of each entity: must equal entity (the guards and `sluice control check` compare them)
SELECT e.id AS entity_id,
       (SELECT h.to_state FROM history h WHERE h.entity_id = e.id ORDER BY h.id DESC LIMIT 1) AS state,
       (SELECT h.token FROM history h WHERE h.entity_id = e.id ORDER BY h.id DESC LIMIT 1) AS token,
       c.source, c.target, c.store, c.config
  FROM entity e LEFT JOIN history c
    ON c.id = (SELECT h.id FROM history h WHERE h.entity_id = e.id AND h.config IS NOT NULL ORDER BY h.id DESC LIMIT 1);

CREATE VIEW audit AS            -- who moved what, when, why
SELECT h.id, strftime('%Y-%m-%dT%H:%M:%S', h.at_us / 1000000, 'unixepoch') || printf('.%06dZ', h.at_us % 1000000) AS at,
       h.actor, h.kind, h.name, h.from_state, h.event, h.to_state, h.marker, h.code, h.message AS why,
       coalesce(h.detail, h.config) AS detail
  FROM history h ORDER BY h.id;

CREATE VIEW positions AS        -- where each entity stands, as last mirrored
SELECT e.kind, e.name, e.state, p.link_id, p.pos, p.seq, p.rows,
       strftime('%Y-%m-%dT%H:%M:%S', p.at_us / 1000000, 'unixepoch') || printf('.%06dZ', p.at_us % 1000000) AS seen_at
  FROM entity e JOIN position p ON p.entity_id = e.id ORDER BY e.kind, e.name;

CREATE VIEW lag AS              -- how far each entity is behind; NULL: unknown; seen_seconds_ago tells how old that knowledge is
SELECT e.kind, e.name, e.state, p.lag_links AS links, p.lag_bytes AS bytes, p.lag_us / 1000000.0 AS seconds,
       CAST(strftime('%s','now') AS INTEGER) - p.at_us / 1000000 AS seen_seconds_ago
  FROM entity e JOIN position p ON p.entity_id = e.id ORDER BY e.kind, e.name;

CREATE VIEW refusals AS         -- coded stops that still stand, with what lifts them
SELECT e.kind, e.name, e.state, r.code, r.marker, r.sub, r.restartable, r.message, r.hint, m.remedy, m.acknowledgement,
       strftime('%Y-%m-%dT%H:%M:%S', r.at_us / 1000000, 'unixepoch') || printf('.%06dZ', r.at_us % 1000000) AS since
  FROM refusal r JOIN entity e ON e.id = r.entity_id LEFT JOIN marker m ON m.name = coalesce(r.sub, r.marker)
 WHERE r.cleared_us IS NULL ORDER BY r.id;

CREATE VIEW chains AS           -- chains as last seen in their stores
SELECT c.lineage, c.store, c.source_engine, c.full_complete, c.extendable, c.nlinks AS links, c.tip_id, c.tip_seq, c.tip_pos,
       (SELECT sum(l.bytes) FROM link l WHERE l.lineage = c.lineage) AS bytes,
       strftime('%Y-%m-%dT%H:%M:%S', c.tip_time_us / 1000000, 'unixepoch') || printf('.%06dZ', c.tip_time_us % 1000000) AS tip_at,
       strftime('%Y-%m-%dT%H:%M:%S', c.at_us / 1000000, 'unixepoch') || printf('.%06dZ', c.at_us % 1000000) AS seen_at
  FROM chain c ORDER BY c.lineage;

CREATE VIEW producers AS        -- entities that write chains
SELECT e.name, e.state, e.source, e.store, p.link_id AS tip_id, p.seq, p.lag_bytes, p.lag_us / 1000000.0 AS lag_seconds, e.owner_pid,
       strftime('%Y-%m-%dT%H:%M:%S', p.at_us / 1000000, 'unixepoch') || printf('.%06dZ', p.at_us % 1000000) AS seen_at,
       (SELECT coalesce(r.sub, r.marker) FROM refusal r WHERE r.entity_id = e.id AND r.cleared_us IS NULL ORDER BY r.id DESC LIMIT 1) AS marker,
       (SELECT r.message FROM refusal r WHERE r.entity_id = e.id AND r.cleared_us IS NULL ORDER BY r.id DESC LIMIT 1) AS refusal
  FROM entity e LEFT JOIN position p ON p.entity_id = e.id WHERE e.kind = 'producer' ORDER BY e.name;

CREATE VIEW brokers AS          -- entities that replay a chain into a target; owner_pid: the process that runs it now
SELECT e.name AS stream_id, e.state, e.store, e.target, p.link_id, p.seq, p.lag_links, p.lag_bytes, p.lag_us / 1000000.0 AS lag_seconds, e.owner_pid,
       strftime('%Y-%m-%dT%H:%M:%S', p.at_us / 1000000, 'unixepoch') || printf('.%06dZ', p.at_us % 1000000) AS seen_at,
       (SELECT coalesce(r.sub, r.marker) FROM refusal r WHERE r.entity_id = e.id AND r.cleared_us IS NULL ORDER BY r.id DESC LIMIT 1) AS marker,
       (SELECT r.message FROM refusal r WHERE r.entity_id = e.id AND r.cleared_us IS NULL ORDER BY r.id DESC LIMIT 1) AS refusal
  FROM entity e LEFT JOIN position p ON p.entity_id = e.id WHERE e.kind = 'broker' ORDER BY e.name;

-- ---- guards: what only a migration changes

CREATE TRIGGER meta_insert BEFORE INSERT ON meta BEGIN SELECT RAISE(ABORT, 'meta: only a migration changes it'); END;
CREATE TRIGGER meta_update BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'meta: only a migration changes it'); END;
CREATE TRIGGER meta_delete BEFORE DELETE ON meta BEGIN SELECT RAISE(ABORT, 'meta: only a migration changes it'); END;
CREATE TRIGGER marker_insert BEFORE INSERT ON marker BEGIN SELECT RAISE(ABORT, 'marker: only a migration changes it'); END;
CREATE TRIGGER marker_update BEFORE UPDATE ON marker BEGIN SELECT RAISE(ABORT, 'marker: only a migration changes it'); END;
CREATE TRIGGER marker_delete BEFORE DELETE ON marker BEGIN SELECT RAISE(ABORT, 'marker: only a migration changes it'); END;
CREATE TRIGGER state_insert BEFORE INSERT ON state BEGIN SELECT RAISE(ABORT, 'state: only a migration adds states'); END;
CREATE TRIGGER state_update BEFORE UPDATE ON state BEGIN SELECT RAISE(ABORT, 'state: states are append-only'); END;
CREATE TRIGGER state_delete BEFORE DELETE ON state BEGIN SELECT RAISE(ABORT, 'state: states are append-only'); END;
CREATE TRIGGER transition_insert BEFORE INSERT ON transition BEGIN SELECT RAISE(ABORT, 'transition: only a migration adds edges'); END;
CREATE TRIGGER transition_update BEFORE UPDATE ON transition BEGIN SELECT RAISE(ABORT, 'transition: edges are append-only'); END;
CREATE TRIGGER transition_delete BEFORE DELETE ON transition BEGIN SELECT RAISE(ABORT, 'transition: edges are append-only'); END;

-- ---- guards: endpoints in use

CREATE TRIGGER endpoint_insert BEFORE INSERT ON endpoint BEGIN
  SELECT RAISE(ABORT, 'endpoint: an entity uses it in its present role')
   WHERE EXISTS (SELECT 1 FROM endpoint p WHERE p.name = NEW.name AND p.role <> NEW.role)
     AND EXISTS (SELECT 1 FROM entity e WHERE NEW.name IN (e.source, e.target, e.store));
  SELECT RAISE(ABORT, 'endpoint: leave rowid out')
   WHERE NEW.rowid <> -1 AND EXISTS (SELECT 1 FROM endpoint p WHERE p.rowid = NEW.rowid AND p.name <> NEW.name);
END;
CREATE TRIGGER endpoint_update BEFORE UPDATE ON endpoint BEGIN
  SELECT RAISE(ABORT, 'endpoint: an entity uses it: its name and role stay')
   WHERE (NEW.name <> OLD.name OR NEW.role <> OLD.role)
     AND EXISTS (SELECT 1 FROM entity e WHERE OLD.name IN (e.source, e.target, e.store));
  SELECT RAISE(ABORT, 'endpoint: that name is taken')
   WHERE NEW.name <> OLD.name AND EXISTS (SELECT 1 FROM endpoint p WHERE p.name = NEW.name);
  SELECT RAISE(ABORT, 'endpoint: a sealed password stays with its name') -- it was sealed for that name
   WHERE NEW.name <> OLD.name AND EXISTS (SELECT 1 FROM secret s WHERE s.endpoint = OLD.name);
  SELECT RAISE(ABORT, 'endpoint: rowids stay') WHERE NEW.rowid <> OLD.rowid;
END;
CREATE TRIGGER endpoint_delete BEFORE DELETE ON endpoint BEGIN
  SELECT RAISE(ABORT, 'endpoint: an entity uses it')
   WHERE EXISTS (SELECT 1 FROM entity e WHERE OLD.name IN (e.source, e.target, e.store));
END;
CREATE TRIGGER endpoint_deleted AFTER DELETE ON endpoint BEGIN
  DELETE FROM secret WHERE endpoint = OLD.name AND NOT EXISTS (SELECT 1 FROM endpoint p WHERE p.name = OLD.name);
END;

-- ---- guards: entities

CREATE TRIGGER entity_insert BEFORE INSERT ON entity BEGIN
  SELECT RAISE(ABORT, 'entity: leave id out, it is given') WHERE NEW.id <> -1;      -- an id left out reads -1 here
  SELECT RAISE(ABORT, 'entity: no such kind: see the table state')
   WHERE NOT EXISTS (SELECT 1 FROM state s WHERE s.kind = NEW.kind);
  SELECT RAISE(ABORT, 'entity: name must be 1 to 255 bytes long') WHERE NOT coalesce(length(CAST(NEW.name AS BLOB)) BETWEEN 1 AND 255, 0);
  SELECT RAISE(ABORT, 'entity: one of that kind and name is there: UPDATE it')
   WHERE EXISTS (SELECT 1 FROM entity e WHERE e.kind = NEW.kind AND e.name = NEW.name);
  SELECT RAISE(ABORT, 'entity: it is born in the initial state of its kind: leave state out')
   WHERE NEW.state <> '' AND NEW.state IS NOT (SELECT s.state FROM state s WHERE s.kind = NEW.kind AND s.initial = 1);
  SELECT RAISE(ABORT, 'entity: leave token, checkpoint and owner out')
   WHERE NEW.token IS NOT 1 OR NEW.checkpoint IS NOT NULL OR NEW.owner_pid IS NOT NULL;
  SELECT RAISE(ABORT, 'entity: config must be a JSON object')
   WHERE NOT coalesce(json_valid(NEW.config), 0) OR CASE WHEN json_valid(NEW.config) THEN json_type(NEW.config) END IS NOT 'object';
  SELECT RAISE(ABORT, 'entity: source is not an endpoint with role source: INSERT the endpoint first')
   WHERE NEW.source IS NOT NULL AND NOT EXISTS (SELECT 1 FROM endpoint p WHERE p.name = NEW.source AND p.role = 'source');
  SELECT RAISE(ABORT, 'entity: target is not an endpoint with role target: INSERT the endpoint first')
   WHERE NEW.target IS NOT NULL AND NOT EXISTS (SELECT 1 FROM endpoint p WHERE p.name = NEW.target AND p.role = 'target');
  SELECT RAISE(ABORT, 'entity: store is not an endpoint with role store: INSERT the endpoint first')
   WHERE NEW.store IS NOT NULL AND NOT EXISTS (SELECT 1 FROM endpoint p WHERE p.name = NEW.store AND p.role = 'store');
END;
CREATE TRIGGER entity_inserted AFTER INSERT ON entity BEGIN
  SELECT RAISE(ABORT, 'entity: leave id out, it is given') WHERE NEW.id < 1;
  UPDATE entity SET state = (SELECT s.state FROM state s WHERE s.kind = NEW.kind AND s.initial = 1), move_actor = NULL, move_event = NULL,
         move_code = NULL, move_marker = NULL, move_message = NULL, move_detail = NULL WHERE id = NEW.id;
  INSERT INTO history(actor, entity_id, kind, name, token, from_state, event, to_state, message, detail, source, target, store, config)
  SELECT coalesce(NEW.move_actor, 'shell'), e.id, e.kind, e.name, e.token, NULL, 'created', e.state, NEW.move_message, NEW.move_detail,
         e.source, e.target, e.store, e.config
    FROM entity e WHERE e.id = NEW.id;
  SELECT RAISE(ABORT, 'entity: its history row was not written') -- a trigger or index of somebody's swallowed it
   WHERE NOT EXISTS (SELECT 1 FROM recorded r JOIN entity e ON e.id = r.entity_id WHERE e.id = NEW.id AND r.state = e.state AND r.config = e.config);
END;
CREATE TRIGGER entity_update BEFORE UPDATE ON entity BEGIN
  SELECT RAISE(ABORT, 'entity: id, kind, name and created_us stay')
   WHERE NEW.id IS NOT OLD.id OR NEW.kind IS NOT OLD.kind OR NEW.name IS NOT OLD.name OR NEW.created_us IS NOT OLD.created_us;
  -- born: see entity_inserted
  SELECT RAISE(ABORT, 'entity: it is born in the initial state of its kind')
   WHERE OLD.state = '' AND NEW.state IS NOT (SELECT s.state FROM state s WHERE s.kind = OLD.kind AND s.initial = 1);
  -- moves
  SELECT RAISE(ABORT, 'entity: no edge leads there from its state: see the table transition')
   WHERE OLD.state <> '' AND NEW.state IS NOT OLD.state
     AND NOT EXISTS (SELECT 1 FROM transition t WHERE t.kind = OLD.kind AND t.from_state = OLD.state AND t.to_state = NEW.state);
  SELECT RAISE(ABORT, 'entity: move_event is not an edge from its state to that one: see the table transition')
   WHERE OLD.state <> '' AND NEW.state IS NOT OLD.state AND NEW.move_event IS NOT NULL
     AND NOT EXISTS (SELECT 1 FROM transition t WHERE t.kind = OLD.kind AND t.from_state = OLD.state AND t.to_state = NEW.state
                                                  AND t.event = NEW.move_event);
  SELECT RAISE(ABORT, 'entity: several events lead there: say which with move_event')
   WHERE OLD.state <> '' AND NEW.state IS NOT OLD.state AND NEW.move_event IS NULL
     AND 1 < (SELECT count(*) FROM transition t WHERE t.kind = OLD.kind AND t.from_state = OLD.state AND t.to_state = NEW.state);
  SELECT RAISE(ABORT, 'entity: checkpoint changes with a move only')
   WHERE NEW.checkpoint IS NOT OLD.checkpoint AND NEW.state IS OLD.state;
  SELECT RAISE(ABORT, 'entity: checkpoint must be JSON') WHERE NEW.checkpoint IS NOT NULL AND NOT json_valid(NEW.checkpoint);
  -- configuration
  SELECT RAISE(ABORT, 'entity: config must be a JSON object')
   WHERE NOT coalesce(json_valid(NEW.config), 0) OR CASE WHEN json_valid(NEW.config) THEN json_type(NEW.config) END IS NOT 'object';
  SELECT RAISE(ABORT, 'entity: source is not an endpoint with role source: INSERT the endpoint first')
   WHERE NEW.source IS NOT NULL AND NEW.source IS NOT OLD.source
     AND NOT EXISTS (SELECT 1 FROM endpoint p WHERE p.name = NEW.source AND p.role = 'source');
  SELECT RAISE(ABORT, 'entity: target is not an endpoint with role target: INSERT the endpoint first')
   WHERE NEW.target IS NOT NULL AND NEW.target IS NOT OLD.target
     AND NOT EXISTS (SELECT 1 FROM endpoint p WHERE p.name = NEW.target AND p.role = 'target');
  SELECT RAISE(ABORT, 'entity: store is not an endpoint with role store: INSERT the endpoint first')
   WHERE NEW.store IS NOT NULL AND NEW.store IS NOT OLD.store
     AND NOT EXISTS (SELECT 1 FROM endpoint p WHERE p.name = NEW.store AND p.role = 'store');
  -- the token grows by one, with a move or a configuration (entity_updated gives it to those that do not set it)
  SELECT RAISE(ABORT, 'entity: token becomes token + 1, with a move or a configuration only')
   WHERE NEW.token IS NOT OLD.token
     AND NOT (NEW.token IS OLD.token + 1
              AND (NEW.state IS NOT OLD.state OR NEW.config IS NOT OLD.config OR NEW.source IS NOT OLD.source
                   OR NEW.target IS NOT OLD.target OR NEW.store IS NOT OLD.store
                   OR EXISTS (SELECT 1 FROM recorded r WHERE r.entity_id = OLD.id AND r.token IS OLD.token
                                 AND (r.state IS NOT OLD.state OR r.config IS NOT OLD.config OR r.source IS NOT OLD.source
                                      OR r.target IS NOT OLD.target OR r.store IS NOT OLD.store))));
  -- the move_* columns speak for a move
  SELECT RAISE(ABORT, 'entity: move_* columns speak for a move or configuration in the same UPDATE')
   WHERE coalesce(NEW.move_actor, NEW.move_event, NEW.move_code, NEW.move_marker, NEW.move_message, NEW.move_detail) IS NOT NULL
     AND NEW.state IS OLD.state AND NEW.config IS OLD.config AND NEW.source IS OLD.source AND NEW.target IS OLD.target AND NEW.store IS OLD.store;
  SELECT RAISE(ABORT, 'entity: the move_event of a configuration is configured')
   WHERE NEW.state IS OLD.state AND NEW.move_event IS NOT NULL AND NEW.move_event <> 'configured';
END;
CREATE TRIGGER entity_updated AFTER UPDATE OF state, config, source, target, store ON entity
  WHEN OLD.state <> '' AND (NEW.state IS NOT OLD.state OR NEW.config IS NOT OLD.config OR NEW.source IS NOT OLD.source
                            OR NEW.target IS NOT OLD.target OR NEW.store IS NOT OLD.store)
BEGIN
  UPDATE entity SET token = OLD.token + 1, -- also for somebody who does not know of tokens
         move_actor = NULL, move_event = NULL, move_code = NULL, move_marker = NULL, move_message = NULL, move_detail = NULL WHERE id = NEW.id;
  INSERT INTO history(actor, entity_id, kind, name, token, from_state, event, to_state, code, marker, message, detail, source, target, store, config)
  SELECT coalesce(NEW.move_actor, 'shell'), e.id, e.kind, e.name, e.token, OLD.state,
         CASE WHEN NEW.state IS OLD.state THEN 'configured'
              ELSE coalesce(NEW.move_event, (SELECT t.event FROM transition t
                                              WHERE t.kind = OLD.kind AND t.from_state = OLD.state AND t.to_state = NEW.state)) END,
         e.state, NEW.move_code, NEW.move_marker, NEW.move_message, NEW.move_detail,
         CASE WHEN s.config THEN e.source END, CASE WHEN s.config THEN e.target END, CASE WHEN s.config THEN e.store END,
         CASE WHEN s.config THEN e.config END
    FROM entity e,
         (SELECT NEW.config IS NOT OLD.config OR NEW.source IS NOT OLD.source OR NEW.target IS NOT OLD.target OR NEW.store IS NOT OLD.store AS config) s
   WHERE e.id = NEW.id;
  SELECT RAISE(ABORT, 'entity: its history row was not written') -- a trigger or index of somebody's swallowed it
   WHERE NOT EXISTS (SELECT 1 FROM recorded r JOIN entity e ON e.id = r.entity_id
                      WHERE e.id = NEW.id AND r.state = e.state AND r.token = e.token AND e.token = OLD.token + 1 AND r.config = e.config
                        AND r.source IS e.source AND r.target IS e.target AND r.store IS e.store);
END;
CREATE TRIGGER entity_delete BEFORE DELETE ON entity BEGIN SELECT RAISE(ABORT, 'entity: entities are never deleted: their history stays'); END;

-- ---- guards: history

CREATE TRIGGER history_insert BEFORE INSERT ON history BEGIN
  SELECT RAISE(ABORT, 'history: leave id out, it is given') WHERE NEW.id <> -1;
  SELECT RAISE(ABORT, 'history: rows are written by a move of an entity, never by hand')
   WHERE NOT EXISTS (
     SELECT 1 FROM entity e JOIN recorded r ON r.entity_id = e.id
      WHERE e.id = NEW.entity_id AND e.kind IS NEW.kind AND e.name IS NEW.name AND e.token IS NEW.token AND e.state IS NEW.to_state
        AND r.state IS NEW.from_state       -- goes on where the last row ended
        AND CASE WHEN r.config IS e.config AND r.source IS e.source AND r.target IS e.target AND r.store IS e.store
                 THEN NEW.from_state IS NOT NEW.to_state AND coalesce(NEW.config, NEW.source, NEW.target, NEW.store) IS NULL
                 ELSE NEW.config IS e.config AND NEW.source IS e.source AND NEW.target IS e.target AND NEW.store IS e.store END);
END;
CREATE TRIGGER history_inserted AFTER INSERT ON history BEGIN
  SELECT RAISE(ABORT, 'history: leave id out, it is given') WHERE NEW.id < 1;
END;
CREATE TRIGGER history_update BEFORE UPDATE ON history BEGIN SELECT RAISE(ABORT, 'history: append-only'); END;
CREATE TRIGGER history_delete BEFORE DELETE ON history BEGIN SELECT RAISE(ABORT, 'history: append-only'); END;
CREATE TRIGGER history_seal_insert BEFORE INSERT ON history_seal BEGIN
  SELECT RAISE(ABORT, 'history_seal: leave id out, it is given') WHERE NEW.id <> -1;
  SELECT RAISE(ABORT, 'history_seal: the engine seals, and only rows that are there and not sealed yet')
   WHERE NEW.upto IS NOT (SELECT max(h.id) FROM history h)
      OR NEW.upto <= (SELECT coalesce(max(s.upto), 0) FROM history_seal s)
      OR NEW.rows IS NOT (SELECT count(*) FROM history h WHERE h.id > (SELECT coalesce(max(s.upto), 0) FROM history_seal s))
      OR NOT coalesce(length(NEW.sha256) = 64 AND NEW.sha256 NOT GLOB '*[^0-9a-f]*', 0);
END;
CREATE TRIGGER history_seal_inserted AFTER INSERT ON history_seal BEGIN
  SELECT RAISE(ABORT, 'history_seal: leave id out, it is given') WHERE NEW.id < 1;
END;
CREATE TRIGGER history_seal_update BEFORE UPDATE ON history_seal BEGIN SELECT RAISE(ABORT, 'history_seal: append-only'); END;
CREATE TRIGGER history_seal_delete BEFORE DELETE ON history_seal BEGIN SELECT RAISE(ABORT, 'history_seal: append-only'); END;

-- ---- guards: requests and refusals are answered once and kept

CREATE TRIGGER request_insert BEFORE INSERT ON request BEGIN
  SELECT RAISE(ABORT, 'request: leave id out, it is given') WHERE NEW.id <> -1;
  SELECT RAISE(ABORT, 'request: no entity of that kind and name')
   WHERE NOT EXISTS (SELECT 1 FROM entity e WHERE e.kind = NEW.kind AND e.name = NEW.name);
  SELECT RAISE(ABORT, 'request: leave done_us and result out') WHERE NEW.done_us IS NOT NULL OR NEW.result IS NOT NULL;
END;
CREATE TRIGGER request_inserted AFTER INSERT ON request BEGIN
  SELECT RAISE(ABORT, 'request: leave id out, it is given') WHERE NEW.id < 1;
END;
CREATE TRIGGER request_update BEFORE UPDATE ON request BEGIN
  SELECT RAISE(ABORT, 'request: only done_us and result change, once')
   WHERE NEW.id IS NOT OLD.id OR NEW.at_us IS NOT OLD.at_us OR NEW.actor IS NOT OLD.actor OR NEW.kind IS NOT OLD.kind
      OR NEW.name IS NOT OLD.name OR NEW.verb IS NOT OLD.verb OR OLD.done_us IS NOT NULL;
END;
CREATE TRIGGER request_delete BEFORE DELETE ON request BEGIN SELECT RAISE(ABORT, 'request: kept for the record: set done_us to withdraw it'); END;
CREATE TRIGGER refusal_insert BEFORE INSERT ON refusal BEGIN
  SELECT RAISE(ABORT, 'refusal: leave id out, it is given') WHERE NEW.id <> -1;
  SELECT RAISE(ABORT, 'refusal: no such entity') WHERE NOT EXISTS (SELECT 1 FROM entity e WHERE e.id = NEW.entity_id);
END;
CREATE TRIGGER refusal_inserted AFTER INSERT ON refusal BEGIN
  SELECT RAISE(ABORT, 'refusal: leave id out, it is given') WHERE NEW.id < 1;
END;
CREATE TRIGGER refusal_update BEFORE UPDATE ON refusal BEGIN
  SELECT RAISE(ABORT, 'refusal: only cleared_us and cleared_by change, once')
   WHERE NEW.id IS NOT OLD.id OR NEW.entity_id IS NOT OLD.entity_id OR NEW.at_us IS NOT OLD.at_us OR NEW.class IS NOT OLD.class
      OR NEW.code IS NOT OLD.code OR NEW.marker IS NOT OLD.marker OR NEW.sub IS NOT OLD.sub OR NEW.restartable IS NOT OLD.restartable
      OR NEW.message IS NOT OLD.message OR NEW.hint IS NOT OLD.hint OR OLD.cleared_us IS NOT NULL;
END;
CREATE TRIGGER refusal_delete BEFORE DELETE ON refusal BEGIN SELECT RAISE(ABORT, 'refusal: kept for the record'); END;
