"""Shapes of use that should leave a server's memory as before, however often they are repeated."""

import socket
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bench.client import Replies, request
from bench.leak_copies import OPTIONS, copies_of, expiring, hashes, members, streams, strings
from bench.servers import Target

MB: Final = 1_000_000
PASSWORD: Final = "leaks"
# So long a server may take to see that its clients are gone.
_GONE_S: Final = 30.0
_AT_ONCE: Final = 500


class Refused(Exception):
    """The server does not know a command of a shape; the message is its own."""


class Shape(NamedTuple):
    """Use that is repeated on a server with these options.

    repeat(target, count): returns when all is answered and the clients are gone, except those that it returns: they
    stay connected while memory is measured. whole_mb: how much the server should take at most behind it. before: the
    repetitions before memory is measured first.
    """

    name: str
    repeat: Callable[[Target, int], Sequence[socket.socket]]
    count: int
    options: tuple[str, ...] = ()
    whole_mb: float | None = None
    before: int = 1

    def times(self, scale: float) -> int:
        """Return the number of repetitions at this scale."""
        return max(1, round(self.count * scale))

    def title(self, scale: float = 1.0) -> str:
        """Return the shape's name with its number of repetitions."""
        return f"{self.times(scale):,} x {self.name}"


class _Answers(Replies):
    """Replies of a server, errors among them."""

    def __init__(self, sock: socket.socket, allowed: bytes = b"") -> None:
        """allowed: how an error begins that is wanted."""
        super().__init__(sock)
        self._allowed = allowed

    def error(self, line: bytes) -> object:
        """Return an error that is wanted. Raises: Refused for any other."""
        if not self._allowed or not line.startswith(self._allowed):
            raise Refused(line[:80].decode(errors="replace"))
        return line


def _do(sock: socket.socket, sent: Sequence[bytes], allowed: bytes = b"") -> None:
    """Send requests in pipelines and read their replies. Raises: Refused."""
    answers = _Answers(sock, allowed)
    for start in range(0, len(sent), _AT_ONCE):
        part = sent[start : start + _AT_ONCE]
        sock.sendall(b"".join(part))
        for _ in part:
            answers.reply()


def _wait_until_alone(target: Target, *setup: bytes) -> list[socket.socket]:
    """Return when the server has no other clients."""
    until = time.monotonic() + _GONE_S
    with target.connect() as sock:
        _do(sock, setup)
        while time.monotonic() < until:
            sock.sendall(request("INFO", "clients"))
            if b"connected_clients:1\r" in bytes(Replies(sock).reply()):  # type: ignore[call-overload]
                return []
            time.sleep(0.02)
    raise SystemExit(f"leaks: {target.kind} still has clients that are gone")


def _on_one(sent: Callable[[], Sequence[bytes]], allowed: bytes = b"") -> Callable[[Target, int], list[socket.socket]]:
    """Return what has one client send the same requests again and again."""

    def repeat(target: Target, count: int) -> list[socket.socket]:
        each = sent()
        with target.connect() as sock:
            for _ in range(count):
                _do(sock, each, allowed)
        return []

    return repeat


def _and_closed(sent: Callable[[], Sequence[bytes]], rest: Callable[[], bytes] = bytes, user: Sequence[bytes] = ()):  # type: ignore[no-untyped-def]
    """Return what has clients, one behind the other, send requests, and something that is not answered, and close."""

    def repeat(target: Target, count: int) -> list[socket.socket]:
        each, unanswered = sent(), rest()
        for _ in range(count):
            with target.connect() as sock:
                _do(sock, each)
                sock.sendall(unanswered)
        return _wait_until_alone(target, *user)

    return repeat


def _large_set() -> bytes:
    return request("SET", "k", b"v" * (20 * MB))


def _begun_set() -> bytes:
    return b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%b" % (100 * MB, b"v" * (50 * MB))


def _begun_before_the_password() -> bytes:
    return b"*10\r\n%b$16000\r\n%b" % (9 * (b"$15000\r\n%b\r\n" % (b"v" * 15_000)), b"v" * 15_000)


def _subscriptions() -> list[bytes]:
    names = [b"%d-%b" % (number, b"c" * MB) for number in range(5)]
    return [request(word, name) for name in names for word in ("SUBSCRIBE", "PSUBSCRIBE")]


def _unread(target: Target, count: int) -> list[socket.socket]:
    with target.connect() as sock:
        _do(sock, [request("SET", "k", b"v" * (10 * MB))])
        for _ in range(count):
            with target.connect() as other:
                other.sendall(request("GET", "k") * 2)
        _do(sock, [request("DEL", "k")])
    return _wait_until_alone(target)


def _reset(target: Target, count: int) -> list[socket.socket]:
    """Clients that stay, each with a transaction that it has reset."""
    socks = []
    for _ in range(count):
        sock = target.connect()
        _do(sock, [request("MULTI"), _large_set(), request("RESET")])
        socks.append(sock)
    return socks


