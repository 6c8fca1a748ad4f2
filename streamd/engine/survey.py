"""The survey: sums over all streams, and the largest of them by name, made in slices."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappush, heapreplace
from typing import Final

from streamd.data.keyspace import Keyspace
from streamd.data.listing import KEYS_PER_SLICE, list_keys, taken_out
from streamd.data.types import STREAM
from streamd.stream.stream import Stream

# Keys and groups that are looked at between two turns of clients: some hundred microseconds of work.
WORK_PER_SLICE: Final = 100
LARGEST: Final = 100
# Of a stream with more groups, those with the most pending entries.
GROUPS_MAX: Final = 10


@dataclass(slots=True)
class Totals:
    """Sums over streams."""

    streams: int = 0
    entries: int = 0
    bytes: int = 0
    entries_added: int = 0
    groups: int = 0
    pending: int = 0
    producers: int = 0
    iids: int = 0
    duplicates: int = 0

    def subtract(self, other: "Totals") -> None:
        """Take another's sums out of these."""
        for name in self.__slots__:
            setattr(self, name, max(0, getattr(self, name) - getattr(other, name)))


@dataclass(slots=True)
class GroupFacts:
    """A consumer group; lag: None where it cannot be known."""

    name: bytes
    consumers: int
    pending: int
    lag: int | None
    entries_read: int | None


@dataclass(slots=True)
class StreamFacts:
    """A stream by name; `totals` are of it alone."""

    db: int
    key: bytes
    totals: Totals
    groups: list[GroupFacts]


@dataclass(slots=True)
class Survey:
    """The result. largest: by bytes, the largest first; totals: of all streams; rest: of those not in largest."""

    largest: list[StreamFacts] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    rest: Totals = field(default_factory=Totals)


def survey(keyspace: Keyspace, found: Survey, largest: int = LARGEST) -> Iterator[int]:
    """Fill `found`, a slice of work each time this is asked; yields how much was looked at in that slice.

    Between two slices streams come, go and change: the sums are of the moments at which each was looked at.
    """
    heap: list[tuple[int, int, bytes]] = []
    work = 0
    for db in keyspace:
        listed: list[list[bytes]] = []
        for keys in list_keys(db, listed):
            work += keys * WORK_PER_SLICE // KEYS_PER_SLICE
            if work >= WORK_PER_SLICE:
                yield work
                work = 0
        for key in taken_out(listed):
            value = db.values.get(key)
            work += 1
            if type(value) is Stream:
                for _ in _add(found.totals, value):
                    work += 1
                    if work >= WORK_PER_SLICE:
                        yield work
                        work = 0
                row = (STREAM.memory_bytes(value, 0), db.index, key)
                if len(heap) < largest:
                    heappush(heap, row)
                elif row > heap[0]:
                    heapreplace(heap, row)
            if work >= WORK_PER_SLICE:
                yield work
                work = 0
    found.rest = Totals(**{name: getattr(found.totals, name) for name in Totals.__slots__})
    for _, index, key in sorted(heap, reverse=True):
        value = keyspace[index].values.get(key)
        if type(value) is not Stream:
            continue
        facts = StreamFacts(index, key, Totals(), [])
        work += 1
        for _ in _add(facts.totals, value, facts):
            work += 1
            if work >= WORK_PER_SLICE:
                yield work
                work = 0
        found.rest.subtract(facts.totals)
        found.largest.append(facts)
        if work >= WORK_PER_SLICE:
            yield work
            work = 0
    yield work


def _add(totals: Totals, stream: Stream, facts: StreamFacts | None = None) -> Iterator[None]:
    """Add a stream to sums, with its groups to `facts`; yields once for each group."""
    idmp = stream.idmp
    totals.streams += 1
    totals.entries += len(stream)
    totals.bytes += STREAM.memory_bytes(stream, 0)
    totals.entries_added += stream.entries_added
    totals.producers += idmp.pids_tracked
    totals.iids += idmp.iids_tracked
    totals.duplicates += idmp.iids_duplicates
    groups: list[tuple[int, bytes, GroupFacts]] = []
    for name, group in list((stream.groups or {}).items()):
        pending = len(group.pending)
        totals.groups += 1
        totals.pending += pending
        if facts is not None:
            row = (
                pending,
                name,
                GroupFacts(name, len(group.consumers), pending, stream.lag(group), group.entries_read),
            )
            if len(groups) < GROUPS_MAX:
                heappush(groups, row)
            elif row[:2] > groups[0][:2]:
                heapreplace(groups, row)
        yield
    if facts is not None:
        facts.groups = [row[2] for row in sorted(groups, key=lambda row: row[:2], reverse=True)]
