"""The two scripts and the JSON that TBMQ's article on persisted clients describes, on streamd and on redis-server."""

import json
from base64 import b64encode

import pytest

from streamd.clients.sessions import DeviceStore, Message

SET, LAST = "{c}_messages", "{c}_last_packet_id"
WEEK_S = 7 * 86_400

# Written after the article's description: the same keys, arguments, commands and functions in the same order.
ADD = """
local refs, last = KEYS[1], KEYS[2]
local limit = tonumber(ARGV[1])
local packs = cjson.decode(ARGV[2])
local ttl = tonumber(ARGV[3])
local number = tonumber(redis.call('GET', last)) or 0
local score = number
local top = redis.call('ZRANGE', refs, 0, 0, 'REV', 'WITHSCORES')
if #top > 0 then
    score = tonumber(top[2])
end
local before = number
for _, one in ipairs(packs) do
    number = number + 1
    if number > 0xffff then
        number = 1
    end
    score = score + 1
    one.packetId = number
    local ref = refs .. "_" .. number
    redis.call('SET', ref, cjson.encode(one), 'EX', one.msgExpiryInterval or ttl)
    redis.call('ZADD', refs, score, ref)
end
redis.call('SET', last, number)
local excess = redis.call('ZCARD', refs) - limit
if excess > 0 then
    local oldest = redis.call('ZRANGE', refs, 0, excess - 1)
    for _, ref in ipairs(oldest) do
        redis.call('DEL', ref)
        redis.call('ZREM', refs, ref)
    end
end
return before
"""
GET = """
local refs = KEYS[1]
local limit = tonumber(ARGV[1])
local found = {}
for _, ref in ipairs(redis.call('ZRANGE', refs, 0, -1)) do
    if redis.call('EXISTS', ref) == 1 then
        table.insert(found, redis.call('GET', ref))
    else
        redis.call('ZREM', refs, ref)
    end
end
return found
"""


def message(number: int, **others) -> dict:
    return {
        "packetType": "PUBLISH",
        "payload": b64encode(b"payload %d" % number).decode(),
        "time": 1_736_333_110_026 + number,
        "clientId": "c",
        "retained": number % 2 == 1,
        "topicName": f"house/7/room/{number}",
        "qos": 1,
        **others,
    }


class Scripts:
    """The scripts as the broker calls them: by their digests, which the server answered."""

    def __init__(self, client) -> None:
        self.client = client
        self.add_sha, self.get_sha = client.script_load(ADD), client.script_load(GET)

    def add(self, *messages: dict, limit: int = 10_000, ttl_s: int = WEEK_S) -> int:
        return self.client.evalsha(self.add_sha, 2, SET, LAST, limit, json.dumps(messages), ttl_s)

    def get(self) -> list[dict]:
        return [json.loads(text) for text in self.client.evalsha(self.get_sha, 1, SET, 10_000)]


@pytest.fixture
def scripts(client) -> Scripts:
    return Scripts(client)


def test_faults2_5_2_messages_come_back_as_they_were_added(scripts):
    added = [message(number) for number in range(3)]
    assert scripts.add(*added) == 0
    assert scripts.add(message(3, msgExpiryInterval=60)) == 3
    assert scripts.get() == [{**message(number), "packetId": number + 1} for number in range(3)] + [
        {**message(3), "msgExpiryInterval": 60, "packetId": 4}
    ]
    assert 0 < scripts.client.ttl(f"{SET}_4") <= 60 < scripts.client.ttl(f"{SET}_1") <= WEEK_S
    assert scripts.client.get(LAST) == b"4"
    stored = scripts.client.get(f"{SET}_1")
    assert b'"topicName":"house\\/7\\/room\\/0"' in stored  # as cjson writes it
    assert b'"time":1736333110026' in stored


def test_faults2_5_2_the_oldest_go_and_packet_ids_begin_again_where_scores_go_on(scripts):
    scripts.client.set(LAST, 65_530)
    assert scripts.add(*map(message, range(10)), limit=8) == 65_530
    assert [one["packetId"] for one in scripts.get()] == [65_533, 65_534, 65_535, 1, 2, 3, 4, 5]
    assert scripts.client.zrange(SET, -1, -1, withscores=True)[0][1] == 65_540
    assert scripts.client.exists(f"{SET}_65531", f"{SET}_65532") == 0


def test_faults2_5_2_what_has_expired_is_left_out_and_its_reference_goes(server, scripts):
    scripts.add(message(0), message(1, msgExpiryInterval=1), message(2))
    server.let_expire(1.3, f"{SET}_2")
    assert scripts.client.zcard(SET) == 3
    assert [one["packetId"] for one in scripts.get()] == [1, 3]
    assert scripts.client.zcard(SET) == 2


def test_faults2_5_2_the_library_reads_what_such_a_broker_has_stored(scripts):
    scripts.add(message(0), message(1))
    store = DeviceStore(scripts.client)
    assert store.get("c") == [
        Message(
            f"house/7/room/{number}",
            b"payload %d" % number,
            retain=number == 1,
            time_ms=1_736_333_110_026 + number,
            packet_id=number + 1,
        )
        for number in range(2)
    ]
    store.mark_pubrel("c", 1)
    assert [one.packet_type for one in store.get("c")] == ["PUBREL", "PUBLISH"]
    assert [one["packetType"] for one in scripts.get()] == ["PUBREL", "PUBLISH"]
    assert store.add("c", Message("t")) == [3]
