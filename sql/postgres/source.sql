-- Statements the PostgreSQL driver sends: sessions, catalogue, slots. Written for an empty search_path, so everything is qualified.

--| name: session_pin
--| in:   out: set_config TEXT
SELECT pg_catalog.set_config(s.name, v.value, false)
  FROM (VALUES ('client_encoding', 'UTF8'), ('DateStyle', 'ISO, YMD'), ('TimeZone', 'UTC'), ('IntervalStyle', 'postgres'), ('bytea_output', 'hex'),
               ('extra_float_digits', '3'), ('lc_monetary', 'C'), ('xmlbinary', 'base64'), ('xmloption', 'content'), ('array_nulls', 'on'),
               ('search_path', ''), ('quote_all_identifiers', 'off'), ('standard_conforming_strings', 'on'), ('row_security', 'off'),
               ('synchronous_commit', 'on'), ('default_transaction_isolation', 'read committed'), ('default_transaction_deferrable', 'off'),
               ('statement_timeout', '0'), ('lock_timeout', '0'), ('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'),
               ('transaction_timeout', '0'), ('wal_sender_timeout', '120s'), ('application_name', 'sluice')) v(name, value)
  JOIN pg_catalog.pg_settings s ON s.name = v.name;

--| name: shape_tables
--| in: oids TEXT   out: oid INTEGER, ns TEXT, name TEXT, kind TEXT, replident TEXT, options TEXT
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relreplident,
       NULLIF(concat_ws(' ',
         CASE WHEN c.relispartition THEN (SELECT format('PARTITION OF %I.%I %s', pn.nspname, p.relname, pg_catalog.pg_get_expr(c.relpartbound, c.oid))
                                           FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
                                           JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace WHERE i.inhrelid = c.oid)
              ELSE (SELECT 'INHERITS (' || string_agg(format('%I.%I', pn.nspname, p.relname), ', ' ORDER BY i.inhseqno) || ')'
                      FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
                      JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace WHERE i.inhrelid = c.oid) END,
         CASE WHEN c.relkind = 'p' THEN 'PARTITION BY ' || pg_catalog.pg_get_partkeydef(c.oid) END), '')
  FROM unnest($1::pg_catalog.int8[]) WITH ORDINALITY w(oid, at)
  JOIN pg_catalog.pg_class c ON c.oid = w.oid::pg_catalog.oid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p')
 ORDER BY w.at;

--| name: shape_columns
--| in: oids TEXT   out: relid INTEGER, attnum INTEGER, name TEXT, native TEXT, typmod INTEGER, not_null INTEGER, identity TEXT, generated TEXT, expr TEXT, type_oid INTEGER, base_oid INTEGER, base_typmod INTEGER, base_name TEXT, base_kind TEXT, base_builtin INTEGER, elem_oid INTEGER, elem_name TEXT, elem_kind TEXT, elem_builtin INTEGER, collation TEXT, deterministic INTEGER, dropped INTEGER
-- Dropped columns come too: their numbers are evidence. The base type is what a chain of domains ends at.
SELECT a.attrelid, a.attnum, a.attname, CASE WHEN NOT a.attisdropped THEN pg_catalog.format_type(a.atttypid, a.atttypmod) END, a.atttypmod, a.attnotnull,
       a.attidentity, a.attgenerated, pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.atttypid, bt.oid, base.typmod, bt.typname, bt.typtype, bt.typnamespace = 11,
       el.oid, el.typname, el.typtype, el.typnamespace = 11,
       CASE WHEN a.attcollation <> 0 AND a.attcollation <> bt.typcollation THEN format('%I.%I', cn.nspname, co.collname) END, COALESCE(co.collisdeterministic, true),
       a.attisdropped
  FROM pg_catalog.pg_attribute a
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  LEFT JOIN LATERAL (
       WITH RECURSIVE w(oid, typmod, depth) AS (
         SELECT a.atttypid, a.atttypmod, 0
         UNION ALL
         SELECT t.typbasetype, t.typtypmod, w.depth + 1 FROM w JOIN pg_catalog.pg_type t ON t.oid = w.oid WHERE t.typtype = 'd')
       SELECT w.oid, w.typmod FROM w ORDER BY w.depth DESC LIMIT 1) base ON true
  LEFT JOIN pg_catalog.pg_type bt ON bt.oid = base.oid
  LEFT JOIN pg_catalog.pg_type el ON el.oid = bt.typelem AND el.typarray = bt.oid
  LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
  LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
 WHERE a.attrelid = ANY ($1::pg_catalog.int8[]::pg_catalog.oid[]) AND a.attnum > 0
 ORDER BY a.attrelid, a.attnum;

