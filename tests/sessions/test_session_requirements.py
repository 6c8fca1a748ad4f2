"""What a broker needs of the server that holds its sessions: D1 to D17."""

import hashlib
import json
import subprocess
import threading

import pytest
import redis
from redis.crc import key_slot

from bench.ports import free_port
from streamd.clients.sessions import DeviceStore, Message
from streamd.clients.sessions.requests import ADD, GET, MARK_PUBREL, REMOVE, REMOVE_ALL
from tests.crash.restartable import Restartable
from tests.differential.redis_process import encode_request, judge, needs_redis

WEEK_S = 7 * 86_400
SET, LAST = "{c}_messages", "{c}_last_packet_id"


def pack(*payloads, expiry_s=None):
    fields = {} if expiry_s is None else {"msgExpiryInterval": expiry_s}
    return json.dumps([{"topic": "t", "qos": 1, "packetType": "PUBLISH", "payload": one, **fields} for one in payloads])


def load_all(client):
    for script in (ADD, GET, REMOVE, REMOVE_ALL, MARK_PUBREL):
        assert client.script_load(script.text) == script.sha


def add(client, *payloads, limit=10_000, expiry_s=None, text=None):
    return client.evalsha(ADD.sha, 2, SET, LAST, limit, text or pack(*payloads, expiry_s=expiry_s), WEEK_S)


def get(client):
    messages, _, _ = client.evalsha(GET.sha, 1, SET)
    return [json.loads(text) for text in messages]


def numbers_of_replies(connection, count):
    data = b""
    while data.count(b"\r\n") < count:
        data += connection.receive()
    assert data.startswith(b":"), data[:200]
    return [int(line[1:]) for line in data.splitlines()]


def test_d1_references_and_payloads_lie_apart(client):
    for score, name in ((2, "b"), (1, "a"), (3, "c")):
        client.zadd("refs", {name: score})
        client.set(name, f"payload {name}", ex=600)
    assert client.zrange("refs", 0, -1) == [b"a", b"b", b"c"]
    assert [client.get(name) for name in "abc"] == [b"payload a", b"payload b", b"payload c"]
    assert all(0 < client.ttl(name) <= 600 for name in "abc")
    assert client.delete("b") == 1
    assert client.zcard("refs") == 3


def test_d2_scores_grow_past_the_wrap_of_packet_ids(client):
    for score, name in ((65534, "_65534"), (65535, "_65535"), (65536, "_1")):
        client.zadd("refs", {name: score})
    assert client.zrange("refs", 0, -1) == [b"_65534", b"_65535", b"_1"]
    assert client.eval("return redis.call('ZRANGE', KEYS[1], 0, 0, 'REV', 'WITHSCORES')", 1, "refs") == [
        b"_1",
        b"65536",
    ]


def test_d3_the_last_packet_id_outlives_the_set(client):
    load_all(client)
    assert add(client, "a", "b", "c") == 0
    for packet_id in (1, 2, 3):
        client.evalsha(REMOVE.sha, 1, SET, packet_id)
    assert client.exists(SET) == 0
    assert client.get(LAST) == b"3"
    assert add(client, "d") == 3
    assert client.zrange(SET, 0, -1, withscores=True, score_cast_func=float) in (
        [(b"{c}_messages_4", 4.0)],
        [[b"{c}_messages_4", 4.0]],
    )


def test_d4_the_script_that_adds_is_atomic(server, client):
    load_all(client)
    connections = [server.raw() for _ in range(50)]
    for number, connection in enumerate(connections):
        connection.send(
            *(
                [
                    *(b"EVALSHA", ADD.sha.encode(), b"2", SET.encode(), LAST.encode(), b"10000"),
                    pack(f"{number}/{turn}/0", f"{number}/{turn}/1").encode(),
                    b"%d" % WEEK_S,
                ]
                for turn in range(40)
            )
        )
    previous = [numbers_of_replies(connection, 40) for connection in connections]
    assert sorted(packet_id for one in previous for packet_id in one) == list(range(0, 4_000, 2))
    assert all(one == sorted(one) for one in previous)
    payloads = [message["payload"].split("/") for message in get(client)]
    assert len(payloads) == 4_000
    for first, second in zip(payloads[::2], payloads[1::2], strict=True):
        assert first[:2] == second[:2]
        assert (first[2], second[2]) == ("0", "1")
    assert [message["packetId"] for message in get(client)] == list(range(1, 4_001))
    assert client.get(LAST) == b"4000"


