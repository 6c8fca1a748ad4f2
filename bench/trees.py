"""`python -m bench.trees CHECKOUT`: this checkout's streamd beside another's, in pairs.

The rows of `make bench` over the wire (with --long all of bench/tree_rows.py), by the server's CPU per request, and an
empty start: the cost of a change for all other requests, or the gain of a mechanism that one of the two lacks. A change
is judged by the median over the rows; a single row moves by a few per cent by itself.
"""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.client import ask
from bench.servers import Target, compiled_python, redis_binary
from bench.tree_rows import TREE_ROWS
from bench.workloads import Workload

HERE = Path(__file__).resolve().parent.parent
STARTS = 9


def main() -> int:
    """Print a line for each row; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.trees", description="this checkout beside another")
    parser.add_argument("other", type=Path, help="the directory of the other checkout, an earlier version say")
    parser.add_argument("--only", default="", help="the rows whose name contains this text")
    parser.add_argument("--pairs", type=int, default=9, help="runs on each, in turn (9)")
    parser.add_argument(
        "--long", action="store_true", help="the rows of `make bench-long`, bench.over_own and bench.rules, too"
    )
    parser.add_argument(
        "--form", choices=("pure", "compiled"), default="pure", help="compiled: what `make compiled` made"
    )
    arguments = parser.parse_args()
    kind = "streamd" if arguments.form == "pure" else "compiled"
    other = arguments.other.resolve()
    if not (other / "streamd" / "__main__.py").is_file():
        print(f"bench: {other} is no checkout of streamd: it has no streamd/__main__.py", file=sys.stderr)
        return 2
    for tree in (other, HERE):
        if kind == "compiled" and not compiled_python(tree).is_file():
            print(f"bench: {tree} has no compiled form; run `make compiled` there", file=sys.stderr)
            return 2
    if redis_binary("redis-benchmark") is None:
        print("bench: redis-benchmark is not on PATH; install your system's redis-tools package", file=sys.stderr)
        return 2
    chosen = [
        workload
        for workload in TREE_ROWS
        if (workload.short or arguments.long) and arguments.only.lower() in workload.name.lower()
    ]
    print(f"{'':48}{'there':>9}{'here':>9}{'here/there':>12}")
    ratios: list[float] = []
    for options in dict.fromkeys(workload.options for workload in chosen):
        group = [workload for workload in chosen if workload.options == options]
        ratios += _group(group, kind, other, arguments.pairs)
    if ratios:
        print(f"{'median of the rows':66}{median(ratios):12.3f}")
    if not arguments.only:
        _starts(kind, other)
    return 0


def _group(workloads: list[Workload], kind: str, other: Path, pairs: int) -> list[float]:
    """Return the CPU of each workload here over there, the median of the pairs; all have the same options."""
    ratios = []
    with ExitStack() as stack:
        there, here = (stack.enter_context(Target(kind, workloads[0].options, tree)) for tree in (other, HERE))
        for target in (there, here):
            with target.connect() as sock:
                runs_compiled = "streamd_form:compiled" in str(ask(sock, "INFO", "server"))
            if runs_compiled != (kind == "compiled"):
                sys.exit(f"bench: the server of {target.tree} does not run its {kind} form")
        for workload in workloads:
            cpu_us: dict[Target, list[float]] = {there: [], here: []}
            for number in range(pairs):
                for target in (there, here) if number % 2 == 0 else (here, there):
                    cpu_us[target].append(workload.work(target).cpu_us)
            ratios.append(median(b / a for a, b in zip(cpu_us[there], cpu_us[here], strict=True)))
            left, right = median(cpu_us[there]), median(cpu_us[here])
            print(f"{workload.name:48}{left:6.2f} us{right:6.2f} us{ratios[-1]:12.3f}", flush=True)
    return ratios


def _starts(kind: str, other: Path) -> None:
    """Print the time from the start of the process to its first PONG, and its CPU until then."""
    for tree in (other, HERE):  # so that both find their modules compiled
        Target(kind, tree=tree).stop()
    started: dict[Path, list[tuple[float, float]]] = {other: [], HERE: []}
    for _ in range(STARTS):
        for tree, samples in started.items():
            with Target(kind, tree=tree) as target:
                samples.append((target.start_s * 1e3, target.cpu_s() * 1e3))
    for name, place in (("time", 0), ("CPU", 1)):
        there, here = (median(sample[place] for sample in started[tree]) for tree in (other, HERE))
        print(f"{'an empty start, ' + name:48}{there:6.0f} ms{here:6.0f} ms{here / there:12.3f}")


if __name__ == "__main__":
    sys.exit(main())
