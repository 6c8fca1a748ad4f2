"""XFILTER: what it returns, how far it looks, and whom an entry wakes."""

import pytest

from streamd.base.clock import ManualClock
from streamd.commands.stream import xfilter
from streamd.stream.search.patterns import entry_filter
from streamd.stream.search.searching import search
from tests.session import Error, Session

SYNTAX = "ERR syntax error"
WILDCARD = "ERR a wildcard of a topic filter is a whole level: write a/+/b or a/#"


def entry(entry_id, topic, payload="v"):
    return [entry_id.encode(), [b"t", topic.encode(), b"p", payload.encode()]]


def fill(engine, *topics, key="s", ms=1):
    for at, topic in enumerate(topics):
        engine.do(f"XADD {key} {ms + at} t {topic} p v")


@pytest.mark.parametrize(
    ("line", "last", "places"),
    [
        ("- + COUNT 9 FIELD t MQTT a/+", "5-0", [1, 3]),
        ("- + COUNT 1 FIELD t MQTT a/+", "1-0", [1]),
        ("(1 + COUNT 1 FIELD t MQTT a/+", "3-0", [3]),
        ("(3 + COUNT 1 FIELD t MQTT a/+", "5-0", []),
        ("- + COUNT 9 FIELD t MQTT a/#", "5-0", [1, 2, 3]),
        ("- 2 COUNT 9 FIELD t MQTT a/#", "2-18446744073709551615", [1, 2]),
        ("- (3-0 COUNT 9 FIELD t MQTT a/#", "2-18446744073709551615", [1, 2]),
        ("- + COUNT 9 FIELD t MQTT #", "5-0", [1, 2, 3, 4]),
        ("- + COUNT 9 FIELD t MQTT $s/+", "5-0", [5]),
        ("- + FIELD t GLOB a* COUNT 9", "5-0", [1, 2, 3]),
        ("- + FIELD t glob a/? COUNT 9", "5-0", [1, 3]),
        ("- + COUNT 9 FIELD t EQ a/1", "5-0", [1]),
        ("- + COUNT 9 FIELD t GLOB a/1", "5-0", [1]),
        ("- + COUNT 9 FIELD t EQ a/*", "5-0", []),
        ("- + COUNT 9 FIELD x MQTT #", "5-0", []),
        ("9 + COUNT 9 FIELD t MQTT #", "8-18446744073709551615", []),
        ("3 2 COUNT 9 FIELD t MQTT #", "2-18446744073709551615", []),
    ],
)
def test_what_xfilter_returns(engine, line, last, places):
    topics = ["a/1", "a", "a/2", "b/1", "$s/1"]
    fill(engine, *topics)
    found = [entry(f"{place}-0", topics[place - 1]) for place in places]
    assert engine.do(f"XFILTER s {line}") == [last.encode(), found]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("- + COUNT 9 FIELD t MQTT", "ERR wrong number of arguments for 'xfilter' command"),
        ("- + COUNT 9 FIELD t LIKE a", SYNTAX),
        ("- + COUNT 9 FIELD t EQ a FIELD t EQ b", SYNTAX),
        ("- + BLOCK 9 FIELD t EQ a", SYNTAX),
        ("- + COUNT 9 BLOCK 9 FIELD t EQ", SYNTAX),
        ("- + COUNT 9 FIELD t EQ a COLUMNS t", SYNTAX),
        ("- + COUNT 9 FIELD t EQ a ALSO u 0", SYNTAX),
        ("- + COUNT 9 BLOCK 9 FIELD t EQ a ALSO u", SYNTAX),
        ("- + COUNT 9 BLOCK 9 FIELD t EQ a ALSO u 0 v", SYNTAX),
        ("- + COUNT 9 BLOCK 9 FIELD t EQ a ALSO s 0", "ERR a key is named once in XFILTER"),
        ("- + COUNT 0 FIELD t EQ a", "ERR COUNT must be > 0"),
        ("- + COUNT x FIELD t EQ a", "ERR value is not an integer or out of range"),
        ("- + COUNT 9 BLOCK -1 FIELD t EQ a", "ERR timeout is negative"),
        ("x + COUNT 9 FIELD t EQ a", "ERR Invalid stream ID specified as stream command argument"),
        ("- + COUNT 9 FIELD t MQTT a#", WILDCARD),
        ("- + COUNT 9 FIELD t MQTT a/b+", WILDCARD),
        (
            "- + COUNT 9 FIELD t MQTT a/#/b",
            "ERR # is the last level of a topic filter: end it there, or write + for one level",
        ),
    ],
)
def test_what_xfilter_refuses(engine, line, text):
    assert engine.do(f"XFILTER s {line}") == Error(text)


