-- Statements the PostgreSQL driver sends to a target. {ctl} is the quoted control schema; everything else is qualified too, since the session's
-- search_path is empty. A write that must hit exactly one row divides by the number of rows it hit, so that a miss fails inside the server, before
-- the COMMIT that is already on its way.

--| name: target_default_ns
--| in:   out: current_schema TEXT
BEGIN; SET LOCAL search_path TO DEFAULT; SELECT pg_catalog.current_schema();

--| name: target_identity
--| in:   out: identity TEXT
SELECT 'postgres:' || s.system_identifier || ':' || d.oid
  FROM pg_catalog.pg_control_system() s, pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database();

--| name: target_control_format
--| in:   out: format INTEGER
SELECT max(format) FROM {ctl}.sluice_cdc_meta;

--| name: target_control_present
--| in: schema TEXT, tables TEXT   out: name TEXT
SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname = ANY (pg_catalog.string_to_array($2, ','));

--| name: target_schema_present
--| in: schema TEXT   out: present BOOL
SELECT true FROM pg_catalog.pg_namespace WHERE nspname = $1;

--| name: target_table_owner
--| in: schema TEXT, name TEXT   out: owner TEXT
SELECT pg_catalog.pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relname = $2;

--| name: target_control_lock
--| in:   out:
SELECT pg_catalog.pg_advisory_xact_lock(1936487779, pg_catalog.hashtext('{ctl}'));

--| name: target_control_create
--| in:   out:
CREATE TABLE IF NOT EXISTS {ctl}.sluice_cdc_meta(      -- format of these tables; one row
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    format integer NOT NULL);
CREATE TABLE IF NOT EXISTS {ctl}.sluice_cdc_state(     -- one row per stream: where it stands
    stream_id text COLLATE pg_catalog."C" PRIMARY KEY,
    lineage text NOT NULL, source_identity text NOT NULL, link_id text NOT NULL,
    seq bigint NOT NULL, epoch bigint NOT NULL, format integer NOT NULL,
    phase text NOT NULL, detail text NOT NULL, refusal text NOT NULL,
    stop_requested_at timestamp with time zone,
    updated_at timestamp with time zone NOT NULL);
CREATE TABLE IF NOT EXISTS {ctl}.sluice_cdc_lane(      -- everything up to seq is applied by this lane
    stream_id text COLLATE pg_catalog."C", lane integer, epoch bigint NOT NULL, route_epoch bigint NOT NULL, seq bigint NOT NULL,
    PRIMARY KEY (stream_id, lane));
CREATE TABLE IF NOT EXISTS {ctl}.sluice_cdc_copy(      -- chunks of a table's rows that a restore loaded
    stream_id text COLLATE pg_catalog."C", tbl bigint, chunks bigint NOT NULL, whole boolean NOT NULL, epoch bigint NOT NULL,
    PRIMARY KEY (stream_id, tbl));
CREATE TABLE IF NOT EXISTS {ctl}.sluice_cdc_route(     -- how changes are dealt to lanes since seq
    stream_id text COLLATE pg_catalog."C", route_epoch bigint, lanes integer NOT NULL, hash_version integer NOT NULL, seq bigint NOT NULL,
    rules text NOT NULL, PRIMARY KEY (stream_id, route_epoch));
CREATE TABLE IF NOT EXISTS {ctl}.sluice_cdc_ddl(       -- schema changes that were followed
    stream_id text COLLATE pg_catalog."C", seq bigint, tbl bigint, before_digest text NOT NULL, after_digest text NOT NULL,
    done boolean NOT NULL, PRIMARY KEY (stream_id, seq, tbl));
INSERT INTO {ctl}.sluice_cdc_meta(format) VALUES (1) ON CONFLICT DO NOTHING;

--| name: target_state_read
--| in: stream_id TEXT
--| out: stream_id TEXT, lineage TEXT, source_identity TEXT, link_id TEXT, seq INTEGER, epoch INTEGER, format INTEGER, phase TEXT
--| out: detail TEXT, stop_requested_us INTEGER, refusal TEXT, updated_us INTEGER
SELECT stream_id, lineage, source_identity, link_id, seq, epoch, format, phase, detail,
       CASE WHEN stop_requested_at IS NULL THEN 0 ELSE pg_catalog.date_part('epoch', pg_catalog.date_trunc('second', stop_requested_at))::bigint * 1000000 + pg_catalog.date_part('microseconds', stop_requested_at)::bigint % 1000000 END,
       refusal, pg_catalog.date_part('epoch', pg_catalog.date_trunc('second', updated_at))::bigint * 1000000 + pg_catalog.date_part('microseconds', updated_at)::bigint % 1000000
  FROM {ctl}.sluice_cdc_state WHERE $1::text IS NULL OR stream_id = $1::text ORDER BY stream_id;

