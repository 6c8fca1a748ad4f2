-- Return a session's messages in order, and forget the references to those that have expired.
-- KEYS: the set of references.
-- Returns three arrays: the messages, for each the milliseconds that are left of its own expiry, -1 for none, and its
-- reference. A key that is no string is an empty message.
local set = KEYS[1]
local messages, left, live, expired = {}, {}, {}, {}
for _, reference in ipairs(redis.call('ZRANGE', set, 0, -1)) do
  local message = redis.pcall('GET', reference)
  if message then
    if type(message) == 'table' then message = '' end
    live[#live + 1] = reference
    messages[#messages + 1] = message
    -- Most messages have no expiry of their own, and a search of their text costs less than a command.
    local expires = string.find(message, '"msgExpiryInterval"', 1, true)
    left[#left + 1] = expires and redis.call('PTTL', reference) or -1
  else
    expired[#expired + 1] = reference
  end
end
for first = 1, #expired, 1000 do
  redis.call('ZREM', set, unpack(expired, first, math.min(first + 999, #expired)))
end
return {messages, left, live}
