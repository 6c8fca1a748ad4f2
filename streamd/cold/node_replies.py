"""The RESP of the entries in the nodes of a block."""

from streamd.stream.log.runs import NodeRun
from streamd.stream.log.segment import Segment


def read_nodes(
    segments: list[Segment],
    index: int,
    start: int,
    end: int,
    left: int,
    parts: list[bytes],
    found: list[NodeRun] | None,
    keeps: bool,
) -> int:
    """Append the RESP of the first `left` entries from ID `start` to `end` in the segments from `index` on, and their
    runs to `found`; return how many of `left` are still to be read.

    keeps: whether the segment cache may keep the RESP. (Else this is what `SegmentList.read_first` does.)
    """
    while index < len(segments):
        segment = segments[index]
        low, high = segment.position(start), segment.count
        is_last = end < segment.last_id
        if is_last:
            high = segment.position(end + 1)
        for run_low, run_high in segment.runs(low, high) if segment.live is not None else ((low, high),):
            if run_high - run_low > left:
                run_high = run_low + left
            if run_low < run_high:
                read = segment.read if keeps or segment.encoded is not None else segment.encode
                parts.append(read(run_low, run_high))
                if found is not None:
                    found.append((segment, run_low, run_high))
                left -= run_high - run_low
        if is_last or left <= 0:
            break
        index += 1
    return left
