"""One move: the oldest unwritten segments of some lists go to a new file, and once it is durable the lists switch."""

from collections.abc import Iterable, Iterator
from typing import Final

from streamd.cold.block import Block, grouped
from streamd.cold.cold_list import ColdList
from streamd.cold.jobs import Steps
from streamd.cold.output import Output, Pace
from streamd.cold.store import ColdStore
from streamd.stream.log.segment import Segment

# What one list may give to a file, so that a stream that grows quickly leaves room for others.
_LIST_BYTES_MAX: Final = 16 * 1024 * 1024
# A list switches so many blocks in a step: less than a millisecond.
_SWITCHED_AT_ONCE: Final = 32


def move(
    store: ColdStore, lists: Iterable[ColdList], output: Output, pace: Pace | None, codec: int, bytes_max: int
) -> Steps:
    """Move the oldest unwritten segments of lists, `bytes_max` bytes in all, in the order of the lists.

    Nothing is changed before the file is durable. What was deleted or trimmed meanwhile each list sorts out itself.
    Raises: OSError, after which nothing was moved.
    """
    parts: list[tuple[ColdList, int, list[list[Segment]]]] = []
    left = bytes_max
    for one in lists:
        if left <= 0:
            break
        low, groups = output.rows, []
        for group in _groups(one.oldest_unwritten(min(left, _LIST_BYTES_MAX))):
            block = Block(group, codec)
            groups.append(group)
            left -= block.body_bytes
            if output.add(block):
                yield from output.write(pace)
            yield True
        if groups:
            parts.append((one, low, groups))
    if not parts:
        return
    yield from output.finish(pace)
    file = output.file
    parts.reverse()
    while parts:
        one, low, groups = parts.pop()
        for at in range(0, len(groups), _SWITCHED_AT_ONCE):
            some = groups[at : at + _SWITCHED_AT_ONCE]
            one.switch(file, low + at, low + at + len(some), some)
            yield True
        if one in store.unwritten:
            # It has more: others come first now.
            del store.unwritten[one]
            store.unwritten[one] = None
    output.release()


def _groups(segments: list[Segment]) -> Iterator[list[Segment]]:
    """Yield the segments of each block; a segment that no block can hold ends them."""
    try:
        yield from grouped(segments)
    except ValueError:
        return
