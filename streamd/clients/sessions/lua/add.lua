-- Add messages to a session, and keep no more than its limit.
-- KEYS: the set of references, the last packet ID; and, if it is to be noted, the time of the last add.
-- ARGV: the limit, the messages as a JSON array, seconds that a message lives which does not say so itself.
-- Returns the packet ID before the first of them.
local set, last = KEYS[1], KEYS[2]
local previous = tonumber(redis.call('GET', last) or 0) or 0
local newest = redis.call('ZRANGE', set, 0, 0, 'REV', 'WITHSCORES')
local packet_id = previous
-- Packet IDs begin again at 1, scores never do: they are the order.
local score = tonumber(newest[2]) or previous
for _, message in ipairs(cjson.decode(ARGV[2])) do
  packet_id = packet_id % 65535 + 1
  score = score + 1
  message.packetId = packet_id
  local reference = set .. '_' .. packet_id
  redis.call('SET', reference, cjson.encode(message), 'EX', message.msgExpiryInterval or ARGV[3])
  redis.call('ZADD', set, score, reference)
end
redis.call('SET', last, packet_id)
if KEYS[3] then
  local now = redis.call('TIME')
  redis.call('SET', KEYS[3], now[1] .. string.sub('000000' .. now[2], -6, -4))
end
local excess = redis.call('ZCARD', set) - ARGV[1]
while excess > 0 do
  local oldest = redis.call('ZRANGE', set, 0, math.min(excess, 1000) - 1)
  redis.call('DEL', unpack(oldest))
  redis.call('ZREM', set, unpack(oldest))
  excess = excess - #oldest
end
return previous
