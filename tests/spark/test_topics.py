"""Topic logs as a source and a sink: columns, filters pushed down, generations, loss, and words that are wrong."""

import pytest
import redis
from pyspark.sql import SparkSession

from spark_source.connecting.connection import Server
from spark_source.errors import DataLoss, OptionError
from spark_source.reading.batch_reader import StreamdReader
from spark_source.reading.offsets import Range
from spark_source.reading.topic_read import TopicConverter, read_topics
from spark_source.settings.options import parse_options
from spark_source.settings.topic_filters import TopicFilter
from spark_source.values.topic_schema import topic_schema
from streamd.clients.topics import Message, TopicLog
from tests.spark.sessions import finish
from tests.spark.test_read_and_write import error_of

pytestmark = pytest.mark.spark


def filled(client: redis.Redis, count: int = 600) -> TopicLog:
    log = TopicLog.create(client, "telemetry", shards=3, filters=["devices/#"])
    log.publish_many(
        Message(
            f"devices/d{at % 10}/{('temperature', 'humidity', 'door')[at % 3]}",
            str(at),
            publisher=f"d{at % 10}" if at % 7 else None,
            properties={"unit": "C", "n": str(at)} if at % 3 == 0 else {},
        )
        for at in range(count)
    )
    return log


def load(spark: SparkSession, client: redis.Redis, schema: str | None = None, **options: object):
    port = client.connection_pool.connection_kwargs["port"]
    reader = spark.read.format("streamd").options(port=port, log="telemetry", **options)
    return (reader.schema(schema) if schema else reader).load()


def contents(messages, before: str = "") -> list[tuple]:
    return sorted(
        (before + one.topic, one.publisher or "", bytes(one.payload), sorted(one.properties.items()))
        for one in messages
    )


def calls(client: redis.Redis) -> dict[str, int]:
    return {name: row["calls"] for name, row in client.info("commandstats").items()}


def test_a_log_is_read_by_filter_and_the_server_filters_where_it_can(spark: SparkSession, either: redis.Redis) -> None:
    log = filled(either)
    either.config_resetstat()
    rows = load(spark, either, topicFilter="devices/+/temperature").orderBy("id").collect()
    filtered_by_server = "cmdstat_xfilter" in calls(either)
    wanted, _, _ = log.next(log.iterator("devices/+/temperature"), 1_000)
    assert contents(rows) == contents(wanted)
    assert len(rows) == 200
    assert {row.ts.timestamp() for row in rows} == {int(row.id.split("-")[0]) / 1000 for row in rows}
    assert filtered_by_server == ("streamd_version" in either.info("server"))


def test_of_a_property_that_is_repeated_the_last_value_is_read(spark: SparkSession, streamd: redis.Redis) -> None:
    log = TopicLog.create(streamd, "telemetry", filters=["devices/#"])
    pairs = [("n", "1"), ("unit", "C"), ("n", "2")]
    log.publish_many([Message("devices/d1/door", b"x", user_properties=pairs, content_type="text/plain")])
    assert [row.properties for row in load(spark, streamd).collect()] == [{"n": "2", "unit": "C"}]


def test_all_topics_are_read_without_a_filter_and_columns_can_be_chosen(
    spark: SparkSession, streamd: redis.Redis
) -> None:
    log = filled(streamd, 90)
    log.reconfigure(shards=2)
    filled_more = [(f"devices/d{at}/late", str(at)) for at in range(10)]
    log.publish_many(filled_more)
    frame = load(spark, streamd, "payload string, topic string", entriesPerPartition=20)
    assert sorted(int(row.payload) for row in frame.collect() if "late" not in row.topic) == list(range(90))
    assert frame.count() == 100
    assert load(spark, streamd, text="true").schema["payload"].dataType.simpleString() == "string"
    assert load(spark, streamd, "id string", topicFilter="none/#").collect() == []


def test_a_query_goes_on_through_generations_and_copies_each_message_once(
    spark: SparkSession, streamd: redis.Redis, tmp_path
) -> None:
    log = filled(streamd)
    copies = TopicLog.create(streamd, "averages", shards=2, filters=["copies/#"])
    port = streamd.connection_pool.connection_kwargs["port"]

    def run() -> None:
        frame = spark.readStream.format("streamd").options(
            port=port, log="telemetry", topicFilter="devices/+/temperature", startingOffsets="earliest",
            patternInterval="0s", maxEntriesPerTrigger=250,
        ).load()  # fmt: skip
        columns = ("concat('copies/', topic) AS topic", "publisher", "payload", "properties")
        query = frame.selectExpr(*columns).writeStream.format("streamd")
        query = query.options(port=port, log="averages", checkpointLocation=str(tmp_path)).trigger(availableNow=True)
        finish(query.start())

    run()
    log.reconfigure(shards=2)
    filled_again = [Message(f"devices/d{at}/temperature", f"late {at}", publisher=f"d{at}") for at in range(20)]
    log.publish_many(filled_again)
    run()
    copied, _, _ = copies.next(copies.iterator("#"), 10_000)
    sent, iterator, state = [], log.iterator("devices/+/temperature"), "more"
    while state == "more":
        entries, iterator, state = log.next(iterator, 1_000)
        sent += entries
    assert len(copied) == len(sent) == 220
    assert contents(copied) == contents(sent, "copies/")
    places = {one.publisher: one.shard for one in copied if one.publisher}
    assert all(places[one.publisher] == one.shard for one in copied if one.publisher)
    copies.publish("copies/devices/d1/temperature", b"library", publisher="d1")
    (last,) = [one for one in copies.next(copies.iterator("#"), 10_000)[0] if one.payload == b"library"]
    assert last.shard == places["d1"]


