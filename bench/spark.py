"""The Spark data source, measured on two threads of this machine with the server beside it.

Rates are of whole jobs, planning included, after a warm-up round. Beside each stands the CPU time of an entry in the
server, the JVM and the Python workers: it bounds the rate, and can be compared when the machine is busy.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.client import ask, load, request
from bench.progress import said
from bench.servers import Target
from bench.table import Row, single
from spark_source.settings.options import BATCH_PARTITION_ENTRIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parent.parent
ENTRIES = 1_000_000
ROWS = 300_000
MAPPED = "n long, shop string, item string"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

Figures = list[tuple[str, float, str]]  # (what, figure, its unit and what was wanted)

Jobs = dict[str, Callable[[], None]]


@dataclass(frozen=True)
class Cost:
    """One run: seconds on the clock, and CPU seconds of the server, the JVM and the Python processes below it."""

    wall_s: float
    server_s: float
    jvm_s: float
    python_s: float

    def show(self, rows: int) -> str:
        """Return microseconds per row of each process."""
        each = (
            f"{name} {s / rows * 1e6:.1f}" for name, s in zip(("server", "JVM", "workers"), self._parts(), strict=True)
        )
        return f"{rows / self.wall_s:10,.0f}/s   CPU us: " + ", ".join(each)

    def _parts(self) -> tuple[float, float, float]:
        return self.server_s, self.jvm_s, self.python_s


class Bench:
    """A server and a Spark session."""

    def __init__(self, target: Target, spark: "SparkSession") -> None:
        self.target = target
        self.spark = spark

    def read(self, schema: str | None = None, stream: str = "in") -> "DataFrame":
        reader = self.spark.read.format("streamd").options(port=self.target.port, stream=stream)
        return (reader.schema(schema) if schema else reader).load()

    def run(self, job: Callable[[], None]) -> Cost:
        """Run a job and return its cost."""
        before, start = self._cpu(), time.perf_counter()
        job()
        wall_s = time.perf_counter() - start
        return Cost(wall_s, *(after - b for after, b in zip(self._cpu(), before, strict=True)))

    def _cpu(self) -> tuple[float, float, float]:
        """Return CPU seconds so far of the server, the JVM, and all Python processes below the JVM."""
        jvm_s = python_s = 0.0
        for pid in _below(os.getpid()):
            if pid == self.target.process.pid:
                continue
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                name = Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            own, reaped = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            if name.startswith("java"):
                jvm_s += own * TICK_S
                python_s += reaped * TICK_S
            else:
                python_s += (own + reaped) * TICK_S
        return self.target.cpu_s(), jvm_s, python_s


def _below(pid: int) -> list[int]:
    """Return the processes below one, however deep."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, left = [], [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def session() -> "SparkSession":
    """Return a quiet session on two threads."""
    from pyspark.sql import SparkSession

    from spark_source.java import spark_environment

    os.environ.update(spark_environment())
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )


def fill(target: Target, entries: int, stream: str = "in") -> None:
    """Add small entries: a number, a shop, an item."""
    with target.connect() as sock:
        for first in range(0, entries, 100_000):
            last = min(first + 100_000, entries)
            load(
                sock,
                [
                    request("XADD", stream, "*", "n", n, "shop", f"shop-{n % 100}", "item", f"item {n}")
                    for n in range(first, last)
                ],
            )


def alternated(bench: Bench, jobs: Jobs, rounds: int) -> dict[str, list[Cost]]:
    """Run each job once to warm up, then `rounds` times in turn."""
    for name, job in jobs.items():
        with said(f"Spark: {name}, to warm up"):
            job()
    costs: dict[str, list[Cost]] = {name: [] for name in jobs}
    for number in range(rounds):
        for name in list(jobs) if number % 2 == 0 else list(reversed(jobs)):
            with said(f"Spark: {name}, round {number + 1} of {rounds}"):
                costs[name].append(bench.run(jobs[name]))
    return costs