--| name: shape_indexes
--| in: oids TEXT   out: relid INTEGER, name TEXT, prim INTEGER, uniq INTEGER, immediate INTEGER, cols TEXT, nkeys INTEGER, partial INTEGER, expression INTEGER, nulls_not_distinct INTEGER, replident INTEGER, def TEXT, contype TEXT, condef TEXT, deferrable INTEGER, deferred INTEGER, nondet TEXT
SELECT i.indrelid, ic.relname, i.indisprimary, i.indisunique, i.indimmediate, i.indkey::pg_catalog.text, i.indnkeyatts, i.indpred IS NOT NULL, i.indexprs IS NOT NULL,
       COALESCE((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::pg_catalog.bool, false), i.indisreplident, pg_catalog.pg_get_indexdef(i.indexrelid),
       con.contype, pg_catalog.pg_get_constraintdef(con.oid), COALESCE(con.condeferrable, false), COALESCE(con.condeferred, false),
       (SELECT string_agg(CASE WHEN co.collisdeterministic IS FALSE THEN 't' ELSE 'f' END, '' ORDER BY u.at)
          FROM unnest(i.indcollation::pg_catalog.oid[]) WITH ORDINALITY u(oid, at) LEFT JOIN pg_catalog.pg_collation co ON co.oid = u.oid)
  FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_class ic ON ic.oid = i.indexrelid
  LEFT JOIN pg_catalog.pg_constraint con ON con.conindid = i.indexrelid AND con.conrelid = i.indrelid AND con.contype IN ('p', 'u', 'x')
 WHERE i.indrelid = ANY ($1::pg_catalog.int8[]::pg_catalog.oid[]) AND i.indisvalid AND i.indislive
 ORDER BY i.indrelid, i.indisprimary DESC, i.indisunique DESC, ic.relname;

--| name: shape_constraints
--| in: oids TEXT   out: relid INTEGER, name TEXT, contype TEXT, cols TEXT, def TEXT, deferrable INTEGER, deferred INTEGER, ref_ns TEXT, ref_table TEXT, ref_cols TEXT, on_delete TEXT, on_update TEXT
-- A foreign key to a partitioned table stands once more for each partition, and one of a partitioned table once more in each: those have a parent.
SELECT con.conrelid, con.conname, con.contype, array_to_string(con.conkey, ' '), pg_catalog.pg_get_constraintdef(con.oid), con.condeferrable, con.condeferred,
       rn.nspname, rc.relname,
       (SELECT string_agg(encode(pg_catalog.convert_to(a.attname, 'UTF8'), 'hex'), ' ' ORDER BY k.at) FROM unnest(con.confkey) WITH ORDINALITY k(num, at)
          JOIN pg_catalog.pg_attribute a ON a.attrelid = con.confrelid AND a.attnum = k.num),
       CASE con.confdeltype WHEN 'a' THEN 'NO ACTION' WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' END,
       CASE con.confupdtype WHEN 'a' THEN 'NO ACTION' WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' END
  FROM pg_catalog.pg_constraint con
  LEFT JOIN pg_catalog.pg_class rc ON rc.oid = con.confrelid
  LEFT JOIN pg_catalog.pg_namespace rn ON rn.oid = rc.relnamespace
 WHERE con.conrelid = ANY ($1::pg_catalog.int8[]::pg_catalog.oid[]) AND (con.contype = 'c' OR con.contype = 'f' AND con.conparentid = 0)
 ORDER BY con.conrelid, con.contype, con.conname;

--| name: table_find
--| in: ns TEXT, name TEXT   out: oid INTEGER
SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p');

--| name: catalog_tables
--| in:   out: oid INTEGER, ns TEXT, name TEXT, kind TEXT, persistence TEXT, replident TEXT, partition INTEGER, rls INTEGER, selectable INTEGER, usable INTEGER, owned INTEGER, owner TEXT, extension TEXT, policies INTEGER, triggers INTEGER, rules INTEGER, grants INTEGER, root_ns TEXT, root_name TEXT
-- Parents before their partitions and children, so that a restore finds them.
WITH RECURSIVE tree(oid, depth) AS (
  SELECT c.oid, 0 FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'p') AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid)
  UNION
  SELECT i.inhrelid, t.depth + 1 FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid WHERE t.depth < 100)
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident, c.relispartition, pg_catalog.row_security_active(c.oid),
       pg_catalog.has_table_privilege(c.oid, 'SELECT'), pg_catalog.has_schema_privilege(n.oid, 'USAGE'), pg_catalog.pg_has_role(c.relowner, 'USAGE'),
       pg_catalog.pg_get_userbyid(c.relowner),
       (SELECT x.extname FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension x ON x.oid = d.refobjid
         WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
           AND d.deptype = 'e' LIMIT 1),
       (SELECT count(*) FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid),
       (SELECT count(*) FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal),
       (SELECT count(*) FROM pg_catalog.pg_rewrite w WHERE w.ev_class = c.oid), c.relacl IS NOT NULL, rn.nspname, rc.relname
  FROM pg_catalog.pg_class c
  LEFT JOIN pg_catalog.pg_class rc ON rc.oid = pg_catalog.pg_partition_root(c.oid::pg_catalog.regclass)
  LEFT JOIN pg_catalog.pg_namespace rn ON rn.oid = rc.relnamespace
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN (SELECT t.oid, max(t.depth) AS depth FROM tree t GROUP BY t.oid) t ON t.oid = c.oid
 WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
 ORDER BY COALESCE(t.depth, 0), n.nspname, c.relname;

