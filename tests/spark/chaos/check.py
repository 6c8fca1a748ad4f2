"""The verdict of the chaos test: each row of each stream, ID and content, against what should be there."""

from collections import Counter
from dataclasses import dataclass

import redis

from tests.spark.chaos.job import EQUAL_ROWS

PAGE_ENTRIES = 5000


@dataclass(frozen=True)
class Comparison:
    """One stream: how many rows had to be there, how many of them are not, and how many others are."""

    stream: str
    expected: int
    lost: int
    duplicated: int
    suppressed: int
    """How many XADDs the server answered with the ID of an entry that was there."""
    example: str = ""


def compare(client: redis.Redis, fed: int, loaded: int) -> list[Comparison]:
    """Return the comparison of every stream, the one that was fed first."""
    source = entries(client, "in")
    every_entry = Counter((entry_id, fields[b"n"], fields[b"v"]) for entry_id, fields in source)
    numbers = (b"%d" % (row // EQUAL_ROWS) for row in range(loaded))
    wanted = {
        "in": Counter((b"%d" % n, b"value %d" % n) for n in range(fed)),
        "copied": every_entry,
        "shuffled": every_entry,
        "loaded": Counter((number, b"value " + number) for number in numbers),
    }
    found = {
        "in": Counter((fields[b"n"], fields[b"v"]) for _, fields in source),
        "copied": rows_with_source(client, "copied"),
        "shuffled": rows_with_source(client, "shuffled"),
        "loaded": Counter((fields[b"n"], fields[b"v"]) for _, fields in entries(client, "loaded")),
    }
    return [compare_rows(name, wanted[name], found[name], suppressed(client, name)) for name in wanted]


def compare_rows(stream: str, wanted: Counter, found: Counter, repeats: int = 0) -> Comparison:
    """Return what differs; a row with other content than expected is one lost and one too many."""
    lost, more = wanted - found, found - wanted
    examples = [f"lost {row}" for row in list(lost)[:2]] + [f"too many {row}" for row in list(more)[:2]]
    return Comparison(stream, wanted.total(), lost.total(), more.total(), repeats, "; ".join(examples))


def twice(client: redis.Redis) -> Counter[str]:
    """Return, for each stream of rows that change with each attempt, how many of its source's entries came twice."""
    counted: Counter[str] = Counter()
    for stream in client.scan_iter("changing-*", _type="stream"):
        times = Counter(fields[b"source"] for _, fields in entries(client, stream.decode()))
        counted[stream.decode()] = times.total() - len(times)
    return counted


def rows_with_source(client: redis.Redis, stream: str) -> Counter:
    return Counter((fields[b"source"], fields[b"n"], fields[b"v"]) for _, fields in entries(client, stream))


def entries(client: redis.Redis, stream: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Return all entries of a stream, read in pages."""
    read: list[tuple[bytes, dict[bytes, bytes]]] = []
    start = "-"
    while page := client.xrange(stream, start, count=PAGE_ENTRIES):
        read += page
        start = "(" + page[-1][0].decode()
    return read


def suppressed(client: redis.Redis, stream: str) -> int:
    return int(client.xinfo_stream(stream).get("iids-duplicates", 0)) if client.exists(stream) else 0
