"""The cache of blocks: its bound, its pins, and which blocks it keeps."""

import random
from bisect import bisect
from collections import Counter
from itertools import accumulate, product

import pytest

from streamd.cold import cache as cache_module
from streamd.cold.cache import BlockCache, Reader, key_of
from streamd.stream.log.segment import Segment
from tests.cold.sealed import entry_id


def segment_of(number, length=600):
    return Segment([entry_id(1, number)], [b"f", random.Random(number).randbytes(length)], 2, None)


class Blocks(dict):
    """Blocks of one segment by their keys, as a disk would have them."""

    def __missing__(self, key):
        self[key] = [segment_of(key % 100)]
        return self[key]


BLOCKS = Blocks()
SIZE = BLOCKS[1][0].memory_bytes + cache_module._CACHED_BYTES


def cache_of(blocks):
    return BlockCache(blocks * SIZE)


def keys_in(cache, upto=100):
    return [key for key in range(upto) if cache.has(key)]


class Model:
    """What must hold after each step, whichever blocks the cache chooses to keep."""

    def __init__(self, cache):
        self.cache = cache
        self.pins = Counter()
        self.asks = 0

    def step(self, kind, key):
        cache, had = self.cache, self.cache.has(key)
        if kind == "get":
            self.asks += 1
            assert cache.get(key) is (BLOCKS[key] if had else None)
            assert cache.has(key) is had
        elif kind in ("put", "written", "pinned"):
            is_pinned = kind == "pinned"
            assert cache.put(key, BLOCKS[key], kind == "written", is_pinned) is cache.has(key)
            self.pins[key] += is_pinned
        elif kind == "pin" and had:
            cache.pin(key)
            self.pins[key] += 1
        elif kind == "unpin" and self.pins[key]:
            cache.unpin(key)
            self.pins[key] -= 1
        elif kind == "discard":
            cache.discard(key)
            assert cache.has(key) is bool(self.pins[key])
        elif kind == "bound":
            cache.bytes_max = (1 + key) * SIZE
            assert not cache.shrink()
        pinned = [one for one, pins in self.pins.items() if pins]
        there = keys_in(cache)
        assert set(pinned) <= set(there)
        assert cache.bytes == len(there) * SIZE
        assert cache.bytes <= max(cache.bytes_max, len(pinned) * SIZE)
        assert cache.hits + cache.misses == self.asks
        assert len(cache._small) + len(cache._main) + len(pinned) == len(there)
        assert cache._small_bytes == len(cache._small) * SIZE


KINDS = ("get", "put", "written", "pinned", "pin", "unpin", "discard", "bound")


@pytest.fixture
def small_blocks(monkeypatch):
    """Let the few blocks of a short history be kept, and half of them be in small."""
    monkeypatch.setattr(cache_module, "_LARGE_PART", 1)
    monkeypatch.setattr(cache_module, "_SMALL_PART", 2)


@pytest.mark.interpreted(reason="replaces the bounds of the module")
def test_all_short_histories_keep_the_bound_and_what_is_pinned(small_blocks):
    steps = [*product(KINDS[:-1], (1, 2, 3)), ("bound", 0), ("bound", 2)]
    for history in product(steps, repeat=3):
        model = Model(cache_of(2))
        for step in (("put", 1), ("put", 2), ("get", 1), *history):
            model.step(*step)


@pytest.mark.interpreted(reason="replaces the bounds of the module")
def test_long_histories_keep_the_bound_and_what_is_pinned(small_blocks):
    chance = random.Random(8)
    for _ in range(60):
        model = Model(cache_of(4))
        for _ in range(120):
            model.step(chance.choice(KINDS), chance.randrange(1, 9))


def test_a_block_that_was_asked_for_again_outlives_a_scan():
    cache = cache_of(20)
    for key in range(40):
        cache.put(key, BLOCKS[key])
    assert cache.get(39) is BLOCKS[39]
    for key in range(40, 99):
        cache.put(key, BLOCKS[key])
    assert cache.has(39)
    assert not cache.has(38)


def test_asks_of_one_reader_in_a_row_count_once():
    kept = []
    for readers in ([Reader()] * 4, [Reader() for _ in range(4)]):
        cache = cache_of(20)
        for key in range(99):
            for reader in readers:
                if cache.get(key, reader) is None:
                    cache.put(key, BLOCKS[key])
        kept.append(keys_in(cache))
    assert kept[0] == [*range(2, 20), 97, 98]  # the first ones came while there was room; the scan passes through small
    assert kept[1] == list(range(79, 99))
    assert cache.hits == 3 * 99


