"""Keyspace events: of replaced values, and of fields of hashes on channels of their own."""

import pytest

from tests.session import Error, SessionClient


def listening(engine, classes: str) -> SessionClient:
    """Return a client that gets all events of some classes."""
    listener = engine.connect()
    listener.execute(["CONFIG", "SET", "notify-keyspace-events", classes])
    listener.do("PSUBSCRIBE __*")
    return listener


def heard(listener: SessionClient) -> list[bytes]:
    """Return the channels and messages that came, with a blank between them."""
    return [b" ".join(reply[2:]) for reply in listener.replies()]


@pytest.mark.parametrize(
    ("letter", "messages"),
    [
        ("K", [b"__keyspace@0__:key hset"]),
        ("E", [b"__keyevent@0__:hset key"]),
        ("S", [b"__subkeyspace@0__:key hset|1:f,3:two"]),
        ("T", [b"__subkeyevent@0__:hset 3:key|1:f,3:two"]),
        ("I", [b"__subkeyspaceitem@0__:key\nf hset", b"__subkeyspaceitem@0__:key\ntwo hset"]),
        ("V", [b"__subkeyspaceevent@0__:hset|key 1:f,3:two"]),
    ],
)
def test_each_letter_is_a_channel_with_a_form_of_its_own(engine, letter, messages):
    listener = listening(engine, f"h{letter}")
    engine.do("HSET key f 1 two 2")
    assert heard(listener) == messages


def test_an_event_without_fields_is_on_no_channel_of_fields(engine):
    listener = listening(engine, "ASTIV")
    engine.do("HSET h f 1")
    heard(listener)
    engine.do("EXPIRE h 100")
    engine.do("SADD s member")
    engine.do("DEL h")
    assert heard(listener) == []


def test_channels_of_fields_are_in_the_database_of_the_key_and_take_any_bytes(engine):
    listener = listening(engine, "hTIV")
    engine.do("SELECT 1")
    engine.execute([b"HSET", b"k|", b"", b"1", b"a\0,|:\n", b"2"])
    assert heard(listener) == [
        b"__subkeyevent@1__:hset 2:k||0:,6:a\0,|:\n",
        b"__subkeyspaceitem@1__:k|\n hset",
        b"__subkeyspaceitem@1__:k|\na\0,|:\n hset",
        b"__subkeyspaceevent@1__:hset|k| 0:,6:a\0,|:\n",
    ]


def test_a_key_with_a_line_break_has_no_channel_for_each_field(engine):
    listener = listening(engine, "hIV")
    engine.execute(["HSET", "a\nb", "f", "1"])
    assert heard(listener) == [b"__subkeyspaceevent@0__:hset|a\nb 1:f"]


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        ("HSET h f 1 g 2 f 3", ["hset|1:f,1:g,1:f"]),
        ("HSETNX h new 1", ["hset|3:new"]),
        ("HINCRBY h f 1", ["hincrby|1:f"]),
        ("HINCRBYFLOAT h f 1", ["hincrbyfloat|1:f"]),
        ("HDEL h none g g", ["hdel|1:g"]),
        ("HGETDEL h FIELDS 2 none g", ["hdel|1:g"]),
        ("HEXPIRE h 100 FIELDS 3 f f none", ["hexpire|1:f,1:f"]),
        ("HEXPIRE h 0 FIELDS 2 f f", ["hdel|1:f"]),
        ("HPERSIST h FIELDS 2 f timed", ["hpersist|5:timed"]),
        ("HGETEX h EX 100 FIELDS 2 f none", ["hexpire|1:f"]),
        ("HGETEX h PERSIST FIELDS 2 f timed", ["hpersist|5:timed"]),
        ("HSETEX h EX 100 FIELDS 1 f 1", ["hset|1:f", "hexpire|1:f"]),
        ("HSETEX h EXAT 1 FIELDS 2 f 1 new 2", ["hset|1:f,3:new", "hdel|1:f,3:new"]),
        ("HSETEX h EXAT 1 FIELDS 2 f 1 f 2", ["hset|1:f,1:f", "hdel|1:f,1:f"]),
        ("HGET h f", []),
        ("HDEL h none", []),
    ],
)
def test_commands_name_the_fields_that_they_change(engine, line, messages):
    engine.do("HSET h f 1 g 2 timed 3")
    engine.do("HEXPIRE h 1000 FIELDS 1 timed")
    listener = listening(engine, "hS")
    engine.do(line)
    assert [reply[3].decode() for reply in listener.replies()] == messages


