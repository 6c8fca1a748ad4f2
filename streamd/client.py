"""One client as commands see it: identity, protocol, transaction, and the replies that wait to be sent."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from streamd.keyspace import Watcher
from streamd.resp.encoder import encode
from streamd.resp.types import NO_REPLY, Reply

if TYPE_CHECKING:
    from streamd.blocking import Waiter
    from streamd.command import Context


def _no_flush() -> None:
    pass


class Client(Watcher):
    """The state of one connection, without the connection.

    out: encoded replies that the end of the turn sends.
    transaction: the requests queued since MULTI, or None outside of a transaction.
    supervised: somebody monitors all commands, or clients are paused.
    special: some of the rarer states holds (not authenticated, in MULTI, subscribed, replies off, supervised,
        NO-TOUCH):
        the engine then takes the careful path.
    waiter: set while the client is blocked; `backlog` are the requests that came meanwhile.
    out_bytes: size of the large replies among them.
    flush: sends `out`; resume: goes on with the backlog and what else was received; both given by the connection.
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
        "context",
        "created_ms",
        "flush",
        "flush_wanted",
        "id",
        "kill",
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
        "special",
        "subscriptions",
        "supervised",
        "transaction",
        "transaction_broken",
        "waiter",
        "watched",
    )

    def __init__(self, id: int, address: str = "", local_address: str = "", created_ms: int = 0) -> None:
        super().__init__()
        self.id = id
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
        self.authenticated = True
        self.no_evict = False
        self.no_touch = False
        self.monitoring = False
        self.reply_mode = "on"
        self.subscriptions: dict[bytes, None] | None = None
        self.patterns: dict[bytes, None] | None = None
        self.transaction: list[list[bytes]] | None = None
        self.transaction_broken = False
        self.watched: set[tuple[int, bytes]] = set()
        self.special = False
        self.supervised = False
        self.waiter: Waiter | None = None
        self.backlog: deque[list[bytes]] = deque()
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.flush: Callable[[], None] = _no_flush
        self.kill: Callable[[], None] = _no_flush
        self.resume: Callable[[], None] | None = None
        self.flush_wanted = False
        self.close_soon = False
        self.closed = False
        self.context: Context | None = None

    def reply(self, reply: Reply) -> None:
        """Put a reply behind those that wait."""
        if reply is not NO_REPLY:
            self.out.append(encode(reply, self.protocol))

    def describe(self, now_ms: int) -> bytes:
        """Return what CLIENT LIST says of the client, in Redis's fields; those that have no meaning here are 0."""
        flags = [
            ("O", self.monitoring),
            ("P", self.subscription_count() > 0),
            ("x", self.transaction is not None),
            ("b", self.waiter is not None),
            ("d", self.touched),
            ("c", self.close_soon),
            ("e", self.no_evict),
            ("T", self.no_touch),
        ]
        unsent = sum(map(len, self.out))
        fields: list[tuple[str, object]] = [
            ("id", self.id),
            ("addr", self.address),
            ("laddr", self.local_address),
            ("fd", 0),
            ("name", self.name.decode()),
            ("age", (now_ms - self.created_ms) // 1000),
            ("idle", (now_ms - self.last_ms) // 1000),
            ("flags", "".join(letter for letter, is_set in flags if is_set) or "N"),
            ("db", 0 if self.context is None else self.context.db.index),
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
            ("user", "default"),
            ("redir", -1),
            ("resp", self.protocol),
            ("lib-name", self.lib_name.decode()),
            ("lib-ver", self.lib_version.decode()),
            ("io-thread", 0),
            ("tot-net-in", self.bytes_in),
            ("tot-net-out", self.bytes_out),
        ]
        return " ".join(f"{name}={value}" for name, value in fields).encode()

    def subscription_count(self) -> int:
        """Return how many channels and patterns the client is subscribed to."""
        return len(self.subscriptions or ()) + len(self.patterns or ())

    def update_special(self) -> None:
        """Recompute `special` after one of the rarer states changed."""
        self.special = (
            not self.authenticated
            or self.transaction is not None
            or self.subscription_count() > 0
            or self.reply_mode != "on"
            or self.supervised
            or self.no_touch
        )
