"""One merge: what streams still have of some segment files goes to a new one, to which they switch."""

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from streamd.cold.block import Block, decode
from streamd.cold.files import SegmentFile
from streamd.cold.format import Damaged, Unreadable
from streamd.cold.jobs import Jobs, Steps
from streamd.cold.output import JOB_BYTES, Output, Pace
from streamd.cold.seen_nodes import left_of
from streamd.cold.store import ColdStore
from streamd.cold.stretch import Stretch
from streamd.cold.tokens import Hold
from streamd.cold.tombstones import Tombstones
from streamd.cold.use import Use
from streamd.stream.log.segment import Segment

# So many lists switch in a step.
_SWITCHED_AT_ONCE: Final = 16


class Copied(NamedTuple):
    """The place of a row in the new file, -1 if it had no entries; without: the tombstones that are left out there."""

    row: int
    without: Tombstones | None


# By the number of the old file: its rows that are in the new file.
Copies = dict[int, dict[int, Copied]]


class Unmergeable(Exception):
    """A block of a file cannot be read, so the file stays as it is."""

    def __init__(self, file: SegmentFile, reason: str) -> None:
        super().__init__(reason)
        self.file = file


def merge(store: ColdStore, uses: list[Use], jobs: Jobs, output: Output, pace: Pace, codec: int) -> Steps:
    """Copy the rows of files that streams have, and have the streams switch.

    Deleted entries are left out of rows that one stream alone has. Streams that got rows while they were copied stay
    with the old file. Raises: OSError, Unmergeable; then nothing was changed.
    """
    copies: Copies = {}
    for use in uses:
        try:
            yield from _copy(store, use, copies.setdefault(use.file.number, {}), jobs, output, pace, codec)
        except (Damaged, Unreadable) as error:
            error.__traceback__ = None  # it refers to this, which has lists whose keys may be removed
            raise Unmergeable(use.file, str(error))
    if not output.rows:
        return
    yield from output.finish(pace)
    file, hold = output.file, store.hold(output.file)
    lists = iter({id(one): one for use in uses for one in use.lists}.values())
    while some := [*islice(lists, _SWITCHED_AT_ONCE)]:
        for one in some:
            one.rows.stretches = switched(one.rows.stretches, copies, file, hold)
        yield True
    output.release()


def _copy(
    store: ColdStore, use: Use, copied: dict[int, Copied], jobs: Jobs, output: Output, pace: Pace, codec: int
) -> Steps:
    """Copy what streams have of one file. Raises: OSError, Damaged, Unreadable."""
    file, tombstones, rows = use.file, use.tombstones(), use.rows_in_use()
    while part := _part(file, rows):
        data: list[bytes] = []
        yield from jobs.run(partial(_read, store, file, part, data))
        for row, block in zip(part, data, strict=True):
            gone = tombstones.get(row)
            segments = _left(decode(block, file.index.place(row).offset, file.path), gone)
            copied[row] = Copied(output.rows if segments else -1, gone)
            has_holes = gone is not None or file.index.has_holes(row)
            if segments and output.add(Block(segments, codec, has_holes)):
                yield from output.write(pace)
            yield True


def _part(file: SegmentFile, rows: Iterator[int]) -> list[int]:
    """Return the next rows, about as much as one job reads; empty at the end."""
    part, size = [], 0
    for row in rows:
        part.append(row)
        size += file.index.place(row).size
        if size >= JOB_BYTES:
            break
    return part


def _read(store: ColdStore, file: SegmentFile, rows: list[int], data: list[bytes]) -> None:
    for row in rows:
        data.append(store.files.read(file, file.index.place(row)))


def _left(segments: list[Segment], gone: Tombstones | None) -> list[Segment]:
    """Return the nodes that have entries, without the deleted ones."""
    if gone is None:
        return segments
    found: list[Segment] = []
    ids, at = gone.ids(), 0
    for segment in segments:
        behind = bisect_right(ids, segment.last_id, at)
        if behind > at:
            segment = left_of(segment, ids[at:behind])
            at = behind
            if segment.live_count:
                found.append(segment.rewritten())
        else:
            found.append(segment)
    return found


def switched(stretches: list[Stretch], copies: Copies, file: SegmentFile, hold: Hold) -> list[Stretch]:
    """Return what a list has once the rows that were copied are those of the new file."""
    found: list[Stretch] = []
    for stretch in stretches:
        copied = copies.get(stretch.file.number)
        if copied is None:
            found.append(stretch)
            continue
        for row in range(stretch.low, stretch.high):
            gone, copy = stretch.gone.get(row), copied.get(row)
            if copy is None or not _covers(gone, copy.without):
                _add(found, stretch.file, stretch.hold, row, gone)
            elif copy.row >= 0:
                _add(found, file, hold, copy.row, _further(gone, copy.without))
    return found


def _covers(gone: Tombstones | None, without: Tombstones | None) -> bool:
    """Return whether all entries that were left out are deleted."""
    if without is None or without is gone:
        return True
    return gone is not None and {*gone.ids()}.issuperset(without.ids())


def _further(gone: Tombstones | None, without: Tombstones | None) -> Tombstones | None:
    """Return the tombstones of entries that were not left out."""
    if gone is None or without is None:
        return gone
    left = {*without.ids()}
    further = [one for one in gone.ids() if one not in left]
    return Tombstones(further) if further else None


def _add(stretches: list[Stretch], file: SegmentFile, hold: Hold, row: int, gone: Tombstones | None) -> None:
    last = stretches[-1] if stretches else None
    if last is not None and last.file is file and last.high == row:
        last.extend(row + 1)
    else:
        last = Stretch(file, hold, row, row + 1)
        stretches.append(last)
    if gone is not None:
        last.gone[row] = gone
        last.gone_count += len(gone)
