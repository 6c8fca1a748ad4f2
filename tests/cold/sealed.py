"""Segments of every kind that sealing makes, and their comparison."""

import random
from collections.abc import Iterator

from streamd.stream.log.entry_log import Log
from streamd.stream.log.segment import Segment
from streamd.stream.wire.entry_columns import EntryColumns

MS = 1_700_000_000_123
STORED = ("count", "used", "first_id", "last_id", "fields", "stamps", "seqs", "lengths", "texts", "raw_bytes")


def stored(segment: Segment) -> tuple[object, ...]:
    """Return all that a segment file keeps of a segment."""
    return tuple(getattr(segment, name) for name in STORED)


def entry_id(ms: int, seq: int = 0) -> int:
    return ms << 64 | seq


def sealed(entries: list[tuple[int, list[bytes]]], node: int = 10) -> list[Segment]:
    """Return the segments that a log makes of entries."""
    log = Log(node)
    for one, fields in entries:
        log.append(one, fields)
    log.append(entry_id(1 << 60), [b"f", b"v"])
    return [] if log._sealed is None else list(log._sealed.segments)


IDS = {
    "a ms each": lambda n: entry_id(MS + n),
    "one ms": lambda n: entry_id(MS, n),
    "one ms, seqs with gaps": lambda n: entry_id(MS, 7 * n * n),
    "ms with gaps": lambda n: entry_id(MS + 300 * n * n),
    "days between": lambda n: entry_id(MS + 86_400_000 * 60 * n, n % 3),
    "both": lambda n: entry_id(MS + n // 3, n % 3 * 70_000),
    "small": lambda n: entry_id(0, n + 1),
    "the greatest": lambda n: entry_id((1 << 64) - 1000 + n, (1 << 64) - 1),
}
TEXT = b'{"device": "sensor-17", "temperature": 21.%d, "humidity": 40, "unit": "percent"}'
FIELDS = {
    "alike": lambda n, chance: [b"f", b"%08d" % n],
    "lengths differ": lambda n, chance: [b"f", b"v" * (n % 7), b"name", b"%d" % n],
    "long lengths": lambda n, chance: [b"f", b"v" * (n % 3 * 300)],
    "names differ": lambda n, chance: [b"f%d" % (n % 3), b"v", *([b"g", b""] if n % 2 else [])],
    "compressed": lambda n, chance: [b"json", TEXT % n],
    "random": lambda n, chance: [b"data", chance.randbytes(100)],
    "large": lambda n, chance: [b"f", chance.randbytes(30_000)],
    "large and different": lambda n, chance: [b"f", bytes(14_000 + 1_000 * n % 5), *([b"g", b"1"] if n % 2 else [])],
    "large, lengths differ": lambda n, chance: [b"f", bytes(14_000 + n % 5)],
    "wide": lambda n, chance: [b"x"] * 600,
}


def every_kind() -> Iterator[tuple[str, list[Segment]]]:
    """Yield a name and the segments of each kind."""
    for ids, one_id in IDS.items():
        for fields, of in FIELDS.items():
            chance = random.Random(5)
            yield f"{fields}, {ids}", sealed([(one_id(n), of(n, chance)) for n in range(25)])
    yield "one entry a node", sealed([(entry_id(MS + n), [b"f", b"%d" % n]) for n in range(5)], 1)
    yield "names of 70,000 fields", sealed([(entry_id(MS + n), [b"f"] * 140_000) for n in range(2)], 2)
    yield "in columns", in_columns()
    yield "rewritten", rewritten()
    yield "copies", [segment.copy() for segment in rewritten()]


def in_columns() -> list[Segment]:
    log = Log(10)
    values = [b"%d" % n for n in range(40)]
    log.append_columns([entry_id(MS + n) for n in range(20)], EntryColumns((b"a", b"b"), values, None))
    log.append_columns([entry_id(MS + n) for n in range(20, 40)], EntryColumns((b"a", b"c"), values, None))
    assert log._sealed is not None
    return list(log._sealed.segments)


def rewritten() -> list[Segment]:
    """Return segments without their deleted entries: `used` and the last ID are those of before."""
    found = []
    for segment in sealed([(entry_id(MS + n), [b"f", b"%d" % n]) for n in range(30)]):
        segment.delete(3, 10)
        found.append(segment.rewritten())
    assert all(one.used > one.count and one.last_id > one.ids(one.count - 1, one.count)[0] for one in found)
    return found
