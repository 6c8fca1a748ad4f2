"""What brokers keep with a message: its properties in their order, its expiry, and the version that this takes."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
import redis.asyncio

from streamd.clients.topics import AsyncTopicLog, Entry, Message, TopicLog, layout
from tests.integration.process import run_cli
from tests.topics.replays import replay

MORE = {
    "user_properties": [(), (("a", "1"),), (("b", "2"), ("a", "1"), ("b", "3"), ("b", "2")), (("", ""), ("ü", "\n\0"))],
    "expiry_s": [None, 90.5],
    "payload_format": [0, 1],
    "content_type": [None, "", "text/plain"],
    "response_topic": [None, "answers/ü"],
    "correlation": [None, b"", b"\xff\x00"],
    "publisher": [None, "p"],
}
NEWER = [
    {"user_properties": (("n", "1"), ("n", "2"))},
    {"payload_format": 1},
    {"content_type": ""},
    {"response_topic": "t"},
    {"correlation": b""},
]
OLDER = [
    {},
    {"qos": 1, "expiry_s": 60.0},
    {"properties": {"n": "1", "m": "2"}},
    {"user_properties": (("n", "1"), ("m", "2"))},
]


@pytest.fixture
def log(client):
    return TopicLog.create(client, "log", shards=1)


def read(log, pattern="#"):
    return replay(log, pattern, n=10_000)


def read_shared(log, pattern="#", ordered=False):
    with log.share("g", pattern, ordered=ordered) as member:
        found = []
        while (delivery := member.next(1_000)).state == "more":
            member.ack(delivery.entries)
            found += delivery.entries
        return found


READERS = {
    "iterator": read,
    "iterator with a filter": lambda log: read(log, "+"),
    "members": read_shared,
    "members with a filter": lambda log: read_shared(log, "+"),
    "members in order": lambda log: read_shared(log, ordered=True),
}


def combinations():
    """Messages with every combination of the attributes, every second one with an iid."""
    given = [Message("t", b"x", **dict(zip(MORE, values, strict=True))) for values in product(*MORE.values())]
    return [one._replace(iid=str(number) if one.publisher else None) for number, one in enumerate(given)]


def assert_same(entries, given):
    for name in MORE:
        assert [getattr(one, name) for one in entries] == [getattr(one, name) for one in given], name
    assert [one.properties for one in entries] == [dict(one.user_properties) for one in given]
    assert {one.expires and one.expires - one.time for one in entries} == {None, timedelta(seconds=90.5)}


@pytest.mark.parametrize("reader", READERS)
def test_every_combination_comes_back_as_it_was_given(client, reader):
    log = TopicLog.create(client, "log", shards=1, by="topic")
    ids = log.publish_many(combinations())
    entries = sorted(READERS[reader](log), key=lambda one: ids.index(one.id))
    assert [one.id for one in entries] == ids
    assert_same(entries, combinations())


def test_every_combination_comes_back_from_asyncio(client):
    async def come_back():
        async with redis.asyncio.Redis(port=client.connection_pool.connection_kwargs["port"]) as other:
            log = await AsyncTopicLog.create(other, "log", shards=1, by="topic")
            ids = await log.publish_many(combinations())
            by_id = {one.id: one for one in (await log.next(await log.iterator(), 10_000)).entries}
            assert_same([by_id[one] for one in ids], combinations())

    asyncio.run(come_back())


@pytest.mark.parametrize(
    ("waited_ms", "left_s"), [(0, 90.5), (500, 90.0), (90_499, 0.001), (90_500, 0.0), (10**9, 0.0)]
)
def test_the_time_that_is_left_is_counted_from_the_entry_id(waited_ms, left_s):
    entry = Entry("1795248000000-0", "t", None, b"", (), 0, False, 1, 0, 90.5)
    at = entry.time + timedelta(milliseconds=waited_ms)
    assert entry.left_s(at) == pytest.approx(left_s)
    assert (entry.expires <= at) == (left_s == 0)


def test_a_message_without_an_expiry_never_expires_and_a_time_needs_its_zone():
    entry = Entry("1795248000000-0", "t", None, b"", (), 0, False, 1, 0)
    assert entry.left_s(datetime.now(UTC)) is entry.expires is None
    with pytest.raises(ValueError, match=r"at 2026-01-31T14:05:00: of which time zone\?"):
        entry.left_s(datetime(2026, 1, 31, 14, 5))
    later = Entry("1795248000000-0", "t", None, b"", (), 0, False, 1, 0, 1e14)
    assert later.expires is None
    assert later.left_s(entry.time) == 1e14


@pytest.mark.parametrize("more", OLDER)
def test_a_message_that_earlier_libraries_can_read_leaves_the_version(client, log, more):
    log.publish_many([Message("t", b"x", **more)])
    assert client.hget("{log}:meta", "version") == b"1"


@pytest.mark.parametrize(("more", "version"), [*[(more, b"2") for more in NEWER], ({"retain": True}, b"3")])
def test_a_message_of_a_new_kind_raises_the_version_before_it_is_written(client, log, more, version):
    other = TopicLog.open(client, "log")
    log.publish_many([Message("t", b"x", **more)])
    assert client.hget("{log}:meta", "version") == version
    other.publish_many([Message("t", b"y", **more)])
    log.reconfigure(shards=2)
    assert client.hget("{log}:meta", "version") == version
    assert len(read(log)) == 2


def test_no_message_of_a_new_kind_is_written_if_the_version_cannot_be_raised(client, log):
    """A user without the right to change the settings writes nothing that others would misread."""
    client.acl_setuser("ann", enabled=True, passwords=["+p"], keys=["*"], commands=["+@all", "-hset"])
    try:
        with type(client)(port=client.connection_pool.connection_kwargs["port"], username="ann", password="p") as ann:
            refused = TopicLog.open(ann, "log")
            with pytest.raises(Exception, match=r"(?i)no permissions|NOPERM|EXECABORT"):
                refused.publish_many([Message("t", b"x", correlation=b"1")])
        assert client.hget("{log}:meta", "version") == b"1"
        assert read(log) == []
    finally:
        client.acl_deluser("ann")


def test_entries_of_earlier_libraries_and_of_other_programs_are_read(client, log):
    written = [
        {"t": "t", "p": "x", "c": "p", "e": "1000000", "q": "1", "r": "1", "u:n": "1", "u:m": "2"},
        {"t": "t", "p": "x", "e": "1000000"},
        {"t": "t", "p": "x", "more": "y"},
        {"t": "t", "c": "p"},
        {"t": "t", "p": "x", "u": "no list", "u:n": "1"},
        {"t": "t", "p": "x", "u": "[7]", "u:n": "1"},
        {"t": "t", "p": "x", "e": "soon"},
        {"t": "t", "p": "x", "u": "[" * 100_000, "u:n": "1"},
        {"t": "t", "p": "x", "u": '["ab"]', "u:n": "1"},
        {"t": "t", "p": "x", "u": '{"ab": "1"}', "u:n": "1"},
        {"t": "t", "p": "x", "u": '[["n", 1]]', "u:n": "1"},
        {"t": "t", "p": "x", "u": '[["n", "\\ud800"]]', "u:n": "1"},
        {"t": "t", "p": "x", "u": b"\xff", "u:n": "1"},
        {"t": "t", "p": "x", "e": "9" * 5_000, "q": "x"},
        {"t": "t", "p": "x", "e": "9" * 18, "q": "7"},
    ]
    for fields in written:
        client.xadd("{log/0}:g1", fields)
    entries = read(log)
    assert [(one.publisher, one.payload, one.user_properties, one.expiry_s) for one in entries] == [
        ("p", b"x", (("n", "1"), ("m", "2")), 1_000.0),
        (None, b"x", (), 1_000.0),
        (None, b"x", (), None),
        ("p", b"", (), None),
        (None, b"x", (("n", "1"),), None),
        (None, b"x", (("n", "1"),), None),
        (None, b"x", (), None),
        *[(None, b"x", (("n", "1"),), None)] * 6,
        (None, b"x", (), None),
        (None, b"x", (), 1e15),
    ]
    assert (entries[0].qos, entries[0].retain, entries[1].qos, entries[1].retain) == (1, True, 0, False)
    assert {(one.qos, one.expires) for one in entries[-2:]} == {(0, None)}


def test_a_log_that_an_earlier_library_made_is_read_and_written(client):
    """The keys are those that the first version of the layout had, written by hand."""
    settings = '{"shards": 1, "by": "publisher", "filters": ["#"], "after": 0, "since_ms": 1}'
    client.set("topics:generation", 1)
    client.hset("{log}:meta", mapping={"version": 1, "uid": "0" * 16, "retention_s": 86_400})
    client.hset("{log}:meta", mapping={"current": 1, "g1": settings})
    client.xadd("topics:registry", {"log": "log", "uid": "0" * 16, "filters": '["#"]'})
    client.xadd("{log/0}:g1", {"t": "t", "p": "1", "c": "p", "e": "1000000", "u:b": "2", "u:a": "1"})
    log = TopicLog.open(client, "log")
    log.publish_many([Message("t", b"2", user_properties=[("n", "1")])])
    assert client.hget("{log}:meta", "version") == b"1"
    log.publish_many([Message("t", b"3", user_properties=[("n", "1"), ("n", "2")])])
    assert client.hget("{log}:meta", "version") == b"2"
    assert [(one.payload, one.user_properties, one.expiry_s) for one in read(TopicLog.open(client, "log"))] == [
        (b"1", (("b", "2"), ("a", "1")), 1_000.0),
        (b"2", (("n", "1"),), None),
        (b"3", (("n", "1"), ("n", "2")), None),
    ]


def test_what_is_stored_is_what_the_document_says(client, log):
    pairs = [("n", "1"), ("é", ""), ("n", "2")]
    log.publish_many([Message("t", b"x", None, None, 1_000, user_properties=pairs, content_type="a/b")])
    log.publish_many([Message("t", b"x", payload_format=1, response_topic="r", correlation=b"\xff")])
    assert [fields for _, fields in client.xrange("{log/0}:g1")] == [
        {
            b"t": b"t",
            b"p": b"x",
            b"e": b"1000000",
            b"u:n": b"2",
            "u:é".encode(): b"",
            b"u": '[["n","1"],["é",""],["n","2"]]'.encode(),
            b"ct": b"a/b",
        },
        {b"t": b"t", b"p": b"x", b"pf": b"1", b"rt": b"r", b"cd": b"\xff"},
    ]


@pytest.mark.parametrize("reader", READERS)
def test_a_message_of_a_later_version_is_refused_also_if_it_comes_while_a_reader_waits(
    client, log, reader, monkeypatch
):
    """The version is raised, and the message written, after the reader has asked for news and before it reads."""
    execute, later = redis.client.Pipeline.execute, layout.VERSION + 1
    reads = {"XREADGROUP", "XRANGE", "XFILTER"}
    came = []

    def wait(pipeline, raise_on_error=True):
        if not came and any(words[0] in reads for words, _ in pipeline.command_stack):
            came.append(client.hset("{log}:meta", "version", later))
            client.xadd("{log/0}:g1", {"t": "t", "p": "x", "later": "1"})
        return execute(pipeline, raise_on_error)

    monkeypatch.setattr(redis.client.Pipeline, "execute", wait)
    with pytest.raises(ValueError, match=rf"newer version \(layout {later}, this one knows {layout.VERSION}\)"):
        READERS[reader](log)
    assert came
    if "members" in reader:
        assert client.xpending("{log/0}:g1", "g")["pending"] == 1  # for a member that knows the version


def test_a_pending_message_of_a_later_version_is_not_claimed_unseen(client, log, monkeypatch):
    entry_id = log.publish("t", b"x")
    first, second = (log.share("g", member=name) for name in ("first", "second"))
    assert first.next().entries
    client.xclaim("{log/0}:g1", "g", "first", 0, [entry_id], idle=30_000)  # its lease has ended
    execute, later = redis.client.Pipeline.execute, layout.VERSION + 1

    def claim(pipeline, raise_on_error=True):
        if any(words[0] == "XAUTOCLAIM" for words, _ in pipeline.command_stack):
            client.hset("{log}:meta", "version", later)
        return execute(pipeline, raise_on_error)

    monkeypatch.setattr(redis.client.Pipeline, "execute", claim)
    with pytest.raises(ValueError, match=f"layout {later}"):
        second.next()
    assert [one["consumer"] for one in client.xpending_range("{log/0}:g1", "g", "-", "+", 9)] == [b"second"]


def test_the_command_line_shows_repeated_properties_as_pairs(client, log):
    log.publish_many([Message("t", b"x", user_properties=pairs) for pairs in ([("n", "1")], [("n", "1"), ("n", "2")])])
    url = f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"
    done = run_cli("topics", "tail", "log", "--start", "earliest", "--no-follow", "--url", url)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert '"properties": {"n": "1"}' in first
    assert '"properties": [["n", "1"], ["n", "2"]]' in second