--| name: catalog_types
--| in: oids TEXT   out: ns TEXT, name TEXT, sql TEXT, extension TEXT
-- The types that the tables' columns use, what others are made of first.
WITH RECURSIVE used(oid, depth) AS (
  SELECT a.atttypid, 0 FROM pg_catalog.pg_attribute a
   WHERE a.attrelid = ANY ($1::pg_catalog.int8[]::pg_catalog.oid[]) AND a.attnum > 0 AND NOT a.attisdropped
  UNION
  SELECT x.oid, u.depth + 1
    FROM used u JOIN pg_catalog.pg_type t ON t.oid = u.oid
   CROSS JOIN LATERAL (
         SELECT t.typelem WHERE t.typelem <> 0
         UNION ALL SELECT t.typbasetype WHERE t.typtype = 'd'
         UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
         UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid
         UNION ALL SELECT r.rngtypid FROM pg_catalog.pg_range r WHERE t.typtype = 'm' AND pg_catalog.to_jsonb(r) ->> 'rngmultitypid' = t.oid::pg_catalog.text) x(oid)
   WHERE u.depth < 20)
SELECT n.nspname, t.typname,
       CASE t.typtype
         WHEN 'e' THEN format('CREATE TYPE %I.%I AS ENUM (%s)', n.nspname, t.typname,
              COALESCE((SELECT string_agg(quote_literal(l.enumlabel), ', ' ORDER BY l.enumsortorder) FROM pg_catalog.pg_enum l WHERE l.enumtypid = t.oid), ''))
         WHEN 'd' THEN format('CREATE DOMAIN %I.%I AS %s%s%s%s%s', n.nspname, t.typname, pg_catalog.format_type(t.typbasetype, t.typtypmod),
              CASE WHEN t.typcollation <> 0 AND t.typcollation <> b.typcollation THEN (SELECT format(' COLLATE %I.%I', cn.nspname, co.collname)
                   FROM pg_catalog.pg_collation co JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = t.typcollation) END,
              CASE WHEN t.typdefault IS NOT NULL THEN ' DEFAULT ' || COALESCE(pg_catalog.pg_get_expr(t.typdefaultbin, 0), quote_literal(t.typdefault)) END,
              CASE WHEN t.typnotnull THEN ' NOT NULL' END,
              (SELECT string_agg(format(' CONSTRAINT %I %s', k.conname, pg_catalog.pg_get_constraintdef(k.oid)), '' ORDER BY k.conname)
                 FROM pg_catalog.pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c'))
         WHEN 'c' THEN format('CREATE TYPE %I.%I AS (%s)', n.nspname, t.typname,
              (SELECT string_agg(format('%I %s%s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
                      CASE WHEN a.attcollation <> 0 AND a.attcollation <> at.typcollation THEN (SELECT format(' COLLATE %I.%I', cn.nspname, co.collname)
                           FROM pg_catalog.pg_collation co JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation) END),
                      ', ' ORDER BY a.attnum)
                 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type at ON at.oid = a.atttypid
                WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped))
         WHEN 'r' THEN (SELECT format('CREATE TYPE %I.%I AS RANGE (SUBTYPE = %s)', n.nspname, t.typname, pg_catalog.format_type(r.rngsubtype, NULL))
                          FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid)
       END,
       (SELECT format('CREATE EXTENSION IF NOT EXISTS %I WITH SCHEMA %I', x.extname, xn.nspname)
          FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension x ON x.oid = d.refobjid JOIN pg_catalog.pg_namespace xn ON xn.oid = x.extnamespace
         WHERE d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.objid = t.oid
           AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.deptype = 'e' LIMIT 1)
  FROM (SELECT u.oid, max(u.depth) AS depth FROM used u GROUP BY u.oid) u
  JOIN pg_catalog.pg_type t ON t.oid = u.oid
  JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype
  LEFT JOIN pg_catalog.pg_class tc ON tc.oid = t.typrelid
 WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND NOT (t.typelem <> 0 AND t.typlen = -1 AND t.typtype = 'b')
   AND (t.typtype <> 'c' OR tc.relkind = 'c')
 ORDER BY u.depth DESC, t.oid;

--| name: catalog_collations
--| in: oids TEXT   out: ns TEXT, name TEXT, sql TEXT
SELECT n.nspname, c.collname,
       format('CREATE COLLATION %I.%I (PROVIDER = %s, %s%s)', n.nspname, c.collname, CASE c.collprovider WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END,
         CASE WHEN c.collprovider = 'c' THEN format('LC_COLLATE = %L, LC_CTYPE = %L', c.collcollate, c.collctype)
              ELSE format('LOCALE = %L', COALESCE(pg_catalog.to_jsonb(c) ->> 'colllocale', pg_catalog.to_jsonb(c) ->> 'colliculocale', c.collcollate::pg_catalog.text)) END,
         CASE WHEN NOT c.collisdeterministic THEN ', DETERMINISTIC = false' END)
  FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace
 WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
   AND EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a WHERE a.attrelid = ANY ($1::pg_catalog.int8[]::pg_catalog.oid[]) AND a.attcollation = c.oid AND NOT a.attisdropped)
 ORDER BY c.oid;

--| name: catalog_sequences
--| in: oids TEXT   out: oid INTEGER, ns TEXT, name TEXT, owner_ns TEXT, owner_table TEXT, owner_column TEXT, captured INTEGER, identity INTEGER, sql TEXT, selectable INTEGER, plain INTEGER
-- Sequences and whom they belong to. captured: owned by a column of the tables, or its default.
SELECT c.oid, n.nspname, c.relname, dn.nspname, dc.relname, da.attname,
       COALESCE(d.refobjid = ANY ($1::pg_catalog.int8[]::pg_catalog.oid[]), false) OR EXISTS (
         SELECT 1 FROM pg_catalog.pg_depend x JOIN pg_catalog.pg_attrdef ad ON ad.oid = x.objid
          WHERE x.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND x.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND x.refobjid = c.oid
            AND ad.adrelid = ANY ($1::pg_catalog.int8[]::pg_catalog.oid[])),
       COALESCE(d.deptype = 'i', false),
       format('CREATE SEQUENCE %I.%I AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s%s', n.nspname, c.relname,
              pg_catalog.format_type(s.seqtypid, NULL), s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, CASE WHEN s.seqcycle THEN ' CYCLE' ELSE ' NO CYCLE' END),
       pg_catalog.has_sequence_privilege(c.oid, 'SELECT') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
       s.seqincrement = 1 AND s.seqmin = 1 AND s.seqstart = 1 AND s.seqcache = 1 AND NOT s.seqcycle AND s.seqmax IN (32767, 2147483647, 9223372036854775807)
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_sequence s ON s.seqrelid = c.oid
  LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.objsubid = 0
        AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')
  LEFT JOIN pg_catalog.pg_class dc ON dc.oid = d.refobjid
  LEFT JOIN pg_catalog.pg_namespace dn ON dn.oid = dc.relnamespace
  LEFT JOIN pg_catalog.pg_attribute da ON da.attrelid = d.refobjid AND da.attnum = d.refobjsubid
 WHERE c.relkind = 'S' AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
   AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend x WHERE x.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND x.objid = c.oid AND x.deptype = 'e')
 ORDER BY n.nspname, c.relname;

