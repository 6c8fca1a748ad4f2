"""Input that cannot be: refused with what is wrong and what to do, and nothing is written."""

import asyncio
from datetime import datetime

import pytest
import redis
import redis.asyncio

from streamd.clients.topics import AsyncTopicLog, Iterator, LogDropped, Message, NotStored, TopicLog
from streamd.clients.topics import handle as handles
from tests.topics.replays import dump, replay

PUBLISH = [
    (("a/+",), "wildcard + at position 2; a message has one topic"),
    (("a/#",), "wildcard # at position 2"),
    (("",), "the topic is empty"),
    (("a\0b",), "NUL at position 1; leave it out"),
    (("x" * 65_536,), "at most 65,535"),
    (("b",), "topic 'b' is outside of log 'log', whose filters are a/#, c: publish to another log, or reconfigure"),
    (("a/x", 7), "payload of type int; give bytes or text"),
    (("a/x", b"", None, "1"), "an iid, but no publisher"),
    (("a/x", b"", ""), "publisher of 0 bytes; give 1 to 65,535"),
    (("a/x", b"", "p", ""), "iid of 0 bytes"),
    (("a/x", b"", "p", None, 0), "expiry_s 0; give seconds above 0"),
    (("a/x", b"", "p", None, None, {"n": 1}), "property 'n': 1; properties are text"),
    (("a/x", b"", "p", None, "60"), "expiry_s '60'; give seconds above 0, or None for never"),
    (("a/x", b"", "p", None, float("inf")), "expiry_s inf; give seconds above 0"),
    (("a/x", b"", "p", None, float("nan")), "expiry_s nan; give seconds above 0"),
    (("a/x", b"", "p", None, 1e15), "expiry_s 1000000000000000.0; give seconds above 0"),
    (("a/x", b"", "p", None, None, {}, 3), "qos 3; it is 0, 1 or 2"),
    (("a/x", b"", "p", None, None, {"\ud800": "1"}), r"property '\ud800': no character at position 0"),
    (("a/x", b"", "p", None, None, {}, 0, False, ["n"]), "user_properties ['n']; give pairs of name and value"),
    (("a/x", b"", "p", None, None, {}, 0, False, ["ab"]), "user_properties ['ab']; give pairs of name and value"),
    (("a/x", b"", "p", None, None, {}, 0, False, {"ab": "1"}), "user_properties {'ab': '1'}; give pairs"),
    (("a/x", b"", "p", None, None, {}, 0, False, 7), "user_properties 7; give pairs of name and value"),
    (("a/x", b"", "p", None, None, {}, 0, False, [("n", 1)]), "property 'n': 1; properties are text"),
    (("a/x", b"", "p", None, None, {"n": "1"}, 0, False, [("n", "1")]), "properties and user_properties; give one"),
    (("a/x", b"", "p", None, None, {}, 0, False, (), 2), "payload_format 2; it is 0, or 1 for text in UTF-8"),
    (("a/x", b"", "p", None, None, {}, 0, False, (), 0, 7), "content_type of type int; give text"),
    (
        ("a/x", b"", "p", None, None, {}, 0, False, (), 0, "x" * 65_536),
        "content_type of 65,536 bytes; MQTT has at most",
    ),
    (("a/x", b"", "p", None, None, {}, 0, False, (), 0, None, ["a"]), "response_topic of type list; give text"),
    (("a/x", b"", "p", None, None, {}, 0, False, (), 0, None, "a/+"), "wildcard + at position 2"),
    (("a/x", b"", "p", None, None, {}, 0, False, (), 0, None, None, "x"), "correlation of type str; give bytes"),
    (
        ("a/x", b"", "p", None, None, {}, 0, False, (), 0, None, None, bytes(65_536)),
        "correlation of 65,536 bytes; MQTT",
    ),
]


@pytest.fixture
def log(client):
    return TopicLog.create(client, "log", filters=["a/#", "c"])