def test_d5_a_session_is_trimmed_to_its_limit_in_the_same_script(server, client):
    load_all(client)
    most, done = [0], threading.Event()
    watcher = server.raw()

    def watch():
        while not done.is_set():
            most[0] = max(most[0], int(watcher.ask([b"ZCARD", SET.encode()])[1:]))

    thread = threading.Thread(target=watch)
    thread.start()
    sent = 0
    for size in [*range(1, 11)] * 3:
        size = min(size, 137 - sent)
        if size:
            add(client, *(str(sent + number) for number in range(size)), limit=100)
            sent += size
            assert client.zcard(SET) == min(sent, 100)
    done.set()
    thread.join()
    assert sent == 137
    assert 0 < most[0] <= 100
    assert client.exists(*(f"{SET}_{number}" for number in range(1, 38))) == 0
    assert client.exists(*(f"{SET}_{number}" for number in range(38, 138))) == 100
    assert [message["payload"] for message in get(client)] == [str(number) for number in range(37, 137)]


def test_d6_packet_ids_wrap_at_65535(client):
    load_all(client)
    client.set(LAST, 65_475)
    for number in range(137):
        add(client, str(number))
    messages = get(client)
    assert [message["packetId"] for message in messages] == [*range(65_476, 65_536), *range(1, 78)]
    assert [message["payload"] for message in messages] == [str(number) for number in range(137)]
    assert client.get(LAST) == b"77"


def test_d7_the_script_that_gets_cleans_up_behind_expired_messages(server, client):
    load_all(client)
    add(client, "a", "b", "c")
    add(client, "x", "y", "z", expiry_s=1)
    add(client, "d", "e")
    server.let_expire(1.3, *(f"{SET}_{packet_id}" for packet_id in (4, 5, 6)))
    assert client.zcard(SET) == 8
    assert [message["payload"] for message in get(client)] == ["a", "b", "c", "d", "e"]
    assert client.zcard(SET) == 5


def test_d8_a_message_may_have_its_own_expiry(client):
    load_all(client)
    add(client, "a", expiry_s=60)
    add(client, "b")
    assert 0 < client.ttl(f"{SET}_1") <= 60
    assert 60 < client.ttl(f"{SET}_2") <= WEEK_S


def test_d9_a_message_and_a_session_are_removed(client):
    load_all(client)
    add(client, "a", "b")
    assert client.evalsha(REMOVE.sha, 1, SET, 1) == b"OK"
    assert client.evalsha(REMOVE.sha, 1, SET, 999) == b"OK"
    assert client.zcard(SET) == 1
    assert client.evalsha(REMOVE_ALL.sha, 2, SET, LAST) == b"OK"
    assert client.keys("*") == []


def test_d10_a_message_half_way_through_qos_2_says_so(client):
    load_all(client)
    add(client, "a")
    assert client.evalsha(MARK_PUBREL.sha, 1, SET, 1) == b"OK"
    assert [message["packetType"] for message in get(client)] == ["PUBREL"]
    assert client.ttl(f"{SET}_1") == -1
    assert client.evalsha(MARK_PUBREL.sha, 1, SET, 2) == b"OK"
    assert client.exists(f"{SET}_2") == 0


def test_d11_scripts_are_known_by_the_sha1_of_their_bytes_until_they_are_flushed(server, client):
    source = b"return 'caf\xc3\xa9'  -- \xff"
    sha = hashlib.sha1(source).hexdigest()
    with pytest.raises(redis.exceptions.NoScriptError):
        client.evalsha(sha, 0)
    unknown = server.raw().ask([b"EVALSHA", sha.encode(), b"0"])
    assert unknown.startswith(b"-NOSCRIPT ")
    assert client.script_load(source) == sha
    assert server.raw().ask([b"EVALSHA", sha.encode(), b"0"]) == b"$5\r\ncaf\xc3\xa9\r\n"
    other = b"return 2"
    assert client.eval(other, 0) == 2
    assert client.evalsha(hashlib.sha1(other).hexdigest(), 0) == 2
    client.script_flush()
    with pytest.raises(redis.exceptions.NoScriptError):
        client.evalsha(sha, 0)


def test_d11_after_a_restart_scripts_are_unknown():
    server = Restartable()
    sha = server.send("SCRIPT", "LOAD", "return 1").splitlines()[1]
    assert server.send("EVALSHA", sha, "0") == b":1\r\n"
    assert server.restart().send("EVALSHA", sha, "0").startswith(b"-NOSCRIPT ")


@pytest.mark.parametrize(
    "client_id", ["c", "device-7", "a b/c", "über", "x" * 500, "65535", "a_messages", "*", "foo:bar\r\n", "."]
)
@pytest.mark.parametrize("prefix", ["", "tbmq:"])
def test_d12_all_that_is_kept_of_a_session_lies_in_one_slot(client, client_id, prefix):
    store = DeviceStore(client, prefix=prefix)
    store.add(client_id, [Message("t"), Message("t")])
    assert len({key_slot(key) for key in client.keys("*")}) == 1
    assert key_slot(client.keys("*")[0]) == key_slot(client_id.encode())
    assert len(client.keys("*")) == 5


