"""`python -m bench.slopes`: does each command cost what it documents, and at most ten times what it costs redis-server?

python -m bench.slopes [--only COMMAND ...] [--form pure|compiled] [--quick] [--all]
"""

import argparse
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from bench.servers import COMPILED, Target, redis_binary
from bench.slopes.arguments import FILLINGS, long_arguments
from bench.slopes.measure import Finding, judge, table
from bench.slopes.probe import Probe
from bench.slopes.rows import ROWS
from scripts.newest_redis import NoRedis, newest_redis

OPTIONS = ("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")


def main() -> int:
    """Return 1 if a command exceeds its bound."""
    parser = argparse.ArgumentParser(prog="python -m bench.slopes", description=__doc__)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="COMMAND", help='names as in COMMAND LIST, or "X*"')
    parser.add_argument("--form", choices=("pure", "compiled"), default="pure")
    parser.add_argument("--quick", action="store_true", help="a quarter of the sizes, two rounds, no load")
    parser.add_argument("--all", action="store_true", help="show all rows, not only those that exceed a bound")
    arguments = parser.parse_args()
    if arguments.form == "compiled" and not COMPILED.is_file():
        parser.error("there is no compiled form: make compiled")
    wanted = [name.lower().replace(" ", "|") for name in arguments.only]
    long = long_arguments(ROWS, FILLINGS[:1] if arguments.quick else FILLINGS)
    whole = {row.name for row in ROWS if row.whole}
    every = [row for row in (*ROWS, *long) if any(fnmatchcase(row.name, name) for name in wanted)]
    every = [replace(row, whole=True) if row.name in whole else row for row in every]
    started = time.monotonic()
    with ExitStack() as stack:
        ours = Probe(stack.enter_context(Target("compiled" if arguments.form == "compiled" else "streamd", OPTIONS)))
        binary = _redis()
        theirs = None
        if binary is not None:
            options = (*OPTIONS, "--enable-debug-command", "yes")
            theirs = Probe(stack.enter_context(Target("redis-server", options, binary=binary)))
        found: list[Finding] = []
        print(*table([]), flush=True)
        for row in every:
            rounds, parts = (2, 4) if arguments.quick else (3, 1)
            one = judge(row, ours, theirs, rounds, parts, not arguments.quick)
            found.append(one)
            if one.faults or arguments.all:
                print(*table([one])[1:], flush=True)
    failed = {one.row.name for one in found if one.faults}
    commands = {row.name for row in every}
    print(f"{len(every)} rows of {len(commands)} commands in {time.monotonic() - started:.0f} s")
    print(f"exceeding a bound: {', '.join(sorted(failed)) or 'none'}")
    return 1 if failed else 0


def _redis() -> Path | None:
    """Return the redis-server that is compared with: the newest, or where that cannot be made the one on PATH."""
    try:
        return newest_redis()
    except NoRedis as error:
        print(f"slopes: {error}: redis-server of PATH instead", file=sys.stderr)
        return redis_binary("redis-server")


if __name__ == "__main__":
    sys.exit(main())
