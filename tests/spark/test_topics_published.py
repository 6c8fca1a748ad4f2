"""Rows that a job publishes into a topic log reach MQTT devices, with all that a message of MQTT 5 may say."""

import asyncio
import math
from pathlib import Path

import pyarrow as pa
import pytest
import redis
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_source.connecting.connection import Server
from spark_source.connecting.topic_log import Generation, read_log
from spark_source.connecting.topic_log import TopicLog as StoredLog
from spark_source.errors import BadRow, OptionError
from spark_source.naming.identity import BatchName
from spark_source.settings.options import parse_options
from spark_source.writing.durable import Durability
from spark_source.writing.numbering import Numbering
from spark_source.writing.sink import Task, TaskWriter
from spark_source.writing.topic_write import TopicEncoder
from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.topics import Message, TopicLog
from streamd.clients.topics.layout import VERSION
from tests.documents.blocks import ROOT, blocks
from tests.mqtt.gateway.in_process import connect, running
from tests.spark.schemas import schema
from tests.spark.sessions import finish
from tests.spark.test_read_and_write import error_of

pytestmark = pytest.mark.spark

EVERYTHING = """
    SELECT 'd/7/command' AS topic, 'open' AS payload, 'backend' AS publisher, 2 AS qos, true AS retain,
        cast(90.5 AS decimal(5,2)) AS expiry_s, 1 AS payload_format, 'text/plain' AS content_type,
        'd/7/answer' AS response_topic, 'c-1' AS correlation, map('unit', 'C') AS properties
"""
SCHEMA = """
    topic string, payload string, publisher string, properties map<string,string>, qos int, retain boolean,
    expiry_s double, payload_format int, content_type string, response_topic string, correlation string
"""


def port_of(client: redis.Redis) -> int:
    return client.connection_pool.connection_kwargs["port"]


def publish(spark: SparkSession, client: redis.Redis, sql: str, **options: object) -> None:
    spark.sql(sql).write.format("streamd").options(port=port_of(client), log="mqtt", **options).mode("append").save()


def contents(client: redis.Redis) -> list:
    log = TopicLog.open(client, "mqtt")
    entries, _, _ = log.next(log.iterator("#"), 1_000)
    return entries


def test_a_row_says_all_that_a_message_may_say_and_is_read_back(spark: SparkSession, either: redis.Redis) -> None:
    TopicLog.create(either, "mqtt", shards=1)
    publish(spark, either, EVERYTHING)
    (entry,) = contents(either)
    assert (entry.topic, entry.payload, entry.publisher, entry.properties) == (
        "d/7/command", b"open", "backend", {"unit": "C"},
    )  # fmt: skip
    assert (entry.qos, entry.retain, entry.expiry_s, entry.payload_format) == (2, True, 90.5, 1)
    assert (entry.content_type, entry.response_topic, entry.correlation) == ("text/plain", "d/7/answer", b"c-1")
    reader = spark.read.format("streamd").schema(SCHEMA).options(port=port_of(either), log="mqtt")
    (row,) = reader.load().collect()
    (written,) = spark.sql(EVERYTHING).collect()
    read, given = row.asDict(), {**written.asDict(), "expiry_s": 90.5}
    assert read == given


def test_what_a_message_does_not_say_is_not_written_and_is_read_as_in_mqtt(
    spark: SparkSession, streamd: redis.Redis
) -> None:
    log = TopicLog.create(streamd, "mqtt", shards=1)
    publish(
        spark,
        streamd,
        "SELECT 'a' AS topic, 'x' AS payload, cast(null AS int) AS qos, false AS retain, cast(null AS int) AS expiry_s "
        "UNION ALL SELECT 'b', 'y', 0, null, 1 UNION ALL SELECT 'c', 'z', 1, false, null",
    )
    (key,) = streamd.keys("{mqtt/0}:g*")
    assert sorted(b" ".join(part for pair in fields.items() for part in pair) for _, fields in streamd.xrange(key)) == [
        b"t a p x",
        b"t b p y e 1000",
        b"t c p z q 1",
    ]
    assert streamd.hget("{mqtt}:meta", "version") == b"1", "nothing in them is new"
    log.publish("d", b"", expiry_s=None)
    rows = spark.read.format("streamd").schema(SCHEMA).options(port=port_of(streamd), log="mqtt").load().collect()
    assert sorted((row.topic, row.qos, row.retain, row.expiry_s, row.payload_format) for row in rows) == [
        ("a", 0, False, None, 0),
        ("b", 0, False, 1.0, 0),
        ("c", 1, False, None, 0),
        ("d", 0, False, None, 0),
    ]
    assert {(row.content_type, row.response_topic, row.correlation) for row in rows} == {(None, None, None)}


