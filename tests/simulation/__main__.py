"""`make simulate`: servers, clients, network, disks and clocks in one process; a seed decides what happens.

A primary, two replicas and a Sentinel serve clients, while servers are killed, destroyed, cut off and promoted. In the
end nothing may be lost that a client was told to be on all replicas, nothing may be there twice, and all servers have
the same state. A seed that breaks that is printed with its history; `--seed N` runs it again.
"""

import argparse
import os
import sys
import time

from tests.simulation.many_seeds import Goal, outcomes, run_seed
from tests.simulation.planted import BUGS
from tests.simulation.simulation import Outcome


def show(outcome: Outcome) -> None:
    """Print a history and what it has broken."""
    print("\n".join(outcome.lines))
    print(f"seed {outcome.seed}: {outcome.broken or 'nothing is broken'}")
    print(f"again: .venv/bin/python -m tests.simulation --seed {outcome.seed}", flush=True)


def main() -> int:
    """Return 0 if no seed broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one alone, and print its history")
    parser.add_argument("--seeds", type=int, help="how many; 1,000 without this and without a time")
    parser.add_argument("--first", type=int, default=0, help="the first seed; -1 takes another one each time")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--at-least", type=int, default=0, help="so many seeds, however long they take")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant this bug")
    args = parser.parse_args()
    if args.seed is not None:
        outcome = run_seed(args.seed, args.bug)
        show(outcome)
        return 1 if outcome.broken else 0
    seconds = args.seconds if args.minutes is None else args.minutes * 60
    seeds = args.seeds if args.seeds is not None else 1_000 if seconds is None else sys.maxsize
    first = args.first if args.first >= 0 else time.time_ns() // 1_000_000
    goal = Goal(seeds, seconds, args.at_least)
    began_s, told, switches, last = time.monotonic(), 0, 0, first
    for outcome in outcomes(first, args.workers, goal, args.bug):
        goal.done += 1
        told += outcome.told
        switches += outcome.switches
        last = max(last, outcome.seed)
        if outcome.broken:
            goal.failed += 1
            show(outcome)
    took_s = time.monotonic() - began_s
    print(
        f"{goal.done} seeds from {first} to {last} in {took_s:.0f} s: {told} promises, {switches} failovers, "
        f"{goal.failed} broken"
    )
    return 1 if goal.failed else 0


if __name__ == "__main__":
    sys.exit(main())
