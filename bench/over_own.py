"""Rows that compare two workloads on the same server: the CPU of an idempotent ID, the cost of a bystander."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from statistics import median

from bench.client import ask, request
from bench.group_workloads import receive_to_end
from bench.measure import Sample, Work, redis_benchmark
from bench.production import again, ready_made
from bench.servers import Target
from bench.workloads import CHANGING, idmp, xadd

PLAIN_CHANGING = ("XADD", "s", "*", "f", CHANGING)
PLAIN = xadd(50, 16, 300_000)


@dataclass(frozen=True)
class Pair:
    """One row: `work` over `base`, by `figure` of a sample.

    wanted: at least for "rate", at most for "cpu_us". only_streamd: redis-server 7.0 has no such thing.
    """

    name: str
    work: Work
    base: Work
    wanted: float
    figure: str = "cpu_us"
    rounds: int = 5
    only_streamd: bool = True

    def ratio(self, target: Target, rounds: int) -> float:
        """Return the median over this many pairs, in alternating order."""
        ratios = []
        for number in range(rounds):
            first, second = (self.work, self.base) if number % 2 == 0 else (self.base, self.work)
            samples = {first: first(target), second: second(target)}
            ratios.append(getattr(samples[self.work], self.figure) / getattr(samples[self.base], self.figure))
        return median(ratios)


def beside(bystander: Callable[[Target], AbstractContextManager[None]]) -> Work:
    """Return pipelined XADDs of 50 clients, with a bystander."""

    def work(target: Target) -> Sample:
        with target.connect() as sock:
            ask(sock, "DEL", "s")
            ask(sock, "XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        with bystander(target):
            return redis_benchmark(target, 300_000, 50, 16, PLAIN_CHANGING)

    return work


def asked(*words: str) -> Callable[[Target], AbstractContextManager[None]]:
    """Return a bystander that has sent a request and keeps the connection; a reply may never come."""

    @contextmanager
    def standing_by(target: Target) -> Iterator[None]:
        with target.connect() as sock:
            sock.sendall(request(*words))
            with target.connect() as other:
                ask(other, "PING")
            yield

    return standing_by


@contextmanager
def events_of_others(target: Target) -> Iterator[None]:
    """Publish events of expired keys."""
    with target.connect() as sock:
        ask(sock, "CONFIG", "SET", "notify-keyspace-events", "Kx")
        yield
        ask(sock, "CONFIG", "SET", "notify-keyspace-events", "")


def reading(*words: str) -> Callable[[Target], AbstractContextManager[None]]:
    """Return a bystander that reads again and again, and waits when it has read all."""

    @contextmanager
    def standing_by(target: Target) -> Iterator[None]:
        over = threading.Event()

        def read() -> None:
            with target.connect() as sock:
                while not over.is_set():
                    sock.sendall(request(*words) + request("ECHO", "the end of a batch"))
                    receive_to_end(sock)

        thread = threading.Thread(target=read)
        thread.start()
        yield
        over.set()
        thread.join()

    return standing_by


_READ = ("COUNT", "1000", "BLOCK", "100", "STREAMS", "s")
_OTHER = ("XREAD", "BLOCK", "0", "STREAMS", "other", "$")


def _beside(name: str, bystander: Callable[[Target], AbstractContextManager[None]], wanted: float) -> Pair:
    return Pair(f"XADD 16 x 50 {name}: rate over without", beside(bystander), PLAIN, wanted, "rate", 3, False)


_IDMP = ("IDMP", "{pid}", "{iid}")
_TRIM = ("MAXLEN", "~", "1000")
# Entries as large as those with an iid, whose values differ as theirs do: words that all requests share cost less.
_CHANGING = xadd(50, 16, 300_000, PLAIN_CHANGING)
_CHANGING_ALONE = xadd(1, 1, 30_000, PLAIN_CHANGING)

PAIRS: tuple[Pair, ...] = (
    # The CPU of a client that comes alone goes up and down by a fifth, with what the machine does between two requests.
    Pair("IDMP, 1 client: CPU over plain", idmp(False, 1, 1, 30_000), _CHANGING_ALONE, 1.06, rounds=9),
    Pair("IDMP, 50 clients, pipeline 16: CPU over plain", idmp(False, 50, 16, 300_000), _CHANGING, 1.15),
    Pair("IDMPAUTO, 1 client: CPU over plain", idmp(True, 1, 1, 30_000), _CHANGING_ALONE, 1.09, rounds=9),
    Pair("IDMPAUTO, 50 clients, pipeline 16: CPU over plain", idmp(True, 50, 16, 300_000), _CHANGING, 1.20),
    Pair("IDMP, 1,000 producers mixed: CPU over plain", ready_made(*_IDMP), ready_made(), 1.3),
    Pair(
        "IDMP and MAXLEN ~, 1,000 producers mixed: CPU over MAXLEN ~",
        ready_made(*_IDMP, *_TRIM),
        ready_made(*_TRIM),
        1.3,
    ),
    Pair("duplicates, 50 clients, pipeline 16: CPU over plain", again, ready_made(), 1.0),
    _beside("while another key has a TTL", asked("SET", "other-key", "x", "EX", "10000"), 0.95),
    _beside("while a reader waits on another stream", asked(*_OTHER), 0.95),
    _beside("while a reader waits on this one", reading("XREAD", *_READ, "$"), 0.7),
    _beside("while a group reader keeps up", reading("XREADGROUP", "GROUP", "g", "c", *_READ, ">"), 0.8),
    _beside("while another key is watched", asked("WATCH", "other-key"), 0.95),
    _beside("while events of other classes are on", events_of_others, 0.95),
)
