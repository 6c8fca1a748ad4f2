"""What brokers keep with a message: its properties in their order, its expiry, and the version that this takes."""

from datetime import timedelta
from itertools import product

import pytest

from streamd.clients.topics import Message, TopicLog
from tests.integration.process import run_cli

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
    {"qos": 1, "retain": True, "expiry_s": 60.0},
    {"properties": {"n": "1", "m": "2"}},
    {"user_properties": (("n", "1"), ("m", "2"))},
]


@pytest.fixture
def log(client):
    return TopicLog.create(client, "log", shards=1)


def read(log):
    return log.next(log.iterator(), 10_000).entries


def test_every_combination_comes_back_as_it_was_given(log):
    given = [Message("t", b"x", **dict(zip(MORE, values, strict=True))) for values in product(*MORE.values())]
    log.publish_many(given)
    entries = read(log)
    for name in MORE:
        assert [getattr(one, name) for one in entries] == [getattr(one, name) for one in given], name
    assert [one.properties for one in entries] == [dict(one.user_properties) for one in given]
    assert {one.expires and one.expires - one.time for one in entries} == {None, timedelta(seconds=90.5)}


@pytest.mark.parametrize("more", OLDER)
def test_a_message_that_earlier_libraries_can_read_leaves_the_version(client, log, more):
    log.publish_many([Message("t", b"x", **more)])
    assert client.hget("{log}:meta", "version") == b"1"


@pytest.mark.parametrize("more", NEWER)
def test_a_message_of_a_new_kind_raises_the_version_before_it_is_written(client, log, more):
    other = TopicLog.open(client, "log")
    log.publish_many([Message("t", b"x", **more)])
    assert client.hget("{log}:meta", "version") == b"2"
    other.publish_many([Message("t", b"y", **more)])
    log.reconfigure(shards=2)
    assert client.hget("{log}:meta", "version") == b"2"
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
    ]
    assert (entries[0].qos, entries[0].retain, entries[1].qos, entries[1].retain) == (1, True, 0, False)


def test_the_command_line_shows_repeated_properties_as_pairs(client, log):
    log.publish_many([Message("t", b"x", user_properties=pairs) for pairs in ([("n", "1")], [("n", "1"), ("n", "2")])])
    url = f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"
    done = run_cli("topics", "tail", "log", "--start", "earliest", "--no-follow", "--url", url)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert '"properties": {"n": "1"}' in first
    assert '"properties": [["n", "1"], ["n", "2"]]' in second
