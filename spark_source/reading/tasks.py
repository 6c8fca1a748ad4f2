"""Which ranges share a task: small ones of several streams, since a task costs a worker more than a small range."""

from collections.abc import Iterable, Iterator

from spark_source.reading.offsets import Offset, Range, ranges

STREAMS_MAX = 250  # of a task: to turn to one more stream takes a millisecond, and a task 50 of its own

Task = tuple[Range, ...]
"""What one task reads, in this order."""


def tasks(start: Offset, end: Offset) -> list[Task]:
    """Return the tasks of the batch between two offsets: a pure function of the two.

    Marks that do not say how many entries may share a task were planned before there was sharing, and are read so.
    """
    alone: list[Task] = []
    small: dict[int, list[list[Range]]] = {}
    for stream, found in _by_stream(ranges(start, end)):
        entries = end[stream].together
        if entries is None:
            alone += [(part,) for part in found]
        else:
            small.setdefault(entries, []).append(found)
    for entries, streams in small.items():
        alone += shared(streams, entries)
    return alone


def shared(streams: Iterable[list[Range]], entries_max: int) -> list[Task]:
    """Return the tasks for the ranges of several streams.

    A stream with a range of more than half of `entries_max` shares no task. The ranges of one stream are never in one
    task, which would be fewer than minPartitions, and their tasks are in the order of the stream.
    """
    alone: list[Task] = []
    rounds: list[list[list[Range]]] = []
    for found in streams:
        if any(part.count > entries_max // 2 for part in found):
            alone += [(part,) for part in found]
            continue
        for number, part in enumerate(found):
            if number == len(rounds):
                rounds.append([])
            made = rounds[number]
            is_full = not made or len(made[-1]) == STREAMS_MAX
            if is_full or sum(other.count for other in made[-1]) + part.count > entries_max:
                made.append([])
            made[-1].append(part)
    return alone + [tuple(together) for made in rounds for together in made]


def _by_stream(found: list[Range]) -> Iterator[tuple[str, list[Range]]]:
    parts: dict[str, list[Range]] = {}
    for part in found:
        parts.setdefault(part.stream, []).append(part)
    yield from parts.items()
