-- A task is done once: a restore, a verify.
--| name: task
INSERT INTO state(kind, state, initial, tailing, step, comment) VALUES
  ('task', 'new',     1, 0, 'task_run', 'is to be done, or is half done and goes on'),
  ('task', 'done',    0, 0, NULL,       'is done'),
  ('task', 'refused', 0, 0, NULL,       'met a refusal'),
  ('task', 'failed',  0, 0, NULL,       'failed; may be tried again');
INSERT INTO transition(kind, from_state, event, to_state, comment) VALUES
  ('task', 'new',     'done',    'done',    'everything it had to do is durable'),
  ('task', 'new',     'refused', 'refused', 'an operator must act'),
  ('task', 'new',     'failed',  'failed',  'an error that may pass'),
  ('task', 'refused', 'resume',  'new',     'the remedy was applied'),
  ('task', 'failed',  'resume',  'new',     'tried again'),
  ('task', 'done',    'resume',  'new',     'asked for once more');
