"""The nodes of blocks as one stream sees them: without entries that it has deleted."""

from bisect import bisect_left, bisect_right

from streamd.stream.log.segment import Segment


def first_id_of(nodes: list[Segment]) -> int:
    """Return the ID of the first entry of some nodes that have entries; -1 without a node."""
    for node in nodes:
        for low, _ in node.runs(0, node.count):
            return node.ids(low, low + 1)[0]
    return -1


def ids_of(node: Segment) -> list[int]:
    """Return the IDs of the entries that are there."""
    found: list[int] = []
    for low, high in node.runs(0, node.count):
        found += node.ids(low, high)
    return found


def is_in(nodes: list[Segment], entry_id: int) -> bool:
    """Return whether one of some nodes has an entry."""
    at = bisect_left(nodes, entry_id, key=_last_id_of)
    return at < len(nodes) and nodes[at].find(entry_id) >= 0


def _last_id_of(node: Segment) -> int:
    return node.last_id


def left_of(segment: Segment, ids: list[int]) -> Segment:
    """Return a copy of a segment without some entries; IDs that it does not have are left alone."""
    segment = segment.copy()
    for entry_id in ids:
        position = segment.find(entry_id)
        if position >= 0:
            segment.delete_at(position)
    return segment


def without(segments: list[Segment], gone: list[int], skip: int) -> list[Segment]:
    """Return segments without some entries, by ascending IDs, and without the first `skip` ones that are left."""
    nodes: list[Segment] = []
    at = 0
    for segment in segments:
        behind = bisect_right(gone, segment.last_id, at)
        if behind > at:
            segment = left_of(segment, gone[at:behind])
            at = behind
        if skip >= segment.live_count:
            skip -= segment.live_count
            continue
        if skip:
            segment = segment.copy()
            segment.delete(0, segment.nth_position(skip))
            skip = 0
        nodes.append(segment)
    return nodes
