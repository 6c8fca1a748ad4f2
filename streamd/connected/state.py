"""The state that all clients share: keyspace, configuration, time, statistics, blocked clients and subscribers."""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final

from streamd.acl.refusals import RefusalLog
from streamd.acl.users import Users
from streamd.base.clock import Clock, TurnTime
from streamd.base.errors import CODE_CHARACTERS_MAX, CommandError, error_code
from streamd.base.filesystem import Identity
from streamd.base.log import log
from streamd.cold.store import ColdStore
from streamd.configuration.server_options import Config
from streamd.connected.blocking import BlockedClients
from streamd.connected.client import Client
from streamd.connected.durability_ports import Journal, Mover
from streamd.connected.keyspace_events import ALL_CLASSES, KeyspaceEvents
from streamd.connected.latency import Latency
from streamd.connected.monitor import redacted
from streamd.connected.pubsub import PubSub
from streamd.connected.replication_ports import Alone, Replication
from streamd.connected.slowlog import SlowLog, SlowLogBounds
from streamd.connected.tracking import Tracking
from streamd.data.followers import EveryKey
from streamd.data.keyspace import Database, Keyspace
from streamd.data.records import ColumnsRecord, Record
from streamd.idmp.sweeper import Sweeper
from streamd.lua.libraries import Libraries
from streamd.resp.types import Raw
from streamd.stream.stream import Stream

# So many error codes are counted apart, as in Redis: a script can make any number. All further ones count together,
# under the name by which Redis says that it counts no more.
ERROR_CODES_MAX: Final = 128
FURTHER_CODES: Final = "ERRORSTATS_DISABLED"

_NOTHING: Final[frozenset[str]] = frozenset()
_WRITES: Final = frozenset({"write"})
_GROWTH: Final = frozenset({"denyoom"})


class Stats:
    """Counters since the start, or since CONFIG RESETSTAT.

    bytes_in, bytes_out: of clients that are gone; present clients count their own.
    """

    def __init__(self) -> None:
        self.internal_errors = 0
        self.reset()

    def reset(self) -> None:
        """Set all counters to 0, except that of internal errors, which counts bugs."""
        self.connections = 0
        self.rejected_connections = 0
        self.expired_keys = 0
        self.expired_fields = 0
        self.errors: dict[str, int] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self._sampled = (0, 0, 0, 0)
        self.per_second = (0.0, 0.0, 0.0)

    def sample(self, now_ms: int, calls: int, bytes_in: int, bytes_out: int) -> None:
        """Note the counters, about once a second: `per_second` gives the rates since the last time, of commands, bytes
        received and bytes sent.
        """
        then_ms, *then = self._sampled
        self._sampled = (now_ms, calls, bytes_in, bytes_out)
        took_s = (now_ms - then_ms) / 1000
        if then_ms and took_s > 0:
            commands, received, sent = [
                max(0, new - old) / took_s for new, old in zip(self._sampled[1:], then, strict=True)
            ]
            self.per_second = (commands, received, sent)

    @property
    def sampled_bytes(self) -> int:
        """The bytes received and sent at the last sample."""
        return self._sampled[2] + self._sampled[3]

    def count_error(self, error: CommandError) -> None:
        """Count an error by its code, as `error_code` shows it."""
        errors, line = self.errors, str(error)
        code = line[:CODE_CHARACTERS_MAX].partition(" ")[0]
        if code not in errors:
            code = error_code(line)
            if code not in errors and len(errors) >= ERROR_CODES_MAX:
                code = FURTHER_CODES
        errors[code] = errors.get(code, 0) + 1