--| name: catalog_left_out
--| in:   out: what TEXT, n INTEGER, names TEXT
-- What a chain does not carry, by kind, with some names.
WITH user_ns AS (SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'),
things(what, name) AS (
  SELECT CASE c.relkind WHEN 'v' THEN 'views' WHEN 'm' THEN 'materialized views' ELSE 'foreign tables' END, n.nspname || '.' || c.relname
    FROM pg_catalog.pg_class c JOIN user_ns n ON n.oid = c.relnamespace
   WHERE c.relkind IN ('v', 'm', 'f')
     AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'e')
  UNION ALL
  SELECT 'functions', n.nspname || '.' || p.proname FROM pg_catalog.pg_proc p JOIN user_ns n ON n.oid = p.pronamespace
   WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype IN ('e', 'i'))
  UNION ALL
  SELECT 'triggers', n.nspname || '.' || c.relname || '.' || g.tgname
    FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid JOIN user_ns n ON n.oid = c.relnamespace WHERE NOT g.tgisinternal
  UNION ALL
  SELECT 'rules', n.nspname || '.' || c.relname || '.' || w.rulename
    FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_class c ON c.oid = w.ev_class JOIN user_ns n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')
  UNION ALL
  SELECT 'row security policies', n.nspname || '.' || c.relname || '.' || p.polname
    FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class c ON c.oid = p.polrelid JOIN user_ns n ON n.oid = c.relnamespace
  UNION ALL
  SELECT 'grants', n.nspname || '.' || c.relname FROM pg_catalog.pg_class c JOIN user_ns n ON n.oid = c.relnamespace
   WHERE c.relkind IN ('r', 'p', 'S') AND c.relacl IS NOT NULL
  UNION ALL SELECT 'event triggers', v.evtname FROM pg_catalog.pg_event_trigger v
  UNION ALL SELECT 'publications', p.pubname FROM pg_catalog.pg_publication p WHERE p.pubname IS DISTINCT FROM $1)
