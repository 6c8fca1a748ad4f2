"""The search for the entries of a log that a filter lets through, one slice at a time."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final, NamedTuple

from streamd.stream.log.absent import Absent
from streamd.stream.log.entry_log import Log
from streamd.stream.log.picking import ids_at, pick
from streamd.stream.log.runs import Passed
from streamd.stream.log.segment import Segment
from streamd.stream.log.tail import Tail
from streamd.stream.search.field_index import ALL_MATCH, NONE_MATCHES, SOME_MAY_MATCH, FieldIndex
from streamd.stream.search.field_values import column
from streamd.stream.search.patterns import EntryFilter

# To pass over a segment takes a quarter of the time that looking at some entries of it does, at the least.
_PASSES_PER_LOOK: Final = 4
# So many entries are asked for at once where they are not in memory: what a search looks at within its time.
_AHEAD: Final = 10_000


class Found(NamedTuple):
    """The result of a search.

    entries: the number of entries that were let through. ids: their IDs if they were asked for. parts: their RESP in
    parts. passed_id: the ID of the last entry that was looked at or passed over, or None. is_done: whether the search
    came to the end of the range.
    """

    entries: int
    ids: list[int]
    parts: list[bytes]
    passed_id: int | None
    is_done: bool


def search(
    log: Log,
    index: FieldIndex | None,
    wanted: EntryFilter,
    start: int,
    end: int,
    count: int,
    stop: Callable[[], bool],
    with_ids: bool = False,
) -> Found:
    """Return the first `count` entries, 1 or more, from `start` to `end` that a filter lets through.

    It looks at one segment at least, and at others until `stop` returns True. index: the index of the filter's field,
    which gets notes of the segments looked through; None: look at all entries. with_ids: whether to return the IDs.

    Raises: Absent, with the next nodes, where these are not in memory and there is time left to look at them.
    """
    ids: list[int] = []
    parts: list[bytes] = []
    node: Segment | Tail | Passed | None = None  # the one that is looked at: `seen`, or this log's own copy of it
    seen: Segment | Tail | Passed | None = None
    left = count
    last_high = passed_over = 0
    verdict = SOME_MAY_MATCH
    matching: list[int] | None = None
    known = None if index is None else index.wanted(wanted.pattern)
    try:
        for source, low, high in log.runs_for(start, end, wanted):
            if source is not seen:
                seen = source
                passed_over = passed_over + 1 if verdict == NONE_MATCHES else _PASSES_PER_LOOK
                if node is not None and passed_over >= _PASSES_PER_LOOK:
                    passed_over = 0
                    if stop():
                        return Found(count - left, ids, parts, _id_before(node, last_high), False)
                verdict, matching = SOME_MAY_MATCH, None
                if index is not None and known is not None and type(source) is Segment:
                    if source.noted_by is not index:
                        if source.noted_by is not None:
                            source = log.own(source)  # the note may be another stream's, which has the segment, too
                        index.note(source)
                        passed_over = _PASSES_PER_LOOK
                    verdict = index.judge(source, known)
                    if verdict == SOME_MAY_MATCH:
                        matching = index.places(source, known)
                elif type(source) is Passed:
                    verdict, passed_over = NONE_MATCHES, _PASSES_PER_LOOK
            elif node is not None:
                source = node
            node, last_high = source, high
            if verdict == NONE_MATCHES or type(source) is Passed:
                continue
            if verdict == ALL_MATCH:
                last_high = min(high, low + left)
                parts.append(source.read(low, last_high))
                left -= last_high - low
                if with_ids:
                    ids += source.ids(low, last_high)
            else:
                places = _matching(source, low, high, wanted) if matching is None else _within(matching, low, high)
                if not places:
                    continue
                if len(places) >= left:
                    del places[left:]
                    last_high = places[-1] + 1
                left -= len(places)
                parts += pick(source, places)
                if with_ids:
                    ids += ids_at(source, places)
            if not left:
                return Found(count, ids, parts, _id_before(source, last_high), False)
    except Absent:
        if node is not None:
            start = _id_before(node, last_high) + 1
            if stop():
                return Found(count - left, ids, parts, start - 1, False)
        log.require(start, end, _AHEAD, of=wanted)
        raise
    return Found(count - left, ids, parts, None if node is None else _id_before(node, last_high), True)


def _matching(source: Segment | Tail, low: int, high: int, wanted: EntryFilter) -> list[int]:
    """Return the positions of a run's matching entries without an index."""
    matches, values = wanted.pattern.matches, column(source, low, high, wanted.field)
    return [at for at, value in enumerate(values, low) if value is not None and matches(value)]


def _within(places: list[int], low: int, high: int) -> list[int]:
    return places[bisect_left(places, low) : bisect_left(places, high)]


def _id_before(source: Segment | Tail | Passed, position: int) -> int:
    if type(source) is Passed:
        return source.last_id
    return source.ids(position - 1, position)[0]
