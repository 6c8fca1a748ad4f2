"""The data source as the chaos test uses it: rows come in another order at each attempt, and tasks fail by themselves.

Only what a task is given is changed, and whether it lives; reading and writing are those of `streamd`.
"""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from spark_source import StreamdSource
from spark_source.reading.stream_reader import StreamdStreamReader
from spark_source.writing.writer import StreamdBatchWriter, StreamdStreamWriter

CHUNK_ROWS = 50


class OnPurpose(RuntimeError):
    """A task that fails because it is its turn."""


def shuffled(given: Iterator[Any], fail_share: float) -> Iterator[Any]:
    """Yield the rows of a partition in an order that no other attempt has; now and then fail in between.

    Rows come and go in record batches; those of a streaming writer on Spark 4.0 one by one.
    """
    held = list(given)
    if not held:
        return
    table = pa.Table.from_batches(held) if isinstance(held[0], pa.RecordBatch) else None
    count = len(held) if table is None else len(table)
    chance = random.Random()
    order = chance.sample(range(count), count)
    fails_at = chance.randrange(max(1, count)) if chance.random() < fail_share else None
    for start in range(0, count, CHUNK_ROWS):
        if fails_at is not None and fails_at < start + CHUNK_ROWS:
            raise OnPurpose("in the middle of its rows")
        chunk = order[start : start + CHUNK_ROWS]
        if table is None:
            yield from (held[row] for row in chunk)
        else:
            yield from table.take(chunk).combine_chunks().to_batches()


def written(report: Any, fail_share: float) -> Any:
    """Return a task's report; now and then fail instead, when everything is written."""
    if random.random() < fail_share:
        raise OnPurpose("after its last row")
    return report


class UnrulyReader(StreamdStreamReader):
    fail_share = 0.0

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return shuffled(super().read(partition), self.fail_share)


class UnrulyStreamWriter(StreamdStreamWriter):
    fail_share = 0.0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        return written(super().write(shuffled(iterator, self.fail_share)), self.fail_share)


class UnrulyBatchWriter(StreamdBatchWriter):
    fail_share = 0.0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        return written(super().write(shuffled(iterator, self.fail_share)), self.fail_share)


class UnrulySource(StreamdSource):
    """`format("unruly")`: option failShare says how many attempts of tasks fail, at each of its places."""

    def __init__(self, options: dict[str, str]) -> None:
        self.fail_share = float(options.get("failshare", 0))
        super().__init__({name: value for name, value in options.items() if name != "failshare"})

    @classmethod
    def name(cls) -> str:
        return "unruly"

    def streamReader(self, schema: StructType) -> UnrulyReader:
        reader = UnrulyReader(self.parsed, schema)
        reader.fail_share = self.fail_share
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> UnrulyStreamWriter:
        writer = UnrulyStreamWriter(self.parsed, schema, overwrite)
        writer.fail_share = self.fail_share
        return writer

    def writer(self, schema: StructType, overwrite: bool) -> UnrulyBatchWriter:
        writer = UnrulyBatchWriter(self.parsed, schema, overwrite)
        writer.fail_share = self.fail_share
        return writer
