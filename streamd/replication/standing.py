"""Where a server stands: its history, its role, and the notes of both in its journal."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from streamd.connected.replication_ports import NO_ID
from streamd.journal.notes import HISTORY
from streamd.replication.history import History, history_of

# Of a note: whether the server was running when it was written, or had ended in order.
RUNNING, ENDED = b"running", b"ended"
_PRIMARY: Final = b"primary"
_REPLICA: Final = b"replica"
# A replica whose link was not up since a REPLICAOF allowed it to take another data set.
_TOLD: Final = b"told"


@dataclass(frozen=True, slots=True)
class Noted:
    """A note of the journal. primary: host and port of the server that it was a replica of; None of a primary.

    is_told: a REPLICAOF allowed another data set in place of this one, and the link was not up since.
    """

    history: History
    primary: tuple[str, int] | None
    how: bytes
    is_told: bool = False

    def words(self) -> list[bytes]:
        """Return the words of the note."""
        host, port = self.primary or ("", 0)
        role = _PRIMARY if self.primary is None else _TOLD if self.is_told else _REPLICA
        return [HISTORY, self.how, role, host.encode(), b"%d" % port, *self.history.words()]


def noted(words: list[bytes]) -> Noted:
    """Return what a note of the journal says. Raises: ValueError."""
    _, how, role, host, port, *rest = words
    if how not in (RUNNING, ENDED) or role not in (_PRIMARY, _REPLICA, _TOLD):
        raise ValueError("its words make no sense")
    return Noted(history_of(rest), None if role == _PRIMARY else (host.decode(), int(port)), how, role == _TOLD)


class Standing:
    """The history and the role of a server.

    primary: host and port of the server that this one is a replica of, None if it is a primary. was_noted: the journal
    says so. was_told: this process began with a note that another data set, but not an empty one, may take the place of
    this one, and the link was not up since.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self.history = History(new_id())
        self.primary: tuple[str, int] | None = None
        self.was_noted = self.was_told = False

    @property
    def is_replica(self) -> bool:
        """Whether this server is a replica."""
        return self.primary is not None

    def take(self, note: Noted | None) -> None:
        """Take what the last note of the loaded journal says.

        A primary that did not end in order may have lost effects that its replicas have, or have effects behind the
        note: its history is a new one.
        """
        if note is None:
            return
        self.was_noted = True
        self.primary = note.primary
        self.was_told = note.is_told
        if note.how == ENDED or note.primary is not None:
            self.history = note.history
        else:
            self.history = note.history.anew(self.history.replid)

    def note(self, how: bytes = RUNNING, *, may_replace: bool = False) -> list[bytes]:
        """Return the words of a note of the present standing.

        may_replace: a REPLICAOF allows another data set in place of this one; a start that comes first is to know that.
        """
        return Noted(self.history, self.primary, how, may_replace).words()

    def note_at(self, history: History) -> list[bytes]:
        """Return the words of a note of this standing at another point."""
        return Noted(history, self.primary, RUNNING).words()

    def branch(self) -> None:
        """Begin a history of this server's own, which shares the past of the present one."""
        self.history = self.history.branched(self._new_id())

    def begin_anew(self) -> None:
        """Begin a history of the same data set that shares nothing with any other."""
        self.history = self.history.anew(self._new_id())

    def name_origin(self) -> bool:
        """Give the data set an ID, since a replica has asked for it; return False if it has one."""
        if self.history.origin != NO_ID:
            return False
        self.history = replace(self.history, origin=self.history.replid)
        return True

    def share(self) -> bool:
        """Know that a replica has the data set, too; return False if that was known."""
        if self.history.is_shared:
            return False
        self.history = replace(self.history, is_shared=True)
        return True