SELECT t.what, count(*), string_agg(t.name, ', ' ORDER BY t.name) FILTER (WHERE t.at <= 5)
  FROM (SELECT what, name, row_number() OVER (PARTITION BY what ORDER BY name) AS at FROM things) t GROUP BY t.what
 UNION ALL SELECT 'large objects', count(*), '' FROM pg_catalog.pg_largeobject_metadata HAVING count(*) > 0
 ORDER BY 1;

--| name: source_facts
--| in: slot TEXT   out: wal_level TEXT, replication INTEGER, superuser INTEGER, can_create INTEGER, role TEXT, db TEXT, slots_free INTEGER, senders_free INTEGER, slot_there INTEGER, encoding TEXT, recovery INTEGER, db_oid INTEGER, publication_there INTEGER
SELECT current_setting('wal_level'), r.rolreplication, r.rolsuper, pg_catalog.has_database_privilege(d.oid, 'CREATE'), r.rolname, d.datname,
       current_setting('max_replication_slots')::pg_catalog.int8 - (SELECT count(*) FROM pg_catalog.pg_replication_slots),
       current_setting('max_wal_senders')::pg_catalog.int8 - (SELECT count(*) FROM pg_catalog.pg_stat_get_wal_senders()),
       EXISTS (SELECT 1 FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = $1), current_setting('server_encoding'), pg_catalog.pg_is_in_recovery(), d.oid,
       EXISTS (SELECT 1 FROM pg_catalog.pg_publication p WHERE p.pubname = $1)
  FROM pg_catalog.pg_database d, pg_catalog.pg_roles r WHERE d.datname = current_database() AND r.rolname = current_user;

