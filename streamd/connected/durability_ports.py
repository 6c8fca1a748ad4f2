"""The functions of the journal and of backups that the engine and commands call."""

from collections.abc import Callable
from typing import Protocol

from streamd.connected.blocking import Waiter
from streamd.connected.client import Client
from streamd.data.records import ColumnsRecord, Record


class Backups(Protocol):
    """The calls of commands to the backups under way; see streamd.durability.backups. Raises (each): CommandError."""

    def begin(self, client: Client, shares: bool = False) -> list[tuple[str, int]] | None:
        """Return names and sizes of the files that a rewrite has left for this client, or in the same second for
        another one that shares; None while it is under way.
        """

    def mark(self, client: Client) -> list[int]:
        """Return the sizes of the files up to which they are one state."""

    def read(self, client: Client, number: int, offset: int, count: int) -> bytes:
        """Return bytes of a file."""

    def end(self, client: Client) -> bool:
        """Let go of the files; return whether there were any."""


class Mover(Protocol):
    """The functions of the mover that the cron and a rewrite call; see streamd.cold.mover."""

    def tick(self, stop: Callable[[], bool]) -> bool:
        """Do the work that is due, until `stop` returns True; return whether more can be done at once."""

    def move_all(self, then: Callable[[], None]) -> None:
        """Write all segments to files that can be, then call `then`; also if that fails."""


class Journal(Protocol):
    """The functions of the journal that the engine and commands call; see streamd.durability.persistence.

    writers: the clients that have written in this turn, some of them several times.
    """

    writers: list[Client]

    @property
    def backups(self) -> Backups:
        """The backups under way."""

    def append_unit(self, records: list[Record | ColumnsRecord]) -> None:
        """Take the effects of one command or one transaction, which stand or fall together."""

    def end_turn(self) -> None:
        """Let the replies of this turn leave, as soon as its records are as durable as they have to be."""

    def wait_for(self, client: Client) -> None:
        """Return once no output of a client is held: the writes behind it are as durable as they have to be."""

    def tick(self) -> bool:
        """Do the work that is due; return whether more is to be done at once."""

    @property
    def is_rewriting(self) -> bool:
        """Whether a rewrite is running."""

    @property
    def saved_s(self) -> int:
        """The Unix time of the last rewrite, or of the start, in seconds."""

    def doubt(self) -> None:
        """Have the journal rewritten soon, because it may differ from the keyspace."""

    def start_rewrite(self) -> None:
        """Begin a rewrite. Raises: CommandError; OSError."""

    def save(self) -> None:
        """Rewrite in the foreground. Raises: CommandError."""

    def reload(self, rewrite: bool) -> None:
        """Empty the keyspace and load the journal, after a rewrite if wanted. Raises: CommandError."""

    def sync_goal(self) -> int:
        """Return the goal for is_synced() that stands for all records so far."""

    def is_synced(self, goal: int) -> bool:
        """Return whether all records up to a goal are synced."""

    def serve_when_synced(self, waiter: Waiter[Client]) -> None:
        """Have a waiter try again after each sync; the next one begins at the end of this turn."""
