"""Consumer groups: XGROUP, what XINFO says of them, entries-read and lag."""

import pytest

from streamd.stream.groups.group import Group
from tests.session import Error

NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option "
    "to create an empty stream automatically."
)
NO_GROUP = "NOGROUP No such consumer group 'other' for key name 's'"
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
ID_ERROR = "ERR Invalid stream ID specified as stream command argument"


def group_info(engine):
    """(entries-read, lag) of the only group of stream s."""
    reply = engine.do("XINFO GROUPS s")[0]
    info = dict(zip(reply[::2], reply[1::2], strict=True))
    return info[b"entries-read"], info[b"lag"]


def fill(engine, *numbers):
    for number in numbers:
        engine.do(f"XADD s {number}-0 f v")


def read(engine, count=0):
    engine.do(f"XREADGROUP GROUP g c COUNT {count} STREAMS s >")


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("XGROUP CREATE none g $", Error(NO_KEY)),
        ("XGROUP CREATE none g x", Error(NO_KEY)),
        ("XGROUP CREATE none g x MKSTREAM", Error(ID_ERROR)),
        ("XGROUP CREATE none g 0 MKSTREAM", "OK"),
        ("XGROUP CREATE s g 0", Error("BUSYGROUP Consumer Group name already exists")),
        ("XGROUP CREATE s g 0 MKSTREAM", Error("BUSYGROUP Consumer Group name already exists")),
        ("XGROUP CREATE s h -", Error(ID_ERROR)),
        ("XGROUP CREATE s h 0 ENTRIESREAD -2", Error("ERR value for ENTRIESREAD must be positive or -1")),
        ("XGROUP CREATE s h 0 ENTRIESREAD x", Error("ERR value is not an integer or out of range")),
        (
            "XGROUP CREATE s h 0 FOO",
            Error("ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP."),
        ),
        ("XGROUP CREATE string h 0", Error(WRONG_TYPE)),
        ("XGROUP CREATE s h", Error("ERR wrong number of arguments for 'xgroup|create' command")),
        ("XGROUP SETID s g +", "OK"),
        ("XGROUP SETID s g -", "OK"),
        ("XGROUP SETID s g $ ENTRIESREAD 5", "OK"),
        ("XGROUP SETID s g x", Error(ID_ERROR)),
        ("XGROUP SETID s other 0", Error(NO_GROUP)),
        ("XGROUP SETID none g 0", Error(NO_KEY)),
        ("XGROUP DESTROY s g", 1),
        ("XGROUP DESTROY s other", 0),
        ("XGROUP DESTROY none g", Error(NO_KEY)),
        ("XGROUP CREATECONSUMER s g c", 1),
        ("XGROUP CREATECONSUMER s other c", Error(NO_GROUP)),
        ("XGROUP DELCONSUMER s g c", 0),
        ("XGROUP DELCONSUMER s other c", Error(NO_GROUP)),
        ("XGROUP FOO", Error("ERR unknown subcommand 'FOO'. Try XGROUP HELP.")),
        ("XINFO GROUPS none", Error("ERR no such key")),
        ("XINFO GROUPS string", Error(WRONG_TYPE)),
        ("XINFO CONSUMERS s other", Error(NO_GROUP)),
        ("XINFO CONSUMERS none g", Error("ERR no such key")),
        ("XINFO CONSUMERS s g", []),
    ],
)
def test_replies_of_xgroup_and_xinfo(engine, line, reply):
    engine.do("SET string x")
    fill(engine, 1)
    engine.do("XGROUP CREATE s g 0")
    assert engine.do(line) == reply


def test_a_consumer_goes_with_its_pending_entries(engine):
    fill(engine, 1, 2, 3)
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    engine.do("XREADGROUP GROUP g b STREAMS s >")
    assert engine.do("XGROUP CREATECONSUMER s g b") == 0
    assert engine.do("XGROUP DELCONSUMER s g b") == 2
    assert engine.do("XPENDING s g") == [1, b"1-0", b"1-0", [[b"a", b"1"]]]


def test_seen_and_active_time(engine, clock):
    fill(engine, 1)
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    clock.advance(10)
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    engine.do("XGROUP CREATECONSUMER s g b")
    clock.advance(5)
    assert engine.do("XINFO CONSUMERS s g") == [
        [b"name", b"a", b"pending", 1, b"idle", 5, b"inactive", 15],
        [b"name", b"b", b"pending", 0, b"idle", 5, b"inactive", -1],
    ]
    engine.do("XCLAIM s g b 99 1-0")
    engine.do("XAUTOCLAIM s g c 99 -")
    clock.advance(1)
    assert [row[7] for row in engine.do("XINFO CONSUMERS s g")] == [16, -1, -1]
    assert [row[5] for row in engine.do("XINFO CONSUMERS s g")] == [6, 1, 1]