--| name: source_identity
--| in:   out: identity TEXT
SELECT 'postgres:' || (SELECT s.system_identifier FROM pg_catalog.pg_control_system() s) || ':' ||
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN (SELECT k.timeline_id FROM pg_catalog.pg_control_checkpoint() k)
            ELSE ('x' || substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::pg_catalog.bit(32)::pg_catalog.int4 END || ':' ||
       (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database());

--| name: source_end
--| in:   out: lsn TEXT
SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END;

--| name: slot_row
--| in: slot TEXT   out: plugin TEXT, here INTEGER, db TEXT, active_pid INTEGER, temporary INTEGER, two_phase INTEGER, confirmed TEXT, restart TEXT, status TEXT, retained INTEGER, keep_bytes INTEGER, safe INTEGER, type TEXT
SELECT s.plugin, s.database = current_database(), s.database, s.active_pid, s.temporary, COALESCE((pg_catalog.to_jsonb(s) ->> 'two_phase')::pg_catalog.bool, false),
       s.confirmed_flush_lsn, s.restart_lsn,
       CASE WHEN pg_catalog.to_jsonb(s) ->> 'invalidation_reason' IS NOT NULL THEN 'lost' ELSE s.wal_status END,
       CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN (pg_catalog.pg_current_wal_lsn() - s.restart_lsn)::pg_catalog.int8 END,
       CASE WHEN current_setting('max_slot_wal_keep_size') = '-1' THEN -1 ELSE pg_catalog.pg_size_bytes(current_setting('max_slot_wal_keep_size')) END,
       s.safe_wal_size, s.slot_type
  FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = $1;

--| name: publication_row
--| in: name TEXT   out: all_tables INTEGER, whole INTEGER, root INTEGER, oids TEXT, filtered INTEGER
-- whole: all four operations. oids: the tables it lists, sorted. filtered: one of them with a row filter or a column list.
SELECT p.puballtables, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate, p.pubviaroot,
       COALESCE((SELECT string_agg(r.prrelid::pg_catalog.text, ',' ORDER BY r.prrelid) FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid), ''),
       EXISTS (SELECT 1 FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid
                  AND (pg_catalog.to_jsonb(r) ->> 'prqual' IS NOT NULL OR pg_catalog.to_jsonb(r) ->> 'prattrs' IS NOT NULL))
  FROM pg_catalog.pg_publication p WHERE p.pubname = $1;

--| name: publication_owned
--| in: name TEXT   out: ours INTEGER
SELECT pg_catalog.pg_has_role(p.pubowner, 'USAGE') FROM pg_catalog.pg_publication p WHERE p.pubname = $1;

--| name: publication_missing
--| in: name TEXT, oids TEXT   out: ns TEXT, name TEXT
-- Of the tables (by oid) those that are still there and hold rows but are not published.
SELECT n.nspname, c.relname
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = ANY ($2::pg_catalog.int8[]::pg_catalog.oid[]) AND c.relkind = 'r'
   AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_get_publication_tables($1) t WHERE t.relid = c.oid)
 ORDER BY 1, 2;

--| name: remade_table
--| in: oids TEXT, names TEXT   out: name TEXT
-- Of the tables known by oid and (qualified, quoted) name those that are gone while another table has the name.
SELECT w.name FROM unnest($1::pg_catalog.int8[], $2::pg_catalog.text[]) w(oid, name)
 WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid = w.oid::pg_catalog.oid)
   AND EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass(w.name) AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p')
 LIMIT 1;

--| name: unidentified_tables
--| in: name TEXT   out: ns TEXT, name TEXT
-- Published tables whose rows cannot be told apart any more: the application's updates and deletes fail.
SELECT n.nspname, c.relname
  FROM pg_catalog.pg_get_publication_tables($1) t JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r'
   AND CASE c.relreplident WHEN 'f' THEN false WHEN 'n' THEN true
            WHEN 'd' THEN NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate)
            ELSE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisreplident) END
 ORDER BY 1, 2;

