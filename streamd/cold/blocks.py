"""The blocks of segment files that are in memory, how others come there, and what all of them may take."""

from collections import Counter, deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final

from streamd.base.errors import CommandError, reason_of
from streamd.cold.block import decode
from streamd.cold.cache import BlockCache, Cached, Reader, key_of
from streamd.cold.files import STREAM, SegmentFile, SegmentFiles
from streamd.cold.format import Damaged, Unreadable
from streamd.cold.notebook import Notebook
from streamd.cold.tokens import Account, Hold
from streamd.stream.log.absent import Absent
from streamd.stream.log.segment import Segment
from streamd.stream.log.segment_list import SegmentList
from streamd.stream.log.shelf import Shelf

# Larger blocks are not looked for in the system's cache: to copy one would hold up others.
_NO_WAIT_BYTES_MAX: Final = 256 * 1024
# Nor are those of a request for more blocks than this.
_NO_WAIT_BLOCKS_MAX: Final = 8
# A part of the limit that blocks may take, however much is not written yet.
_CACHE_PART_MIN: Final = 4
# So many blocks that were asked for last are asked for once, however often that is: scans read each several times.
_RECENT_BLOCKS: Final = 64


class _AtOnce:
    """The context in which a store's blocks are read in place."""

    def __init__(self, blocks: "Blocks") -> None:
        self._blocks = blocks

    def __enter__(self) -> None:
        self._blocks.in_place += 1

    def __exit__(self, *_: object) -> None:
        self._blocks.in_place -= 1