def middle(costs: list[Cost]) -> Cost:
    """Return the run whose time is the median."""
    return sorted(costs, key=lambda cost: cost.wall_s)[len(costs) // 2]


def reading(bench: Bench, entries: int = ENTRIES, rounds: int = 3) -> Figures:
    """Read a stream into nothing, mapped and raw, beside a source with ready batches."""
    from bench.spark_job import SyntheticSource

    fill(bench.target, entries)
    bench.spark.dataSource.register(SyntheticSource)
    ready = bench.spark.read.format("synthetic").options(rows=entries, parts=entries // BATCH_PARTITION_ENTRIES).load()

    def into_nothing(rows: "DataFrame") -> Callable[[], None]:
        return lambda: rows.write.format("noop").mode("overwrite").save()

    costs = alternated(
        bench,
        {
            "mapped": into_nothing(bench.read(MAPPED)),
            "raw": into_nothing(bench.read()),
            "synthetic": into_nothing(ready),
        },
        rounds,
    )
    wanted = {"mapped": ", wanted 150", "raw": ", wanted 200", "synthetic": ""}
    figures: Figures = []
    for name, runs in costs.items():
        cost = middle(runs)
        print(f"   {name:12} {cost.show(entries)}", flush=True)
        what = "ready record batches into noop" if name == "synthetic" else f"reading into noop, {name}"
        figures.append((f"Spark: {what}", entries / cost.wall_s / 1000, f"thousand entries/s{wanted[name]}"))
    return figures


def writing(bench: Bench, rows: int = ROWS, rounds: int = 3) -> Figures:
    """Write rows of Spark's own: with a name for each, and without."""
    made = bench.spark.range(0, rows, 1, 4).selectExpr(
        "id AS n", "concat('shop-', id % 100) AS shop", "concat('item ', id) AS item"
    )
    numbers = iter(range(1_000_000))

    def write(**options: str) -> Callable[[], None]:
        def job() -> None:
            stream = f"out-{next(numbers)}"
            given = {"port": bench.target.port, "stream": stream, **options}
            made.write.format("streamd").options(**given).mode("append").save()
            with bench.target.connect() as sock:
                assert ask(sock, "XLEN", stream) == rows
                ask(sock, "DEL", stream)

        return job

    jobs = {
        "content": write(),
        "none": write(exactlyOnce="none"),
        "position": write(identity="position"),
        "key": write(idempotencyKey="n"),
    }
    costs = alternated(bench, jobs, rounds)
    for name, runs in costs.items():
        print(f"   {name:12} {middle(runs).show(rows)}", flush=True)
    ratio = median(none.wall_s / named.wall_s for named, none in zip(costs["content"], costs["none"], strict=True))
    return [
        (
            "Spark: writing, identity=content",
            rows / middle(costs["content"]).wall_s / 1000,
            "thousand rows/s, wanted 80",
        ),
        ("Spark: writing, exactlyOnce=none", rows / middle(costs["none"]).wall_s / 1000, "thousand rows/s"),
        ("Spark: identity=content over exactlyOnce=none", ratio, "x, wanted 0.6"),
    ]


def small_batches(bench: Bench, batches: int = 30) -> Figures:
    """Micro-batches of one entry, stream to stream, beside a source and a sink that do nothing."""
    from bench.spark_job import SyntheticSource

    bench.spark.dataSource.register(SyntheticSource)
    with bench.target.connect() as sock, tempfile.TemporaryDirectory() as directory:
        words: tuple[str | int, ...] = ("XADD", "tick", "*", "n", 0, "shop", "s", "item", "i")
        ask(sock, *words)
        ours = bench.spark.readStream.format("streamd").schema(MAPPED)
        ours = ours.options(port=bench.target.port, stream="tick", startingOffsets="earliest")
        to_us = ours.load().writeStream.format("streamd").options(port=bench.target.port, stream="tock")
        idle = bench.spark.readStream.format("synthetic").load().writeStream.format("synthetic")
        queries = {
            name: writer.option("checkpointLocation", f"{directory}/{name}").trigger(processingTime="1 second").start()
            for name, writer in (("nothing", idle), ("streamd", to_us))
        }
        measured: dict[str, dict[int, dict[str, int]]] = {name: {} for name in queries}
        try:
            while min(map(len, measured.values())) < batches:  # both at once: what else the machine does hits both
                ask(sock, *words)
                time.sleep(0.5)
                for name, query in queries.items():
                    if query.exception() is not None:
                        raise SystemExit(f"bench: {query.exception()}")
                    done = {one["batchId"]: one["durationMs"] for one in query.recentProgress if one["numInputRows"]}
                    measured[name].update(done)
        finally:
            for query in queries.values():
                query.stop()
    warm = {name: list(each.values())[5:] for name, each in measured.items()}
    whole = {name: median(one["triggerExecution"] for one in each) for name, each in warm.items()}
    planning = median(one["latestOffset"] for one in warm["streamd"])
    return [
        ("Spark: a batch of one entry, stream to stream", whole["streamd"], "ms"),
        ("Spark: a batch of a source and a sink that do nothing", whole["nothing"], "ms"),
        ("Spark: what ours adds to a small batch", whole["streamd"] - whole["nothing"], "ms, wanted at most 50"),
        ("Spark: asking for new entries, all an empty batch is", planning, "ms, wanted at most 50"),
    ]


def task_memory() -> Figures:
    """Peak memory of a process that does a task's work, by the size of its partition."""
    figures: Figures = []
    with Target("streamd") as target:
        fill(target, ENTRIES)
        for what in ("read", "write"):
            peaks = {}
            for rows in (10_000, 250_000, ENTRIES):
                with said(f"Spark: memory of a task that {what}s {rows:,} rows"):
                    peaks[rows] = _peak_mb(target, what, rows)
            print(f"   {what}: " + ", ".join(f"{rows:,} rows {mb:.0f} MB" for rows, mb in peaks.items()), flush=True)
            figures.append((f"Spark: memory of a task that {what}s 1,000,000 rows", peaks[ENTRIES], "MB"))
    return figures


def _peak_mb(target: Target, what: str, rows: int) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "bench.spark_task", what, str(target.port), str(rows)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout)


def run_spark(only: str) -> list[Row]:
    """Measure the chosen parts; return the rows of the table."""
    measures: list[Callable[..., Figures]] = [
        m for m in (reading, writing, small_batches, task_memory) if only.lower() in f"spark {m.__name__}".lower()
    ]
    rows: list[Row] = []
    if not measures:
        return rows
    spark = session() if set(measures) != {task_memory} else None
    try:
        for measure in measures:
            if measure is task_memory:
                figures = task_memory()
            else:
                with Target("streamd") as target:
                    assert spark is not None
                    figures = measure(Bench(target, spark))
            for name, figure, unit in figures:
                print(f"{name:56}{figure:10.3f} {unit}", flush=True)
                rows.append(single(name, figure, unit))
    finally:
        if spark is not None:
            spark.stop()
    return rows
