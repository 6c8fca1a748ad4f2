"""Requests of a client that ends its side of a connection, or all of it: executed, and answered where possible."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import running_redis
from tests.integration.process import ServerProcess
from tests.spark.deployments import Certificates, make_certificates

COUNT = 60
ROUNDS = 100
PATIENCE_S = 30
POLICIES = {
    "always": ["--appendonly", "yes", "--appendfsync", "always"],
    "everysec": ["--appendonly", "yes", "--appendfsync", "everysec"],
    "no": ["--appendonly", "yes", "--appendfsync", "no"],
    "memory": ["--appendonly", "no"],
}


def encoded(*words: object) -> bytes:
    texts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in texts)


def xadds(name: str, first: int = 1, count: int = COUNT) -> tuple[bytes, bytes]:
    """Return so many XADDs with IDs of their own, and their replies."""
    ids = [f"{number}-1" for number in range(first, first + count)]
    return (
        b"".join(encoded("XADD", name, entry_id, "f", "v") for entry_id in ids),
        b"".join(b"$%d\r\n%b\r\n" % (len(entry_id), entry_id.encode()) for entry_id in ids),
    )


def read_all(sock: socket.socket) -> bytes:
    """Return what comes until the other side ends, or breaks, the connection."""
    got = b""
    try:
        while received := sock.recv(1 << 20):
            got += received
    except ConnectionError:
        pass
    return got


def until(is_so: Callable[[], bool]) -> None:
    """Return once something is so, which it is soon; a server that is busy with a script does not say yet."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(redis.exceptions.ResponseError):
            if is_so():
                return
    raise AssertionError("it has not come about")


@dataclass
class Served:
    """A server, and the ways to it."""

    port: int
    path: str
    tls_port: int
    made: Certificates

    def tcp(self) -> socket.socket:
        """Return a connection that sends each piece at once."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def unix(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(30)
        sock.connect(self.path)
        return sock

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=30)


class Encrypted:
    """A TLS connection whose bytes the test sends itself, so that close_notify is in the same write as requests."""

    def __init__(self, served: Served) -> None:
        context = ssl.create_default_context(cafile=str(served.made.ca))
        self.sock = socket.create_connection(("127.0.0.1", served.tls_port), timeout=30)
        self._into, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._into, self._out, server_hostname="localhost")
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._send()
                self._into.write(self.sock.recv(1 << 16))
        self._send()

    def _send(self) -> None:
        self.sock.sendall(self._out.read())

    def end_behind(self, data: bytes) -> bytes:
        """Send `data` and close_notify in one write, and return what comes until the other side ends."""
        for at in range(0, len(data), 1 << 14):
            self._tls.write(data[at : at + (1 << 14)])
        try:
            self._tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self._send()
        self._into.write(read_all(self.sock))
        self.sock.close()
        got = b""
        try:
            while received := self._tls.read(1 << 20):
                got += received
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return got


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(POLICIES))
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def serve(loop: str, made: Certificates, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start a server with some options."""
    running: list[ServerProcess] = []

    def start(*options: str) -> Served:
        path, port, tls_port = str(tmp_path / "s.sock"), free_port(), free_port()
        words = ["--port", str(port), "--unixsocket", path, *made.options(tls_port, "no"), *options]
        running.append(ServerProcess(tmp_path / "data", *words, pure=loop == "asyncio"))
        return Served(port, path, tls_port, made)

    yield start
    for process in running:
        code, _, errors = process.stop()
        assert code == 0
        assert "Traceback" not in errors, errors


@pytest.fixture
def served(serve: Callable[..., Served], policy: str) -> Served:
    return serve(*POLICIES[policy])


def half_closed(sock: socket.socket, *pieces: bytes) -> bytes:
    """Send pieces, end this side, and return what comes."""
    with sock:
        for piece in pieces:
            if piece:
                sock.sendall(piece)
        sock.shutdown(socket.SHUT_WR)
        return read_all(sock)


@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_faults2_1_2_a_half_closed_client_gets_all_replies(served: Served, way: str):
    for number in range(ROUNDS):
        requests, replies = xadds(f"s{number}")
        assert half_closed(getattr(served, way)(), requests) == replies
    with served.client() as client:
        assert [client.xlen(f"s{number}") for number in range(ROUNDS)] == [COUNT] * ROUNDS


def test_faults2_1_2_a_client_that_says_close_notify_gets_all_replies(served: Served):
    for number in range(ROUNDS):
        requests, replies = xadds(f"s{number}")
        assert Encrypted(served).end_behind(requests) == replies
    with served.client() as client:
        assert [client.xlen(f"s{number}") for number in range(ROUNDS)] == [COUNT] * ROUNDS


@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_faults2_1_2_what_a_client_sent_before_it_closed_is_executed(served: Served, way: str):
    for number in range(ROUNDS):
        requests, _ = xadds(f"s{number}")
        with getattr(served, way)() as sock:
            sock.sendall(requests)
    with served.client() as client:
        until(lambda: len(client.client_list()) == 1)
        assert [client.xlen(f"s{number}") for number in range(ROUNDS)] == [COUNT] * ROUNDS


def test_faults2_1_2_requests_split_at_every_byte_are_answered_before_the_end_of_input(served: Served):
    requests, replies = xadds("s", count=4)
    with served.client() as client:
        for at in range(len(requests) + 1):
            assert half_closed(served.tcp(), requests[:at], requests[at:]) == replies
            assert client.xlen("s") == 4
            client.delete("s")


