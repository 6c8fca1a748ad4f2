"""How many objects a collection of garbage visits at once on a server."""

import gc
import sys
from collections.abc import Iterator

import pytest

from streamd.base.collector import THRESHOLDS

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="has no second generation")


@pytest.fixture
def visits() -> Iterator[list[int]]:
    """A list that gets the number of objects that each collection visits."""
    found: list[int] = []

    def note(phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            generations = range(facts["generation"] + 1)
            found.append(sum(len(gc.get_objects(generation=number)) for number in generations))

    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.set_threshold(*before)
    gc.unfreeze()


def test_a_million_new_objects_that_stay_are_visited_a_tenth_at_a_time_at_most(visits: list[int]):
    kept: list[list[int]] = []
    for _ in range(1_100_000):
        kept.append([])

    assert len(visits) > 10
    assert max(visits) <= 110_000