--| name: target_state_write
--| in: stream_id TEXT, lineage TEXT, source_identity TEXT, link_id TEXT, seq INTEGER, epoch INTEGER, format INTEGER, phase TEXT
--| in: detail TEXT, refusal TEXT   out: updated_us INTEGER
INSERT INTO {ctl}.sluice_cdc_state AS s (stream_id, lineage, source_identity, link_id, seq, epoch, format, phase, detail, refusal, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, pg_catalog.clock_timestamp())
ON CONFLICT (stream_id) DO UPDATE SET lineage = excluded.lineage, source_identity = excluded.source_identity, link_id = excluded.link_id,
       seq = excluded.seq, format = excluded.format, phase = excluded.phase, detail = excluded.detail, refusal = excluded.refusal,
       updated_at = excluded.updated_at
 WHERE s.epoch = excluded.epoch
RETURNING pg_catalog.date_part('epoch', pg_catalog.date_trunc('second', updated_at))::bigint * 1000000 + pg_catalog.date_part('microseconds', updated_at)::bigint % 1000000;

--| name: target_stop_request
--| in: stream_id TEXT, us INTEGER   out:
UPDATE {ctl}.sluice_cdc_state
   SET stop_requested_at = CASE WHEN $2::bigint = 0 THEN NULL ELSE timestamptz 'epoch' + $2::bigint * interval '1 microsecond' END
 WHERE stream_id = $1;

--| name: target_polite_lock
--| in: stream_id TEXT   out: got BOOL
SELECT pg_catalog.pg_try_advisory_lock(1936487780, pg_catalog.hashtext('{ctl}' || ' ' || $1));

--| name: target_polite_holder
--| in: stream_id TEXT   out: pid INTEGER, client TEXT
SELECT l.pid, coalesce(pg_catalog.host(a.client_addr), 'a local socket')
  FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = 1936487780
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
   AND l.objid = pg_catalog.int8and(pg_catalog.hashtext('{ctl}' || ' ' || $1)::bigint, 4294967295)::oid;

--| name: target_takeover_wait
--| in: stream_id TEXT   out: lane INTEGER
SELECT lane FROM {ctl}.sluice_cdc_lane WHERE stream_id = $1 ORDER BY lane FOR UPDATE;

--| name: target_takeover_state
--| in: stream_id TEXT   out: stream_id TEXT
SELECT stream_id FROM {ctl}.sluice_cdc_state WHERE stream_id = $1 FOR UPDATE;

--| name: target_takeover_raise
--| in: stream_id TEXT   out: epoch INTEGER
UPDATE {ctl}.sluice_cdc_state SET epoch = epoch + 1, updated_at = pg_catalog.clock_timestamp() WHERE stream_id = $1 RETURNING epoch;

--| name: target_takeover_lanes
--| in: stream_id TEXT, epoch INTEGER   out:
UPDATE {ctl}.sluice_cdc_lane SET epoch = $2 WHERE stream_id = $1;

--| name: target_marks_read
--| in: stream_id TEXT   out: lane INTEGER, seq INTEGER
SELECT lane, seq FROM {ctl}.sluice_cdc_lane WHERE stream_id = $1 ORDER BY lane;

--| name: target_route_read
--| in: stream_id TEXT   out: route_epoch INTEGER, lanes INTEGER, hash_version INTEGER, seq INTEGER, rules TEXT, strangers INTEGER
-- The routing in force, and how many marks were not written under it.
SELECT r.route_epoch, r.lanes, r.hash_version, r.seq, r.rules,
       (SELECT count(*) FROM {ctl}.sluice_cdc_lane l WHERE l.stream_id = r.stream_id AND l.route_epoch <> r.route_epoch)
  FROM {ctl}.sluice_cdc_route r WHERE r.stream_id = $1 ORDER BY r.route_epoch DESC LIMIT 1;

--| name: target_route_strays
--| in: stream_id TEXT, epoch INTEGER, seq INTEGER   out: lane INTEGER, seq INTEGER
SELECT lane, seq FROM {ctl}.sluice_cdc_lane WHERE stream_id = $1 AND (epoch <> $2 OR seq <> $3) ORDER BY lane;

--| name: target_route_old
--| in: stream_id TEXT   out:
DELETE FROM {ctl}.sluice_cdc_route WHERE stream_id = $1;

