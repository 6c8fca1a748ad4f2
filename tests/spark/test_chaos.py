"""The chaos test in its short form: on a small cluster each kind of process is killed once."""

from collections import Counter
from pathlib import Path

import pytest

from tests.spark.chaos.check import compare_rows
from tests.spark.chaos.run import Plan, Run

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_killed_processes_and_cut_connections_on_a_cluster(tmp_path: Path) -> None:
    plan = Plan(rows=1200, faults=("executor", "stall", "python", "streamd", "commit"), seconds_max=280)
    story: list[str] = []
    run = Run(plan, tmp_path, story.append)
    try:
        result = run.run()
    finally:
        run.end()

    assert result.exact, [*story, result]
    assert [one.expected for one in result.comparisons] == [1200, 1200, 1200, 1200]
    assert {"an executor", "a Python worker", "streamd", "the driver after a commit"} <= set(result.faults)
    assert result.cuts > 0
    assert sum(one.suppressed for one in result.comparisons) > 0, "nothing was written twice: nothing was shown"


def test_the_comparison_sees_what_is_lost_too_much_and_altered() -> None:
    rows = Counter({("1-0", "a"): 1, ("2-0", "a"): 3})
    assert compare_rows("s", rows, rows).lost == 0
    for found, expected in [
        (Counter({("2-0", "a"): 3}), (1, 0)),
        (Counter({("1-0", "a"): 1, ("2-0", "a"): 4}), (0, 1)),
        (Counter({("1-0", "b"): 1, ("2-0", "a"): 3}), (1, 1)),
        (Counter({("1-0", "a"): 2, ("2-0", "a"): 2}), (1, 1)),
    ]:
        one = compare_rows("s", rows, found)
        assert (one.lost, one.duplicated) == expected
