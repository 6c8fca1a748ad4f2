-- Note that a message of QoS 2 has come to its PUBREL. From then on it does not expire.
-- KEYS: the set of references. ARGV: its packet ID.
local reference = KEYS[1] .. '_' .. ARGV[1]
local message = redis.call('GET', reference)
if message then
  message = cjson.decode(message)
  message.packetType = 'PUBREL'
  redis.call('SET', reference, cjson.encode(message))
end
return 'OK'
