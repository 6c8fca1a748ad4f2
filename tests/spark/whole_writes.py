"""Whole writes of one task as Spark calls the writers, without Spark."""

from collections.abc import Iterator

import pyarrow as pa
import redis

from spark_source.errors import StreamdError
from spark_source.settings.options import parse_options
from spark_source.writing.writer import BATCH_ID, QUERY_ID, StreamdBatchWriter, StreamdStreamWriter
from tests.spark.one_task import COLUMNS, port_of


class Context:
    """What a task is told by Spark."""

    def __init__(self, **properties: str) -> None:
        self.properties = properties

    def partitionId(self) -> int:
        return 0

    def attemptNumber(self) -> int:
        return 0

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)


def batch(rows: list[dict]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pylist(rows, schema=pa.schema([("n", pa.int32()), ("v", pa.string())]))])


def save(client: redis.Redis, rows: list[dict], overwrite: bool = False, **options: str) -> None:
    """Write a DataFrame of one partition."""
    given = parse_options({"port": port_of(client), "stream": "s", **options})
    writer = StreamdBatchWriter(given, COLUMNS, overwrite)
    try:
        reports = [writer.write(batch(rows))]
    except StreamdError:
        writer.abort([None])
        raise
    writer.commit(reports)


def micro_batch(client: redis.Redis, task: Context, query: str, number: int, rows: list[dict], **options: str) -> None:
    """Write one batch of a streaming query."""
    task.properties = {QUERY_ID: query, BATCH_ID: str(number)}
    given = parse_options({"port": port_of(client), "stream": "s", **options})
    StreamdStreamWriter(given, COLUMNS, False).commit(
        [StreamdStreamWriter(given, COLUMNS, False).write(batch(rows))], number
    )