def test_faults2_1_2_a_half_closed_client_that_reads_slowly_gets_all_replies(serve: Callable[..., Served]):
    served, value, count = serve(*POLICIES["everysec"]), b"x" * 100_000, 300
    with served.client() as client, served.tcp() as sock:
        client.set("k", value)
        sock.sendall(encoded("GET", "k") * count + encoded("SET", "behind", 1))
        sock.shutdown(socket.SHUT_WR)
        assert client.ping()  # most of the replies wait for the client by now
        got = read_all(sock)

        assert got == (b"$100000\r\n" + value + b"\r\n") * count + b"+OK\r\n"
        assert client.get("behind") == b"1"


def test_faults2_1_2_a_long_pipeline_is_executed_before_the_end_of_input(serve: Callable[..., Served]):
    served = serve(*POLICIES["always"])
    for number, connect_to in enumerate([served.tcp, served.unix]):
        requests, replies = xadds(f"s{number}", count=4_000)
        assert half_closed(connect_to(), requests) == replies
    requests, replies = xadds("s2", count=4_000)
    answered = Encrypted(served).end_behind(requests)
    assert replies.startswith(answered), "how many TLS still takes depends on how long they take"
    with served.client() as client:
        until(lambda: len(client.client_list()) == 1)
        assert [client.xlen(f"s{number}") for number in range(3)] == [4_000] * 3


# -- as Redis does ----------------------------------------------------------------------------------------------------

SLOW = "local t = 0 for i = 1, 3000000 do t = t + 1 end return redis.call('SET', 's', '1')"
# What a client sends before it ends its side, what it is answered, and what is left behind.
CASES: dict[str, tuple[bytes, bytes, dict[str, bytes | None]]] = {
    "blocked": (
        encoded("PING") + encoded("BLPOP", "q", 0) + encoded("SET", "a", 1),
        b"+PONG\r\n",
        {"a": None},
    ),
    "served at once": (
        encoded("RPUSH", "r", 1) + encoded("BLPOP", "r", 0) + encoded("SET", "b", 1),
        b":1\r\n*2\r\n$1\r\nr\r\n$1\r\n1\r\n+OK\r\n",
        {"b": b"1"},
    ),
    "waits for replicas": (
        encoded("SET", "c", 1) + encoded("WAITAOF", 0, 5, 0) + encoded("SET", "d", 1),
        b"+OK\r\n",
        {"c": b"1", "d": None},
    ),
    "MULTI without EXEC": (
        encoded("MULTI") + encoded("SET", "e", 1),
        b"+OK\r\n+QUEUED\r\n",
        {"e": None},
    ),
    "MULTI and EXEC": (
        encoded("MULTI") + encoded("SET", "f", 1) + encoded("EXEC"),
        b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n",
        {"f": b"1"},
    ),
    "subscribed": (
        encoded("SUBSCRIBE", "c") + encoded("PING"),
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n",
        {},
    ),
    "a script that takes long": (
        encoded("EVAL", SLOW, 0) + encoded("SET", "g", 1),
        b"+OK\r\n+OK\r\n",
        {"s": b"1", "g": b"1"},
    ),
    "half a request": (
        encoded("SET", "h", 1) + encoded("SET", "i", 1)[:-3],
        b"+OK\r\n",
        {"h": b"1", "i": None},
    ),
}


@pytest.fixture(params=["uvloop", "asyncio", "redis"])
def any_port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    """The port of streamd on either loop, or of Redis."""
    options = [*POLICIES["everysec"], "--busy-reply-threshold", "1"]
    if request.param == "redis":
        with running_redis(tmp_path, request.getfixturevalue("newest_redis"), *options) as port:
            yield port
        return
    with ServerProcess(tmp_path, *options, pure=request.param == "asyncio") as process:
        yield process.port


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def test_faults2_1_2_requests_that_wait_at_the_end_of_input_end_as_in_redis(any_port: int):
    with redis.Redis(port=any_port, socket_timeout=30) as client:
        for name, (requests, replies, left) in CASES.items():
            assert half_closed(connect(any_port), requests) == replies, name
            assert {key: client.get(key) for key in left} == left, name
        client.rpush("q", "kept")
        assert client.lrange("q", 0, -1) == [b"kept"], "a client that is gone is not served"
        client.client_pause(60_000, all=False)
        assert half_closed(connect(any_port), encoded("PING") + encoded("SET", "paused", 1)) == b"+PONG\r\n"
        client.client_unpause()
        assert client.get("paused") is None


def test_faults2_1_2_requests_behind_the_script_of_a_client_that_closed_are_executed(any_port: int):
    with redis.Redis(port=any_port, socket_timeout=30) as client:
        with connect(any_port) as sock:
            sock.sendall(encoded("EVAL", SLOW, 0) + encoded("SET", "behind", 1))
        until(lambda: client.get("s") is not None and len(client.client_list()) == 1)
        assert client.get("behind") == b"1"


# -- a client that does not read --------------------------------------------------------------------------------------


def test_faults2_1_2_a_client_that_ends_its_side_and_does_not_read_is_cut_after_a_minute():
    with EmbeddedServer() as server, connect(server.port) as sock:
        client = server.client()
        client.set("k", b"x" * 10_000_000)
        sock.sendall(encoded("GET", "k") * 3 + encoded("SET", "behind", 1))
        sock.shutdown(socket.SHUT_WR)
        until(lambda: max(int(one["tot-net-out"]) for one in client.client_list()) > 10_000_000)
        for _ in range(3):  # the first look finds that nothing was taken since
            server.advance(seconds=29)
            assert len(client.client_list()) == 2
        server.advance(seconds=29)
        until(lambda: len(client.client_list()) == 1)
        assert client.get("behind") is None
        assert server.internal_errors == 0
