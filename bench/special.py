"""Measurements other than request rates: start, idling, sweeping, memory of windows, two processes."""

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bench.client import ask, load, request
from bench.measure import redis_benchmark
from bench.servers import Target
from bench.workloads import CHANGING, VALUE
from streamd.stream.groups.group import Group
from streamd.stream.stream import Stream
from streamd.stream.wire.entry_columns import EntryColumns

Figures = list[tuple[str, float, str]]  # (what, figure, its unit and what was wanted)


def start_with_a_million() -> Figures:
    """Seconds from exec to the first PONG with 1,000,000 entries in a rewritten base."""
    options = ("--appendonly", "yes", "--appendfsync", "no")
    with Target("streamd", options) as target:
        with target.connect() as sock:
            for part in range(10):
                load(
                    sock, [request("XADD", "s", f"{10**12 + part * 100_000 + n}-0", "f", VALUE) for n in range(100_000)]
                )
            ask(sock, "BGREWRITEAOF")
            while b"aof_rewrite_in_progress:1" in bytes(ask(sock, "INFO", "persistence")):  # type: ignore[arg-type]
                time.sleep(0.05)
        target.restart()
        with target.connect() as sock:
            entries = ask(sock, "XLEN", "s")
        assert entries == 1_000_000, entries
        return [("start to first PONG, 1,000,000 entries", target.start_s, "s, wanted 5")]


def snapshots() -> Figures:
    """Milliseconds that `Stream.snapshot` takes of a million entries, pending with ten consumers, and as many iids."""
    million, first_id = 1_000_000, 10**12 << 64
    stream = Stream(100, 100, 100)
    group = Group(0)
    stream.groups = {b"g": group}
    for at in range(0, million, 100):
        ids = [first_id + (number << 64) for number in range(at, at + 100)]
        stream.append_columns(ids, EntryColumns((b"f",), [b"v" * 8] * 100, (8,)))
        group.pending.deliver(ids, group.consumer(b"c%d" % (at // 100 % 10), 0)[0], at)
        for entry_id in ids:
            stream.idmp.record(b"p%d" % (at // 100), b"%d" % entry_id, entry_id)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        stream.snapshot()
        times.append((time.perf_counter() - start) * 1000)
    return [("snapshot of 1,000,000 entries, all pending, with iids", sorted(times)[4], "ms, wanted 2")]


def idle_cpu() -> Figures:
    """Per cent of a CPU that an idle server uses."""
    with Target("streamd") as target:
        time.sleep(1)
        before = target.cpu_s()
        time.sleep(10)
        return [("idle CPU", (target.cpu_s() - before) * 10, "%, wanted under 0.5")]


def sweeping() -> Figures:
    """PING while 100,000 producers x 100 iids are freed, over PING of the same server at rest; and bytes per iid."""
    producers, iids, duration_s = 100_000, 100, 60
    with Target("streamd", ("--stream-idmp-duration", str(duration_s))) as target, target.connect() as sock:
        ask(sock, "XADD", "s", "*", "f", "v")
        load(sock, [request("XADD", "s", "MAXLEN", 0, "IDMP", f"w{n}", "i" * 16, "*", "f", "v") for n in range(50_000)])
        before = target.anonymous_bytes()
        started = time.monotonic()
        for number in range(iids):
            iid = f"{number:016d}"
            load(
                sock,
                [request("XADD", "s", "MAXLEN", 0, "IDMP", f"p{n}", iid, "*", "f", "v") for n in range(producers)],
                batch=2000,
            )
        each = (target.anonymous_bytes() - before) / (producers * iids)
        tracked = ask(sock, "XINFO", "STREAM", "s")
        print(f"   (loaded {producers * iids:,} iids in {time.monotonic() - started:.0f} s)", flush=True)
        rest = _ping_p99_ms(sock, 2.0)
        worst = 0.0
        assert isinstance(tracked, list)
        while _tracked(sock) > 0:
            worst = max(worst, _ping_p99_ms(sock, 1.0))
            if time.monotonic() - started > 2.5 * duration_s + 300:
                break
        return [
            ("memory per tracked iid of 16 bytes, 100 per producer", each, "bytes, wanted 200"),
            ("PING p99 at rest", rest, "ms"),
            ("PING p99 while the sweeper frees them, worst second", worst, "ms, wanted less than 2 over rest"),
        ]


def _tracked(sock: object) -> int:
    info = ask(sock, "XINFO", "STREAM", "s")  # type: ignore[arg-type]
    assert isinstance(info, list)
    return int(info[info.index(b"iids-tracked") + 1])


def _ping_p99_ms(sock: object, seconds: float) -> float:
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.perf_counter()
        ask(sock, "PING")  # type: ignore[arg-type]
        times.append(time.perf_counter() - start)
        time.sleep(0.0005)
    return sorted(times)[int(len(times) * 0.99)] * 1000


def two_processes() -> Figures:
    """Pipelined XADD of two servers with a client each, over one server with one client.

    First with a core for each pair: the result on a machine with twice as many cores. Then as the system places them:
    there one pair alone uses more than one of two cores, and two pairs have to share them.
    """

    def run(target: Target, core: int | None) -> float:
        return redis_benchmark(target, 600_000, 10, 16, ("XADD", "s", "*", "f", CHANGING), core).rate

    def ratio(one: Target, two: Target, cores: tuple[int | None, int | None]) -> float:
        ratios = []
        with ThreadPoolExecutor(2) as pool:
            for _ in range(5):
                alone = run(one, cores[0])
                ratios.append(sum(pool.map(run, (one, two), cores)) / alone)
        return sorted(ratios)[2]

    with Target("streamd") as one, Target("streamd") as two:
        shared = ratio(one, two, (None, None))
        cores = sorted(os.sched_getaffinity(0))[:2]
        if len(cores) < 2 or shutil.which("taskset") is None:
            return [("two servers and two clients over one of each", shared, "x")]
        for target, core in zip((one, two), cores, strict=True):
            target.stay_on(core)
        apart = ratio(one, two, (cores[0], cores[1]))
        return [
            ("two servers and two clients over one of each, a core for each pair", apart, "x, wanted 1.7"),
            ("the same, not bound to cores", shared, "x"),
        ]


SPECIAL: tuple[Callable[[], Figures], ...] = (
    start_with_a_million,
    snapshots,
    idle_cpu,
    sweeping,
    two_processes,
)
