"""A connection to the store that sends unanswered requests again when it was broken."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import hiredis
from redis import RedisError
from redis.connection import parse_url

from streamd.clients.sentinels import Sentinels, has_sentinels
from streamd.clients.server_url import checked

Words = Iterable[bytes | str | int]
Done = Callable[[list[Any]], None]

_RETRY_S: Final[Sequence[float]] = (0.02, 0.05, 0.1, 0.2, 0.5)  # (mypyc takes a tuple of floats for unset)
_CONNECT_S: Final = 5.0
# A store that owes an answer and says nothing for so long is away: its machine may be gone without a word. (The tail's
# request waits for 5 seconds.)
SILENT_S: Final = 10.0
# A store that says this is starting, or a script keeps it busy: the request is asked again, as after a lost connection.
_NOT_NOW: Final = {"LOADING": "the store is starting", "BUSY ": "the store is busy"}
# Where Sentinels name the store, another one takes the place of one that says this.
_DEMOTED: Final = {
    "READONLY": "the store is no primary any more",
    "UNBLOCKED force": "the store is no primary any more",
}


class StoreFault(Exception):
    """The store refused a request, or cannot be used."""


def encode(words: Words) -> bytes:
    """Return a request in RESP; one in bytes is encoded already."""
    if type(words) is bytes:
        return words
    parts = []
    count = 0
    for word in words:
        value = word if type(word) is bytes else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(value), value))
        count += 1
    return b"*%d\r\n%b" % (count, b"".join(parts))


@dataclass(frozen=True, slots=True)
class Target:
    """Where the store is, and as whom to log in. sentinels: that name the host and port instead, or None."""

    host: str
    port: int
    path: str | None
    database: int
    username: str | None
    password: str | None
    tls: ssl.SSLContext | None
    sentinels: Sentinels | None = None

    @classmethod
    def of(cls, url: str) -> "Target":
        """Return the target of a URL. Raises: ValueError."""
        sentinels = Sentinels(url) if has_sentinels(url) else None
        found: dict[str, Any] = sentinels.settings if sentinels else dict(parse_url(checked(url)))
        tls = None
        if url.startswith("rediss"):
            tls = ssl.create_default_context(cafile=found.get("ssl_ca_certs"))
            if found.get("ssl_cert_reqs") in ("none", ssl.CERT_NONE):
                tls.check_hostname = False
                tls.verify_mode = ssl.CERT_NONE
        return cls(
            found.get("host", "127.0.0.1"),
            int(found.get("port", 6379)),
            found.get("path"),
            int(found.get("db", 0)),
            found.get("username"),
            found.get("password"),
            tls,
            sentinels,
        )

    async def place(self) -> tuple[str, int]:
        """Return host and port of the store, at this moment. Raises: StoreFault."""
        if self.sentinels is None:
            return self.host, self.port
        try:
            return await self.sentinels.find_async()
        except RedisError as error:
            raise StoreFault(str(error))


class Link:
    """A connection to the store; while it is broken, requests wait.

    Every request has to be one that may be made twice: after a lost connection nobody knows whether it was executed.
    on_change is called with True when the store can be used, and with False when it cannot.
    """

    def __init__(self, target: Target, name: str, on_change: Callable[[bool], None] | None = None) -> None:
        self._target, self._name = target, name
        self._not_now = _NOT_NOW | _DEMOTED if target.sentinels else _NOT_NOW
        self._on_change = on_change
        self._waiting: deque[tuple[bytes, int, Done]] = deque()
        self._replies: list[Any] = []
        self._out: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None
        self._reader = hiredis.Reader()
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._is_closed = False
        self._heard = 0  # how often bytes came
        self.is_up = False
        self.client_id = 0
        self.fault: str | None = None  # why the store cannot be used; the last reason
        self._loop = asyncio.get_running_loop()

    @property
    def waiting(self) -> int:
        """The number of requests without an answer."""
        return len(self._waiting)

    def start(self) -> None:
        """Begin to connect, and to connect again whenever the connection is lost."""
        self._task = self._loop.create_task(self._stay_connected())

    async def close(self) -> None:
        """Close the connection; requests without an answer get none."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._transport is not None:
            self._transport.close()

    def send(self, packed: bytes, count: int, done: Done) -> None:
        """Send requests that are encoded; `done` gets their replies, errors among them as values."""
        self._waiting.append((packed, count, done))
        if self.is_up:
            if not self._out:
                self._loop.call_soon(self._flush)
            self._out.append(packed)

    def send_now(self) -> None:
        """Write what was sent in this turn."""
        self._flush()

    async def ask(self, *commands: Words) -> list[Any]:
        """Return the replies to commands, errors among them as values."""
        return await self.begin(*commands)

    def begin(self, *commands: Words) -> asyncio.Future[list[Any]]:
        """Send commands now, before what is sent later; return their replies to come, errors among them as values."""
        future: asyncio.Future[list[Any]] = self._loop.create_future()

        def done(replies: list[Any]) -> None:
            if not future.done():
                future.set_result(replies)

        if commands:
            self.send(b"".join(encode(one) for one in commands), len(commands), done)
        else:
            future.set_result([])
        return future

    async def demand(self, *commands: Words) -> list[Any]:
        """Return the replies to commands. Raises: StoreFault, if one of them is an error."""
        replies = await self.ask(*commands)
        for reply in replies:
            if isinstance(reply, Exception):
                raise StoreFault(str(reply))
        return replies

    def _flush(self) -> None:
        if self._out and self._transport is not None and self.is_up and not self._transport.is_closing():
            self._transport.write(b"".join(self._out))
        self._out.clear()

    async def _stay_connected(self) -> None:
        attempt = 0
        while not self._is_closed:
            try:
                await asyncio.wait_for(self._connect(), _CONNECT_S)
            except (OSError, StoreFault, TimeoutError, ssl.SSLError) as error:
                self.fault = str(error) or type(error).__name__
                self._drop()
                await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
                attempt += 1
                continue
            attempt = 0
            self.fault = None
            self._up()
            self._down(await self._until_lost())

    async def _until_lost(self) -> str:
        """Wait for the end of the connection; return what it is."""
        while True:
            owes, heard = bool(self._waiting), self._heard
            try:
                await asyncio.wait_for(self._lost.wait(), SILENT_S)
            except TimeoutError:
                if owes and heard == self._heard:
                    return f"the store has not answered for {SILENT_S:g} seconds"
            else:
                return "the connection to the store was lost"

    async def _connect(self) -> None:
        target = self._target
        self._lost = asyncio.Event()
        self._reader = hiredis.Reader()
        self._replies = []
        greeting: asyncio.Future[list[Any]] = self._loop.create_future()
        words: list[Words] = []
        if target.password is not None:
            words.append(("AUTH", *((target.username,) if target.username else ()), target.password))
        if target.database:
            words.append(("SELECT", target.database))
        words += [("CLIENT", "SETNAME", self._name), ("CLIENT", "ID"), self.greeting()]
        wire = cast(asyncio.Protocol, _Wire(self, greeting, len(words)))
        if target.path is not None:
            transport, _ = await self._loop.create_unix_connection(lambda: wire, target.path)
        else:
            host, port = await target.place()
            transport, _ = await self._loop.create_connection(lambda: wire, host, port, ssl=target.tls)
        self._transport = transport
        transport.write(b"".join(encode(one) for one in words))
        *replies, last = await greeting
        for reply in replies:
            if isinstance(reply, Exception):
                raise StoreFault(str(reply))
        self.client_id = int(replies[-1])
        self.greeted(last)

    # What a link that waits for replicas does otherwise.

    def greeting(self) -> Words:
        """Return the command that a new connection begins with."""
        return ("ROLE",) if self._target.sentinels else ("PING",)

    def greeted(self, reply: Any) -> None:
        """Take its reply. Raises: StoreFault, if the store cannot be used."""
        if isinstance(reply, Exception) and (self._target.sentinels is None or self._fault_in(str(reply)) is not None):
            raise StoreFault(str(reply))
        # During a failover Sentinels may name the old primary. (A user who may not ask finds out by writing.)
        if isinstance(reply, list) and reply[0] == b"slave":
            raise StoreFault("it is a replica, which takes no writes")

    def take(self, packed: bytes, count: int, done: Done, replies: list[Any]) -> None:
        """Hand the replies to a request on."""
        done(replies)

    def _up(self) -> None:
        self.is_up = True
        self._out.clear()
        assert self._transport is not None
        if self._waiting:
            self._transport.write(b"".join(packed for packed, _, _ in self._waiting))
        if self._on_change is not None:
            self._on_change(True)

    def _down(self, fault: str) -> None:
        self.fault = fault
        self._drop()
        if self.is_up:
            self.is_up = False
            if self._on_change is not None:
                self._on_change(False)

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def received(self, data: bytes) -> None:
        """Take bytes of the store, and hand complete replies on."""
        reader, replies, waiting = self._reader, self._replies, self._waiting
        self._heard += 1
        reader.feed(data)
        while waiting:
            count = waiting[0][1]
            while len(replies) < count:
                reply = reader.gets()
                if reply is False:
                    return
                replies.append(reply)
            for one in replies:
                if type(one) is hiredis.ReplyError and (fault := self._fault_in(str(one))) is not None:
                    self.give_up(fault)
                    return
            request = waiting.popleft()
            self._replies = []
            self.take(*request, replies)
            if not self.is_up:
                return
            replies = self._replies

    def _fault_in(self, error: str) -> str | None:
        """Return why a request that got this error is to be asked again; None if it is not."""
        return next((fault for text, fault in self._not_now.items() if error.startswith(text)), None)

    def give_up(self, fault: str) -> None:
        """Connect anew, and ask again then."""
        self._lost.set()
        self._down(fault)

    def lost(self) -> None:
        """Note that the connection was lost."""
        self._lost.set()


class _Wire:
    """The asyncio.Protocol of one connection; first it takes the answers to the greeting."""

    def __init__(self, link: Link, greeting: asyncio.Future[list[Any]], count: int) -> None:
        self._link, self._greeting, self._count = link, greeting, count
        self._reader = hiredis.Reader()
        self._replies: list[Any] = []
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Do nothing: who connects gets the transport."""

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        """Do nothing: requests wait for the store all the same."""

    def resume_writing(self) -> None:
        """Do nothing."""

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._greeting.done():
            try:
                self._link.received(data)
            except hiredis.ProtocolError as error:
                self._is_over = True
                self._link.fault = f"the store does not speak the Redis protocol: {error}"
                self._link.lost()
            return
        try:
            self._reader.feed(data)
            while len(self._replies) < self._count and (reply := self._reader.gets()) is not False:
                self._replies.append(reply)
        except hiredis.ProtocolError:
            self._greeting.set_exception(StoreFault("it does not speak the Redis protocol"))
            return
        if len(self._replies) == self._count:
            self._greeting.set_result(self._replies)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_over = True
        if not self._greeting.done():
            self._greeting.set_exception(StoreFault("it closed the connection"))
        self._link.lost()
