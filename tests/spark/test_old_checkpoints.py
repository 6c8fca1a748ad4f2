"""Checkpoints that are older than the sink: restored, cut and copied ones stop the query, and lose no row."""

import random
from collections import Counter

import pytest
import redis

from spark_source.errors import OldCheckpoint, RowsChanged
from tests.spark.model_query import Checkpoint, Query
from tests.spark.whole_writes import Context

KINDS: dict[str, tuple[dict[str, str], str | None]] = {
    "content": ({}, None),
    "named": ({"sinkId": "me"}, None),
    "key": ({"idempotencyKey": "n"}, None),
    "key of the stream": ({"sinkId": "me", "idempotencyKey": "n", "idempotencyScope": "stream"}, None),
    "position": ({"identity": "position"}, None),
    "marker": ({"exactlyOnce": "marker"}, None),
    "foreachBatch": ({}, "{}"),
    "foreachBatch, own labels": ({}, "part-{}"),
    "foreachBatch, one label": ({"idempotencyKey": "n"}, "all"),
}
WAYS = ["restored", "cut by one", "cut by three", "copied", "copied while it ran"]
STOPS = (OldCheckpoint, RowsChanged)


def found(client: redis.Redis) -> Counter:
    return Counter(int(fields[b"n"]) for _, fields in client.xrange("s"))


def aged(either: redis.Redis, task: Context, kind: str, way: str) -> tuple[Query, int, int]:
    """Return a query with an old checkpoint, the number of rows in the sink, and of rows in the source."""
    options, label = KINDS[kind]
    first = Query(either, task, options, label, Checkpoint())
    first.run(20, 10)
    backup = first.checkpoint.copy()
    first.run(50, 10)
    if way == "copied while it ran":
        first.run_batch(53, 10)
        return Query(either, task, options, label, backup), 53, 83
    checkpoint = first.checkpoint if way.startswith("cut") else backup
    if way.startswith("cut"):
        checkpoint.cut(1 if way == "cut by one" else 3)
    return Query(either, task, options, label, checkpoint), 50, 80


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_old_checkpoint_stops_the_query_before_it_loses_a_row(
    either: redis.Redis, task: Context, kind: str, way: str
) -> None:
    query, written, rows = aged(either, task, kind, way)

    for _ in range(2):  # the next start stops as well
        with pytest.raises(STOPS) as caught:
            query.run(rows, 100)

    assert found(either) == Counter(range(written))
    text = str(caught.value)
    assert "the checkpoint is older than the sink" in text
    assert "\n" not in text
    for remedy in ("go on with the checkpoint as it was after batch", "a new sinkId", "exactlyOnce=none"):
        assert remedy in text


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("out", ["new sinkId", "none"])
def test_the_ways_out_that_the_error_names_lose_no_row(
    either: redis.Redis, task: Context, kind: str, way: str, out: str
) -> None:
    query, written, rows = aged(either, task, kind, way)
    with pytest.raises(STOPS):
        query.run(rows, 10 if way != "cut by one" else 100)
    before, own = found(either), query.options

    query.options = {**own, "sinkId": "another"}
    if out == "none":
        query.options = {name: value for name, value in own.items() if not name.startswith("idempotency")}
        query.options["exactlyOnce"] = "none"
        while len(query.checkpoint.ends) <= (written - 1) // 10:  # up to the batch that is noted
            query.run_batch(rows, 10)
        query.run_batch(rows, 10)
        query.options = own
    query.run(rows + 30, 10)
    query.run(rows + 60, 25)

    assert set(found(either)) == set(range(rows + 60))
    assert max(found(either).values()) <= 2
    assert before == Counter(range(written))


