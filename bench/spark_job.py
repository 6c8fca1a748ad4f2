"""Sources and sinks for the Spark measurements that do as little as Spark allows."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 5_000


class SyntheticSource(DataSource):
    """Hands the same ready record batch to Spark again and again: the rate of Spark's own path for a Python source.

    Options: rows (all of them), parts.
    """

    @classmethod
    def name(cls) -> str:
        return "synthetic"

    def schema(self) -> str:
        return "n long, shop string, item string"

    def reader(self, schema: StructType) -> "SyntheticReader":
        return SyntheticReader(schema, int(self.options["rows"]), int(self.options["parts"]))

    def streamReader(self, schema: StructType) -> "OneRowReader":
        return OneRowReader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "NothingWriter":
        return NothingWriter()


class SyntheticReader(DataSourceReader):
    """Reads `rows` rows in `parts` partitions."""

    def __init__(self, schema: StructType, rows: int, parts: int) -> None:
        self.schema, self.rows, self.parts = schema, rows, parts

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in range(self.parts)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        ready = ready_batch(self.schema, BATCH_ROWS)
        for _ in range(self.rows // self.parts // BATCH_ROWS):
            yield ready


class OneRowReader(DataSourceStreamReader):
    """A micro-batch of one row whenever Spark asks."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        self.at = 0

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int] | None = None, limit: object = None) -> dict[str, int]:
        self.at += 1
        return {"at": self.at}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        yield ready_batch(self.schema, 1)


class NothingWriter(DataSourceStreamArrowWriter):
    """Takes rows and drops them."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def ready_batch(schema: StructType, rows: int) -> "pa.RecordBatch":
    """Return a record batch of small rows."""
    import pyarrow as pa

    from spark_source.values.schema import arrow_schema

    columns = [
        pa.array(range(rows), pa.int64()),
        pa.array([f"shop-{n % 100}" for n in range(rows)], pa.string()),
        pa.array([f"item {n}" for n in range(rows)], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))
