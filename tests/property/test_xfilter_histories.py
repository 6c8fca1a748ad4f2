"""XFILTER and groups with a filter against XRANGE and an obvious filter: all short histories, and many long ones."""

from fnmatch import fnmatchcase
from itertools import product
from random import Random

import pytest

from streamd.base.limits import SEGMENT_CACHE_BYTES_MAX
from streamd.stream.log.segment_cache import CACHE
from streamd.stream.search import field_index
from streamd.stream.search.field_index import FieldIndex
from tests.session import Session
from tests.topics.mqtt_model import matches

# Bytes that lz4 cannot shrink: a segment so small that a note of its values would be a burden gets none.
PAYLOADS = [Random(7).randbytes(200) for _ in range(8)]


def passes(fields, kind, pattern):
    value = dict(zip(fields[::2], fields[1::2], strict=True)).get(b"t")
    if value is None:
        return False
    if kind == "GLOB":
        return fnmatchcase(value.decode(), pattern)
    return matches(pattern, value.decode()) if kind == "MQTT" else value.decode() == pattern


def filtered(engine, kind, pattern, count=2):
    """Return what XFILTER finds from page to page; that it always ends where all entries were looked at."""
    found, last = [], b"0-0"
    while True:
        before = last
        request = ["XFILTER", "s", b"(" + last, "+", "COUNT", count, "FIELD", "t", kind, pattern]
        last, entries = engine.execute(request)
        assert len(entries) <= count
        found += entries
        if last == before:
            return found


def check(engine, kind, pattern):
    wanted = [one for one in engine.do("XRANGE s - +") if passes(one[1], kind, pattern)]
    assert filtered(engine, kind, pattern) == wanted


class World:
    """A stream of segments of two entries."""

    def __init__(self):
        self.engine = Session()
        self.engine.do("CONFIG SET stream-node-max-entries 2")
        self.added = 0

    def do(self, step):
        first = self.engine.do("XRANGE s - + COUNT 1")
        if step in ("a/1", "a/2", "b"):
            self.added += 1
            self.engine.execute(["XADD", "s", f"{self.added}-0", "t", step, "p", PAYLOADS[self.added % 8]])
        elif step == "no t":
            self.added += 1
            self.engine.execute(["XADD", "s", f"{self.added}-0", "p", PAYLOADS[self.added % 8], "x", "y"])
        elif step == "ask":
            check(self.engine, "MQTT", "a/+")
        elif step == "ask another":
            for _ in range(9):
                self.engine.do("XFILTER s - + COUNT 9 FIELD x EQ y")
        elif step == "delete first" and first:
            self.engine.execute(["XDEL", "s", first[0][0]])
        elif step == "delete last":
            for one in self.engine.do("XREVRANGE s + - COUNT 1"):
                self.engine.execute(["XDEL", "s", one[0]])
        elif step == "trim":
            self.engine.do("XTRIM s MAXLEN 3")
        elif step == "copy" and first:
            self.engine.do("COPY s copy")
            self.engine.do("XADD copy * t a/1 p v")
            self.engine.do("XFILTER copy - + COUNT 9 FIELD t EQ b")
            self.engine.do("DEL copy")

    def check(self, *patterns):
        for kind, pattern in [("MQTT", "a/+"), ("EQ", "b"), *patterns]:
            check(self.engine, kind, pattern)


STEPS = ["a/1", "b", "no t", "ask", "ask another", "delete first", "delete last", "trim", "copy"]


@pytest.mark.parametrize("room_bytes", [100_000, 150])
def test_a_filtered_read_finds_what_a_filter_of_all_finds_after_every_short_history(monkeypatch, room_bytes):
    monkeypatch.setattr(field_index, "_VALUES_BYTES_MIN", room_bytes)
    for history in product(STEPS, repeat=3):
        world = World()
        for step in ("a/1", "b", "a/1", "a/2", "ask", *history):
            world.do(step)
        world.check()


