"""Memory of the small parts of a stream: a pending entry, a consumer group, a producer, an idempotent ID."""

import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.client import ask, load, request
from bench.group_workloads import entry_id
from bench.servers import IDEMPOTENT, KINDS, Target

PENDING = 500_000
GROUPS = 100_000
PRODUCERS = 500_000
# A window that is full is filled anew so many times: dicts that are deleted from have their final size then.
TURNED_OVER = 2.5
_IID_BYTES = 20
# As many as come in a turn of 50 clients with 16 in a pipeline: windows are larger by a turn for a moment.
_BATCH = 800
_WARM = 1_000


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


def producer(iids: int, producers: int = PRODUCERS) -> Callable[[Target], float]:
    """Return the bytes of an iid of 16 bytes, with its share of a producer that has this many.

    producers: so many at one iid each, and fewer in proportion.
    """

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
            append("w", producers // 10 // iids)
            return _grown(target, lambda: append("p", producers // iids)) / (producers // iids * iids)

    return measure


def window(streams: int, producers: int, iids: int, turned_over: float = TURNED_OVER) -> Callable[[Target], float]:
    """Return the bytes of an iid of 20 bytes in full windows that have turned over, with its share of its producer.

    The producers take turns. streams: so many alike, for what one takes is little beside a server.
    """

    def measure(target: Target) -> float:
        return window_bytes(target, streams, producers, iids, turned_over) / (producers * iids)

    return measure


def window_bytes(
    target: Target, streams: int, producers: int, iids: int, turned_over: float, iid_bytes: int | None = _IID_BYTES
) -> float:
    """Return the bytes of the windows of a stream that has so many producers with so many iids each.

    iid_bytes: None for those that IDMPAUTO makes.
    """
    with target.connect() as sock:
        for key in ("warm", *(f"s{number}" for number in range(streams))):
            # (The group makes the stream; it does not count, for it is there before.)
            ask(sock, "XGROUP", "CREATE", key, "g", "$", "MKSTREAM")
            ask(sock, "XCFGSET", key, "IDMP-DURATION", 86_400, "IDMP-MAXSIZE", iids)
        _fill_window(sock, "warm", 1, _WARM, iid_bytes)

        def fill() -> None:
            for number in range(streams):
                _fill_window(sock, f"s{number}", producers, round(iids * (1 + turned_over)), iid_bytes)

        return _grown(target, fill) / streams


def _fill_window(sock: socket.socket, key: str, producers: int, iids: int, iid_bytes: int | None) -> None:
    """Have producers in turn send so many new iids each; no entry is kept."""
    sent = []
    length = iid_bytes or _IID_BYTES  # (of the value, where that makes the iid)
    heads = []
    for number in range(producers):
        words = ("XADD", key, "MAXLEN", 0, "IDMP" if iid_bytes else "IDMPAUTO", f"p{number:06d}")
        named = ("#" * length, "*", "f", "v") if iid_bytes else ("*", "f", "#" * length)
        heads.append(request(*words, *named).replace(b"#" * length, b"%b"))
    for iid in range(iids):
        for number, form in enumerate(heads):
            sent.append(form % (b"%07d-%07d" % (iid, number)).rjust(length, b"-"))
            if len(sent) == _BATCH:
                _send(sock, sent)
                sent = []
    _send(sock, sent)


def _send(sock: socket.socket, sent: list[bytes]) -> None:
    """Send a batch and receive its replies, a length and an ID each."""
    sock.sendall(b"".join(sent))
    missing = 2 * len(sent)
    while missing:
        data = sock.recv(1 << 18)
        if not data or b"-ERR" in data:
            raise SystemExit(f"bench: the server answered {data[:80].decode(errors='replace')}")
        missing -= data.count(b"\n")


@dataclass(frozen=True)
class Measure:
    """One row: a name, how a server is measured, and what is wanted, as a text; kinds: the servers that can do it."""

    name: str
    measure: Callable[[Target], float]
    wanted: str
    kinds: frozenset[str] = frozenset(KINDS)


_IDEMPOTENT = frozenset(IDEMPOTENT)
SMALL: tuple[Measure, ...] = (
    Measure("a pending entry, delivered 100 at a time", pending(100), "0.4 x"),
    Measure("a pending entry, delivered one at a time", pending(1), "0.4 x"),
    Measure("a pending entry, delivered 100 at a time, half of them claimed one by one", pending(100, True), "120 B"),
    Measure("a group", group(0), "1.15 x"),
    Measure("a group with a consumer", group(1), "620 B"),
    Measure("a producer with one iid", producer(1), "136 B", _IDEMPOTENT),
    Measure("an iid of 16 bytes, a hundred of each producer", producer(100), "43 B", _IDEMPOTENT),
    *(
        Measure(
            f"an iid of 20 bytes, windows turned over, {producers:,} x {iids:,}",
            window(streams, producers, iids),
            "50 B, pure 72",
            _IDEMPOTENT,
        )
        for streams, producers, iids in ((20, 1, 10_000), (4, 5, 10_000), (1, 1_000, 1_000))
    ),
)
