"""The history of a data set: an ID and an offset, by which two servers know whether one continues the other."""

from dataclasses import dataclass
from typing import Final

from streamd.connected.replication_ports import NO_ID

# What INFO shows where there is no offset.
NO_OFFSET: Final = -1
# The last word of a note about a data set that was offered to replicas and that no replica has taken.
_NOT_SHARED: Final = b"alone"


@dataclass(frozen=True, slots=True)
class History:
    """A point of a history.

    replid: 40 hexadecimal digits. offset: the bytes of the stream of effects up to here. last: the hash of the last
    frame, 0 without any. replid2: the history that this one has branched off from; second: the first offset that it no
    longer shares with it, NO_OFFSET without such a history. origin: the ID of the data set, which all its histories
    share; NO_ID as long as no replica has asked for it. is_shared: a replica has it, or had it.
    """

    replid: str
    offset: int = 0
    last: int = 0
    replid2: str = NO_ID
    second: int = NO_OFFSET
    origin: str = NO_ID
    is_shared: bool = False

    def moved(self, offset: int, last: int) -> "History":
        """Return the history a frame later."""
        # (Each turn does it, and replace() takes thrice as long.)
        return History(self.replid, offset, last, self.replid2, self.second, self.origin, self.is_shared)

    def branched(self, replid: str) -> "History":
        """Return the history of a replica that becomes a primary: it shares all up to here with the one before."""
        return History(replid, self.offset, self.last, self.replid, self.offset + 1, self.origin, self.is_shared)

    def anew(self, replid: str) -> "History":
        """Return a history of the same data set that shares nothing with any other, at an offset that no client's last
        write is ahead of.
        """
        return History(replid, self.offset, origin=self.origin, is_shared=self.is_shared)

    def shares(self, replid: str, wanted: int) -> bool:
        """Return whether a replica that has a history up to before `wanted`, its next byte, has a part of this one."""
        if replid.lower() == self.replid:
            return wanted <= self.offset + 1
        return replid != NO_ID and replid.lower() == self.replid2 and wanted <= self.second

    def words(self) -> list[bytes]:
        """Return the history for a note of the journal."""
        return [
            self.replid.encode(), b"%d" % self.offset, b"%016x" % self.last, self.replid2.encode(), b"%d" % self.second,
            self.origin.encode(), *([] if self.is_shared or self.origin == NO_ID else [_NOT_SHARED]),
        ]  # fmt: skip


def history_of(words: list[bytes]) -> History:
    """Return the history that `words` has put into a note. Raises: ValueError."""
    replid, offset, last, replid2, second, origin, *more = words
    if more not in ([], [_NOT_SHARED]):
        raise ValueError("its words make no sense")
    for one in (replid, replid2, origin):
        if len(one) != 40 or one.lower().strip(b"0123456789abcdef"):
            raise ValueError("a replication ID has 40 hexadecimal digits")
    is_shared = not more and origin.decode() != NO_ID
    return History(
        replid.decode(), int(offset), int(last, 16), replid2.decode(), int(second), origin.decode(), is_shared
    )
