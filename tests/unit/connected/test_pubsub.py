"""Publishing, subscribing, and the events of the keyspace."""

import pytest

from tests.session import Error


def test_a_message_reaches_channels_and_patterns(engine):
    listener, other = engine.connect(), engine.connect()
    listener.send(["SUBSCRIBE", "news", "sport"], ["PSUBSCRIBE", "n*", "x*"])
    listener.replies()
    other.do("SUBSCRIBE sport")
    assert engine.do("PUBLISH news hi") == 2
    assert listener.replies() == [[b"message", b"news", b"hi"], [b"pmessage", b"n*", b"news", b"hi"]]
    assert engine.do("PUBLISH sport go") == 2
    assert engine.do("PUBLISH none hi") == 1
    assert engine.do("PUBLISH other hi") == 0


def test_in_resp3_messages_are_pushes_and_commands_go_on(engine):
    listener = engine.connect(protocol=3)
    assert listener.raw(["SUBSCRIBE", "c"]) == b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
    engine.do("PUBLISH c hi")
    assert listener.received() == b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n"
    assert listener.do("GET k") is None
    assert listener.do("PING") == "PONG"


def test_in_resp2_a_subscriber_may_do_little(engine):
    engine.do("SUBSCRIBE c")
    assert engine.do("PING") == [b"pong", b""]
    assert engine.do("PING x") == [b"pong", b"x"]
    assert engine.do("CLIENT ID") == Error(
        "ERR Can't execute 'client|id': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in "
        "this context"
    )
    engine.do("UNSUBSCRIBE c")
    assert engine.do("CLIENT ID") == engine.client.id


def test_who_disconnects_is_subscribed_no_more(engine):
    listener = engine.connect()
    listener.do("SUBSCRIBE c")
    listener.do("PSUBSCRIBE d*")
    assert engine.do("PUBSUB NUMSUB c nosuch") == [b"c", 1, b"nosuch", 0]
    listener.disconnect()
    assert engine.do("PUBSUB NUMSUB c") == [b"c", 0]
    assert engine.do("PUBSUB CHANNELS") == []
    assert engine.do("PUBSUB NUMPAT") == 0


def test_channels_are_found_by_pattern(engine):
    listener = engine.connect()
    listener.send(["SUBSCRIBE", "ab", "ac", "b"])
    assert engine.do("PUBSUB CHANNELS a*") == [b"ab", b"ac"]
    assert engine.do("PUBSUB CHANNELS") == [b"ab", b"ac", b"b"]


@pytest.mark.parametrize(
    ("classes", "events"),
    [
        ("KEA", ["key:set", "event:set", "key:expire", "event:expire", "key:del", "event:del"]),
        ("KA", ["key:set", "key:expire", "key:del"]),
        ("E$", ["event:set"]),
        ("Eg", ["event:expire", "event:del"]),
        ("KEn", ["key:new", "event:new"]),
        ("g$", []),
        ("", []),
    ],
)
def test_the_classes_of_events_that_are_configured_are_published(engine, classes, events):
    listener = engine.connect()
    listener.do("PSUBSCRIBE __key*")
    engine.execute(["CONFIG", "SET", "notify-keyspace-events", classes])
    engine.do("SELECT 1")
    engine.do("SET k v EX 10")
    engine.do("DEL k")
    found = []
    for _, _, channel, message in listener.replies():
        where, _, name = channel.partition(b"@1__:")
        assert (name if where == b"__keyspace" else message) == b"k"
        found.append(f"key:{message.decode()}" if where == b"__keyspace" else f"event:{name.decode()}")
    assert found == events


def test_an_expired_key_is_published_when_it_is_removed(engine, clock):
    engine.do("CONFIG SET notify-keyspace-events Ex")
    listener = engine.connect()
    listener.do("SUBSCRIBE __keyevent@0__:expired")
    engine.do("SET k v PX 10")
    clock.advance(10)
    assert listener.replies() == []
    engine.sweep()
    assert listener.replies() == [[b"message", b"__keyevent@0__:expired", b"k"]]


def test_reading_what_is_not_there_is_published_where_that_is_asked_for(engine):
    listener = engine.connect()
    listener.do("SUBSCRIBE __keyevent@0__:keymiss")
    engine.do("CONFIG SET notify-keyspace-events Em")
    engine.do("GET nokey")
    engine.do("SET k v XX")
    engine.do("OBJECT ENCODING nokey")
    assert listener.replies() == [[b"message", b"__keyevent@0__:keymiss", b"nokey"]]
    engine.do("CONFIG SET notify-keyspace-events E$")
    assert engine.client.quick
    engine.do("GET nokey")
    assert listener.replies() == []