--| name: target_route_new
--| in: stream_id TEXT, route_epoch INTEGER, lanes INTEGER, hash_version INTEGER, seq INTEGER, rules TEXT   out:
INSERT INTO {ctl}.sluice_cdc_route(stream_id, route_epoch, lanes, hash_version, seq, rules) VALUES ($1, $2, $3, $4, $5, $6);

--| name: target_route_lanes
--| in: stream_id TEXT, epoch INTEGER, route_epoch INTEGER, seq INTEGER, lanes INTEGER   out:
INSERT INTO {ctl}.sluice_cdc_lane AS l (stream_id, lane, epoch, route_epoch, seq)
SELECT $1, n, $2::bigint, $3::bigint, $4::bigint FROM pg_catalog.generate_series(0, $5::integer - 1) n
ON CONFLICT (stream_id, lane) DO UPDATE SET route_epoch = excluded.route_epoch;

--| name: target_route_beyond
--| in: stream_id TEXT, lanes INTEGER   out:
DELETE FROM {ctl}.sluice_cdc_lane WHERE stream_id = $1 AND lane >= $2::integer;

--| name: target_epoch_hold
--| in: stream_id TEXT, epoch INTEGER   out: held INTEGER
SELECT 1 FROM {ctl}.sluice_cdc_state WHERE stream_id = $1 AND epoch = $2 FOR KEY SHARE;

--| name: target_marks_clear_lane
--| in: stream_id TEXT   out:
DELETE FROM {ctl}.sluice_cdc_lane WHERE stream_id = $1;

--| name: target_marks_clear_copy
--| in: stream_id TEXT   out:
DELETE FROM {ctl}.sluice_cdc_copy WHERE stream_id = $1;

--| name: target_copy_read
--| in: stream_id TEXT, tbl INTEGER   out: chunks INTEGER, whole BOOL
SELECT chunks, whole FROM {ctl}.sluice_cdc_copy WHERE stream_id = $1 AND tbl = $2;

--| name: target_copy_mark
--| in: stream_id TEXT, tbl INTEGER, chunks INTEGER, whole BOOL, epoch INTEGER   out: tbl INTEGER
INSERT INTO {ctl}.sluice_cdc_copy AS c (stream_id, tbl, chunks, whole, epoch) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (stream_id, tbl) DO UPDATE SET chunks = excluded.chunks, whole = excluded.whole, epoch = excluded.epoch
 WHERE c.chunks <= excluded.chunks
RETURNING tbl;

--| name: target_lane_row
--| in: stream_id TEXT, lane INTEGER, epoch INTEGER, seq INTEGER   out: seq INTEGER
INSERT INTO {ctl}.sluice_cdc_lane AS l (stream_id, lane, epoch, route_epoch, seq) VALUES ($1, $2, $3, 0, $4)
ON CONFLICT (stream_id, lane) DO UPDATE SET epoch = excluded.epoch WHERE l.epoch <= excluded.epoch
RETURNING seq;

--| name: target_lane_mark
--| in: stream_id TEXT, lane INTEGER, epoch INTEGER, route_epoch INTEGER, seq INTEGER   out: one INTEGER
WITH u AS (UPDATE {ctl}.sluice_cdc_lane SET route_epoch = $4, seq = $5
            WHERE stream_id = $1 AND lane = $2 AND epoch = $3 AND seq <= $5 RETURNING 1)
SELECT 1 / pg_catalog.count(*)::integer FROM u;

--| name: target_lane_state
--| in: stream_id TEXT, epoch INTEGER, link_id TEXT, seq INTEGER   out: one INTEGER
WITH u AS (UPDATE {ctl}.sluice_cdc_state SET link_id = $3, seq = $4, updated_at = pg_catalog.clock_timestamp()
            WHERE stream_id = $1 AND epoch = $2 RETURNING 1)
SELECT 1 / pg_catalog.count(*)::integer FROM u;

--| name: target_lane_look
--| in: stream_id TEXT, lane INTEGER   out: epoch INTEGER, seq INTEGER
SELECT epoch, seq FROM {ctl}.sluice_cdc_lane WHERE stream_id = $1 AND lane = $2;

--| name: target_bind_table
--| in: ns TEXT, name TEXT   out: oid INTEGER, relkind TEXT, deferrable BOOL, user_triggers BOOL, fk BOOL
SELECT c.oid, c.relkind,
       EXISTS (SELECT 1 FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'x') AND k.condeferrable),
       EXISTS (SELECT 1 FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal AND g.tgenabled = 'O'),
       EXISTS (SELECT 1 FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND (k.conrelid = c.oid OR k.confrelid = c.oid))
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p');

