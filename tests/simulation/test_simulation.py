"""The simulation finds planted bugs, finds nothing without them, and repeats a seed exactly."""

import os
import subprocess
import sys

import pytest

from tests.simulation.planted import BUGS, planted
from tests.simulation.simulation import simulate

# A seed that finds the bug; `python -m tests.simulation --bug NAME` looks for others.
FOUND_BY: list[tuple[str, int]] = []


@pytest.mark.parametrize(("bug", "seed"), FOUND_BY)
@pytest.mark.interpreted(reason="it replaces methods of the server")
def test_a_planted_bug_breaks_a_seed_that_is_whole_without_it(bug: str, seed: int) -> None:
    assert simulate(seed).broken is None
    with planted(BUGS[bug]):
        assert simulate(seed).broken is not None


def test_a_seed_has_the_same_history_in_each_process() -> None:
    texts = set()
    for hash_seed in ("1", "2"):
        words = [sys.executable, "-m", "tests.simulation", "--seed", "7"]
        ended = subprocess.run(
            words, capture_output=True, check=True, text=True, env={**os.environ, "PYTHONHASHSEED": hash_seed}
        )
        texts.add(ended.stdout)
    assert len(texts) == 1
    assert "promotes" in texts.pop()
