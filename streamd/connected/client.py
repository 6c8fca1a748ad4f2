"""One client: identity, protocol, transaction, and the replies that wait to be sent."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from streamd.acl.user import User
from streamd.base.errors import CommandError
from streamd.connected.blocking import Waiter
from streamd.connected.tracker import Tracker
from streamd.data.followers import Watcher
from streamd.data.keyspace import Database
from streamd.resp.encoder import encode, encode_pieces
from streamd.resp.reply_ends import split_replies
from streamd.resp.types import NO_REPLY, Pause, Reply, Sliced


def _no_flush() -> None:
    pass


def _nothing() -> int:
    return 0


# What stands first in the backlog of a client whose reply is being made: what it sends meanwhile waits behind.
GO_ON: Final[list[bytes]] = []


class Unfinished:
    """A reply that is made in slices.

    pieces: the rest of it. is_waiting: for a Pause in it. pinned_bytes: roughly the memory that it keeps from being
    freed; less with each slice. behind: encoded pushes that came meanwhile; behind_bytes: their size.
    """

    __slots__ = ("behind", "behind_bytes", "is_begun", "is_made", "is_waiting", "pieces", "pinned_bytes")

    def __init__(self, pieces: Iterator[bytes | Pause], pinned_bytes: int) -> None:
        self.pieces = pieces
        self.pinned_bytes = pinned_bytes
        self.behind: list[bytes] = []
        self.behind_bytes = 0
        self.is_begun = False
        self.is_made = False
        self.is_waiting = False

    @property
    def waiting_bytes(self) -> int:
        """Its share of the output limit for a client that does not read."""
        return self.pinned_bytes + self.behind_bytes


class Client(Watcher):
    """The state of one client, apart from its connection.

    authenticated: it may send commands, since it has logged in (has_logged_in) or needs no login at present. (As in
        Redis, a client that came while no login was needed has logged in.)
    db: the database it has selected.
    in_unit: its commands are part of EXEC (or a script) and must not block.
    out: encoded replies, to be sent at the end of the turn.
    user: the user it has logged in as.
    tracker: its state for CLIENT TRACKING, or None.
    transaction: the requests queued since MULTI, or None outside of a transaction.
    reply_mode: `on`, `off`, `skip` (behind CLIENT REPLY SKIP), `skipping` (during the request without a reply).
    waiter: set while the client is blocked; backlog: the requests received meanwhile.
    unfinished: the reply that is being made in slices; the backlog begins with GO_ON then.
    written: the offset of the replication history behind its last write; 0 if it has written nothing.
    kind: `replica` or `master` for the end of a link, else `normal`.
    out_bytes: size of the large replies in `out`.
    flush: sends `out`; resume: goes on with the backlog and other received requests; unsent: returns the bytes that
        were sent and wait for the client to read; all given by the connection.
    close_soon: close the connection once `out` is sent.
    """

    __slots__ = (
        "address",
        "authenticated",
        "backlog",
        "bytes_in",
        "bytes_out",
        "close_soon",
        "closed",
        "created_ms",
        "db",
        "flush",
        "flush_wanted",
        "has_logged_in",
        "id",
        "in_unit",
        "kill",
        "kind",
        "last_command",
        "last_ms",
        "lib_name",
        "lib_version",
        "local_address",
        "monitoring",
        "name",
        "no_evict",
        "no_touch",
        "out",
        "out_bytes",
        "patterns",
        "protocol",
        "reply_mode",
        "resume",
        "subscriptions",
        "tracker",
        "transaction",
        "transaction_broken",
        "unfinished",
        "unsent",
        "user",
        "waiter",
        "watched",
        "written",
    )

    def __init__(
        self, id: int, db: Database, user: User, address: str = "", local_address: str = "", created_ms: int = 0
    ) -> None:
        super().__init__()
        self.id = id
        self.db = db
        self.user = user
        self.in_unit = False
        self.address = address
        self.local_address = local_address
        self.created_ms = created_ms
        self.last_ms = created_ms
        self.name = b""
        self.lib_name = b""
        self.lib_version = b""
        self.last_command = "NULL"
        self.bytes_in = 0
        self.bytes_out = 0
        self.protocol = 2
        self.authenticated = self.has_logged_in = True
        self.no_evict = False
        self.no_touch = False
        self.monitoring = False
        self.reply_mode = "on"
        self.tracker: Tracker | None = None
        self.subscriptions: dict[bytes, None] | None = None
        self.patterns: dict[bytes, None] | None = None
        self.transaction: list[list[bytes]] | None = None
        self.transaction_broken = False
        self.watched: set[tuple[int, bytes]] = set()
        self.waiter: Waiter[Client] | None = None
        self.backlog: deque[list[bytes]] = deque()
        self.unfinished: Unfinished | None = None
        self.written = 0
        self.kind = "normal"
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.flush: Callable[[], None] = _no_flush
        self.kill: Callable[[], None] = _no_flush
        self.unsent: Callable[[], int] = _nothing
        self.resume: Callable[[], None] | None = None
        self.flush_wanted = False
        self.close_soon = False
        self.closed = False

    def leave_connection(self) -> None:
        """Release the lost connection. Client and connection refer to each other; so both, with all received and queued
        bytes, would stay until the next run of the garbage collector, which counts objects, not bytes.
        """
        self.flush = self.kill = _no_flush
        self.unsent = _nothing
        self.resume = None

    def reply(self, reply: Reply) -> None:
        """Put a reply or a push behind the unsent ones."""
        if reply is NO_REPLY or (type(reply) is Sliced and self.begin(reply)):
            return
        data = encode(reply.content if type(reply) is Sliced else reply, self.protocol)
        unfinished = self.unfinished
        if unfinished is None:
            self.out.append(data)
        else:
            unfinished.behind.append(data)
            unfinished.behind_bytes += len(data)

    def begin(self, reply: Sliced) -> bool:
        """Start a long reply, to be made in slices from the next turn on; return whether there is a connection."""
        if self.resume is None:
            return False
        assert self.unfinished is None
        self.unfinished = Unfinished(encode_pieces(reply.content, self.protocol), reply.pinned_bytes)
        self.backlog.appendleft(GO_ON)
        return True

    def begin_pieces(self, pieces: Iterator[bytes]) -> None:
        """Send pieces that are made in slices, from the next turn on."""
        assert self.unfinished is None
        self.unfinished = Unfinished(pieces, 0)
        self.backlog.appendleft(GO_ON)

    def take_back(self, error: CommandError) -> None:
        """Replace each unsent reply by an error; pushes stay."""
        # An element of the output may be several replies, or a part of one.
        replies = split_replies(b"".join(self.out))
        self.out[:] = [part if part.startswith(b">") else encode(error, self.protocol) for part in replies]
        if self.unfinished is not None:
            # The turn that decides a reply makes no slice, and the turn of the last slice decides no reply.
            assert not self.unfinished.is_begun
            self.unfinished.pieces = iter((encode(error, self.protocol),))

    def describe(self, monotonic_ms: int) -> bytes:
        """Return the client's line of CLIENT LIST, in Redis's fields; fields without a meaning here are 0."""
        tracker = self.tracker
        flags = [
            ("O", self.monitoring),
            ("S", self.kind == "replica"),
            ("M", self.kind == "master"),
            ("P", self.subscription_count() > 0),
            ("x", self.transaction is not None),
            ("b", self.waiter is not None and not self.waiter.is_reading),
            ("t", tracker is not None),
            ("R", tracker is not None and tracker.is_broken),
            ("B", tracker is not None and tracker.is_broadcast),
            ("d", self.touched),
            ("c", self.close_soon),
            ("e", self.no_evict),
            ("T", self.no_touch),
        ]
        unsent = sum(map(len, self.out)) + (0 if self.unfinished is None else self.unfinished.waiting_bytes)
        fields: list[tuple[str, object]] = [
            ("id", self.id),
            ("addr", self.address),
            ("laddr", self.local_address),
            ("fd", 0),
            ("name", self.name.decode()),
            ("age", (monotonic_ms - self.created_ms) // 1000),
            ("idle", (monotonic_ms - self.last_ms) // 1000),
            ("flags", "".join(letter for letter, is_set in flags if is_set) or "N"),
            ("db", self.db.index),
            ("sub", len(self.subscriptions or ())),
            ("psub", len(self.patterns or ())),
            ("ssub", 0),
            ("multi", -1 if self.transaction is None else len(self.transaction)),
            ("qbuf", 0),
            ("qbuf-free", 0),
            ("argv-mem", 0),
            ("multi-mem", 0),
            ("rbs", 0),
            ("rbp", 0),
            ("obl", 0),
            ("oll", len(self.out)),
            ("omem", unsent),
            ("tot-mem", unsent),
            ("events", "r"),
            ("cmd", self.last_command),
            ("user", self.user.name.decode("utf-8", "surrogateescape")),
            ("redir", -1 if tracker is None else tracker.redirect),
            ("resp", self.protocol),
            ("lib-name", self.lib_name.decode()),
            ("lib-ver", self.lib_version.decode()),
            ("io-thread", 0),
            ("tot-net-in", self.bytes_in),
            ("tot-net-out", self.bytes_out),
        ]
        return " ".join(f"{name}={value}" for name, value in fields).encode("utf-8", "surrogateescape")

    def subscription_count(self) -> int:
        """Return how many channels and patterns the client is subscribed to."""
        return len(self.subscriptions or ()) + len(self.patterns or ())
