"""The writers as Spark calls them, without Spark: what a name covers, and what a lost reply may not undo."""

import json
from collections import Counter
from pathlib import Path

import pytest
import redis
from pyspark.sql.streaming.datasource import ReadAllAvailable

from spark_source.connecting.connection import Server, Session
from spark_source.errors import OptionError
from spark_source.noting.loops import refuse_own_rows
from spark_source.reading.stream_reader import StreamdStreamReader
from spark_source.settings.options import parse_options
from spark_source.values.schema import raw_schema
from spark_source.writing.writer import BATCH_ID, QUERY_ID, StreamdStreamWriter
from tests.spark.one_task import COLUMNS, entries, port_of, wanted
from tests.spark.whole_writes import Context, batch, micro_batch, save

ROWS = [{"n": n, "v": f"v{n}"} for n in range(20)]


@pytest.fixture
def lost_reply(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reply to the first transaction with a RENAME or an XTRIM is lost; the list then says so."""
    lost: list[str] = []
    pipeline = Session.pipeline

    def losing(session: Session, commands: list) -> list:
        replies = pipeline(session, commands)
        if not lost and any(words[0] in ("RENAME", "XTRIM", "DEL") for words in commands):
            lost.append("lost")
            raise redis.ConnectionError("cut after the server had the bytes")
        return replies

    monkeypatch.setattr(Session, "pipeline", losing)
    return lost


@pytest.mark.parametrize("options", [{}, {"sinkId": "me", "sinkBatch": "1"}, {"exactlyOnce": "none"}])
def test_an_overwrite_whose_reply_was_lost_keeps_the_new_rows(
    either: redis.Redis, task: Context, lost_reply: list[str], options: dict[str, str]
) -> None:
    either.xadd("s", {"n": "old", "v": "old"})

    save(either, ROWS, overwrite=True, **options)

    assert lost_reply == ["lost"]
    assert entries(either) == wanted(ROWS)


@pytest.mark.parametrize("options", [{}, {"sinkId": "me", "sinkBatch": "1"}, {"exactlyOnce": "none"}])
def test_an_overwrite_by_nothing_leaves_nothing(either: redis.Redis, task: Context, options: dict[str, str]) -> None:
    either.xadd("s", {"n": "old", "v": "old"})

    save(either, [], overwrite=True, **options)

    assert either.xlen("s") == 0


@pytest.mark.parametrize("options", [{}, {"sinkId": "me", "sinkBatch": "1"}, {"exactlyOnce": "none"}])
@pytest.mark.parametrize("rows", [ROWS, []])
@pytest.mark.parametrize("future", [False, True])
def test_an_overwrite_keeps_the_groups_and_they_get_the_new_rows(
    either: redis.Redis, task: Context, lost_reply: list[str], options: dict[str, str], rows: list, future: bool
) -> None:
    for n in range(4):
        either.xadd("s", {"n": "old", "v": "old"}, id=f"{9_999_999_999_999 if future else 1}-{n + 1}")
    for group, read in (("slow", 1), ("quick", 4), ("new", 0)):
        either.xgroup_create("s", group, id="0")
        if read:
            either.xreadgroup(group, "c", {"s": ">"}, count=read)

    save(either, rows, overwrite=True, **options)

    assert sorted(group["name"] for group in either.xinfo_groups("s")) == [b"new", b"quick", b"slow"]
    for group in ("slow", "quick", "new"):
        given = either.xreadgroup(group, "c", {"s": ">"})
        assert len(given[0][1] if given else []) == len(rows)


def test_an_overwrite_by_name_that_is_submitted_again_changes_nothing(either: redis.Redis, task: Context) -> None:
    save(either, ROWS, overwrite=True, sinkId="me", sinkBatch="1")
    either.xadd("s", {"n": "later", "v": "later"})

    save(either, ROWS, overwrite=True, sinkId="me", sinkBatch="1")

    assert entries(either) == wanted(ROWS) + Counter([(b"later", b"later")])


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_sink_id_alone_in_foreach_batch_takes_each_batch_for_itself(
    either: redis.Redis, task: Context, overwrite: bool
) -> None:
    for number in (0, 1, 2):
        task.properties = {QUERY_ID: "q", BATCH_ID: str(number)}
        for _ in range(2):
            save(either, ROWS[number::3], overwrite, sinkId="me")
        assert entries(either) == (wanted(ROWS[number::3]) if overwrite else wanted_up_to(number))


def test_an_overwrite_in_foreach_batch_leaves_no_key_of_its_own_behind(either: redis.Redis, task: Context) -> None:
    """Also where the batch was committed already and comes again, as it does after a crash."""
    for number in (0, 1):
        task.properties = {QUERY_ID: "q", BATCH_ID: str(number)}
        for _ in range(2):
            save(either, ROWS[number::2], True, sinkId="me", sinkBatch=str(number))

    assert entries(either) == wanted(ROWS[1::2])
    assert sorted(either.keys()) == [b"s", b"{s}:spark", b"{s}:spark:digests"]


def test_an_overwrite_that_waits_for_the_disk_leaves_no_key_behind(streamd: redis.Redis, task: Context) -> None:
    for _ in range(2):
        save(streamd, ROWS, True, sinkId="me", sinkBatch="1", durability="fsync")

    assert sorted(streamd.keys()) == [b"s", b"{s}:spark", b"{s}:spark:digests"]


@pytest.mark.parametrize("before", [{}, {"sinkId": "old"}])
@pytest.mark.parametrize("committed", [False, True])
def test_a_changed_sink_id_does_not_write_a_batch_twice(
    either: redis.Redis, task: Context, before: dict[str, str], committed: bool
) -> None:
    """Spark asks for a batch again whose commit file is missing: by its new name nobody would know it."""
    if committed:
        micro_batch(either, task, "q", 7, ROWS, **before)
    else:
        task.properties = {QUERY_ID: "q", BATCH_ID: "7"}
        given = parse_options({"port": port_of(either), "stream": "s", **before})
        StreamdStreamWriter(given, COLUMNS, False).write(batch(ROWS))

    was = "with sinkId=old" if before else "without sinkId"
    with pytest.raises(OptionError, match=f"this query .* batch 7 to s {was}, .*: start it {was} until the batch"):
        micro_batch(either, task, "q", 7, ROWS, sinkId="new")
    assert entries(either) == wanted(ROWS)

    micro_batch(either, task, "q", 7, ROWS, **before)
    for query, number in (("q", 8), ("another", 7)):  # a later batch, and another query, may have any name
        micro_batch(either, task, query, number, ROWS, sinkId="new")
    assert either.xlen("s") == 3 * len(ROWS)


def test_two_sinks_of_one_query_may_write_to_one_stream_in_foreach_batch(either: redis.Redis, task: Context) -> None:
    task.properties = {QUERY_ID: "q", BATCH_ID: "0"}
    for name in ("large", "small", "large"):
        save(either, ROWS, sinkId=name)
    assert either.xlen("s") == 2 * len(ROWS)


@pytest.mark.parametrize("label", ["{}", "part-{}", "all"])
def test_a_name_in_foreach_batch_is_one_of_its_query(either: redis.Redis, task: Context, label: str) -> None:
    """Started on a new checkpoint, the same numbers name other batches."""
    for query in ("old", "new"):
        for number in (0, 1, 2):
            task.properties = {QUERY_ID: query, BATCH_ID: str(number)}
            rows = [{"n": 100 * number + n, "v": query} for n in range(10)]
            for _ in range(2):
                save(either, rows, sinkId="me", sinkBatch=label.format(number))

    expected = [{"n": 100 * k + n, "v": query} for query in ("old", "new") for k in range(3) for n in range(10)]
    assert entries(either) == wanted(expected)


@pytest.mark.parametrize("labels", [["{}"], ["all"], ["{}-large", "{}-small"]])
def test_marks_of_foreach_batch_do_not_grow_with_its_batches(
    either: redis.Redis, task: Context, labels: list[str]
) -> None:
    for number in range(30):
        task.properties = {QUERY_ID: "q", BATCH_ID: str(number)}
        for label in labels:
            save(either, ROWS, sinkId="me", sinkBatch=label.format(number))

    assert either.hlen("{s}:spark") == either.hlen("{s}:spark:digests") == len(labels)
    assert either.xlen("s") == 30 * len(labels) * len(ROWS)
    assert int(either.hget("{s}:spark:stats", "me@q:rows")) == 30 * len(labels) * len(ROWS)


def test_sinks_that_commit_at_the_same_time_are_both_counted(
    either: redis.Redis, task: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the moment before the one commits, and again when it tries again, the other does."""
    pipeline, others = Session.pipeline, iter(range(2))

    def interrupted(session: Session, commands: list) -> list:
        if commands[0] == ["MULTI"] and any(str(word).startswith("me@q") for word in commands[1]):
            for number in others:
                micro_batch(either, task, "other", number, ROWS)
                task.properties = {QUERY_ID: "q", BATCH_ID: "0"}
                break
        return pipeline(session, commands)

    monkeypatch.setattr(Session, "pipeline", interrupted)
    micro_batch(either, task, "q", 0, ROWS, sinkId="me")

    stats = either.hgetall("{s}:spark:stats")
    assert (stats[b"me@q:rows"], stats[b"other:rows"]) == (b"20", b"40")
    assert either.hgetall("{s}:spark") == {b"me@q": b"0", b"other": b"1"}


def test_names_outside_foreach_batch_are_remembered_for_good(either: redis.Redis, task: Context) -> None:
    for _ in range(2):
        for month in ("january", "february"):
            save(either, ROWS, sinkId="load", sinkBatch=month)

    assert entries(either) == Counter(dict.fromkeys(wanted(ROWS), 2))


def wanted_up_to(number: int) -> Counter:
    return sum((wanted(ROWS[first::3]) for first in range(number + 1)), Counter())


def test_a_sink_id_on_a_new_checkpoint_loses_nothing(either: redis.Redis, task: Context) -> None:
    """Its batches are numbered from 0 again: they are not those of the old checkpoint, even where rows are equal."""
    for number in range(5):
        micro_batch(either, task, "old", number, ROWS, sinkId="me")
    for number in range(5):
        micro_batch(either, task, "new", number, ROWS, sinkId="me")

    assert entries(either) == Counter(dict.fromkeys(wanted(ROWS), 10))


def test_a_key_whose_scope_is_the_stream_is_known_on_a_new_checkpoint(streamd: redis.Redis, task: Context) -> None:
    keyed = {"sinkId": "me", "idempotencyKey": "n", "idempotencyScope": "stream"}
    micro_batch(streamd, task, "old", 0, ROWS[:15], **keyed)
    micro_batch(streamd, task, "new", 0, ROWS, **keyed)

    assert entries(streamd) == wanted(ROWS)


# --- a query that would write into its own source --------------------------------------------------------------------


def checkpoint_of(directory: Path, client: redis.Redis, stream: str) -> str:
    """Make a checkpoint as Spark has it when the sink of the first batch is planned."""
    client.xadd(stream, {"n": "1", "v": "1"})
    given = {"port": port_of(client), "stream": stream, "startingOffsets": "earliest"}
    source = StreamdStreamReader(parse_options(given), raw_schema(False, "map"))
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    (directory / "offsets").mkdir(parents=True)
    (directory / "offsets" / "0").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(end)}')
    return str(directory)


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_target_that_is_a_source_of_the_query_is_refused_before_the_first_row(
    either: redis.Redis, task: Context, tmp_path: Path, scheme: str
) -> None:
    given = {"checkpointLocation": scheme + checkpoint_of(tmp_path / "a checkpoint", either, "s")}

    with pytest.raises(OptionError, match="stream s is a source of this query, which would read its own rows: write"):
        micro_batch(either, task, "q", 0, ROWS, **given)
    assert either.xlen("s") == 1
    with pytest.raises(OptionError, match="stream s is a source of this query"):
        micro_batch(either, task, "q", 1, [{"n": 1, "v": "s"}], stream="other", streamColumn="v", **given)

    micro_batch(either, task, "q", 0, ROWS, allowSourceAsTarget="true", **given)
    assert either.xlen("s") == 21


def test_a_stream_of_that_name_on_another_server_is_none(
    streamd: redis.Redis, other_redis: redis.Redis, task: Context, tmp_path: Path
) -> None:
    location = checkpoint_of(tmp_path / "c", other_redis, "s")
    micro_batch(streamd, task, "q", 0, ROWS, checkpointLocation=location)

    assert entries(streamd) == wanted(ROWS)


def test_where_the_checkpoint_cannot_be_seen_the_query_stops_at_its_second_batch(
    either: redis.Redis, task: Context
) -> None:
    server = Server(parse_options({"port": port_of(either)}).connection)
    refuse_own_rows(server, "s", "q")
    micro_batch(either, task, "q", 0, ROWS, checkpointLocation="hdfs://there/c", sinkId="me")

    refuse_own_rows(server, "s", "another")
    with pytest.raises(OptionError, match="stream s is also written by this query, which reads its own rows: write"):
        refuse_own_rows(server, "s", "q")
    micro_batch(either, task, "q", 1, ROWS, allowSourceAsTarget="true", sinkId="me")
    refuse_own_rows(server, "s", "q")
