"""`python -m bench`: run the suite, write its table and draw it.

python -m bench [short|long|spark] [--only TEXT] [--rounds N]
"""

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from bench import plots
from bench.group_workloads import GROUP_WORKLOADS
from bench.long import ratio_text, run_curves, run_large, run_memory, run_small_memory, run_special, run_topics
from bench.measure import Result, alternate
from bench.progress import said
from bench.servers import COMPILED, Target, redis_binary
from bench.session_workloads import SESSION_WORKLOADS
from bench.spark import run_spark
from bench.workloads import OVER_PLAIN, WORKLOADS, Workload

RESULTS = Path(__file__).parent / "results"
TOPIC_ENTRIES = {"short": 200_000, "long": 1_000_000}
MADE_BY = {"short": "`make bench`", "long": "`make bench-long`", "spark": "`make bench ARGS=spark`"}


def main() -> int:
    """Run the suite; return the exit code: 0 also when a target was missed, which the table shows."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="streamd beside redis-server, in pairs")
    parser.add_argument("suite", nargs="?", choices=("short", "long", "spark"), default="short")
    parser.add_argument("--only", default="", help="run the rows whose name contains this text")
    parser.add_argument(
        "--rounds", type=int, default=0, help="rounds of each row (default: its own, 3 in the short suite)"
    )
    arguments = parser.parse_args()
    if arguments.suite == "spark":
        _write(run_spark(arguments.only), "spark", partial=bool(arguments.only))
        return 0
    if redis_binary("redis-benchmark") is None:
        print("bench: redis-benchmark is not on PATH; install your system's redis-tools package", file=sys.stderr)
        return 2
    kinds = ["streamd", "redis-server"] if redis_binary("redis-server") else ["streamd"]
    if len(kinds) == 1:
        print("redis-server is not on PATH: absolute figures of streamd only")
    rows: list[dict[str, object]] = []
    chosen = [
        workload
        for workload in (*WORKLOADS, *GROUP_WORKLOADS, *SESSION_WORKLOADS)
        if arguments.only.lower() in workload.name.lower() and (arguments.suite == "long" or workload.short)
    ]
    print(
        f"{'':48}{'ratio':>8}{'wanted':>8}{'streamd/s':>12}{'redis/s':>12}"
        f"{'cpu us':>8}{'redis':>8}{'p99.9':>8}{'redis':>8}"
    )
    for options in dict.fromkeys(workload.options for workload in chosen):
        rows += _run_group(kinds, [workload for workload in chosen if workload.options == options], options, arguments)
    rows += _run_over_plain(arguments)
    rows += run_topics(arguments.only, TOPIC_ENTRIES[arguments.suite])
    if arguments.suite == "long":
        rows += run_memory(kinds, arguments.only)
        rows += run_small_memory(kinds, arguments.only)
        rows += run_large(kinds, arguments.only)
        rows += run_special(arguments.only)
        rows += run_curves(kinds, arguments.only)
        rows += run_spark(arguments.only)
    _write(rows, arguments.suite, partial=bool(arguments.only))
    return 0


def _run_group(
    kinds: list[str], workloads: Iterable[Workload], options: tuple[str, ...], arguments: argparse.Namespace
) -> list[dict[str, object]]:
    rows = []
    with ExitStack() as stack:
        forms = [*kinds, "compiled"] if COMPILED.is_file() else kinds
        targets = [stack.enter_context(Target(kind, options)) for kind in forms]
        for workload in workloads:
            rounds = arguments.rounds or (3 if arguments.suite == "short" else workload.rounds)
            result = alternate(workload.name, targets, workload.work, rounds)
            rows.append(_row(result, workload))
    return rows


def _row(result: Result, workload: Workload) -> dict[str, object]:
    ratio = result.ratio("rate")
    row: dict[str, object] = {
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


def _run_over_plain(arguments: argparse.Namespace) -> list[dict[str, object]]:
    rows = []
    with Target("streamd") as target:
        for name, work, base, most, own_rounds in OVER_PLAIN:
            if arguments.only.lower() not in name.lower():
                continue
            rounds = arguments.rounds or (3 if arguments.suite == "short" else own_rounds)
            ratios = []
            for number in range(rounds):
                first, second = (work, base) if number % 2 == 0 else (base, work)
                with said(f"{name}, round {number + 1} of {rounds}"):
                    samples = {first: first(target), second: second(target)}
                ratios.append(samples[work].cpu_us / samples[base].cpu_us)
            ratio = sorted(ratios)[len(ratios) // 2]
            print(f"{name + ': CPU over plain XADD':48}{ratio:8.2f}{most:8.2f}", flush=True)
            rows.append({"name": f"{name}: CPU over plain XADD", "ratio": ratio, "wanted_at_most": most})
    return rows


def _write(rows: list[dict[str, object]], suite: str, partial: bool) -> None:
    RESULTS.mkdir(exist_ok=True)
    about = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": _python(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "suite": suite,
    }
    name = f"{suite}-partial" if partial else suite
    (RESULTS / f"{name}.json").write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    lines = [
        f"{MADE_BY[suite]}, {about['date']}, Python {about['python']}, "
        f"{about['cpus']} cores, load {about['load'][0]:.1f}",  # type: ignore[index]
        "",
        "| workload | ratio to redis-server | wanted | per second | of redis-server | CPU us each | of redis-server "
        "| p99.9 ms | of redis-server |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_table_row(row) for row in rows if row.get("flat", True)]
    compiled = [row for row in rows if row.get("compiled_cpu_ratio")]
    if compiled:
        lines += [
            "",
            "| workload, compiled | ratio to redis-server | CPU us each | of the pure form's |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {row['name']} | {ratio_text(row['compiled_ratio'])} | {row['compiled_cpu_us']:.2f} "  # type: ignore[arg-type]
            f"| {row['compiled_cpu_ratio']:.2f} |"
            for row in compiled
        ]
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")
    print(f"\nwritten: {RESULTS / (name + '.md')}")
    for path in plots.write(rows, name, RESULTS):
        print(f"drawn: {path}")


def _python() -> str:
    """Return Python's version, and whose it is if it is the system's: how it was built counts."""
    version = platform.python_version()
    if sys.base_prefix != "/usr":
        return version
    try:
        return f"{version} of {platform.freedesktop_os_release()['PRETTY_NAME']}"
    except OSError:
        return version


def _table_row(row: dict[str, object]) -> str:
    cells = [""] * 6
    wanted = ""
    if "figure" in row:
        unit, _, wanted = str(row["unit"]).partition(", wanted ")
        ratio = f"{row['figure']:.2f} {unit}"
    elif "growth" in row:
        ratio, wanted = f"{row['growth']:.2f}", "1"
    else:
        ratio = ratio_text(row["ratio"])  # type: ignore[arg-type]
        if "wanted" in row:
            wanted = f">= {row['wanted']}"
        elif "wanted_at_most" in row:
            wanted = f"<= {row['wanted_at_most']}"
        unit = "B" if str(row["name"]).startswith("memory") else "s"
        if "streamd" in row:
            cells[:2] = [f"{row[kind]:.2f} {unit}" if kind in row else "" for kind in ("streamd", "redis-server")]
        else:
            cells = [form.format(row[place]) if row.get(place) else "" for place, form in _PLACES]
    what = f"{row['name']}: {row['what']}" if "growth" in row else row["name"]
    return f"| {what} | {ratio} | {wanted} | {' | '.join(cells)} |"


_PLACES = (
    ("streamd_per_s", "{:,.0f}"),
    ("redis_per_s", "{:,.0f}"),
    ("streamd_cpu_us", "{:.2f}"),
    ("redis_cpu_us", "{:.2f}"),
    ("streamd_p999_ms", "{:.2f}"),
    ("redis_p999_ms", "{:.2f}"),
)


if __name__ == "__main__":
    sys.exit(main())
