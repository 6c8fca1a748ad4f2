"""Cutting a range that nobody counts: about as many entries as wanted, few probes, and real entries at its seams."""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import cache

import pytest

from spark_source import ids
from spark_source.reading.planner import PartSizes, WalkSplitter

ENTRIES = 200_000
Id = tuple[int, int]


class Stream:
    """A server with one stream of entry IDs; counts the entries that it hands out."""

    def __init__(self, entries: Iterable[Id]) -> None:
        self.entries = list(entries)
        self.walked = self.exchanges = 0

    def patiently(self, work: Callable, key: str) -> object:
        self.exchanges += 1
        return work(self)

    def pipeline(self, commands: list[tuple]) -> list:
        return [self.call(*words) for words in commands]

    def call(self, name: str, key: str, begin: str, end: str, word: str, count: int) -> list:
        if name == "XREVRANGE":
            begin, end = end, begin
        first = bisect_right if begin.startswith("(") else bisect_left
        low, high = first(self.entries, ids.parse(begin.lstrip("("))), bisect_right(self.entries, ids.parse(end))
        found = self.entries[low : min(high, low + count)]
        if name == "XREVRANGE":
            found = self.entries[max(low, high - count) : high][::-1]
        self.walked += len(found)
        return [[f"{ms}-{seq}".encode(), []] for ms, seq in found]

    def held(self, start: str, end: str) -> int:
        return bisect_right(self.entries, ids.parse(end)) - bisect_right(self.entries, ids.parse(start))


def at_rates(rates: Iterable[tuple[float, int]], seed: int = 7) -> Iterable[Id]:
    """Yield entries that come by chance, at (entries a millisecond, for how many milliseconds)."""
    dice, ms, last, seq = random.Random(seed), 1_700_000_000_000.0, 0, 0
    for rate, duration in rates:
        until = ms + duration
        while (ms := ms + dice.expovariate(rate)) < until:
            seq = seq + 1 if int(ms) == last else 0
            last = int(ms)
            yield last, seq
        ms = until


SHAPES: dict[str, Callable[[], Iterable[Id]]] = {
    "a bulk load": lambda: ((1_700_000_000_000 + n // 120, n % 120) for n in range(ENTRIES)),
    "a steady stream": lambda: at_rates([(1, ENTRIES)]),
    "a slow one": lambda: at_rates([(0.01, ENTRIES * 100)]),
    "micro-batches": lambda: at_rates([(100, 100), (0.0001, 10_000)] * 20),
    "days and nights": lambda: at_rates([(0.5, 50_000), (0.05, 50_000)] * 7),
    "more and more": lambda: at_rates([(0.01 * 2**n, 20_000) for n in range(11)]),
    "less and less": lambda: at_rates([(10 / 2**n, 20_000) for n in range(11)]),
    "one millisecond": lambda: ((0, n + 1) for n in range(ENTRIES)),
    "numbers for milliseconds": lambda: ((n + 1, 0) for n in range(ENTRIES)),
    "sequence numbers by chance": lambda: ((5, n) for n in sorted(random.Random(7).sample(range(2**62), ENTRIES))),
    "a closed log": lambda: [*at_rates([(1, ENTRIES)]), (ids.SEQ_MAX, ids.SEQ_MAX)],
    "a few old ones": lambda: [(1, 1), (2, 1), *at_rates([(1, ENTRIES)])],
}


@cache
def entries_of(shape: str) -> list[Id]:
    return list(SHAPES[shape]())


@pytest.mark.parametrize("take", [2_000, 20_000, 100_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_part_of_a_backlog_is_about_as_large_as_wanted(shape: str, take: int) -> None:
    stream = Stream(entries_of(shape))
    splitter = WalkSplitter(stream, scripted=False)  # type: ignore[arg-type]
    end = "{}-{}".format(*stream.entries[-1])
    start, left = "0-0", len(stream.entries)
    for _ in range(4):
        stream.walked = 0
        cuts = splitter.estimate("s", start, end, take, left, PartSizes(take // 4, 1))
        assert cuts is not None
        last = cuts[-1][0]
        got = stream.held(start, last)
        assert take / 2 < got < 2 * take or last == end, got
        assert sum(count for _, count in cuts) <= take
        assert all(ids.parse(one) in stream.entries[-1:] or stream.held(ids.before(one), one) == 1 for one, _ in cuts)
        assert stream.walked < max(0.05 * take, 4_000)
        start, left = last, left - got
        if left < 2 * take:
            break


@pytest.mark.parametrize("shape", SHAPES)
def test_parts_of_all_are_about_even(shape: str) -> None:
    stream = Stream(entries_of(shape))
    splitter = WalkSplitter(stream, scripted=False)  # type: ignore[arg-type]
    end, count = "{}-{}".format(*stream.entries[-1]), len(stream.entries)
    cuts = splitter.estimate("s", "0-0", end, None, count, PartSizes(count // 8, 1))
    assert cuts is not None
    assert cuts[-1][0] == end
    start = "0-0"
    sizes = []
    for last, _ in cuts:
        sizes.append(stream.held(start, last))
        start = last
    assert sum(sizes) == count
    assert max(sizes) < 2 * count / 8, sizes
    assert stream.exchanges < 100


def test_a_burst_that_no_probe_met_makes_it_count() -> None:
    """Half a million in a second, among days of one entry a second: the limit is kept, by counting."""
    burst = at_rates([(0.001, 70_000_000), (500, 1_000), (0.001, 110_000_000)])
    stream = Stream(burst)
    splitter = WalkSplitter(stream, scripted=False)  # type: ignore[arg-type]
    end, count = "{}-{}".format(*stream.entries[-1]), len(stream.entries)
    assert splitter.estimate("s", "0-0", end, 100_000, count, PartSizes(25_000, 1)) is None
    counted = splitter.cut("s", "0-0", end, 100_000, count, PartSizes(25_000, 1))
    assert stream.held("0-0", counted[-1][0]) == 100_000


def test_entries_that_are_trimmed_while_a_range_is_probed_are_left_out() -> None:
    stream = Stream(entries_of("a steady stream"))
    splitter = WalkSplitter(stream, scripted=False)  # type: ignore[arg-type]
    end = "{}-{}".format(*stream.entries[-1])
    call = stream.call

    def trimming(*words: object) -> list:
        del stream.entries[:2_000]
        return call(*words)  # type: ignore[arg-type]

    stream.call = trimming  # type: ignore[method-assign]
    cuts = splitter.estimate("s", "0-0", end, 20_000, len(stream.entries), PartSizes(5_000, 1))
    assert cuts is None or ids.parse(cuts[-1][0]) <= ids.parse(end)


@pytest.mark.parametrize("take", [1, 1_000])
def test_few_entries_are_counted(take: int) -> None:
    stream = Stream((n + 1, 0) for n in range(5_000))
    assert WalkSplitter(stream, scripted=False).estimate("s", "0-0", "5000-0", take, 5_000, PartSizes(10, 1)) is None  # type: ignore[arg-type]
    assert stream.walked == 0
