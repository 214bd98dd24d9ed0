-- What a SQLite target is told. The control tables lie in the target's own file and commit together with the rows they speak of.
-- stream_id is TEXT under BINARY, so that 'app' and 'App' are two streams.

--| name: target_control_create
CREATE TABLE IF NOT EXISTS sluice_cdc_meta(
  k TEXT NOT NULL PRIMARY KEY,
  v TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sluice_cdc_state(
  stream_id TEXT NOT NULL PRIMARY KEY COLLATE BINARY,
  lineage TEXT NOT NULL,
  source_identity TEXT NOT NULL,
  link_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  format INTEGER NOT NULL,
  phase TEXT NOT NULL,
  detail TEXT NOT NULL,
  stop_requested_us INTEGER NOT NULL DEFAULT 0,
  refusal TEXT NOT NULL DEFAULT '',
  updated_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sluice_cdc_lane(
  stream_id TEXT NOT NULL COLLATE BINARY,
  lane INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  route_epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY(stream_id, lane)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sluice_cdc_copy(
  stream_id TEXT NOT NULL COLLATE BINARY,
  tbl INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  whole INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY(stream_id, tbl)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sluice_cdc_ddl(
  stream_id TEXT NOT NULL COLLATE BINARY,
  seq INTEGER NOT NULL,
  before_digest TEXT NOT NULL,
  after_digest TEXT NOT NULL,
  done INTEGER NOT NULL,
  PRIMARY KEY(stream_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sluice_cdc_route(
  stream_id TEXT NOT NULL COLLATE BINARY,
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  lanes INTEGER NOT NULL,
  routing TEXT NOT NULL,
  PRIMARY KEY(stream_id, epoch)
) STRICT, WITHOUT ROWID;

--| name: target_control_there
--| out: n INTEGER
SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = 'sluice_cdc_state';

--| name: target_meta_there
--| out: n INTEGER
SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = 'sluice_cdc_meta';

--| name: target_meta_get
--| in: k TEXT   out: v TEXT
SELECT v FROM main.sluice_cdc_meta WHERE k = :k;

--| name: target_meta_put
--| in: k TEXT, v TEXT
INSERT INTO main.sluice_cdc_meta(k, v) VALUES(:k, :v) ON CONFLICT(k) DO NOTHING;

--| name: target_state_read
--| in: stream_id TEXT
--| out: stream_id TEXT, lineage TEXT, source_identity TEXT, link_id TEXT, seq INTEGER, epoch INTEGER, format INTEGER, phase TEXT, detail TEXT, stop_requested_us INTEGER, refusal TEXT, updated_us INTEGER
SELECT stream_id, lineage, source_identity, link_id, seq, epoch, format, phase, detail, stop_requested_us, refusal, updated_us
FROM main.sluice_cdc_state WHERE stream_id = :stream_id;

--| name: target_state_list
--| out: stream_id TEXT, lineage TEXT, source_identity TEXT, link_id TEXT, seq INTEGER, epoch INTEGER, format INTEGER, phase TEXT, detail TEXT, stop_requested_us INTEGER, refusal TEXT, updated_us INTEGER
SELECT stream_id, lineage, source_identity, link_id, seq, epoch, format, phase, detail, stop_requested_us, refusal, updated_us
FROM main.sluice_cdc_state ORDER BY stream_id;

--| name: target_state_insert
--| in: stream_id TEXT, lineage TEXT, source_identity TEXT, link_id TEXT, seq INTEGER, epoch INTEGER, format INTEGER, phase TEXT, detail TEXT, refusal TEXT, updated_us INTEGER
INSERT INTO main.sluice_cdc_state(stream_id, lineage, source_identity, link_id, seq, epoch, format, phase, detail, refusal, updated_us)
VALUES(:stream_id, :lineage, :source_identity, :link_id, :seq, :epoch, :format, :phase, :detail, :refusal, :updated_us)
ON CONFLICT(stream_id) DO NOTHING;

--| name: target_state_update
--| in: stream_id TEXT, lineage TEXT, source_identity TEXT, link_id TEXT, seq INTEGER, epoch INTEGER, format INTEGER, phase TEXT, detail TEXT, refusal TEXT, updated_us INTEGER
UPDATE main.sluice_cdc_state SET lineage = :lineage, source_identity = :source_identity, link_id = :link_id, seq = :seq, format = :format,
  phase = :phase, detail = :detail, refusal = :refusal, updated_us = :updated_us
WHERE stream_id = :stream_id AND epoch = :epoch;

--| name: target_state_epoch
--| in: stream_id TEXT   out: epoch INTEGER
SELECT epoch FROM main.sluice_cdc_state WHERE stream_id = :stream_id;

--| name: target_state_raise
--| in: stream_id TEXT
UPDATE main.sluice_cdc_state SET epoch = 1 + max(epoch, (SELECT coalesce(max(l.epoch), 0) FROM main.sluice_cdc_lane l WHERE l.stream_id = :stream_id))
WHERE stream_id = :stream_id;

--| name: target_lanes_raise
--| in: stream_id TEXT
UPDATE main.sluice_cdc_lane SET epoch = (SELECT s.epoch FROM main.sluice_cdc_state s WHERE s.stream_id = :stream_id)
WHERE stream_id = :stream_id;

--| name: target_stop_request
--| in: stream_id TEXT, us INTEGER
UPDATE main.sluice_cdc_state SET stop_requested_us = :us WHERE stream_id = :stream_id;

--| name: target_state_follow
--| in: stream_id TEXT, link_id TEXT, seq INTEGER, epoch INTEGER, updated_us INTEGER
UPDATE main.sluice_cdc_state SET link_id = :link_id, seq = :seq, updated_us = :updated_us WHERE stream_id = :stream_id AND epoch = :epoch;

--| name: target_lanes_read
--| in: stream_id TEXT   out: lane INTEGER, seq INTEGER
SELECT lane, seq FROM main.sluice_cdc_lane WHERE stream_id = :stream_id ORDER BY lane;

--| name: target_lanes_clear
--| in: stream_id TEXT
DELETE FROM main.sluice_cdc_lane WHERE stream_id = :stream_id;

--| name: target_copy_clear
--| in: stream_id TEXT
DELETE FROM main.sluice_cdc_copy WHERE stream_id = :stream_id;

--| name: target_lane_open
--| in: stream_id TEXT, lane INTEGER, epoch INTEGER, seq INTEGER
INSERT INTO main.sluice_cdc_lane(stream_id, lane, epoch, route_epoch, seq) VALUES(:stream_id, :lane, :epoch, 0, :seq)
ON CONFLICT(stream_id, lane) DO UPDATE SET epoch = excluded.epoch;

--| name: target_lane_mark
--| in: stream_id TEXT, lane INTEGER, epoch INTEGER, route_epoch INTEGER, seq INTEGER, rows INTEGER
UPDATE main.sluice_cdc_lane SET route_epoch = :route_epoch, seq = :seq
WHERE stream_id = :stream_id AND lane = :lane AND epoch = :epoch AND seq + :rows <= :seq;

--| name: target_lane_read
--| in: stream_id TEXT, lane INTEGER   out: epoch INTEGER, seq INTEGER
SELECT epoch, seq FROM main.sluice_cdc_lane WHERE stream_id = :stream_id AND lane = :lane;

--| name: target_copy_read
--| in: stream_id TEXT, tbl INTEGER   out: chunks INTEGER, whole INTEGER
SELECT chunks, whole FROM main.sluice_cdc_copy WHERE stream_id = :stream_id AND tbl = :tbl;

--| name: target_copy_mark
--| in: stream_id TEXT, tbl INTEGER, chunks INTEGER, whole INTEGER, epoch INTEGER
INSERT INTO main.sluice_cdc_copy(stream_id, tbl, chunks, whole, epoch) VALUES(:stream_id, :tbl, :chunks, :whole, :epoch)
ON CONFLICT(stream_id, tbl) DO UPDATE SET chunks = excluded.chunks, whole = excluded.whole, epoch = excluded.epoch;

--| name: target_object_kind
--| in: name TEXT   out: type TEXT, tbl_name TEXT, sql TEXT
SELECT type, tbl_name, sql FROM main.sqlite_schema WHERE name = :name COLLATE NOCASE AND type IN ('table', 'index', 'view') ORDER BY type = 'table' DESC;

--| name: target_table_captured
--| in: name TEXT   out: name TEXT
SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = :name COLLATE NOCASE AND name LIKE 'sluice\_%' ESCAPE '\' LIMIT 1;

--| name: target_table_extras
--| in: name TEXT   out: type TEXT, name TEXT, sql TEXT
SELECT type, name, sql FROM main.sqlite_schema WHERE type IN ('index', 'trigger') AND tbl_name = :name COLLATE NOCASE AND sql IS NOT NULL ORDER BY type, name;

--| name: target_sequence_there
--| out: n INTEGER
SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = 'sqlite_sequence';

--| name: target_sequence_table
--| in: name TEXT   out: n INTEGER
SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = :name COLLATE NOCASE AND sql LIKE '%AUTOINCREMENT%';

--| name: target_sequence_forward
--| in: name TEXT, value INTEGER
UPDATE main.sqlite_sequence SET seq = max(coalesce(seq, 0), :value) WHERE name = :name COLLATE NOCASE;

--| name: target_sequence_insert
--| in: name TEXT, value INTEGER
INSERT INTO main.sqlite_sequence(name, seq) SELECT name, :value FROM main.sqlite_schema WHERE type = 'table' AND name = :name COLLATE NOCASE;

--| name: target_sequence_restart
--| in: name TEXT
DELETE FROM main.sqlite_sequence WHERE name = :name COLLATE NOCASE;

--| name: target_sequence_read
--| in: name TEXT   out: seq INTEGER
SELECT seq FROM main.sqlite_sequence WHERE name = :name COLLATE NOCASE;
