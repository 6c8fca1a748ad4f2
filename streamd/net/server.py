"""The server: sockets, timers and signals around one engine."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial

from streamd.base.clock import Clock, ManualClock
from streamd.base.filesystem import FileSystem
from streamd.base.heap import IdleTrim
from streamd.base.limits import LOAD_TURN_US, STOP_S
from streamd.base.log import log
from streamd.cold.settings import check_stream_memory
from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import Config
from streamd.connected.replication_ports import Alone
from streamd.durability.persistence import Persistence
from streamd.engine.engine import Engine
from streamd.journal.jobs import Done, Pending
from streamd.journal.recovery import DamagedError
from streamd.net import tls, unix_socket
from streamd.net.admin import NO_LIBRARY, AdminConnection
from streamd.net.connection import Connection
from streamd.net.encrypted import EncryptedListeners
from streamd.net.listeners import LISTENERS, UNIX, AddressError, Listener, keep_alive
from streamd.net.measures import MeasuredFiles, Measures
from streamd.net.moving import Moving
from streamd.net.replica_link import Connector, check_replication, primary_of
from streamd.net.threads import JournalThread
from streamd.net.transferring import transfer
from streamd.replication.replication import Replication


class Server:
    """Listens, and runs the engine's turns and timers on the running loop.

    addresses: those of TCP; paths: of Unix sockets.
    start() -> serving at these; stop() -> every accepted request answered, every socket closed.
    `stopped` is done when a client's SHUTDOWN, or stop(), has ended the server. journal_failure: why the journal
    could not be written, which has ended it. inherited: listening sockets that are served in place of the
    addresses of the configuration. admin_addresses: of the admin port.
    """

    def __init__(self, config: Config | None = None, clock: Clock | None = None) -> None:
        self.config = config or Config()
        self.clock = clock or Clock()
        self.engine = Engine(self.clock, self.config)
        self.engine.on_shutdown = self._shutdown_requested
        self.engine.transfer = transfer
        self.engine.scripts.on_interrupted = lambda: self._loop.call_soon(self._go_on)
        self.connections: set[Connection] = set()
        self.addresses: list[tuple[str, int]] = []
        self.admin_addresses: list[tuple[str, int]] = []
        self.admin_connections: dict[AdminConnection, None] = {}
        self.inherited: list[socket.socket] = []
        self.paths: list[str] = []
        self._listeners: list[asyncio.Server] = []
        self._encrypted = EncryptedListeners(self.config, self._listeners)
        # Read certificates and keys again, for connections that come from now on. Raises: ConfigError.
        self.reload_tls: Callable[[], None] = self._encrypted.reload
        self._turn_ending = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._cron: asyncio.TimerHandle | None = None
        self._stopping = False
        self._checked_s = 0
        self._trim = IdleTrim(self.engine.state.packing)
        self.persistence: Persistence | None = None
        self._reading_thread: JournalThread | None = None
        self._moving: Moving | None = None
        self.journal_failure: str | None = None
        self.measures = Measures() if self.config.integer("admin-port") else None
        self._is_ready = False
        self._expose: Callable[[Server, Callable[[str], object]], Iterator[int]] | None = None

    async def start(self, on_progress: Callable[[Persistence], None] | None = None) -> None:
        """Listen on the configured addresses, and load the journal if there is one.

        on_progress: called after each slice of loading. Raises: AddressError; ConfigError of TLS and replication;
        LockedError, DamagedError, LoadError, OSError of the journal.
        """
        self._loop = asyncio.get_running_loop()
        self.stopped: asyncio.Event = asyncio.Event()
        self._is_tick_near = False
        self.engine.want_turn = self._tick_soon
        if self.measures is not None:
            self._prepare_metrics()
        check_replication(self.config)
        check_stream_memory(self.config)
        self.engine.absences.submit = self._read_beside
        if self.config["appendonly"]:
            self._open_journal()
        try:
            await self._listen()
            self.engine.state.port = self.addresses[0][1] if self.addresses else 0
            if self.persistence is not None:
                await self._load_journal(self.persistence, on_progress or (lambda persistence: None))
        except BaseException:
            await self._close_listeners()
            self._close_journal()
            raise
        for name in ("appendonly", "stream-memory", "stream-segment-compression"):
            self.config.on_change(name, partial(check_stream_memory, self.config))
        self.config.on_change("appendonly", self._appendonly_changed)
        self.config.on_change("stream-memory", self._stream_memory_changed)
        self.config.on_change("min-replicas-to-write", partial(check_replication, self.config))
        self._encrypted.follow_options()
        if isinstance(self.clock, ManualClock):
            self.clock.on_move(lambda: self._from_any_thread(self._clock_moved))
        self._is_ready = True
        self._run_cron()

    def _prepare_metrics(self) -> None:
        """Import the metrics' library now: that takes long the first time, and no client waits yet."""
        try:
            from streamd.net.exposition import expose
        except ImportError:
            log.warning("metrics-missing", "no /metrics on the admin port: %s", NO_LIBRARY.strip())
        else:
            self._expose = expose

    def scrape(self, write: Callable[[str], object]) -> Iterator[int] | None:
        """Hand the metrics to `write`, a slice each time it is asked; None where their library is missing."""
        return self._expose(self, write) if self._expose is not None else None

    @property
    def why_not_ready(self) -> str | None:
        """The reason why clients are not, or not fully, served; None: they are."""
        state = self.engine.state
        if self._stopping:
            return "stopping"
        if state.is_loading or not self._is_ready:
            return "loading the journal"
        return None if state.write_error is None else str(state.write_error)

    def _open_journal(self, anew: bool = False) -> Persistence:
        self._journal_thread = JournalThread(self._loop, self.end_turn)
        self._rewrite_thread = JournalThread(self._loop, self._run_cron_now, "streamd-rewrite")
        persistence = self.persistence = Persistence(
            self.engine.state,
            FileSystem() if self.measures is None else MeasuredFiles(self.measures.syncs),
            self.config.text("dir"),
            self._journal_thread,
            self._rewrite_thread.submit,
            self._journal_failed,
            self.engine.serve,
        )
        self._moving = Moving(
            self.engine.state, self._begin_moving_thread, persistence.rewriting.plan, self._read_beside
        )
        if self.measures is not None:
            persistence.barrier.held_us = self.measures.barrier.observe
        try:
            if anew:
                persistence.begin_anew()
            else:
                persistence.open()
        except BaseException:
            self._close_journal()
            raise
        return persistence

    def _appendonly_changed(self) -> None:
        """Begin or end the journal. Raises: ConfigError with Redis's text."""
        if not self.config["appendonly"]:
            replication = self.engine.state.replication
            if isinstance(replication, Replication) and replication.is_needed:
                raise ConfigError("a replica, and a primary with replicas, need their journal")
            if self.engine.state.cold is not None:
                raise ConfigError("entries of streams are still on the disk alone; stream-memory 0 brings them back")
            self._close_journal()
        elif self.persistence is None:
            try:
                persistence = self._open_journal(anew=True)
                self.engine.state.replication = self._make_replication(persistence)
            except (DamagedError, OSError) as error:
                log.warning("journal-not-begun", "the journal could not be begun: %s", error)
                raise ConfigError("Unable to turn on AOF. Check server logs.")

    def _stream_memory_changed(self) -> None:
        """Have entries moved to the disk, or brought back from there. Raises: ConfigError."""
        if self.persistence is not None:
            self.persistence.set_stream_memory(self.config.integer("stream-memory"))

    def _read_beside(self, job: Callable[[], None], done: Done) -> Pending:
        """Have blocks of segment files read by a thread, which begins with the first ones."""
        if self._reading_thread is None:
            self._reading_thread = JournalThread(self._loop, lambda: None, "streamd-reading")
        return self._reading_thread.submit(job, done)

    def _begin_moving_thread(self) -> JournalThread:
        return JournalThread(self._loop, self._run_cron_now, "streamd-moving")

    async def _load_journal(self, persistence: Persistence, on_progress: Callable[[Persistence], None]) -> None:
        """Load in slices; clients get -LOADING meanwhile."""
        replication = self.engine.state.replication = self._make_replication(persistence)
        replication.expect_role(primary_of(self.config))
        until_us = self.clock.monotonic_us() + LOAD_TURN_US
        for _ in persistence.load():
            if self.clock.monotonic_us() >= until_us:
                on_progress(persistence)
                await asyncio.sleep(0)
                until_us = self.clock.monotonic_us() + LOAD_TURN_US
        replication.take_role(primary_of(self.config))
        persistence.begin()
        replication.begin()

    def _make_replication(self, persistence: Persistence) -> Replication:
        self._connector = Connector(self._loop, self.config, self.clock)
        engine = self.engine
        return Replication(
            engine.state,
            persistence,
            self._connector,
            engine.serve,
            engine.serve_and_resume,
            engine.end_waits,
            engine.end_pause,
            engine.connect,
            self.end_turn,
        )

    def _journal_failed(self, reason: str) -> None:
        """Stop without sending anything: unacknowledged writes must stay so."""
        log.critical("journal-failed", "%s", reason)
        self.journal_failure = reason
        for connection in list(self.connections):
            connection.abort()
        self._loop.call_soon(self.request_stop)

    def _close_journal(self) -> None:
        replication = self.engine.state.replication
        if isinstance(replication, Replication):
            replication.close()
        if self._reading_thread is not None:
            self._reading_thread.close()
            self._reading_thread = None
        if self._moving is not None:
            self._moving.close()
            self._moving = None
        self.engine.scripts.close()
        if self.persistence is not None:
            failure = self.persistence.close()
            self.engine.state.replication = Alone(self.engine.state.run_id)
            if self._stopping:
                self.journal_failure = self.journal_failure or failure
            self._journal_thread.close()
            self._rewrite_thread.close()
            self.persistence = None

    async def _listen(self) -> None:
        for listener in LISTENERS:
            free_port = 0  # where the configuration says 0, all places of a listener share the one that is found
            if self.inherited and listener is LISTENERS[0]:
                for sock in self.inherited:
                    self._take_listener(
                        await self._loop.create_server(partial(listener.serve, self), sock=sock), listener
                    )
                continue
            places = listener.places(self.config)
            context = tls.make_context(self.config) if listener.is_encrypted and places else None
            for host, port, may_fail in places:
                try:
                    made = await self._open(listener, host, port or free_port, context)
                except (OSError, UnicodeError) as error:  # the latter for a name that no DNS name can be
                    if may_fail:
                        continue
                    await self._close_listeners()
                    where = host if port == UNIX else f"{host} port {port}"
                    line = f"cannot listen on {where}: {getattr(error, 'strerror', None) or error}"
                    raise AddressError(line, listener.flags)
                free_port = self._take_listener(made, listener)
        if not self.addresses and not self.paths:
            raise AddressError(f"no address of '{self.config.text('bind')}' could be listened on")

    def _take_listener(self, made: asyncio.Server, listener: Listener) -> int:
        """Note a listener and its address; return the last port."""
        self._listeners.append(made)
        port = 0
        for sock in made.sockets:
            name = sock.getsockname()
            if sock.family == socket.AF_UNIX:
                self.paths.append(str(name))
                continue
            keep_alive(sock, self.config.integer("tcp-keepalive"))
            host, port = name[:2]
            (self.admin_addresses if listener.is_admin else self.addresses).append((host, port))
        return port

    async def _open(self, listener: Listener, host: str, port: int, context: ssl.SSLContext | None) -> asyncio.Server:
        """Listen at one place. Raises: OSError."""
        serve, backlog = partial(listener.serve, self), self.config.integer("tcp-backlog")
        if port == UNIX:
            sock = unix_socket.bind(host, self.config.integer("unixsocketperm"))
            return await self._loop.create_unix_server(serve, sock=sock, backlog=backlog)
        if context is None:
            return await self._loop.create_server(serve, host, port, backlog=backlog)
        return await self._encrypted.open(serve, host, port, context)

    # -- turns and timers -----------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """End the running turn: once for all sockets read in this loop iteration, one iteration later; at once for a
        client that was alone for a while.
        """
        if not self._turn_ending:
            self._turn_ending = True
            if self.engine.gathering.is_shared:
                self._loop.call_soon(self._end_shared_turn)
            else:
                self._end_shared_turn()

    def _end_shared_turn(self) -> None:
        if self.engine.gathering.turns_sync and self.engine.gathering.looks_again():
            self._loop.call_soon(self._end_shared_turn)
            return
        self._turn_ending = False
        self.engine.end_turn()
        if self.measures is not None:
            self.measures.end_turn()
        if self.engine.state.blocked.count:
            self._arm_timer()

    def resume_soon(self, connection: Connection) -> None:
        """Process a connection's waiting requests in a turn of their own, after other clients' turns."""

        def resume() -> None:
            if connection.client is not None and not connection.client.closed:
                connection.resume()
                self.end_turn()

        self._loop.call_soon(resume)

    def _go_on(self) -> None:
        """Go on with the script that keeps the server busy."""
        if not self._stopping:
            self.engine.go_on()
            self.end_turn()

    def _arm_timer(self) -> None:
        """Wake up when the next blocked client's time is up."""
        due_ms = self.engine.state.blocked.next_due_ms(self.clock)
        if due_ms is None or (self._timer_ms is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self._loop.call_later(max(0, due_ms - self.clock.monotonic_ms()) / 1000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = self._timer_ms = None
        self.engine.tick()
        if self.engine.state.blocked.count and not isinstance(self.clock, ManualClock):
            self._arm_timer()

    def _tick_soon(self) -> None:
        if not self._is_tick_near:
            self._is_tick_near = True
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._is_tick_near = False
        self.engine.tick()

    def _run_cron(self) -> None:
        more, time = False, self.engine.state.time
        # No request since then has noted a later one: by this no client seems to be idle for what others' turns took.
        noted_ms = time.monotonic_ms
        try:
            if self._moving is not None:
                self._moving.look()
            more = self.engine.cron()
            now_ms = time.monotonic_ms
            if now_ms // 1000 != self._checked_s:
                self._checked_s = now_ms // 1000
                calls = sum(one.calls for one in self.engine.commands.leaves())
                self.engine.state.stats.sample(now_ms, calls, *self.engine.state.traffic_bytes())
                self._look_for_left(noted_ms)
            if not more:
                state = self.engine.state
                stats, changes = state.stats, state.dirty + state.keyspace.trash.freed
                self._trim.look(changes, stats.sampled_bytes, sum(stats.per_second[1:]))
        except Exception:
            self.engine.calls.bug("the cron")
        delay = 0.0 if more else 1 / self.config.integer("hz")
        self._cron = self._loop.call_later(delay, self._run_cron)

    def _run_cron_now(self) -> None:
        if self._cron is not None and not self._stopping:
            self._cron.cancel()
            self._run_cron()

    def _look_for_left(self, now_ms: int) -> None:
        for connection in list(self.connections):
            connection.close_if_left(now_ms)

    def _clock_moved(self) -> None:
        self.engine.tick()
        while self.engine.cron():
            pass
        self._look_for_left(self.engine.state.time.monotonic_ms)

    def _from_any_thread(self, action: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            pass  # the loop has ended, and with it everything that a new time could change

    # -- the end --------------------------------------------------------------------------------------------------

    def _shutdown_requested(self, save: bool | None) -> None:
        log.warning("shutdown", "User requested shutdown...")
        if save and self.persistence is not None:
            self.persistence.save()
        self._loop.call_soon(self.request_stop)

    def request_stop(self) -> None:
        """Stop from a signal handler or a command; `stopped` is set when it is done."""
        if not self._stopping:
            self._stop_task = self._loop.create_task(self.stop())

    async def stop(self) -> None:
        """Stop: accept no connections, answer received requests, let replies leave, close sockets."""
        if self._stopping:
            await self.stopped.wait()
            return
        self._stopping = True
        for listener in self._listeners:
            listener.close()
        for timer in (self._cron, self._timer):
            if timer is not None:
                timer.cancel()
        for connection in list(self.connections):
            # What comes from now on is read by nobody: otherwise clients that go on writing keep the barrier busy.
            connection.pause_writing()
        self.engine.end_turn()
        deadline = self._loop.time() + STOP_S
        while self._is_answering() and self._loop.time() < deadline:
            await asyncio.sleep(0.001)
        for connection in list(self.connections):
            connection.close()
        while self.connections and self._loop.time() < deadline:
            await asyncio.sleep(0.005)
        for connection in list(self.connections):
            connection.abort()
        await self._close_listeners()
        self._close_journal()
        self.stopped.set()

    def _is_answering(self) -> bool:
        """Return whether replies wait for the journal or for blocks of segment files, or are being made."""
        if self.persistence is not None and self.persistence.barrier.is_holding:
            return True
        if self.engine.state.blocked.reading:
            return True
        return any(one.client is not None and one.client.unfinished is not None for one in self.connections)

    async def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        for path in self.paths:
            unix_socket.remove(path)
