"""`python -m tests.spark.chaos`: the chaos test with parameters; exits 0 only when every row is there once, and where
that is not promised no row is twice and a query says so."""

import argparse
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

import pyspark

from tests.spark.chaos.run import Plan, Result, Run

ROUND = ("executor", "python", "stall", "streamd", "driver", "python", "executor", "streamd", "commit", "stall")


def main() -> int:
    """Run and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.chaos", description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000, help="rows of each query (default: 30000)")
    parser.add_argument("--faults", type=int, default=40, help="how many faults, beside the cut connections")
    parser.add_argument("--only", nargs="+", choices=sorted(set(ROUND)), default=ROUND, help="which faults, in turn")
    parser.add_argument("--per-batch", type=int, default=600, help="entries in a micro-batch")
    parser.add_argument("--fail-share", type=float, default=0.04, help="share of attempts that fail by themselves")
    parser.add_argument("--seed", type=int, default=1, help="which moments and which processes")
    parser.add_argument("--exactly-once", default="auto", help="none shows what happens without")
    parser.add_argument("--seconds-max", type=float, default=1800.0, help="give up after so long")
    parser.add_argument("--keep", action="store_true", help="keep the directory with logs, checkpoints and journal")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupt)
    plan = Plan(
        rows=options.rows,
        faults=tuple(options.only[number % len(options.only)] for number in range(options.faults)),
        per_batch=options.per_batch,
        load_parts=max(3, options.rows // 3000),
        seed=options.seed,
        fail_share=options.fail_share,
        exactly_once=options.exactly_once,
        seconds_max=options.seconds_max,
        changing=options.exactly_once != "none",
    )
    directory = Path(tempfile.mkdtemp(prefix="streamd-chaos-"))
    keep = options.keep
    run = Run(plan, directory, lambda line: print(line, flush=True))
    try:
        try:
            result = run.run()
        finally:
            run.end()
        keep = keep or not result.exact
        report(result)
        return 0 if result.exact else 1
    except KeyboardInterrupt:
        print("interrupted; everything that was started has ended")
        return 130
    except BaseException:
        keep = True
        raise
    finally:
        if keep:
            print(f"logs, checkpoints and journal are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def report(result: Result) -> None:
    """Print what happened and what was found."""
    print(f"Spark {pyspark.__version__}, standalone, one master and two workers, speculation on")
    story = [
        re.sub(r"changing-\d+|batch \d+, partition \d+|\b\d+ rows|this one has \d+", "..", line)
        for line in result.story
    ]
    for line in sorted(set(story)):
        print(f"{story.count(line):4}  {line[:150]}")
    faults = ", ".join(f"{count} {what}" for what, count in sorted(result.faults.items()))
    print(f"faults: {faults}; {result.cuts} cut connections")
    tasks = result.tasks
    print(f"attempts of tasks: {tasks['attempts']}, {tasks['failed']} failed, {tasks['speculative']} speculative")
    print(f"queries and loads that failed and were started again: {result.failures}")
    for one in result.comparisons:
        print(
            f"{one.stream:9} {one.expected:8,} rows  lost {one.lost}, duplicated {one.duplicated}; "
            f"{one.suppressed:,} duplicates suppressed {one.example}"
        )
    if result.twice:
        print(
            f"rand()    {len(result.twice)} queries, {result.stops} of them stopped with RowsChanged; "
            f"rows there twice {result.twice.total()}"
        )
    lost, duplicated = (sum(getattr(one, name) for one in result.comparisons) for name in ("lost", "duplicated"))
    print(f"lost {lost}, duplicated {duplicated} after {result.seconds:.0f} s")


def interrupt(number: int, frame: FrameType | None) -> None:
    """Take SIGTERM as Ctrl-C."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
