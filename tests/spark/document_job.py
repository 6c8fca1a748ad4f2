"""Runs the Python blocks of documents, as they stand and one after another, in the directory it is started in.

`python -m tests.spark.document_job docs/spark.md docs/spark-reference.md`; STREAMD_URL says where the server is. The
last line printed is JSON.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import DataStreamReader
from pyspark.sql.types import StructType


class StandInForKafka(DataSource):
    """Three records in the columns of Spark's Kafka source, which itself wants a jar and a broker.

    Spark keeps the name kafka for that one, so `format` hands out this one for it.
    """

    @classmethod
    def name(cls) -> str:
        return "stand_in_for_kafka"

    def schema(self) -> str:
        return "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"

    def streamReader(self, schema: StructType) -> "Records":
        assert {name.lower() for name in self.options} >= {"kafka.bootstrap.servers", "subscribe"}
        return Records()


class Records(DataSourceStreamReader):
    """Offsets 0 to 2 of one partition."""

    def initialOffset(self) -> dict[str, int]:
        return {"offset": 0}

    def latestOffset(self, start: dict[str, int] | None = None, limit: object = None) -> dict[str, int]:
        return {"offset": 3}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["offset"], end["offset"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple]:
        for offset in range(*partition.value):
            yield None, f"record {offset}".encode(), "orders", 0, offset, None


def main(*documents: str) -> None:
    """Run the blocks and print what they left."""
    names: dict = {"__name__": "document"}
    text = "\n".join(Path(document).read_text(encoding="utf-8") for document in documents)
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    find = DataStreamReader.format

    def find_or_stand_in(reader: DataStreamReader, source: str) -> DataStreamReader:
        return find(reader, StandInForKafka.name() if source == "kafka" else source)

    DataStreamReader.format = find_or_stand_in  # type: ignore[method-assign]
    for number, block in enumerate(blocks):
        if number == 1:
            names["spark"].dataSource.register(StandInForKafka)
        exec(compile(block, f"block {number + 1}", "exec"), names)
        for query in names["spark"].streams.active:
            query.processAllAvailable()  # so that each block finds all that those before it wrote
    spark = names["spark"]
    for query in spark.streams.active:
        query.stop()
    print()
    print(
        json.dumps(
            {
                "blocks": len(blocks),
                "baskets": [row.asDict(recursive=True) for row in names["baskets"].collect()],
                "recent": names["recent"].count(),
                "lag": names["lag"](names["query"].lastProgress),
                "stats": sorted(int(value) for value in names["stats"].values()),
                "lake": spark.read.parquet("lake/orders").count(),
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    sys.modules["tests.spark.document_job"] = sys.modules["__main__"]
    StandInForKafka.__module__ = Records.__module__ = "tests.spark.document_job"  # so that workers find them
    main(*sys.argv[1:])
