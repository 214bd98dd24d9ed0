-- Reports: what the verbs print.
--| name: history
--| in: name TEXT, since_us INTEGER   out: id INTEGER, at TEXT, actor TEXT, kind TEXT, name TEXT, from_state TEXT, event TEXT, to_state TEXT, marker TEXT, code TEXT, why TEXT, detail TEXT
SELECT a.id, a.at, a.actor, a.kind, a.name, a.from_state, a.event, a.to_state, a.marker, a.code, a.why, a.detail
  FROM audit a JOIN history h ON h.id = a.id
 WHERE a.name = coalesce(:name, a.name) AND h.at_us >= coalesce(:since_us, h.at_us) ORDER BY a.id;
--| name: entities
--| out: kind TEXT, name TEXT, state TEXT, source TEXT, target TEXT, store TEXT, owner_pid INTEGER, config TEXT
SELECT kind, name, state, source, target, store, owner_pid, config FROM entity ORDER BY kind, name;
--| name: endpoints
--| out: name TEXT, role TEXT, driver TEXT, dsn TEXT
SELECT name, role, driver, dsn FROM endpoint ORDER BY name;
--| name: status
--| in: name TEXT   out: kind TEXT, stream_id TEXT, state TEXT, source TEXT, store TEXT, target TEXT, link_id TEXT, seq INTEGER, lag_links INTEGER, lag_bytes INTEGER, lag_seconds REAL, owner_pid INTEGER, seen_at TEXT, marker TEXT, refusal TEXT
SELECT 'broker' AS kind, stream_id, state, NULL AS source, store, target, link_id, seq, lag_links, lag_bytes, lag_seconds, owner_pid, seen_at, marker,
       refusal FROM brokers WHERE stream_id = coalesce(:name, stream_id)
UNION ALL
SELECT 'producer', name, state, source, store, NULL, tip_id, seq, NULL, lag_bytes, lag_seconds, owner_pid, seen_at, marker, refusal FROM producers
 WHERE name = coalesce(:name, name) ORDER BY 1, 2;
--| name: health
--| in: name TEXT, max_links INTEGER, max_seconds INTEGER, max_stale INTEGER   out: kind TEXT, name TEXT, health TEXT, why TEXT, state TEXT, owner_pid INTEGER, lag_links INTEGER, lag_seconds REAL, seen_seconds_ago INTEGER, marker TEXT
WITH every(kind, name, state, owner_pid, lag_links, marker, refusal) AS (
  SELECT 'broker', stream_id, state, owner_pid, lag_links, marker, refusal FROM brokers
  UNION ALL
  SELECT 'producer', name, state, owner_pid, NULL, marker, refusal FROM producers),
looked AS ( -- what is behind grows older while nobody looks; finished: a state that nothing leaves by itself or by being started again
  SELECT e.*, l.seconds + CASE WHEN l.links > 0 THEN l.seen_seconds_ago ELSE 0 END AS lag_seconds, l.seen_seconds_ago,
         e.refusal IS NOT NULL OR e.state GLOB 'refused*' AS refused,
         s.step IS NOT NULL AND NOT s.tailing AS beginning,
         s.step IS NULL AND NOT EXISTS (SELECT 1 FROM transition t WHERE t.kind = e.kind AND t.from_state = e.state AND t.event = 'resume') AS finished
    FROM every e JOIN state s ON s.kind = e.kind AND s.state = e.state LEFT JOIN lag l ON l.kind = e.kind AND l.name = e.name
   WHERE e.name = coalesce(:name, e.name)),
told AS (
  SELECT *,
         CASE WHEN refused THEN 'refused: ' || coalesce(marker || ': ', '') || coalesce(refusal, 'see history') END AS why_refused,
         CASE WHEN beginning THEN 'does not follow yet' END AS why_beginning,
         CASE WHEN finished OR beginning OR refused THEN NULL
              WHEN seen_seconds_ago IS NULL THEN 'was never heard of'
              WHEN seen_seconds_ago > :max_stale
              THEN printf('last heard of %d s ago, %s', seen_seconds_ago, CASE WHEN owner_pid IS NULL THEN 'and does not run' ELSE 'process ' || owner_pid END)
         END AS why_stale,
         CASE WHEN lag_links > :max_links THEN printf('%d links behind', lag_links) END AS why_links,
         CASE WHEN lag_seconds > :max_seconds THEN printf('%d s behind', lag_seconds) END AS why_seconds
    FROM looked)