class Blocks(Shelf):
    """The segment files of a server and the blocks in memory; the base of ColdStore.

    limit_bytes: how much the entries in memory may take. in_place: while it is not 0, what is not in memory is read at
    once, however long the disk takes. unwritten: the lists with enough segments in memory to be written, in the order
    of their coming; small: those with less. damaged: how many reads met a damaged block; last_damage: the last one.
    move_failed: why segments could not be written lately, or "". held: how many holds there are of each kind. changes:
    goes up when files may have become less alive. notebook: what searches know of blocks without reading them.
    """

    def __init__(self, files: SegmentFiles, limit_bytes: int) -> None:
        self.files = files
        self.cache = BlockCache(limit_bytes)
        self.notebook = Notebook(files.notes, limit_bytes)
        self.limit_bytes = limit_bytes
        self.in_place = 0
        self._at_once = _AtOnce(self)
        self.unwritten: deque[SegmentList] = deque()
        self.small: deque[SegmentList] = deque()
        self.damaged = 0
        self.last_damage = ""
        self.move_failed = ""
        self.changes = 0
        self._held: dict[int, Cached] = {}
        self._reader = Reader(_RECENT_BLOCKS)
        self._unwritten_bytes = [0]
        self.held: Counter[str] = Counter()
        self._released: deque[tuple[SegmentFile, str]] = deque()

    def at_once(self) -> AbstractContextManager[None]:
        """Return a context in which nothing raises Absent."""
        return self._at_once

    def account(self) -> Account:
        """Return the account of a list's segments in memory."""
        return Account(self._unwritten_bytes)

    # Limits.

    @property
    def hot_bytes(self) -> int:
        """The memory of sealed segments that are in no file."""
        return self._unwritten_bytes[0]

    def set_limit(self, limit_bytes: int) -> None:
        """Set how much the entries in memory may take."""
        self.limit_bytes = limit_bytes
        self.notebook.set_limit(limit_bytes)
        self.fit()

    def fit(self) -> bool:
        """Give blocks the memory that unwritten segments leave; return whether more are to be evicted than one step
        evicts.
        """
        self.cache.bytes_max = max(self.limit_bytes - self.hot_bytes, self.limit_bytes // _CACHE_PART_MIN)
        return self.cache.shrink()

    # Holders.

    def hold(self, file: SegmentFile, holder: str = STREAM) -> Hold:
        """Hold a file until the last reference to what is returned goes."""
        self.files.hold(file, holder)
        self.held[holder] += 1
        return Hold(file, holder, self._let_go)

    def _let_go(self, file: SegmentFile, holder: str) -> None:
        self._released.append((file, holder))
        self.changes += 1

    def settle(self) -> None:
        """Release the files that were let go of; those that nothing has any more are dead then."""
        while self._released:
            file, holder = self._released.popleft()
            self.held[holder] -= 1
            self.files.release(file, holder)
            if not file.holders.total():
                self.notebook.forget(file.number)

    # Blocks.

    def block(self, file: SegmentFile, row: int) -> Cached:
        """Return a block. Raises: Absent if it is not in memory; CommandError if it cannot be read."""
        found = self._find(file, row)
        if found is None:
            if not self.in_place:
                raise Absent(self, [(file, row)])
            found = self.take(file, row, self.read(file, row))
        return found

    def require(self, rows: Sequence[tuple[SegmentFile, int]]) -> None:
        """Return if all of these blocks, few of them or many, are in memory. Raises: Absent, CommandError."""
        if self.in_place:
            return
        absent: list[tuple[object, int]] = []
        for file, row in rows:
            if not self.is_there(file, row) and (len(rows) > _NO_WAIT_BLOCKS_MAX or self._find(file, row) is None):
                absent.append((file, row))
        if absent:
            raise Absent(self, absent)

    def is_there(self, file: SegmentFile, row: int) -> bool:
        """Return whether a block is in memory; this is no ask for it."""
        key = key_of(file.number, row)
        return self.cache.has(key) or key in self._held

    def _find(self, file: SegmentFile, row: int) -> Cached | None:
        key = key_of(file.number, row)
        found = self.cache.find(key, self._reader)
        if found is None and self._held:
            found = self._held.get(key)
        if found is None and file.index.place(row).size <= _NO_WAIT_BYTES_MAX:
            try:
                data = self.files.read_cached(file, file.index.place(row))
            except (Damaged, OSError) as error:
                raise self._failure(file, error)
            if data is not None:
                found = self.take(file, row, data)
        return found

    def read(self, file: SegmentFile, row: int) -> bytes:
        """Return the bytes of a block, checked; it waits for the disk, so a thread may. Raises: CommandError."""
        try:
            return self.files.read(file, file.index.place(row))
        except (Damaged, OSError) as error:
            raise self._failure(file, error)

    def take(self, file: SegmentFile, row: int, data: bytes, is_pinned: bool = False) -> Cached:
        """Return the block that was read; it is in memory from now on, if there is room. Raises: CommandError."""
        try:
            segments = decode(data, file.index.place(row).offset, file.path)
        except (Damaged, Unreadable) as error:
            raise self._failure(file, error)
        key = key_of(file.number, row)
        self.cache.put(key, segments, is_pinned=is_pinned)
        return self.cache.peek(key) or Cached(key, segments, 0, False)

    def _failure(self, file: SegmentFile, error: Exception) -> CommandError:
        self.damaged += 1
        reason = f"{file.path} cannot be read: {reason_of(error)}" if isinstance(error, OSError) else str(error)
        self.last_damage = reason
        return CommandError(f"ERR {reason}")

    def fetch(self, rows: Sequence[tuple[object, int]]) -> None:
        """Read blocks, and wait for the disk; the accesses that follow at once find them. Raises: CommandError."""
        held: dict[int, Cached] = {}
        for file, row in rows:
            assert isinstance(file, SegmentFile)
            held[key_of(file.number, row)] = self._find(file, row) or self.take(file, row, self.read(file, row))
        self._held = held

    def unpin(self, file: SegmentFile, row: int) -> None:
        """Let go of a block that `take` has pinned."""
        self.cache.unpin(key_of(file.number, row))

    def put_written(self, file: SegmentFile, row: int, segments: list[Segment]) -> None:
        """Keep the segments of a block that was just written."""
        self.cache.put(key_of(file.number, row), segments, is_written=True)

    def forget(self, file: SegmentFile, row: int) -> None:
        """Forget a block that a stream has trimmed."""
        self.changes += 1
        self.cache.discard(key_of(file.number, row))
