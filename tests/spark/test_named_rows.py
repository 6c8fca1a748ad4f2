"""A row that cannot be written is named in the error, by whomever it is refused."""

import pyarrow as pa
import pytest
import redis
from pyspark.sql.types import DateType, IntegerType, StructField, StructType

from spark_source.errors import BadRow, StreamdError
from spark_source.values.encode import RowEncoder
from tests.spark.one_task import COLUMNS, write
from tests.spark.schemas import schema

FAR = pa.array([0, 2**31 - 5, 7], pa.int32()).view(pa.date32())
TYPES = pa.schema([("n", pa.int32()), ("v", pa.string())])


@pytest.mark.parametrize("at", [0, 1, 4, 8])
def test_a_row_that_cannot_be_encoded_is_named(at: int) -> None:
    rows = [{"n": n, "v": f"v{n}"} for n in range(9)]
    for wrong, keys, said in [
        ({"n": None, "v": None}, (), "a row has no value that is not null"),
        ({"n": 5000, "v": None}, ("v",), "column v of idempotencyKey is null in a row"),
    ]:
        batch = pa.RecordBatch.from_pylist([*rows[:at], wrong, *rows[at:]], schema=TYPES)
        with pytest.raises(BadRow, match=f"{said}.* the row {{n: {wrong['n']}, v: None}}"):
            list(RowEncoder(COLUMNS, keys, "s").encode(batch))


@pytest.mark.parametrize("nested", [False, True])
def test_a_date_beyond_all_calendars_is_named_not_written(nested: bool) -> None:
    column = pa.StructArray.from_arrays([FAR], ["day"]) if nested else FAR
    batch = pa.RecordBatch.from_arrays([column, pa.array([10, 11, 12], pa.int32())], ["d", "n"])
    kind = StructType([StructField("day", DateType())]) if nested else DateType()
    columns = StructType([StructField("d", kind), StructField("n", IntegerType())])
    with pytest.raises(BadRow, match=r"the row \{d: .*, n: 11\}"):
        list(RowEncoder(columns, (), "s", None, "json" if nested else "text").encode(batch))


def test_a_long_row_is_shortened() -> None:
    batch = pa.RecordBatch.from_pylist([{"n": None, "v": "x" * 5000, "w": None}])
    with pytest.raises(BadRow, match=r"the row \{n: None, v: 'x{36}\.\.\., w: None\}"):
        list(RowEncoder(schema("n int, v string, w string"), ("w",), "s").encode(batch))


@pytest.mark.parametrize("mode", ["idmp", "marker", "none"])
def test_a_row_that_the_server_refuses_is_named(streamd: redis.Redis, mode: str) -> None:
    """Its stream is of another type; those before it are written."""
    streamd.set("other", "a string")
    columns = schema("n int, v string, _stream string")
    rows = [{"n": n, "v": f"v{n}", "_stream": "other" if n == 13 else "s"} for n in range(20)]
    given = {"mode": mode, "exactlyOnce": mode, "streamColumn": "_stream", "windowSetup": "auto"}
    with pytest.raises(StreamdError) as told:
        write(streamd, rows, columns=columns, **given)
    if mode == "idmp":  # the stream's window is looked at before a row is sent
        assert str(told.value).startswith("key other holds no stream")
    else:
        assert "WRONGTYPE" in str(told.value)
        assert "that is of the row {n: '13', v: 'v13'} for stream other" in str(told.value)
