-- Return a session's messages in order, and forget the references to those that have expired.
-- KEYS: the set of references.
local set = KEYS[1]
local messages, expired = {}, {}
for _, reference in ipairs(redis.call('ZRANGE', set, 0, -1)) do
  local message = redis.call('GET', reference)
  if message then
    messages[#messages + 1] = message
  else
    expired[#expired + 1] = reference
  end
end
for first = 1, #expired, 1000 do
  redis.call('ZREM', set, unpack(expired, first, math.min(first + 999, #expired)))
end
return messages