@pytest.mark.parametrize("text", [b"", b"a\0b", b"a" * 65_536])
def test_a_topic_filter_that_mqtt_cannot_say_is_refused(engine, text):
    request = [b"XFILTER", b"s", b"-", b"+", b"COUNT", b"1", b"FIELD", b"t", b"MQTT", text]
    assert engine.execute(request) == Error("ERR a topic filter has 1 to 65535 bytes, none of them 0")


def test_a_missing_stream_has_nothing_and_other_types_are_refused(engine):
    assert engine.do("XFILTER none 7 + COUNT 1 FIELD t EQ a") == [b"6-18446744073709551615", []]
    engine.do("SET text x")
    refused = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
    assert engine.do("XFILTER text - + COUNT 1 FIELD t EQ a") == refused


def test_the_last_value_of_a_field_counts_in_sealed_entries_and_in_others(engine):
    engine.do("CONFIG SET stream-node-max-entries 2")
    for at in range(1, 6):
        engine.do(f"XADD s {at} t first x 1 t second")
    assert len(engine.do("XFILTER s - + COUNT 9 FIELD t EQ second")[1]) == 5
    assert engine.do("XFILTER s - + COUNT 9 FIELD t EQ first") == [b"5-0", []]


class TickingClock(ManualClock):
    """A clock whose monotonic time goes on by some milliseconds at each look."""

    ms_per_look = 0

    def __init__(self):
        super().__init__()
        self.looks = 0

    def monotonic_us(self):
        self.looks += 1
        return self.looks * self.ms_per_look * 1_000


@pytest.mark.parametrize(("ms_per_look", "slices"), [(0, 2), (5, 6), (3, 4)])
def test_a_search_ends_with_its_slice_and_goes_on_behind_the_id_that_it_returned(ms_per_look, slices):
    clock = TickingClock()
    engine = Session(clock)
    engine.do("CONFIG SET stream-node-max-entries 2")
    fill(engine, *["a"] * 9)
    clock.ms_per_look = ms_per_look
    lasts = [b"0"]
    while len(lasts) < 2 or lasts[-1] != lasts[-2]:
        last, found = engine.do(f"XFILTER s ({lasts[-1].decode()} + COUNT 1 FIELD t EQ b")
        assert found == []
        lasts.append(last)
    assert len(lasts) - 1 == slices
    assert lasts[-1] == b"9-0"


def blocked_reader(engine, line, protocol=2):
    client = engine.connect(protocol)
    client.say(f"XFILTER {line}")
    assert client.blocked
    return client


def test_a_reader_waits_for_an_entry_that_its_filter_lets_through(engine):
    fill(engine, "b/1")
    reader = blocked_reader(engine, "s - + COUNT 9 BLOCK 0 FIELD t MQTT a/+")
    engine.do("XADD s 2 t b/2 p v")
    engine.do("XADD s 3 x a/2 p v")
    assert reader.blocked
    engine.do("XADD s 4 t a/1 p v")
    assert reader.replies() == [[b"4-0", [entry("4-0", "a/1")]]]


def test_what_is_written_in_one_transaction_comes_in_one_reply(engine):
    reader = blocked_reader(engine, "s - + COUNT 2 BLOCK 0 FIELD t MQTT a/+")
    engine.do("MULTI")
    for at, topic in enumerate(["b", "a/1", "b", "a/2", "a/3"], 1):
        engine.do(f"XADD s {at} t {topic} p v")
    engine.do("EXEC")
    assert reader.replies() == [[b"4-0", [entry("2-0", "a/1"), entry("4-0", "a/2")]]]


