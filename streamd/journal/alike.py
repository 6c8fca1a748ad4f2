"""Cutting records that differ in a few words out of verified RESP, by columns."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from streamd.resp.template import pieces_around

# Of a longer record most is its values, which are copied whichever way.
_RECORD_BYTES_MAX: Final = 1_024
# A run has at most a hundred records, its counts are few, and a journal has few shapes.
_FORMS_MAX: Final = 256
_SHAPES_MAX: Final = 64


class LikeRecords:
    """Records whose words are equally long, and that share the others of them.

    size_bytes: of each. Sound: what is no word of a record's own has to be there, byte by byte, lengths included; so
    where words begin and end is what any parser finds.
    """

    __slots__ = ("_lengths", "_own", "_pieces", "_words", "size_bytes")

    def __init__(self, words: tuple[bytes, ...], own: tuple[int, ...]) -> None:
        """own: the places of the words that differ; `words` has others of their length there."""
        self._words = words
        self._own = own
        self._lengths = [len(words[place]) for place in own]
        pieces = self._pieces = pieces_around(words, own)
        self.size_bytes = sum(map(len, pieces)) + sum(self._lengths)

    def cut(self, data: bytes) -> list[bytes | Sequence[bytes]] | None:
        """Return the columns of some records: a word for a place that they share, else a word for each record; None if
        the bytes are not such records and nothing else.
        """
        count, rest = divmod(len(data), self.size_bytes)
        if rest:
            return None
        cut_all, others = self._form(count)
        parts = cut_all(data)
        # (Joined they are compared at once; equally long, they cannot be other ones.)
        if b"".join(parts[::2]) != others:
            return None
        columns: list[bytes | Sequence[bytes]] = [*self._words]
        step = 2 * len(self._own)
        for number, place in enumerate(self._own):
            columns[place] = parts[2 * number + 1 :: step]
        return columns

    @lru_cache(maxsize=_FORMS_MAX)  # noqa: B019 (these are few, and stay)
    def _form(self, count: int) -> tuple[Callable[[bytes], tuple[bytes, ...]], bytes]:
        """Return what cuts `count` records into pieces and own words in turn, and the pieces joined."""
        pieces = self._pieces
        between = [*pieces[1:-1], pieces[-1] + pieces[0]]
        others = [pieces[0], *(between * count)[:-1], pieces[-1]]
        form = [f"{len(piece)}s{length}s" for piece, length in zip(others, self._lengths * count, strict=False)]
        return Struct(f"{''.join(form)}{len(pieces[-1])}s").unpack, b"".join(others)


_alike = lru_cache(maxsize=_SHAPES_MAX)(LikeRecords)


def alike_of(records: Sequence[Sequence[bytes]], size_bytes: int) -> LikeRecords | None:
    """Return what cuts records like these out of as many bytes, going by the first and the last of them; None if they
    are not equally long, or do not differ, or are long.
    """
    first, last = records[0], records[-1]
    count = len(records)
    if size_bytes > _RECORD_BYTES_MAX * count or size_bytes % count or [*map(len, first)] != [*map(len, last)]:
        return None
    own = tuple([place for place, word in enumerate(first) if word != last[place]])
    if not own:
        return None
    # What differs is not kept.
    found = _alike(tuple([bytes(len(word)) if place in own else word for place, word in enumerate(first)]), own)
    return found if found.size_bytes * count == size_bytes else None
