"""Writes that come again after their commit: a warning tells the number of rows, and other rows are an error."""

import logging
from collections import Counter

import pytest
import redis

from spark_source.errors import OldCheckpoint, OptionError, RowsChanged
from spark_source.naming.identity import BatchName
from spark_source.writing.writer import BATCH_ID, QUERY_ID
from tests.spark.one_task import commit_reports, entries, wanted, write
from tests.spark.whole_writes import Context, micro_batch, save

DAYS = [[{"n": 10 * day + n, "v": f"v{n}"} for n in range(10)] for day in range(3)]
ALL = [row for rows in DAYS for row in rows]
LOAD = {"sinkId": "load", "sinkBatch": "monday"}
BY_KEY = {"idempotencyKey": "n", "idempotencyScope": "stream"}
MODES = {
    "content": {},
    "key": {"idempotencyKey": "n"},
    "position": {"identity": "position"},
    "marker": {"exactlyOnce": "marker"},
}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# --- sinkId without sinkBatch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_write_whose_name_would_be_that_of_all_is_refused_before_its_first_row(
    either: redis.Redis, task: Context, mode: str, overwrite: bool
) -> None:
    either.xadd("s", {"n": "old", "v": "old"})

    with pytest.raises(OptionError, match="sinkId=load without sinkBatch names all batch writes alike, only"):
        save(either, DAYS[0], overwrite, sinkId="load", **MODES[mode])

    assert entries(either) == Counter([(b"old", b"old")])
    assert not list(either.scan_iter("*:spark:new:*"))


def test_keys_of_the_whole_stream_make_each_write_with_a_sink_id_one_of_its_own(
    either: redis.Redis, task: Context, caplog: pytest.LogCaptureFixture
) -> None:
    for rows in (*DAYS, DAYS[1], ALL):
        save(either, rows, sinkId="load", **BY_KEY)

    assert entries(either) == wanted(ALL)
    assert either.keys() == [b"s"], "nothing is noted"
    assert warnings(caplog) == []


def test_keys_of_the_whole_stream_find_what_a_query_of_the_same_sink_id_has_written(
    either: redis.Redis, task: Context
) -> None:
    micro_batch(either, task, "q", 0, DAYS[0], sinkId="load", **BY_KEY)
    task.properties = {}
    save(either, ALL, sinkId="load", **BY_KEY)

    assert entries(either) == wanted(ALL)


def test_an_overwrite_with_keys_of_the_whole_stream_is_one_of_its_own_each_time(
    either: redis.Redis, task: Context
) -> None:
    for rows in (*DAYS, DAYS[0]):
        save(either, rows, True, sinkId="load", **BY_KEY)
        assert entries(either) == wanted(rows)

    assert either.keys() == [b"s"]


# --- a write that was done before ------------------------------------------------------------------------------------


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_named_write_that_is_submitted_again_warns_once_with_the_number_of_its_rows(
    either: redis.Redis, task: Context, caplog: pytest.LogCaptureFixture, mode: str, overwrite: bool
) -> None:
    save(either, DAYS[0], overwrite, **LOAD, **MODES[mode])
    assert warnings(caplog) == []

    save(either, DAYS[0], overwrite, **LOAD, **MODES[mode])

    text = "the write sinkBatch=monday of sink load was committed to s before: its 10 rows are not written"
    assert warnings(caplog) == [text]
    assert entries(either) == wanted(DAYS[0])


@pytest.mark.parametrize("mode", MODES)
def test_a_finished_batch_of_a_query_that_comes_again_warns_once_with_the_number_of_its_rows(
    either: redis.Redis, task: Context, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    for number in (0, 1, 1):
        micro_batch(either, task, "q", number, DAYS[number], **MODES[mode])

    assert warnings(caplog) == ["batch 1 of sink q was committed to s before: its 10 rows are not written"]
    assert entries(either) == wanted(DAYS[0] + DAYS[1])


def test_the_warning_names_all_streams_of_the_write(
    either: redis.Redis, task: Context, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"n": n, "v": f"s{n % 2}"} for n in range(10)]
    for _ in range(2):
        save(either, rows, stream="other", streamColumn="v", **LOAD)

    text = "the write sinkBatch=monday of sink load was committed to s0, s1 before: its 10 rows are not written"
    assert warnings(caplog) == [text]
    assert (either.xlen("s0"), either.xlen("s1")) == (5, 5)


@pytest.mark.parametrize("mode", ["content", "key", "position", "marker"])
def test_rows_that_come_again_in_another_order_and_in_other_partitions_are_the_same(
    either: redis.Redis, mode: str
) -> None:
    name, options = BatchName("q", "4", 4, True), MODES[mode]
    first = {part: write(either, ALL[part::3], partition=part, name=name, **options) for part in range(3)}
    commit_reports(either, first, name, **options)
    second = {
        part: write(either, ALL[::-1][part::2], partition=part, run="r2", name=name, **options) for part in range(2)
    }
    commit_reports(either, second, name, **options)

    assert entries(either) == wanted(ALL)


