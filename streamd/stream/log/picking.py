"""The RESP and the IDs of single entries of a node."""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from streamd.stream.log.segment import Segment
from streamd.stream.log.tail import Tail
from streamd.stream.wire.cutting import cut_alike
from streamd.stream.wire.entry_encoder import encode_entry, join, split_ids, weave_same_fields
from streamd.stream.wire.packed_numbers import view

# To cut so many entries, or IDs, out of a segment one by one takes as long as all of it.
_FEW: Final = 8


def pick(segment: Segment | Tail, places: list[int]) -> list[bytes]:
    """Return the RESP of the entries at some positions, ascending, one at least, in parts.

    It is cut out of the RESP of all entries if the segment cache has that. The cache gets it first when a quarter of
    the entries are read and a run over the same places would have it kept as well.
    """
    if isinstance(segment, Tail):
        return _each(segment, places)
    encoded = segment.encoded
    if encoded is not None and not encoded.entry_bytes and encoded.ends is None and len(places) <= _FEW:
        encoded = None  # to work out where entries end takes longer than to encode these
    data = None if encoded is None else segment.kept()
    if data is None and 4 * len(places) >= segment.count and segment.is_worth_keeping(places[0], places[-1] + 1):
        data = segment.encode(0, segment.count)
        encoded = segment.keep(data, True)
    if data is None or encoded is None:
        return _encoded(segment, places)
    size = encoded.entry_bytes
    if size:
        return [data[at * size : (at + 1) * size] for at in places]
    ends = segment.ends(encoded)
    return [data[ends[at - 1] if at else 0 : ends[at]] for at in places]


def _encoded(segment: Segment, places: list[int]) -> list[bytes]:
    names = segment.fields
    if type(names) is not tuple:
        return _each(segment, places)
    if len(places) > _FEW:
        return [_woven(segment, places, names)]
    flat = [[*chain.from_iterable(zip(names, row, strict=True))] for row in _rows(segment, places, len(names))]
    return [*map(encode_entry, ids_at(segment, places), flat)]


def _each(source: Segment | Tail, places: list[int]) -> list[bytes]:
    rows = source.entries(places[0], places[-1] + 1)
    return [encode_entry(one, rows[at - places[0]]) for one, at in zip(ids_at(source, places), places, strict=True)]


def ids_at(source: Segment | Tail, places: list[int]) -> list[int]:
    """Return the IDs of the entries at some positions, ascending, one at least."""
    if len(places) <= _FEW:
        return [source.ids(at, at + 1)[0] for at in places]
    run = source.ids(places[0], places[-1] + 1)
    return [run[at - places[0]] for at in places]


def _rows(segment: Segment, places: list[int], width: int) -> list[Sequence[bytes]]:
    """Return the values of some entries, `width` each, of a segment whose entries have the same fields."""
    if type(segment.texts) is tuple:
        return [segment.texts[at * width : (at + 1) * width] for at in places]
    lengths, joined = segment.lengths, segment.joined()
    if type(lengths) is tuple:
        return [cut_alike(joined, lengths, at, at + 1) for at in places]
    assert type(lengths) is bytes
    sizes = view(lengths, segment.count * width)
    rows: list[Sequence[bytes]] = []
    offset = done = 0
    for at in places:
        offset += sum(sizes[done : at * width])
        done = at * width
        row = []
        start = offset
        for size in sizes[done : done + width]:
            row.append(joined[start : start + size])
            start += size
        rows.append(row)
    return rows


def _woven(segment: Segment, places: list[int], names: tuple[bytes, ...]) -> bytes:
    """Return the RESP of many entries, woven from columns as it is for a whole segment."""
    width, low = len(names), places[0]
    values, lengths = segment.stored_texts(low, places[-1] + 1, width)
    chosen: list[bytes] = []
    sizes: list[int] = []
    for at in places:
        start = (at - low) * width
        chosen += values[start : start + width]
        if type(lengths) is not tuple:
            sizes += lengths[start : start + width]
    ids = split_ids(ids_at(segment, places))
    return join(weave_same_fields(ids, names, chosen, lengths if type(lengths) is tuple else sizes, False)[0])
