-- Mirrors, requests, refusals.
--| name: position_put
--| in: entity INTEGER, link TEXT, pos TEXT, seq INTEGER, lag_links INTEGER, lag_bytes INTEGER, lag_us INTEGER, rows INTEGER, at INTEGER
INSERT INTO position(entity_id, link_id, pos, seq, lag_links, lag_bytes, lag_us, rows, at_us)
VALUES (:entity, :link, :pos, :seq, :lag_links, :lag_bytes, :lag_us, :rows, :at)
    ON CONFLICT (entity_id) DO UPDATE SET link_id = excluded.link_id, pos = excluded.pos, seq = excluded.seq, lag_links = excluded.lag_links,
       lag_bytes = excluded.lag_bytes, lag_us = excluded.lag_us, rows = excluded.rows, at_us = excluded.at_us;
--| name: chain_drop_other
--| in: lineage TEXT, store TEXT
DELETE FROM chain WHERE store = :store AND lineage <> :lineage;
--| name: chain_put
--| in: lineage TEXT, store TEXT, json TEXT, at INTEGER
INSERT INTO chain(lineage, store, source_engine, source_identity, slot_name, extendable, segment, full_complete, nlinks, tip_id, tip_seq, tip_pos,
                  tip_time_us, covered_pos, at_us)
VALUES (:lineage, :store, :json ->> 'source_engine', :json ->> 'source_identity', :json ->> 'slot_name', :json ->> 'extendable',
        :json ->> 'segment', :json ->> 'full_complete', :json ->> 'nlinks', :json ->> 'tip_id', :json ->> 'tip_seq', :json ->> 'tip_pos',
        :json ->> 'tip_time_us', :json ->> 'covered_pos', :at)
    ON CONFLICT (lineage) DO UPDATE SET store = excluded.store, source_engine = coalesce(excluded.source_engine, source_engine),
       source_identity = coalesce(excluded.source_identity, source_identity), slot_name = coalesce(excluded.slot_name, slot_name),
       extendable = coalesce(excluded.extendable, extendable), segment = coalesce(excluded.segment, segment),
       full_complete = coalesce(excluded.full_complete, full_complete), nlinks = coalesce(excluded.nlinks, nlinks),
       tip_id = coalesce(excluded.tip_id, tip_id), tip_seq = coalesce(excluded.tip_seq, tip_seq), tip_pos = coalesce(excluded.tip_pos, tip_pos),
       tip_time_us = coalesce(excluded.tip_time_us, tip_time_us), covered_pos = coalesce(excluded.covered_pos, covered_pos), at_us = excluded.at_us;
--| name: segment_put
--| in: lineage TEXT, json TEXT
INSERT INTO segment(lineage, segment, first_n, full_complete)
SELECT :lineage, s.value ->> 'segment', s.value ->> 'first_n', s.value ->> 'full_complete' FROM json_each(:json, '$.segments') s WHERE true
    ON CONFLICT (lineage, segment) DO UPDATE SET first_n = coalesce(excluded.first_n, first_n),
       full_complete = coalesce(excluded.full_complete, full_complete);
--| name: link_put
--| in: lineage TEXT, json TEXT
INSERT INTO link(lineage, n, id, segment, attempt, start_seq, end_seq, bytes, time_us, opening)
SELECT :lineage, l.value ->> 'n', l.value ->> 'id', l.value ->> 'segment', l.value ->> 'attempt', l.value ->> 'start_seq', l.value ->> 'end_seq',
       l.value ->> 'bytes', l.value ->> 'time_us', l.value ->> 'opening' FROM json_each(:json, '$.links') l WHERE true
    ON CONFLICT (lineage, n) DO UPDATE SET id = excluded.id, segment = excluded.segment, attempt = excluded.attempt, start_seq = excluded.start_seq,
       end_seq = excluded.end_seq, bytes = excluded.bytes, time_us = excluded.time_us, opening = excluded.opening;
--| name: request_add
--| in: actor TEXT, kind TEXT, name TEXT, verb TEXT
INSERT INTO request(actor, kind, name, verb) VALUES (:actor, :kind, :name, :verb);
--| name: request_next
--| in: kind TEXT, name TEXT, since INTEGER   out: id INTEGER, verb TEXT
SELECT id, verb FROM request WHERE kind = :kind AND name = :name AND id > :since AND done_us IS NULL ORDER BY id LIMIT 1;
--| name: request_last_id
--| out: id INTEGER
SELECT coalesce(max(id), 0) FROM request;
--| name: request_done
--| in: id INTEGER, result TEXT, at INTEGER
UPDATE request SET done_us = :at, result = :result WHERE id = :id AND done_us IS NULL;
--| name: refusal_same
--| in: entity INTEGER, code TEXT, marker TEXT, message TEXT   out: id INTEGER
SELECT id FROM refusal WHERE entity_id = :entity AND cleared_us IS NULL AND code = :code AND marker IS :marker AND message = :message;
--| name: refusal_add
--| in: entity INTEGER, class TEXT, code TEXT, marker TEXT, sub TEXT, restartable INTEGER, message TEXT, hint TEXT
INSERT INTO refusal(entity_id, class, code, marker, sub, restartable, message, hint)
VALUES (:entity, :class, :code, :marker, :sub, coalesce((SELECT m.restartable FROM marker m WHERE m.name = :marker), :restartable), :message, :hint);
--| name: refusal_clear
--| in: entity INTEGER, at INTEGER, by TEXT
UPDATE refusal SET cleared_us = :at, cleared_by = :by WHERE entity_id = :entity AND cleared_us IS NULL;