@pytest.fixture
def redis_cluster(tmp_path):
    """A redis-server in cluster mode that has all slots."""
    port = free_port()
    words = [str(judge()), "--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--save", ""]
    process = subprocess.Popen(
        [*words, "--cluster-port", str(free_port())], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        assert process.stdout is not None
        assert any(b"Ready to accept connections" in line for line in process.stdout)
        client = redis.Redis(port=port)
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            pass
        yield client
    finally:
        process.kill()
        process.communicate()


@needs_redis
def test_d12_the_store_works_where_access_across_slots_is_refused(redis_cluster):
    with pytest.raises(redis.ResponseError, match=r"CROSSSLOT|hash to the same slot"):
        redis_cluster.execute_command("MSET", "{a}x", 1, "{b}x", 1)
    store = DeviceStore(redis_cluster, limit=3)
    for client_id in ("a", "b"):
        store.add(client_id, [Message("t", b"%d" % number) for number in range(5)])
        store.remove(client_id, 4)
        store.mark_pubrel(client_id, 5)
        assert [message.payload for message in store.get(client_id)] == [b"2", b"4"]
        store.remove_all(client_id)
    assert redis_cluster.dbsize() == 0


def test_d13_a_script_may_use_keys_that_it_did_not_declare(client):
    script = "redis.call('SET', KEYS[1] .. '_1', ARGV[1]) return redis.call('GET', KEYS[1] .. '_1')"
    assert client.eval(script, 1, SET, "v") == b"v"
    assert client.get(f"{SET}_1") == b"v"


def test_d14_an_error_in_a_script_is_no_rollback(client):
    load_all(client)
    messages = json.loads(pack("good", "bad"))
    messages[1]["msgExpiryInterval"] = 0
    with pytest.raises(redis.ResponseError, match="invalid expire time in 'set' command"):
        add(client, text=json.dumps(messages))
    assert [message["payload"] for message in get(client)] == ["good"]
    assert client.get(LAST) is None


def test_d15_five_hundred_scripts_in_one_send_are_answered_in_order(server, client):
    load_all(client)
    connection = server.raw()
    connection.send(
        *(
            [
                *(b"EVALSHA", ADD.sha.encode(), b"2", SET.encode(), LAST.encode(), b"10000"),
                pack(str(number)).encode(),
                b"60",
            ]
            for number in range(500)
        )
    )
    assert numbers_of_replies(connection, 500) == list(range(500))


def test_d15_replies_that_nobody_reads_hold_nobody_up(server, client):
    sha = client.script_load("return ARGV[1] .. string.rep('x', 40000)").encode()
    requests = [encode_request([b"EVALSHA", sha, b"0", b"%06d" % number]) for number in range(500)]
    connection = server.raw()
    connection.socket.settimeout(30)
    connection.socket.sendall(b"".join(requests))
    assert client.ping()
    each = len(b"$40006\r\n") + 40_006 + 2
    data = bytearray()
    while len(data) < 500 * each:
        data += connection.receive()
    assert len(data) == 500 * each
    assert [int(data[at * each + 8 : at * each + 14]) for at in range(500)] == list(range(500))


def test_d16_a_range_of_scores_is_removed(client):
    for start in range(0, 20_000, 1_000):
        client.zadd("refs", {f"_{number}": number for number in range(start, start + 1_000)})
    assert client.zremrangebyscore("refs", 5_000, "(5010") == 10
    assert client.zremrangebyscore("refs", "-inf", 9) == 10
    assert client.zremrangebyscore("refs", 50_000, "+inf") == 0
    assert client.zcard("refs") == 19_980
    assert client.zrange("refs", 0, 0) == [b"_10"]
    assert client.zrangebyscore("refs", 4_999, 5_010) == [b"_4999", b"_5010"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_d17_a_power_loss_takes_nothing_acknowledged_or_the_last_second(policy, seed):
    server = Restartable(appendfsync=policy)
    server.send("SCRIPT", "LOAD", ADD.text)
    durable = 0
    for number in range(1, 20 + seed):
        reply = server.send("EVALSHA", ADD.sha, "2", SET, LAST, "10000", pack(str(number), "second"), "600")
        assert reply == b":%d\r\n" % (2 * number - 2)
        if policy == "always":
            durable = number
        elif number % 5 == 0:
            server.clock.advance(1_000)
            server.cron()
            durable = number
    after = Restartable(server.disk.cut_power(seed), server.clock, appendfsync=policy)
    values = after.engine.state.keyspace[0].values
    last = int(values.get(LAST.encode(), b"0"))
    assert last % 2 == 0
    assert last >= 2 * durable
    assert set(values) - {SET.encode(), LAST.encode()} == {f"{SET}_{one}".encode() for one in range(1, last + 1)}
    assert len(values[SET.encode()]) == last
