"""The value that one field has in each entry of a run."""

from collections.abc import Sequence
from typing import Final

from streamd.stream.log.segment import Segment
from streamd.stream.log.tail import Tail
from streamd.stream.search.patterns import value_of

# To cut so many entries out of a segment one by one takes as long as all of it.
_FEW: Final = 3


def column(source: Segment | Tail, low: int, high: int, field: bytes) -> Sequence[bytes | None]:
    """Return the last value of a field in each entry at positions from `low` to before `high`, None if it has none."""
    if type(source) is Segment and type(source.fields) is tuple:
        names = source.fields
        if field not in names:
            return [None] * (high - low)
        width = len(names)
        return source.stored_texts(low, high, width)[0][width - 1 - names[::-1].index(field) :: width]
    return [value_of(fields, field) for fields in source.entries(low, high)]


def values_at(segment: Segment, places: list[int], field: bytes) -> list[bytes | None]:
    """Return the last value of a field in each entry at some positions (ascending, one at least), or None."""
    if len(places) <= _FEW:
        return [column(segment, at, at + 1, field)[0] for at in places]
    low = places[0]
    values = column(segment, low, places[-1] + 1, field)
    return [values[at - low] for at in places]
