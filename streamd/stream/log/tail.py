"""The entries of a log that are not sealed yet, as they are read."""

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
    """The unsealed entries, to be read as a segment is (made for one reading; the lists are the log's own)."""

    __slots__ = ("columns", "entry_ids", "texts", "width", "widths")

    def __init__(
        self, ids: list[int], texts: list[bytes], width: int, widths: list[int] | None, columns: Columns | None
    ) -> None:
        self.entry_ids = ids
        self.texts = texts
        self.width = width
        self.widths = widths
        self.columns = columns

    def ids(self, low: int, high: int) -> Sequence[int]:
        return self.entry_ids[low:high]

    def entries(self, low: int, high: int) -> list[list[bytes]]:
        texts, width = self.texts, self.width
        if self.columns is not None:
            texts, width = self.columns.texts(low, high), 2 * len(self.columns.names)
            return [texts[start : start + width] for start in range(0, len(texts), width)]
        if self.widths is None:
            return [texts[start : start + width] for start in range(low * width, high * width, width)]
        entries = []
        start = sum(self.widths[:low])
        for width in self.widths[low:high]:
            entries.append(texts[start : start + width])
            start += width
        return entries

    def read(self, low: int, high: int, reverse: bool = False) -> bytes:
        encoded = CACHE.tail(self.entry_ids, low, high, reverse)
        if encoded is None:
            encoded = self.encode(low, high, reverse)
            CACHE.keep_tail(self.entry_ids, low, high, reverse, encoded)
        return encoded

    def encode(self, low: int, high: int, reverse: bool) -> bytes:
        if high - low < WOVEN_MIN:
            encoded = [encode_entry(*entry) for entry in zip(self.ids(low, high), self.entries(low, high), strict=True)]
            return b"".join(encoded[::-1] if reverse else encoded)
        ids = split_ids(self.entry_ids[low:high])
        width = self.width
        if self.columns is not None:
            names = self.columns.names
            values = self.texts[low * len(names) : high * len(names)]
            lengths: Sequence[int] = self.columns.lengths or [*map(len, values)]
            return join(weave_same_fields(ids, names, values, lengths, reverse)[0])
        if self.widths is None:
            texts = self.texts[low * width : high * width]
            widths = [width] * (high - low)
            fields, some, all_lengths = split_fields(texts, width, high - low)
            lengths = all_lengths
            if fields is not None:
                one = all_lengths[: len(fields)]
                if all_lengths == one * (high - low):
                    lengths = tuple(one)
                return join(weave_same_fields(ids, fields, some, lengths, reverse)[0])
        else:
            before = sum(self.widths[:low])
            widths = self.widths[low:high]
            texts = self.texts[before : before + sum(widths)]
            lengths = list(map(len, texts))
        return join(weave_mixed_fields(ids, widths, texts, lengths, reverse)[0])
