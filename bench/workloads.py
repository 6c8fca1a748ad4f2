"""The workloads: preparation, requests, and the ratio that each should reach."""

import random
import select
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.client import ask, drain, load, request
from bench.measure import Sample, Work, mean_of, redis_benchmark, timed
from bench.servers import Target

VALUE = "x" * 64
# redis-benchmark puts twelve random digits in: entries differ, and a server is quicker with words that all share.
CHANGING = "x" * 52 + "__rand_int__"
PLAIN = ("XADD", "s", "*", "f", CHANGING)
ENTRIES_LOADED = 100_000
# So often a group of all of them is read from the beginning.
GROUPS_READ = 6


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    least: the ratio to redis-server's rate that it should reach, in the compiled form if that is built; least_pure: in
    the pure form, where that has a target of its own; newest: what is wanted of the ratio to the newest Redis, as a
    text. short: part of `make bench`.
    """

    name: str
    work: Work
    least: float
    options: tuple[str, ...] = ()
    rounds: int = 3
    short: bool = False
    least_pure: float | None = None
    newest: str = ""


def xadd(clients: int, pipeline: int, requests: int, words: tuple[str, ...] = PLAIN, space: int = 10**9) -> Work:
    """Return a workload of redis-benchmark that starts without its key; space: as in redis_benchmark."""

    def work(target: Target) -> Sample:
        with target.connect() as sock:
            ask(sock, "DEL", words[1])
        return redis_benchmark(target, requests, clients, pipeline, words, space=space)

    return work


def plain(clients: int, pipeline: int, requests: int, *words: str) -> Work:
    """Return a workload of redis-benchmark that keeps the key."""
    return lambda target: redis_benchmark(target, requests, clients, pipeline, words)


def idmp(automatic: bool, clients: int, pipeline: int, requests: int) -> Work:
    """Return XADD with an iid of 12 random digits, or with one made of the value, which ends in such digits."""
    named = ("IDMPAUTO", "p") if automatic else ("IDMP", "p", "__rand_int__")
    return xadd(clients, pipeline, requests, ("XADD", "s", *named, "*", "f", CHANGING))


def _prepare_ranges(target: Target, entries: int) -> None:
    """Load stream `r` with entries 1000000000000-0, 1000000000001-0, ..., once."""
    with target.connect() as sock:
        if ask(sock, "XLEN", "r") == entries:
            return
        ask(sock, "DEL", "r")
        requests = [request("XADD", "r", f"{10**12 + n}-0", "f", VALUE) for n in range(entries)]
        load(sock, requests)


def ranges(count: int, entries: int, at_random: bool, requests: int) -> Work:
    """Return XRANGE COUNT `count`, from the head or from random places, whose replies are only counted."""

    def work(target: Target) -> Sample:
        _prepare_ranges(target, entries)
        places = random.Random(7)
        sent = []
        for _ in range(requests):
            first = places.randrange(entries - count) if at_random else 0
            sent.append(request("XRANGE", "r", f"{10**12 + first}-0", "+", "COUNT", count))
        with target.connect() as sock:
            sock.sendall(request("XRANGE", "r", f"{10**12}-0", "+", "COUNT", count))
            size = _reply_size(count)
            drain(sock, size)

            def action() -> None:
                for start in range(0, requests, 10):
                    part = sent[start : start + 10]
                    sock.sendall(b"".join(part))
                    drain(sock, size * len(part))

            return timed(target, requests, action)

    return work


def _reply_size(count: int) -> int:
    entry = b"*2\r\n" + b"$15\r\n" + b"1" * 15 + b"\r\n*2\r\n$1\r\nf\r\n" + b"$64\r\n" + b"x" * 64 + b"\r\n"
    return len(b"*%d\r\n" % count) + count * len(entry)


def groups(clients: int, requests: int) -> Work:
    """Return XREADGROUP COUNT 100 of a group that starts at the beginning each time, some times."""

    def once(target: Target) -> Sample:
        with target.connect() as sock:
            ask(sock, "XGROUP", "DESTROY", "r", "g")
            ask(sock, "XGROUP", "CREATE", "r", "g", "0")
        words = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "100", "STREAMS", "r", ">")
        return redis_benchmark(target, requests, clients, 1, words)

    def work(target: Target) -> Sample:
        _prepare_ranges(target, ENTRIES_LOADED)
        # (One reading takes a tenth of a second, of which the system counts the CPU in hundredths.)
        return mean_of([once(target) for _ in range(GROUPS_READ)])

    return work


def acknowledge(batches: int) -> Work:
    """Return XACK of the 100 IDs that were delivered together."""

    def work(target: Target) -> Sample:
        _prepare_ranges(target, ENTRIES_LOADED)
        with target.connect() as sock:
            ask(sock, "XGROUP", "DESTROY", "r", "g")
            ask(sock, "XGROUP", "CREATE", "r", "g", "0")
            for _ in range(batches):
                ask(sock, "XREADGROUP", "GROUP", "g", "c", "COUNT", 100, "STREAMS", "r", ">")
            sent = [
                request("XACK", "r", "g", *(f"{10**12 + batch * 100 + n}-0" for n in range(100)))
                for batch in range(batches)
            ]
            return timed(target, batches, lambda: load(sock, sent, reply_bytes_each=len(b":100\r\n"), batch=10))

    return work


def fan_out(readers: int, wakes: int) -> Work:
    """Return the rate at which one XADD can wake all of this many blocked XREADs."""

    def work(target: Target) -> Sample:
        socks = [target.connect() for _ in range(readers)]
        poll = select.epoll()
        by_fd = {sock.fileno(): sock for sock in socks}
        for sock in socks:
            poll.register(sock.fileno(), select.EPOLLIN)
        elapsed, cpu = 0.0, 0.0
        blocked = request("XREAD", "BLOCK", 0, "STREAMS", "fan", "$")
        with target.connect() as writer:
            ask(writer, "DEL", "fan")
            for _ in range(wakes):
                for sock in socks:
                    sock.sendall(blocked)
                while f"blocked_clients:{readers}\r".encode() not in bytes(ask(writer, "INFO", "clients")):  # type: ignore[arg-type]
                    time.sleep(0.005)
                cpu_before, start = target.cpu_s(), time.perf_counter()
                ask(writer, "XADD", "fan", "*", "f", VALUE)
                waiting = set(by_fd)
                while waiting:
                    for descriptor, _ in poll.poll(30):
                        by_fd[descriptor].recv(4096)
                        waiting.discard(descriptor)
                elapsed += time.perf_counter() - start
                cpu += target.cpu_s() - cpu_before
        for sock in socks:
            sock.close()
        return Sample(wakes / elapsed, cpu / wakes * 1e6)

    return work


def memory(value_bytes: int, entries: int, entries_per_ms: int, json_like: bool = False) -> Callable[[Target], float]:
    """Return bytes per entry by the growth of Pss_Anon after a warm-up load; values are random bytes, or JSON-like."""

    def measure(target: Target) -> float:
        source = random.Random(11)

        def requests(key: str, count: int) -> list[bytes]:
            made = []
            for n in range(count):
                value = _json(source, n) if json_like else source.randbytes(value_bytes)
                made.append(request("XADD", key, f"{10**12 + n // entries_per_ms}-{n % entries_per_ms}", "f", value))
            return made

        with target.connect() as sock:
            load(sock, requests("warm", 50_000))
            time.sleep(0.3)
            before = target.anonymous_bytes()
            for part in range(entries // 100_000):
                load(sock, requests(f"m{part}", 100_000))
            time.sleep(0.3)
            after = target.anonymous_bytes()
            for part in range(entries // 100_000):
                ask(sock, "DEL", f"m{part}")
            ask(sock, "DEL", "warm")
        return (after - before) / entries

    return measure


def _json(source: random.Random, number: int) -> bytes:
    return (
        f'{{"id":{number},"user":"u{source.randrange(10**6)}","action":"{source.choice(("view", "buy", "sell"))}",'
        f'"amount":{source.randrange(10**5) / 100},"currency":"EUR","ok":true}}'
    ).encode()


def _many_fields(count: int) -> tuple[str, ...]:
    length = max(64 // count, len("__rand_int__"))
    words = [word for n in range(count) for word in (f"field{n}", CHANGING[-length:])]
    return ("XADD", "s", "*", *words)


EVERYSEC = ("--appendonly", "yes", "--appendfsync", "everysec")
ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")

WORKLOADS: tuple[Workload, ...] = (
    Workload("XADD, 1 client", xadd(1, 1, 60_000), 0.97, rounds=5, short=True),
    Workload("XADD, 50 clients", xadd(50, 1, 150_000), 0.95, short=True, newest=">= 1.0, pure 0.8"),
    Workload("XADD, 50 clients, pipeline 16", xadd(50, 16, 600_000), 0.60, short=True),
    Workload("XADD, 1 client, pipeline 100", xadd(1, 100, 400_000), 0.85, short=True),
    Workload("XADD, 10 clients, pipeline 2", xadd(10, 2, 120_000), 0.7),
    Workload("XADD, 10 clients, pipeline 4", xadd(10, 4, 200_000), 1.0, least_pure=0.55),
    Workload("XADD, 10 clients, pipeline 8", xadd(10, 8, 300_000), 0.9),
    Workload("XADD 3 fields, 50 clients, pipeline 16", xadd(50, 16, 400_000, _many_fields(3)), 0.55),
    Workload("XADD 10 fields, 50 clients, pipeline 16", xadd(50, 16, 200_000, _many_fields(10)), 1.0),
    Workload("PING, 50 clients", plain(50, 1, 150_000, "PING"), 0.60),
    Workload("SET, 50 clients", plain(50, 1, 150_000, "SET", "k", CHANGING), 0.60),
    Workload("GET, 50 clients", plain(50, 1, 150_000, "GET", "k"), 0.60),
    Workload("XRANGE COUNT 100, drained", ranges(100, ENTRIES_LOADED, False, 20_000), 2.0, short=True),
    Workload("XRANGE COUNT 1000, drained", ranges(1000, ENTRIES_LOADED, False, 3_000), 5.0),
    Workload("XRANGE COUNT 100, random places of 1,000,000", ranges(100, 1_000_000, True, 10_000), 1.1, rounds=3),
    Workload("XREADGROUP COUNT 100, 1 client", groups(1, 900), 1.2, newest=">= 2.5"),
    Workload("XREADGROUP COUNT 100, 50 clients", groups(50, 900), 1.3),
    Workload("XACK of 100 IDs", acknowledge(900), 0.7),
    Workload("XREAD BLOCK, 1 XADD wakes 1000", fan_out(1000, 10), 0.7),
    Workload("everysec: XADD, 1 client", xadd(1, 1, 60_000), 0.95, options=EVERYSEC, rounds=5),
    Workload("everysec: XADD, 50 clients", xadd(50, 1, 150_000), 0.95, options=EVERYSEC, rounds=5, short=True),
    Workload(
        "everysec: XADD, 50 clients, pipeline 16", xadd(50, 16, 500_000), 0.9, options=EVERYSEC, rounds=5, short=True
    ),
    Workload("always: XADD, 1 client", xadd(1, 1, 4_000), 0.95, options=ALWAYS, rounds=5),
    Workload("always: XADD, 50 clients", xadd(50, 1, 60_000), 0.95, options=ALWAYS, rounds=5),
    Workload("always: XADD, 50 clients, pipeline 16", xadd(50, 16, 300_000), 0.8, options=ALWAYS, rounds=5),
)

MEMORY: tuple[tuple[str, Callable[[Target], float], float], ...] = (
    ("8 random bytes, one entry per ms", memory(8, 500_000, 1), 0.75),
    ("8 random bytes, 20 entries per ms", memory(8, 500_000, 20), 0.75),
    ("64 random bytes, one entry per ms", memory(64, 500_000, 1), 0.90),
    ("64 random bytes, 20 entries per ms", memory(64, 500_000, 20), 0.90),
    ("512 random bytes, one entry per ms", memory(512, 200_000, 1), 0.92),
    ("JSON of about 90 bytes, one entry per ms", memory(0, 300_000, 1, json_like=True), 0.5),
)