SELECT kind, name,
       CASE WHEN why_refused IS NOT NULL THEN 'refused' WHEN why_stale IS NOT NULL THEN 'stale'
            WHEN coalesce(why_beginning, why_links, why_seconds) IS NOT NULL THEN 'behind' ELSE 'healthy' END AS health,
       nullif(ltrim(coalesce('; ' || why_refused, '') || coalesce('; ' || why_beginning, '') || coalesce('; ' || why_stale, '') ||
                    coalesce('; ' || why_links, '') || coalesce('; ' || why_seconds, ''), '; '), '') AS why,
       state, owner_pid, lag_links, lag_seconds, seen_seconds_ago, marker
  FROM told ORDER BY kind, name;
--| name: producers
--| in: name TEXT   out: name TEXT, state TEXT, source TEXT, store TEXT, tip_id TEXT, seq INTEGER, lag_bytes INTEGER, lag_seconds REAL, owner_pid INTEGER, seen_at TEXT, marker TEXT, refusal TEXT
SELECT name, state, source, store, tip_id, seq, lag_bytes, lag_seconds, owner_pid, seen_at, marker, refusal FROM producers WHERE name = coalesce(:name, name);
--| name: chains
--| out: lineage TEXT, store TEXT, source_engine TEXT, full_complete INTEGER, extendable INTEGER, links INTEGER, tip_id TEXT, tip_seq INTEGER, tip_pos TEXT, bytes INTEGER, tip_at TEXT, seen_at TEXT
SELECT lineage, store, source_engine, full_complete, extendable, links, tip_id, tip_seq, tip_pos, bytes, tip_at, seen_at FROM chains;
--| name: links
--| in: lineage TEXT   out: n INTEGER, id TEXT, segment TEXT, start_seq INTEGER, end_seq INTEGER, bytes INTEGER, opening INTEGER, at TEXT
SELECT n, id, segment, start_seq, end_seq, bytes, opening,
       strftime('%Y-%m-%dT%H:%M:%S', time_us / 1000000, 'unixepoch') || printf('.%06dZ', time_us % 1000000) AS at
  FROM link WHERE lineage = coalesce(:lineage, lineage) ORDER BY lineage, n;
--| name: positions
--| out: kind TEXT, name TEXT, state TEXT, link_id TEXT, pos TEXT, seq INTEGER, rows INTEGER, seen_at TEXT
SELECT kind, name, state, link_id, pos, seq, rows, seen_at FROM positions;
--| name: lag
--| out: kind TEXT, name TEXT, state TEXT, links INTEGER, bytes INTEGER, seconds REAL, seen_seconds_ago INTEGER
SELECT kind, name, state, links, bytes, seconds, seen_seconds_ago FROM lag;
--| name: refusals
--| in: name TEXT   out: kind TEXT, name TEXT, state TEXT, code TEXT, marker TEXT, sub TEXT, restartable INTEGER, message TEXT, hint TEXT, remedy TEXT, acknowledgement TEXT, since TEXT
SELECT kind, name, state, code, marker, sub, restartable, message, hint, remedy, acknowledgement, since FROM refusals WHERE name = coalesce(:name, name);
--| name: requests
--| out: id INTEGER, at TEXT, actor TEXT, kind TEXT, name TEXT, verb TEXT, answered TEXT, result TEXT
SELECT id, strftime('%Y-%m-%dT%H:%M:%S', at_us / 1000000, 'unixepoch') || printf('.%06dZ', at_us % 1000000) AS at, actor, kind, name, verb,
       strftime('%Y-%m-%dT%H:%M:%S', done_us / 1000000, 'unixepoch') || printf('.%06dZ', done_us % 1000000) AS answered, result FROM request ORDER BY id;
--| name: markers
--| out: name TEXT, restartable INTEGER, parent TEXT, meaning TEXT, acknowledgement TEXT, remedy TEXT
SELECT name, restartable, parent, meaning, acknowledgement, remedy FROM marker ORDER BY name;
--| name: states
--| in: kind TEXT   out: kind TEXT, state TEXT, initial INTEGER, tailing INTEGER, step TEXT, comment TEXT
SELECT kind, state, initial, tailing, step, comment FROM state WHERE kind = coalesce(:kind, kind) ORDER BY kind, state;
--| name: transitions
--| in: kind TEXT   out: kind TEXT, from_state TEXT, event TEXT, to_state TEXT, comment TEXT
SELECT kind, from_state, event, to_state, comment FROM transition WHERE kind = coalesce(:kind, kind) ORDER BY kind, from_state, event;