--| name: target_bind_columns
--| in: oid INTEGER
--| out: attname TEXT, type_ns TEXT, type_name TEXT, base_oid INTEGER, native TEXT, identity TEXT, generated TEXT, equals TEXT
SELECT a.attname, tn.nspname, t.typname,
       CASE WHEN b.oid IS NULL THEN t.oid ELSE b.oid END,
       pg_catalog.format_type(a.atttypid, a.atttypmod), a.attidentity, a.attgenerated,
       (SELECT pg_catalog.format('OPERATOR(%I.%s)', pn.nspname, o.oprname)
          FROM pg_catalog.pg_opclass oc
          JOIN pg_catalog.pg_am am ON am.oid = oc.opcmethod AND am.amname = 'btree'
          JOIN pg_catalog.pg_amop ao ON ao.amopfamily = oc.opcfamily AND ao.amopstrategy = 3
           AND ao.amoplefttype = oc.opcintype AND ao.amoprighttype = oc.opcintype
          JOIN pg_catalog.pg_operator o ON o.oid = ao.amopopr
          JOIN pg_catalog.pg_namespace pn ON pn.oid = o.oprnamespace
         WHERE oc.opcdefault AND oc.opcintype = CASE WHEN b.oid IS NULL THEN t.oid ELSE b.oid END LIMIT 1),
       pg_catalog.quote_ident(fn.nspname) || '.' || pg_catalog.quote_ident(f.proname),
       CASE f.pronargs WHEN 1 THEN '' ELSE pg_catalog.format(', %s::pg_catalog.oid', CASE x.typelem WHEN 0 THEN x.oid ELSE x.typelem END) ||
         CASE f.pronargs WHEN 2 THEN '' ELSE ', -1' END END
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace
  LEFT JOIN LATERAL (
    WITH RECURSIVE d(oid, typtype, base) AS (
      SELECT t.oid, t.typtype, t.typbasetype
      UNION ALL SELECT x.oid, x.typtype, x.typbasetype FROM d JOIN pg_catalog.pg_type x ON x.oid = d.base WHERE d.typtype = 'd')
    SELECT d.oid FROM d WHERE d.typtype <> 'd') b ON t.typtype = 'd'
  -- text into these types is a function's work, which need not read what the type's own output wrote ('-' of regclass)
  LEFT JOIN pg_catalog.pg_cast k ON k.castsource = 'pg_catalog.text'::pg_catalog.regtype AND k.castmethod = 'f'
   AND k.casttarget = CASE WHEN b.oid IS NULL THEN t.oid ELSE b.oid END
  LEFT JOIN pg_catalog.pg_type x ON x.oid = k.casttarget
  LEFT JOIN pg_catalog.pg_proc f ON f.oid = x.typinput
  LEFT JOIN pg_catalog.pg_namespace fn ON fn.oid = f.pronamespace
 WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;

--| name: target_bind_unique
--| in: oid INTEGER, columns TEXT   out: deferrable BOOL
SELECT NOT i.indimmediate
  FROM pg_catalog.pg_index i
 WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
   AND (SELECT pg_catalog.array_agg(a.attname::text ORDER BY a.attname::text COLLATE pg_catalog."C") FROM pg_catalog.pg_attribute a
         WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])) = $2::text[]
 ORDER BY 1 LIMIT 1;

--| name: target_has_rows
--| in:   out: yes BOOL
SELECT EXISTS (SELECT 1 FROM {tbl});

--| name: target_fk_children
--| in: ns TEXT, name TEXT   out: ns TEXT, name TEXT, constraint TEXT
SELECT n.nspname, c.relname, k.conname
  FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_class p ON p.oid = k.confrelid JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
 WHERE k.contype = 'f' AND k.conparentid = 0 AND pn.nspname = $1 AND p.relname = $2 AND k.conrelid <> k.confrelid;

--| name: target_sequence_of
--| in: table TEXT, column TEXT   out: seq TEXT
SELECT pg_catalog.pg_get_serial_sequence($1, $2);

--| name: target_sequence_forward
--| in: seq TEXT, value INTEGER, called BOOL   out: value INTEGER
SELECT pg_catalog.setval($1::regclass, $2::bigint, $3::boolean) FROM {seq} s, pg_catalog.pg_sequence q
 WHERE q.seqrelid = $1::regclass
   AND CASE WHEN q.seqincrement > 0 THEN s.last_value < $2::bigint ELSE s.last_value > $2::bigint END
    OR q.seqrelid = $1::regclass AND s.last_value = $2::bigint AND NOT s.is_called AND $3::boolean;

