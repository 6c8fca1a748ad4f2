"""Every block of a segment file, one after the other, for checks and for exports."""

from collections.abc import Iterator

from streamd.cold.block import decode
from streamd.cold.files import SegmentFile, SegmentFiles
from streamd.cold.format import Damaged
from streamd.stream.log.segment import Segment


def blocks_of(
    store: SegmentFiles, one: SegmentFile, low: int = 0, high: int | None = None
) -> Iterator[list[Segment] | Damaged]:
    """Yield the segments of each row's block, from row `low` to before `high`, or what is wrong with it.

    Raises: Unreadable, OSError.
    """
    index = one.index
    for row in range(low, index.rows if high is None else high):
        place = index.place(row)
        try:
            segments = decode(store.read(one, place), place.offset, one.path)
        except Damaged as damage:
            yield damage
            continue
        ids = index.first_id(row), index.last_id(row)
        counts = [segment.count for segment in segments]
        if ids != (segments[0].first_id, segments[-1].last_id) or counts != [*index.node_counts(row, row + 1)]:
            yield Damaged(one.path, place.offset, "a block has other entries than the file's index says")
        else:
            yield segments