def test_a_library_that_knows_only_older_entries_refuses_the_log_before_a_newer_row_is_written(
    spark: SparkSession, streamd: redis.Redis
) -> None:
    TopicLog.create(streamd, "mqtt", shards=2)
    rows = "SELECT concat('d/', id) AS topic, 'x' AS payload, 'text/plain' AS content_type FROM range(0, 9, 1, 3)"
    publish(spark, streamd, rows)
    assert streamd.hget("{mqtt}:meta", "version") == b"2"
    streamd.hset("{mqtt}:meta", "version", VERSION + 1)
    assert "was made by a newer version" in error_of(lambda: publish(spark, streamd, rows))
    assert streamd.hget("{mqtt}:meta", "version") == b"%d" % (VERSION + 1)


def test_a_device_gets_the_row_as_a_message_of_its_qos_with_what_is_left_of_its_expiry(
    spark: SparkSession, streamd: redis.Redis
) -> None:
    def publish_in_thread() -> None:
        spark.createDataFrame([], "n int")  # makes the session this thread's, where the data source is found
        publish(spark, streamd, EVERYTHING)

    async def main() -> None:
        async with running(f"redis://127.0.0.1:{port_of(streamd)}") as gateway:
            device = await connect(gateway.port, "d7")
            await device.subscribe(p.Subscription("d/7/command", 2, retain_as_published=True))
            await asyncio.to_thread(publish_in_thread)
            message = await device.receive()
            assert (message.topic, message.payload, message.qos, message.retain) == (b"d/7/command", b"open", 2, True)
            properties = dict(message.properties)
            assert 80 <= properties.pop(Property.MESSAGE_EXPIRY_INTERVAL) <= 91
            assert properties == {
                Property.PAYLOAD_FORMAT_INDICATOR: 1,
                Property.CONTENT_TYPE: "text/plain",
                Property.RESPONSE_TOPIC: "d/7/answer",
                Property.CORRELATION_DATA: b"c-1",
                Property.USER_PROPERTY: (("unit", "C"),),
            }
            assert type(await device.packet()) is p.Pubrel
            assert await device.quiet() == []

    asyncio.run(main())


LOG = StoredLog("mqtt", (Generation(1, 1, "publisher", ("#",)),))
NUMBER = "integer", pa.int32()
FRACTION = "double", pa.float64()
TEXT = "string", pa.string()


def encoded(name: str, kind: tuple[str, pa.DataType], *values: object) -> list[bytes]:
    """Return the encoded rows of messages with this column."""
    schema = StructType.fromDDL(f"topic string, payload string, {name} {kind[0]}")
    columns = [["d/1"] * len(values), ["x"] * len(values), pa.array(values, kind[1])]
    batch = pa.RecordBatch.from_arrays([pa.array(one) for one in columns], names=schema.fieldNames())
    return [one for rows in TopicEncoder(schema, (), LOG).encode(batch) for one in rows.payloads.to_pylist()]


