"""`python -m bench`: run the suite, write its table and draw it.

python -m bench [short|long|spark] [--only TEXT] [--rounds N] [--without PARTS]
"""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

from bench.idempotent import run_idempotent
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
from bench.servers import KINDS, Target, all_kinds, redis_binary
from bench.spark import run_spark
from bench.table import OVER_NEWEST, RATIO_OF, SERVERS, Row, carried_over, ratio_text, wanted_text, write
from bench.workloads import Workload

IDEMPOTENT_ROUNDS = 5
# The parts of the long suite that measure each server, and those that begin servers of their own.
OF_ALL: dict[str, Callable[[list[str], str], list[Row]]] = {
    "starts": run_starts,
    "memory": run_memory,
    "small-memory": run_small_memory,
    "leaks": run_leaks,
    "large": run_large,
    "curves": run_curves,
}
OF_STREAMD: dict[str, Callable[[str], list[Row]]] = {
    "special": run_special,
    "large-streams": run_large_streams,
    "mqtt": run_mqtt,
    "spark": run_spark,
}
PARTS = ("rates", "pairs", "topics", *OF_ALL, *OF_STREAMD)
TOPIC_ENTRIES = {"short": 200_000, "long": 1_000_000}


def main() -> int:
    """Run the suite; return the exit code: 0 also when a target was missed, which the table shows."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="streamd beside redis-server, in pairs")
    parser.add_argument("suite", nargs="?", choices=("short", "long", "spark"), default="short")
    parser.add_argument("--only", default="", help="run the rows whose name contains this text")
    parser.add_argument(
        "--rounds", type=int, default=0, help="rounds of each row (default: its own, 3 in the short suite)"
    )
    parser.add_argument(
        "--without", default="", help=f"parts that keep the figures of the table before: {', '.join(PARTS)}"
    )
    arguments = parser.parse_args()
    left_out = arguments.without.split(",") if arguments.without else []
    if unknown := set(left_out) - set(PARTS):
        parser.error(f"--without knows no {', '.join(sorted(unknown))}")
    started = time.monotonic()
    if arguments.suite == "spark":
        write(run_spark(arguments.only), "spark", bool(arguments.only), started)
        return 0
    if redis_binary("redis-benchmark") is None:
        print("bench: redis-benchmark is not on PATH; install your system's redis-tools package", file=sys.stderr)
        return 2
    kinds = all_kinds()
    if "redis-server" not in kinds:
        print("redis-server is not on PATH: absolute figures of streamd only")
    if "newest-redis" not in kinds:
        print(f"{KINDS['newest-redis']} is not in build: no column of it (python scripts/newest_redis.py makes it)")
    rows: list[Row] = []
    minutes: dict[str, float] = {}
    print(f"{'':64}{'ratio':>8}{'newest':>8}{'per second':>12}{'cpu us':>9}{'p99.9':>8}")
    is_whole = not left_out
    try:
        for part in PARTS:
            if part not in left_out:
                began = time.monotonic()
                for some in _measured(part, kinds, arguments):
                    rows += some
                minutes[part] = round((time.monotonic() - began) / 60, 1)
    except (Exception, KeyboardInterrupt) as error:
        if not isinstance(error, KeyboardInterrupt):
            traceback.print_exc()
        print("\ninterrupted: what was not measured again is of the table before, with its date")
        is_whole = False
    if not is_whole and not arguments.only:
        rows += carried_over(rows, arguments.suite)
    print(f"minutes: {', '.join(f'{part} {took}' for part, took in minutes.items())}")
    write(rows, arguments.suite, bool(arguments.only), started)
    return 0


def _measured(part: str, kinds: list[str], arguments: argparse.Namespace) -> Iterator[list[Row]]:
    """Yield the rows of a part, as they come."""
    is_long, only = arguments.suite == "long", arguments.only
    if part == "rates":
        chosen = [one for one in ALL if only.lower() in one.name.lower() and (is_long or one.short)]
        for options in dict.fromkeys(workload.options for workload in chosen):
            group = [workload for workload in chosen if workload.options == options]
            yield from _run_group(kinds, group, options, arguments)
    elif part == "pairs":
        yield _run_pairs(kinds, arguments)
        if is_long:
            yield run_idempotent(kinds, only, arguments.rounds or IDEMPOTENT_ROUNDS)
    elif part == "topics":
        yield run_topics(only, TOPIC_ENTRIES[arguments.suite])
    elif is_long and part in OF_ALL:
        yield OF_ALL[part](kinds, only)
    elif is_long and part in OF_STREAMD:
        yield OF_STREAMD[part](only)


def _run_group(
    kinds: list[str], workloads: Iterable[Workload], options: tuple[str, ...], arguments: argparse.Namespace
) -> Iterator[list[Row]]:
    with ExitStack() as stack:
        targets = [stack.enter_context(Target(kind, options)) for kind in kinds]
        for workload in workloads:
            rounds = arguments.rounds or (3 if arguments.suite == "short" else workload.rounds)
            yield [_row(alternate(workload.name, targets, workload.work, rounds), workload)]


def _row(result: Result, workload: Workload) -> Row:
    row: Row = {"name": workload.name, "wanted": workload.least, "load": os.getloadavg()[0]}
    if workload.least_pure is not None:
        row["wanted_pure"] = workload.least_pure
    if workload.newest:
        row["wanted_newest"] = workload.newest
    print(f"{workload.name}  (wanted: {wanted_text(row)})")
    for kind, server in SERVERS.items():
        if kind not in result.samples:
            continue
        for figure, place in (("rate", "per_s"), ("cpu_us", "cpu_us"), ("p999_ms", "p999_ms")):
            row[f"{server}_{place}"] = result.median(kind, figure)
        ratios: list[float | None] = [None, None]
        if kind in OVER_NEWEST:
            ratios = [result.ratio("rate", kind), result.ratio("rate", kind, "newest-redis")]
            row[RATIO_OF[kind]] = ratios[0]
            if ratios[1] is not None:
                row[OVER_NEWEST[kind]] = ratios[1]
        print(
            f"{'  ' + KINDS[kind]:64}{ratio_text(ratios[0]):>8}{ratio_text(ratios[1]):>8}"
            f"{row[f'{server}_per_s']:12,.0f}{row[f'{server}_cpu_us']:9.2f}{row[f'{server}_p999_ms']:8.2f}",
            flush=True,
        )
    row["cpu_ratio"] = result.ratio("cpu_us")
    if "compiled" in result.samples:
        row["compiled_cpu_ratio"] = result.ratio("cpu_us", "compiled", "streamd")
    return row


def _run_pairs(kinds: list[str], arguments: argparse.Namespace) -> list[Row]:
    """Rows that compare two workloads of one server."""
    rows: list[Row] = []
    chosen = [pair for pair in PAIRS if arguments.only.lower() in pair.name.lower()]
    if arguments.suite == "short":
        chosen = [pair for pair in chosen if pair.short]
    if not chosen:
        return []
    for kind in kinds:
        with Target(kind) as target:
            for pair in chosen:
                if kind not in pair.kinds:
                    continue
                with said(f"{pair.name} on {kind}"):
                    ratio = pair.ratio(target, arguments.rounds or (3 if arguments.suite == "short" else pair.rounds))
                print(f"{pair.name:64}{ratio:8.2f}{pair.wanted:8.2f}  {kind}", flush=True)
                row = next((row for row in rows if row["name"] == pair.name), None)
                if row is None:
                    wanted = "wanted" if pair.figure == "rate" else "wanted_at_most"
                    row = {"name": pair.name, wanted: pair.wanted}
                    if pair.wanted_pure is not None:
                        row["wanted_pure"] = pair.wanted_pure
                    rows.append(row)
                row[RATIO_OF[kind]] = ratio
    return rows


if __name__ == "__main__":
    sys.exit(main())
