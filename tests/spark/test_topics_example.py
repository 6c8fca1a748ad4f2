"""The Spark example of docs/topics.md runs as it stands."""

import pytest
import redis
from pyspark.sql import SparkSession

from streamd.clients.topics import TopicLog
from tests.documents.blocks import blocks_for

pytestmark = pytest.mark.spark


def test_the_example_reads_what_was_published(spark: SparkSession, streamd: redis.Redis, streamd_port: int) -> None:
    log = TopicLog.create(streamd, "telemetry")
    log.publish("devices/d7/temperature", b"21.5", publisher="d7", iid="reading-1")
    log.publish("devices/d7/humidity", b"40", publisher="d7", iid="reading-2")
    (block,) = blocks_for(__file__)
    names: dict = {"spark": spark}
    url = f'.format("streamd").option("url", "redis://127.0.0.1:{streamd_port}")'
    exec(compile(block.text.replace('.format("streamd")', url), str(block), "exec"), names)

    query = names["messages"].writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
    query.awaitTermination()

    columns = {"topic", "publisher", "payload", "properties", "stream", "id", "ts", "seq"}
    assert set(names["messages"].columns) == columns
    rows = spark.table("seen").collect()
    assert [(row.topic, bytes(row.payload)) for row in rows] == [("devices/d7/temperature", b"21.5")]
