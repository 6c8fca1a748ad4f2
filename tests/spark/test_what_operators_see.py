"""What operators see of a query: a group on the server, figures in Spark's progress, lines of the listener."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from spark_source.errors import OptionError
from spark_source.listener import BatchFigures, SinkFigures, StreamdListener, source_figures
from spark_source.naming.identity import BatchName
from tests.spark.deployments import wait_until
from tests.spark.one_task import commit_reports, port_of, write
from tests.spark.sessions import copy, fill, finish, read_stream
from tests.spark.test_stream_reader import reader, through_json


def groups(client: redis.Redis, stream: str = "in") -> list[dict]:
    return [{name: group[name] for name in ("name", "lag", "entries-read")} for group in client.xinfo_groups(stream)]


def test_a_group_shows_how_far_the_query_is(either: redis.Redis) -> None:
    fill(either, 10)
    source = reader(either, progressGroup="spark")
    first = through_json(source.latestOffset(source.initialOffset(), ReadMaxRows(4)))
    assert either.xinfo_groups("in") == [], "nothing is written yet"

    second = through_json(source.latestOffset(first, ReadAllAvailable()))
    assert groups(either) == [{"name": b"spark", "lag": 6, "entries-read": 4}]
    source.commit(first)
    for _ in range(2):
        assert source.latestOffset(second, ReadAllAvailable()) == second
        assert groups(either) == [{"name": b"spark", "lag": 0, "entries-read": 10}], "an idle query has read all"
    fill(either, 3, first=10)
    assert groups(either) == [{"name": b"spark", "lag": 3, "entries-read": 10}]
    assert either.xinfo_consumers("in", "spark") == []


def test_without_the_option_there_is_no_group(either: redis.Redis) -> None:
    fill(either, 10)
    source = reader(either)
    source.commit(through_json(source.latestOffset(source.initialOffset(), ReadAllAvailable())))

    assert either.xinfo_groups("in") == []


def test_the_group_decides_nothing(either: redis.Redis) -> None:
    fill(either, 10)
    source = reader(either, progressGroup="spark")
    first = through_json(source.latestOffset(source.initialOffset(), ReadMaxRows(4)))
    assert source.latestOffset(first, ReadMaxRows(1)) != first
    either.xgroup_setid("in", "spark", "$")

    end = through_json(source.latestOffset(first, ReadAllAvailable()))
    assert end["in"]["from"] == first["in"]["id"]
    either.delete("in")
    assert source.latestOffset(end, ReadAllAvailable()) == end
    assert not either.exists("in"), "and it makes no stream"


def test_a_group_that_somebody_consumes_from_is_left_alone(either: redis.Redis) -> None:
    fill(either, 10)
    either.xgroup_create("in", "workers", "0")
    either.xreadgroup("workers", "w1", {"in": ">"}, count=3)
    source = reader(either, progressGroup="workers")
    end = through_json(source.latestOffset(source.initialOffset(), ReadAllAvailable()))

    with pytest.raises(OptionError, match="progressGroup=workers names a group of stream in that has consumers: take"):
        source.latestOffset(end, ReadAllAvailable())
    assert groups(either) == [{"name": b"workers", "lag": 7, "entries-read": 3}]


def test_a_server_that_refuses_the_group_is_said_once_and_the_query_goes_on(
    other_redis: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    fill(other_redis, 10)
    other_redis.acl_setuser("few", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-xgroup"])
    source = reader(other_redis, progressGroup="spark", username="few", password="any")
    end = through_json(source.latestOffset(source.initialOffset(), ReadAllAvailable()))
    with caplog.at_level(logging.WARNING):
        source.latestOffset(end, ReadAllAvailable())
        source.latestOffset(end, ReadAllAvailable())
    other_redis.acl_deluser("few")

    assert [record.message.partition(": ")[0] for record in caplog.records] == [
        "progressGroup=spark cannot be set for stream in"
    ]


def test_the_progress_has_the_lag_and_the_time_of_the_oldest_unread(either: redis.Redis) -> None:
    for n in range(10):
        either.xadd("in", {"n": n}, id=f"{1_700_000_000_000 + n}-0")
    source = reader(either, stream="in,later")
    end = source.latestOffset(source.initialOffset(), ReadMaxRows(4))

    assert source.reportLatestOffset() == {
        "in": {"id": "1700000000009-0", "n": 10, "lag": 6, "oldest_ms": 1_700_000_000_004}
    }
    source.latestOffset(end, ReadAllAvailable())
    assert source.reportLatestOffset() == {"in": {"id": "1700000000009-0", "n": 10, "lag": 0}}
    restarted = reader(either, stream="in,later")
    restarted.latestOffset(end, ReadMaxRows(2))
    assert restarted.reportLatestOffset()["in"]["lag"] == 4


def test_figures_of_another_source_are_none() -> None:
    class Progress:
        startOffset = None
        endOffset = json.dumps({"topic": {"0": 5}})
        latestOffset = "7"

    assert source_figures(Progress) == []
    Progress.endOffset = "5"
    assert source_figures(Progress) == []


def test_the_listener_shows_rows_that_changed_only_where_there_were_any(streamd: redis.Redis) -> None:
    shown: list[BatchFigures] = []
    listener = StreamdListener(sink="s", port=port_of(streamd), report=shown.append)

    def batch(number: int, *attempts: list[dict]) -> None:
        name = BatchName("query", str(number), number, True)
        for attempt, rows in enumerate(attempts):
            outcome = write(streamd, rows, attempt=attempt, name=name, onRowsChanged="continue")
        commit_reports(streamd, {0: outcome}, name, onRowsChanged="continue")
        progress = SimpleNamespace(id="query", name="q", batchId=number, durationMs={"triggerExecution": 5}, sources=[])
        listener.onQueryProgress(SimpleNamespace(progress=progress))

    batch(0, [{"n": 1, "v": "a"}, {"n": 2, "v": "b"}], [{"n": 1, "v": "c"}, {"n": 2, "v": "d"}])
    batch(1, [{"n": 3, "v": "e"}])

    assert [figures.sinks[0].changed for figures in shown] == [2, 0]
    assert str(shown[0]).endswith("; wrote 2 to s, 0 duplicates, 0 retries, waited 0 ms, CHANGED 2")
    assert str(shown[1]).endswith("; wrote 1 to s, 0 duplicates, 0 retries, waited 0 ms")


def test_a_listener_that_is_told_late_shows_each_batch_with_its_own_figures(streamd: redis.Redis) -> None:
    shown: list[BatchFigures] = []
    listener = StreamdListener(sink="s", port=port_of(streamd), report=shown.append)

    def write_batch(number: int, rows: int) -> None:
        name = BatchName("me@query", str(number), number, True)
        outcome = write(streamd, [{"n": number, "v": f"{row}"} for row in range(rows)], name=name)
        commit_reports(streamd, {0: outcome}, name)

    def tell(number: int) -> None:
        progress = SimpleNamespace(id="query", name="q", batchId=number, durationMs={}, sources=[])
        listener.onQueryProgress(SimpleNamespace(progress=progress))

    write_batch(0, 40)
    write_batch(1, 7)
    tell(0)
    tell(1)
    write_batch(16, 5)  # its figures take the place of the first one's
    tell(16)
    assert [[sink.rows for sink in figures.sinks] for figures in shown] == [[40], [7], [5]]


@pytest.mark.spark
def test_the_listener_shows_each_batch_with_what_the_sink_counted(
    spark: SparkSession,
    streamd: redis.Redis,
    streamd_port: int,
    tmp_path: Path,
    proxy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(streamd, 100)
    shown: list[BatchFigures] = []
    listener = StreamdListener(sink="out", port=streamd_port, report=shown.append)
    logging_one = StreamdListener()
    spark.streams.addListener(listener)
    spark.streams.addListener(logging_one)
    try:
        with caplog.at_level(logging.INFO, "spark_source.listener"):
            proxy.cut(2)
            rows = read_stream(spark, streamd_port, maxEntriesPerTrigger=60, progressGroup="spark")
            query = copy(spark, proxy.port, tmp_path, rows.selectExpr("id AS source", "fields"), pipeline=40)
            finish(query)
            wait_until(lambda: len(shown) >= 2 and len(caplog.records) >= 2)
    finally:
        spark.streams.removeListener(listener)
        spark.streams.removeListener(logging_one)

    assert [figures.batch for figures in shown] == [0, 1]
    assert [source.entries for figures in shown for source in figures.sources] == [60, 40]
    assert [source.lag for figures in shown for source in figures.sources] == [40, 0]
    oldest = [source.oldest_unread_s for figures in shown for source in figures.sources]
    assert oldest[0] is not None
    assert oldest[1] is None
    written = [sink for figures in shown for sink in figures.sinks]
    assert [sink.rows for sink in written] == [60, 40]
    assert written[0].duplicates > 0
    assert written[0].retries == 1
    assert written[1] == SinkFigures("out", 40, 0, 0, 0)
    lines = [record.message for record in caplog.records if record.name == "spark_source.listener"]
    assert "read 60 of in, lag 40, oldest unread " in lines[0]
    assert f"{shown[1]}".endswith("; wrote 40 to out, 0 duplicates, 0 retries, waited 0 ms")
    assert groups(streamd)[0]["entries-read"] == 100
