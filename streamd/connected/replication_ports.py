"""The functions of replication that the engine and commands call; and a server that takes no part in it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from streamd.base.errors import CommandError
from streamd.connected.blocking import Waiter
from streamd.connected.client import Client

NO_ID: Final = "0" * 40
# As Redis says it to a replica that is to try again in a second.
NO_JOURNAL: Final = "NOMASTERLINK Can't SYNC: this server has no journal; CONFIG SET appendonly yes begins one"


@dataclass(slots=True)
class Greeting:
    """What a server that connects as a replica has said of itself by REPLCONF.

    port, address: to be shown, 0 and empty if it did not say. can: its capabilities. last: the hash of its last frame.
    """

    port: int = 0
    address: str = ""
    can: set[bytes] = field(default_factory=set)
    last: int = 0


class ReplicaFacts(NamedTuple):
    """A replica of this server, as INFO shows it.

    host, port: where others reach it. state: `online`, or `send_bulk` while it takes the whole state. offset: what it
    has acknowledged. lag_s: seconds since it has acknowledged anything, 0 while it is not online.
    """

    host: str
    port: int
    state: str
    offset: int
    lag_s: int


class Replication(Protocol):
    """Replication as commands see it; see streamd.replication.replication."""

    @property
    def clock_skew_ms(self) -> int | None:
        """By how much the clock here is ahead of the primary's; None if that is not known, and of a primary."""

    def role(self) -> list[object]:
        """Return the reply of ROLE."""

    def fields(self) -> dict[str, object]:
        """Return the fields of INFO's section Replication, in Redis's order."""

    def replicas(self) -> list[ReplicaFacts]:
        """Return the replicas of this server."""

    def leave(self, client: Client) -> None:
        """Forget a client that has gone."""

    def tick(self, stop: Callable[[], bool]) -> bool:
        """Do what is due; return whether there is more to be done at once."""

    def doubt(self) -> None:
        """Have replicas take the whole state anew: it may differ from what they were sent."""

    def note_of_rewrite(self) -> list[bytes] | None:
        """Return the note about the role for a journal that is being rewritten; None if there is nothing to note."""

    # Commands of a replica at its primary.

    def greet(self, client: Client) -> Greeting:
        """Return what a client has said of itself, to be changed."""

    def promote(self, replid: str) -> None:
        """Become a primary because the present one, with this history, says so. Raises: CommandError."""

    def continues(self, client: Client, replid: str, offset: int) -> bool:
        """Let a replica go on from an offset, if that can be; return whether it does."""

    def copy_whole(self, client: Client) -> bool:
        """Begin to send the whole state to a replica; return False while that is not ready. Raises: CommandError."""

    def acknowledge(self, client: Client, offset: int, synced: int | None) -> None:
        """Note how far a replica has come, and how far its journal is on its disk."""

    # Commands of other clients.

    def start_failover(self, target: tuple[str, int] | None, is_forced: bool, timeout_ms: int | None) -> None:
        """Hand the role to a replica. Raises: CommandError."""

    def abort_failover(self) -> None:
        """Give that up. Raises: CommandError."""

    def follow(self, host: str, port: int, is_automatic: bool = False) -> bool:
        """Become a replica; return False if it is one of that primary already. Raises: CommandError.

        is_automatic: a Sentinel has said so, and no operator.
        """

    def lead(self) -> None:
        """Become a primary. Raises: CommandError."""

    def count(self, client: Client, *, synced: bool = False) -> int:
        """Return how many replicas have the last write of a client, in their journals or on their disks."""

    def ask(self, waiter: Waiter[Client]) -> None:
        """Have replicas acknowledge at the end of this turn, and try a waiter again when they do."""


class Alone:
    """A server that cannot have replicas, because it has no journal."""

    clock_skew_ms: int | None = None

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def role(self) -> list[object]:
        """Return the reply of ROLE."""
        return [b"master", 0, []]

    def fields(self) -> dict[str, object]:
        """Return the fields of INFO's section Replication."""
        return primary_fields(self._run_id, NO_ID, 0, -1) | backlog_fields(False, 0, 0, 0)

    def replicas(self) -> list[ReplicaFacts]:
        """Return none."""
        return []

    def leave(self, client: Client) -> None:
        """Do nothing."""

    def tick(self, stop: Callable[[], bool]) -> bool:
        """Return False."""
        return False

    def doubt(self) -> None:
        """Do nothing: nobody was sent anything."""

    def note_of_rewrite(self) -> list[bytes] | None:
        """Return None."""
        return None

    def greet(self, client: Client) -> Greeting:
        """Return an empty greeting, which nobody keeps."""
        return Greeting()

    def promote(self, replid: str) -> None:
        """Refuse. Raises: CommandError."""
        raise CommandError("ERR PSYNC FAILOVER can't be sent to a master.")

    def continues(self, client: Client, replid: str, offset: int) -> bool:
        """Return False."""
        return False

    def copy_whole(self, client: Client) -> bool:
        """Refuse. Raises: CommandError."""
        raise CommandError(NO_JOURNAL)

    def acknowledge(self, client: Client, offset: int, synced: int | None) -> None:
        """Do nothing."""

    def start_failover(self, target: tuple[str, int] | None, is_forced: bool, timeout_ms: int | None) -> None:
        """Refuse. Raises: CommandError."""
        raise CommandError("ERR FAILOVER requires connected replicas.")

    def abort_failover(self) -> None:
        """Refuse. Raises: CommandError."""
        raise CommandError("ERR No failover in progress.")

    def follow(self, host: str, port: int, is_automatic: bool = False) -> bool:
        """Refuse. Raises: CommandError."""
        raise CommandError("ERR a replica needs a journal: CONFIG SET appendonly yes begins one")

    def lead(self) -> None:
        """Do nothing: it is a primary."""

    def count(self, client: Client, *, synced: bool = False) -> int:
        """Return 0."""
        return 0

    def ask(self, waiter: Waiter[Client]) -> None:
        """Do nothing: nobody will acknowledge."""


def primary_fields(replid: str, replid2: str, offset: int, second: int) -> dict[str, object]:
    """Return the fields that a server has in both roles, behind those of its replicas."""
    return {
        "role": "master",
        "connected_slaves": 0,
        "master_failover_state": "no-failover",
        "master_replid": replid,
        "master_replid2": replid2,
        "master_repl_offset": offset,
        "second_repl_offset": second,
    }


def backlog_fields(is_active: bool, size: int, first: int, length: int) -> dict[str, object]:
    """Return the last fields. size, length: bytes."""
    return {
        "repl_backlog_active": int(is_active),
        "repl_backlog_size": size,
        "repl_backlog_first_byte_offset": first,
        "repl_backlog_histlen": length,
    }
