"""Searches of entries in segment files find what they find in memory, and read the blocks that may have a match."""

import random

import pytest

from streamd.stream.log.absent import Absent
from tests.cold.cold_twins import call
from tests.cold.cold_world import evict
from tests.cold.test_cold_sequences import Pair

pytestmark = pytest.mark.interpreted(reason="stores and files of the test")

LINES = [
    "XFILTER s - + COUNT 5 FIELD topic EQ room/7",
    "XFILTER s - + COUNT 500 FIELD topic EQ room/7",
    "XFILTER s - + COUNT 500 FIELD topic EQ nowhere",
    "XFILTER s - + COUNT 500 FIELD topic MQTT room/+",
    "XFILTER s - + COUNT 3 FIELD topic MQTT +/3",
    "XFILTER s - + COUNT 500 FIELD topic GLOB room/1*",
    "XFILTER s 37 1111 COUNT 500 FIELD topic GLOB hall/?",
    "XFILTER s 37 1111 COUNT 500 FIELD topic EQ room/7",
    "XFILTER s - 555 COUNT 500 FIELD topic EQ room/9",
    "XFILTER s - + COUNT 4 FIELD topic MQTT #",
    "XFILTER s - + COUNT 400 FIELD other EQ x",
]


def filled(directory, entries=1_500, per_block=2):
    """Return a pair whose topics differ from block to block."""
    pair = Pair(directory)
    pair.do("CONFIG SET stream-node-max-entries 20")
    chance = random.Random(3)
    for number in range(1, entries + 1):
        kind = "hall" if number // 200 % 3 == 1 else "room"
        line = f"XADD s {number}-0 topic {kind}/{chance.randrange(3) + 3 * (number // 100 % 5)} n {number}"
        assert call(pair.plain, line) == call(pair.cold, line)
    pair.cool(per_block=per_block)
    pair.do("XDEL s 41-0 79-0 80-0 81-0 1200-0")
    pair.do("XTRIM s MAXLEN = 1480")
    return pair


@pytest.fixture
def pair(tmp_path):
    return filled(str(tmp_path))


def reads_of(pair, line):
    """Return how many blocks a request reads from the disk, with an empty cache."""
    expected = call(pair.plain, line)
    evict(pair.store)
    rows = set()
    read = pair.store.read
    pair.store.read = lambda file, row: rows.add((file.number, row)) or read(file, row)
    while True:
        try:
            assert call(pair.cold, line) == expected
            break
        except Absent as absent:
            absent.fetch()
    pair.store.read = read
    return len(rows)


@pytest.mark.parametrize("line", LINES)
def test_a_search_finds_what_it_finds_in_memory_the_first_time_and_later(pair, line):
    pair.do(line)
    reads_of(pair, "XFILTER s - + COUNT 2000 FIELD topic GLOB *?*")
    for _ in range(3):
        pair.do(line)


def test_a_block_that_cannot_match_is_not_read(pair):
    everything = reads_of(pair, "XFILTER s - + COUNT 2000 FIELD topic EQ room/7")
    few = reads_of(pair, "XFILTER s - + COUNT 2000 FIELD topic EQ room/7")
    some = reads_of(pair, "XFILTER s - + COUNT 2000 FIELD topic MQTT hall/#")
    nothing = reads_of(pair, "XFILTER s - + COUNT 2000 FIELD topic EQ nowhere")

    assert everything >= 34
    assert nothing <= 4 < few < 20  # the first block, and those with tombstones, may be read always
    assert few < some < 25


def test_a_search_asks_for_some_blocks_at_once(pair):
    waits = []
    evict(pair.store)
    for _ in range(100):
        try:
            call(pair.cold, "XFILTER s - + COUNT 2000 FIELD topic EQ room/7")
            break
        except Absent as absent:
            waits.append(len(absent.rows))
            absent.fetch()
    assert len(waits) <= 4
    assert max(waits) > 10


def test_groups_with_a_filter_come_as_far_as_they_come_in_memory(pair):
    pair.do("XGROUP CREATE s seven 0 FILTER FIELD topic EQ room/7")
    pair.do("XGROUP CREATE s none 0 FILTER FIELD topic EQ nowhere")
    pair.do("XFILTER s - + COUNT 2000 FIELD topic EQ room/7")
    for _ in range(3):
        pair.do("XREADGROUP GROUP seven c COUNT 9 STREAMS s >")
        pair.do("XINFO GROUPS s")
    pair.do("XREADGROUP GROUP none c STREAMS s >")
    pair.compare()