--| name: target_sequence_set
--| in: seq TEXT, value INTEGER, called BOOL   out: value INTEGER
SELECT pg_catalog.setval($1::regclass, $2::bigint, $3::boolean);

--| name: target_type_def
--| in: ns TEXT, name TEXT   out: sql TEXT
-- The same texts as the source's catalogue makes of its types.
SELECT CASE t.typtype
         WHEN 'e' THEN pg_catalog.format('CREATE TYPE %I.%I AS ENUM (%s)', n.nspname, t.typname,
              COALESCE((SELECT string_agg(quote_literal(l.enumlabel), ', ' ORDER BY l.enumsortorder) FROM pg_catalog.pg_enum l WHERE l.enumtypid = t.oid), ''))
         WHEN 'd' THEN pg_catalog.format('CREATE DOMAIN %I.%I AS %s%s%s%s%s', n.nspname, t.typname, pg_catalog.format_type(t.typbasetype, t.typtypmod),
              CASE WHEN t.typcollation <> 0 AND t.typcollation <> b.typcollation THEN (SELECT format(' COLLATE %I.%I', cn.nspname, co.collname)
                   FROM pg_catalog.pg_collation co JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = t.typcollation) END,
              CASE WHEN t.typdefault IS NOT NULL THEN ' DEFAULT ' || COALESCE(pg_catalog.pg_get_expr(t.typdefaultbin, 0), quote_literal(t.typdefault)) END,
              CASE WHEN t.typnotnull THEN ' NOT NULL' END,
              (SELECT string_agg(format(' CONSTRAINT %I %s', k.conname, pg_catalog.pg_get_constraintdef(k.oid)), '' ORDER BY k.conname)
                 FROM pg_catalog.pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c'))
         WHEN 'c' THEN pg_catalog.format('CREATE TYPE %I.%I AS (%s)', n.nspname, t.typname,
              (SELECT string_agg(format('%I %s%s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
                      CASE WHEN a.attcollation <> 0 AND a.attcollation <> at.typcollation THEN (SELECT format(' COLLATE %I.%I', cn.nspname, co.collname)
                           FROM pg_catalog.pg_collation co JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation) END),
                      ', ' ORDER BY a.attnum)
                 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type at ON at.oid = a.atttypid
                WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped))
         WHEN 'r' THEN (SELECT pg_catalog.format('CREATE TYPE %I.%I AS RANGE (SUBTYPE = %s)', n.nspname, t.typname, pg_catalog.format_type(r.rngsubtype, NULL))
                          FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid)
       END
  FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype
 WHERE n.nspname = $1 AND t.typname = $2;

--| name: target_sequence_def
--| in: ns TEXT, name TEXT   out: sql TEXT
SELECT pg_catalog.format(' AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s%s', pg_catalog.format_type(s.seqtypid, NULL),
              s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, CASE WHEN s.seqcycle THEN ' CYCLE' ELSE ' NO CYCLE' END)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_sequence s ON s.seqrelid = c.oid
 WHERE n.nspname = $1 AND c.relname = $2;

--| name: target_relation_kind
--| in: ns TEXT, name TEXT   out: relkind TEXT
SELECT c.relkind FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2;

--| name: target_collation_present
--| in: ns TEXT, name TEXT   out: deterministic BOOL
SELECT c.collisdeterministic FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace
 WHERE n.nspname = $1 AND c.collname = $2 AND c.collencoding IN (-1, (SELECT encoding FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()));

--| name: target_identity_column
--| in: ns TEXT, name TEXT   out: attname TEXT
SELECT a.attname FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity <> '';

--| name: target_heirs
--| in: ns TEXT, name TEXT   out: ns TEXT, name TEXT
SELECT n.nspname, c.relname
  FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_class p ON p.oid = i.inhparent JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
 WHERE pn.nspname = $1 AND p.relname = $2 AND NOT c.relispartition AND c.relkind IN ('r', 'p');

--| name: target_partition_top
--| in: ns TEXT, name TEXT   out: ns TEXT, name TEXT
-- The table that columns of a partition, or of a partitioned table, come from; no row for any other table.
SELECT tn.nspname, t.relname
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1
  JOIN pg_catalog.pg_class t ON t.oid = CASE WHEN c.relispartition THEN pg_catalog.pg_partition_root(c.oid) ELSE c.oid END
  JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace
 WHERE c.relname = $2 AND (c.relispartition OR c.relkind = 'p');
