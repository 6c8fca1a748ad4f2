"""One move: the oldest unwritten segments of some lists go to a new file, and once it is durable the lists switch."""

from collections.abc import Iterable, Iterator
from typing import Final

from streamd.cold.block import Block, grouped
from streamd.cold.cold_list import ColdList
from streamd.cold.jobs import Steps
from streamd.cold.output import Output, Pace
from streamd.cold.queues import put_back
from streamd.cold.store import ColdStore
from streamd.stream.log.segment import Segment

# What one list may give to a file, so that a stream that grows quickly leaves room for others.
_LIST_BYTES_MAX: Final = 16 * 1024 * 1024
# A list switches so many blocks in a step: less than a millisecond.
_SWITCHED_AT_ONCE: Final = 32


def move(
    store: ColdStore,
    lists: Iterable[ColdList],
    output: Output,
    pace: Pace | None,
    codec: int,
    bytes_max: int,
    also_last: bool = False,
) -> Steps:
    """Move the oldest unwritten segments of lists, about `bytes_max` bytes in all, in the order of the lists.

    lists: taken out of the store's queues, to which they come back. also_last: whether to move the last segments, too.
    Nothing is changed before the file is durable. What was deleted or trimmed meanwhile each list sorts out itself.
    Raises: OSError, after which nothing was moved.
    """
    parts: list[tuple[ColdList, int, list[list[Segment]]]] = []
    seen: set[int] = set()  # a list may come again: it is in two queues, or was queued anew meanwhile
    try:
        left = bytes_max
        for one in lists:
            if id(one) in seen:
                continue
            seen.add(id(one))
            low = output.rows
            groups: list[list[Segment]] = []
            parts.append((one, low, groups))
            for group in _groups(one.oldest_unwritten(min(left, _LIST_BYTES_MAX), also_last)):
                block = Block(group, codec, one.has_gap(group))
                groups.append(group)
                left -= block.body_bytes
                if output.add(block):
                    yield from output.write(pace)
                yield True
            if left <= 0:
                break
            yield True
        if output.rows:
            yield from output.finish(pace)
            yield from _switch(store, parts, output)
    finally:
        for one, _, _ in parts:
            put_back(store, one)
        output.release()


def _switch(store: ColdStore, parts: list[tuple[ColdList, int, list[list[Segment]]]], output: Output) -> Steps:
    file = output.file
    parts.reverse()
    while parts:
        one, low, groups = parts[-1]
        for at in range(0, len(groups), _SWITCHED_AT_ONCE):
            some = groups[at : at + _SWITCHED_AT_ONCE]
            one.switch(file, low + at, low + at + len(some), some)
            yield True
        parts.pop()
        put_back(store, one)


def _groups(segments: list[Segment]) -> Iterator[list[Segment]]:
    """Yield the segments of each block; a segment that no block can hold ends them."""
    try:
        yield from grouped(segments)
    except ValueError:
        return
