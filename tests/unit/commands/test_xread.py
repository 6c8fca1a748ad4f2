"""XREAD and XREADGROUP: what they return, and who waits for what how long."""

import pytest

from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.stream.groups.pending import PendingEntries
from tests.session import Error

WRONG_TYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
NO_GROUP = Error("NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option")


def entry(name, field="f", value="v"):
    return [name.encode(), [field.encode(), value.encode()]]


def fill(engine, *names, key="s"):
    for name in names:
        engine.do(f"XADD {key} {name} f v")


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("XREAD STREAMS s 0", [[b"s", [entry("1-1"), entry("2-1"), entry("3-1")]]]),
        ("XREAD STREAMS s 1", [[b"s", [entry("1-1"), entry("2-1"), entry("3-1")]]]),
        ("XREAD STREAMS s 1-1", [[b"s", [entry("2-1"), entry("3-1")]]]),
        ("XREAD COUNT 1 STREAMS s 1-1", [[b"s", [entry("2-1")]]]),
        ("XREAD COUNT 0 STREAMS s 2-1", [[b"s", [entry("3-1")]]]),
        ("XREAD COUNT -4 STREAMS s 2-1", [[b"s", [entry("3-1")]]]),
        ("xread count 99 streams s t none 2-1 0 0", [[b"s", [entry("3-1")]], [b"t", [entry("7-1")]]]),
        ("XREAD STREAMS s s 2-1 2-1", [[b"s", [entry("3-1")]], [b"s", [entry("3-1")]]]),
        ("XREAD STREAMS s 3-1", None),
        ("XREAD STREAMS s $", None),
        ("XREAD STREAMS none 0", None),
        ("XREAD STREAMS none $", None),
        ("XREAD STREAMS none +", None),
        ("XREAD STREAMS s +", [[b"s", [entry("3-1")]]]),
        ("XREAD COUNT 5 STREAMS s t + +", [[b"s", [entry("3-1")]], [b"t", [entry("7-1")]]]),
        ("XREAD STREAMS s 18446744073709551615-18446744073709551615", None),
        ("XREAD MAXCOUNT 2 STREAMS s t 0 0", [[b"s", [entry("1-1"), entry("2-1")]]]),
        ("XREAD COUNT 1 MAXCOUNT 2 STREAMS s t 0 0", [[b"s", [entry("1-1")]], [b"t", [entry("7-1")]]]),
        ("XREAD MAXSIZE 1 STREAMS s t 0 0", [[b"s", [entry("1-1")]]]),
        ("XREAD MAXSIZE 42 STREAMS s t 0 0", [[b"s", [entry("1-1")]]]),
        ("XREAD MAXSIZE 43 STREAMS s t 1-1 0", [[b"s", [entry("2-1"), entry("3-1")]]]),
        (
            "XREAD MAXCOUNT 3 MAXSIZE 99 STREAMS t s 0 1-1",
            [[b"t", [entry("7-1")]], [b"s", [entry("2-1"), entry("3-1")]]],
        ),
        ("XREAD MAXSIZE 58 COUNT 1 STREAMS s t 1-1 0", [[b"s", [entry("2-1")]], [b"t", [entry("7-1")]]]),
    ],
)
def test_what_xread_returns(engine, line, reply):
    fill(engine, "1-1", "2-1", "3-1")
    fill(engine, "7-1", key="t")
    assert engine.do(line) == reply


