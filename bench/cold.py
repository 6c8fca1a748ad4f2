"""`python -m bench.cold`: CPU and bytes of segment files, for three kinds of entries: the table in bench/NOTES.md.

In one process, without a server: segments are gathered into blocks, written, found in the index, read and decoded.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count

from streamd.base.filesystem import FileSystem
from streamd.cold.block import Block, check, decode, grouped
from streamd.cold.cache import BlockCache, Reader, key_of
from streamd.cold.codec import AS_SEALED, ZSTD, is_available
from streamd.cold.files import MOVER, SegmentFile, SegmentFiles
from streamd.cold.whole_file import blocks_of
from streamd.stream.log.segment import Segment

MS = 1_700_000_000_000
TIMES = 5  # the least counts
NODE = 100


def json_texts(number: int, chance: random.Random) -> list[bytes]:
    """Return a field of 90 bytes of telemetry."""
    text = b'{"device":"sensor-%04d","temperature":%.2f,"humidity":%.1f,"battery":%d,"unit":"celsius"}'
    return [b"m", text % (number % 1000, 20 + chance.random() * 5, chance.random() * 100, chance.randrange(100))]


def five_texts(number: int, chance: random.Random) -> list[bytes]:
    """Return five short fields."""
    words = [b"device", b"sensor-%04d" % (number % 1000), b"temperature", b"%.2f" % (20 + chance.random() * 5)]
    words += [b"humidity", b"%.1f" % (chance.random() * 100), b"battery", b"%d" % chance.randrange(100)]
    return [*words, b"order", b"%012d" % chance.randrange(10**12)]


def random_texts(number: int, chance: random.Random) -> list[bytes]:
    """Return a field of 100 random bytes."""
    return [b"data", chance.randbytes(100)]


KINDS = {"json": json_texts, "five": five_texts, "random": random_texts}


def segments_of(texts: Callable[[int, random.Random], list[bytes]], entries: int) -> list[Segment]:
    """Return sealed segments of entries, one each millisecond."""
    chance = random.Random(3)
    found: list[Segment] = []
    for first in range(0, entries, NODE):
        flat = [texts(number, chance) for number in range(first, first + NODE)]
        ids = [MS + number << 64 for number in range(first, first + NODE)]
        like = found[-1] if found else None
        found.append(Segment(ids, [text for one in flat for text in one], len(flat[0]), None, like))
    return found


def least_ns(entries: int, action: Callable[[], object]) -> float:
    """Return the least CPU time of an action, in ns for each entry."""
    times = []
    for _ in range(TIMES):
        before = time.thread_time_ns()
        action()
        times.append(time.thread_time_ns() - before)
    return min(times) / entries


def write(store: SegmentFiles, blocks: list[Block]) -> SegmentFile:
    """Write a file of these blocks."""
    writing = store.create(MS)
    writing.write(blocks)
    return writing.finish()


def measure(directory: str, segments: list[Segment], codec: int) -> Iterator[tuple[str, float]]:
    """Yield the names and values of a row's cells."""
    entries = sum(segment.count for segment in segments)
    store = SegmentFiles(FileSystem(), directory, "appendonly.aof")
    files: list[SegmentFile] = []

    def gather() -> list[Block]:
        return [Block(group, codec) for group in grouped(segments)]

    def write_again() -> None:
        files.append(write(store, blocks))

    blocks = gather()
    yield "columns, B", sum(segment.memory_bytes for segment in segments) / entries
    yield "gather, ns", least_ns(entries, gather)
    yield "place and write, ns", least_ns(entries, write_again)
    one = files[-1]
    store.sync(one)
    index = one.index
    yield "file, B", one.size / entries
    yield "index, B", index.memory_bytes / entries
    places = [index.place(row) for row in range(index.rows)]
    data = [store.read(one, place) for place in places]

    def check_all() -> None:
        for place, block in zip(places, data, strict=True):
            check(block, place.size, one.salt, place.offset, one.path)

    def decode_all() -> None:
        for place, block in zip(places, data, strict=True):
            decode(block, place.offset, one.path)

    yield "read and check, ns", least_ns(entries, lambda: [store.read(one, place) for place in places])
    yield "check alone, ns", least_ns(entries, check_all)
    yield "decode, ns", least_ns(entries, decode_all)
    found = [segment for block in blocks_of(store, one) if isinstance(block, list) for segment in block]
    assert len(found) == len(segments)
    yield "RESP, ns", least_ns(entries, lambda: [segment.encode(0, segment.count) for segment in found])
    wanted = random.Random(5).sample(range(entries - 10), min(entries - 10, 2_000))

    def ten_of_a_block() -> None:
        for number in wanted:
            row = index.find(MS + number << 64, 0, index.rows)
            place = index.place(row)
            block = decode(data[row], place.offset, one.path)
            segment = next(one for one in block if one.last_id >= MS + number << 64)
            low = segment.position(MS + number << 64)
            segment.encode(low, min(low + 10, segment.count))

    yield "ten of a block, us", least_ns(len(wanted), ten_of_a_block) / 1_000
    for one in files:
        store.release(one, MOVER)
    store.unlink_dead()
    assert store.unlink_orphans() == []


def cache_ns(segments: list[Segment]) -> Iterator[tuple[str, float]]:
    """Yield what the cache takes of an ask that finds its block, of a block that comes and one that goes, of a pin."""
    blocks = 10_000
    cache, reader = BlockCache(blocks // 2 * (segments[0].memory_bytes + 400)), Reader()
    rows = count()
    block = segments[:1]

    def pin_all() -> None:
        for key in there:
            cache.pin(key)
            cache.unpin(key)

    yield "put and evict", least_ns(blocks, lambda: [cache.put(key_of(1, next(rows)), block) for _ in range(blocks)])
    there = [key for key in (key_of(1, row) for row in range(next(rows))) if cache.has(key)]
    yield "get", least_ns(len(there), lambda: [cache.get(key, reader) for key in there])
    yield "pin and unpin", least_ns(len(there), pin_all)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="CPU and bytes of segment files")
    parser.add_argument("--entries", type=int, default=100_000)
    entries = parser.parse_args().entries // NODE * NODE
    rows: list[list[str]] = []
    names: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        for name, texts in KINDS.items():
            segments = segments_of(texts, entries)
            for codec in (AS_SEALED, ZSTD):
                if is_available(codec):
                    found = dict(measure(directory, segments, codec))
                    names = [*found]
                    form = "zstd" if codec == ZSTD else "as sealed"
                    values = [f"{value:.2f}" if value < 1 else f"{value:.1f}" for value in found.values()]
                    rows.append([f"{name}, {form}", *values])
    for cells in (["per entry", *names], ["---"] * (1 + len(names)), *rows):
        print(f"| {' | '.join(cells)} |")
    print("cache, ns:", ", ".join(f"{name} {value:.0f}" for name, value in cache_ns(segments)))


if __name__ == "__main__":
    main()