def _filters(kind: str, size: int) -> Callable[[Target, int], list[socket.socket]]:
    def repeat(target: Target, count: int) -> list[socket.socket]:
        with target.connect() as sock:
            for number in range(count):
                text = b"*%d-%b" % (number, b"p" * size)
                _do(sock, [request("XFILTER", "s", "-", "+", "COUNT", 1, "FIELD", "f", kind, text)])
        return []

    return repeat


def _globs(target: Target, count: int) -> list[socket.socket]:
    with target.connect() as sock:
        for number in range(count):
            _do(sock, [request("KEYS", b"*%d-%b" % (number, b"p" * 10_000))])
    return []


def _scripts(target: Target, count: int) -> list[socket.socket]:
    with target.connect() as sock:
        for number in range(count):
            loaded = [request("SCRIPT", "LOAD", b"return 1 --%d-%d%b" % (number, n, b"x" * MB)) for n in range(10)]
            _do(sock, [*loaded, request("SCRIPT", "FLUSH")])
    return []


def _error_codes(target: Target, count: int) -> list[socket.socket]:
    with target.connect() as sock:
        for number in range(count):
            script = b"return redis.error_reply(string.rep('E', 1000000) .. ARGV[1] .. ' text')"
            _do(sock, [request("EVAL", script, 0, number)], b"EEE")
    return []


def _streams(target: Target, count: int) -> list[socket.socket]:
    with target.connect() as sock:
        for _ in range(count):
            _do(sock, [request("XADD", f"stream:{number}", "*", "f", "v") for number in range(100_000)])
            _do(sock, [request("DEL", f"stream:{number}") for number in range(100_000)])
        _do(sock, [request("MEMORY", "PURGE")])
    return []


def _claims(target: Target, count: int) -> list[socket.socket]:
    with target.connect() as sock:
        _do(sock, [request("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")])
        read = ("STREAMS", "s", ">")
        _do(sock, [request("XREADGROUP", "GROUP", "g", "c", "COUNT", 10, "CLAIM", 1, *read)])
        for start in range(1, count, 200):
            cycles = [
                (
                    request("XADD", "s", "MAXLEN", 10, f"{number}-1", "f", "v"),
                    request("XREADGROUP", "GROUP", "g", "c", "COUNT", 10, *read),
                    request("XACK", "s", "g", f"{number}-1"),
                )
                for number in range(start, start + 200)
            ]
            _do(sock, [one for cycle in cycles for one in cycle])
        _do(sock, [request("DEL", "s")])
    return []


SHAPES: Final = (
    Shape("closed within a SET of 50 MB", _and_closed(list, _begun_set), 64),
    Shape("closed with 20 MB queued in MULTI", _and_closed(lambda: [request("MULTI"), _large_set()]), 80),
    Shape("closed while subscribed to 10 MB of names", _and_closed(_subscriptions), 80),
    Shape("closed with 20 MB of replies unread", _unread, 80),
    Shape(
        "closed behind 150 KB, without the password",
        _and_closed(list, _begun_before_the_password, [request("AUTH", PASSWORD)]),
        8_000,
        ("--requirepass", PASSWORD),
    ),
    Shape("RESET with 20 MB queued in MULTI", _reset, 20),
    Shape("XFILTER EQ, patterns of 1 MB", _filters("EQ", MB), 1_024),
    Shape("XFILTER GLOB, patterns of 10 KB", _filters("GLOB", 10_000), 512),
    Shape("KEYS, patterns of 10 KB", _globs, 512),
    Shape("errors: SET of 20 MB", _on_one(lambda: [request("SET", "k", b"v" * (20 * MB), "nonsense")], b"ERR"), 40),
    Shape("refused by maxmemory: SET of 20 MB", _on_one(lambda: [_large_set()], b"OOM"), 40, ("--maxmemory", "1mb")),
    Shape("SCRIPT FLUSH behind 10 scripts of 1 MB", _scripts, 290),
    Shape("error codes of 1 MB", _error_codes, 200),
    Shape("100,000 streams made and deleted", _streams, 15, whole_mb=70),
    Shape("XREADGROUP and XACK behind a CLAIM", _claims, 200_000),
    # (From the second copy on the heap has holes of the data set that was replaced while the next one was loaded.)
    Shape("copy of 100,000 small strings", copies_of(strings), 10, OPTIONS, before=2),
    Shape("copy of 100,000 strings that expire", copies_of(expiring), 10, OPTIONS, before=2),
    Shape("copy of 100,000 small hashes", copies_of(hashes), 10, OPTIONS, before=2),
    Shape("copy of 100,000 small streams", copies_of(streams), 10, OPTIONS, before=2),
    Shape("copy of 100,000 members each of a sorted set, a set and a list", copies_of(members), 10, OPTIONS, before=2),
)
