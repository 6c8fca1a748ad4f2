"""A gateway: its connections to the store, its logs, its clients, and what is due now and then."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, cast

import redis.asyncio

from streamd.clients.mqtt.access import Access, ClientRights, Rights
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.applications import Applications
from streamd.clients.mqtt.gateway.away import Away
from streamd.clients.mqtt.gateway.chores import Chores
from streamd.clients.mqtt.gateway.client_locks import ClientLocks
from streamd.clients.mqtt.gateway.connecting import Connecting
from streamd.clients.mqtt.gateway.connection import STALLED_S, Connection
from streamd.clients.mqtt.gateway.counters import Counters
from streamd.clients.mqtt.gateway.delivering import Delivery
from streamd.clients.mqtt.gateway.handing_over import HandingOver
from streamd.clients.mqtt.gateway.keep_alive import KeepAlive
from streamd.clients.mqtt.gateway.leaving import Leaving
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.gateway.noting import Noting
from streamd.clients.mqtt.gateway.ownership import CannotStart, Ownership
from streamd.clients.mqtt.gateway.packing import Packing
from streamd.clients.mqtt.gateway.receiving import ContentRule, Receiving
from streamd.clients.mqtt.gateway.retained import Retained
from streamd.clients.mqtt.gateway.session import Session
from streamd.clients.mqtt.gateway.shares import Shares
from streamd.clients.mqtt.gateway.subscribing import Subscribing
from streamd.clients.mqtt.gateway.takeovers import Takeovers
from streamd.clients.mqtt.gateway.taking_up import take_up
from streamd.clients.mqtt.gateway.unwritten import Unwritten
from streamd.clients.mqtt.gateway.wills import Wills
from streamd.clients.mqtt.store.confirming import linked
from streamd.clients.mqtt.store.finding import Finding
from streamd.clients.mqtt.store.link import SILENT_S, Link, StoreFault, Target, Words, encode
from streamd.clients.mqtt.store.logs import Logs, LogSettings, open_log
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.publishing import Publishing
from streamd.clients.mqtt.store.records import Shared
from streamd.clients.mqtt.store.releases import Releases
from streamd.clients.mqtt.store.replaying import Replay
from streamd.clients.mqtt.store.stored import Stored
from streamd.clients.mqtt.store.tailing import LAG_MAX, Tail, TailedLog
from streamd.clients.sentinels import async_pool
from streamd.clients.server_url import without_password
from streamd.clients.topics.drivers import run_async
from streamd.clients.topics.handle import read_abilities

_BACKLOG_MAX: Final = 10_000  # messages that are not stored yet, until publishers are not read from
_BACKLOG_BYTES_MAX: Final = 32 * 2**20
_TICK_S: Final = 0.1
_START_S: Final = 10.0  # for the store, at the start
_FINISHING_S: Final = 1.0  # at the end, for what clients have sent before
_LOOKS_AT_ONCE: Final = 1_000  # at the owners of sessions
_LOGGED_PER_S: Final = 20  # lines of one kind


@dataclass(slots=True)
class Settings:
    """What a gateway needs to know."""

    url: str
    logs: list[LogSettings]
    access: Access
    limits: Limits = field(default_factory=Limits)
    content_rules: list[ContentRule] = field(default_factory=list)
    allow_anonymous: bool = False
    is_loopback: bool = True
    certificate_kinds: frozenset[str] = frozenset()  # the listeners whose certificates name the users
    applications: Applications = field(default_factory=Applications)
    replicas: int = 0  # that have to confirm what is acknowledged


class Gateway:
    """All of a running gateway. Its listeners make a `Connection` for each socket."""

    def __init__(self, settings: Settings) -> None:
        self.loop = asyncio.get_running_loop()
        self.settings, self.limits, self.access = settings, settings.limits, settings.access
        self.run = secrets.token_hex(8)
        self.counters = Counters()
        self.started_s = time.time()
        target = Target.of(settings.url)
        replicas = settings.replicas
        self.link = linked(target, "streamd-mqtt", replicas, self._store_changed)
        self.history = linked(target, "streamd-mqtt-history", replicas)
        self._waiting_link = linked(target, "streamd-mqtt-tail", replicas)
        self.client = redis.asyncio.Redis(
            connection_pool=async_pool(settings.url, socket_timeout=SILENT_S, socket_connect_timeout=SILENT_S)
        )
        self.publishing = Publishing(self.link, self.run)
        self.finding = Finding(self.link, self.now_ms)
        self.publishing.on_stored = self.counters.acknowledging.observe
        self.unwritten = Unwritten(self)
        self.noting = Noting(self.link, self.unwritten, self._fenced)
        self.releases = Releases(self.link)
        self.retained = Retained(self)
        self.wills = Wills(self)
        self.shares = Shares(self, settings.url, replicas)
        self.packing = Packing(self, settings.applications)
        self.delivery = Delivery(
            self.counters,
            self.now_ms,
            self.noting.note,
            self.retained.fold,
            self.shares.wake,
            self.shares.begun,
            self.shares.left_out,
        )
        self.delivery.packing = self.packing
        self.delivery.retained_for = self.retained.waiting
        self.noting.position_of = self._positions
        self.tail = Tail(self.link, self._waiting_link, self.publishing, self._deliver, self.warn)
        self.receiving = Receiving(self, settings.content_rules)
        self.subscribing = Subscribing(self)
        self.connecting = Connecting(self)
        self.leaving_clients = Leaving(self)
        self.handing_over = HandingOver(self, target)
        self.takeovers = Takeovers(self.warn)
        self.logs: Logs
        self.clients: dict[str, Session] = {}
        self.leaving: dict[str, Session] = {}
        self.connections: dict[Connection, None] = {}
        self.paused: dict[Connection, None] = {}
        self.ticked_s = self.loop.time()
        self.held_up: list[Connection] | None = None  # those that wait until it is known whose their sessions are
        self.no_rights: ClientRights = Rights(None).for_client(None, "")
        self.has_search = False
        self._touched: list[Connection] = []
        self._locks = ClientLocks()
        self.keep_alive = KeepAlive(self.loop, self.counters, self.limits.upload_bytes_per_s_min)
        # A link of its own: a lease must not wait behind what many clients ask for, nor for replicas.
        self._lease_link = Link(target, "streamd-mqtt-lease")
        self.publishing.numbers_link = self._lease_link if replicas else self.link
        self.ownership = Ownership(self._lease_link, self.run)
        self.publishing.may_send = lambda: self.ownership.is_valid
        self._owners = 0
        self.clock_ahead_ms = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.away = Away(self)
        self.chores = Chores(self)
        self._logged = (0, 0)
        self._is_stopping = False
        self.is_draining = False
        self.told_to_end = asyncio.Event()

    # Start and end.

    async def start(self) -> None:
        """Connect to the store, open the logs, and take up the sessions of a gateway that was killed.

        Raises: CannotStart.
        """
        for link in (
            self.link,
            self.history,
            self._waiting_link,
            self.shares.link,
            self.handing_over.link,
            self._lease_link,
        ):
            link.start()
        await self._until_up()
        try:
            await self.chores.set_clock()
            abilities = await run_async(self.client, read_abilities())
            if not abilities.idmp:
                raise CannotStart("the store has no XADD with IDMP: it takes streamd, or Redis 8.6 and later")
            self.has_search = abilities.xfilter
            await self.ownership.begin()
            await self.handing_over.tell_of_me()
            # Each of what is due has a task of its own: the lease must not run out while something else is slow.
            self.chores.begin_lease()
            self.logs = Logs([await open_log(self.client, one) for one in self.settings.logs])
            for log in self.logs.all:
                tailed = await self.tail.open(log, self.limits.ring_entries_max, self.limits.ring_bytes_max)
                delivery = self.delivery
                delivery.replays[log.name] = Replay(
                    self.history, tailed, self.has_search, delivery.behind, delivery.caught_up, self.warn
                )
                await self.retained.load(tailed)
            await self.shares.start()
            await take_up(self)
        except (redis.RedisError, StoreFault, ValueError, OSError) as error:
            self.chores.end()
            raise CannotStart(str(error))
        self.tail.start()
        self.chores.begin()
        self._tick()

    async def _until_up(self) -> None:
        until_s = self.loop.time() + _START_S
        while self.loop.time() < until_s:
            if self.link.is_up:
                return
            if self.link.fault and self.link.fault.startswith(("WRONGPASS", "NOAUTH", "NOPERM", "it does not speak")):
                break
            await asyncio.sleep(0.02)
        fault = self.link.fault or "no answer"
        advice = "is a server running there? Give another with --url"
        if fault.startswith(("WRONGPASS", "NOAUTH", "NOPERM")):
            advice = "the user and password are those in --url or STREAMD_URL"
        raise CannotStart(f"{without_password(self.settings.url)}: {fault}; {advice}")

    async def stop(self) -> None:
        """End orderly: clients are told, also where else to go, and all sessions are written."""
        if self._is_stopping:
            return
        self._is_stopping = self.is_draining = True
        for connection in list(self.connections):
            reference = self.ownership.reference()
            reason = Reason.SERVER_SHUTTING_DOWN if reference is None else Reason.USE_ANOTHER_SERVER
            connection.finish(_FINISHING_S, reason, reference)
        for _ in range(200):
            if not self.connections and not self.leaving and not self.publishing.backlog:
                break
            await asyncio.sleep(0.01)
        self.tail.is_closed = True
        self.chores.end()
        for replay in self.delivery.replays.values():
            await replay.close()
        await self.shares.close()
        if self.link.is_up and hasattr(self, "logs"):
            try:
                if commands := self.retained.checkpoint():
                    await asyncio.wait_for(self.link.ask(*commands), 5)
                await asyncio.wait_for(self.ownership.end(), 5)
                await asyncio.wait_for(self.handing_over.tell_of_me(), 5)
            except (TimeoutError, StoreFault):
                pass
        for task in list(self._tasks):
            task.cancel()
        for link in (self.link, self.history, self._waiting_link, self.handing_over.link, self._lease_link):
            await link.close()
        await self.client.aclose()
        self.access.close()

    # What other parts ask for.

    def now_ms(self) -> int:
        """Return the store's time in Unix milliseconds."""
        return int(time.time() * 1_000) + self.clock_ahead_ms

    def owner_name(self) -> str:
        """Return a name for an owner of a session: this gateway, for one connection."""
        self._owners += 1
        return f"{self.run}.{self._owners}"

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something beside the rest."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.warn(f"internal error: {type(error).__name__}: {error}")
            if os.environ.get("PYTHONDEVMODE"):
                raise error

    def tell_store(self, commands: list[Words]) -> None:
        """Send commands whose replies nobody waits for."""
        if commands:
            self.link.send(b"".join(encode(one) for one in commands), len(commands), self._told)

    def _told(self, replies: list[Any]) -> None:
        for reply in replies:
            if isinstance(reply, Exception):
                self.warn(f"the store refused to write: {reply}")
                return

    def lock(self, client_id: str) -> AbstractAsyncContextManager[None]:
        """Let one at a time work on a client's session."""
        return self._locks.of(client_id)

    async def until_stored(self, session: Session) -> None:
        """Wait until the store has answered all that a client has published."""
        if session.storing:
            future: asyncio.Future[None] = self.loop.create_future()
            if session.when_stored is None:
                session.when_stored = []
            session.when_stored.append(future)
            await future

    @property
    def unready(self) -> str | None:
        """Why messages cannot be published or delivered; None if they can."""
        if not self.link.is_up:
            return "the store is away"
        return None if self.tail.refusals.text is None else "the store refuses to be read"

    @property
    def is_congested(self) -> bool:
        """Whether publishers have to wait: for the store, or for the tail."""
        publishing = self.publishing
        if publishing.backlog > _BACKLOG_MAX or publishing.backlog_bytes > _BACKLOG_BYTES_MAX:
            return True
        return self.tail.lag > LAG_MAX or not self.link.is_up

    def may_be_anonymous(self, connection: Connection) -> bool:
        """Return whether a connection's client may go without a name that is proved."""
        return self.settings.allow_anonymous or self.settings.is_loopback or connection.kind == "unix"

    def certificate_of(self, connection: Connection) -> dict[str, Any] | None:
        """Return what names a connection's user, where certificates do."""
        if connection.kind not in self.settings.certificate_kinds or connection.transport is None:
            return None
        return connection.transport.get_extra_info("peercert") or {}

    def acknowledged(self, session: Session, place: object, reason: int) -> None:
        """Note that a message out is complete; fill the room."""
        if session.is_recorded and not session.is_dirty:
            self.noting.note(session)
        if session.cursors is not None or session.retained or session.resending is not None:
            self.delivery.pump_soon(session)
        if session.shares is not None or type(place) is Shared:
            self.shares.acknowledged(session, place)

    def rights_changed(self, changed_users: frozenset[str]) -> None:
        """Go by rules that were read again: end subscriptions that are no longer allowed, close changed users."""
        self.delivery.forget_rights()
        for session in list(self.clients.values()):
            if session.connection is None:
                continue
            if session.user is not None and session.user in changed_users:
                session.connection.close(Reason.ADMINISTRATIVE_ACTION, "the user was changed or removed")
                continue
            self.subscribing.end_forbidden(session)

    def _positions(self, session: Session) -> dict[str, Position]:
        return {name: self.delivery.position(session, one.tailed) for name, one in self.delivery.replays.items()}

    def _deliver(self, tailed: TailedLog, entries: list[Stored], first: int) -> bool:
        is_heard = self.delivery.deliver(tailed, entries, first)
        self._flush()
        # One look at the clock for all: the first is the oldest of its shard.
        took_ms = self.now_ms() - entries[0].entry_id[0]
        self.counters.delivering.observe(max(took_ms, 0) / 1_000, len(entries))
        return is_heard

    # Connections.

    def make_connection(self, kind: str) -> asyncio.Protocol:
        """Return the protocol of a new socket."""
        return cast(asyncio.Protocol, Connection(self, kind))

    def connected(self, connection: Connection) -> None:
        """Note a new socket."""
        self.connections[connection] = None
        self.counters.connections += 1
        self.counters.connections_now += 1
        if self._is_stopping:
            connection.close()
            return
        connection.connect_timer = self.loop.call_later(self.limits.connect_s, self._too_late, connection)

    def _too_late(self, connection: Connection) -> None:
        if connection.session is None and not connection.is_busy:
            self.log_fault(connection, f"no CONNECT within {self.limits.connect_s:g} seconds")
            connection.close()

    def closing(self, connection: Connection) -> None:
        """Note that a connection is being closed: its session goes on without it."""
        if connection.session is not None:
            self.leaving_clients.left(connection, connection.session)

    def disconnected(self, connection: Connection) -> None:
        """Note that a socket is closed."""
        if connection in self.connections:
            del self.connections[connection]
            self.counters.connections_now -= 1
        self.paused.pop(connection, None)
        self.keep_alive.forget(connection)
        if connection.connect_timer is not None:
            connection.connect_timer.cancel()
        self.closing(connection)

    def touch(self, connection: Connection) -> None:
        """Write a connection's packets at the end of this turn."""
        if not self._touched:
            self.loop.call_soon(self._flush)
        self._touched.append(connection)

    def _flush(self) -> None:
        touched, self._touched = self._touched, []
        for connection in touched:
            connection.flush()

    # What is due.

    def _store_changed(self, is_up: bool) -> None:
        if is_up:
            self.ownership.store_is_back()
        if self._is_stopping or not self.chores:
            return
        self.warn("the store is back" if is_up else f"{self.link.fault}; publishers wait")
        if not is_up:
            self.connecting.store_is_away()

    def _tick(self) -> None:
        """Do what is due also while the store is away."""
        if not self._is_stopping:
            if self.loop.time() - self.ticked_s > STALLED_S:
                self.hold_up()
            self.ticked_s = self.loop.time()
            self.loop.call_later(_TICK_S, self._tick)
            self.keep_alive.check()
            self.packing.check()
            self.relieve()

    def relieve(self) -> None:
        """Read from publishers again, if nothing speaks against it."""
        if self.paused and not self.is_congested:
            for connection in list(self.paused):
                if not connection.is_busy:
                    connection.start_reading()

    async def look_for_lost(self) -> None:
        """Let go of the sessions that other gateways have taken while this one gave no sign. Raises: StoreFault."""
        # Those that have just left, too: what they sent before waits here, and their clients send it again elsewhere.
        sessions = [one for one in (*self.clients.values(), *self.leaving.values()) if one.pointer is not None]
        for at in range(0, len(sessions), _LOOKS_AT_ONCE):
            some = sessions[at : at + _LOOKS_AT_ONCE]
            for session, whose in zip(some, await self.link.demand(*[one.look for one in some]), strict=True):
                has_left = session.connection is None and whose != session.mine and not isinstance(whose, Exception)
                if has_left or self.noting.is_lost(session, whose):
                    self.receiving.drop(session)

    def hold_up(self) -> None:
        """Work on nothing that clients have sent until it is known whose their sessions are.

        The process stood still: others may have taken sessions, and may have got the same messages from the clients.
        """
        if self.held_up is None and not self._is_stopping:
            self.held_up = []
            self.spawn(self._look_whose())

    async def _look_whose(self) -> None:
        try:
            await self.look_for_lost()
        except StoreFault as fault:
            self.warn(str(fault))
        finally:
            held_up, self.held_up = self.held_up or [], None
            for connection in held_up:
                if not connection.is_closing:
                    connection.go_on()

    def _fenced(self, session: Session) -> None:
        """Let go of a session that another gateway has taken; what was written meanwhile lies beside it."""
        if session.is_fenced:
            return
        session.is_fenced = True
        self.tell_store([("UNLINK", session.key)])
        if session.connection is not None:
            self.takeovers.note(session.client_id)
            self.counters.takeovers += 1
            session.connection.close(Reason.SESSION_TAKEN_OVER)

    # The log of the gateway.

    def log_fault(self, connection: Connection, text: str) -> None:
        """Write a line on a client's fault; not more than some in a second."""
        session = connection.session
        who = f"client {session.client_id!r}" if session is not None else "a client"
        self._say(f"{who} at {peer_of(connection)}: {text}")

    def log_refusal(self, connection: Connection, topic: bytes, text: str) -> None:
        """Write a line on a message or subscription that was refused."""
        self.log_fault(connection, f"{topic[:200].decode('utf-8', 'replace')!r}: {text}")

    def _say(self, text: str) -> None:
        second = int(self.loop.time())
        if self._logged[0] != second:
            self._logged = second, 0
        self._logged = second, self._logged[1] + 1
        if self._logged[1] <= _LOGGED_PER_S:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Write a line to the log."""
        line = text.replace("\r", " ").replace("\n", " ")
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}", file=sys.stderr, flush=True)


def peer_of(connection: Connection) -> str:
    """Return where a connection comes from."""
    peer = connection.transport.get_extra_info("peername") if connection.transport is not None else None
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) >= 2 else connection.kind