--| name: gone_tables
--| in: oids TEXT   out: oid INTEGER
SELECT w.oid FROM unnest($1::pg_catalog.int8[]) w(oid) WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid = w.oid::pg_catalog.oid);

--| name: relation_filenode
--| in: oid INTEGER   out: moved INTEGER
-- Has the table another file now than in this transaction's snapshot? Then it was rewritten or emptied since, and an older snapshot sees no rows in it.
SELECT c.relfilenode <> pg_catalog.pg_relation_filenode(c.oid::pg_catalog.regclass) FROM pg_catalog.pg_class c WHERE c.oid = $1::pg_catalog.int8::pg_catalog.oid;

--| name: relation_estimate
--| in: oid INTEGER   out: rows INTEGER, bytes INTEGER
SELECT CASE WHEN c.reltuples < 0 THEN -1 ELSE c.reltuples::pg_catalog.int8 END, pg_catalog.pg_relation_size(c.oid::pg_catalog.regclass)
  FROM pg_catalog.pg_class c WHERE c.oid = $1::pg_catalog.int8::pg_catalog.oid;

--| name: type_names
--| in: oids TEXT, typmods TEXT   out: name TEXT
SELECT pg_catalog.format_type(t.oid::pg_catalog.oid, t.typmod) FROM unnest($1::pg_catalog.int8[], $2::pg_catalog.int4[]) WITH ORDINALITY t(oid, typmod, at) ORDER BY t.at;

--| name: relation_birth
--| in: oid INTEGER   out: partition INTEGER, born INTEGER, root_ns TEXT, root_name TEXT
-- born: made as a partition, so that its first row came later. Then a column's catalogue row is older than the place under the parent, though of the
-- same transaction; attaching a table that was there writes its columns anew, with the place.
SELECT c.relispartition,
       EXISTS (SELECT 1 FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.inhrelid
                WHERE i.inhrelid = c.oid AND a.attnum > 0 AND a.xmin::pg_catalog.text = i.xmin::pg_catalog.text
                  AND a.cmin::pg_catalog.text::pg_catalog.int8 < i.cmin::pg_catalog.text::pg_catalog.int8),
       rn.nspname, rc.relname
  FROM pg_catalog.pg_class c
  LEFT JOIN pg_catalog.pg_class rc ON rc.oid = pg_catalog.pg_partition_root(c.oid::pg_catalog.regclass)
  LEFT JOIN pg_catalog.pg_namespace rn ON rn.oid = rc.relnamespace
 WHERE c.oid = $1::pg_catalog.int8::pg_catalog.oid;

--| name: published_tables
--| in: name TEXT   out: oid INTEGER, ns TEXT, name TEXT, partition INTEGER, bytes INTEGER
SELECT c.oid, n.nspname, c.relname, c.relispartition, pg_catalog.pg_relation_size(c.oid::pg_catalog.regclass)
  FROM pg_catalog.pg_get_publication_tables($1) t JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r';

--| name: columns_dropped_before
--| in: oid INTEGER, slot TEXT   out: attnum INTEGER
-- Columns whose dropping had ended before anything that the slot can still send: older than all the log we read.
SELECT a.attnum FROM pg_catalog.pg_attribute a, pg_catalog.pg_replication_slots s
 WHERE a.attrelid = $1::pg_catalog.int8::pg_catalog.oid AND a.attnum > 0 AND a.attisdropped AND s.slot_name = $2 AND s.catalog_xmin IS NOT NULL
   AND age(a.xmin) > age(s.catalog_xmin);

--| name: survey_oids
--| in: name TEXT   out: oid INTEGER
SELECT c.oid FROM pg_catalog.pg_class c
 WHERE c.relkind IN ('r', 'p')
   AND (c.oid IN (SELECT t.relid FROM pg_catalog.pg_get_publication_tables($1) t)
        OR c.oid IN (SELECT r.prrelid FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid WHERE p.pubname = $1))
 ORDER BY c.oid;

