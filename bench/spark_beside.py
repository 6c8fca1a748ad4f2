"""`make bench-spark`: rows per second of the Spark source, beside its alternatives, in one run.

Beside it stand redis-py's plain loop, which is one process, Spark's own Parquet files, and record batches that are
ready before Spark asks for them: no Python source can be faster. All take turns, round by round, so that other load
meets all of them; figures are medians, ratios those of the same round.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import redis

from bench.client import ask
from bench.servers import Target
from bench.spark import MAPPED, Bench, Cost, Jobs, alternated, fill, middle, session
from bench.spark_job import SyntheticSource
from bench.spark_json import json_jobs
from bench.spark_streams import STREAMS, stream_jobs
from spark_source.settings.options import BATCH_PARTITION_ENTRIES

RESULTS = Path(__file__).parent / "results" / "spark_beside.json"
ROWS = 600_000
ROUNDS = 5
PAGE = 5_000
PIPELINE = 500

READY = "ready record batches into noop"
MAPPED_READ, RAW_READ = "streamd into noop, with a schema", "streamd into noop, raw"
NONE, CONTENT = "streamd, exactlyOnce=none", "streamd, identity=content"


def reading(bench: Bench, rows: int, place: Path) -> Jobs:
    """Return ways to read a stream, or as many rows from elsewhere."""
    fill(bench.target, rows)
    bench.spark.dataSource.register(SyntheticSource)
    ready = bench.spark.read.format("synthetic").options(rows=rows, parts=rows // BATCH_PARTITION_ENTRIES).load()
    bench.read(MAPPED).write.parquet(str(place / "in"))
    parquet = bench.spark.read.parquet(str(place / "in"))

    def loop() -> None:
        client, position, got = _client(bench), "-", 0
        while page := client.xrange("in", position, count=PAGE):
            got += len(page)
            position = "(" + page[-1][0]
        assert got == rows

    def into_nothing(frame: object) -> Callable[[], None]:
        return lambda: frame.write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]

    return {
        READY: into_nothing(ready),
        MAPPED_READ: into_nothing(bench.read(MAPPED)),
        RAW_READ: into_nothing(bench.read()),
        "Spark's Parquet files into noop": into_nothing(parquet),
        f"redis-py, XRANGE by {PAGE:,}": loop,
    }


def writing(bench: Bench, rows: int, place: Path) -> Jobs:
    """Return ways to write rows that Spark, or a loop, makes."""
    made = bench.spark.range(0, rows, 1, 4).selectExpr(
        "id AS n", "concat('shop-', id % 100) AS shop", "concat('item ', id) AS item"
    )
    numbers = iter(range(1_000_000))

    def checked(stream: str) -> None:
        with bench.target.connect() as sock:
            assert ask(sock, "XLEN", stream) == rows
            ask(sock, "DEL", stream)

    def write(**options: str) -> Callable[[], None]:
        def job() -> None:
            stream = f"out-{next(numbers)}"
            given = {"port": bench.target.port, "stream": stream, **options}
            made.write.format("streamd").options(**given).mode("append").save()
            checked(stream)

        return job

    def loop() -> None:
        client, stream = _client(bench), f"out-{next(numbers)}"
        pipe = client.pipeline(transaction=False)
        for n in range(rows):
            pipe.xadd(stream, {"n": n, "shop": f"shop-{n % 100}", "item": f"item {n}"})
            if len(pipe) == PIPELINE:
                pipe.execute()
        pipe.execute()
        checked(stream)

    return {
        NONE: write(exactlyOnce="none"),
        CONTENT: write(),
        "streamd, identity=position": write(identity="position"),
        "streamd, identity=key": write(idempotencyKey="n"),
        "Spark's Parquet files": lambda: made.write.mode("overwrite").parquet(str(place / "out")),
        f"redis-py, XADD in pipelines of {PIPELINE}, no identity": loop,
    }


def _client(bench: Bench) -> redis.Redis:
    return redis.Redis(port=bench.target.port, decode_responses=True, protocol=2)


def figures(title: str, costs: dict[str, list[Cost]], rows: int, beside: tuple[tuple[str, str], ...]) -> dict:
    """Return the figures behind `show`, as bench/results keeps them."""
    ways = []
    for name, runs in costs.items():
        cost = middle(runs)
        parts = (cost.server_s, cost.jvm_s, cost.python_s)
        # The CPU of a loop in this process is not among Spark's.
        cpu_us = None if name.startswith("redis-py") else [part / rows * 1e6 for part in parts]
        ways.append({"name": name, "rows_per_s": rows / cost.wall_s, "cpu_us": cpu_us})
    pairs = []
    for one, other in beside:
        ratios = [b.wall_s / a.wall_s for a, b in zip(costs[one], costs[other], strict=True)]
        pairs.append({"one": one, "other": other, "ratio": median(ratios), "least": min(ratios), "most": max(ratios)})
    return {"title": title, "rows": rows, "ways": ways, "pairs": pairs}


def show(title: str, costs: dict[str, list[Cost]], rows: int, beside: tuple[tuple[str, str], ...]) -> None:
    """Print the rates of all ways, and the ratios of some."""
    print(f"\n{title}, {rows:,} rows of three fields")
    for name, runs in costs.items():
        cost = middle(runs)
        in_here = f"{rows / cost.wall_s:10,.0f}/s   in one process"  # whose CPU time is not among Spark's
        print(f"  {name:50}{in_here if name.startswith('redis-py') else cost.show(rows)}")
    for one, other in beside:
        ratios = [b.wall_s / a.wall_s for a, b in zip(costs[one], costs[other], strict=True)]
        print(f"  {one} over {other}: {median(ratios):.2f}  ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def main() -> None:
    """Measure, print, and keep the figures for the table in docs/spark-reference.md."""

    parser = argparse.ArgumentParser(prog="make bench-spark", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=ROWS, help=f"a multiple of {BATCH_PARTITION_ENTRIES:,}")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    rows = max(BATCH_PARTITION_ENTRIES, arguments.rows // BATCH_PARTITION_ENTRIES * BATCH_PARTITION_ENTRIES)
    kept: list[dict] = []

    def measure(title: str, jobs: Jobs, beside: tuple[tuple[str, str], ...], rows: int = rows) -> None:
        costs = alternated(bench, jobs, arguments.rounds)
        show(title, costs, rows, beside)
        kept.append(figures(title, costs, rows, beside))

    spark = session()
    try:
        with tempfile.TemporaryDirectory() as directory, Target("streamd") as target:
            bench, place = Bench(target, spark), Path(directory)
            measure("Reading", reading(bench, rows, place), ((MAPPED_READ, READY), (RAW_READ, READY)))
            with target.connect() as sock:
                ask(sock, "DEL", "in")
            measure("Writing", writing(bench, rows, place), ((CONTENT, NONE),))
            for title, jobs, pair in json_jobs(bench, rows):
                measure(title, jobs, (pair,))
            measure("Many streams", stream_jobs(bench, place), (), STREAMS)
        made = {"day": time.strftime("%d %B %Y"), "rounds": arguments.rounds, "parts": kept}
        RESULTS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