def test_fields_that_end_by_time_are_named(engine, clock):
    listener = listening(engine, "hgES")
    engine.do("HSET h f 1 g 2")
    engine.do("HPEXPIRE h 10 FIELDS 1 f")
    engine.do("HPEXPIRE h 20 FIELDS 1 g")
    heard(listener)
    clock.advance(10)
    engine.sweep()
    assert heard(listener) == [b"__keyevent@0__:hexpired h", b"__subkeyspace@0__:h hexpired|1:f"]
    clock.advance(10)
    engine.do("HGET h g")
    assert heard(listener) == [
        b"__keyevent@0__:hexpired h", b"__subkeyspace@0__:h hexpired|1:g", b"__keyevent@0__:del h",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "events"),
    [
        ("SET string x", ["overwritten", "set"]),
        ("SET list x", ["overwritten", "type_changed", "set"]),
        ("MSET string x list x", ["overwritten", "set", "overwritten", "type_changed", "set"]),
        ("GETSET string x", ["overwritten", "set"]),
        ("SUNIONSTORE set set", ["overwritten", "sunionstore"]),
        ("ZUNIONSTORE list 1 set", ["overwritten", "type_changed", "zunionstore"]),
        ("SORT set STORE string", ["overwritten", "type_changed", "sortstore"]),
        ("BITOP NOT list string", ["overwritten", "type_changed", "set"]),
        ("RENAME string list", ["new", "rename_from", "rename_to", "overwritten", "type_changed"]),
        ("COPY string other REPLACE", ["new", "copy_to", "overwritten"]),
        ("COPY list list DB 1 REPLACE", ["new", "copy_to", "overwritten", "type_changed"]),
        ("APPEND string x", ["append"]),
        ("SETRANGE string 0 x", ["setrange"]),
        ("SET none x", ["new", "set"]),
        ("RENAME list none", ["new", "rename_from", "rename_to"]),
        ("COPY list none", ["new", "copy_to"]),
        ("SUNIONSTORE none set", ["new", "sunionstore"]),
    ],
)
def test_a_value_that_replaces_another_one_is_published(engine, line, events):
    for prepared in ("SELECT 1", "SET list x", "SELECT 0", "MSET string 1 other 2", "RPUSH list 1", "SADD set 1"):
        engine.do(prepared)
    listener = listening(engine, "KAnoc")
    engine.do(line)
    assert [reply[3].decode() for reply in listener.replies()] == events


@pytest.mark.parametrize(("classes", "events"), [("Ko", 2), ("Kc", 0), ("K$", 3), ("Kh", 0)])
def test_requests_that_could_be_executed_as_one_are_published_one_by_one(engine, classes, events):
    listener = listening(engine, classes)
    engine.send(["SET", "k", "1"], ["SET", "k", "2"], ["SET", "k", "3"])
    assert len(listener.replies()) == events


def test_restore_over_a_value_publishes_that(engine):
    engine.do("RPUSH list 1")
    payload = engine.do("DUMP list")
    engine.do("SET k v")
    listener = listening(engine, "KAnoc")
    engine.execute(["RESTORE", "k", 0, payload, "REPLACE"])
    assert [reply[3] for reply in listener.replies()] == [b"new", b"restore", b"overwritten", b"type_changed"]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("VITSmEKconadtexzhsl$g", "AKEmSTIV"),
        ("VITSmEKconadtexzhsl$", "$lshzxetdanocKEmSTIV"),
        ("g$lshzxetd", "g$lshzxetd"),
        ("An", "A"),
        ("AA", "A"),
        ("SVaE", "aESV"),
        ("", ""),
    ],
)
def test_the_option_is_shown_in_the_order_of_redis(engine, given, shown):
    engine.execute(["CONFIG", "SET", "notify-keyspace-events", given])
    assert engine.do("CONFIG GET notify-keyspace-events") == [b"notify-keyspace-events", shown.encode()]


def test_a_letter_that_is_no_class_is_refused(engine):
    assert engine.do("CONFIG SET notify-keyspace-events Kq") == Error(
        "ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - "
        "Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'."
    )


@pytest.mark.parametrize(
    ("classes", "flags"),
    [("KEa", ""), ("STIV", ""), ("ASTIV", "h"), ("g$n", ""), ("Snoc", ""), ("KSh", "h")],
)
def test_only_classes_with_a_channel_for_them_keep_writes_from_quick_ways(engine, classes, flags):
    engine.execute(["CONFIG", "SET", "notify-keyspace-events", classes])
    assert engine.state.notify_flags == frozenset(flags)
