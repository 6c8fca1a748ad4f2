"""What all clients share: keyspace, configuration, time, statistics, who waits and who listens."""

from collections.abc import Callable
from random import Random
from typing import Protocol

from streamd.acl.log import RefusalLog
from streamd.acl.users import Users
from streamd.base.clock import Clock, TurnTime
from streamd.base.config import Config
from streamd.base.errors import Busy, CommandError
from streamd.data.keyspace import Database, Keyspace
from streamd.data.records import Record, Run
from streamd.idmp.sweeper import Sweeper
from streamd.resp.types import Raw
from streamd.session.blocking import BlockedClients, Waiter
from streamd.session.client import Client
from streamd.session.keyspace_events import KeyspaceEvents
from streamd.session.monitor import redacted
from streamd.session.pubsub import PubSub
from streamd.session.slowlog import SlowLog
from streamd.stream.stream import Stream


class Journal(Protocol):
    """What the engine and commands ask of the journal; see streamd.durability.persistence.

    writers: who has written something in this turn.
    """

    writers: dict[Client, None]

    def append_unit(self, records: list[Record | Run]) -> None:
        """Take the effects of one command or one transaction, which stand or fall together."""

    def end_turn(self) -> None:
        """Let the replies of this turn leave, as soon as what it has recorded is as durable as it has to be."""

    def tick(self) -> bool:
        """Do what time demands; return whether more is to be done at once."""

    @property
    def is_rewriting(self) -> bool:
        """Whether a rewrite is running."""

    @property
    def saved_s(self) -> int:
        """The Unix time of the last rewrite, or of the start, in seconds."""

    def start_rewrite(self) -> None:
        """Begin a rewrite. Raises: CommandError; OSError."""

    def save(self) -> None:
        """Rewrite in the foreground. Raises: CommandError."""

    def reload(self, rewrite: bool) -> None:
        """Empty the keyspace and load the journal, after a rewrite if wanted. Raises: CommandError."""

    def sync_goal(self) -> int:
        """Return what is_synced() is to be asked for all that is recorded so far."""

    def is_synced(self, goal: int) -> bool:
        """Return whether what was recorded up to a goal is synced."""

    def serve_when_synced(self, waiter: Waiter[Client]) -> None:
        """Have a waiter try again after each sync; the next one begins at the end of this turn."""


class Stats:
    """Counters since the start, or since CONFIG RESETSTAT."""

    def __init__(self) -> None:
        self.internal_errors = 0
        self.reset()

    def reset(self) -> None:
        """Set all counters to 0, that of internal errors alone stays: it counts bugs."""
        self.connections = 0
        self.rejected_connections = 0
        self.expired_keys = 0
        self.errors: dict[str, int] = {}
        self.bytes_in = 0
        self.bytes_out = 0


