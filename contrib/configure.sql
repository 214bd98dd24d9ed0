-- A producer and a broker, configured by SQL. Run it with the sqlite3 shell on sluice's control DB:
--   sqlite3 /var/lib/sluice/control.db < contrib/configure.sql
-- then   sluice run producer app --until idle   and   sluice run broker app --until idle
-- The same as: sluice backup full --chain-slot …, sluice backup incremental …, sluice sync from-backup run --reset-target-data --yes …

-- Where rows come from, where the chain lies, where they go. A password in clear is sealed at sluice's next open; ${VAR} and file:PATH are kept.
INSERT INTO endpoint(name, role, driver, dsn) VALUES
  ('app-source', 'source', 'sqlite', '/srv/app.db'),
  ('app-chain',  'store',  'file',   'file:///srv/chain'),
  ('app-target', 'target', 'sqlite', '/srv/copy.db');

-- Config keys are the flags' names. An entity is born in its kind's first state; see `sluice machine`.
INSERT INTO entity(kind, name, source, store, config) VALUES
  ('producer', 'app', 'app-source', 'app-chain', '{"chain-slot": true}');
INSERT INTO entity(kind, name, target, store, config) VALUES
  ('broker', 'app', 'app-target', 'app-chain', '{"reset-target-data": true, "yes": true}');
