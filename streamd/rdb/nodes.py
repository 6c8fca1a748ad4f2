"""The nodes of a stream in RDB form: runs of entries, each a listpack behind the ID that its IDs are counted from."""

from collections.abc import Iterator, Sequence
from typing import Final

from streamd.rdb.bytes import BadData
from streamd.rdb.packs import Element, integer_element, listpack, listpack_of, string_element, texts_of
from streamd.stream.entry_id import ID_MAX, SEQ_MAX
from streamd.stream.log.absent import Absent
from streamd.stream.log.entry_log import Log
from streamd.stream.log.sealing import JOINED_BYTES_MAX
from streamd.stream.log.segment import Segment
from streamd.stream.log.tail import Tail
from streamd.stream.stream import Stream
from streamd.stream.wire.entry_columns import EntryColumns

# The flags of an entry in a node.
_DELETED: Final = 1
_SAME_FIELDS: Final = 2
_SAME_FIELDS_ELEMENT: Final = integer_element(_SAME_FIELDS)
_OTHER_FIELDS_ELEMENT: Final = integer_element(0)
_ZERO: Final = integer_element(0)

_2_63: Final = 1 << 63


def read_node(stream: Stream, first: bytes, packed: bytes) -> None:
    """Add the entries of a node to a stream, deleted ones aside. first: its key. Raises: BadData."""
    if len(first) != 16:
        raise BadData("a node has no ID")
    try:
        read = _entries_of(int.from_bytes(first, "big"), listpack(packed))
    except IndexError:
        raise BadData("a node of a stream ends too early")
    for ids, columns in read:
        if ids[0] <= stream.last_id:
            raise BadData("the nodes of a stream are not in order")
        stream.append_columns(ids, columns)


def _number(element: Element) -> int:
    if not isinstance(element, int):
        raise BadData("a string stands where a node of a stream has a number")
    return element


def _entries_of(base: int, elements: list[Element]) -> list[tuple[list[int], EntryColumns]]:
    """Return the undeleted entries of a node by columns, those with its fields that follow each other at once.

    Raises: BadData; IndexError where the elements end too early.
    """
    live, deleted, width = _number(elements[0]), _number(elements[1]), _number(elements[2])
    if live < 0 or deleted < 0 or not 0 < width < len(elements):
        raise BadData("a node of a stream counts what cannot be")
    names = tuple(texts_of(elements[3 : 3 + width]))
    at = 4 + width
    if elements[at - 1] != 0:
        raise BadData("the field names of a node have no end")
    read: list[tuple[list[int], EntryColumns]] = []
    ids: list[int] = []
    values: list[Element] = []
    last_id = 0
    left = [live, deleted]
    while at < len(elements):
        flags = _number(elements[at])
        entry_id = _behind(base, _number(elements[at + 1]), _number(elements[at + 2]))
        if not 0 <= flags <= _DELETED + _SAME_FIELDS or entry_id <= last_id:
            raise BadData("the entries of a node are not in order")
        last_id = entry_id
        start = at + 3
        if flags & _SAME_FIELDS:
            end = start + width
        else:
            count = _number(elements[start])
            if count <= 0:
                raise BadData("an entry has no field")
            start += 1
            end = start + 2 * count
        if elements[end] != end - at:
            raise BadData("an entry of a node has another size than it says")
        at = end + 1
        left[flags & _DELETED] -= 1
        if flags & _DELETED:
            continue
        if flags & _SAME_FIELDS:
            ids.append(entry_id)
            values += elements[start:end]
            continue
        if ids:
            read.append((ids, EntryColumns(names, texts_of(values), None)))
            ids, values = [], []
        texts = texts_of(elements[start:end])
        read.append(([entry_id], EntryColumns(tuple(texts[::2]), texts[1::2], None)))
    if left != [0, 0]:
        raise BadData("a node has another number of entries than it says")
    if ids:
        read.append((ids, EntryColumns(names, texts_of(values), None)))
    return read


def _behind(base: int, ms: int, seq: int) -> int:
    """Return the ID so much behind another one; the parts go round, as 64-bit integers do."""
    return ((base >> 64) + ms & SEQ_MAX) << 64 | (base + seq & SEQ_MAX)


class NodeEntries:
    """The undeleted entries of one node of a log, which become one node, or one each if they are large.

    spans: their positions, (from, to).
    """

    __slots__ = ("is_large", "source", "spans")

    def __init__(self, source: Segment | Tail, low: int, high: int) -> None:
        self.source: Segment | Tail = source
        self.spans = [(low, high)]
        if isinstance(source, Segment):
            self.is_large = isinstance(source.texts, tuple)
        else:
            size = sum([len(text) for fields in source.entries(low, high) for text in fields])
            self.is_large = size > JOINED_BYTES_MAX

    @property
    def last_id(self) -> int:
        """The ID of the last entry."""
        high = self.spans[-1][1]
        return self.source.ids(high - 1, high)[0]


def runs_of(log: Log, start: int) -> Iterator[NodeEntries]:
    """Yield the entries of a log from ID `start` on as runs, without decoding those that are sealed. Raises: Absent,
    behind all that are in memory.
    """
    run: NodeEntries | None = None
    absent: Absent | None = None
    try:
        for source, low, high in log.runs(start, ID_MAX):
            if run is not None and run.source is source:
                run.spans.append((low, high))
                continue
            if run is not None:
                yield run
            run = NodeEntries(source, low, high)
    except Absent as error:
        absent = error
    if run is not None:
        yield run
    if absent is not None:
        try:
            raise absent
        finally:
            absent = None  # which holds this frame


def nodes_of(run: NodeEntries) -> Iterator[tuple[int, bytes]]:
    """Yield (first ID, listpack) of the nodes that a run becomes."""
    ids: list[int] = []
    entries: list[list[bytes]] = []
    for low, high in run.spans:
        ids += run.source.ids(low, high)
        entries += run.source.entries(low, high)
    step = 1 if run.is_large else len(ids)
    for at in range(0, len(ids), step):
        yield ids[at], _node(ids[at : at + step], entries[at : at + step])


def _node(ids: Sequence[int], entries: Sequence[list[bytes]]) -> bytes:
    base_ms, base_seq = ids[0] >> 64, ids[0] & SEQ_MAX
    names = entries[0][::2]
    width = len(names)
    size_element = integer_element(width + 3)
    parts = [integer_element(len(ids)), _ZERO, integer_element(width), *map(string_element, names), _ZERO]
    for entry_id, fields in zip(ids, entries, strict=True):
        is_same = len(fields) == 2 * width and fields[::2] == names
        parts.append(_SAME_FIELDS_ELEMENT if is_same else _OTHER_FIELDS_ELEMENT)
        parts.append(integer_element(_signed((entry_id >> 64) - base_ms)))
        parts.append(integer_element(_signed((entry_id & SEQ_MAX) - base_seq)))
        if is_same:
            parts += map(string_element, fields[1::2])
            parts.append(size_element)
        else:
            parts.append(integer_element(len(fields) // 2))
            parts += map(string_element, fields)
            parts.append(integer_element(len(fields) + 4))
    return listpack_of(parts)


def _signed(number: int) -> int:
    """Return a difference of two unsigned 64-bit integers as the signed one that it goes round to."""
    return number if -_2_63 <= number < _2_63 else (number + _2_63 & SEQ_MAX) - _2_63