@pytest.mark.parametrize(
    ("name", "kind", "value", "said"),
    [
        ("qos", NUMBER, 3, "qos 3 in a row: give 0, 1 or 2, or null for 0"),
        ("qos", NUMBER, -1, "qos -1 in a row: give 0, 1 or 2"),
        ("expiry_s", NUMBER, 0, "expiry_s 0 in a row: give seconds above 0, or null for never"),
        ("expiry_s", FRACTION, 0.0004, "expiry_s 0.0004 in a row: give seconds above 0"),
        ("expiry_s", FRACTION, -0.5, "expiry_s -0.5 in a row: give seconds above 0"),
        ("expiry_s", FRACTION, math.nan, "expiry_s nan in a row: give seconds above 0"),
        ("expiry_s", FRACTION, math.inf, "expiry_s inf in a row: give seconds above 0"),
        ("expiry_s", FRACTION, 1e15, "expiry_s 1000000000000000.0 in a row: give seconds above 0"),
        ("payload_format", NUMBER, 2, "payload_format 2 in a row: give 1 for text in UTF-8, or 0 or null"),
        ("content_type", TEXT, "x" * 65_536, "xxx in a row: give at most 65535 bytes, or null"),
        ("correlation", TEXT, "é" * 32_768, "é in a row: give at most 65535 bytes, or null"),
        ("response_topic", TEXT, "d/+", "response_topic 'd/+' in a row: a topic has 1 to 65535 bytes without +, #"),
        ("response_topic", TEXT, "d/#", "response_topic 'd/#' in a row: a topic has 1 to 65535 bytes"),
        ("response_topic", TEXT, "d\0", "in a row: a topic has 1 to 65535 bytes"),
        ("response_topic", TEXT, "x" * 65_536, "in a row: a topic has 1 to 65535 bytes"),
        ("response_topic", TEXT, "", "response_topic '' in a row: a topic has 1 to 65535 bytes"),
    ],
)
def test_a_value_that_no_message_can_have_is_refused(
    name: str, kind: tuple[str, pa.DataType], value: object, said: str
) -> None:
    with pytest.raises(BadRow) as caught:
        encoded(name, kind, None, value, None)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind", "value", "written"),
    [
        ("qos", ("tinyint", pa.int8()), 2, b"$1\r\nq\r\n$1\r\n2\r\n"),
        ("expiry_s", ("bigint", pa.int64()), 60, b"$1\r\ne\r\n$5\r\n60000\r\n"),
        ("expiry_s", FRACTION, 0.0015, b"$1\r\ne\r\n$1\r\n2\r\n"),
        ("expiry_s", FRACTION, 9e14, b"$1\r\ne\r\n$18\r\n900000000000000000\r\n"),
        ("correlation", ("binary", pa.binary()), b"\xff\0", b"$2\r\ncd\r\n$2\r\n\xff\0\r\n"),
        ("content_type", TEXT, "x" * 65_535, b"$2\r\nct\r\n$65535\r\n%b\r\n" % (b"x" * 65_535)),
    ],
)
def test_the_field_of_a_value(name: str, kind: tuple[str, pa.DataType], value: object, written: bytes) -> None:
    head = b"$1\r\nt\r\n$3\r\nd/1\r\n$1\r\np\r\n$1\r\nx\r\n"
    assert encoded(name, kind, value, None) == [head + written, head]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("qos", TEXT, "column qos of type string must be an integer in a log: cast it"),
        ("expiry_s", TEXT, "column expiry_s of type string must be a number in a log: cast it"),
        ("retain", NUMBER, "column retain of type int must be boolean in a log: cast it"),
        ("correlation", NUMBER, "column correlation of type int must be binary or string in a log: cast it"),
        ("expiry", NUMBER, "column expiry cannot be published: select topic, publisher, payload, properties, qos,"),
    ],
)
def test_a_column_that_is_none_of_a_message_is_refused(name: str, kind: tuple[str, pa.DataType], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        encoded(name, kind, None)
    assert str(caught.value).startswith(said)


def test_a_job_with_such_a_row_says_so_and_writes_nothing(spark: SparkSession, streamd: redis.Redis) -> None:
    TopicLog.create(streamd, "mqtt", shards=1)
    said = error_of(lambda: publish(spark, streamd, "SELECT 'd/1' AS topic, 'x' AS payload, 3 AS qos"))
    assert "qos 3 in a row: give 0, 1 or 2, or null for 0; that is of the row {topic: 'd/1', payload: 'x'" in said
    assert contents(streamd) == []


def test_values_that_other_programs_wrote_are_read_as_the_gateway_reads_them(
    spark: SparkSession, streamd: redis.Redis
) -> None:
    TopicLog.create(streamd, "mqtt", shards=1).publish_many([Message("a", b"x")])
    (key,) = streamd.keys("{mqtt/0}:g*")
    streamd.xadd(key, {"t": "b", "q": "7", "r": "yes", "e": "-1", "pf": "2", "cd": b"\xff"})
    schema = SCHEMA.replace("correlation string", "correlation binary")
    reader = spark.read.format("streamd").schema(schema).options(port=port_of(streamd), log="mqtt", topicFilter="b")
    (row,) = reader.load().collect()
    assert (row.qos, row.retain, row.expiry_s, row.payload_format, bytes(row.correlation)) == (
        0,
        False,
        None,
        0,
        b"\xff",
    )


def test_a_query_may_write_into_the_log_that_it_reads_if_it_says_so(
    spark: SparkSession, streamd: redis.Redis, tmp_path: Path
) -> None:
    log = TopicLog.create(streamd, "mqtt", shards=1)
    log.publish_many([(f"devices/d{number}/reading", b"x") for number in range(5)])

    def answer(**options: object) -> list[int]:
        readings = spark.readStream.format("streamd").options(
            port=port_of(streamd), log="mqtt", topicFilter="devices/#", startingOffsets="earliest"
        )
        commands = readings.load().selectExpr("concat('commands/', split(topic, '/')[1]) AS topic", "payload")
        query = commands.writeStream.format("streamd").options(port=port_of(streamd), log="mqtt", **options)
        return finish(query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start())

    assert "would read its own rows" in error_of(answer)
    assert answer(allowSourceAsTarget="true") == [5]
    log.publish("devices/d5/reading", b"x")
    answer(allowSourceAsTarget="true")
    topics = [one.topic for one in contents(streamd) if one.topic.startswith("commands/")]
    assert sorted(topics) == [f"commands/d{number}" for number in range(6)]


def test_the_rights_of_the_document_are_enough_for_a_log(spark: SparkSession, streamd: redis.Redis) -> None:
    (block,) = [one for one in blocks() if one.text.startswith("~orders")]
    _, *commands = block.text.splitlines()
    assert "`~{mqtt}:meta ~{mqtt/*`" in (ROOT / block.document).read_text(encoding="utf-8")
    TopicLog.create(streamd, "mqtt", shards=2)
    assert "`~{mqtt}:numbers ~{mqtt}:cleared`" in (ROOT / block.document).read_text(encoding="utf-8")
    keys = ["~{mqtt}:meta", "~{mqtt/*", "~{mqtt}:numbers", "~{mqtt}:cleared"]
    rights = [*keys, *" ".join(commands).split(), "+xcfgset", "+xsplit", "+xfilter"]
    streamd.execute_command("ACL", "SETUSER", "spark", "reset", "on", ">secret", *rights)
    streamd.execute_command("ACL", "LOG", "RESET")  # other tests of this server give wrong passwords
    login = {"username": "spark", "password": "secret"}
    try:
        publish(spark, streamd, EVERYTHING, sinkId="commands", sinkBatch="1", **login)
        reader = spark.read.format("streamd").options(port=port_of(streamd), log="mqtt", topicFilter="d/#", **login)
        assert reader.load().count() == 1
        assert streamd.execute_command("ACL", "LOG") == []
    finally:
        streamd.execute_command("ACL", "DELUSER", "spark")


def write_task(client: redis.Redis, rows: list[dict], mode: str, partition: int = 0, attempt: int = 0) -> None:
    """Publish rows as one task does."""
    options = parse_options({"port": str(port_of(client)), "log": "mqtt", "exactlyOnce": mode})
    server = Server(options.connection)
    log = read_log(server, "mqtt")
    encoder = TopicEncoder(schema("topic string, payload binary, publisher string, retain boolean"), (), log)
    name = BatchName("sink", "0", 0, mode != "none")
    task = Task(name, partition, attempt, f"run{attempt}", mode, Durability(), frozenset())
    TaskWriter(server, options.write, encoder, task, Numbering(server, log)).write(
        iter([pa.RecordBatch.from_pylist(rows)])
    )


@pytest.mark.parametrize("mode", ["idmp", "marker", "none"])
def test_retained_rows_have_numbers_which_are_no_part_of_their_names(either: redis.Redis, mode: str) -> None:
    """A task that runs again draws other numbers, and adds nothing."""
    log = TopicLog.create(either, "mqtt", shards=4)
    payloads, retains = [b"x", b"$1\r\nr\r\n$1\r\n1\r\n", b"", b"z"], [True, False, True, None]
    rows = [
        {"topic": f"t/{n}", "payload": payload, "publisher": f"p{n}", "retain": retain}
        for n, (payload, retain) in enumerate(zip(payloads, retains, strict=True))
    ]
    for attempt in range(1 if mode == "none" else 2):
        write_task(either, rows, mode, attempt=attempt)
    assert either.hget("{mqtt}:meta", "version") == b"3"
    entries = [fields for key in either.keys("{mqtt/?}:g?") for _, fields in either.xrange(key)]
    assert sorted(one[b"p"] for one in entries) == sorted(payloads)
    numbers = {one[b"t"]: one.get(b"n") for one in entries}
    assert [bool(numbers[f"t/{n}".encode()]) for n in range(4)] == [True, False, True, False]
    assert numbers[b"t/0"] < numbers[b"t/2"]
    log.publish_many([Message("t/0", b"y", "p0", retain=True)])
    *_, last = sorted(one.get(b"n", b"") for key in either.keys("{mqtt/?}:g?") for _, one in either.xrange(key))
    assert last > numbers[b"t/2"]


def test_what_jobs_set_and_clear_stays_cleared(streamd: redis.Redis) -> None:
    TopicLog.create(streamd, "mqtt", shards=4)
    for number in range(20):
        for partition, payload in enumerate((b"x", b"")):
            publisher = f"p{partition + number}"
            row = {"topic": f"t/{number}", "payload": payload, "publisher": publisher, "retain": True}
            write_task(streamd, [row], "none", partition)

    async def main() -> None:
        async with running(f"redis://127.0.0.1:{port_of(streamd)}", shards=4) as gateway:
            device = await connect(gateway.port, "reader")
            await device.subscribe(p.Subscription("#", 1))
            assert await device.quiet() == []

    asyncio.run(main())
