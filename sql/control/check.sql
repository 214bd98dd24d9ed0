-- What `sluice control check` asks: each row is one finding.
--| name: check_integrity
--| out: finding TEXT
SELECT 'the file is damaged: ' || integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok';
--| name: check_foreign_keys
--| out: finding TEXT
SELECT 'a row of ''' || "table" || ''' refers to a row of ''' || parent || ''' that is not there' FROM pragma_foreign_key_check
 WHERE "table" IN ('transition', 'secret', 'entity', 'position', 'refusal', 'segment', 'link');
--| name: check_states
--| out: finding TEXT
SELECT e.kind || ' ''' || e.name || ''' stands in state ''' || e.state || ''', which its machine does not have' FROM entity e
 WHERE NOT EXISTS (SELECT 1 FROM state s WHERE s.kind = e.kind AND s.state = e.state);
--| name: check_recorded
--| out: finding TEXT
SELECT e.kind || ' ''' || e.name || ''' is not what its history says (' || e.state || ' at token ' || e.token || ', history: '
       || coalesce(r.state, 'nothing') || ' at token ' || coalesce(r.token, 0) || ')'
  FROM entity e JOIN recorded r ON r.entity_id = e.id
 WHERE r.state IS NOT e.state OR r.token IS NOT e.token OR r.config IS NOT e.config OR r.source IS NOT e.source OR r.target IS NOT e.target
    OR r.store IS NOT e.store;
--| name: check_moves
--| out: finding TEXT
SELECT 'history row ' || h.id || ' does not go on where the one before it of ' || h.kind || ' ''' || h.name || ''' ended'
  FROM history h LEFT JOIN history p ON p.id = (SELECT max(b.id) FROM history b WHERE b.entity_id = h.entity_id AND b.id < h.id)
 WHERE h.from_state IS NOT p.to_state OR (p.id IS NOT NULL AND h.token IS NOT p.token + 1) OR (p.id IS NULL AND h.token IS NOT 1)
    OR NOT EXISTS (SELECT 1 FROM entity e WHERE e.id = h.entity_id AND e.kind = h.kind AND e.name = h.name);
--| name: check_edges
--| out: finding TEXT
SELECT 'history row ' || h.id || ' is not along an edge: ' || h.kind || ' ' || coalesce(h.from_state, '(nothing)') || ' --' || h.event || '--> ' || h.to_state
  FROM history h
 WHERE CASE WHEN h.from_state IS NULL
            THEN h.event IS NOT 'created' OR NOT EXISTS (SELECT 1 FROM state s WHERE s.kind = h.kind AND s.state = h.to_state AND s.initial = 1)
            WHEN h.from_state = h.to_state THEN h.event IS NOT 'configured'
            ELSE NOT EXISTS (SELECT 1 FROM transition t WHERE t.kind = h.kind AND t.from_state = h.from_state AND t.event = h.event AND t.to_state = h.to_state) END;
--| name: check_sealed
--| out: finding TEXT
SELECT 'history ends at row ' || (SELECT coalesce(max(id), 0) FROM history) || ', before the last sealed row ' || max(upto) FROM history_seal
HAVING max(upto) > (SELECT coalesce(max(id), 0) FROM history);
