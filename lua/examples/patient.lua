--- An example: be quick with brokers, slow with everything else, and give up after an hour without progress.
-- Use it with --policy FILE; lua/policy.lua says what `ask` holds.

local LIMITS = {
  broker = { base = 0.5, cap = 10 },
  other = { base = 5, cap = 300 },
}

function retry(ask)
  if ask.class ~= "retry" and not ask.restartable then
    return nil
  end
  if ask.since_progress > 3600 then
    print("no progress for an hour, parked:", ask.kind, ask.name, ask.code)
    return nil
  end
  -- This one is worth a look at once, not a wait.
  if ask.marker == "PRE-ALTER-REPLAY-WEDGE" and ask.attempt > 3 then
    return nil
  end
  local limit = LIMITS[ask.kind] or LIMITS.other
  local wait = math.min(limit.base * 2 ^ math.min(ask.attempt - 1, 16), limit.cap)
  return wait * (0.75 + ask.random / 4)
end