def test_a_block_that_is_read_again_soon_after_it_was_evicted_comes_into_main():
    cache = cache_of(20)
    for key in range(30):
        cache.put(key, BLOCKS[key])
    gone = 25
    assert not cache.has(gone)
    cache.put(gone, BLOCKS[gone])
    for key in range(30, 60):
        cache.put(key, BLOCKS[key])
    assert cache.has(gone)


def test_written_blocks_stay_for_as_long_as_the_cache_is_large():
    cache = cache_of(20)
    for key in range(99):
        cache.put(key, BLOCKS[key], is_written=True)
    assert keys_in(cache) == list(range(79, 99))


def test_a_large_block_is_kept_only_while_it_is_pinned():
    cache = cache_of(4)
    assert not cache.put(1, BLOCKS[1])
    assert cache.put(1, BLOCKS[1], is_pinned=True)
    assert cache.has(1)
    cache = BlockCache(SIZE - 1)
    assert cache.put(1, BLOCKS[1], is_pinned=True)
    cache.unpin(1)
    assert not cache.has(1)
    assert cache.bytes == 0


@pytest.mark.interpreted(reason="replaces a bound of the module")
def test_a_lowered_bound_is_reached_in_steps(monkeypatch):
    monkeypatch.setattr(cache_module, "_EVICTED_MAX", 5)
    cache = cache_of(40)
    for key in range(40):
        cache.put(key, BLOCKS[key])
    cache.bytes_max = 28 * SIZE
    assert [cache.shrink(), cache.shrink(), cache.shrink()] == [True, True, False]
    assert cache.bytes == 28 * SIZE


def test_blocks_of_two_files_have_different_keys():
    assert len({key_of(number, row) for number in (1, 2, 1 << 20) for row in (0, 1, (1 << 32) - 1)}) == 9


class Lru:
    """A cache of 600 blocks to compare with: the block that was asked for longest ago leaves."""

    def __init__(self):
        self.keys = {}

    def ask(self, key):
        was_there = self.keys.pop(key, None) is not None
        self.keys[key] = True
        if len(self.keys) > 600:
            del self.keys[next(iter(self.keys))]
        return was_there


def hits_of(asks):
    """Return the part of counted asks that find their block in a cache of 600 blocks, and in an LRU."""
    cache, lru = cache_of(600), Lru()
    counted = hits = lru_hits = 0
    for key, reader, is_counted in asks:
        hit = cache.get(key, reader) is not None
        if not hit:
            cache.put(key, BLOCKS[key % 100])
        lru_hit = lru.ask(key)
        if is_counted:
            counted, hits, lru_hits = counted + 1, hits + hit, lru_hits + lru_hit
    return hits / counted, lru_hits / counted


def by_zipf():
    chance = random.Random(1)
    sums = list(accumulate(1 / (one + 1) for one in range(30_000)))
    reader = Reader()
    for n in range(40_000):
        yield bisect(sums, chance.random() * sums[-1]), reader, n > 10_000


def hot_set_beside_a_scan():
    chance = random.Random(2)
    hot, scan = Reader(), Reader()
    for n in range(10_000):
        yield chance.randrange(400), hot, n > 4_000
        for _ in range(4):  # four requests for each block
            yield 1_000 + n, scan, False


def five_readers_behind_each_other():
    readers = [Reader() for _ in range(5)]
    for n in range(6_000):
        for place, reader in enumerate(readers):
            if n >= 50 * place:
                yield n - 50 * place, reader, n > 2_000


def test_popular_blocks_are_kept_better_than_by_an_lru():
    ours, lru = hits_of(by_zipf())
    assert ours > 0.59
    assert ours > lru + 0.06


def test_a_hot_set_is_not_driven_out_by_a_scan():
    ours, lru = hits_of(hot_set_beside_a_scan())
    assert ours > 0.99
    assert lru < 0.7


def test_readers_that_follow_each_other_read_each_block_once():
    ours, lru = hits_of(five_readers_behind_each_other())
    assert ours >= 0.79
    assert lru >= 0.79
