"""A log over a cold store, beside a plain one that has the same entries: what tests compare."""

from collections.abc import Callable
from typing import TypeVar

from streamd.base.filesystem import FileSystem
from streamd.cold.block import Block
from streamd.cold.cold_list import ColdList
from streamd.cold.files import MOVER, SegmentFile, SegmentFiles
from streamd.cold.store import ColdStore
from streamd.stream.log.absent import Absent
from streamd.stream.log.entry_log import Log
from streamd.stream.log.segment import Segment

T = TypeVar("T")
# What tests have opened, which tests/cold/conftest.py closes after each.
OPENED: list[SegmentFiles] = []


def segment_files(files: FileSystem, directory: str) -> SegmentFiles:
    """Return the segment files of a directory, which must be there; they are closed after the test."""
    OPENED.append(SegmentFiles(files, directory, "appendonly.aof"))
    return OPENED[-1]


def cold_store(directory: str, limit_bytes: int = 1 << 24, files: FileSystem | None = None) -> ColdStore:
    """Return a store over a directory, which must be there."""
    return ColdStore(segment_files(files or FileSystem(), directory), limit_bytes)


def write_file(store: ColdStore, groups: list[list[Segment]], gaps: list[bool] | None = None) -> SegmentFile:
    """Return a durable file with a block for each group."""
    writing = store.files.create(0)
    writing.write([Block(group, 0, gap) for group, gap in zip(groups, gaps or [False] * len(groups), strict=True)])
    file = writing.finish()
    store.files.sync(file)
    return file


def move(store: ColdStore, log: Log, nodes: int, per_block: int, meanwhile: Callable[[], None] = lambda: None) -> int:
    """Write the oldest nodes in memory, so many to a block, and have the log take them from there; return how many.

    meanwhile: called between gathering and the switch.
    """
    sealed = log.sealed
    if not isinstance(sealed, ColdList):
        return 0
    gathered = sealed.oldest_unwritten(1 << 40)[:nodes]
    if not gathered:
        return 0
    groups = [gathered[at : at + per_block] for at in range(0, len(gathered), per_block)]
    file = write_file(store, groups, [sealed.has_gap(group) for group in groups])
    meanwhile()
    sealed.switch(file, 0, len(groups), groups)
    store.files.release(file, MOVER)
    return len(gathered)


def evict(store: ColdStore) -> None:
    """Forget all blocks in memory."""
    limit, store.cache.bytes_max = store.cache.bytes_max, 0
    while store.cache.shrink():
        pass
    store.cache.bytes_max = limit
    store._held = {}


def waiting(work: Callable[[], T], seen: list[int] | None = None) -> T:
    """Return the result of some reading work, repeated whenever it needs blocks; `seen` gets how many each time."""
    for _ in range(1000):
        try:
            return work()
        except Absent as absent:
            if seen is not None:
                seen.append(len(absent.rows))
            absent.fetch()
    raise AssertionError("it never ends")
