"""The simulation finds planted bugs, finds nothing without them, and repeats a seed exactly."""

import os
import subprocess
import sys

import pytest

from tests.simulation.faults import INCIDENTS, WAVERING
from tests.simulation.planted import BUGS, planted
from tests.simulation.simulation import simulate

# A bug, what goes wrong in the run, and a seed that finds it. (`make simulate ARGS="--bug NAME"` looks for others, with
# all that may go wrong: that takes up to some hundred seeds.)
SEEDS_MAX = 200
FOUND_BY = [
    ("older_history", INCIDENTS, 52),
    ("partial_across_promotion", INCIDENTS, 83),
    ("name_in_a_note", INCIDENTS, 5),
    ("early_acknowledgement", ["crash everyone"], 82),
    ("duplicate_without_offset", ["isolate", "stop", "crash", "crash everyone"], 311),
    ("stranger_is_followed", ["empty"], 4),
    ("sentinel_is_an_operator", WAVERING, 24),
    ("lacking_is_elected", WAVERING, 56),
    ("sent_is_acknowledged", ["isolate", "stop", "crash"], 27),
]


@pytest.mark.parametrize(("bug", "incidents", "seed"), FOUND_BY, ids=[bug for bug, _, _ in FOUND_BY])
@pytest.mark.interpreted(reason="it replaces methods of the server")
def test_a_planted_bug_breaks_a_seed_that_is_whole_without_it(bug, incidents, seed):
    with planted(BUGS[bug]):
        # Where the server does something in another order than it did, another seed finds it.
        found = next(one for one in range(seed, seed + SEEDS_MAX) if simulate(one, incidents).broken is not None)
    assert simulate(found, incidents).broken is None


@pytest.mark.interpreted(reason="it replaces constants of the server")
def test_a_seed_has_the_same_history_in_each_process():
    texts = set()
    for hash_seed in ("1", "2"):
        words = [sys.executable, "-m", "tests.simulation", "--seed", "30"]
        ended = subprocess.run(
            words, capture_output=True, check=True, text=True, env={**os.environ, "PYTHONHASHSEED": hash_seed}
        )
        texts.add(ended.stdout)
    assert len(texts) == 1
    assert "promotes" in texts.pop()
