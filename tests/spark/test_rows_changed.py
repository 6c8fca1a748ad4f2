"""Attempts that bring other rows than the one before: no row is written twice without a word."""

import logging
from collections import Counter

import pytest
import redis

from spark_source.errors import RowsChanged
from spark_source.naming.identity import BatchName
from tests.spark.one_task import ROWS, commit_reports, entries, wanted, write
from tests.spark.test_sink import die, write_over

UNIQUE = [{"n": n, "v": f"v{n}"} for n in range(40)]
OTHER = [{"n": n, "v": f"other {n}"} for n in range(40)]
KEYED = {"idempotencyKey": "n"}


def test_other_rows_stop_an_attempt_before_its_first_row_and_the_error_says_what_helps(streamd: redis.Redis) -> None:
    die(streamd, 4, UNIQUE)
    before = streamd.xlen("s")

    with pytest.raises(RowsChanged) as caught:
        write(streamd, OTHER, attempt=1)

    assert streamd.xlen("s") == before > 0
    text = str(caught.value)
    assert text.startswith("batch 3, partition 0, stream s: the attempt before had 40 rows and may have written some")
    assert "set idempotencyKey to columns that are the same in every attempt" in text
    assert "onRowsChanged=continue" in text
    assert "\n" not in text


@pytest.mark.parametrize("moment", range(3, 9))
def test_two_attempts_with_other_rows_at_once_write_those_of_one(streamd: redis.Redis, moment: int) -> None:
    """A speculative copy of a task whose rows are not the same each time, and another producer on the stream."""

    def copy() -> None:
        streamd.xadd("s", {"n": "else", "v": "else"})
        with pytest.raises(RowsChanged):
            write(streamd, [{**row, "v": "copy"} for row in ROWS], attempt=1)

    outcome = write(streamd, ROWS, {moment: copy})
    commit_reports(streamd, {0: outcome})

    assert entries(streamd) == wanted() + Counter([(b"else", b"else")])


def test_equal_rows_beside_another_producer_and_a_copy_are_no_change(streamd: redis.Redis) -> None:
    def others() -> None:
        streamd.xadd("s", {"n": "else", "v": "else"})
        write_over(streamd, 99)

    outcome = write(streamd, ROWS[::-1], {5: others})
    commit_reports(streamd, {0: outcome})

    assert entries(streamd) == wanted() + Counter([(b"else", b"else")])


