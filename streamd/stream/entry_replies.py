"""The entries of streams as replies, and how much of several streams one reply may hold."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from streamd.base.limits import LARGE_REPLY_BYTES, READ_AHEAD_BYTES, SLICED_ITEMS_MIN
from streamd.resp.types import LongArray, Parts, Pause, Raw
from streamd.stream.log.absent import Absent
from streamd.stream.log.entry_log import Log
from streamd.stream.log.runs import NodeRun
from streamd.stream.log.segment import Segment
from streamd.stream.log.tail import Tail
from streamd.stream.wire.entry_encoder import encode_entry

# Smaller pieces on average are joined: the kernel takes as long for each as for copying a thousand bytes.
PIECE_BYTES_MIN: Final = 1024


def gathered(parts: list[bytes]) -> Raw | Parts:
    """Return a reply whose RESP is in parts."""
    if sum(map(len, parts)) > max(LARGE_REPLY_BYTES, PIECE_BYTES_MIN * len(parts)):
        return Parts(parts)
    return Raw(b"".join(parts))


def long_array(
    log: Log, start: int, end: int, count: int | None = None, reverse: bool = False
) -> tuple[int, LongArray] | None:
    """Return (the number, a long array) of the first `count` entries from `start` to `end` as they are now; None if
    they are too few to be sent in slices.
    """
    if (count is not None and count <= SLICED_ITEMS_MIN) or len(log) <= SLICED_ITEMS_MIN:
        return None
    entries = log.count_range(start, end)
    if count is not None and count < entries:
        entries = count
    if entries <= SLICED_ITEMS_MIN:
        return None
    return entries, entries_now(log, start, end, entries, reverse)


def entries_now(log: Log, start: int, end: int, count: int, reverse: bool = False) -> LongArray:
    """Return the first `count` entries from `start` to `end` as they are now; the range must hold so many."""
    return LongArray(count, _pieces(log.copy(), start, end, count, reverse))


def _pieces(log: Log, start: int, end: int, count: int, reverse: bool) -> Iterator[bytes | Pause]:
    """Yield the RESP of entries, and where blocks are absent a Pause; behind that it waits for what still is.

    What was there before a Pause may have been evicted for what came: then a run is read in place, so that it ends.
    """
    left = count
    has_waited = False
    while left:
        source: Segment | Tail | None = None
        low = high = 0
        try:
            for source, low, high in log.runs(start, end, left, reverse):
                yield source.read(low, high, reverse)
                left -= high - low
            return
        except Absent:
            pass
        if source is None and has_waited:
            with log.at_once():
                source, low, high = next(log.runs(start, end, left, reverse))
                piece = source.read(low, high, reverse)
            yield piece
            left -= high - low
        if source is not None and reverse:
            end = source.ids(low, low + 1)[0] - 1
        elif source is not None:
            start = source.ids(high - 1, high)[0] + 1
        has_waited = True
        yield from pauses(partial(log.require, start, end, min(left, entries_ahead(log)), reverse))


def pauses(ask: Callable[[], object]) -> Iterator[Pause]:
    """Yield a Pause if `ask` raises Absent; behind it the blocks are there for the accesses that follow at once."""
    try:
        ask()
        return
    except Absent as absent:
        # Its traceback refers to this frame, and this frame to it: the log would stay until a garbage collection.
        missing = absent.with_traceback(None)
    yield Pause(missing)
    missing.fetch()


def entries_ahead(log: Log) -> int:
    """Return about how many entries are read at once where a reply goes through a log."""
    return 1 + READ_AHEAD_BYTES // log.average_bytes


def pinned_bytes(log: Log, entries: int) -> int:
    """Return about how many bytes a reply of so many entries keeps from being freed."""
    return log.memory_bytes * entries // max(1, len(log))


class ReadBudget:
    """The remaining limits of a reply: COUNT for each stream, MAXCOUNT and MAXSIZE for all together; 0 for no limit.

    MAXSIZE is looked at before each entry, as in Redis, and holds for the bytes of RESP before it: keys, arrays and
    entries, but not the length of the array of a stream's entries until that array ends. A reply takes its first entry
    at any size. key: that of the first stream.
    """

    __slots__ = (
        "_bytes_left",
        "_count",
        "_count_left",
        "_empty",
        "_head_bytes",
        "_key",
        "_stream_entries",
        "_stream_left",
    )

    def __init__(self, count: int, count_max: int, bytes_max: int, protocol: int, key: bytes) -> None:
        self._count = count or None
        self._count_left = count_max or None
        self._bytes_left = bytes_max or None
        self._stream_left = self._count
        self._empty = True
        # In RESP3 a stream is a pair of a map, in RESP2 an array of two.
        self._head_bytes = 0 if protocol == 3 else len(b"*2\r\n")
        self._key: bytes | None = key
        self._stream_entries = 0

    @property
    def sizes_count(self) -> bool:
        """Whether the size of the reply is limited."""
        return self._bytes_left is not None

    @property
    def exhausted(self) -> bool:
        """Whether the reply may take no more entries of any stream."""
        return not self._empty and (self._count_left == 0 or (self._bytes_left is not None and self._bytes_left <= 0))

    def next_stream(self, key: bytes) -> None:
        """Go on with another stream."""
        self._stream_left = self._count
        if self._bytes_left is not None and self._key is None:
            self._bytes_left -= len(b"*%d\r\n" % self._stream_entries)
        self._key = key
        self._stream_entries = 0

    def show_stream(self) -> None:
        """Count the bytes that a stream takes in front of its entries, if that was not done."""
        key, self._key = self._key, None
        if key is not None and self._bytes_left is not None:
            self._bytes_left -= self._head_bytes + len(b"$%d\r\n%b\r\n" % (len(key), key))

    @property
    def shows_stream(self) -> bool:
        """Whether this stream has its place in the reply, perhaps without entries."""
        return self._key is None

    @property
    def entries_left(self) -> int | None:
        """How many more entries of this stream the reply may take, their sizes aside; None for all."""
        if self._count_left is None or self._stream_left is None:
            return self._stream_left if self._count_left is None else self._count_left
        return min(self._stream_left, self._count_left)

    def admit(self, size_bytes: int) -> bool:
        """Return whether the reply may take one more entry; if so, count the entry, whose RESP has so many bytes."""
        if self.entries_left == 0:
            return False
        if self._bytes_left is not None:
            self.show_stream()
            if self._bytes_left <= 0 and not self._empty:
                return False
            self._bytes_left -= size_bytes
        self.spend(1)
        return True

    def take(self, log: Log, start: int, end: int, found: list[NodeRun] | None = None) -> tuple[int, Parts | LongArray]:
        """Return (the number, the array) of the entries from `start` to `end` within the limits. found: gets runs."""
        count = self.entries_left
        if self._bytes_left is not None:
            count = 0
            for entry_id, fields in log.iterate(start, end):
                if not self.admit(len(encode_entry(entry_id, fields))):
                    break
                count += 1
        if count == 0:
            return 0, Parts([b"*0\r\n"])
        many = long_array(log, start, end, count)
        if many is not None:
            if found is not None:
                log.require(start, end, many[0])
                found += log.runs(start, end, many[0])
            if self._bytes_left is None:
                self.spend(many[0])
            return many
        entries, parts = log.encode_parts(start, end, count, found=found)
        if self._bytes_left is None:
            self.spend(entries)
        return entries, Parts([b"*%d\r\n" % entries, *parts])

    def spend(self, entries: int) -> None:
        """Count entries of this stream that the reply takes."""
        self._empty = self._empty and not entries
        self._stream_entries += entries
        if self._stream_left is not None:
            self._stream_left -= entries
        if self._count_left is not None:
            self._count_left -= entries