SYNTAX = "ERR syntax error"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("XREAD STREAMS s", "ERR wrong number of arguments for 'xread' command"),
        (
            "XREAD STREAMS s t 0",
            "ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified.",
        ),
        (
            "XREADGROUP GROUP g c STREAMS s t >",
            "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.",
        ),
        ("XREAD COUNT 1 BLOCK 1", SYNTAX),
        ("XREAD COUNT 1 STREAMS", SYNTAX),
        ("XREAD FOO STREAMS s 0", SYNTAX),
        ("XREAD COUNT x STREAMS s 0", "ERR value is not an integer or out of range"),
        ("XREAD BLOCK x STREAMS s 0", "ERR timeout is not an integer or out of range"),
        ("XREAD BLOCK 1.5 STREAMS s 0", "ERR timeout is not an integer or out of range"),
        ("XREAD BLOCK -1 STREAMS s 0", "ERR timeout is negative"),
        ("XREAD STREAMS s x", "ERR Invalid stream ID specified as stream command argument"),
        ("XREAD STREAMS s (1", "ERR Invalid stream ID specified as stream command argument"),
        (
            "XREAD STREAMS s >",
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        ),
        (
            "XREAD GROUP g c STREAMS s 0",
            "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
        ),
        ("XREAD NOACK STREAMS s 0", "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."),
        (
            "XREAD CLAIM 5 STREAMS s 0",
            "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.",
        ),
        ("XREAD MAXCOUNT 0 STREAMS s 0", "ERR MAXCOUNT must be a positive integer"),
        ("XREAD MAXCOUNT x STREAMS s 0", "ERR value is not an integer or out of range"),
        ("XREAD MAXSIZE -1 STREAMS s 0", "ERR MAXSIZE must be a positive integer"),
        ("XREAD COUNT 5 MAXCOUNT 4 STREAMS s 0", "ERR MAXCOUNT must be greater than or equal to COUNT"),
        ("XREADGROUP NOACK COUNT 1 STREAMS s >", "ERR Missing GROUP option for XREADGROUP"),
        ("XREADGROUP GROUP g c CLAIM x STREAMS s >", "ERR min-idle-time is not an integer or out of range"),
        ("XREADGROUP GROUP g c CLAIM -1 STREAMS s >", "ERR min-idle-time must be a positive integer"),
        ("XREADGROUP GROUP g c STREAMS s x", "ERR Invalid stream ID specified as stream command argument"),
        (
            "XREADGROUP GROUP g c STREAMS s $",
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer "
            "by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty "
            "result set.",
        ),
        (
            "XREADGROUP GROUP other c STREAMS s x",
            "NOGROUP No such key 's' or consumer group 'other' in XREADGROUP with GROUP option",
        ),
        ("XREADGROUP GROUP g c STREAMS string x", WRONG_TYPE.text),
        ("XREAD STREAMS string 0", WRONG_TYPE.text),
    ],
)
def test_errors_of_xread_and_xreadgroup(engine, line, error):
    engine.do("XGROUP CREATE s g 0 MKSTREAM")
    engine.do("SET string x")
    assert engine.do(line) == Error(error)


