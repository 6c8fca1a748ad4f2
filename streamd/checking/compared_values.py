"""Tells in which parts two values of a key differ, as two servers give them by DUMP."""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Final

from streamd.data.element_list import ElementList
from streamd.data.hash import Hash
from streamd.data.member_set import MemberSet
from streamd.data.sorted_set import SortedSet
from streamd.data.timed_hash import TimedHash, times_of
from streamd.data.types import KeyValue
from streamd.idmp.settings import DURATION_S_DEFAULT, MAXSIZE_DEFAULT
from streamd.rdb.payload import value_in
from streamd.stream.entry_id import format_id
from streamd.stream.groups.group import Group
from streamd.stream.stream import Stream

_NODE_MAX_ENTRIES: Final = 100

# Yields the names of the parts that differ.
_Differences = Iterator[str]


def differences(first: bytes, second: bytes, now_ms: int) -> list[str]:
    """Return the parts in which two payloads of DUMP differ; none if they are two forms of one value.

    A name, or a field of a hash, whose time has passed by `now_ms` is no part: a server forgets it when it likes. Nor
    is the time at which a consumer was seen, which a primary tells its replicas once a second.
    Raises: BadFooter, BadData.
    """
    if first == second:
        return []
    one, other = value_in(first, _new_stream), value_in(second, _new_stream)
    if isinstance(one, Stream) and isinstance(other, Stream):
        return list(_of_streams(one, other, now_ms))
    if isinstance(one, Hash) and isinstance(other, Hash):
        return list(_of_hashes(_at(one, now_ms), _at(other, now_ms)))
    return [] if _plain(one) == _plain(other) else ["the value"]


def _new_stream() -> Stream:
    return Stream(_NODE_MAX_ENTRIES, DURATION_S_DEFAULT, MAXSIZE_DEFAULT)


def _plain(value: KeyValue) -> object:
    if isinstance(value, SortedSet):
        return value.scores
    if isinstance(value, MemberSet):
        return set(value)
    if isinstance(value, ElementList):
        return list(value)
    return value


def _at(value: Hash, now_ms: int) -> Hash:
    return value.at(now_ms) if isinstance(value, TimedHash) else value


def _of_hashes(one: Hash, other: Hash) -> _Differences:
    if dict(one) != dict(other):
        yield "the fields"
    if times_of(one) != times_of(other):
        yield "the times of fields"


def _of_streams(one: Stream, other: Stream, now_ms: int) -> _Differences:
    if len(one) != len(other):
        yield f"the entries ({len(one)} and {len(other)})"
    else:
        for mine, theirs in zip_longest(one.log.iterate(), other.log.iterate()):
            if mine != theirs:
                yield f"the entries, from {format_id(min(mine[0], theirs[0])).decode()} on"
                break
    for name, number in _COUNTERS.items():
        if number(one) != number(other):
            yield f"{name} ({number(one)} and {number(other)})"
    if _remembered(one, now_ms) != _remembered(other, now_ms):
        yield "the names that the window remembers"
    yield from _of_groups(one.groups or {}, other.groups or {})


_COUNTERS: Final[dict[str, Callable[[Stream], object]]] = {
    "the last generated ID": lambda stream: format_id(stream.last_id).decode(),
    "the greatest deleted ID": lambda stream: format_id(stream.max_deleted_id).decode(),
    "the number of entries added": lambda stream: stream.entries_added,
    "the duration of the window": lambda stream: stream.idmp.duration_s,
    "the size of the window": lambda stream: stream.idmp.maxsize,
    "the number of names added": lambda stream: stream.idmp.iids_added,
    "the number of duplicates": lambda stream: stream.idmp.iids_duplicates,
}


def _remembered(stream: Stream, now_ms: int) -> dict[bytes, list[tuple[bytes, int]]]:
    found: dict[bytes, list[tuple[bytes, int]]] = {}
    for pid, iid, entry_id in stream.idmp.remembered(now_ms):
        found.setdefault(pid, []).append((iid, entry_id))
    return found


def _of_groups(mine: dict[bytes, Group], theirs: dict[bytes, Group]) -> _Differences:
    for name in sorted({*mine, *theirs}):
        one, other = mine.get(name), theirs.get(name)
        if one is None or other is None:
            yield f"group {name!r}, which only the {'second' if one is None else 'first'} has"
            continue
        if (one.last_id, one.entries_read) != (other.last_id, other.entries_read):
            yield f"how far group {name!r} is"
        if {*one.consumers} != {*other.consumers}:
            yield f"the consumers of group {name!r}"
        elif _active(one) != _active(other):
            yield f"when consumers of group {name!r} were active"
        if _pending(one) != _pending(other):
            yield f"the pending entries of group {name!r}"
        if [*one.pending.nacked] != [*other.pending.nacked]:
            yield f"the released entries of group {name!r}"


def _active(group: Group) -> dict[bytes, int | None]:
    return {name: consumer.active_ms for name, consumer in group.consumers.items()}


def _pending(group: Group) -> list[tuple[int, bytes | None, int, int]]:
    return [
        (entry_id, None if owner is None else owner.name, time_ms, count)
        for entry_id, owner, time_ms, count in group.pending.iterate()
    ]
