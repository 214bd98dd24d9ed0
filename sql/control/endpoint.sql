-- Endpoints and their secrets.
--| name: endpoint_role
--| in: name TEXT   out: role TEXT
SELECT role FROM endpoint WHERE name = :name;
--| name: endpoint_stands
--| in: name TEXT, role TEXT, driver TEXT, dsn TEXT   out: name TEXT
SELECT name FROM endpoint p WHERE name = :name AND role = :role AND driver = :driver AND dsn = :dsn
   AND NOT EXISTS (SELECT 1 FROM secret s WHERE s.endpoint = p.name);
--| name: endpoint_insert
--| in: name TEXT, role TEXT, driver TEXT, dsn TEXT
INSERT INTO endpoint(name, role, driver, dsn) VALUES (:name, :role, :driver, :dsn);
--| name: endpoint_update
--| in: name TEXT, driver TEXT, dsn TEXT
UPDATE endpoint SET driver = :driver, dsn = :dsn WHERE name = :name;
--| name: endpoint_dsn
--| in: name TEXT, dsn TEXT
UPDATE endpoint SET dsn = :dsn WHERE name = :name;
--| name: endpoint_dsn_if
--| in: name TEXT, was TEXT, dsn TEXT
UPDATE endpoint SET dsn = :dsn WHERE name = :name AND dsn = :was;
--| name: endpoint_get
--| in: name TEXT   out: driver TEXT, dsn TEXT
SELECT driver, dsn FROM endpoint WHERE name = :name;
--| name: endpoints
--| out: name TEXT, dsn TEXT
SELECT name, dsn FROM endpoint ORDER BY name;
--| name: secret_put
--| in: endpoint TEXT, param TEXT, nonce BLOB, sealed BLOB
INSERT INTO secret(endpoint, param, nonce, sealed) VALUES (:endpoint, :param, :nonce, :sealed)
    ON CONFLICT (endpoint, param) DO UPDATE SET nonce = excluded.nonce, sealed = excluded.sealed, at_us = excluded.at_us;
--| name: secret_get
--| in: endpoint TEXT, param TEXT   out: nonce BLOB, sealed BLOB
SELECT nonce, sealed FROM secret WHERE endpoint = :endpoint AND param = :param;
--| name: secret_drop
--| in: endpoint TEXT
DELETE FROM secret WHERE endpoint = :endpoint;
