-- Remove a session with all its messages.
-- KEYS: the set of references, the session's other keys.
local references = redis.call('ZRANGE', KEYS[1], 0, -1)
for first = 1, #references, 1000 do
  redis.call('DEL', unpack(references, first, math.min(first + 999, #references)))
end
redis.call('DEL', unpack(KEYS))
return 'OK'
