"""`python -m bench.proposal`: XADD plain, with IDMP and with IDMPAUTO, after the proposal of idempotent XADDs.

python -m bench.proposal [--quick] [--sizes 16,64] [--operations N] [--runs N] [--resident N] [--only memory|rates]

As the proposal measured it: values of 8 to 512 B, windows of 10,000 names, and RSS over 2,000,000 requests.

Rates are of one client without a pipeline, which is redis-benchmark: each request waits for its reply. The client's and
the kernel's time is in all figures, so they say how much slower a producer becomes, not the server's CPU (for that see
bench/idempotent.py). The last twelve bytes of a value are random digits, as is the idempotent ID: none is a duplicate.
(A value of eight bytes has no room for them; there they are the field's name.) A round runs the three kinds of XADD on
each server, in an order that changes, on a stream whose window is full. Of the runs the middle eight tenths count.
Averages and 99th percentiles are the client's, the latter in steps of 8 us. Client and servers have a core each: on one
and the same, or now here and now there, rates differ by a factor of three. (Where other programs compute, that takes
very long; `--anywhere` lets the system choose.)

RSS is that of servers that were started for it, one for each kind of XADD, behind 2,000,000 XADDs in a pipeline. Memory
of windows is the growth of Pss_Anon with many streams alike.

The figures go to bench/results/proposal.json (proposal-partial.json if a part was left out), the table into
docs/idempotence.md.
"""

import argparse
import csv
import datetime
import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import mean

from bench.client import ask
from bench.measure import redis_benchmark
from bench.progress import said
from bench.servers import IDEMPOTENT, KINDS, Target, all_kinds, redis_binary
from bench.small_memory import producer, window_bytes
from bench.table import RESULTS
from scripts import tables_idempotence, tables_speed
from scripts.python_build import described

SIZES = (8, 16, 32, 64, 128, 256, 512)
QUICK_SIZES = (8, 64, 512)
WINDOW = 10_000
OPERATIONS, QUICK_OPERATIONS = 10_000, 2_000
RESIDENT, QUICK_RESIDENT = 2_000_000, 100_000
RUNS, QUICK_RUNS = 10, 4
_DIGITS = "__rand_int__"
WAYS: dict[str, tuple[str, ...]] = {"plain": (), "IDMP": ("IDMP", "p", _DIGITS), "IDMPAUTO": ("IDMPAUTO", "p")}


@dataclass(frozen=True)
class Run:
    """One run of the client: XADDs a second, and milliseconds from a request to its reply."""

    per_s: float
    mean_ms: float
    p99_ms: float


def words_of(way: str, size: int) -> tuple[str, ...]:
    """Return the words of an XADD whose value has this many bytes, the last twelve of them random, or the field's name
    is.
    """
    is_small = size < len(_DIGITS)
    field, value = (_DIGITS, "x" * size) if is_small else ("f", "x" * (size - len(_DIGITS)) + _DIGITS)
    return ("XADD", "s", *WAYS[way], "*", field, value)


def with_windows(target: Target) -> None:
    """Give new streams of a server the proposal's window."""
    with target.connect() as sock:
        if ask(sock, "CONFIG", "SET", "stream-idmp-maxsize", WINDOW) != b"OK":
            raise SystemExit(f"proposal: {target.kind} has no windows of {WINDOW:,} names")


def two_cores() -> tuple[int, int] | None:
    """Return a core for the servers and one for the client; None where there is one only, or no taskset."""
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[1]) if len(usable) > 1 and shutil.which("taskset") else None


