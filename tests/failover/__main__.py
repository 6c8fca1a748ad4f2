"""`python -m tests.failover`: Sentinels, and primaries that are destroyed or cut off; 0 only if promises were kept."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.newest_redis import newest_redis
from tests.failover.machines import three_machines
from tests.failover.query import Query
from tests.failover.run import CUT_OFF, DESTROYED, EMPTIED, Result, Run

HOW = {one: [one] for one in (DESTROYED, CUT_OFF, EMPTIED)} | {"mixed": [DESTROYED, CUT_OFF, EMPTIED]}
PARTS = ("producers", "groups", "spark")


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def programs(which: str) -> list[tuple[str, Path | str]]:
    """Return the names and programs of the Sentinels. Raises: SystemExit when there is none of those."""
    installed = shutil.which("redis-server")
    found: list[tuple[str, Path | str]] = []
    if which in ("8", "both"):
        found.append(("Sentinels of Redis 8.10.2", newest_redis()))
    if which in ("7", "both"):
        if installed is not None:
            version = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True).stdout
            found.append((f"Sentinels of {version.partition(' sha')[0]}", installed))
        elif not found:
            raise SystemExit("failover: no redis-server in PATH: install it, or give --sentinel 8")
        else:
            say("no redis-server in PATH: only Sentinels of Redis 8.10.2")
    return found


def run(program: Path | str, failovers: int, how: list[str], parts: list[str], seed: int) -> Result:
    """Return what came of so many failovers behind Sentinels of one program."""
    spark = None
    if "spark" in parts:
        from tests.spark.sessions import quiet_session

        spark = quiet_session()
    with tempfile.TemporaryDirectory(prefix="streamd-failover-") as place:
        directory = Path(place)
        with three_machines(program, directory) as machines:
            query = None if spark is None else Query(spark, machines, directory)
            return Run(machines, how, parts, seed, say, query).run(failovers)


def main() -> int:
    """Return 0 if nothing that was told is lost, there twice, or in another order."""
    parser = argparse.ArgumentParser(prog="python -m tests.failover", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="how many failovers in all (default: 10)")
    parser.add_argument("--sentinel", choices=("7", "8", "both"), default="8", help="of which Redis (default: 8)")
    parser.add_argument("--how", choices=tuple(HOW), default="mixed", help="what befalls the primary (default: mixed)")
    parser.add_argument("--with", dest="parts", default="producers,groups", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=1, help="which moments")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if not set(parts) <= set(PARTS) or options.runs < 1:
        parser.error(f"--with takes {','.join(PARTS)}, --runs at least 1")
    chosen = programs(options.sentinel)
    is_exact = True
    for number, (name, program) in enumerate(chosen):
        failovers = options.runs // len(chosen) + (number < options.runs % len(chosen))
        if failovers:
            say(f"{name}, with {', '.join(parts)}")
            result = run(program, failovers, HOW[options.how], parts, options.seed + number)
            for line in result.lines():
                say(line)
            is_exact &= result.verdict.is_exact
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