def test_a_reader_whose_time_is_up_is_told_how_far_was_looked(engine, clock):
    reader = blocked_reader(engine, "s 5 + COUNT 9 BLOCK 100 FIELD t MQTT a/+")
    other = blocked_reader(engine, "s - + COUNT 9 BLOCK 200 FIELD t EQ z")
    engine.do("XADD s 7 t b p v")
    clock.advance(100)
    assert reader.replies() == [[b"7-0", []]]
    assert other.blocked
    engine.do("XADD s 8 t b p v")
    engine.do(f"CLIENT UNBLOCK {other.client.id}")
    assert other.replies() == [[b"8-0", []]]


def test_a_range_that_ends_before_what_may_come_is_not_waited_for(engine):
    fill(engine, "b", "b", "b")
    assert engine.do("XFILTER s - 2 COUNT 1 BLOCK 0 FIELD t EQ a") == [b"2-18446744073709551615", []]
    reader = blocked_reader(engine, "s - 5-0 COUNT 1 BLOCK 0 FIELD t EQ a")
    engine.do("XADD s 4 t b p v")
    assert reader.blocked
    engine.do("XADD s 6 t a p v")
    assert reader.replies() == [[b"5-0", []]]


def test_nobody_waits_for_a_stream_whose_ids_are_used_up(engine):
    last = "18446744073709551615-18446744073709551615"
    reader = blocked_reader(engine, "s - + COUNT 1 BLOCK 0 FIELD t EQ a")
    other = blocked_reader(engine, "u - + COUNT 1 BLOCK 0 FIELD t EQ a ALSO s -")
    engine.do(f"XADD s {last} end 1")
    assert reader.replies() == [[last.encode(), []]]
    assert other.replies() == [[b"0-0", []]]
    assert engine.do("XFILTER s - + COUNT 1 BLOCK 0 FIELD t EQ a") == [last.encode(), []]


def test_a_reader_is_woken_by_the_streams_that_it_names_beside(engine):
    fill(engine, "a", key="u")
    assert engine.do("XFILTER s - + COUNT 1 BLOCK 0 FIELD t EQ a ALSO u 0") == [b"0-0", []]
    reader = blocked_reader(engine, "s - + COUNT 1 BLOCK 0 FIELD t EQ a ALSO u 1-1 v -")
    engine.do("XADD u 2 t b p v")
    engine.do("XADD s 2 t b p v")
    assert reader.blocked
    engine.do("XADD v 1 t a p v")
    assert reader.replies() == [[b"2-0", []]]
    keys = engine.do("COMMAND GETKEYS XFILTER s - + COUNT 1 BLOCK 0 FIELD t EQ ALSO ALSO u 1-1 v -")
    assert keys == [b"s", b"u", b"v"]


FILTERS = ["MQTT a/+", "MQTT a/#", "MQTT #", "MQTT +/1", "MQTT a/1", "GLOB a*", "EQ a/1", "EQ b", "MQTT +", "MQTT $s/#"]
TOPICS = ["a", "a/1", "a/1/2", "b", "$s", "$s/1", "/", "a/", "+/1", "#"]


@pytest.mark.parametrize("topic", TOPICS)
def test_an_entry_wakes_those_alone_whose_filters_let_it_through(engine, topic):
    readers = {one: blocked_reader(engine, f"s - + COUNT 1 BLOCK 0 FIELD t {one}") for one in FILTERS}
    tried = []
    attempt = engine.engine.calls.attempt
    engine.engine.calls.attempt = lambda waiter: (tried.append(waiter), attempt(waiter))[1]
    engine.execute([b"XADD", b"s", b"1", b"t", topic])
    woken = {one for one, reader in readers.items() if not reader.blocked}
    assert woken == {one for one in FILTERS if engine.do(f"XFILTER s - + COUNT 1 FIELD t {one}")[1]}
    assert len(tried) == len(woken)
    for reader in readers.values():
        reader.disconnect()
    assert not engine.state.blocked._filtered