class State:
    """The one object behind every context.

    records: effects of the running unit (a command, a transaction), for the journal; None without a journal. Those of a
        batch are a unit each.
    dirty: changes since the start.
    to_flush: clients whose replies wait for the end of the turn.
    tracking: of all clients, see CLIENT TRACKING.
    users: with their rules; refusals: the log of refused requests.
    monitors: client ID -> client, of those that see every command.
    run_id: 40 hexadecimal digits, new at every start.
    persistence: returns the fields of INFO that a journal changes.
    journal: None without one. mover: writes the entries of streams to segment files, None while all are in memory.
    read_only: the error for commands that write, on a replica; None on a primary. lacks_replicas: the same while there
        are fewer replicas than `min-replicas-to-write`. stale: the error for most commands while a replica without its
        link is not to show what it has. stream_defaults: on a replica, the
        primary's settings for new streams: seconds, idempotent IDs of a producer.
    is_loading: a journal is being loaded. write_error: the error for commands that write while the disk fails.
    is_full: memory is above `maxmemory`. is_busy: a script was interrupted, and is not yet at its end; busy_error:
        returns the error for most commands then.
    cold: what keeps sealed nodes of streams in files; None: they are all in memory. libraries: the functions.
    on_restricted(flags): commands with one of these flags must be checked one by one from now on, None: all of them.
    slow_ns: times above it are noted, in the slow log or for LATENCY. log_slow_ns: in the slow log.
    started_ms: the Unix time of the start.
    pause_until_ms: the monotonic time until which clients are paused, 0: they are not; pause_writes_only: which of
        their commands. writes_wait: a failover has begun, and writes wait for its end, whatever that pause says.
    forget(client): ends a client, and all that it waits for.
    active_expire: whether expired keys are removed in the background; scripts_may_all: whether scripts may call
        commands that are not for them; both for tests, see DEBUG.
    notify_flags: classes of published keyspace events; empty means none. All of them while every change is followed:
        then writes are executed one by one.
    """

    def __init__(self, clock: Clock, config: Config, users: Users) -> None:
        self.clock = clock
        self.config = config
        self.time = TurnTime(clock)
        self.started_ms = self.time.ms
        self._started_monotonic_ms = self.time.monotonic_ms
        self.cold: ColdStore | None = None
        self.keyspace = Keyspace(config.integer("databases"), self.time)
        self.libraries = Libraries(config.integer("lua-memory-max"))
        self.blocked: BlockedClients[Client] = BlockedClients()
        self.clients: dict[int, Client] = {}
        self.last_client_id = 0
        self.stats = Stats()
        self.sweeper = Sweeper()
        self.records: list[Record | ColumnsRecord] | None = None
        self.dirty = 0
        self.to_flush: list[Client] = []
        self.pubsub: PubSub[Client] = PubSub(self.wants_flush)
        self.monitors: dict[int, Client] = {}
        self.slowlog = SlowLog()
        self.latency = Latency()
        self.users = users
        self.refusals = RefusalLog()
        self.pause_until_ms = 0
        self.pause_writes_only = self.writes_wait = False
        self.paused: list[Client] = []
        self.on_restricted: Callable[[frozenset[str] | None], None] = lambda flags: None
        self.slow_ns = self.log_slow_ns = 0
        self.random = Random()
        events = KeyspaceEvents(self.pubsub)
        self.notify = events.publish
        self.notify_flags: frozenset[str] = frozenset()
        followers = self.keyspace.followers
        free = self.keyspace.trash.add
        self.tracking = Tracking(self.clients, followers, self.wants_flush, self._events_changed, free, self.lose)
        self.forget: Callable[[Client], None] = lambda client: None
        self._configure_events = events.configure
        self.is_loading = False
        self.is_full = False
        self.is_busy = False
        self.busy_error: Callable[[], CommandError] | None = None
        self.write_error: CommandError | None = None
        self._events_changed()
        config.on_change("notify-keyspace-events", self._events_changed)
        self._slowlog_changed()
        for name in ("slowlog-log-slower-than", "latency-monitor-threshold", "latency-tracking"):
            config.on_change(name, self._slowlog_changed)
        config.on_change("stream-node-max-entries", self._node_size_changed)
        self._kept_keys_changed()
        config.on_change("tracking-table-max-keys", self._kept_keys_changed)
        self.port = config.integer("port")
        self.run_id = f"{self.random.getrandbits(160):040x}"
        self.persistence: Callable[[], dict[str, object]] = dict
        self.replication: Replication = Alone(self.run_id)
        self.read_only: CommandError | None = None
        self.lacks_replicas: CommandError | None = None
        self.stale: CommandError | None = None
        self.stream_defaults: tuple[int, int] | None = None
        self.active_expire = True
        self.scripts_may_all = False
        self.journal: Journal | None = None
        self.mover: Mover | None = None
        # What this process has loaded or written of the journal that ended last, by path: `appendonly yes` asks.
        self.own_files: Mapping[str, Identity] = {}
        for db in self.keyspace:
            db.on_ready = self.blocked.mark_ready
            db.on_expired = self._expired
            db.on_fields_expired = self._fields_expired

    def _node_size_changed(self) -> None:
        """Apply the new size from each stream's next entry on, as in Redis."""
        entries = self.config.integer("stream-node-max-entries")
        for db in self.keyspace:
            for value in db.values.values():
                if type(value) is Stream:
                    value.log.node_max_entries = entries

    def _kept_keys_changed(self) -> None:
        self.tracking.limit(self.config.integer("tracking-table-max-keys"))

    def set_loading(self, is_loading: bool) -> None:
        """Say whether a journal is being loaded: then only commands with the flag `loading` are taken."""
        self.is_loading = is_loading
        self.restrict()

    def refuse_writes(self, error: CommandError | None) -> None:
        """Answer `error` to commands that write, from now on; None: take them again."""
        self.write_error = error
        self.restrict()

    def set_replica(self, error: CommandError | None) -> None:
        """Say whether this server is a replica, which answers `error` to commands that write and removes nothing by
        itself.
        """
        self.read_only = error
        if error is None:
            self.stream_defaults = None
        for db in self.keyspace:
            db.keeps_expired = error is not None
        self.restrict()

    def set_stale(self, error: CommandError | None) -> None:
        """Answer `error` to commands without the flag `stale`, from now on; None: take them again."""
        if error is not self.stale:
            self.stale = error
            self.restrict()

    def need_replicas(self, error: CommandError | None) -> None:
        """Answer `error` to commands that write, from now on; None: take them again."""
        if error is not self.lacks_replicas:
            self.lacks_replicas = error
            self.restrict()

    def refuse_growth(self, is_full: bool) -> None:
        """Say whether commands with the flag `denyoom` are refused, because memory is above its limit."""
        if is_full != self.is_full:
            self.is_full = is_full
            self.restrict()

    def set_busy(self, error: Callable[[], CommandError] | None) -> None:
        """Answer what `error` returns to commands without the flag `allow_busy`, because a script is interrupted.

        None: take them again.
        """
        self.busy_error = error
        self.is_busy = error is not None
        self.restrict()

    def restrict(self) -> None:
        """Update whether commands must be checked one by one, after a reason for that came or went."""
        if (
            self.is_loading
            or self.is_busy
            or self.stale is not None
            or bool(self.monitors)
            or self.pause_until_ms > 0
            or self.writes_wait
            or self.scripts_may_all
        ):
            self.on_restricted(None)
            return
        takes_no_writes = (self.write_error, self.read_only, self.lacks_replicas) != (None, None, None)
        self.on_restricted((_WRITES if takes_no_writes else _NOTHING) | (_GROWTH if self.is_full else _NOTHING))

    def check_restrictions(self, flags: frozenset[str]) -> None:
        """Raise the error that a command with these flags gets at present, if any."""
        if self.busy_error is not None and "allow_busy" not in flags:
            raise self.busy_error()
        if self.is_loading and "loading" not in flags:
            raise CommandError("LOADING Redis is loading the dataset in memory")
        if self.stale is not None and "stale" not in flags:
            raise self.stale
        if self.read_only is not None and "write" in flags:
            raise self.read_only
        if self.lacks_replicas is not None and "write" in flags:
            raise self.lacks_replicas
        if self.write_error is not None and "write" in flags:
            raise self.write_error
        if self.is_full and "denyoom" in flags:
            raise CommandError("OOM command not allowed when used memory > 'maxmemory'.")

    def show_monitors(self, line: bytes) -> None:
        """Send a line to every client in MONITOR."""
        for monitor in self.monitors.values():
            monitor.reply(Raw(b"+%b\r\n" % line))
            self.wants_flush(monitor)

    def up_s(self) -> int:
        """Return the seconds since the start."""
        return (self.clock.monotonic_ms() - self._started_monotonic_ms) // 1000

    def traffic_bytes(self) -> tuple[int, int]:
        """Return the bytes received from and sent to clients."""
        clients, stats = self.clients.values(), self.stats
        return (
            stats.bytes_in + sum(client.bytes_in for client in clients),
            stats.bytes_out + sum(client.bytes_out for client in clients),
        )

    def reset_stats(self) -> None:
        """Set all statistics to zero, except those of commands."""
        self.stats.reset()
        self.latency.commands.clear()
        bytes_in, bytes_out = self.traffic_bytes()
        self.stats.bytes_in, self.stats.bytes_out = -bytes_in, -bytes_out
        for db in self.keyspace:
            db.hits = db.misses = 0

    def wants_flush(self, client: Client) -> None:
        """Have `client.out` sent at the end of the turn."""
        if not client.flush_wanted:
            client.flush_wanted = True
            self.to_flush.append(client)

    def flush(self, clients: list[Client]) -> None:
        """Let the output of some clients leave."""
        for client in clients:
            client.flush_wanted = False
            try:
                client.flush()
            except Exception:
                self.lose(client, "the output of a client")

    # -- bugs -----------------------------------------------------------------------------------------------------

    def note_bug(self, where: str, may_have_changed: bool = True, error: BaseException | None = None) -> None:
        """Log and count an unexpected exception: `error`, or the one that is being handled.

        may_have_changed: values may differ from the journal. It is then rewritten, so that a start does not restore
        another state, or find a record that it cannot apply.
        """
        log.exception("bug", "a bug in %s", where, error=error)
        self.stats.internal_errors += 1
        if may_have_changed and self.journal is not None:
            self.journal.doubt()
            self.replication.doubt()

    def lose(self, client: Client, where: str) -> None:
        """Note the exception that is being handled, and close a client that it may have cost a reply or a message: the
        client would wait for that forever, or take another one for it.
        """
        self.note_bug(where)
        try:
            self.forget(client)
            client.out.clear()
            client.kill()
        except Exception:
            self.note_bug("closing a client")

    def guard(self, client: Client, where: str, work: Callable[..., object], *arguments: object) -> None:
        """Do the pending work for a client, which is then no longer pending. Raises: nothing; see `lose`."""
        try:
            work(*arguments)
        except Exception:
            self.lose(client, where)

    def _events_changed(self) -> None:
        published = self._configure_events(self.config.text("notify-keyspace-events"))
        for db in self.keyspace:
            db.on_new = self._new if "n" in published else None
            db.on_miss = self._missed if "m" in published else None
        followers = self.keyspace.followers
        self.notify_flags = ALL_CLASSES if followers.follows_all else published
        for db in self.keyspace:
            db.followed = EveryKey() if self.notify_flags else followers.keys

    def _new(self, db: Database, key: bytes) -> None:
        self.notify("n", "new", key, db.index)

    def _missed(self, db: Database, key: bytes) -> None:
        self.notify("m", "keymiss", key, db.index)

    def _slowlog_changed(self) -> None:
        slow_us = self.config.integer("slowlog-log-slower-than")
        self.log_slow_ns = slow_us * 1000 if slow_us >= 0 else 2**63
        latency = self.latency
        latency.threshold_ms = self.config.integer("latency-monitor-threshold")
        latency.is_tracking = bool(self.config["latency-tracking"])
        # Who times commands compares with one number, so that what is not asked for costs nothing.
        self.slow_ns = min(self.log_slow_ns, latency.threshold_ms * 1_000_000 or 2**63)
        if latency.is_tracking:
            self.slow_ns = 0
        else:
            latency.commands.clear()

    def note_slow(self, client: Client, took_us: int, request: list[bytes]) -> None:
        """Put a command into the slow log."""
        names = "slowlog-max-len", "slowlog-entry-max-argc", "slowlog-entry-max-string-len"
        bounds = SlowLogBounds(*map(self.config.integer, names))
        self.slowlog.add(self.time.ms // 1000, took_us, redacted(request), client.address, client.name, bounds)

    def record(self, db_index: int, words: list[bytes], changes: int = 1) -> None:
        """Note one decided effect for the journal, by a list that nobody else changes; it counts as `changes`."""
        self.dirty += changes
        if self.records is not None:
            self.records.append((db_index, words))

    def packing(self) -> Iterator[None]:
        """Give back memory that removed elements have left unused, a part at each call."""
        for db in self.keyspace:
            yield from db.packing()
        self.sweeper.pack()
        yield
        self.slowlog.pack()

    def _expired(self, db: Database, keys: list[bytes]) -> None:
        self.stats.expired_keys += len(keys)
        for key in keys:
            self.record(db.index, [b"DEL", key])
        if self.notify_flags:
            for key in keys:
                self.notify("x", "expired", key, db.index)

    def _fields_expired(self, db: Database, key: bytes, fields: list[bytes]) -> None:
        self.stats.expired_fields += len(fields)
        self.record(db.index, [b"HDEL", key, *fields])
        if self.notify_flags:
            self.notify("h", "hexpired", key, db.index, fields)
            if key not in db.values:
                self.notify("g", "del", key, db.index)
