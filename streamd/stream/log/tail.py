"""The entries of a log that are not sealed yet."""

from collections.abc import Sequence

from streamd.stream.log.sealing import split_entries
from streamd.stream.log.segment_cache import CACHE
from streamd.stream.wire.entry_columns import EntryColumns
from streamd.stream.wire.entry_encoder import (
    WOVEN_MIN,
    encode_entry,
    join,
    split_ids,
    weave_mixed_fields,
    weave_same_fields,
)


class Tail:
    """The last node of a log, which takes new entries; it has a segment's methods for reading. Log is derived from it.

    Shape: _ids: the tail's IDs; _texts: all its fields and values one behind the other. So no entry is an object that
    the garbage collector visits. _width: the number of texts of each entry; if entries differ, _widths has the number
    for each, and _width is 0.
    _columns: the entries if all of them came in columns and have the same fields; then _texts has their values alone,
    and _width is 0, so that `append` of a single entry calls `_differ`.
    _room: how many entries may be in _ids before the tail is full. _gone: how many entries were deleted from the tail;
    _gone_id: the last of them. There is no tail when _ids is empty and _gone is 0.
    """

    __slots__ = ("_columns", "_gone", "_gone_id", "_ids", "_room", "_texts", "_width", "_widths")

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._texts: list[bytes] = []
        self._width = 0
        self._widths: list[int] | None = None
        self._columns: EntryColumns | None = None
        self._room = self._gone = self._gone_id = 0

    def id_at(self, position: int) -> int:
        return self._ids[position]

    def ids(self, low: int, high: int) -> Sequence[int]:
        return self._ids[low:high]

    def entries(self, low: int, high: int) -> list[list[bytes]]:
        texts, width = self._texts, self._width
        if self._columns is not None:
            texts, width = self._columns.texts(low, high), 2 * len(self._columns.names)
            return [texts[start : start + width] for start in range(0, len(texts), width)]
        start, behind = self._span(low, high)
        if self._widths is None:
            return [texts[at : at + width] for at in range(start, behind, width)]
        entries = []
        for width in self._widths[low:high]:
            entries.append(texts[start : start + width])
            start += width
        return entries

    def _span(self, low: int, high: int) -> tuple[int, int]:
        """Return the indexes in `_texts` at which the texts of entries begin and end."""
        width, widths = self._width, self._widths
        if self._columns is not None:
            width = len(self._columns.names)
        elif widths is not None:
            before = sum(widths[:low])
            return before, before + sum(widths[low:high])
        return low * width, high * width

    def read(self, low: int, high: int, reverse: bool = False) -> bytes:
        encoded = CACHE.tail(self._ids, low, high, reverse)
        if encoded is None:
            encoded = self.encode(low, high, reverse)
            CACHE.keep_tail(self._ids, low, high, reverse, encoded)
        return encoded

    def encode(self, low: int, high: int, reverse: bool) -> bytes:
        if high - low < WOVEN_MIN:
            if self._width:
                own_ids, texts, width = self._ids, self._texts, self._width
                encoded = [encode_entry(own_ids[at], texts[at * width : (at + 1) * width]) for at in range(low, high)]
                return b"".join(encoded[::-1] if reverse else encoded)
            encoded = [encode_entry(*entry) for entry in zip(self.ids(low, high), self.entries(low, high), strict=True)]
            return b"".join(encoded[::-1] if reverse else encoded)
        some: list[bytes] | EntryColumns
        if self._columns is not None:
            some = self._columns.part(low, high)
        else:
            start, behind = self._span(low, high)
            some = self._texts[start:behind]
        widths = None if self._widths is None else self._widths[low:high]
        fields, values, lengths = split_entries(some, high - low, self._width, widths)
        ids = split_ids(self._ids[low:high])
        if fields is not None:
            return join(weave_same_fields(ids, fields, values, lengths, reverse)[0])
        return join(weave_mixed_fields(ids, widths or [self._width] * (high - low), values, lengths, reverse)[0])

    def _extend(self, ids: Sequence[int], columns: EntryColumns) -> None:
        """Add entries; the caller has made sure of the room."""
        mine = self._columns
        if not self._ids:
            self._texts = [*columns.values]
            self._columns = EntryColumns(columns.names, self._texts, columns.lengths)
            self._width, self._widths = 0, None
        elif mine is not None and mine.names == columns.names:
            self._texts += columns.values
            if mine.lengths != columns.lengths:
                mine.lengths = None
        else:
            width = 2 * len(columns.names)
            if width != self._width:
                self._differ(width, len(ids))
            self._texts += columns.texts(0, len(ids))
        self._ids += ids

    def _differ(self, width: int, entries: int) -> None:
        """Note that the next entries of the tail have `width` texts each, a number other than `_width`."""
        if not self._ids:
            self._width, self._widths, self._columns = width, None, None
            return
        if self._columns is not None:
            self._width = 2 * len(self._columns.names)
            self._texts = self._columns.texts(0, len(self._ids))
            self._columns = None
            if width == self._width:
                return
        if self._widths is None:
            self._widths = [self._width] * len(self._ids)
            self._width = 0
        self._widths += [width] * entries

    def _cut_tail(self, low: int, high: int) -> None:
        """Delete the entries at positions from `low` to before `high`."""
        start, behind = self._span(low, high)
        del self._texts[start:behind]
        if self._widths is not None:
            del self._widths[low:high]
        self._gone += high - low
        self._gone_id = max(self._gone_id, self._ids[high - 1])
        self._room -= high - low
        del self._ids[low:high]
        CACHE.forget_tail(self._ids)

    def _drop_tail(self) -> None:
        CACHE.forget_tail(self._ids)
        self._ids.clear()
        self._texts = []
        self._width = self._gone = self._gone_id = self._room = 0
        self._widths = self._columns = None

    def _copy_tail(self, other: "Tail") -> None:
        """Fill this empty tail with the entries and counters of another."""
        self._ids, self._texts = list(other._ids), list(other._texts)
        self._width, self._room = other._width, other._room
        if other._columns is not None:
            self._columns = EntryColumns(other._columns.names, self._texts, other._columns.lengths)
        self._widths = None if other._widths is None else list(other._widths)
        self._gone, self._gone_id = other._gone, other._gone_id
