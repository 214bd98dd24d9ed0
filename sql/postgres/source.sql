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
