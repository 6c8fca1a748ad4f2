"""Workloads on single entries of a large stream or of its groups: acknowledge, delete, claim, list."""

import random
import select
import socket
import time
from collections.abc import Callable, Sequence

from bench.client import ask, drain, load, request
from bench.measure import Sample, Work, timed
from bench.servers import Target
from bench.workloads import VALUE, Workload, ranges

ENTRIES = 1_000_000
CLIENTS, PIPELINE = 50, 16
# Requests of one measurement; each names entries that no other of the same server names.
SINGLES = 48_000


def entry_id(number: int) -> str:
    """Return the ID of entry number `number` of the streams here: a millisecond each."""
    return f"{10**12 + number}-0"


def _fill(target: Target, key: str) -> None:
    with target.connect() as sock:
        ask(sock, "DEL", key)
        for start in range(0, ENTRIES, 100_000):
            load(sock, [request("XADD", key, entry_id(n), "f", VALUE) for n in range(start, start + 100_000)])


def _deliver(target: Target, key: str, consumers: int = 1) -> None:
    """Make all entries pending anew, a hundred at a time."""
    with target.connect() as sock:
        if ask(sock, "XLEN", key) != ENTRIES:
            _fill(target, key)
        else:
            ask(sock, "XGROUP", "DESTROY", key, "g")
        ask(sock, "XGROUP", "CREATE", key, "g", "0")
        for turn in range(0, ENTRIES // 100, 10):
            for number in range(turn, turn + 10):
                sock.sendall(
                    request("XREADGROUP", "GROUP", "g", f"c{number % consumers}", "COUNT", 100, "STREAMS", key, ">")
                )
            _receive_deliveries(sock, 10)


def _receive_deliveries(sock: socket.socket, turns: int) -> None:
    entry = b"*2\r\n$15\r\n1000000000000-0\r\n*2\r\n$1\r\nf\r\n$64\r\n" + VALUE.encode() + b"\r\n"
    drain(sock, turns * (len(b"*1\r\n*2\r\n$1\r\np\r\n*100\r\n") + 100 * len(entry)))


class Places:
    """Entries of a server in random order, each used once; `prepare` makes new ones when all are used."""

    def __init__(self, prepare: Callable[[Target], None]) -> None:
        self._prepare = prepare
        self._left: dict[int, list[int]] = {}

    def take(self, target: Target, count: int) -> list[int]:
        """Return this many."""
        left = self._left.get(target.port, [])
        if len(left) < count:
            self._prepare(target)
            left = self._left[target.port] = random.Random(5).sample(range(ENTRIES), ENTRIES)
        taken = left[-count:]
        del left[-count:]
        return taken


def pipelines(target: Target, sent: Sequence[bytes], reply_lines: int) -> Sample:
    """Send requests from CLIENTS connections, PIPELINE at a time; each reply has this many lines."""
    chunks = [b"".join(sent[at : at + PIPELINE]) for at in range(0, len(sent), PIPELINE)]
    chunks.reverse()
    poll = select.epoll()
    socks = {}
    missing: dict[int, int] = {}
    for _ in range(CLIENTS):
        sock = target.connect()
        socks[sock.fileno()] = sock
        missing[sock.fileno()] = 0
        poll.register(sock.fileno(), select.EPOLLIN)
    left = len(chunks)
    cpu, start = target.cpu_s(), time.perf_counter()
    for place, sock in socks.items():
        if chunks:
            sock.sendall(chunks.pop())
            missing[place] = PIPELINE * reply_lines
    while left:
        for place, _ in poll.poll(30):
            missing[place] -= socks[place].recv(65536).count(b"\n")
            if missing[place]:
                continue
            left -= 1
            if chunks:
                socks[place].sendall(chunks.pop())
                missing[place] = PIPELINE * reply_lines
    elapsed, cpu = time.perf_counter() - start, target.cpu_s() - cpu
    for sock in socks.values():
        sock.close()
    return Sample(len(sent) / elapsed, cpu / len(sent) * 1e6)


def single(words: tuple[str, ...], prepare: Callable[[Target], None]) -> Work:
    """Return requests with one ID each, of random entries."""
    places = Places(prepare)

    def work(target: Target) -> Sample:
        sent = [request(*words, entry_id(number)) for number in places.take(target, SINGLES)]
        return pipelines(target, sent, 1)

    return work


def hundreds(words: tuple[str, ...], prepare: Callable[[Target], None], scattered: bool) -> Work:
    """Return requests with 100 IDs each, of consecutive or random entries, ten in a pipeline."""
    requests = 500
    places = Places(prepare)
    turns: dict[int, int] = {}

    def work(target: Target) -> Sample:
        if scattered:
            numbers = places.take(target, 100 * requests)
        else:
            turn = turns[target.port] = turns.get(target.port, -1) + 1
            if turn % (ENTRIES // 100 // requests) == 0:
                prepare(target)
            first = turn % (ENTRIES // 100 // requests) * 100 * requests
            numbers = list(range(first, first + 100 * requests))
        sent = [request(*words, *map(entry_id, numbers[at : at + 100])) for at in range(0, 100 * requests, 100)]
        with target.connect() as sock:
            return timed(target, requests, lambda: load(sock, sent, reply_bytes_each=len(b":100\r\n"), batch=10))

    return work


def listings(make: Callable[[str], bytes], prepare: Callable[[Target], None]) -> Work:
    """Return requests for 100 entries from a random one on, ten in a pipeline."""
    requests = 1_000
    prepared: set[int] = set()

    def work(target: Target) -> Sample:
        if target.port not in prepared:
            prepare(target)
            prepared.add(target.port)
        places = random.Random(3)
        sent = [make(entry_id(places.randrange(ENTRIES - 200))) for _ in range(requests)]
        with target.connect() as sock:

            def action() -> None:
                for at in range(0, requests, 10):
                    sock.sendall(b"".join(sent[at : at + 10]) + _END)
                    receive_to_end(sock)

            return timed(target, requests, action)

    return work


_END = request("ECHO", "the end of a batch")
_END_REPLY = b"$18\r\nthe end of a batch\r\n"


def receive_to_end(sock: socket.socket) -> None:
    """Receive replies of unknown sizes up to that of the `_END` behind them."""
    last = b""
    while not last.endswith(_END_REPLY):
        data = sock.recv(1 << 20)
        assert data, "the server closed the connection"
        last = last[-64:] + data


def _delivered(target: Target) -> None:
    _deliver(target, "p")


def _delivered_to_ten(target: Target) -> None:
    _deliver(target, "p", 10)


def _filled(target: Target) -> None:
    _fill(target, "d")


GROUP_WORKLOADS: tuple[Workload, ...] = (
    Workload("XACK of one ID, random, 50 clients, pipeline 16", single(("XACK", "p", "g"), _delivered), 0.7),
    Workload("XDEL of one ID, random, 50 clients, pipeline 16", single(("XDEL", "d"), _filled), 0.7),
    Workload("XDEL of 100 IDs", hundreds(("XDEL", "d"), _filled, False), 0.8),
    Workload("XDEL of 100 IDs, random", hundreds(("XDEL", "d"), _filled, True), 0.8),
    Workload(
        "XAUTOCLAIM COUNT 100, random places of 1,000,000",
        listings(lambda start: request("XAUTOCLAIM", "p", "g", "d", 0, start, "COUNT", 100), _delivered),
        0.9,
    ),
    Workload(
        "XAUTOCLAIM COUNT 100 JUSTID, random places of 1,000,000",
        listings(lambda start: request("XAUTOCLAIM", "p", "g", "d", 0, start, "COUNT", 100, "JUSTID"), _delivered),
        0.9,
    ),
    Workload(
        "XPENDING of 100, random places of 1,000,000",
        listings(lambda start: request("XPENDING", "p", "g", start, "+", 100), _delivered_to_ten),
        0.9,
    ),
    Workload("XRANGE COUNT 10, random places of 1,000,000", ranges(10, ENTRIES, True, 20_000), 0.9),
)
