"""Entries by columns: the field names that all of them have, and their values."""

from collections.abc import Sequence
from itertools import compress

from streamd.resp.template import Column


class EntryColumns:
    """Entries that have the same field names, without their IDs.

    names: the fields' names. values: the first entry's, then the second's, and so on. lengths: the lengths of one
    entry's values if all entries have the same; None if they differ or are unknown.
    """

    __slots__ = ("lengths", "names", "values")

    def __init__(
        self, names: tuple[bytes, ...], values: list[bytes] | tuple[bytes, ...], lengths: tuple[int, ...] | None
    ) -> None:
        self.names = names
        self.values = values
        self.lengths = lengths

    def texts(self, low: int, high: int) -> list[bytes]:
        """Return the fields and values of the entries from `low` to before `high`, one entry's behind the other's."""
        width = len(self.names)
        values = self.values[low * width : high * width]
        flat = [b""] * (2 * len(values))
        flat[::2] = self.names * (high - low)
        flat[1::2] = values
        return flat

    def places(self) -> list[Column]:
        """Return a name, its values, the next name, its values, and so on."""
        width = len(self.names)
        places: list[Column] = []
        for place, name in enumerate(self.names):
            places += (name, self.values[place::width])
        return places

    def part(self, low: int, high: int) -> "EntryColumns":
        """Return the entries from `low` to before `high`."""
        width = len(self.names)
        return EntryColumns(self.names, self.values[low * width : high * width], self.lengths)

    def selected(self, flags: Sequence[bool]) -> "EntryColumns":
        """Return the entries whose flag is set."""
        width = len(self.names)
        of_values = flags if width == 1 else [flag for flag in flags for _ in range(width)]
        return EntryColumns(self.names, [*compress(self.values, of_values)], self.lengths)


def columns_of(places: Sequence[Column], count: int, lengths: tuple[int, ...] | None = None) -> EntryColumns | None:
    """Return `count` entries, given by the words at each place: one word that all share, or one for each entry; None if
    the field names differ.

    lengths: the lengths of one entry's values if all entries are known to have the same.
    """
    names: list[bytes] = []
    for place in places[::2]:
        name = place if isinstance(place, bytes) else place[0]
        if not isinstance(place, bytes) and place.count(name) != count:
            return None
        names.append(name)
    width = len(names)
    if width == 1 and isinstance(values := places[1], tuple):
        return EntryColumns(tuple(names), values, lengths)
    texts = [b""] * (count * width)
    for at, place in enumerate(places[1::2]):
        texts[at::width] = (place,) * count if isinstance(place, bytes) else place
    return EntryColumns(tuple(names), texts, lengths)


def each(column: Column, count: int) -> Sequence[bytes]:
    """Return the words of a column, one for each of `count` entries."""
    return [column] * count if isinstance(column, bytes) else column
