"""Looking for the entries of a log that a filter lets through, one slice at a time."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from streamd.stream.entry_encoder import encode_entry
from streamd.stream.field_index import ALL_MATCH, NONE_MATCHES, SOME_MAY_MATCH, FieldIndex, Wanted
from streamd.stream.log import Log
from streamd.stream.patterns import EntryFilter, value_of
from streamd.stream.segment import Segment
from streamd.stream.tail import Tail

# To pass over a segment takes a twentieth of the time that looking through it does.
_PASSES_PER_LOOK: Final = 16
# To work out all IDs of a segment takes as long as so many one by one.
_FEW: Final = 8


class Found(NamedTuple):
    """What a search came to.

    ids, parts: the entries that were let through, their IDs and their RESP in parts. passed_id: the last entry that was
    looked at or passed over, None if there was none. is_done: whether it came to the end of the range.
    """

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
) -> Found:
    """Return the first `count` entries, 1 or more, from `start` to `end` that a filter lets through.

    It looks at one segment at least, and at others until `stop` says so. `index`: of the filter's field; notes are made
    of what is looked through; None: all is looked through.
    """
    ids: list[int] = []
    parts: list[bytes] = []
    node: Segment | Tail | None = None
    last_high = passed_over = 0
    verdict = SOME_MAY_MATCH
    known = None if index is None else index.wanted(wanted.pattern)
    for source, low, high in log.runs(start, end):
        if source is not node:
            passed_over = passed_over + 1 if verdict == NONE_MATCHES else _PASSES_PER_LOOK
            if node is not None and passed_over >= _PASSES_PER_LOOK:
                passed_over = 0
                if stop():
                    return Found(ids, parts, _id_before(node, last_high), False)
            verdict = SOME_MAY_MATCH
            if index is not None and known is not None and type(source) is Segment:
                verdict = index.judge(source, known)
        node, last_high = source, high
        if verdict == NONE_MATCHES:
            continue
        left = count - len(ids)
        if verdict == ALL_MATCH:
            last_high = min(high, low + left)
            ids += source.ids(low, last_high)
            parts.append(source.read(low, last_high))
        else:
            places, rows = _look_through(source, low, high, wanted, index, known)
            if places:
                if len(places) >= left:
                    last_high = low + places[left - 1] + 1
                    del places[left:]
                if len(places) <= _FEW:
                    found = [source.ids(low + place, low + place + 1)[0] for place in places]
                else:
                    run = source.ids(low, high)
                    found = [run[place] for place in places]
                ids += found
                parts += [encode_entry(one, rows(place)) for one, place in zip(found, places, strict=True)]
        if len(ids) == count:
            return Found(ids, parts, _id_before(source, last_high), False)
    return Found(ids, parts, None if node is None else _id_before(node, last_high), True)


def _look_through(
    source: Segment | Tail, low: int, high: int, wanted: EntryFilter, index: FieldIndex | None, known: Wanted | None
) -> tuple[list[int], Callable[[int], Sequence[bytes]]]:
    """Return which entries of a run match, by their places in it, and what tells the fields and values of a place."""
    column, rows = _column(source, low, high, wanted.field)
    if index is None or known is None or type(source) is not Segment:
        matches = wanted.pattern.matches
        return [place for place, value in enumerate(column) if value is not None and matches(value)], rows
    if source.noted_by is not index:
        is_whole = high - low == source.count
        index.note(source, column if is_whole else _column(source, 0, source.count, wanted.field)[0])
        if index.judge(source, known) == NONE_MATCHES:
            return [], rows
    return index.places(source, known, column), rows


def _column(
    source: Segment | Tail, low: int, high: int, field: bytes
) -> tuple[Sequence[bytes | None], Callable[[int], Sequence[bytes]]]:
    """Return the value that a field has in each entry of a run, None where it is not; and what tells all of one."""
    if type(source) is Segment and type(source.fields) is tuple:
        names = source.fields
        width = len(names)
        values = source.stored_texts(low, high, width)[0]

        def row(place: int) -> Sequence[bytes]:
            return [*chain.from_iterable(zip(names, values[place * width : (place + 1) * width], strict=True))]

        if field not in names:
            return [None] * (high - low), row
        return values[width - 1 - names[::-1].index(field) :: width], row
    rows = source.entries(low, high)
    return [value_of(fields, field) for fields in rows], rows.__getitem__


def _id_before(source: Segment | Tail, position: int) -> int:
    return source.ids(position - 1, position)[0]
