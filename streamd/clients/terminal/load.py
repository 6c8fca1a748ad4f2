"""Bounded loads on one server: like requests over some connections, counted and timed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import redis

from streamd.clients.terminal.asking import Source, Word
from streamd.clients.terminal.failing import Trouble, explained

VALUE: Final = "x" * 64
_DIGITS: Final = len(VALUE)
# Entries that the reading loads read.
ENTRIES: Final = 50_000
_COUNT: Final = 100
_BATCH: Final = 500


@dataclass(frozen=True)
class Load:
    """One row: `clients` connections with `pipeline` requests each under way at one time.

    words: makes the words of the n-th request. reads: it needs the entries that `_prepare` writes; n_max: the
    number of requests that these suffice for. changes: no batch may be sent twice.
    """

    name: str
    clients: int
    pipeline: int
    words: Callable[[str, int], Sequence[Word]]
    reads: bool = False
    n_max: int = 1 << 62
    changes: bool = False


def _value(number: int) -> str:
    # Entries differ, as a service's do: a server is quicker with words that all requests share.
    return f"{number:0{_DIGITS}d}"


def _xadd(key: str, number: int) -> Sequence[Word]:
    return "XADD", key, "*", "f", _value(number)


def _xadd_idmp(key: str, number: int) -> Sequence[Word]:
    return "XADD", key, "IDMP", "p", f"{number:012d}", "*", "f", _value(number)


def _xrange(key: str, number: int) -> Sequence[Word]:
    return "XRANGE", key, f"{1 + number * _COUNT % ENTRIES}-1", "+", "COUNT", _COUNT


def _xreadgroup(key: str, number: int) -> Sequence[Word]:
    return "XREADGROUP", "GROUP", "g", "c", "COUNT", _COUNT, "STREAMS", key, ">"


def _xack(key: str, number: int) -> Sequence[Word]:
    return "XACK", key, "g", *(f"{number * _COUNT + n}-1" for n in range(1, _COUNT + 1))


_FULL: Final = ENTRIES // _COUNT
LOADS: Final = (
    Load("XADD, 1 client", 1, 1, _xadd),
    Load("XADD, 50 clients", 50, 1, _xadd),
    Load("XADD, 50 clients, pipeline 16", 50, 16, _xadd),
    Load("XADD, 1 client, pipeline 100", 1, 100, _xadd),
    Load("XADD IDMP, 50 clients, pipeline 16", 50, 16, _xadd_idmp, changes=True),
    Load("XRANGE COUNT 100, 1 client", 1, 1, _xrange, reads=True, changes=True),
    Load("XREADGROUP COUNT 100, 1 client", 1, 1, _xreadgroup, reads=True, n_max=_FULL),
    Load("XACK of 100 IDs, 1 client", 1, 1, _xack, reads=True, n_max=_FULL, changes=True),
)


@dataclass(frozen=True)
class Measured:
    """One run: requests a second, server CPU and client CPU in microseconds for each, latencies in milliseconds.

    client_busy: the share of the time in which this program computed: near 1 the client is the limit, not the server.
    """

    rate: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    client_busy: float


class NotThere(Exception):
    """The server lacks something that a load needs."""


class Loaded:
    """A server under load. It writes keys that begin with `streamd-bench:`, and removes them at the end."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._key = f"streamd-bench:{uuid4().hex[:12]}"
        self._connections: list[Any] = []

    def __enter__(self) -> "Loaded":
        return self

    def __exit__(self, *error: object) -> None:
        self._disconnect()
        try:
            self.source.client.delete(self._key)
        except redis.RedisError:
            pass  # the server is gone, and the error that says so is on its way

    def _disconnect(self) -> None:
        """Drop the connections, with all replies under way."""
        for connection in self._connections:
            connection.disconnect()
            self.source.client.connection_pool.release(connection)
        self._connections.clear()

    def measure(self, load: Load, requests_max: int, seconds: float) -> Measured:
        """Return the figures of one run. Raises: NotThere; Trouble."""
        try:
            self._prepare(load)
            return self._measure(load, min(requests_max, load.n_max), seconds)
        except redis.ResponseError as error:
            self._disconnect()
            text = str(error)
            if "unknown command" in text or "syntax" in text or "Invalid stream ID" in text or "wrong number" in text:
                raise NotThere(text)
            raise explained(error, self.source.place)
        except redis.RedisError as error:
            raise explained(error, self.source.place)
        finally:
            self.source.ask("DEL", self._key)

    def _prepare(self, load: Load) -> None:
        self.source.ask("DEL", self._key)
        if not load.reads:
            return
        for start in range(1, ENTRIES + 1, _BATCH):
            replies = self.source.ask_many(
                ("XADD", self._key, f"{n}-1", "f", VALUE) for n in range(start, start + _BATCH)
            )
            for reply in replies:
                if isinstance(reply, redis.ResponseError):
                    raise Trouble(f"{self.source.place}: {reply}")
        self.source.ask("XGROUP", "CREATE", self._key, "g", "0")
        if load.words is _xack:
            while self.source.ask(*_xreadgroup(self._key, 0)):
                pass

    def _measure(self, load: Load, requests_max: int, seconds: float) -> Measured:
        pool = self.source.client.connection_pool
        while len(self._connections) < load.clients:
            self._connections.append(pool.get_connection())
        connections = self._connections[: load.clients]
        made = self._packed(load, connections[0], requests_max)
        latencies: list[float] = []
        done = at = 0
        cpu, own_cpu = self._cpu_s(), time.process_time()
        start = time.perf_counter()
        end = start + seconds
        # All connections send, then each one's replies are read: so many requests are under way at one time.
        while done < requests_max and time.perf_counter() < end:
            sent = []
            for connection in connections:
                if at >= len(made):
                    break
                connection.send_packed_command([made[at]], check_health=False)
                at += load.changes
                sent.append((connection, time.perf_counter()))
            for connection, then in sent:
                for _ in range(load.pipeline):
                    connection.read_response()
                latencies.append(time.perf_counter() - then)
            done += len(sent) * load.pipeline
            if not sent:
                break
        took, own_cpu = time.perf_counter() - start, time.process_time() - own_cpu
        cpu = self._cpu_s() - cpu
        latencies.sort()
        p50, p99 = (1e3 * latencies[int(len(latencies) * share)] for share in (0.5, 0.99))
        return Measured(done / took, cpu / done * 1e6, p50, p99, min(own_cpu / took, 1.0))

    def _packed(self, load: Load, connection: Any, requests_max: int) -> list[bytes]:
        """Return batches of `pipeline` requests as bytes; only one if it may be sent again and again."""
        batches = max(requests_max // load.pipeline, 1) if load.changes else 1
        return [
            b"".join(
                b"".join(connection.pack_command(*load.words(self._key, batch * load.pipeline + n)))
                for n in range(load.pipeline)
            )
            for batch in range(batches)
        ]

    def _cpu_s(self) -> float:
        info = self.source.info("cpu")
        return float(info.get("used_cpu_user", 0)) + float(info.get("used_cpu_sys", 0))
