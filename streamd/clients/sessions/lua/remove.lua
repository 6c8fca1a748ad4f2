-- Remove a message.
-- KEYS: the set of references. ARGV: its packet ID.
local reference = KEYS[1] .. '_' .. ARGV[1]
redis.call('ZREM', KEYS[1], reference)
redis.call('DEL', reference)
return 'OK'
