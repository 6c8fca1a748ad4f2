"""The client library that keeps sessions: what it writes, refuses, sends together and does when something breaks."""

import asyncio
import threading

import pytest
import redis
import redis.asyncio
import redis.cluster

from demo.proxy import CuttingProxy
from streamd.clients.sessions import AsyncDeviceStore, DeviceStore, Message, Session
from streamd.clients.sessions.requests import ADD
from streamd.testing import EmbeddedServer

FULL = Message(
    "devices/7/commands",
    b"\x00\xff payload",
    qos=2,
    retain=True,
    expiry_s=600,
    payload_format=1,
    content_type="text/plain; ü",
    response_topic="answers/7",
    correlation=b"\x00\x01\x02",
    user_properties=(("name", 'a "value" / \\'), ("name", ""), ("", "ключ")),
    subscription_ids=(1, 268_435_455),
    time_ms=1_700_000_000_123,
)


@pytest.fixture
def store(client):
    with DeviceStore(client) as store:
        yield store


def payloads(messages):
    return [message.payload for message in messages]


def test_all_fields_of_mqtt_come_back(store):
    assert store.add("c", FULL) == [1]
    (message,) = store.get("c")
    assert message == Message(**{**vars_of(FULL), "packet_id": 1})


def vars_of(message):
    return {name: getattr(message, name) for name in message.__slots__}


def test_fields_that_are_not_given_take_no_place(client, store):
    store.add("c", Message("t", b"x"))
    text = client.get("{c}_messages_1")
    assert b"null" not in text
    assert b"Propert" not in text
    (message,) = store.get("c")
    assert message.expiry_s is message.correlation is None
    assert message.user_properties == message.subscription_ids == ()


def test_a_message_half_way_through_qos_2_keeps_all_its_fields(store):
    store.add("c", [FULL, Message("t")])
    store.mark_pubrel("c", 1)
    store.mark_pubrel("c", 77)
    first, second = store.get("c")
    assert first == Message(**{**vars_of(FULL), "packet_id": 1, "packet_type": "PUBREL"})
    assert second.packet_type == "PUBLISH"


def test_messages_of_another_broker_are_read(client, store):
    client.zadd("{c}_messages", {"{c}_messages_7": 7})
    client.set("{c}_messages_7", b'{"topic":"t","qos":1,"packetId":7,"packetType":"PUBLISH","payload":"aGk=","time":5}')
    (message,) = store.get("c")
    assert (message.payload, message.packet_id, message.time_ms) == (b"hi", 7, 5)


