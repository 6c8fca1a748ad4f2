"""The form of the replication stream between two streamd servers: frames of effects, questions, and the time.

A frame has what one turn of the primary has written to its journal, without what belongs to one file: runs, salts,
marks of syncing.

    #streamd ship BEFORE AFTER LENGTH HASH    LENGTH bytes follow: commands and notes, as in the journal. Database 0 is
                                              selected at the beginning
    #streamd ask OFFSET                       acknowledge now, even if nothing is new
    #streamd time MILLISECONDS                what the clock of the primary shows: each second, to a replica that has
                                              said `capa streamd-time`; to others an empty line

BEFORE and AFTER are offsets of the history. HASH is the xxh3-64 of the bytes, in 16 hexadecimal digits. Its seed is
made of the replication ID, BEFORE and AFTER, so that a frame of another history or place is not taken for this one. A
frame keeps the ID that it was made with when the history gets another one.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from xxhash import xxh3_64, xxh3_64_intdigest

LINE_BYTES_MAX: Final = 128
# What a replica says of itself, by `REPLCONF capa`, that wants to know the time.
TAKES_TIME: Final = b"streamd-time"
# The largest unit of a client is a request and what it decides; a turn has some of them.
BODY_BYTES_MAX: Final = 2**32

_SHIP: Final = re.compile(rb"#streamd ship (\d{1,19}) (\d{1,19}) (\d{1,10}) ([0-9a-f]{16})")
_ASK: Final = re.compile(rb"#streamd ask (\d{1,19})")
_TIME: Final = re.compile(rb"#streamd time (\d{1,19})")


class FrameError(Exception):
    """What came is no frame, or not the next one of this history; the message says why."""


class ForeignFrame(FrameError):
    """A frame that is of another history, or was damaged on its way."""


class Frame(NamedTuple):
    """A frame: data is its form on the wire, whose last bytes are the body."""

    before: int
    after: int
    hash: int
    data: bytes
    body_at: int

    @property
    def body(self) -> bytes:
        """The commands and notes."""
        return self.data[self.body_at :]


class Ask(NamedTuple):
    """A question for an acknowledgement. offset: the primary's."""

    offset: int


class Time(NamedTuple):
    """What the primary's clock showed when it was sent. unix_ms: milliseconds since 1970."""

    unix_ms: int


def _seed(replid: str, before: int, after: int) -> int:
    return xxh3_64_intdigest(b"%b %d %d" % (replid.encode(), before, after))


def make_frame(replid: str, before: int, after: int, *bodies: bytes) -> Frame:
    """Return the frame of a turn's effects, which come in parts."""
    seed = _seed(replid, before, after)
    if len(bodies) == 1:
        digest = xxh3_64_intdigest(bodies[0], seed)
    else:
        hasher = xxh3_64(seed=seed)
        for body in bodies:
            hasher.update(body)
        digest = hasher.intdigest()
    head = b"#streamd ship %d %d %d %016x\n" % (before, after, sum(map(len, bodies)), digest)
    # (Copied once: a turn of many clients' pipelines has a hundred kilobytes.)
    return Frame(before, after, digest, b"".join((head, *bodies)), len(head))


def make_ask(offset: int) -> bytes:
    """Return a question for an acknowledgement."""
    return b"#streamd ask %d\n" % offset


def seeded_hash(data: bytes, replid: str, before: int, after: int) -> int:
    """Return the xxh3-64 of what is sent about a part of a history."""
    return xxh3_64_intdigest(data, _seed(replid, before, after))


def make_time(unix_ms: int) -> bytes:
    """Return a line with the time."""
    return b"#streamd time %d\n" % unix_ms


def _said(line: bytes) -> Ask | Time | None:
    if (match := _ASK.fullmatch(line)) is not None:
        return Ask(int(match[1]))
    if (match := _TIME.fullmatch(line)) is not None:
        return Time(int(match[1]))
    return None


class FrameReader:
    """Cuts received bytes into frames, and checks that each continues the one before it.

    offset: of the history, behind the frames that were returned.
    """

    def __init__(self, replid: str, offset: int, *earlier: str) -> None:
        """earlier: the histories that this one has branched off from, of which its first frames may be."""
        self._replids = (replid, *earlier)
        self.offset = offset
        self._data = bytearray()
        self._wanted = 0  # bytes, before which there is nothing to look at

    def feed(self, data: bytes) -> Iterator[Frame | Ask | Time]:
        """Take bytes, and yield what is complete. Raises: FrameError; then nothing of the stream can be used."""
        self._data += data
        while len(self._data) > self._wanted:
            found = self._next()
            if found is None:
                return
            yield found

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the frame that is not complete."""
        return len(self._data)

    def _next(self) -> Frame | Ask | Time | None:
        data = self._data
        if data[:1] == b"\n":  # lines that keep the connection alive
            del data[: len(data) - len(data.lstrip(b"\n"))]
            self._wanted = 0
            if not data:
                return None
        end = data.find(b"\n", 0, LINE_BYTES_MAX)
        if end < 0:
            if len(data) >= LINE_BYTES_MAX:
                raise FrameError("a line is too long")
            self._wanted = len(data)
            return None
        line = bytes(data[:end])
        said = _said(line)
        if said is not None:
            del data[: end + 1]
            self._wanted = 0
            return said
        head = _SHIP.fullmatch(line)
        if head is None:
            raise FrameError(f"{line[:40]!r} is no frame")
        before, after, length = int(head[1]), int(head[2]), int(head[3])
        if length > BODY_BYTES_MAX:
            raise FrameError(f"a frame of {length} bytes is too long")
        if before != self.offset or after <= before:
            raise FrameError(f"a frame from {before} to {after} does not continue {self.offset}")
        whole = end + 1 + length
        if len(data) < whole:
            self._wanted = whole - 1
            return None
        copy = bytes(memoryview(data)[:whole])
        body, digest = copy[end + 1 :], int(head[4], 16)
        if not any(digest == seeded_hash(body, replid, before, after) for replid in self._replids):
            raise ForeignFrame(f"the frame from {before} to {after} does not match its checksum")
        del data[:whole]
        self._wanted = 0
        self.offset = after
        return Frame(before, after, digest, copy, end + 1)
