"""What a script decodes and encodes again is the same, in every library, and no input is more than an error to it.

Input: a byte that chooses the library, then what is decoded; for struct up to the first blank the format.
"""

from tests.fuzz.one_server import one_server

WORDS = [b"null", b"true", b"false", b'{"a":', b"[1,", b"1e5", b"-0", b"\\ud834\\udd1e", b"\\u0000", b"]", b"}",
         b"\x91", b"\x81", b"\xcb", b"\xdc\x00\x01", b"\xdf\x00\x00\x00\x01", b"\xc0", b"\xd9\x01", b"<i4", b">I8",
         b"s", b"c0", b"!4", b"BHLd"]  # fmt: skip

# (A zero with a sign becomes one without in MessagePack, as in Redis: hence `+ 0`.)
# Compared by content, for the order of a table's keys may be another one when it was made in another order; but for
# tables that are keys, of which each is only itself.
_SAME = b"""
local digits, deep = %b
local function same(a, b, depth)
  if type(a) == 'number' and type(b) == 'number' then return digits:format(a + 0) == digits:format(b + 0) end
  if type(a) ~= 'table' or type(b) ~= 'table' then return a == b or (b == nil and depth > deep) end
  for key, value in pairs(a) do
    if type(key) ~= 'table' and not same(value, b[key], depth + 1) then return false end
  end
  for key in pairs(b) do if type(key) ~= 'table' and a[key] == nil then return false end end
  return true
end
"""
_SAME_JSON = _SAME % b"'%.14g', math.huge"  # so many digits are written
_SAME_MSGPACK = _SAME % b"'%.17g', 14"  # what is deeper becomes nil
_SAME_STRUCT = _SAME % b"'%.17g', math.huge"
_AGAIN = [
    _SAME_JSON
    + b"""
    local ok, value = pcall(cjson.decode, ARGV[1])
    if not ok then return 'refused' end
    local fine, text = pcall(cjson.encode, value)
    if not fine then return 'refused' end
    return same(value, cjson.decode(text), 0) and 'same' or text
    """,
    _SAME_MSGPACK
    + b"""
    local first = {pcall(cmsgpack.unpack, ARGV[1])}
    if not first[1] then return 'refused' end
    local count = 0
    for place in pairs(first) do count = math.max(count, place) end
    local fine, text = pcall(cmsgpack.pack, unpack(first, 2, count))
    if not fine then return 'refused' end
    local second = {pcall(cmsgpack.unpack, text)}
    if not second[1] and second[2]:find('index is nil') then return 'refused' end  -- a key that was too deep
    for place = 2, count do if not same(first[place], second[place], 0) then return text end end
    return 'same'
    """,
    _SAME_STRUCT
    + b"""
    local first = {pcall(struct.unpack, ARGV[2], ARGV[1])}
    if not first[1] then return 'refused' end
    local place = table.remove(first)
    table.remove(first, 1)
    -- 8 bytes, nearly all of them ones, round up to a number that 8 bytes do not hold: Redis, too, packs 0 then.
    for _, value in ipairs(first) do if value == 2 ^ 64 then return 'refused' end end
    local fine, text = pcall(struct.pack, ARGV[2], unpack(first))
    if not fine then return 'refused' end
    local second = {struct.unpack(ARGV[2], text)}
    for number, value in ipairs(first) do if not same(value, second[number], 0) then return text end end
    return place <= #ARGV[1] + 1 and 'same' or 'beyond the end'
    """,
    # What comes back is a reply of a script: any table is one.
    b"local ok, value = pcall(cjson.decode, ARGV[1]) return {value}",
]  # fmt: skip


def check(data: bytes) -> None:
    """Raise AssertionError unless what is encoded again is the same, or refused by an error that a script can catch."""
    if not data or len(data) > 4096:
        return
    library, words = data[0] % len(_AGAIN), [data[1:]]
    if library == 2:
        layout, _, text = words[0].partition(b" ")
        words = [text, layout]
    server = one_server()
    reply = server.execute([b"EVAL", _AGAIN[library], b"0", *words])
    if library < 3:
        assert reply in (b"refused", b"same"), reply
    assert server.state.stats.internal_errors == 0
