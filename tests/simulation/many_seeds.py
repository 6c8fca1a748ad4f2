"""Runs many seeds of the simulation on several processes."""

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import replace
from itertools import count, islice

from tests.simulation.faults import INCIDENTS, WAVERING
from tests.simulation.planted import BUGS, planted
from tests.simulation.simulation import Outcome, simulate

_FAILURES_MAX = 5
_CHUNK = 4
# In each of so many seeds the Sentinel gives failovers up.
_WAVERING_EVERY = 4


def run_seed(seed: int, bug: str | None) -> Outcome:
    """Run a seed, with a planted bug if one is named."""
    with planted(BUGS[bug]) if bug else nullcontext():
        return simulate(seed, WAVERING if seed % _WAVERING_EVERY == 0 else INCIDENTS)


def run_chunk(seeds: list[int], bug: str | None) -> list[Outcome]:
    """Run some seeds; the history of those that break nothing is left out."""
    return [one if one.broken else replace(one, lines=[]) for one in (run_seed(seed, bug) for seed in seeds)]


def outcomes(first: int, workers: int, goal: "Goal", bug: str | None = None) -> Iterator[Outcome]:
    """Yield the outcomes of seeds from the first one on, as long as the goal wants more."""
    seeds = count(first)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run_chunk, list(islice(seeds, _CHUNK)), bug) for _ in range(2 * workers)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                yield from one.result()
            while len(running) < 2 * workers and goal.wants(len(running) * _CHUNK):
                running.add(pool.submit(run_chunk, list(islice(seeds, _CHUNK)), bug))


class Goal:
    """How many seeds are run: so many, or as many as some seconds allow, but at least a number."""

    def __init__(self, seeds: int, seconds: float | None, at_least: int) -> None:
        self._seeds = seeds
        self._until_s = None if seconds is None else time.monotonic() + seconds
        self._at_least = at_least
        self.done = self.failed = 0

    def wants(self, running: int) -> bool:
        """Return whether another seed is to be begun."""
        begun = self.done + running
        if self.failed >= _FAILURES_MAX or begun >= self._seeds:
            return False
        return self._until_s is None or begun < self._at_least or time.monotonic() < self._until_s
