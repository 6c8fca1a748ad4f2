"""The positions of many IDs in a node, found by columns."""

from bisect import bisect_left
from itertools import repeat
from operator import add, sub

from streamd.stream.entry_id import SEQ_MAX
from streamd.stream.id_parts import seqs_of, stamps_of
from streamd.stream.wire.packed_numbers import unpacked


def column_places(first_id: int, count: int, stamps: bytes | None, seqs: bytes | None, ids: list[int]) -> list[int]:
    """Return the position of each of some ascending IDs, of deleted entries, too; an empty list if one is not there,
    the milliseconds do not differ, or the IDs are less than a sixteenth of the entries.

    first_id, count, stamps, seqs: see Segment.
    """
    if stamps is None or 16 * len(ids) < count:
        return []
    ms, node_stamps = first_id >> 64, unpacked(stamps, count)
    wanted, wanted_seqs = stamps_of(ms - ms % 1000 << 64, ids), seqs_of(ids)
    places = [*map(bisect_left, repeat(node_stamps), wanted, repeat(0), repeat(count - 1))]
    if seqs is None:
        is_same = wanted_seqs.count(first_id & SEQ_MAX) == len(ids)
    else:
        # In a millisecond seqs mostly count up. (Of an entry that is not here any place is compared.)
        node_seqs = unpacked(seqs, count)
        more = map(sub, wanted_seqs, [node_seqs[at] for at in places])
        places = [*map(min, map(abs, map(add, places, more)), repeat(count - 1))]
        is_same = [node_seqs[at] for at in places] == wanted_seqs
    return places if is_same and [node_stamps[at] for at in places] == wanted else []
