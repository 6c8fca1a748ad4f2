"""The last file of a copied journal: its server is no replica, and begins a replication history of its own."""

from collections.abc import Iterable, Iterator
from typing import Final

from streamd.backup.placing import Source
from streamd.base.filesystem import FileSystem
from streamd.cold.files import ENDING
from streamd.connected.replication_ports import NO_ID
from streamd.journal.notes import HISTORY
from streamd.journal.record import FIRST_LINE_BYTES, encode_first_line, encode_note, encode_run
from streamd.replication.history import History
from streamd.replication.standing import RUNNING, Noted

NAME: Final = "history.aof"
_BEGIN: Final = b"#streamd note %b " % HISTORY


def with_own_history(sources: Iterable[Source]) -> Iterator[Source]:
    """Yield the files of a journal; and if they say where their server stood in a history, one more that ends that.

    Otherwise a restored replica would follow the old primary, and two servers could continue one history differently.
    """
    watch = _Watch()
    for name, pieces in sources:
        yield name, pieces if name.endswith(ENDING) else watch.through(pieces)
    if watch.has_seen:
        salt = FileSystem().salt()
        note = encode_note(0, Noted(History(NO_ID), None, RUNNING).words())
        yield NAME, [encode_first_line(salt) + encode_run([note], 0, True, salt, FIRST_LINE_BYTES)]


class _Watch:
    """Looks for a note of a history. (A value with the same text does no harm: the file may stand there needlessly.)"""

    def __init__(self) -> None:
        self.has_seen = False

    def through(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the pieces."""
        rest = b""
        for piece in pieces:
            seen = rest + piece
            self.has_seen = self.has_seen or _BEGIN in seen
            rest = seen[-len(_BEGIN) :]
            yield piece