--| name: survey_ends
--| in: inserted TEXT   out: inserted TEXT, flushed_past INTEGER, written TEXT
-- in: what had been inserted into the log when the survey was read; NULL the first time
SELECT pg_catalog.pg_current_wal_insert_lsn(), $1::pg_catalog.pg_lsn IS NOT NULL AND pg_catalog.pg_current_wal_flush_lsn() >= $1::pg_catalog.pg_lsn, pg_catalog.pg_current_wal_lsn();

--| name: columns_added
--| in: oid INTEGER, attnums TEXT   out: attnum INTEGER, missing TEXT, pristine BOOL, rewritten BOOL
-- missing: what rows hold that are older than the column; pristine: the file is the one the table was made with; rewritten: perhaps since the column came.
-- Of a partitioned table its leaves speak.
WITH leaf(oid) AS (
  SELECT $1::pg_catalog.int8::pg_catalog.oid
  UNION SELECT t.relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree($1::pg_catalog.int8::pg_catalog.oid::pg_catalog.regclass) t WHERE t.isleaf)
SELECT a.attnum, max((l.attmissingval::text::text[])[1]) FILTER (WHERE l.atthasmissing),
       coalesce(bool_and(c.relfilenode = c.oid) FILTER (WHERE c.relkind = 'r'), true),
       coalesce(bool_or(age(c.xmin) <= age(l.xmin)) FILTER (WHERE c.relkind = 'r'), false)
  FROM pg_catalog.pg_attribute a
  CROSS JOIN leaf
  JOIN pg_catalog.pg_class c ON c.oid = leaf.oid
  JOIN pg_catalog.pg_attribute l ON l.attrelid = leaf.oid AND l.attname = a.attname AND l.attnum > 0 AND NOT l.attisdropped
 WHERE a.attrelid = $1::pg_catalog.int8::pg_catalog.oid AND a.attnum = ANY($2::pg_catalog.int2[])
 GROUP BY a.attnum ORDER BY a.attnum;

--| name: publication_settled
--| in: name TEXT   out: settled BOOL
-- Is every transaction over that is as old as the publication? Then a slot made now keeps catalogues of later ones only.
SELECT NOT EXISTS (
  SELECT 1 FROM (SELECT p.xmin FROM pg_catalog.pg_publication p WHERE p.pubname = $1
                 UNION ALL SELECT r.xmin FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid WHERE p.pubname = $1) x
   WHERE age(x.xmin) <= age(pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.xid));

--| name: publication_altered
--| in: name TEXT, oids TEXT   out: altered BOOL
-- Was the publication, or its entry of one of the tables (by oid), written since the oldest catalogue that the slot keeps? A negative age is an old row, frozen.
SELECT EXISTS (
  SELECT 1 FROM pg_catalog.pg_replication_slots s,
       (SELECT p.xmin FROM pg_catalog.pg_publication p WHERE p.pubname = $1
        UNION ALL SELECT r.xmin FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
         WHERE p.pubname = $1 AND r.prrelid = ANY ($2::pg_catalog.int8[]::pg_catalog.oid[])) x
   WHERE s.slot_name = $1 AND s.catalog_xmin IS NOT NULL AND age(x.xmin) BETWEEN 0 AND age(s.catalog_xmin));

--| name: tables_rewritten
--| in: slot TEXT, oids TEXT   out: oid INTEGER, ns TEXT, name TEXT, attnum INTEGER, xid TEXT, column TEXT, filled BOOL
-- Columns whose catalogue row is younger than the oldest catalogue that the slot keeps, of tables that got another file at that time or later.
-- filled: if the column is new, old rows got a computed value (a volatile default, an identity); a constant one is kept in the catalogue instead.
SELECT a.attrelid, n.nspname, c.relname, a.attnum, a.xmin, a.attname, (a.atthasdef OR a.attidentity <> '') AND NOT a.atthasmissing
  FROM pg_catalog.pg_replication_slots s, pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
 WHERE s.slot_name = $1 AND s.catalog_xmin IS NOT NULL AND c.oid = ANY ($2::pg_catalog.int8[]::pg_catalog.oid[])
   AND c.relkind = 'r' AND c.relfilenode <> c.oid
   AND age(a.xmin) BETWEEN 0 AND age(s.catalog_xmin) AND age(c.xmin) <= age(a.xmin);