@pytest.mark.parametrize(("arguments", "said"), PUBLISH)
def test_a_message_that_cannot_be_is_refused_with_all_that_are_published_with_it(client, log, arguments, said):
    before = dump(client)
    message = Message(*arguments) if len(arguments) > 1 else Message(*arguments, b"")
    with pytest.raises(ValueError) as refused:
        log.publish_many([Message("a/b", b""), message])
    assert said in str(refused.value)
    assert dump(client) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shards": 0}, "shards 0: give a whole number from 1 to 1,024"),
        ({"shards": True}, "shards True"),
        ({"shards": 1_025}, "shards 1025"),
        ({"by": "device"}, "by 'device': messages go to shards by 'publisher' or by 'topic'"),
        ({"retention_s": 0}, "retention_s 0: give whole seconds, 1 or more"),
        ({"retention_s": 1.5}, "retention_s 1.5"),
        ({"filters": []}, "a log without filters takes no topic; give at least one, '#' for all"),
        ({"filters": "a/b"}, "filters 'a/b': give a list of filters: ['a/b']"),
        ({"filters": ["a/#/b"]}, "# at position 2 is not the last level"),
        ({"filters": ["x", "y#"]}, "# at position 1 is only a part of its level"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_create_and_reconfigure(client, log, change, said):
    before = dump(client)
    with pytest.raises(ValueError) as refused:
        TopicLog.create(client, "other", **{"filters": ["z"], **change})
    assert said in str(refused.value)
    with pytest.raises(ValueError) as refused:
        log.reconfigure(**change)
    assert said in str(refused.value)
    assert dump(client) == before


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda log: log.iterator("a/#/b"), "# at position 2 is not the last level"),
        (lambda log: log.iterator("a", "yesterday"), "start 'yesterday': give 'earliest', 'latest', or a datetime"),
        (lambda log: log.iterator("a", datetime(2026, 1, 1)), "start 2026-01-01T00:00:00: of which time zone?"),
        (lambda log: log.next(log.iterator(), 0), "n 0: ask for 1 entry or more"),
        (lambda log: log.next(log.iterator(), 1, -1), "block_ms -1: give whole milliseconds"),
        (lambda log: log.share("a:b"), "its name has no ':'"),
        (lambda log: log.share("a", member="{x}"), "member '{x}': a name has 1 to 100 letters"),
        (lambda log: log.share("a", lease_ms=0), "lease_ms 0: give whole milliseconds, 10 or more"),
        (lambda log: log.drop_share("none"), "log 'log' has no shared replay 'none'"),
        (lambda log: log.drop(generation=77), "log 'log' has no generation 77: it has 1"),
        (lambda log: log.drop(generation=1), "generation 1 of log 'log' is the current one: reconfigure the log first"),
        (lambda log: log.publish_many(["x"]), "message 0: str; give a Message or a pair"),
        (lambda log: log.publish_many([{"topic": "a/b"}]), "message 0: "),
    ],
)
def test_calls_that_cannot_be_are_refused(client, log, call, said):
    before = dump(client)
    with pytest.raises(ValueError) as refused:
        call(log)
    assert said in str(refused.value)
    assert dump(client) == before


@pytest.mark.parametrize("name", ["", "a b", "{a}", "a/b", "x" * 101, None, "ä"])
def test_a_name_that_cannot_be_part_of_a_key_is_refused(client, name):
    for call in (TopicLog.create, TopicLog.open):
        with pytest.raises(ValueError, match="a name has 1 to 100 letters, digits, or characters of"):
            call(client, name)
    assert dump(client) == {}


def test_a_log_is_made_once_and_opened_when_it_is_there(client, log):
    with pytest.raises(ValueError, match="log 'log' exists: open it, or drop it first"):
        TopicLog.create(client, "log")
    with pytest.raises(
        ValueError, match=r"no log 'lok': create it, with TopicLog\.create or `streamd topics create lok`"
    ):
        TopicLog.open(client, "lok")


