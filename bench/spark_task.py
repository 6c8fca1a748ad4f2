"""`python -m bench.spark_task read|write PORT ROWS`: the work of one Spark task in a process of its own, without Spark.

Prints the process's peak memory in MB. `--profile` prints instead where its time goes.
"""

import argparse
import cProfile
import os
import pstats
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_source.connecting.connection import Server
from spark_source.naming.identity import BatchName
from spark_source.reading.entry_pages import read_range
from spark_source.reading.offsets import Range
from spark_source.settings.options import parse_options
from spark_source.values.arrow import MappedConverter
from spark_source.values.collector import undisturbed
from spark_source.values.encode import RowEncoder
from spark_source.values.schema import arrow_schema
from spark_source.writing.durable import Durability
from spark_source.writing.sink import Task, TaskWriter

SCHEMA = StructType(
    [StructField("n", LongType()), StructField("shop", StringType()), StructField("item", StringType())]
)
BATCH_ROWS = 10_000  # what Spark hands over at once


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows that all differ."""
    schema = arrow_schema(SCHEMA)
    for first in range(0, rows, BATCH_ROWS):
        numbers = range(first, min(first + BATCH_ROWS, rows))
        columns = [
            pa.array(numbers, pa.int64()),
            pa.array([f"shop-{n % 100}" for n in numbers], pa.string()),
            pa.array([f"item {n}" for n in numbers], pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def read(port: int, rows: int) -> None:
    """Read the first entries of stream `in`, a partition of that size."""
    options = parse_options({"port": str(port), "stream": "in"})
    part = Range("in", "0-0", f"{2**63}-0", 0)
    got = 0
    for batch in undisturbed(read_range(Server(options.connection), part, MappedConverter(SCHEMA, False), 5_000, True)):
        got += batch.num_rows
        if got >= rows:
            return


def write(port: int, rows: int, **given: str) -> None:
    """Write this many rows to stream `task`."""
    options = parse_options({"port": str(port), "stream": "task", **given})
    name = BatchName(f"bench-{os.getpid()}", "0", None, False)
    task = Task(name, 0, 0, "run", "none" if given.get("exactlyOnce") == "none" else "idmp", Durability(), frozenset())
    encoder = RowEncoder(SCHEMA, options.write.key_columns, "task")
    TaskWriter(Server(options.connection), options.write, encoder, task).write(batches(rows))


def main() -> None:
    """Run the task of the arguments."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_task")
    parser.add_argument("what", choices=("read", "write"))
    parser.add_argument("port", type=int)
    parser.add_argument("rows", type=int)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    work = read if arguments.what == "read" else write
    if arguments.profile:
        profile = cProfile.Profile()
        profile.runcall(work, arguments.port, arguments.rows)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
        return
    work(arguments.port, arguments.rows)
    print(f"{peak_mb():.1f}")


def peak_mb() -> float:
    """Return this process's peak memory. Not ru_maxrss, which begins with that of the process it was forked from."""
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert peak is not None
    return int(peak[1]) / 1024


if __name__ == "__main__":
    main()
