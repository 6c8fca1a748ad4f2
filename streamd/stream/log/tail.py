"""The entries of a log that are not sealed yet."""

from collections.abc import Sequence

from streamd.stream.log.segment_cache import CACHE
from streamd.stream.wire.entry_columns import Columns
from streamd.stream.wire.entry_encoder import (
    WOVEN_MIN,
    encode_entry,
    join,
    split_fields,
    split_ids,
    weave_mixed_fields,
    weave_same_fields,
)


class Tail:
    """The last node of a log, while it takes entries: it is read as a segment is. Log is derived from it.

    Shape: _ids, _texts: the tail's IDs, and all its fields and values one behind the other: no object per entry,
    nothing for the garbage collector to visit. _width: how many texts each of its entries has; if they differ,
    _widths has them all, and _width is 0.
    _columns: the entries if all of them came in columns and have the same fields; then _texts has their values alone,
    and _width is 0, so that an entry that is appended alone looks twice.
    _room: how many entries may be in _ids before the tail is full. _gone: how many entries were deleted from the tail;
    _gone_id: the last of them. There is no tail when _ids is empty and _gone is 0.
    """

    __slots__ = ("_columns", "_gone", "_gone_id", "_ids", "_room", "_texts", "_width", "_widths")

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._texts: list[bytes] = []
        self._width = 0
        self._widths: list[int] | None = None
        self._columns: Columns | None = None
        self._room = self._gone = self._gone_id = 0

    def ids(self, low: int, high: int) -> Sequence[int]:
        return self._ids[low:high]

    def entries(self, low: int, high: int) -> list[list[bytes]]:
        texts, width = self._texts, self._width
        if self._columns is not None:
            texts, width = self._columns.texts(low, high), 2 * len(self._columns.names)
            return [texts[start : start + width] for start in range(0, len(texts), width)]
        if self._widths is None:
            return [texts[start : start + width] for start in range(low * width, high * width, width)]
        entries = []
        start = sum(self._widths[:low])
        for width in self._widths[low:high]:
            entries.append(texts[start : start + width])
            start += width
        return entries

    def read(self, low: int, high: int, reverse: bool = False) -> bytes:
        encoded = CACHE.tail(self._ids, low, high, reverse)
        if encoded is None:
            encoded = self.encode(low, high, reverse)
            CACHE.keep_tail(self._ids, low, high, reverse, encoded)
        return encoded

    def encode(self, low: int, high: int, reverse: bool) -> bytes:
        if high - low < WOVEN_MIN:
            encoded = [encode_entry(*entry) for entry in zip(self.ids(low, high), self.entries(low, high), strict=True)]
            return b"".join(encoded[::-1] if reverse else encoded)
        ids = split_ids(self._ids[low:high])
        width = self._width
        if self._columns is not None:
            names = self._columns.names
            values = self._texts[low * len(names) : high * len(names)]
            lengths: Sequence[int] = self._columns.lengths or [*map(len, values)]
            return join(weave_same_fields(ids, names, values, lengths, reverse)[0])
        if self._widths is None:
            texts = self._texts[low * width : high * width]
            widths = [width] * (high - low)
            fields, some, all_lengths = split_fields(texts, width, high - low)
            lengths = all_lengths
            if fields is not None:
                one = all_lengths[: len(fields)]
                if all_lengths == one * (high - low):
                    lengths = tuple(one)
                return join(weave_same_fields(ids, fields, some, lengths, reverse)[0])
        else:
            before = sum(self._widths[:low])
            widths = self._widths[low:high]
            texts = self._texts[before : before + sum(widths)]
            lengths = list(map(len, texts))
        return join(weave_mixed_fields(ids, widths, texts, lengths, reverse)[0])

    def _extend(self, ids: Sequence[int], columns: Columns) -> None:
        """Add entries for which there is room."""
        mine = self._columns
        if not self._ids:
            self._texts = [*columns.values]
            self._columns, self._width, self._widths = Columns(columns.names, self._texts, columns.lengths), 0, None
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
        """Note how many texts the next entries of the tail have, because it is not what `_width` says."""
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
        width, widths = self._width, self._widths
        if widths is None:
            if self._columns is not None:
                width = len(self._columns.names)
            del self._texts[low * width : high * width]
        else:
            before = sum(widths[:low])
            del self._texts[before : before + sum(widths[low:high])]
            del widths[low:high]
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
        """Make this tail, an empty one, the same as another one."""
        self._ids, self._texts = list(other._ids), list(other._texts)
        self._width, self._room = other._width, other._room
        if other._columns is not None:
            self._columns = Columns(other._columns.names, self._texts, other._columns.lengths)
        self._widths = None if other._widths is None else list(other._widths)
        self._gone, self._gone_id = other._gone, other._gone_id
