-- Statements the PostgreSQL driver sends: sessions, catalogue, slots. Written for an empty search_path, so everything is qualified.

--| name: session_pin
--| in:   out: set_config TEXT
SELECT pg_catalog.set_config(s.name, v.value, false)
  FROM (VALUES ('client_encoding', 'UTF8'), ('DateStyle', 'ISO, YMD'), ('TimeZone', 'UTC'), ('IntervalStyle', 'postgres'), ('bytea_output', 'hex'),
               ('extra_float_digits', '3'), ('lc_monetary', 'C'), ('xmlbinary', 'base64'), ('xmloption', 'content'), ('array_nulls', 'on'),
               ('search_path', ''), ('quote_all_identifiers', 'off'), ('standard_conforming_strings', 'on'), ('row_security', 'off'),
               ('synchronous_commit', 'on'), ('default_transaction_isolation', 'read committed'), ('default_transaction_deferrable', 'off'),
               ('statement_timeout', '0'), ('lock_timeout', '0'), ('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'),
               ('transaction_timeout', '0'), ('application_name', 'sluice')) v(name, value)
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
       (SELECT string_agg(CASE WHEN co.collisdeterministic THEN 'f' ELSE 't' END, '' ORDER BY u.at)
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