# --- the same name with other rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_name_that_is_used_for_other_rows_is_an_error(
    either: redis.Redis, task: Context, caplog: pytest.LogCaptureFixture, mode: str, overwrite: bool
) -> None:
    save(either, DAYS[0], overwrite, **LOAD, **MODES[mode])

    text = (
        "the write sinkBatch=monday of sink load is committed, has 10 rows in s and comes again with 30, which are not "
        "the same: give each write a name of its own"
    )
    with pytest.raises(RowsChanged, match=text):
        save(either, ALL, overwrite, **LOAD, **MODES[mode])

    save(either, ALL, overwrite, onRowsChanged="continue", **LOAD, **MODES[mode])
    text = (
        "the write sinkBatch=monday of sink load was committed to s before: its 30 rows are not written, although "
        "they are others (onRowsChanged=continue)"
    )
    assert warnings(caplog) == [text]
    assert entries(either) == wanted(DAYS[0])


@pytest.mark.parametrize("mode", ["content", "key"])
def test_as_many_other_rows_are_noticed_by_their_names(either: redis.Redis, task: Context, mode: str) -> None:
    save(either, DAYS[0], **LOAD, **MODES[mode])
    with pytest.raises(RowsChanged, match="has 10 rows in s and comes again with 10, which are not the same"):
        save(either, DAYS[1], **LOAD, **MODES[mode])


@pytest.mark.parametrize("first", [False, True])
def test_an_append_and_an_overwrite_under_one_name_are_two_writes(
    either: redis.Redis, task: Context, first: bool
) -> None:
    save(either, DAYS[0], first, **LOAD)
    ways = ("an overwrite", "an append") if first else ("an append", "an overwrite")
    with pytest.raises(RowsChanged, match=f"sink load was {ways[0]} to s and comes again as {ways[1]}: give each"):
        save(either, DAYS[0], not first, **LOAD)


@pytest.mark.parametrize("label", [None, "7", "part-7"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_two_writes_under_one_name_in_a_foreach_batch_are_an_error(
    either: redis.Redis, task: Context, label: str | None, overwrite: bool
) -> None:
    task.properties = {QUERY_ID: "q", BATCH_ID: "7"}
    name = {"sinkId": "me"} if label is None else {"sinkId": "me", "sinkBatch": label}
    save(either, DAYS[0], overwrite, **name)

    with pytest.raises(RowsChanged, match="two writes of a batch have one name, or the checkpoint is older"):
        save(either, DAYS[1], overwrite, **name)
    assert entries(either) == wanted(DAYS[0])


@pytest.mark.parametrize("label", ["{}", "part-{}", "all"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_an_older_batch_of_a_foreach_batch_proves_an_old_checkpoint(
    either: redis.Redis, task: Context, label: str, overwrite: bool
) -> None:
    for number in range(3):
        task.properties = {QUERY_ID: "q", BATCH_ID: str(number)}
        save(either, DAYS[number], overwrite, sinkId="me", sinkBatch=label.format(number))
    before = entries(either)

    task.properties = {QUERY_ID: "q", BATCH_ID: "1"}
    with pytest.raises(OldCheckpoint, match="batch 1 of sink me@q comes after batch 2 was committed to s"):
        save(either, DAYS[1], overwrite, sinkId="me", sinkBatch=label.format(1))
    assert entries(either) == before

    save(either, DAYS[1], overwrite, sinkId="another", sinkBatch=label.format(1))  # a way out


def test_labels_of_batch_writes_have_no_order(either: redis.Redis, task: Context) -> None:
    for year, rows in (("2025", DAYS[0]), ("2024", DAYS[1]), ("2026", DAYS[2])):
        save(either, rows, sinkId="history", sinkBatch=year)

    assert entries(either) == wanted(ALL)
    assert either.hlen("{s}:spark:digests") == 3


# --- what is noted ---------------------------------------------------------------------------------------------------


def test_a_query_keeps_one_digest_for_each_stream(either: redis.Redis, task: Context) -> None:
    for number in range(20):
        micro_batch(either, task, "q", number, DAYS[number % 3])

    assert either.hlen("{s}:spark:digests") == 1


@pytest.mark.parametrize("mode", MODES)
def test_notes_of_versions_that_kept_no_digest_are_read(
    either: redis.Redis, task: Context, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    for number in range(2):
        micro_batch(either, task, "q", number, DAYS[number], **MODES[mode])
    save_name = {"sinkId": "load", "sinkBatch": "1", **MODES[mode]}
    task.properties = {}
    save(either, DAYS[0], **save_name)
    either.delete("{s}:spark:digests")

    micro_batch(either, task, "q", 1, DAYS[1], **MODES[mode])
    task.properties = {}
    save(either, DAYS[0], **save_name)
    assert len(warnings(caplog)) == 2
    with pytest.raises(OldCheckpoint):
        micro_batch(either, task, "q", 0, DAYS[0], **MODES[mode])
    micro_batch(either, task, "q", 2, DAYS[2], **MODES[mode])

    assert entries(either) == wanted(ALL + DAYS[0])


def test_the_digest_of_another_batch_says_nothing(either: redis.Redis, task: Context) -> None:
    """An earlier version that goes on with a query leaves the digest behind, and moves the mark."""
    for number in range(2):
        micro_batch(either, task, "q", number, DAYS[number])
    either.hset("{s}:spark", "q", 2)

    micro_batch(either, task, "q", 2, DAYS[2])
    assert entries(either) == wanted(DAYS[0] + DAYS[1])