def run_of(target: Target, way: str, size: int, operations: int, core: int | None = None) -> Run:
    """Send this many XADDs, one after the other, from a client on this core, to a stream whose window is full."""
    with target.connect() as sock:
        ask(sock, "DEL", "s")
    redis_benchmark(target, WINDOW, 1, 100, words_of(way, size))
    # fmt: off
    command = [
        *(["taskset", "-c", str(core)] if core is not None else []),
        str(redis_binary("redis-benchmark")), "-h", "127.0.0.1", "-p", str(target.port), "-n", str(operations),
        "-c", "1", "-P", "1", "-r", str(10**9), "--csv", *words_of(way, size),
    ]
    # fmt: on
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    if not lines or "rps" not in lines[0]:
        raise SystemExit(f"proposal: redis-benchmark on {target.kind}: {done.stderr.strip() or done.stdout[-300:]}")
    with target.connect() as sock:
        length = ask(sock, "XLEN", "s")
    if not isinstance(length, int) or length < (WINDOW + operations) * 0.99:
        raise SystemExit(f"proposal: {target.kind} has {length} entries of {WINDOW + operations} requests")
    line = lines[0]
    return Run(float(line["rps"]), float(line["avg_latency_ms"]), float(line["p99_latency_ms"]))


def middle(values: Sequence[float]) -> float:
    """Return the mean of the middle eight tenths: of ten without the least and the largest; of fewer than five all."""
    cut = max(1, len(values) // 10) if len(values) >= 5 else 0
    return mean(sorted(values)[cut : len(values) - cut])


def rates(
    kinds: Sequence[str], size: int, operations: int, runs: int, cores: tuple[int, int] | None
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures of each server and kind of XADD, of values of this size; cores: of servers and client."""
    core = cores[1] if cores else None
    found: dict[str, dict[str, list[Run]]] = {kind: {way: [] for way in WAYS} for kind in kinds}
    with ExitStack() as stack:
        targets = [stack.enter_context(Target(kind)) for kind in kinds]
        for target in targets:
            with_windows(target)
            if cores:
                target.stay_on(cores[0])
            for way in WAYS:
                run_of(target, way, size, max(100, operations // 10), core)
        for number in range(runs):
            ways = [list(WAYS)[(number + at) % len(WAYS)] for at in range(len(WAYS))]
            for target in targets if number % 2 == 0 else reversed(targets):
                with said(f"proposal: {size} B, run {number + 1} of {runs} on {target.kind}"):
                    for way in ways:
                        found[target.kind][way].append(run_of(target, way, size, operations, core))
    return {
        kind: {
            way: {name: middle([asdict(one)[name] for one in taken]) for name in ("per_s", "mean_ms", "p99_ms")}
            for way, taken in ways.items()
        }
        for kind, ways in found.items()
    }


def resident_mb(kind: str, way: str, size: int, operations: int) -> float:
    """Return the RSS of a server that was started for this, in MB, behind as many XADDs."""
    with Target(kind) as target:
        with_windows(target)
        redis_benchmark(target, operations, 1, 100, words_of(way, size))
        time.sleep(0.2)
        return target.resident_bytes() / 1e6


@dataclass(frozen=True)
class Memory:
    """One row: what a server takes, in this unit, and how much is wanted at most."""

    name: str
    unit: str
    wanted: float
    measure: Callable[[Target], float]


def memory_rows(part: float) -> tuple[Memory, ...]:
    """Return the rows of memory; part: of the streams and producers, which are many so that one is measured well."""

    def streams(count: int) -> int:
        return max(1, round(count * part))

    return (
        Memory("an iid of 20 bytes, 10,000 of one producer", "B", 72,
               lambda target: window_bytes(target, streams(20), 1, 10_000, 0) / 10_000),
        Memory("a producer with one iid: 64 B, and 72 B of the iid", "B", 136, producer(1, streams(500_000))),
        Memory("5 producers x 1,000 iids", "KB", 360,
               lambda target: window_bytes(target, streams(40), 5, 1_000, 0) / 1e3),
        Memory("10,000 iids of one producer", "KB", 1_000,
               lambda target: window_bytes(target, streams(20), 1, 10_000, 0) / 1e3),
    )  # fmt: skip


def main() -> int:
    """Measure, write the figures and the documents' tables; return the exit code."""
    arguments = _arguments()
    started = time.monotonic()
    kinds = [kind for kind in all_kinds() if kind in IDEMPOTENT and kind in arguments.kinds.split(",")]
    for kind in IDEMPOTENT:
        if kind not in kinds and kind in arguments.kinds.split(","):
            print(f"proposal: {KINDS[kind]} is not here, and is left out")
    if redis_binary("redis-benchmark") is None:
        print("proposal: redis-benchmark is not on PATH; install your system's redis-tools package", file=sys.stderr)
        return 2
    found: dict[str, object] = {"sizes": {}, "memory": []}
    for size in arguments.sizes if arguments.only != "memory" else ():
        cores = None if arguments.anywhere else two_cores()
        of_size = rates(kinds, size, arguments.operations, arguments.runs, cores)
        for kind in kinds:
            for way in WAYS:
                with said(f"proposal: {size} B, RSS of {kind}, {way}"):
                    of_size[kind][way]["rss_mb"] = resident_mb(kind, way, size, arguments.resident)
        found["sizes"][str(size)] = of_size  # type: ignore[index]
        _print_size(size, of_size)
    for row in memory_rows(arguments.part) if arguments.only != "rates" else ():
        figures = {}
        for kind in kinds:
            with said(f"proposal: {row.name} on {kind}"), Target(kind) as target:
                figures[kind] = row.measure(target)
        shown = "  ".join(f"{KINDS[kind]} {value:.0f} {row.unit}" for kind, value in figures.items())
        print(f"{row.name:56} (wanted: at most {row.wanted} {row.unit})  {shown}", flush=True)
        found["memory"].append(  # type: ignore[attr-defined]
            {"name": row.name, "unit": row.unit, "wanted": row.wanted, "figures": figures}
        )
    _write(found, arguments, (time.monotonic() - started) / 60)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.proposal", description="idempotent XADDs beside plain ones")
    parser.add_argument("--quick", action="store_true", help="three sizes, few requests: minutes")
    parser.add_argument("--sizes", help="bytes of the values, with commas between them")
    parser.add_argument("--operations", type=int, help="requests of each run")
    parser.add_argument("--runs", type=int, help="runs of each kind of XADD on each server")
    parser.add_argument("--resident", type=int, help=f"requests behind which RSS is taken ({RESIDENT:,})")
    parser.add_argument("--only", choices=("rates", "memory"), help="leave out the other part")
    parser.add_argument("--kinds", default=",".join(IDEMPOTENT), help="servers, with commas between them")
    parser.add_argument("--anywhere", action="store_true", help="let the system place client and servers on cores")
    arguments = parser.parse_args()
    sizes, operations, runs, resident, arguments.part = SIZES, OPERATIONS, RUNS, RESIDENT, 1.0
    if arguments.quick:
        sizes, operations, runs, resident = QUICK_SIZES, QUICK_OPERATIONS, QUICK_RUNS, QUICK_RESIDENT
        arguments.part = 0.1
    arguments.sizes = tuple(int(one) for one in arguments.sizes.split(",")) if arguments.sizes else sizes
    arguments.operations = arguments.operations or operations
    arguments.runs = arguments.runs or runs
    arguments.resident = arguments.resident or resident
    if min(arguments.sizes) < 1:
        parser.error("a value has at least one byte")
    return arguments


def _print_size(size: int, of_size: dict[str, dict[str, dict[str, float]]]) -> None:
    for kind, ways in of_size.items():
        cells = "  ".join(f"{way}: {tables_idempotence.proposal_cell(ways, way)}" for way in ways)
        print(f"{size:5} B  {KINDS[kind]:14} {cells}", flush=True)


def _write(found: dict[str, object], arguments: argparse.Namespace, minutes: float) -> None:
    is_part = bool(arguments.quick or arguments.only or arguments.sizes != SIZES or arguments.resident != RESIDENT)
    found["about"] = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": described(),
        "cpus": os.cpu_count(),
        "operations": arguments.operations,
        "resident": arguments.resident,
        "runs": arguments.runs,
        "minutes": round(minutes, 1),
        "load": round(os.getloadavg()[0], 1),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / ("proposal-partial.json" if is_part else "proposal.json")
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}, after {minutes:.1f} minutes")
    if is_part:
        print(tables_idempotence.proposal(found))
    else:
        tables_speed.main()


if __name__ == "__main__":
    sys.exit(main())
