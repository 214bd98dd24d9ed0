-- A producer writes a chain: a full, then links after it.
--| name: producer
INSERT INTO state(kind, state, initial, tailing, step, comment) VALUES
  ('producer', 'planned',      1, 0, 'producer_full',   'a full is to be taken, or is half taken and goes on'),
  ('producer', 'rooted',       0, 0, NULL,              'the full is complete and cannot be extended'),
  ('producer', 'following',    0, 1, 'producer_follow', 'each tick appends a link of what the source did since'),
  ('producer', 'stopped',      0, 0, NULL,              'an operator stopped it'),
  ('producer', 'refused_full', 0, 0, NULL,              'the full met a refusal'),
  ('producer', 'refused',      0, 0, NULL,              'a tick met a refusal');
INSERT INTO transition(kind, from_state, event, to_state, comment) VALUES
  ('producer', 'planned',      'full_done', 'following',    'full.json and the catalogue are durable; the anchor is kept'),
  ('producer', 'planned',      'rooted',    'rooted',       'the same, without an anchor'),
  ('producer', 'planned',      'adopt',     'following',    'the chain is there and complete; this control DB is new'),
  ('producer', 'refused_full', 'adopt',     'following',    'the chain is there and complete'),
  ('producer', 'rooted',       'adopt',     'following',    'another chain took its place, made elsewhere'),
  ('producer', 'planned',      'refused',   'refused_full', 'an operator must act'),
  ('producer', 'following',    'refused',   'refused',      'an operator must act'),
  ('producer', 'refused_full', 'resume',    'planned',      'the remedy was applied'),
  ('producer', 'refused',      'resume',    'following',    'the remedy was applied'),
  ('producer', 'following',    'stopped',   'stopped',      'a request or a signal'),
  ('producer', 'stopped',      'resume',    'following',    'started again'),
  ('producer', 'following',    'replace',   'planned',      'a new chain takes its place'),
  ('producer', 'stopped',      'replace',   'planned',      'a new chain takes its place'),
  ('producer', 'rooted',       'replace',   'planned',      'a new chain takes its place'),
  ('producer', 'refused',      'replace',   'planned',      'a new chain takes its place');