NO_MESSAGES = {
    "empty": b"",
    "text": b"not JSON",
    "a part": b'{"topic":"t","qos":1,"pack',
    "not UTF-8": b'{"topic":"\xff","qos":1,"packetId":2}',
    "a list": b"[1]",
    "a number": b"5",
    "without a topic": b'{"qos":1,"packetId":2}',
    "a topic that is no text": b'{"topic":7,"qos":1,"packetId":2}',
    "a QoS of its own": b'{"topic":"t","qos":"high","packetId":2}',
    "a packet ID that is none": b'{"topic":"t","qos":1,"packetId":0}',
    "a payload that is not base64": b'{"topic":"t","qos":1,"packetId":2,"payload":"a"}',
    "a payload that is a number": b'{"topic":"t","qos":1,"packetId":2,"payload":5}',
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("value", NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_a_value_that_is_no_message_is_left_out_and_named(client, store, caplog, value):
    store.add("c", [Message("t", b"1"), Message("t", b"2"), Message("t", b"3")])
    client.set("{c}_messages_2", value)
    messages = store.get("c")
    assert payloads(messages) == [b"1", b"3"]
    ((key, packet_id, reason),) = messages.damaged
    assert (key, packet_id) == ("{c}_messages_2", 2)
    assert "no message of a session" in reason
    assert "client 'c': the message with packet ID 2 is left out" in caplog.text
    store.remove("c", 2)
    assert store.get("c").damaged == ()


def test_a_key_of_another_type_is_left_out_and_named(client, store):
    store.add("c", [Message("t", b"1"), Message("t", b"2")])
    client.delete("{c}_messages_1")
    client.hset("{c}_messages_1", "f", "v")
    client.zadd("{c}_messages", {"elsewhere": 1.5})
    client.set("elsewhere", "x")
    messages = store.get("c")
    assert payloads(messages) == [b"2"]
    assert [(one.key, one.packet_id) for one in messages.damaged] == [("{c}_messages_1", 1), ("elsewhere", None)]


def test_a_client_that_decodes_replies_has_damaged_messages_named_too(server):
    with redis.Redis(port=server.port, decode_responses=True) as client, DeviceStore(client) as store:
        store.add("c", [Message("t", b"1"), Message("t", b"2")])
        client.set("{c}_messages_1", "x")
        assert [one.packet_id for one in store.get("c").damaged] == [1]


@pytest.mark.parametrize("store", [DeviceStore, AsyncDeviceStore])
def test_a_client_of_a_cluster_is_refused_when_the_store_is_made(store):
    cluster = redis.cluster.RedisCluster.__new__(redis.cluster.RedisCluster)
    with pytest.raises(ValueError, match=r"needs a redis\.Redis; RedisCluster is not supported"):
        store(cluster)


def test_packet_ids_go_on_and_begin_again_behind_65535(store):
    assert store.add("c", [Message("t")] * 3) == [1, 2, 3]
    store.set_last_packet_id("c", 65_534)
    assert store.add("c", [Message("t", b"%d" % number) for number in range(3)]) == [65_535, 1, 2]
    assert [message.packet_id for message in store.get("c")][-3:] == [65_535, 1, 2]


def test_a_session_says_its_last_packet_id_and_when_it_was_given(server, store):
    assert store.session("c") is None
    before_ms = server.client.time()[0] * 1000 + server.client.time()[1] // 1000
    store.add("c", [Message("t")] * 2)
    last, updated_ms = store.session("c")
    assert last == 2
    assert before_ms <= updated_ms <= before_ms + 10_000
    store.set_last_packet_id("d", 9)  # as another broker does, which notes no time
    assert store.session("d") == Session(9, None)
    store.remove_all("c")
    assert store.session("c") is None


def test_only_the_newest_messages_are_kept(client):
    store = DeviceStore(client, limit=5)
    for number in range(12):
        store.add("c", Message("t", b"%d" % number))
    assert payloads(store.get("c")) == [b"7", b"8", b"9", b"10", b"11"]
    store.add("c", [Message("t", b"%d" % number) for number in range(100, 3_100)])
    assert payloads(store.get("c")) == [b"3095", b"3096", b"3097", b"3098", b"3099"]
    assert client.dbsize() == 8


def test_messages_that_are_removed_or_expired_come_no_more(server, client):
    store = DeviceStore(client, ttl_s=10)
    store.add("c", [Message("t", b"a"), Message("t", b"b"), Message("t", b"c", expiry_s=1_000)])
    store.remove("c", 1)
    store.remove("c", 1)
    assert payloads(store.get("c")) == [b"b", b"c"]
    server.let_expire(11, "{c}_messages_2")
    assert payloads(store.get("c")) == [b"c"]


EXPIRING = [
    Message("t", b"a", expiry_s=600),
    Message("t", b"b"),
    Message("t", b"c", qos=2, expiry_s=600),
    Message("t", b'"msgExpiryInterval":7'),
    Message("t", b"e", user_properties=(("msgExpiryInterval", '"msgExpiryInterval":7'),)),
    Message("t", b"f", expiry_s=4_294_967_295),
]


def check_what_is_left(messages):
    first, second, third, *others, last = messages
    assert 349 <= first.expiry_s <= 350
    assert second.expiry_s is None
    assert (third.packet_type, third.expiry_s) == ("PUBREL", 600)  # it no longer expires
    assert [message.expiry_s for message in others] == [None, None]
    assert 4_294_967_044 <= last.expiry_s <= 4_294_967_045


def test_get_returns_what_is_left_of_an_expiry(server, store):
    store.add("c", EXPIRING)
    store.mark_pubrel("c", 3)
    server.let_pass(250, "{c}_messages_1", "{c}_messages_6")
    check_what_is_left(store.get("c"))
    later = store.buffered.get("c")
    store.flush()
    check_what_is_left(later.result())
    # What is stored is what was given, as other programs expect it.
    assert b'"msgExpiryInterval":600' in server.client.get("{c}_messages_1")


@pytest.mark.parametrize(
    ("passed_ms", "expiry_s"), [(0, 60), (1, 60), (1_000, 59), (1_001, 59), (58_999, 2), (59_000, 1), (59_999, 1)]
)
def test_what_is_left_of_an_expiry_is_rounded_up_and_at_least_a_second(passed_ms, expiry_s):
    with EmbeddedServer() as server, DeviceStore(server.client()) as store:
        store.add("c", Message("t", expiry_s=60))
        server.advance(milliseconds=passed_ms)
        (message,) = store.get("c")
        assert message.expiry_s == expiry_s
        server.advance(milliseconds=60_000 - passed_ms)
        assert store.get("c") == []


def test_no_messages_are_no_request(store, client):
    assert store.add("c", []) == []
    assert store.buffered.add("c", iter(())).result() == []
    assert client.dbsize() == 0


BAD_CLIENT_IDS = ["", "a\0b", "{", "}", "a{b}", "\ud800", "x" * 65_536, b"bytes", None, 7]


@pytest.mark.parametrize("client_id", BAD_CLIENT_IDS, ids=lambda one: repr(one)[:12])
def test_a_client_id_that_cannot_be_is_refused_by_every_method(client, store, client_id):
    for call in (
        lambda of: of.add(client_id, Message("t")),
        lambda of: of.add(client_id, []),
        lambda of: of.get(client_id),
        lambda of: of.remove(client_id, 1),
        lambda of: of.remove_all(client_id),
        lambda of: of.mark_pubrel(client_id, 1),
        lambda of: of.session(client_id),
        lambda of: of.set_last_packet_id(client_id, 1),
    ):
        for of in (store, store.buffered):
            with pytest.raises(ValueError, match="client ID"):
                call(of)
    store.flush()
    assert client.dbsize() == 0


@pytest.mark.parametrize(
    "bad",
    [
        *({"topic": ""}, {"topic": "a/#"}, {"topic": "+"}, {"topic": "a\0"}, {"topic": None}, {"topic": "\udc00"}),
        *({"payload": "text"}, {"payload": None}, {"qos": 3}, {"qos": -1}, {"qos": True}, {"qos": "1"}),
        *({"expiry_s": 0}, {"expiry_s": -1}, {"expiry_s": 2**32}, {"expiry_s": 1.5}, {"payload_format": 2}),
        *({"content_type": "a\0"}, {"response_topic": "#"}, {"response_topic": ""}, {"correlation": "text"}),
        *({"correlation": bytes(65_536)}, {"user_properties": (("a",),)}, {"user_properties": (("a", "\0"),)}),
        *({"user_properties": ("ab",)}, {"subscription_ids": (0,)}, {"subscription_ids": (2**28,)}, {"retain": 1}),
        *({"time_ms": -1}, {"time_ms": 10**14}),
    ],
    ids=repr,
)
def test_a_message_that_cannot_be_is_refused_with_all_that_came_with_it(client, store, bad):
    with pytest.raises(ValueError):
        store.add("c", [Message("t"), Message(**{"topic": "t", **bad})])
    assert client.dbsize() == 0


@pytest.mark.parametrize("packet_id", [0, -1, 65_536, "1", None, 1.0, True])
def test_a_packet_id_that_cannot_be_is_refused(client, store, packet_id):
    store.add("c", Message("t"))
    for call in (store.remove, store.mark_pubrel, store.buffered.remove, store.buffered.mark_pubrel):
        with pytest.raises(ValueError, match="packet ID"):
            call("c", packet_id)
    with pytest.raises(ValueError, match="packet ID"):
        store.set_last_packet_id("c", -1 if packet_id == 0 else packet_id)
    assert payloads(store.get("c")) == [b""]


@pytest.mark.parametrize(
    "bad",
    [
        *({"limit": 0}, {"limit": 65_536}, {"limit": -1}, {"limit": "10"}, {"limit": True}),
        *({"ttl_s": 0}, {"ttl_s": -1}, {"ttl_s": 1.5}, {"ttl_s": 2**32}, {"prefix": "a{"}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", [DeviceStore, AsyncDeviceStore])
def test_a_store_that_cannot_be_is_refused(client, kind, bad):
    with pytest.raises(ValueError):
        kind(client, **bad)


@pytest.mark.parametrize("kind", [DeviceStore, AsyncDeviceStore])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *(("65536", "65536"), ("0", "0"), ("-1", "-1"), ("many", "many"), ("", "''"), ("10.5", "10.5"), ("1e3", "1e3")),
        *((" 10", " 10"), ("+10", "+10"), ("1_000", "1_000"), ("\u0664", "\u0664"), ("10\n", r"'10\n'")),
        ("9" * 5_000, "9" * 40),
    ],
    ids=lambda text: repr(text)[:12],
)
def test_a_variable_that_is_no_limit_is_refused_with_a_line_that_names_it(client, kind, monkeypatch, text, shown):
    monkeypatch.setenv("STREAMD_SESSIONS_LIMIT", text)
    with pytest.raises(ValueError) as refused:
        kind(client)
    assert str(refused.value) == f"STREAMD_SESSIONS_LIMIT={shown}: give a number, 1 to 65535"
    kind(client, limit=5)  # the variable is not needed, and not looked at


@pytest.mark.parametrize(("limit", "kept"), [(None, 4), (2, 2)])
def test_the_variable_is_the_limit_of_a_store_without_an_argument(server, monkeypatch, limit, kept):
    monkeypatch.setenv("STREAMD_SESSIONS_LIMIT", "4")
    messages = [Message("t", b"%d" % number) for number in range(9)]

    async def story(store):
        await store.add("d", messages)
        assert payloads(await store.get("d")) == [message.payload for message in messages[-kept:]]

    with DeviceStore(server.client, limit) as store:
        store.add("c", messages)
        assert payloads(store.get("c")) == [message.payload for message in messages[-kept:]]
    run_async(server, story, limit=limit)


@pytest.mark.parametrize("text", ["1", "65535"])
def test_the_variable_may_be_any_number_of_packet_ids(client, monkeypatch, text):
    monkeypatch.setenv("STREAMD_SESSIONS_LIMIT", text)
    DeviceStore(client)


def test_without_the_variable_the_limit_is_ten_thousand(client, monkeypatch):
    monkeypatch.delenv("STREAMD_SESSIONS_LIMIT", raising=False)
    with DeviceStore(client) as store:
        store.add("c", [Message("t")] * 10_001)
        assert client.zcard("{c}_messages") == 10_000


def test_no_more_messages_than_there_are_packet_ids_go_into_one_call(client, store):
    with pytest.raises(ValueError, match="65535"):
        store.add("c", [Message("t")] * 65_536)
    assert client.dbsize() == 0


# -- sending together -------------------------------------------------------------------------------------------------


def test_what_is_buffered_is_sent_when_there_is_enough_of_it(client):
    with DeviceStore(client, flush_commands=10, flush_ms=60_000) as store:
        futures = [store.buffered.add("c", Message("t", b"%d" % number)) for number in range(9)]
        assert not any(future.done() for future in futures)
        assert client.dbsize() == 0
        last = store.buffered.add("c", Message("t", b"9"))
        assert last.result(0) == [10]
        assert [future.result(0) for future in futures] == [[number] for number in range(1, 10)]


def test_what_is_buffered_is_sent_when_it_has_waited_for_so_long(client):
    with DeviceStore(client, flush_commands=1_000, flush_ms=3) as store:
        assert store.buffered.add("c", Message("t")).result(10) == [1]
        assert store.buffered.add("c", Message("t")).result(10) == [2]


def test_a_call_of_the_store_itself_sends_what_waits_before_it(client):
    with DeviceStore(client, flush_ms=60_000) as store:
        store.buffered.add("c", Message("t", b"1"))
        removed = store.buffered.remove("c", 1)
        store.buffered.add("c", Message("t", b"2"))
        assert payloads(store.get("c")) == [b"2"]
        assert removed.result(0) is None
        waiting = store.buffered.mark_pubrel("c", 2)
        store.flush()
        assert waiting.done()
        late = store.buffered.session("c")
    assert late.result(0).last_packet_id == 2
    with pytest.raises(RuntimeError, match="closed"):
        store.buffered.get("c")


def test_threads_share_a_store_and_each_keeps_its_order(client):
    with DeviceStore(client, flush_commands=20) as store:

        def work(name):
            for number in range(100):
                store.buffered.add(name, Message("t", b"%d" % number))

        threads = [threading.Thread(target=work, args=(f"c{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.flush()
        for number in range(8):
            assert payloads(store.get(f"c{number}")) == [b"%d" % number for number in range(100)]


def test_scripts_that_the_server_has_forgotten_are_made_known_again(client, store):
    store.add("c", Message("t", b"1"))
    for _ in range(2):
        client.script_flush()
        store.add("c", Message("t", b"2"))
        client.script_flush()
        for number in range(5):
            store.buffered.add("c", Message("t", b"%d" % number))
            store.buffered.remove("c", 1)
        store.flush()
    assert payloads(store.get("c")) == [b"2", b"0", b"1", b"2", b"3", b"4"] * 2
    assert client.script_exists(ADD.sha) == [True]


def test_an_error_of_one_request_is_that_requests_alone(client, store):
    client.set("{bad}_messages", "a string")
    good = store.buffered.add("c", Message("t"))
    bad = store.buffered.add("bad", Message("t"))
    after = store.buffered.get("c")
    store.flush()
    assert good.result() == [1]
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        bad.result()
    assert len(after.result()) == 1
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        store.add("bad", Message("t"))


def test_a_request_is_never_sent_twice_though_connections_break(server):
    proxy = CuttingProxy(server.port, (3, 9))
    proxy.start()
    known = {f"c{number}": 0 for number in range(4)}
    broken = 0
    try:
        with redis.Redis(port=proxy.port) as client, DeviceStore(client) as store:
            for number in range(120):
                client_id = f"c{number % 4}"
                try:
                    (known[client_id],) = store.add(client_id, Message("t", b"%d" % number))
                except redis.ConnectionError:
                    broken += 1
                    # What the library says to do: ask which packet ID was given last, and add again if it was not.
                    session = DeviceStore(server.client).session(client_id)
                    if session is None or session.last_packet_id == known[client_id]:
                        DeviceStore(server.client).add(client_id, Message("t", b"%d" % number))
                    known[client_id] += 1
    finally:
        proxy.stop()
    assert broken > 3
    with DeviceStore(server.client) as store:
        for client_id in known:
            found = [int(message.payload) for message in store.get(client_id)]
            assert found == list(range(int(client_id[1:]), 120, 4))


# -- asyncio ----------------------------------------------------------------------------------------------------------


def run_async(server, story, **options):
    async def main():
        async with (
            redis.asyncio.Redis(port=server.port, protocol=server.protocol) as client,
            AsyncDeviceStore(client, **options) as store,
        ):
            await story(store)

    asyncio.run(main())


def test_tasks_share_a_store_and_what_they_ask_for_goes_together(server):
    async def story(store):
        ids = await asyncio.gather(*(store.add(f"c{number % 3}", Message("t", b"%d" % number)) for number in range(9)))
        assert ids == [[1]] * 3 + [[2]] * 3 + [[3]] * 3
        assert payloads(await store.get("c1")) == [b"1", b"4", b"7"]
        await asyncio.gather(store.remove("c1", 1), store.mark_pubrel("c1", 2), store.set_last_packet_id("c9", 4))
        assert [message.packet_type for message in await store.get("c1")] == ["PUBREL", "PUBLISH"]
        assert (await store.session("c9")).last_packet_id == 4
        await store.remove_all("c1")
        assert await store.get("c1") == []
        assert await store.add("c1", []) == []

    run_async(server, story, flush_commands=4)
    assert server.client.exists("{c1}_messages") == 0


def test_get_of_a_store_for_asyncio_returns_what_is_left_of_an_expiry(server):
    async def story(store):
        await store.add("c", EXPIRING)
        await store.mark_pubrel("c", 3)
        server.let_pass(250, "{c}_messages_1", "{c}_messages_6")
        check_what_is_left(await store.get("c"))

    run_async(server, story)


def test_tasks_get_the_errors_of_their_own_requests(server):
    server.client.set("{bad}_messages", "a string")

    async def story(store):
        results = await asyncio.gather(
            store.add("c", Message("t")), store.get("bad"), store.get("c"), return_exceptions=True
        )
        assert results[0] == [1]
        assert isinstance(results[1], redis.ResponseError)
        assert len(results[2]) == 1
        with pytest.raises(ValueError, match="brace"):
            await store.get("{c}")
        server.client.script_flush()
        assert await store.add("c", Message("t")) == [2]

    run_async(server, story)


def test_a_task_that_is_cancelled_leaves_the_others_their_results(server):
    async def story(store):
        first = asyncio.ensure_future(store.add("c", Message("t")))
        second = asyncio.ensure_future(store.add("c", Message("t")))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == [2]

    run_async(server, story)
