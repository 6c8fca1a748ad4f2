"""`make simulate`: servers, clients, network, disks and clocks in one process; a seed decides what happens.

A primary, two replicas and a Sentinel serve clients, while servers are killed, destroyed, cut off and promoted. In the
end nothing may be lost that a client was told to be on all replicas, nothing may be there twice, and all servers have
the same state. A seed that breaks that is printed with its history; `--seed N` runs it again.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import replace
from itertools import count, islice

from tests.simulation.simulation import Outcome, simulate

_FAILURES_MAX = 5
_CHUNK = 4


def run_chunk(seeds: list[int]) -> list[Outcome]:
    """Run some seeds; the history of those that break nothing is left out."""
    return [one if one.broken else replace(one, lines=[]) for one in map(simulate, seeds)]


def outcomes(first: int, workers: int, goes_on: "Goal") -> Iterator[Outcome]:
    """Yield the outcomes of seeds from the first one on, as long as the goal wants more."""
    seeds = count(first)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run_chunk, list(islice(seeds, _CHUNK))) for _ in range(2 * workers)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                yield from one.result()
            while len(running) < 2 * workers and goes_on.wants(len(running) * _CHUNK):
                running.add(pool.submit(run_chunk, list(islice(seeds, _CHUNK))))


class Goal:
    """How many seeds are run: a number of them, or as many as some seconds allow, at least a number."""

    def __init__(self, seeds: int | None, seconds: float | None, at_least: int) -> None:
        self._seeds = seeds
        self._until_s = None if seconds is None else time.monotonic() + seconds
        self._at_least = at_least
        self.done = self.failed = 0

    def wants(self, running: int) -> bool:
        """Return whether another seed is to be begun."""
        begun = self.done + running
        if self.failed >= _FAILURES_MAX:
            return False
        if self._until_s is not None and self._seeds is None:
            return begun < self._at_least or time.monotonic() < self._until_s
        is_late = self._until_s is not None and time.monotonic() >= self._until_s
        return begun < (self._seeds or 0) and not is_late


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
    args = parser.parse_args()
    if args.seed is not None:
        outcome = simulate(args.seed)
        show(outcome)
        return 1 if outcome.broken else 0
    seconds = args.seconds if args.minutes is None else args.minutes * 60
    seeds = args.seeds if args.seeds is not None or seconds is not None else 1_000
    first = args.first if args.first >= 0 else time.time_ns() // 1_000_000
    goal = Goal(seeds, seconds, args.at_least)
    began_s, told, switches, last = time.monotonic(), 0, 0, first
    for outcome in outcomes(first, args.workers, goal):
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