class State:
    """The one object behind every context.

    records: effects of the running unit (a command, a transaction), for the journal; None without a journal. Those of a
        batch are a unit each.
    dirty: changes since the start.
    to_flush: clients whose replies wait for the end of the turn.
    users: who may log in; refusals: the log of what was not allowed.
    monitors: client ID -> client, of those that see every command.
    run_id: 40 hexadecimal digits, new at every start.
    persistence: returns the journal's fields of INFO, where they differ from those without a journal.
    journal: None without one.
    is_loading: a journal is being loaded. write_error: what commands that write are answered while the disk fails.
    is_full: memory is above `maxmemory`. is_busy: a script was interrupted, and is not yet at its end.
    on_restricted(is_restricted): some or all commands must be looked at one by one from now on, or no more.
    slow_ns: what is slow, from the option slowlog-log-slower-than.
    pause_until_ms: until when clients are paused, and pause_writes_only: which of their commands; 0: they are not.
    notify_flags: classes of keyspace events that are published; empty means none.
    """

    def __init__(self, clock: Clock, config: Config, users: Users) -> None:
        self.clock = clock
        self.config = config
        self.time = TurnTime(clock.now_ms())
        self.started_ms = self.time.ms
        self.keyspace = Keyspace(config.integer("databases"), self.time)
        self.blocked: BlockedClients[Client] = BlockedClients()
        self.clients: dict[int, Client] = {}
        self.last_client_id = 0
        self.stats = Stats()
        self.sweeper = Sweeper()
        self.records: list[Record | Run] | None = None
        self.dirty = 0
        self.to_flush: list[Client] = []
        self.pubsub: PubSub[Client] = PubSub(self.wants_flush)
        self.monitors: dict[int, Client] = {}
        self.slowlog = SlowLog()
        self.users = users
        self.refusals = RefusalLog()
        self.pause_until_ms = 0
        self.pause_writes_only = False
        self.paused: list[Client] = []
        self.on_restricted: Callable[[bool], None] = lambda is_restricted: None
        self.slow_ns = 0
        self.random = Random()
        events = KeyspaceEvents(self.pubsub)
        self.notify = events.publish
        self.notify_flags: frozenset[str] = frozenset()
        self._configure_events = events.configure
        self.is_loading = False
        self.is_full = False
        self.is_busy = False
        self.write_error: CommandError | None = None
        self._events_changed()
        config.on_change("notify-keyspace-events", self._events_changed)
        self._slowlog_changed()
        config.on_change("slowlog-log-slower-than", self._slowlog_changed)
        config.on_change("stream-node-max-entries", self._node_size_changed)
        self.port = config.integer("port")
        self.run_id = f"{self.random.getrandbits(160):040x}"
        self.persistence: Callable[[], dict[str, object]] = dict
        self.active_expire = True
        self.journal: Journal | None = None
        for db in self.keyspace:
            db.on_ready = self.blocked.mark_ready
            db.on_expired = self._expired

    def _node_size_changed(self) -> None:
        """Have the next entry of every stream follow the new size, as in Redis."""
        entries = self.config.integer("stream-node-max-entries")
        for db in self.keyspace:
            for value in db.values.values():
                if type(value) is Stream:
                    value.log.node_max_entries = entries

    def set_loading(self, is_loading: bool) -> None:
        """Say whether a journal is being loaded: then only commands with the flag `loading` are taken."""
        self.is_loading = is_loading
        self.restrict()

    def refuse_writes(self, error: CommandError | None) -> None:
        """Answer `error` to commands that write, from now on; None: take them again."""
        self.write_error = error
        self.restrict()

    def refuse_growth(self, is_full: bool) -> None:
        """Say whether commands with the flag `denyoom` are refused, because memory is above its limit."""
        if is_full != self.is_full:
            self.is_full = is_full
            self.restrict()

    def set_busy(self, is_busy: bool) -> None:
        """Say whether a script is interrupted: then only commands with the flag `allow_busy` are taken."""
        self.is_busy = is_busy
        self.restrict()

    def restrict(self) -> None:
        """Say again whether commands must be looked at one by one: after a reason for that came or went."""
        self.on_restricted(
            self.is_loading
            or self.is_busy
            or self.is_full
            or self.write_error is not None
            or bool(self.monitors)
            or self.pause_until_ms > 0
        )

    def check_restrictions(self, flags: frozenset[str]) -> None:
        """Raise the error that a command with these flags meets at present, if any."""
        if self.is_busy and "allow_busy" not in flags:
            raise Busy()
        if self.is_loading and "loading" not in flags:
            raise CommandError("LOADING Redis is loading the dataset in memory")
        if self.write_error is not None and "write" in flags:
            raise self.write_error
        if self.is_full and "denyoom" in flags:
            raise CommandError("OOM command not allowed when used memory > 'maxmemory'.")

    def show_monitors(self, line: bytes) -> None:
        """Send a line to every client that monitors."""
        for monitor in self.monitors.values():
            monitor.reply(Raw(b"+%b\r\n" % line))
            self.wants_flush(monitor)

    def wants_flush(self, client: Client) -> None:
        """Have `client.out` sent at the end of the turn."""
        if not client.flush_wanted:
            client.flush_wanted = True
            self.to_flush.append(client)

    def _events_changed(self) -> None:
        self.notify_flags = self._configure_events(self.config.text("notify-keyspace-events"))
        for db in self.keyspace:
            db.on_new = self._new if "n" in self.notify_flags else None
            db.on_miss = self._missed if "m" in self.notify_flags else None

    def _new(self, db: Database, key: bytes) -> None:
        self.notify("n", "new", key, db.index)

    def _missed(self, db: Database, key: bytes) -> None:
        self.notify("m", "keymiss", key, db.index)

    def _slowlog_changed(self) -> None:
        slow_us = self.config.integer("slowlog-log-slower-than")
        self.slow_ns = slow_us * 1000 if slow_us >= 0 else 2**63

    def note_slow(self, client: Client, took_us: int, request: list[bytes]) -> None:
        """Put a command into the slow log."""
        length_max = self.config.integer("slowlog-max-len")
        self.slowlog.add(self.time.ms // 1000, took_us, redacted(request), client.address, client.name, length_max)

    def record(self, db_index: int, *words: bytes) -> None:
        """Note one decided effect for the journal."""
        self.dirty += 1
        if self.records is not None:
            self.records.append((db_index, list(words)))

    def pack(self) -> None:
        """Take no more memory for what there is than it needs, whatever there was."""
        for db in self.keyspace:
            db.pack()
        self.sweeper.pack()
        self.slowlog.pack()

    def _expired(self, db: Database, key: bytes) -> None:
        self.stats.expired_keys += 1
        self.record(db.index, b"DEL", key)
        if self.notify_flags:
            self.notify("x", "expired", key, db.index)