@pytest.mark.parametrize("one", ["MQTT a/+", "GLOB a*", "MQTT a/1", "EQ a/1"])
def test_a_reader_is_woken_whoever_waited_with_the_same_filter_before(engine, one):
    words = f"s - + COUNT 1 BLOCK 0 FIELD t {one}"
    blocked_reader(engine, "s - + COUNT 1 BLOCK 0 FIELD t MQTT other/+")
    first = blocked_reader(engine, words)
    for number in range(1_024):  # so the same words make another filter
        entry_filter(b"t", b"EQ", b"%d" % number)
    second = blocked_reader(engine, words)
    second.disconnect()
    first.disconnect()
    third, fourth = blocked_reader(engine, words), blocked_reader(engine, "s - + COUNT 1 BLOCK 0 FIELD t MQTT a/1")
    fourth.disconnect()
    engine.do("XADD s 1 t a/1 p v")
    assert third.replies() == [[b"1-0", [entry("1-0", "a/1")]]]


def test_readers_who_ask_the_same_get_one_reply_made_once(engine):
    readers = [blocked_reader(engine, "s - + COUNT 9 BLOCK 0 FIELD t MQTT a/+", 2 + at % 2) for at in range(6)]
    engine.do("XADD s 1 t a/1 p v")
    assert [reader.replies() for reader in readers] == [[[b"1-0", [entry("1-0", "a/1")]]]] * 6


def test_readers_who_ask_from_another_place_or_for_more_get_a_reply_of_their_own(engine):
    words = "BLOCK 0 FIELD t MQTT a/+"
    asked = [f"s - + COUNT 2 {words}", f"s 2 + COUNT 2 {words}", f"s - + COUNT 1 {words}", f"s - 1 COUNT 2 {words}"]
    readers = [blocked_reader(engine, one) for one in (*asked, *asked)]
    engine.do("MULTI")
    engine.do("XADD s 1 t a/1 p v")
    engine.do("XADD s 2 t a/2 p v")
    engine.do("EXEC")
    one, two = entry("1-0", "a/1"), entry("2-0", "a/2")
    seen = [reader.replies()[0][1] for reader in readers]
    assert seen == [[one, two], [two], [one], [one]] * 2


def test_a_filter_that_nobody_waited_with_for_a_while_is_waited_with_again(engine):
    blocked_reader(engine, "s - + COUNT 1 BLOCK 0 FIELD t MQTT other/+")
    for number in (1, 2, 3):
        reader = blocked_reader(engine, f"s {number} + COUNT 1 BLOCK 0 FIELD t MQTT a/+")
        engine.do(f"XADD s {number} t a/1 p v")
        assert reader.replies() == [[b"%d-0" % number, [entry(f"{number}-0", "a/1")]]]


def test_a_reader_that_others_are_served_past_looks_at_no_entry_twice(engine, monkeypatch):
    looked_from = []

    def watched(log, index, wanted, start, *more):
        looked_from.append(start >> 64)
        return search(log, index, wanted, start, *more)

    reader = blocked_reader(engine, "s - + COUNT 9 BLOCK 0 FIELD t EQ z")
    for at in range(1, 9):
        engine.do(f"XADD s {at} t a p v")
    monkeypatch.setattr(xfilter, "search", watched)
    engine.do("XADD s 9 t z p v")
    assert looked_from == [8]  # from behind 8-0
    assert reader.client.waiter is None
    assert reader.replies() == [[b"9-0", [entry("9-0", "z")]]]


def test_a_stream_that_takes_anothers_place_is_looked_at_from_its_beginning(engine):
    fill(engine, *"bbbbbb")
    reader = blocked_reader(engine, "s - + COUNT 1 BLOCK 0 FIELD t EQ a")
    behind = engine.connect()
    behind.say("XFILTER s - + COUNT 1 BLOCK 0 FIELD t EQ c")
    fill(engine, "x", "x", "x", "x", "x", "x", "a", key="other")
    engine.do("DEL s")
    assert reader.blocked
    engine.do("RENAME other s")
    assert reader.replies() == [[b"7-0", [entry("7-0", "a")]]]
    assert behind.blocked


def test_a_transaction_does_not_wait(engine):
    engine.do("MULTI")
    engine.do("XFILTER s - + COUNT 1 BLOCK 0 FIELD t EQ a")
    assert engine.do("EXEC") == [[b"0-0", []]]