@pytest.mark.parametrize("room_bytes", [100_000, 0, 400])
def test_a_filtered_read_finds_what_a_filter_of_all_finds_after_long_histories(monkeypatch, room_bytes):
    monkeypatch.setattr(field_index, "_VALUES_BYTES_MIN", room_bytes)
    random = Random(room_bytes)
    for _ in range(40):
        world = World()
        for step in random.choices([*STEPS, "a/2", "a/1", "b"], k=50):
            world.do(step)
        world.check(("MQTT", "#"), ("EQ", "c"), ("MQTT", "a/2"))


TOPICS = [
    *("a", "b", "a/b", "a/c", "b/c", "/a", "a/", "$a", "$a/b", "$", "", "c" * 300),
    *(f"a/{n}/b" for n in range(40)),
]
PATTERNS = [
    *(("MQTT", pattern) for pattern in ("#", "+", "a/#", "a/+", "+/b", "a/+/b", "a/7/b", "$a/#", "/+", "+/+/b", "a")),
    *(("GLOB", pattern) for pattern in ("*", "a*", "*b", "$*")),
    *(("EQ", value) for value in ("a/b", "a/3/b", "", "$a", "c" * 300)),
]


def fields_of(random, shape):
    """Return fields and values of an entry. shape: what all entries of a stream have in common."""
    topic = random.choice(TOPICS[: shape["topics"]] or TOPICS)
    payload = PAYLOADS[random.randrange(8)][: 200 if shape["regular"] else random.randrange(200)]
    fields = ["t" if shape["topics"] else "none", topic, "p", payload * shape["times"]]
    if shape["mixed"]:
        fields = random.choice([fields, fields[2:], [*fields, "t", random.choice(TOPICS)], ["t", topic]])
    return fields


@pytest.mark.parametrize("room_bytes", [100_000, 0, 1_500])
def test_filters_of_all_kinds_pick_what_a_filter_of_all_finds_however_entries_are_kept(monkeypatch, room_bytes):
    monkeypatch.setattr(field_index, "_VALUES_BYTES_MIN", room_bytes)
    random = Random(room_bytes)
    shapes = [*product([False, True], [False, True], [0, 1, 40], [0, 1, 10, len(TOPICS)])]
    for mixed, regular, times, topics in random.sample(shapes, 20):
        shape = {"mixed": mixed, "regular": regular, "times": times, "topics": topics}
        monkeypatch.setattr(CACHE, "bytes_max", random.choice([SEGMENT_CACHE_BYTES_MAX, 0]))
        engine = Session()
        engine.do("CONFIG SET stream-node-max-entries 20")
        ms = 998
        for at in range(150):
            ms += 1 if regular else random.choice([0, 0, 1, 2000])
            engine.execute(["XADD", "s", f"{ms}-{0 if regular else at}", *fields_of(random, shape)])
        everything = engine.do("XRANGE s - +")
        assert len(everything) == 150
        for _ in range(3):
            for kind, pattern in random.sample(PATTERNS, 8):
                wanted = [one for one in everything if passes(one[1], kind, pattern)]
                assert filtered(engine, kind, pattern, random.choice([1, 7, 1000])) == wanted
            engine.execute(["XRANGE", "s", random.choice(everything)[0], "+", "COUNT", random.choice([3, 40])])
            for one in random.sample(everything, 10):
                engine.execute(["XDEL", "s", one[0]])
            everything = [one for one in everything if engine.execute(["XRANGE", "s", one[0], one[0]])]


def test_segments_that_cannot_match_are_passed_over_and_whole_ones_are_not_looked_through():
    engine = Session()
    random = Random(3)
    for at in range(20_000):
        engine.execute(["XADD", "s", "*", "t", f"devices/d{at // 1_000}/k{at % 7}", "p", random.randbytes(30)])
    looked = []
    places = FieldIndex.places

    def watched(index, segment, wanted):
        looked.append(segment.count)
        return places(index, segment, wanted)

    def entries_looked_at(pattern):
        looked.clear()
        list(filtered(engine, "MQTT", pattern, count=100_000))
        return sum(looked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FieldIndex, "places", watched)
        assert entries_looked_at("none/+") == 0  # each segment was looked through, and had no such value
        assert entries_looked_at("devices/d7/+") == 0
        assert entries_looked_at("devices/d7/k3") == 1_000
        assert entries_looked_at("devices/+/+") == 0
