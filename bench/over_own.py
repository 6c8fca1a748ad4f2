"""Rows that compare two workloads on the same server: the CPU of an idempotent ID, the cost of a bystander."""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median

from bench.client import ask, request
from bench.group_workloads import receive_to_end
from bench.measure import Sample, Work, redis_benchmark
from bench.production import PRODUCERS, again, ready_made
from bench.servers import IDEMPOTENT, KINDS, Target
from bench.workloads import CHANGING, Workload, idmp, xadd

PLAIN_CHANGING = ("XADD", "s", "*", "f", CHANGING)
PLAIN = xadd(50, 16, 300_000)
Bystander = Callable[[Target], AbstractContextManager[None]]


@dataclass(frozen=True)
class Pair:
    """One row: `work` over `base`, by `figure` of a sample.

    wanted: at least for "rate", at most for "cpu_us", in the compiled form if that is built; wanted_pure: in the pure
    form, where that has a target of its own. kinds: the servers that can do it. short: part of `make bench`.
    """

    name: str
    work: Work
    base: Work
    wanted: float
    figure: str = "cpu_us"
    rounds: int = 5
    kinds: Collection[str] = IDEMPOTENT
    short: bool = True
    wanted_pure: float | None = None

    def ratio(self, target: Target, rounds: int) -> float:
        """Return the median over this many pairs, in alternating order."""
        ratios = []
        for number in range(rounds):
            first, second = (self.work, self.base) if number % 2 == 0 else (self.base, self.work)
            samples = {first: first(target), second: second(target)}
            ratios.append(getattr(samples[self.work], self.figure) / getattr(samples[self.base], self.figure))
        return median(ratios)


def beside(bystander: Bystander) -> Work:
    """Return pipelined XADDs of 50 clients, with a bystander."""

    def work(target: Target) -> Sample:
        with target.connect() as sock:
            ask(sock, "DEL", "s")
            ask(sock, "XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        with bystander(target):
            return redis_benchmark(target, 300_000, 50, 16, PLAIN_CHANGING)

    return work


def asked(*words: str) -> Bystander:
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


def reading(*words: str) -> Bystander:
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


def together(*bystanders: Bystander) -> Bystander:
    """Return some bystanders as one."""

    @contextmanager
    def standing_by(target: Target) -> Iterator[None]:
        with ExitStack() as stack:
            for one in bystanders:
                stack.enter_context(one(target))
            yield

    return standing_by


def _beside(name: str, bystander: Bystander, wanted: float, wanted_pure: float | None = None) -> Pair:
    name = f"XADD 16 x 50 {name}: rate over without"
    return Pair(name, beside(bystander), PLAIN, wanted, "rate", 3, KINDS, False, wanted_pure)


_IDMP = ("IDMP", "{pid}", "{iid}")
_TRIM = ("MAXLEN", "~", "1000")
# Entries as large as those with an iid, whose values differ as theirs do: words that all requests share cost less.
_CHANGING = xadd(50, 16, 300_000, PLAIN_CHANGING)
_CHANGING_ALONE = xadd(1, 1, 30_000, PLAIN_CHANGING)
_CHANGING_SINGLE = xadd(50, 1, 100_000, PLAIN_CHANGING)


def _single(name: str, named: tuple[str, ...], wanted: float, space: int = 10**9) -> Pair:
    """Return a row of 50 clients that send one XADD at a time with these words, over a plain one."""
    work = xadd(50, 1, 100_000, ("XADD", "s", *named, "*", "f", CHANGING), space)
    return Pair(f"{name}, 50 clients: CPU over plain", work, _CHANGING_SINGLE, wanted, short=False)


# Readers of a group that take turns; without pending entries.
THREE_READERS = together(*(reading("XREADGROUP", "GROUP", "g", f"c{n}", "NOACK", *_READ, ">") for n in range(3)))

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
    Pair("duplicates, 50 clients, pipeline 16: CPU over plain", again(), ready_made(), 1.0),
    _single("IDMP", ("IDMP", "p", "__rand_int__"), 1.10),
    _single("IDMPAUTO", ("IDMPAUTO", "p"), 1.15),
    _single("one iid again and again", ("IDMP", "p", "order-1"), 1.0),
    # Two numbers below 1,000: an iid comes again once in a million requests of a producer.
    _single("IDMP of 1,000 producers", ("IDMP", "p__rand_int__", "__rand_int____rand_int__"), 1.30, PRODUCERS),
    _beside("while another key has a TTL", asked("SET", "other-key", "x", "EX", "10000"), 0.95),
    _beside("while a reader waits on another stream", asked(*_OTHER), 0.95),
    _beside(
        "while a reader waits for an ID far ahead", asked("XREAD", "BLOCK", "0", "STREAMS", "s", f"{10**14}-0"), 0.9
    ),
    _beside("while a reader waits on this one", reading("XREAD", *_READ, "$"), 0.7),
    _beside("while a group reader keeps up", reading("XREADGROUP", "GROUP", "g", "c", *_READ, ">"), 0.8),
    _beside("while three NOACK readers of a group keep up", THREE_READERS, 0.6),
    _beside("while another key is watched", asked("WATCH", "other-key"), 0.95),
    _beside("while events of other classes are on", events_of_others, 0.95),
)

BESIDE_WORKLOADS: tuple[Workload, ...] = (
    Workload("XADD 16 x 50 with three NOACK readers of a group", beside(THREE_READERS), 1.2, least_pure=0.85),
)