@pytest.mark.parametrize("size", [10, 1000])
def test_a_log_that_was_reconfigured_is_read_as_a_batch(either: redis.Redis, size: int) -> None:
    log = filled(either, 90)
    log.reconfigure(shards=2)
    log.publish_many((f"devices/d{at}/late", str(at)) for at in range(90, 100))
    given = {"port": either.connection_pool.connection_kwargs["port"], "log": "telemetry", "entriesPerPartition": size}
    options = parse_options({name: str(value) for name, value in given.items()})
    source = StreamdReader(options, topic_schema(True))
    batches = [batch for part in source.partitions() for batch in source.read(part)]
    payloads = [int(payload) for batch in batches for payload in batch.column(6).to_pylist()]
    assert sorted(payloads) == list(range(100))


def reading(client: redis.Redis, part: Range, fail: bool = True) -> list[str]:
    port = client.connection_pool.connection_kwargs["port"]
    server = Server(parse_options({"port": str(port), "log": "telemetry"}).connection)
    pattern = TopicFilter("devices/+/temperature")
    batches = read_topics(server, part, pattern, TopicConverter(topic_schema(True), pattern), 10, fail)
    return [payload for batch in batches for payload in batch.column(6).to_pylist()]


def test_what_retention_removed_behind_a_plan_is_a_loss_and_what_it_removed_before_is_none(
    streamd: redis.Redis,
) -> None:
    log = TopicLog.create(streamd, "telemetry", shards=1, filters=["#"])
    ids = log.publish_many([(f"devices/d{at}/{('temperature', 'door')[at % 2]}", str(at)) for at in range(100)])
    (key,) = [one.decode() for one in streamd.keys("{telemetry/0}:g*")]
    generation = key.rpartition(":")[2]

    def trim(place: int) -> None:
        streamd.hset("{telemetry/0}:meta", f"{generation}:trimmed", ids[place])
        streamd.xtrim(key, minid=ids[place + 1], approximate=False)

    whole = [str(at) for at in range(0, 100, 2)]
    assert reading(streamd, Range(key, "0-0", ids[99], 100)) == whole
    trim(9)
    assert reading(streamd, Range(key, "0-0", ids[99], 90)) == whole[5:]
    assert reading(streamd, Range(key, ids[9], ids[99], 90)) == whole[5:]
    trim(19)
    for part in (Range(key, "0-0", ids[99], 90), Range(key, ids[9], ids[99], 90), Range(key, ids[9], ids[15], 6)):
        with pytest.raises(DataLoss, match="are gone: keep more of the log"):
            reading(streamd, part)
        assert reading(streamd, part, fail=False) == ([] if part.end == ids[15] else whole[10:])
    streamd.delete(key)
    with pytest.raises(DataLoss, match="was deleted or made anew"):
        reading(streamd, Range(key, ids[19], ids[99], 80))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stream": "s"}, "stream and log cannot be given together: leave one of them out"),
        ({"topicFilter": "a#"}, "topicFilter=a# is not allowed: give a topic filter such as devices/+/temperature"),
        ({"log": "{x}"}, "log={x} is not allowed: give the name of a topic log: letters, digits and _.:-"),
        (
            {"streamColumn": "s"},
            "streamColumn cannot be used with log: a message's publisher or topic says where it goes",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options({"log": "telemetry", **options})
    assert str(caught.value) == text


def test_a_filter_of_topics_needs_a_log() -> None:
    with pytest.raises(OptionError, match="topicFilter needs log"):
        parse_options({"stream": "s", "topicFilter": "a"})


def test_wrong_columns_and_topics_are_refused_and_nothing_is_written(spark: SparkSession, streamd: redis.Redis) -> None:
    TopicLog.create(streamd, "telemetry", shards=1, filters=["devices/#"])
    port = streamd.connection_pool.connection_kwargs["port"]

    def write(sql: str, log: str = "telemetry") -> None:
        spark.sql(sql).write.format("streamd").options(port=port, log=log).mode("append").save()

    assert "column price is not in a log" in error_of(lambda: load(spark, streamd, "price double").collect())
    assert "column payload of type double must be binary or string" in error_of(
        lambda: load(spark, streamd, "payload double").collect()
    )
    assert "column topic is missing" in error_of(lambda: write("SELECT 'x' AS payload"))
    assert "column n cannot be published" in error_of(lambda: write("SELECT 'a' AS topic, 'x' AS payload, 1 AS n"))
    assert "no topic log has this name" in error_of(lambda: write("SELECT 'a' AS topic, 'x' AS payload", "other"))
    for topic, said in [
        ("other/d1", "is outside of log telemetry, whose filters are devices/#"),
        ("devices/+", "a topic has 1 to 65535 bytes without"),
    ]:
        assert said in error_of(lambda topic=topic: write(f"SELECT '{topic}' AS topic, 'x' AS payload"))
    assert "column payload is null in a row" in error_of(
        lambda: write("SELECT 'devices/d1' AS topic, cast(null AS string) AS payload")
    )
    assert TopicLog.open(streamd, "telemetry").info()["generations"][0]["entries"] == [0]
