--- The default policy: whether and when something that failed is tried again.
--
-- To have another one, copy this file, edit it, and name it with --policy FILE. It runs in a sandbox: it can compute, and it can
-- `print` into the log; it has no files, no clock, no network, and it keeps nothing between two calls. When it errs, runs too long or
-- answers nonsense, this default answers in its place and the log says so.
--
-- sluice calls `retry(ask)` each time a step failed in a run that goes on until it is stopped (`backup stream run`, `sync from-backup run`);
-- what is run once ends with the error, and whoever called it decides. Errors of configuration, and an entity that another process owns, end
-- a run without a question. `ask` has:
--   kind            "producer", "broker"
--   name            the entity's name
--   verb            the step that failed
--   attempt         how many times in a row it has failed by now, from 1 on; progress begins anew at 1
--   since_progress  seconds since it last got anywhere
--   class           "retry"   a passing condition: a server is away, a lock, a full disk
--                   "refuse"  `restartable` says that a restart may clear it; what only an operator clears is not asked about
--                   "bug"     sluice itself broke one of its rules
--   code            "SLUICE-E-…", see `sluice errors`
--   marker, sub     the refusal's marker and the one inside it, "" when there is none
--   restartable     true when the marker's row says that a restart may clear it
--   random          from 0 to 1; the same for the same entity and attempt
--
-- It answers the seconds to wait before the next try (0 to 86400), or nil to park: then an operator has to start it again.

local BASE = 1       -- seconds before the second try
local CAP = 30       -- no wait is longer
local REFUSALS = 8   -- tries of a restartable refusal before it is parked

--- Doubles with each failure up to CAP. Jitter takes up to half of it away, so that many legs that lost one server
--- do not come back at the same moment.
local function backoff(ask)
  local doublings = math.min(ask.attempt - 1, 16)
  local wait = math.min(BASE * 2 ^ doublings, CAP)
  return wait * (1 - ask.random / 2)
end

function retry(ask)
  if ask.class == "retry" then
    return backoff(ask)                       -- for ever: what passes, passes
  elseif ask.class == "bug" then
    return backoff(ask)                       -- a restart is safe, and the log has the report
  elseif ask.class == "refuse" and ask.restartable and ask.attempt <= REFUSALS then
    return backoff(ask)                       -- e.g. a replication slot may become free
  end
  return nil                                  -- the others meet the same condition again
end
