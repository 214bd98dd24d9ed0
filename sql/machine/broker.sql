-- A broker replays a chain into a target and goes on following it.
--| name: broker
INSERT INTO state(kind, state, initial, tailing, step, comment) VALUES
  ('broker', 'new',           1, 0, 'broker_start', 'decides between a reset, an adopted position and a warm start'),
  ('broker', 'resetting',     0, 0, 'broker_reset', 'the target is being loaded from the full; goes on after a kill'),
  ('broker', 'tailing',       0, 1, 'broker_tail',  'each tick applies what the chain has after the target''s position'),
  ('broker', 'stopped',       0, 0, NULL,           'an operator stopped it'),
  ('broker', 'refused_new',   0, 0, NULL,           'the start met a refusal'),
  ('broker', 'refused_reset', 0, 0, NULL,           'the reset met a refusal'),
  ('broker', 'refused',       0, 0, NULL,           'a tick met a refusal');
INSERT INTO transition(kind, from_state, event, to_state, comment) VALUES
  ('broker', 'new',           'reset',      'resetting',     'an operator asked for the target to be rebuilt'),
  ('broker', 'new',           'adopt',      'tailing',       'an operator named the position (--at-chain-id)'),
  ('broker', 'new',           'warm',       'tailing',       'the target holds this stream''s position'),
  ('broker', 'new',           'refused',    'refused_new',   'an operator must act'),
  ('broker', 'resetting',     'reset_done', 'tailing',       'every table is loaded and the position is on the target'),
  ('broker', 'resetting',     'cancelled',  'new',           'it was not confirmed and is not asked for any more; nothing was changed'),
  ('broker', 'resetting',     'refused',    'refused_reset', 'an operator must act'),
  ('broker', 'tailing',       'stopped',    'stopped',       'a request, the chain''s stop object, the target''s row or a signal'),
  ('broker', 'tailing',       'refused',    'refused',       'an operator must act'),
  ('broker', 'tailing',       'reset',      'resetting',     'an operator asked for the target to be rebuilt'),
  ('broker', 'stopped',       'resume',     'tailing',       'started again'),
  ('broker', 'stopped',       'reset',      'resetting',     'an operator asked for the target to be rebuilt'),
  ('broker', 'refused',       'resume',     'tailing',       'the remedy was applied'),
  ('broker', 'refused',       'reset',      'resetting',     'an operator asked for the target to be rebuilt'),
  ('broker', 'refused_new',   'resume',     'new',           'the remedy was applied'),
  ('broker', 'refused_reset', 'resume',     'resetting',     'the remedy was applied');
