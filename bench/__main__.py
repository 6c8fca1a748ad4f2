"""`python -m bench`: run the suite, write its table and draw it.

python -m bench [short|long|spark] [--only TEXT] [--rounds N]
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from bench.large_streams import run_large_streams
from bench.long import (
    run_curves,
    run_large,
    run_leaks,
    run_memory,
    run_small_memory,
    run_special,
    run_starts,
    run_topics,
)
from bench.measure import Result, alternate
from bench.mqtt import run_mqtt
from bench.over_own import PAIRS
from bench.progress import said
from bench.rows import ALL
from bench.servers import Target, forms, redis_binary
from bench.spark import run_spark
from bench.table import RATIO_OF, Row, carried_over, ratio_text, write
from bench.workloads import Workload

TOPIC_ENTRIES = {"short": 200_000, "long": 1_000_000}


def main() -> int:
    """Run the suite; return the exit code: 0 also when a target was missed, which the table shows."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="streamd beside redis-server, in pairs")
    parser.add_argument("suite", nargs="?", choices=("short", "long", "spark"), default="short")
    parser.add_argument("--only", default="", help="run the rows whose name contains this text")
    parser.add_argument(
        "--rounds", type=int, default=0, help="rounds of each row (default: its own, 3 in the short suite)"
    )
    arguments = parser.parse_args()
    started = time.monotonic()
    if arguments.suite == "spark":
        write(run_spark(arguments.only), "spark", bool(arguments.only), started)
        return 0
    if redis_binary("redis-benchmark") is None:
        print("bench: redis-benchmark is not on PATH; install your system's redis-tools package", file=sys.stderr)
        return 2
    kinds = forms()
    if "redis-server" not in kinds:
        print("redis-server is not on PATH: absolute figures of streamd only")
    rows: list[Row] = []
    print(
        f"{'':48}{'ratio':>8}{'wanted':>8}{'streamd/s':>12}{'redis/s':>12}"
        f"{'cpu us':>8}{'redis':>8}{'p99.9':>8}{'redis':>8}"
    )
    try:
        for some in _measured(kinds, arguments):
            rows += some
    except KeyboardInterrupt:
        print("\ninterrupted: what was not measured again is of the table before, with its date")
        if not arguments.only:
            rows += carried_over(rows, arguments.suite)
    write(rows, arguments.suite, bool(arguments.only), started)
    return 0


def _measured(kinds: list[str], arguments: argparse.Namespace) -> Iterator[list[Row]]:
    """Yield the rows, as they come."""
    is_long, only = arguments.suite == "long", arguments.only
    chosen = [one for one in ALL if only.lower() in one.name.lower() and (is_long or one.short)]
    for options in dict.fromkeys(workload.options for workload in chosen):
        group = [workload for workload in chosen if workload.options == options]
        yield from _run_group(kinds, group, options, arguments)
    yield _run_pairs(kinds, arguments)
    yield run_topics(only, TOPIC_ENTRIES[arguments.suite])
    if is_long:
        for measure in (run_starts, run_memory, run_small_memory, run_leaks, run_large, run_curves):
            yield measure(kinds, only)
        yield run_special(only)
        yield run_large_streams(only)
        yield run_mqtt(only)
        yield run_spark(only)


def _run_group(
    kinds: list[str], workloads: Iterable[Workload], options: tuple[str, ...], arguments: argparse.Namespace
) -> Iterator[list[Row]]:
    with ExitStack() as stack:
        targets = [stack.enter_context(Target(kind, options)) for kind in kinds]
        for workload in workloads:
            rounds = arguments.rounds or (3 if arguments.suite == "short" else workload.rounds)
            yield [_row(alternate(workload.name, targets, workload.work, rounds), workload)]


def _row(result: Result, workload: Workload) -> Row:
    ratio = result.ratio("rate")
    row: Row = {
        "name": workload.name,
        "ratio": ratio,
        "wanted": workload.least,
        "cpu_ratio": result.ratio("cpu_us"),
        "streamd_per_s": result.median("streamd", "rate"),
        "redis_per_s": result.median("redis-server", "rate"),
        "streamd_cpu_us": result.median("streamd", "cpu_us"),
        "redis_cpu_us": result.median("redis-server", "cpu_us"),
        "streamd_p999_ms": result.median("streamd", "p999_ms"),
        "redis_p999_ms": result.median("redis-server", "p999_ms"),
        "load": os.getloadavg()[0],
    }
    if "compiled" in result.samples:
        row["compiled_ratio"] = result.ratio("rate", "compiled")
        row["compiled_per_s"] = result.median("compiled", "rate")
        row["compiled_p999_ms"] = result.median("compiled", "p999_ms")
        row["compiled_cpu_us"] = result.median("compiled", "cpu_us")
        row["compiled_cpu_ratio"] = result.ratio("cpu_us", "compiled", "streamd")
    print(
        f"{workload.name:48}{ratio_text(ratio):>8}{workload.least:8.2f}{row['streamd_per_s']:12,.0f}{row['redis_per_s']:12,.0f}"
        f"{row['streamd_cpu_us']:8.2f}{row['redis_cpu_us']:8.2f}{row['streamd_p999_ms']:8.2f}{row['redis_p999_ms']:8.2f}",
        flush=True,
    )
    if "compiled" in result.samples:
        per_s, cpu_us = result.median("compiled", "rate"), result.median("compiled", "cpu_us")
        ratio = result.ratio("rate", "compiled")
        print(f"{'  compiled':48}{ratio_text(ratio):>8}{'':8}{per_s:12,.0f}{'':12}{cpu_us:8.2f}", flush=True)
    return row


def _run_pairs(kinds: list[str], arguments: argparse.Namespace) -> list[Row]:
    """Rows that compare two workloads of one server."""
    rows = []
    chosen = [pair for pair in PAIRS if arguments.only.lower() in pair.name.lower()]
    if arguments.suite == "short":
        chosen = [pair for pair in chosen if pair.only_streamd]
    for kind in kinds:
        with Target(kind) as target:
            for pair in chosen:
                if kind == "redis-server" and pair.only_streamd:
                    continue
                with said(f"{pair.name} on {kind}"):
                    ratio = pair.ratio(target, arguments.rounds or (3 if arguments.suite == "short" else pair.rounds))
                print(f"{pair.name:64}{ratio:8.2f}{pair.wanted:8.2f}  {kind}", flush=True)
                row = next((row for row in rows if row["name"] == pair.name), None)
                if row is None:
                    wanted = "wanted" if pair.figure == "rate" else "wanted_at_most"
                    row = {"name": pair.name, wanted: pair.wanted}
                    rows.append(row)
                row[RATIO_OF[kind]] = ratio
    return rows


if __name__ == "__main__":
    sys.exit(main())
