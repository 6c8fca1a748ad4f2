"""Tasks: small ranges of several streams share one, by the two offsets alone."""

import json
from itertools import product
from pathlib import Path

import pytest

from spark_source.reading.offsets import Mark, Offset, Range, offset_json, parse_offset, ranges
from spark_source.reading.tasks import STREAMS_MAX, Task, shared, tasks

CHECKPOINTS = Path(__file__).parents[2] / "spark" / "data" / "checkpoints"


def parts(stream: str, *counts: int) -> list[Range]:
    return [Range(stream, f"{n}-0", f"{n + 1}-0", count) for n, count in enumerate(counts)]


def planned(together: int | None, **counts: tuple[int, ...]) -> Offset:
    """Return the end of a first batch with these numbers of entries in the parts of each stream."""
    return {
        stream: Mark(f"{len(each)}-0", sum(each), tuple((f"{n + 1}-0", c) for n, c in enumerate(each)), "0-0",
                     together=together)
        for stream, each in counts.items()
    }  # fmt: skip


def test_many_small_streams_share_few_tasks() -> None:
    made = shared((parts(f"s{n}", 1) for n in range(2_000)), 25_000)
    assert [len(task) for task in made] == [STREAMS_MAX] * 8
    assert [part.stream for task in made for part in task] == [f"s{n}" for n in range(2_000)]


@pytest.mark.parametrize("entries_max", [1, 3, 4, 10])
def test_each_range_is_in_one_task_and_every_bound_holds(entries_max: int) -> None:
    kinds = [(), (0,), (1,), (2,), (1, 1), (2, 1), (4,), (1, 1, 1), (4, 4)]
    for chosen in product(kinds, repeat=4):
        found = [parts(f"s{n}", *counts) for n, counts in enumerate(chosen)]
        made = shared(found, entries_max)
        assert sorted(map(repr, (part for task in made for part in task))) == sorted(
            repr(part) for each in found for part in each
        )
        for task in made:
            assert len(task) == 1 or sum(part.count for part in task) <= entries_max
            assert len({part.stream for part in task}) == len(task), "minPartitions: one stream's ranges are apart"
        for each in found:
            places = [next(n for n, task in enumerate(made) if part in task) for part in each]
            assert places == sorted(places), "in the order of the stream"


def test_a_large_stream_shares_no_task() -> None:
    large, small = parts("large", 20, 20), [parts("a", 3), parts("b", 3)]
    assert shared([small[0], large, small[1]], 25) == [(large[0],), (large[1],), (small[0][0], small[1][0])]


def alone(start: Offset, end: Offset) -> list[Task]:
    """Return the tasks of a version that had no sharing."""
    return [(part,) for part in ranges(start, end)]


@pytest.mark.parametrize("query", ["stream", "pattern", "log"])
@pytest.mark.parametrize("batch", [0, 1])
def test_a_batch_that_was_planned_before_there_was_sharing_is_read_as_planned(query: str, batch: int) -> None:
    def offset(number: int) -> Offset:
        lines = (CHECKPOINTS / query / "checkpoint" / "offsets" / str(number)).read_text().splitlines()
        return parse_offset(json.loads(lines[-1]))

    start = offset(batch - 1) if batch else {}
    assert tasks(start, offset(batch)) == alone(start, offset(batch))
    assert len(tasks(start, offset(batch))) > 1


def test_how_tasks_are_shared_stands_in_the_offset() -> None:
    end = planned(10, a=(1,), b=(2,), c=(7, 7), d=(3, 3))
    again = parse_offset(json.loads(json.dumps(offset_json(end))))
    assert tasks({}, again) == tasks({}, end)
    assert [[part.stream for part in task] for task in tasks({}, end)] == [["c"], ["c"], ["a", "b", "d"], ["d"]]
    mixed = {**planned(None, a=(1,), b=(2,)), **planned(10, c=(1,), d=(3,)), **planned(2, e=(1,), f=(1,))}
    assert [[part.stream for part in task] for task in tasks({}, mixed)] == [["a"], ["b"], ["c", "d"], ["e", "f"]]
    assert tasks({"c": end["c"]}, {"c": end["c"]}) == [], "nothing new"
