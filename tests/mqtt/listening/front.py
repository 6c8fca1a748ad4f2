"""Listeners of a test whose connections echo, on 127.0.0.1, and clients for them."""

import asyncio
import logging
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from websockets.asyncio.client import ClientConnection, connect

from streamd.clients.mqtt.listening import Listeners, Listening, start

DEADLINE_S = 60
Result = TypeVar("Result")
Main = Callable[[], Coroutine[None, None, None]]


class Echo(asyncio.Protocol):
    """Sends back what comes, and notes what it is told."""

    def __init__(self, kind: str, names_wanted: bool) -> None:
        self.kind, self.names_wanted = kind, names_wanted
        self.received: list[bytes] = []
        self.told: list[str] = []
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        assert isinstance(data, bytes)
        self.received.append(data)
        self.transport.write(data)

    def eof_received(self) -> None:
        self.told.append("eof")

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")
        self.ended.set_result(exc)


class Silent(Echo):
    """Only notes."""

    def data_received(self, data: bytes) -> None:
        self.received.append(data)


class Front:
    """Listeners, and the protocols of the connections that they made."""

    def __init__(self, listening: Listening, made: list[Echo]) -> None:
        self.listening, self.made = listening, made

    def port(self, kind: str) -> int:
        return int(dict(self.listening.places)[kind].rpartition(":")[2])

    def websocket(self, path: str = "/", **more: object) -> connect:
        more = {"subprotocols": ["mqtt"], "compression": None, "max_size": None, **more}
        return connect(f"ws://127.0.0.1:{self.port('ws')}{path}", proxy=None, **more)  # type: ignore[arg-type]


@asynccontextmanager
async def front(protocol: Callable[[str, bool], Echo] = Echo, **options: object) -> AsyncIterator[Front]:
    """Listen with these options; without a port, unless one is given."""
    made: list[Echo] = []

    def factory(kind: str, names_wanted: bool) -> Echo:
        made.append(protocol(kind, names_wanted))
        return made[-1]

    given = Listeners(**{"port": None, **options})  # type: ignore[arg-type]
    listening = await start(asyncio.get_running_loop(), given, factory)
    try:
        yield Front(listening, made)
    finally:
        listening.close()
        for one in made:
            if hasattr(one, "transport"):
                one.transport.abort()
        await until(lambda: listening.connections == 0)


async def until(holds: Callable[[], object]) -> None:
    """Wait until a condition holds. Raises: TimeoutError."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0)


async def soon(awaited: Awaitable[Result]) -> Result:
    """Return what is awaited. Raises: TimeoutError."""
    return await asyncio.wait_for(awaited, DEADLINE_S)


async def raw(port: int, data: bytes, **more: object) -> bytes:
    """Send bytes and return all that comes until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **more)  # type: ignore[arg-type]
    writer.write(data)
    try:
        return await soon(reader.read())
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def opened(client: ClientConnection, made: list[Echo]) -> Echo:
    """Return the protocol of the only connection."""
    await until(lambda: made and "made" in made[-1].told)
    assert client.subprotocol == "mqtt"
    return made[-1]


class Network(asyncio.Transport):
    """A network connection without a network."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.ended, self.closed, self.paused = b"", False, False, False

    def write(self, data: Any) -> None:
        assert not self.closed
        assert not self.ended
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False

    def get_write_buffer_size(self) -> int:
        return 0


class Pair:
    """A certificate and its key, for the name localhost and the address 127.0.0.1, signed by `ca`."""

    def __init__(self, place: Path, name: str, ca: "Pair | None" = None, *more: str) -> None:
        self.cert, self.key = place / f"{name}.pem", place / f"{name}.key"
        place.mkdir(exist_ok=True)
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"]
        words += ["-subj", f"/CN={name}", "-keyout", str(self.key), "-out", str(self.cert)]
        if ca is None:
            words += ["-addext", "keyUsage=keyCertSign,cRLSign,digitalSignature"]
        else:
            words += ["-CA", str(ca.cert), "-CAkey", str(ca.key), "-addext", "basicConstraints=critical,CA:FALSE"]
        words += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", *(more or ["-nodes"])]
        subprocess.run(words, check=True, capture_output=True)

    def context(self, ca: "Pair") -> ssl.SSLContext:
        """Return a client's context with this pair, which trusts `ca`."""
        made = trusting(ca)
        made.load_cert_chain(self.cert, self.key)
        return made


def trusting(ca: Pair) -> ssl.SSLContext:
    """Return a client's context without a certificate."""
    return ssl.create_default_context(cafile=str(ca.cert))


class Certificates:
    """An authority `ca` with a server's and a client's pair; `other` is an authority that nobody trusts."""

    def __init__(self, place: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed")
        self.ca, self.other = Pair(place, "us"), Pair(place, "them")
        self.server, self.client = Pair(place, "server", self.ca), Pair(place, "d7", self.ca)
        self.stranger = Pair(place, "stranger", self.other)

    def options(self) -> dict[str, Path]:
        return {"tls_cert": self.server.cert, "tls_key": self.server.key}


class Run:
    """Runs a test's coroutine in a loop, and checks that nothing was reported."""

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop], caplog: pytest.LogCaptureFixture) -> None:
        self._loop_factory, self._caplog = loop_factory, caplog

    def __call__(self, main: Main) -> None:
        reports: list[dict[str, object]] = []
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            runner.get_loop().set_exception_handler(lambda _, context: reports.append(context))
            runner.run(main())
        assert reports == []
        assert [one for one in self._caplog.records if one.levelno >= logging.WARNING] == []