def test_a_log_of_a_newer_version_is_left_alone(client, log):
    client.hset("{log}:meta", "version", 4)
    before = dump(client)
    for call in (lambda: TopicLog.open(client, "log"), log.iterator, log.retain, lambda: log.reconfigure(shards=2)):
        with pytest.raises(
            ValueError, match=r"made by a newer version \(layout 4, this one knows 3\): upgrade streamd"
        ):
            call()
    assert dump(client) == before


def test_an_iterator_of_another_log_is_refused(client, log):
    other = TopicLog.create(client, "other", filters=["z"])
    with pytest.raises(ValueError, match="an iterator of log 'other', given to log 'log': begin with this log's"):
        log.next(other.iterator())
    kept = log.iterator()
    log.drop()
    with pytest.raises(ValueError, match="an iterator of an earlier log of this name, now dropped, given to log 'log'"):
        TopicLog.create(client, "log", filters=["y"]).next(kept)


def test_a_changed_iterator_is_refused_at_every_byte(client, log):
    whole = bytes(log.iterator("a/+"))
    assert Iterator.from_bytes(whole) == log.iterator("a/+")
    for at in range(len(whole)):
        for garbled in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            with pytest.raises(ValueError, match=r"no iterator's|changed or cut|newer version's"):
                Iterator.from_bytes(garbled)


def test_a_client_that_decodes_is_refused(client):
    port = client.connection_pool.connection_kwargs["port"]
    said = "payloads are bytes: make it without decode_responses=True"
    with pytest.raises(ValueError, match=said):
        TopicLog.create(redis.Redis(port=port, decode_responses=True), "new")
    with pytest.raises(ValueError, match=said):
        asyncio.run(AsyncTopicLog.create(redis.asyncio.Redis(port=port, decode_responses=True), "new"))
    assert dump(client) == {}


def test_members_with_another_filter_or_order_are_refused(client, log):
    log.share("group", "a/+")
    with pytest.raises(ValueError, match=r"shared replay 'group' reads 'a/\+', not 'a/b': join with that, or take"):
        log.share("group", "a/b")
    with pytest.raises(ValueError, match="shared replay 'group' was begun with ordered=False: join with that"):
        log.share("group", "a/+", ordered=True)


def test_a_server_that_cannot_keep_the_promise_of_an_iid_is_named(client, log):
    log._handle.abilities = handles.Abilities(idmp=False, scripts=False, xfilter=False)
    log.publish("c", b"without", publisher="p")
    with pytest.raises(ValueError, match="neither XADD IDMP nor scripts, so it cannot store an iid once: use streamd"):
        log.publish("c", b"with", publisher="p", iid="1")
    assert len(replay(log)) == 1


def test_what_is_published_to_a_dropped_log_is_not_lost_silently(client, log):
    TopicLog.open(client, "log").drop()
    before = dump(client)
    for call in (lambda: log.publish("c", b""), log.iterator, log.drop, lambda: log.reconfigure(shards=1)):
        with pytest.raises(LogDropped, match="log 'log' was dropped: create it again"):
            call()
    assert dump(client) == before
    TopicLog.create(client, "log")
    with pytest.raises(LogDropped, match="and another one made under its name: open that"):
        log.publish("c", b"")


def test_a_stream_that_somebody_deleted_is_named_and_reconfigure_mends_it(client, log):
    client.delete("{log/0}:g1", "{log/1}:g1", "{log/2}:g1", "{log/3}:g1")
    with pytest.raises(NotStored, match="1 of 1 messages were not stored: a stream of log 'log' is missing") as refused:
        log.publish("c", b"")
    assert refused.value.ids == [None]
    log.reconfigure(shards=2)
    log.publish("c", b"stored")
    assert len(log.next(log.iterator("c", "latest"), 10).entries) == 0