def test_the_reply_is_pairs_in_resp2_and_a_map_in_resp3(engine):
    fill(engine, "1-1")
    assert engine.raw([b"XREAD", b"STREAMS", b"s", b"$"]) == b"*-1\r\n"
    modern = engine.connect(protocol=3)
    assert modern.raw([b"XREAD", b"STREAMS", b"s", b"$"]) == b"_\r\n"
    assert modern.do("XREAD STREAMS s 0") == {b"s": [entry("1-1")]}


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["XREAD BLOCK 0 STREAMS s $", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"])
def test_a_reader_waits_for_an_entry(engine, wait):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    reader = engine.connect()
    reader.say(wait)
    assert reader.blocked
    fill(engine, "5-1")
    assert reader.replies() == [[[b"s", [entry("5-1")]]]]
    assert not reader.blocked
    fill(engine, "6-1")
    assert reader.replies() == []


def test_a_wait_ends_to_the_millisecond(engine, clock):
    reader = engine.connect()
    reader.say("XREAD BLOCK 50 STREAMS s 0")
    clock.advance(49)
    assert reader.blocked
    clock.advance(1)
    assert reader.received() == b"*-1\r\n"
    fill(engine, "1-1")
    assert reader.received() == b""


@pytest.mark.parametrize("wait", ["XREAD BLOCK 0 STREAMS s t 0 $", "XREAD BLOCK 0 COUNT 7 STREAMS t s $ 0"])
def test_a_reader_of_several_streams_is_served_by_any(engine, wait):
    fill(engine, "1-1", key="t")
    reader = engine.connect()
    reader.say(wait)
    fill(engine, "9-1", key="other")
    assert reader.blocked
    fill(engine, "2-1", key="t")
    assert reader.replies() == [[[b"t", [entry("2-1")]]]]


def test_plus_means_the_last_entry_also_while_waiting(engine):
    reader = engine.connect()
    reader.say("XREAD BLOCK 0 STREAMS s +")
    assert reader.blocked
    engine.do("MULTI")
    fill(engine, "1-1", "2-1")
    engine.do("EXEC")
    assert reader.replies() == [[[b"s", [entry("2-1")]]]]


def test_members_of_a_group_are_served_in_the_order_they_came(engine):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    readers = [engine.connect() for _ in range(3)]
    for reader in readers:
        reader.say("XREADGROUP GROUP g c COUNT 1 BLOCK 0 STREAMS s >")
    engine.do("MULTI")
    fill(engine, "1-1", "2-1")
    engine.do("EXEC")
    assert [reader.replies() for reader in readers] == [[[[b"s", [entry(f"{n}-1")]]]] for n in (1, 2)] + [[]]
    assert readers[2].blocked


def test_a_transaction_does_not_wait(engine):
    engine.do("MULTI")
    engine.do("XREAD BLOCK 0 STREAMS s $")
    assert engine.do("EXEC") == [None]


def test_what_a_blocked_client_sent_behind_runs_when_it_is_served(engine):
    reader = engine.connect()
    reader.send(["XREAD", "BLOCK", 0, "STREAMS", "s", "$"], ["PING"])
    assert reader.received() == b""
    fill(engine, "1-1")
    assert reader.replies() == [[[b"s", [entry("1-1")]]], "PONG"]


@pytest.mark.parametrize("arrival", ["RENAME t s", "COPY t s"])
def test_a_stream_that_arrives_under_the_key_serves(engine, arrival):
    fill(engine, "3-1", key="t")
    reader = engine.connect()
    reader.say("XREAD BLOCK 0 STREAMS s 0")
    engine.do(arrival)
    assert reader.replies() == [[[b"s", [entry("3-1")]]]]


def test_a_key_of_another_type_wakes_nobody_and_is_an_error_once_a_stream_would(engine):
    fill(engine, "1-1")
    engine.do("XADD s MAXLEN 0 1-2 f v")
    other = engine.connect()
    other.say("XREAD BLOCK 0 STREAMS s t 1-1 $")
    engine.do("SADD t member")
    assert other.blocked
    fill(engine, "2-1")
    assert other.replies() == [WRONG_TYPE]


def test_xread_goes_on_waiting_when_its_key_is_deleted_or_overwritten(engine):
    fill(engine, "5-1")
    reader = engine.connect()
    reader.say("XREAD BLOCK 0 STREAMS s $")
    engine.do("DEL s")
    engine.do("SET s x")
    assert reader.blocked
    engine.do("DEL s")
    fill(engine, "4-1")
    assert reader.blocked
    fill(engine, "6-1")
    assert reader.replies() == [[[b"s", [entry("6-1")]]]]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("XGROUP DESTROY s g", NO_GROUP),
        ("DEL s", NO_GROUP),
        ("UNLINK s", NO_GROUP),
        ("FLUSHALL", NO_GROUP),
        ("RENAME s t", NO_GROUP),
        ("SET s x", WRONG_TYPE),
        ("SWAPDB 0 1", NO_GROUP),
        ("SWAPDB 0 2", WRONG_TYPE),
        ("MOVE s 1", NO_GROUP),
        ("COPY string s REPLACE", WRONG_TYPE),
        ("RENAME string s", WRONG_TYPE),
    ],
)
def test_a_member_stops_waiting_when_its_group_is_gone(engine, change, error):
    engine.do("SET string x")
    engine.do("SELECT 2")
    engine.do("SET s x")
    engine.do("SELECT 0")
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    reader = engine.connect()
    reader.say("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    engine.do(change)
    assert reader.replies() == [error]
    assert engine.state.blocked.count == 0


def test_a_client_that_goes_leaves_nothing_behind(engine):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    reader = engine.connect()
    reader.say("XREADGROUP GROUP g c BLOCK 0 CLAIM 5 STREAMS s >")
    reader.disconnect()
    fill(engine, "1-1")
    assert engine.state.blocked.count == 0
    assert engine.state.blocked.next_due_ms(engine.clock) is None
    assert engine.do("XPENDING s g")[0] == 0


# -- groups ------------------------------------------------------------------------------------------------------------


def test_a_group_delivers_each_entry_once_and_history_shows_it_again(engine, clock):
    fill(engine, "1-1", "2-1", "3-1")
    engine.do("XGROUP CREATE s g 0")
    assert engine.do("XREADGROUP GROUP g a COUNT 2 STREAMS s >") == [[b"s", [entry("1-1"), entry("2-1")]]]
    assert engine.do("XREADGROUP GROUP g b STREAMS s >") == [[b"s", [entry("3-1")]]]
    assert engine.do("XREADGROUP GROUP g b STREAMS s >") is None
    clock.advance(7)
    assert engine.do("XREADGROUP GROUP g a STREAMS s 1-1") == [[b"s", [entry("2-1")]]]
    assert engine.do("XREADGROUP GROUP g a STREAMS s 2-1") == [[b"s", []]]
    assert engine.do("XPENDING s g - + 9") == [[b"1-1", b"a", 7, 1], [b"2-1", b"a", 0, 2], [b"3-1", b"b", 7, 1]]


def test_a_short_page_of_a_long_history_looks_at_no_chunk_behind_it(engine, monkeypatch):
    entries = SLICED_ITEMS_MIN + 2_000
    for number in range(1, entries + 1):
        engine.execute([b"XADD", b"s", b"%d-1" % number, b"f", b"v"])
    engine.do("XGROUP CREATE s g 0")
    engine.execute([b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"%d" % entries, b"STREAMS", b"s", b">"])
    looked_at = []
    chunks_of = PendingEntries.chunks_of

    def counting(pending, owner, start):
        for chunk in chunks_of(pending, owner, start):
            looked_at.append(chunk)
            yield chunk

    monkeypatch.setattr(PendingEntries, "chunks_of", counting)
    shown = engine.do("XREADGROUP GROUP g c COUNT 10 STREAMS s 0")
    assert [row[0] for row in shown[0][1]] == [b"%d-1" % number for number in range(1, 11)]
    assert len(looked_at) <= 2


def test_history_shows_a_deleted_entry_without_fields(engine):
    fill(engine, "1-1", "2-1")
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    engine.do("XDEL s 1-1")
    assert engine.raw([b"XREADGROUP", b"GROUP", b"g", b"a", b"STREAMS", b"s", b"0"]) == (
        b"*1\r\n*2\r\n$1\r\ns\r\n*2\r\n*2\r\n$3\r\n1-1\r\n*-1\r\n*2\r\n$3\r\n2-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
    )
    assert engine.do("XPENDING s g - + 9") == [[b"1-1", b"a", 0, 1], [b"2-1", b"a", 0, 2]]


def test_noack_leaves_nothing_pending(engine):
    fill(engine, "1-1")
    engine.do("XGROUP CREATE s g 0")
    assert engine.do("XREADGROUP GROUP g a NOACK STREAMS s >") == [[b"s", [entry("1-1")]]]
    assert engine.do("XPENDING s g") == [0, None, None, None]
    assert engine.do("XREADGROUP GROUP g a NOACK STREAMS s >") is None


def test_an_entry_delivered_again_after_setid_changes_hands(engine):
    fill(engine, "1-1", "2-1")
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    engine.do("XREADGROUP GROUP g a STREAMS s 0")
    engine.do("XGROUP SETID s g 1-1")
    engine.do("XREADGROUP GROUP g b STREAMS s >")
    assert engine.do("XPENDING s g - + 9") == [[b"1-1", b"a", 0, 2], [b"2-1", b"b", 0, 1]]


def test_a_consumer_is_created_even_when_it_gets_nothing(engine, clock):
    engine.do("XGROUP CREATE s g 0 MKSTREAM")
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    clock.advance(5)
    consumer = [b"name", b"a", b"pending", 0, b"idle", 5, b"inactive", -1]
    assert engine.do("XINFO CONSUMERS s g") == [consumer]


# -- CLAIM -------------------------------------------------------------------------------------------------------------


def test_claim_takes_over_what_is_idle_before_it_delivers(engine, clock):
    fill(engine, "1-1", "2-1")
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    clock.advance(10)
    engine.do("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    clock.advance(10)
    fill(engine, "3-1")
    assert engine.do("XREADGROUP GROUP g b CLAIM 15 STREAMS s >") == [
        [b"s", [[*entry("1-1"), 20, 1], [*entry("3-1"), 0, 0]]]
    ]
    assert engine.do("XPENDING s g - + 9") == [[b"1-1", b"b", 0, 2], [b"2-1", b"a", 10, 1], [b"3-1", b"b", 0, 1]]
    assert engine.do("XREADGROUP GROUP g b CLAIM 15 COUNT 1 STREAMS s >") is None
    clock.advance(5)
    assert engine.do("XREADGROUP GROUP g b CLAIM 0 COUNT 1 STREAMS s >") == [[b"s", [[*entry("2-1"), 15, 1]]]]


@pytest.mark.parametrize("is_released", [False, True])
def test_claim_gives_a_pending_entry_that_was_missing_once_its_id_is_there_again(engine, clock, is_released):
    fill(engine, "5-1", "6-1")
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    if is_released:
        engine.do("XNACK s g SILENT IDS 2 5-1 6-1")
    engine.do("XTRIM s MAXLEN 0")
    clock.advance(10)
    claim = "XREADGROUP GROUP g b COUNT 1 CLAIM 5 STREAMS s >"
    assert engine.do(claim) is None
    assert engine.do(claim) is None

    engine.do("XSETID s 1-0")
    fill(engine, "6-1")

    assert engine.do(claim)[0][1][0][0] == b"6-1"


def test_claim_is_ignored_for_history(engine):
    fill(engine, "1-1")
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    assert engine.do("XREADGROUP GROUP g a CLAIM 0 STREAMS s 0") == [[b"s", [entry("1-1")]]]


def test_a_claiming_reader_waits_until_something_is_idle_enough(engine, clock):
    fill(engine, "1-1")
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    reader = engine.connect()
    reader.say("XREADGROUP GROUP g b BLOCK 1000 CLAIM 100 STREAMS s >")
    clock.advance(99)
    assert reader.blocked
    clock.advance(1)
    assert reader.replies() == [[[b"s", [[*entry("1-1"), 100, 1]]]]]
    assert engine.state.blocked.next_due_ms(engine.clock) is None


def test_a_claiming_reader_gets_what_is_released(engine):
    fill(engine, "1-1")
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    reader = engine.connect()
    reader.say("XREADGROUP GROUP g b BLOCK 0 CLAIM 100 STREAMS s >")
    assert engine.do("XNACK s g FAIL IDS 1 1-1") == 1
    assert reader.replies() == [[[b"s", [[*entry("1-1"), 1_000_000_000_000, 1]]]]]


def test_readers_who_wait_together_get_what_each_asked_for(engine):
    """What one of them is read is kept for others: for those who ask the very same, in the same protocol."""
    fill(engine, "5-1")
    engine.do("MULTI")
    lines = [
        "XREAD BLOCK 0 STREAMS s $",
        "XREAD BLOCK 0 COUNT 1 STREAMS s $",
        "XREAD BLOCK 0 MAXCOUNT 1 STREAMS s $",
        "XREAD BLOCK 0 MAXSIZE 1 STREAMS s $",
        "XREAD BLOCK 0 STREAMS s 6-1",
        "XREAD BLOCK 0 STREAMS t s $ $",
        "XREAD BLOCK 0 STREAMS s t $ $",
    ]
    readers = [(line, engine.connect(protocol)) for line in lines for protocol in (2, 3) for _ in range(2)]
    for line, reader in readers:
        reader.say(line)
    elsewhere = engine.connect()
    elsewhere.do("SELECT 1")
    elsewhere.say("XREAD BLOCK 0 STREAMS s 5-1")
    for line in ("XADD s 6-1 f v", "XADD s 7-1 f v", "SELECT 1", "XADD s 8-1 f v", "SELECT 0", "EXEC"):
        engine.do(line)
    asked = engine.connect()
    for line, reader in readers:
        asked.client.protocol = reader.client.protocol
        assert reader.received() == asked.raw(line.replace("$", "5-1").replace("BLOCK 0 ", "").split()), line
    assert elsewhere.replies() == [[[b"s", [entry("8-1")]]]]


def test_what_was_read_for_one_waiter_is_not_kept_for_a_later_one(engine):
    reader = engine.connect()
    for field in ("f", "g"):
        reader.say("XREAD BLOCK 0 STREAMS s 0")
        engine.do(f"XADD s 1-1 {field} v")
        assert reader.replies() == [[[b"s", [entry("1-1", field)]]]]
        engine.do("DEL s")


@pytest.mark.parametrize("node", [1, 2, 100])
@pytest.mark.parametrize("count", ["", "COUNT 2 "])
def test_the_last_entry_is_not_read_again_once_the_one_behind_it_is_deleted(engine, node, count):
    engine.do(f"CONFIG SET stream-node-max-entries {node}")
    for number in range(1, 6):
        engine.do(f"XADD s {number}-1 f v")
    engine.do("XDEL s 5-1")
    assert engine.do(f"XREAD {count}STREAMS s 4-1") is None
    assert engine.do(f"XREAD {count}STREAMS s 3-1") == [[b"s", [[b"4-1", [b"f", b"v"]]]]]