def test_a_warning_is_all_where_duplicates_are_accepted(streamd: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    die(streamd, 4, UNIQUE)
    with caplog.at_level(logging.WARNING):
        outcome = write(streamd, OTHER, attempt=1, onRowsChanged="continue")
        commit_reports(streamd, {0: outcome}, onRowsChanged="continue")

    assert "duplicates are possible (onRowsChanged=continue)" in caplog.text
    assert outcome.changed == 40
    assert streamd.hget("{s}:spark:stats", "sink:changed") == b"40"
    assert wanted(OTHER) - entries(streamd) == Counter()


def test_a_partition_that_is_gone_is_noticed_when_the_batch_commits(either: redis.Redis) -> None:
    """Spark put two partitions together when it ran the batch again: what the second wrote is there twice."""
    die(either, 5, UNIQUE[20:], partition=1)
    outcome = write(either, UNIQUE, partition=0, run="r2")

    with pytest.raises(RowsChanged, match=r"batch 3, partition 1, stream s: an attempt before .*may have written some"):
        commit_reports(either, {0: outcome})
    assert not either.hexists("{s}:spark", "sink"), "the batch is not committed"


def test_keys_may_move_to_any_partition(streamd: redis.Redis) -> None:
    write(streamd, UNIQUE[:15], partition=0, **KEYED)
    die(streamd, 5, UNIQUE[15:], partition=1, **KEYED)
    outcomes = {n: write(streamd, UNIQUE[n::3], partition=n, run="r2", **KEYED) for n in range(3)}
    commit_reports(streamd, outcomes, **KEYED)

    assert entries(streamd) == wanted(UNIQUE)


def test_keys_that_are_gone_are_noticed_when_the_batch_commits(streamd: redis.Redis) -> None:
    die(streamd, 5, UNIQUE[:25], partition=1, **KEYED)
    outcomes = {n: write(streamd, UNIQUE[3 + n :: 3], partition=n, run="r2", **KEYED) for n in range(3)}

    with pytest.raises(RowsChanged, match="batch 3, stream s: an attempt before had about 3 keys that are not among"):
        commit_reports(streamd, outcomes, **KEYED)


IDENTITIES = {"content": {}, "position": {"identity": "position"}, "key": KEYED}


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize(
    ("begun", "then"), [("content", "key"), ("position", "key"), ("key", "content"), ("key", "position")]
)
def test_another_identity_stops_a_half_written_batch_and_the_first_one_finishes_it(
    streamd: redis.Redis, begun: str, then: str, partition: int
) -> None:
    die(streamd, 4, UNIQUE, **IDENTITIES[begun])
    before = streamd.xlen("s")

    with pytest.raises(RowsChanged) as caught:
        write(streamd, UNIQUE, run="r2", partition=partition, **IDENTITIES[then])

    assert streamd.xlen("s") == before > 0
    text = str(caught.value)
    assert text.startswith("batch 3, stream s: it was begun with ")
    assert text.endswith(
        "which would write its rows twice: let the batch finish with the identity that it was begun with, or set "
        "onRowsChanged=continue to accept duplicates"
    )
    outcome = write(streamd, UNIQUE, run="r3", **IDENTITIES[begun])
    commit_reports(streamd, {0: outcome}, **IDENTITIES[begun])
    assert entries(streamd) == wanted(UNIQUE)


def test_other_columns_of_the_key_are_noticed_when_the_batch_commits(streamd: redis.Redis) -> None:
    die(streamd, 4, UNIQUE, **KEYED)
    outcome = write(streamd, UNIQUE, run="r2", idempotencyKey="v")

    with pytest.raises(RowsChanged, match="batch 3, stream s: an attempt before had about 40 keys that are not among"):
        commit_reports(streamd, {0: outcome}, idempotencyKey="v")


@pytest.mark.parametrize(("begun", "then"), [("content", "key"), ("key", "content")])
def test_another_identity_is_accepted_with_duplicates_where_they_are(
    streamd: redis.Redis, begun: str, then: str, caplog: pytest.LogCaptureFixture
) -> None:
    die(streamd, 4, UNIQUE, **IDENTITIES[begun])
    accepted = {**IDENTITIES[then], "onRowsChanged": "continue"}
    with caplog.at_level(logging.WARNING):
        outcome = write(streamd, UNIQUE, run="r2", **accepted)
        commit_reports(streamd, {0: outcome}, **accepted)

    assert "duplicates are possible (onRowsChanged=continue)" in caplog.text
    assert wanted(UNIQUE) - entries(streamd) == Counter()
    write(streamd, UNIQUE, run="r3", name=BatchName("sink", "4", 4, True), **IDENTITIES[then])  # the next one is whole


def test_a_task_that_is_tried_again_is_noticed_without_a_name_too(streamd: redis.Redis) -> None:
    """A batch write without sinkId: its tasks are tried again, and each time their rows are others."""
    unnamed = BatchName("0123", "0", None, False)
    die(streamd, 4, UNIQUE, name=unnamed)

    with pytest.raises(RowsChanged):
        write(streamd, OTHER, attempt=1, name=unnamed)


def test_the_notes_about_rows_are_gone_when_the_batch_is_committed(either: redis.Redis) -> None:
    commit_reports(either, {0: write(either, ROWS)})

    kept = ["", ":batches", ":digests", ":stats"]
    assert sorted(either.scan_iter("{s}*")) == [b"{s}:spark" + name.encode() for name in kept]


def test_keys_keep_their_producers_when_a_batch_outgrows_its_first_task(streamd: redis.Redis) -> None:
    """256 producers are foreseen at least: with a window of 30 the rows of the second task do not fit in."""
    small = {**KEYED, "windowMaxSize": "30"}
    rows = [{"n": n, "v": "x"} for n in range(4000)]
    for run in ("r1", "r2"):
        outcomes = {0: write(streamd, rows[:1], partition=0, run=run, **small)}
        outcomes[1] = write(streamd, rows[1:], partition=1, run=run, **small)
    commit_reports(streamd, outcomes, **small)

    assert entries(streamd) == wanted(rows)


def test_keys_that_move_in_a_batch_that_outgrew_its_first_task_stop_it(streamd: redis.Redis) -> None:
    small = {**KEYED, "windowMaxSize": "30"}
    rows = [{"n": n, "v": "x"} for n in range(4000)]
    write(streamd, rows[:1], partition=0, **small)
    write(streamd, rows[1:], partition=1, **small)

    with pytest.raises(RowsChanged, match="its rows come in other partitions than in the attempt before, and it is"):
        write(streamd, rows[1:200], partition=1, run="r2", **small)