def test_the_full_view(engine):
    for name in ("z", "g"):
        engine.do(f"XGROUP CREATE s {name} 0 MKSTREAM")
    fill(engine, 1, 2)
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    reply = engine.connect(protocol=3).do("XINFO STREAM s FULL COUNT 1")
    assert reply[b"entries"] == [[b"1-0", [b"f", b"v"]]]
    now = 1_000_000_000_000
    assert reply[b"groups"] == [
        {
            b"name": b"g",
            b"last-delivered-id": b"2-0",
            b"entries-read": 2,
            b"lag": 0,
            b"pel-count": 2,
            b"nacked-count": 0,
            b"pending": [[b"1-0", b"a", now, 1]],
            b"consumers": [
                {
                    b"name": b"a",
                    b"seen-time": now,
                    b"active-time": now,
                    b"pel-count": 2,
                    b"pending": [[b"1-0", now, 1]],
                }
            ],
        },
        {
            b"name": b"z",
            b"last-delivered-id": b"0-0",
            b"entries-read": None,
            b"lag": 2,
            b"pel-count": 0,
            b"nacked-count": 0,
            b"pending": [],
            b"consumers": [],
        },
    ]


# -- entries-read and lag ----------------------------------------------------------------------------------------------


def test_the_lag_counts_down_while_a_group_reads(engine):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    assert group_info(engine) == (None, 0)
    fill(engine, 1, 2, 3)
    assert group_info(engine) == (None, 3)
    read(engine, 1)
    assert group_info(engine) == (1, 2)
    read(engine)
    assert group_info(engine) == (3, 0)


def test_the_lag_is_unknown_for_a_group_in_the_middle_of_a_stream(engine):
    fill(engine, 1, 2, 3, 4)
    engine.do("XGROUP CREATE s g 2-0")
    assert group_info(engine) == (None, None)
    read(engine, 1)
    assert group_info(engine) == (None, None)
    read(engine, 1)
    assert group_info(engine) == (4, 0)


@pytest.mark.parametrize(("at", "read_entries", "lag"), [("0", None, 3), ("1-0", None, 2), ("3-0", None, 0)])
def test_the_lag_is_known_at_both_ends(engine, at, read_entries, lag):
    fill(engine, 1, 2, 3)
    engine.do(f"XGROUP CREATE s g {at}")
    assert group_info(engine) == (read_entries, lag)


def test_the_lag_is_unknown_while_a_deleted_entry_lies_ahead(engine):
    fill(engine, 1, 2, 3, 4, 5)
    engine.do("XDEL s 3-0")
    engine.do("XGROUP CREATE s g 0")
    for expected in [(None, None), (None, None), (None, None), (5, 0)]:
        read(engine, 1)
        assert group_info(engine) == expected
    fill(engine, 6)
    assert group_info(engine) == (5, 1)


def test_the_lag_after_trimming_is_what_is_left(engine):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    fill(engine, 1, 2, 3, 4, 5)
    read(engine, 1)
    assert group_info(engine) == (1, 4)
    engine.do("XTRIM s MAXLEN 1")
    assert group_info(engine) == (1, 1)
    read(engine)
    assert group_info(engine) == (5, 0)
    fill(engine, 6)
    assert group_info(engine) == (5, 1)
    engine.do("XTRIM s MAXLEN 0")
    assert group_info(engine) == (5, 0)


def test_the_lag_with_a_tombstone_behind_the_group_and_before_the_first_entry(engine):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    fill(engine, 1)
    read(engine)
    fill(engine, 2, 3)
    engine.do("XDEL s 1-0 2-0")
    assert group_info(engine) == (1, 1)


def test_setid_takes_the_count_it_is_given(engine):
    fill(engine, 1, 2, 3)
    engine.do("XGROUP CREATE s g 1-0 ENTRIESREAD 1")
    assert group_info(engine) == (1, 2)
    engine.do("XGROUP SETID s g 2-0 ENTRIESREAD 2")
    assert group_info(engine) == (2, 1)
    engine.do("XGROUP SETID s g 2-0")
    assert group_info(engine) == (None, None)


