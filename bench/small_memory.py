"""Memory of the small parts of a stream: a pending entry, a consumer group, a producer, an idempotent ID."""

import random
import time
from collections.abc import Callable

from bench.client import ask, load, request
from bench.group_workloads import entry_id
from bench.servers import Target

PENDING = 500_000
GROUPS = 100_000
PRODUCERS = 500_000


def _grown(target: Target, action: Callable[[], None]) -> int:
    """Return by how many bytes Pss_Anon grows."""
    time.sleep(0.3)
    before = target.anonymous_bytes()
    action()
    time.sleep(0.3)
    return target.anonymous_bytes() - before


def pending(at_once: int, claimed: bool = False) -> Callable[[Target], float]:
    """Return the bytes of a pending entry, delivered this many at once to ten consumers, then claimed one by one or
    not.
    """

    def measure(target: Target) -> float:
        def deliver(group: str, entries: int) -> None:
            ask(sock, "XGROUP", "CREATE", "s", group, "0")
            sent = [
                request("XREADGROUP", "GROUP", group, f"c{n % 10}", "COUNT", at_once, "STREAMS", "s", ">")
                for n in range(entries // at_once)
            ]
            load(sock, sent, batch=10)
            if claimed:
                order = random.Random(4).sample(range(entries), entries // 2)
                load(sock, [request("XCLAIM", "s", group, f"c{n % 7}", 0, entry_id(n), "JUSTID") for n in order])

        with target.connect() as sock:
            load(sock, [request("XADD", "s", entry_id(n), "f", "v") for n in range(PENDING)])
            for start in range(0, PENDING, 1_000):  # what is kept of entries for their readers is there then
                ask(sock, "XRANGE", "s", entry_id(start), "+", "COUNT", 1_000)
            deliver("warm", 50_000)
            return _grown(target, lambda: deliver("g", PENDING)) / PENDING

    return measure


def group(consumers: int) -> Callable[[Target], float]:
    """Return the bytes of a consumer group without deliveries, with this many consumers."""

    def measure(target: Target) -> float:
        def create(name: str, groups: int) -> None:
            load(sock, [request("XGROUP", "CREATE", "s", f"{name}{n}", "$") for n in range(groups)])
            for consumer in range(consumers):
                sent = [request("XGROUP", "CREATECONSUMER", "s", f"{name}{n}", f"c{consumer}") for n in range(groups)]
                load(sock, sent)

        with target.connect() as sock:
            ask(sock, "XADD", "s", "*", "f", "v")
            create("warm", 10_000)
            return _grown(target, lambda: create("g", GROUPS)) / GROUPS

    return measure


def producer(iids: int) -> Callable[[Target], float]:
    """Return the bytes of an iid of 16 bytes, with its share of a producer that has this many."""

    def measure(target: Target) -> float:
        def append(name: str, producers: int) -> None:
            for number in range(iids):
                iid = f"{number:016d}"
                for start in range(0, producers, 50_000):
                    sent = [
                        request("XADD", "s", "MAXLEN", 0, "IDMP", f"{name}{n}", iid, "*", "f", "v")
                        for n in range(start, min(start + 50_000, producers))
                    ]
                    load(sock, sent, batch=2_000)

        with target.connect() as sock:
            ask(sock, "XADD", "s", "*", "f", "v")
            ask(sock, "XCFGSET", "s", "IDMP-DURATION", 86_400)
            append("w", 50_000 // iids)
            return _grown(target, lambda: append("p", PRODUCERS // iids)) / (PRODUCERS // iids * iids)

    return measure


# name, measure, at most so many bytes
BESIDE_REDIS: tuple[tuple[str, Callable[[Target], float], float], ...] = (
    ("a pending entry, delivered 100 at a time", pending(100), 120),
    ("a pending entry, delivered one at a time", pending(1), 120),
    ("a pending entry, delivered 100 at a time, half of them claimed one by one", pending(100, True), 120),
    ("a group", group(0), 350),
    ("a group with a consumer", group(1), 620),
)
STREAMD_ONLY: tuple[tuple[str, Callable[[Target], float], float], ...] = (
    ("a producer with one iid", producer(1), 140),
    ("an iid of 16 bytes, a hundred of each producer", producer(100), 43),
)
