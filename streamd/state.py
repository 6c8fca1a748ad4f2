"""What all clients share: keyspace, configuration, time, statistics, and the services that commands ask for."""

from random import Random
from typing import TYPE_CHECKING, Protocol

from streamd.blocking import BlockedClients, Waiter
from streamd.clock import Clock, TurnTime
from streamd.config import Config
from streamd.idmp.sweeper import Sweeper
from streamd.keyspace import Database, Keyspace
from streamd.keyspace_events import KeyspaceEvents
from streamd.pubsub import PubSub
from streamd.resp.types import NO_REPLY
from streamd.slowlog import SlowLog

if TYPE_CHECKING:
    from streamd.client import Client
    from streamd.command import Context
    from streamd.resp.types import Reply

# A journal record: the database it belongs to and the words of the command that repeats its effect.
Record = tuple[int, list[bytes]]


class Services(Protocol):
    """What commands need of the layers above them."""

    def execute(self, context: "Context", request: list[bytes]) -> "Reply":
        """Run one request for a client and return its reply (EXEC)."""

    def unblock(self, waiter: Waiter, reply: "Reply") -> None:
        """End a client's wait with `reply`."""

    def shut_down(self, save: bool | None) -> None:
        """Stop the server once the replies of this turn are sent."""

    def sleep(self, seconds: float) -> None:
        """Stand still (DEBUG SLEEP)."""


class Stats:
    """Counters since the start, or since CONFIG RESETSTAT."""

    def __init__(self) -> None:
        self.internal_errors = 0
        self.reset()

    def reset(self) -> None:
        """Set all counters to 0, that of internal errors alone stays: it counts bugs."""
        self.connections = 0
        self.rejected_connections = 0
        self.commands = 0
        self.expired_keys = 0
        self.keyspace_hits = 0
        self.keyspace_misses = 0
        self.errors: dict[str, int] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self.unexpected_error_replies = 0


class State:
    """The one object behind every context.

    records: effects of the running unit (a command, a transaction), for the journal; None without a journal.
    dirty: changes since the start.
    to_flush: clients whose replies wait for the end of the turn.
    monitors: client ID -> client, of those that see every command.
    slow_us: the option slowlog-log-slower-than.
    pause_until_ms: until when clients are paused, and pause_writes_only: which of their commands; 0: they are not.
    notify_flags: classes of keyspace events that are published; empty means none.
    """

    def __init__(self, clock: Clock, config: Config, services: Services) -> None:
        self.clock = clock
        self.config = config
        self.services = services
        self.time = TurnTime(clock.now_ms())
        self.started_ms = self.time.ms
        self.keyspace = Keyspace(config.integer("databases"), self.time)
        self.blocked = BlockedClients()
        self.clients: dict[int, Client] = {}
        self.last_client_id = 0
        self.stats = Stats()
        self.sweeper = Sweeper()
        self.records: list[Record] | None = None
        self.dirty = 0
        self.to_flush: list[Client] = []
        self.pubsub = PubSub(self.wants_flush)
        self.monitors: dict[int, Client] = {}
        self.slowlog = SlowLog()
        self.pause_until_ms = 0
        self.pause_writes_only = False
        self.paused: list[Client] = []
        self.slow_us = -1
        self.random = Random()
        events = KeyspaceEvents(self.pubsub)
        self.notify = events.publish
        self.notify_flags: frozenset[str] = frozenset()
        self._configure_events = events.configure
        self._events_changed()
        config.on_change("notify-keyspace-events", self._events_changed)
        self._slowlog_changed()
        config.on_change("slowlog-log-slower-than", self._slowlog_changed)
        self.port = config.integer("port")
        self.run_id = ""
        self.active_expire = True
        for db in self.keyspace:
            db.on_ready = self.blocked.mark_ready
            db.on_expired = self._expired

    def wants_flush(self, client: "Client") -> None:
        """Have `client.out` sent at the end of the turn."""
        if not client.flush_wanted:
            client.flush_wanted = True
            self.to_flush.append(client)

    def _events_changed(self) -> None:
        self.notify_flags = self._configure_events(self.config.text("notify-keyspace-events"))

    def _slowlog_changed(self) -> None:
        self.slow_us = self.config.integer("slowlog-log-slower-than")

    def note_slow(self, client: "Client", took_us: int, request: "list[bytes]") -> None:
        """Put a command into the slow log."""
        length_max = self.config.integer("slowlog-max-len")
        self.slowlog.add(self.time.ms // 1000, took_us, request, client.address, client.name, length_max)

    def end_pause(self) -> None:
        """Let paused clients go on."""
        self.pause_until_ms = 0
        paused, self.paused = self.paused, []
        for client in paused:
            if client.waiter is not None:
                self.services.unblock(client.waiter, NO_REPLY)
        self.supervise()

    def supervise(self) -> None:
        """Have all clients take the careful path while somebody monitors or clients are paused."""
        supervised = bool(self.monitors) or self.pause_until_ms > 0
        for client in self.clients.values():
            client.supervised = supervised
            client.update_special()

    def record(self, db_index: int, *words: bytes) -> None:
        """Note one decided effect for the journal."""
        self.dirty += 1
        if self.records is not None:
            self.records.append((db_index, list(words)))

    def _expired(self, db: Database, key: bytes) -> None:
        self.stats.expired_keys += 1
        self.record(db.index, b"DEL", key)
        if self.notify_flags:
            self.notify("x", "expired", key, db.index)