@pytest.mark.parametrize("kind", KINDS)
def test_the_checkpoint_as_it_was_at_the_noted_batch_goes_on_where_it_was(
    either: redis.Redis, task: Context, kind: str
) -> None:
    options, label = KINDS[kind]
    query = Query(either, task, options, label, Checkpoint())
    query.run(50, 10)
    newest = query.checkpoint.copy()
    query.checkpoint.cut(2)
    with pytest.raises(STOPS):
        query.run(80, 100)

    query.checkpoint = newest
    query.run(80, 100)
    assert found(either) == Counter(range(80))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_comes_again_with_other_rows_may_be_left_out(
    either: redis.Redis, task: Context, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    query, written, rows = aged(either, task, kind, "cut by one")
    query.options = {**query.options, "onRowsChanged": "continue"}
    query.run(rows, 100)

    (warning,) = [record.getMessage() for record in caplog.records if record.name == "spark_source"]
    assert warning.endswith("before: its 40 rows are not written, although they are others (onRowsChanged=continue)")
    query.run(rows + 20, 100)
    assert found(either) == Counter([*range(written), *range(rows, rows + 20)])


@pytest.mark.parametrize("kind", ["content", "foreachBatch"])
def test_a_lower_number_stops_the_query_also_where_other_rows_are_accepted(
    either: redis.Redis, task: Context, kind: str
) -> None:
    query, written, rows = aged(either, task, kind, "restored")
    query.options = {**query.options, "onRowsChanged": "continue"}
    with pytest.raises(OldCheckpoint):
        query.run(rows, 100)
    assert found(either) == Counter(range(written))


def test_an_old_checkpoint_is_noticed_by_a_batch_without_rows(streamd: redis.Redis, task: Context) -> None:
    query, _, _ = aged(streamd, task, "content", "restored")
    with pytest.raises(OldCheckpoint):
        query._write(1, [], "")


def test_a_sink_of_its_own_is_said_once_and_has_no_quarrel_with_the_other(
    either: redis.Redis, task: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy of a checkpoint under a sinkId of its own, beside the query that it was copied from."""
    first = Query(either, task, {}, None, Checkpoint())
    first.run(20, 10)
    second = Query(either, task, {"sinkId": "copy"}, None, first.checkpoint.copy())
    first.run(30, 10)
    for rows in (40, 50, 60):
        first.run(rows, 10)
        second.run(rows - 10, 10)

    assert found(either) == Counter([*range(60), *range(20, 50)])
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "spark_source"]
    assert warning.startswith(
        "batch 2 of sink copy@q: the query has written up to batch 3 to s under another name, rows"
    )


def test_a_sink_id_that_was_used_before_is_no_way_out(either: redis.Redis, task: Context) -> None:
    query = Query(either, task, {"sinkId": "a"}, None, Checkpoint())
    query.run(20, 10)
    backup = query.checkpoint.copy()
    query.run(30, 10)
    query.options = {"sinkId": "b"}
    query.run(50, 10)

    query.checkpoint, query.options = backup, {"sinkId": "a"}
    with pytest.raises(OldCheckpoint):
        query.run(50, 10)
    assert found(either) == Counter(range(50))


# --- random shapes ---------------------------------------------------------------------------------------------------


class Histories:
    """Queries with one ID and their backups; each step is drawn. No row may be lost without an error, or doubled."""

    def __init__(self, client: redis.Redis, task: Context, kind: str, seed: int) -> None:
        self.drawn = random.Random(f"{kind} {seed}")
        self.client, self.task = client, task
        self.options, self.label = KINDS[kind]
        self.rows = 10
        self.queries = [self.query(Checkpoint())]
        self.backups: list[Checkpoint] = []
        self.stops = self.goes = 0

    def query(self, checkpoint: Checkpoint) -> Query:
        return Query(self.client, self.task, self.options, self.label, checkpoint)

    def step(self) -> None:
        query = self.drawn.choice(self.queries)
        what = self.drawn.choices(["run", "grow", "save", "restore", "cut", "forget", "copy"], [9, 4, 1, 1, 1, 1, 1])[0]
        if what == "run":
            self.run(query)
        elif what == "grow":
            self.rows += self.drawn.randrange(1, 15)
        elif what == "save":
            self.backups.append(query.checkpoint.copy())
        elif what == "restore" and self.backups:
            query.checkpoint = self.drawn.choice(self.backups).copy()
        elif what == "cut":
            query.checkpoint.cut(self.drawn.randrange(1, 4))
        elif what == "forget":
            query.checkpoint.commits = max(len(query.checkpoint.ends) - 1, 0)
        elif what == "copy" and len(self.queries) < 3:
            self.queries.append(self.query(query.checkpoint.copy()))

    def run(self, query: Query) -> None:
        crash = self.drawn.choice(["", "", "", "planned", "written", "committed"])
        try:
            query.run_batch(self.rows, self.drawn.choice([3, 10, 100]), crash)
        except STOPS:
            self.stops += 1
            if self.drawn.random() < 0.5 and len(self.queries) > 1:
                self.queries.remove(query)
            return
        self.goes += 1
        there = found(self.client)
        assert not there or max(there.values()) == 1
        if query.checkpoint.commits:
            done = query.checkpoint.ends[query.checkpoint.commits - 1]
            assert set(range(done)) <= set(there), "rows are lost without an error"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 40))])
@pytest.mark.parametrize("kind", KINDS)
def test_histories_of_old_copied_and_cut_checkpoints(either: redis.Redis, task: Context, kind: str, seed: int) -> None:
    histories = Histories(either, task, kind, seed)
    for _ in range(40):
        histories.step()

    assert histories.goes