def test_a_batch_counts_as_its_entries_one_by_one(engine):
    for deletions in ("9-9", "3-0", "5-0", "1-0"):
        for batch in (1, 2, 5):
            engine.do("DEL s")
            fill(engine, 1, 2, 3, 4, 5, 6)
            engine.do(f"XDEL s {deletions}")
            engine.do("XGROUP CREATE s g 0 ENTRIESREAD 0")
            for _ in range(0, 5, batch):
                read(engine, batch)
            read(engine)
            assert group_info(engine) == (6, 0), (deletions, batch)


def test_the_lag_is_unknown_when_the_last_entry_read_is_deleted(engine):
    fill(engine, 1, 2, 3)
    engine.do("XGROUP CREATE s g 0")
    read(engine, 2)
    engine.do("XDEL s 2-0")
    assert group_info(engine) == (2, None)


def test_the_lag_is_nothing_at_the_streams_last_id_even_if_that_is_deleted(engine):
    fill(engine, 1, 2, 3)
    engine.do("XDEL s 3-0")
    engine.do("XGROUP CREATE s g 3-0")
    assert group_info(engine) == (None, 0)


def test_a_group_cannot_have_read_more_than_was_ever_added(engine):
    fill(engine, 1, 2, 3)
    engine.do("XGROUP CREATE s g 0 ENTRIESREAD 7")
    assert group_info(engine) == (3, 3)
    engine.do("XGROUP SETID s g 1-0 ENTRIESREAD 5")
    assert group_info(engine) == (3, 0)
    engine.do("DEL s")
    engine.do("XGROUP CREATE s g 0 MKSTREAM ENTRIESREAD 7")
    assert group_info(engine) == (0, 0)


# -- what is recorded --------------------------------------------------------------------------------------------------


def commands(records):
    """What was recorded as commands, without the notes on when consumers were seen."""
    return [b" ".join(words).decode() for _, words in records if words[0] != b"XGROUPSEEN"]


def test_a_delivery_is_recorded_as_whose_the_entries_are_and_how_far_the_group_is(engine):
    engine.do("XGROUP CREATE s g 0 MKSTREAM")
    fill(engine, 1, 2)
    records = engine.record()
    read(engine)
    assert commands(records) == [
        "XGROUP CREATECONSUMER s g c",
        "XCLAIM s g c 0 1-0 2-0 TIME 1000000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 2-0",
        "XGROUP SETID s g 2-0 ENTRIESREAD 2",
    ]


def test_a_claim_with_lastid_is_recorded_with_it(engine):
    fill(engine, 1, 2)
    engine.do("XGROUP CREATE s g 0")
    read(engine, 1)
    records = engine.record()
    engine.do("XCLAIM s g c 0 1-0 LASTID 2-0")
    engine.do("XCLAIM s g c 0 9-9 LASTID 7-0")
    assert commands(records) == [
        "XCLAIM s g c 0 1-0 TIME 1000000000000 RETRYCOUNT 2 FORCE JUSTID LASTID 2-0",
        "XGROUP SETID s g 7-0 ENTRIESREAD 1",
    ]


def test_groups_share_empty_pending_entries_until_one_gets_some():
    first, second = Group(0), Group(0)
    assert first.pending is second.pending
    consumer, _ = first.consumer(b"a", 0)
    first.own_pending().deliver([1, 2], consumer, 5)
    assert first.own_pending() is first.pending
    assert (len(first.pending), len(second.pending)) == (2, 0)
    assert second.copy().pending is second.snapshot().pending is second.pending
    first.pending.remove_many([1, 2])
    assert first.copy().pending is first.snapshot().pending is second.pending


@pytest.mark.parametrize(
    "line",
    [
        "XREADGROUP GROUP g c STREAMS s >",
        "XCLAIM s g c 0 1-0 FORCE",
        "XCLAIM s g c 0 1-0 2-0 FORCE JUSTID",
        "XNACK s g FAIL IDS 1 1-0 FORCE",
    ],
)
def test_what_comes_into_a_group_without_pending_entries_is_its_own(engine, line):
    fill(engine, 1, 2, 3)
    for name in "gh":
        engine.do(f"XGROUP CREATE s {name} 0")
    engine.do(line)
    assert engine.do("XPENDING s g")[0] > 0
    assert engine.do("XPENDING s h")[0] == 0
    assert not Group(0).pending
