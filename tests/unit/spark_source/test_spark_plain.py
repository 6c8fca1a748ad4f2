"""Rows in any Arrow layout that Spark may hand over are written as those in the plain one."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.types import ArrayType, BinaryType, DataType, LongType, MapType, StringType, StructField, StructType

from spark_source.values.encode import RowEncoder
from spark_source.values.plain import plain, plain_batch, plain_type

TEXT = ["a", None, "\u00e9" * 20, ""]
BYTES = [b"\xff\x00", None, b"long enough for a view's buffer", b""]
MAP, BYTES_MAP = MapType(StringType(), StringType()), MapType(StringType(), BinaryType())
PAIRS = ArrayType(StructType([StructField("field", StringType()), StructField("value", BinaryType())]))
PART = StructType([StructField("t", StringType()), StructField("b", BinaryType())])
LISTS = [["a", None], None, [], ["b"]]
MAPS = [[("k", "v"), ("l", None)], None, [], [("m", "w" * 20)]]
BYTES_MAPS = [[("k", b"\xff")], [("q", b"")], None, [("m", b"\x00")]]
PARTS = [{"t": "a", "b": b"\xff"}, None, {"t": None, "b": None}, {"t": "x" * 20, "b": b""}]
PAIR_LISTS = [
    [{"field": "f", "value": b"\xff"}],
    None,
    [],
    [{"field": "f", "value": b"1"}, {"field": "f", "value": b"2"}],
]


def runs(values: list) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(list(range(1, len(values) + 1)), pa.array(values))


def coded(values: list, kind: pa.DataType) -> pa.Array:
    """Return a dictionary whose values have a type, which pyarrow cannot make of Python's values."""
    known = sorted({value for value in values if value is not None})
    codes = pa.array([None if value is None else known.index(value) for value in values], pa.int8())
    return pa.DictionaryArray.from_arrays(codes, pa.array(known, kind))


LARGE_PART = pa.struct([("t", pa.large_string()), ("b", pa.large_binary())])
VIEW_PART = pa.struct([("t", pa.string_view()), ("b", pa.binary_view())])
LARGE_PAIR = pa.struct([("field", pa.large_string()), ("value", pa.large_binary())])
VIEW_PAIR = pa.struct([("field", pa.string_view()), ("value", pa.binary_view())])

CASES: dict[str, tuple[DataType, list, pa.Array]] = {
    "large text": (StringType(), TEXT, pa.array(TEXT, pa.large_string())),
    "text view": (StringType(), TEXT, pa.array(TEXT, pa.string_view())),
    "text dictionary": (StringType(), TEXT, coded(TEXT, pa.string())),
    "large text dictionary": (StringType(), TEXT, coded(TEXT, pa.large_string())),
    "text view dictionary": (StringType(), TEXT, coded(TEXT, pa.string_view())),
    "text runs": (StringType(), TEXT, runs(TEXT)),
    "large bytes": (BinaryType(), BYTES, pa.array(BYTES, pa.large_binary())),
    "bytes view": (BinaryType(), BYTES, pa.array(BYTES, pa.binary_view())),
    "bytes dictionary": (BinaryType(), BYTES, coded(BYTES, pa.binary())),
    "large bytes dictionary": (BinaryType(), BYTES, coded(BYTES, pa.large_binary())),
    "bytes of one size": (
        BinaryType(),
        [b"a", None, b"\xff", b"b"],
        pa.array([b"a", None, b"\xff", b"b"], pa.binary(1)),
    ),
    "number dictionary": (LongType(), [1, None, 1, 2], coded([1, None, 1, 2], pa.int64())),
    "large list": (ArrayType(StringType()), LISTS, pa.array(LISTS, pa.large_list(pa.large_string()))),
    "list view": (ArrayType(StringType()), LISTS, pa.array(LISTS, pa.list_view(pa.string_view()))),
    "large list view": (ArrayType(StringType()), LISTS, pa.array(LISTS, pa.large_list_view(pa.large_string()))),
    "list of dictionary": (
        ArrayType(StringType()),
        LISTS,
        pa.array(LISTS, pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ),
    "large map": (MAP, MAPS, pa.array(MAPS, pa.map_(pa.large_string(), pa.large_string()))),
    "map of views": (MAP, MAPS, pa.array(MAPS, pa.map_(pa.string_view(), pa.string_view()))),
    "large map of bytes": (BYTES_MAP, BYTES_MAPS, pa.array(BYTES_MAPS, pa.map_(pa.large_string(), pa.large_binary()))),
    "map of bytes views": (BYTES_MAP, BYTES_MAPS, pa.array(BYTES_MAPS, pa.map_(pa.string_view(), pa.binary_view()))),
    "large struct": (PART, PARTS, pa.array(PARTS, LARGE_PART)),
    "struct of views": (PART, PARTS, pa.array(PARTS, VIEW_PART)),
    "large pairs": (PAIRS, PAIR_LISTS, pa.array(PAIR_LISTS, pa.large_list(LARGE_PAIR))),
    "pairs of views": (PAIRS, PAIR_LISTS, pa.array(PAIR_LISTS, pa.list_view(VIEW_PAIR))),
}
NESTED = ("list", "map", "struct", "pairs")


def payloads(kind: DataType, column: pa.Array, name: str, form: str) -> list[bytes]:
    """Return the rows of a batch with a number and this column."""
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(column))), column], names=["n", name])
    columns = StructType([StructField("n", LongType()), StructField(name, kind)])
    encoder = RowEncoder(columns, (), "s", value_format=form)
    return [payload for rows in encoder.encode(batch) for payload in rows.payloads.to_pylist()]


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize("case", CASES)
def test_an_arrow_type_is_written_as_its_plain_one(case: str, start: int) -> None:
    kind, values, column = CASES[case]
    usual = plain_type(column.type)
    expected = pa.array(values, usual)

    form = "json" if any(word in case for word in NESTED) else "text"
    assert payloads(kind, column.slice(start), "v", form) == payloads(kind, expected.slice(start), "v", form)
    assert plain(column.slice(start), usual).equals(expected.slice(start))


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize("case", [case for case, (kind, *_) in CASES.items() if kind in (MAP, BYTES_MAP, PAIRS)])
def test_the_raw_forms_fields_are_written_alike_from_any_arrow_type(case: str, start: int) -> None:
    kind, values, column = CASES[case]
    expected = pa.array(values, plain_type(column.type)).slice(start)

    assert payloads(kind, column.slice(start), "fields", "text") == payloads(kind, expected, "fields", "text")


def test_a_plain_batch_is_not_copied() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(TEXT), pa.array(MAPS, pa.map_(pa.string(), pa.string()))], ["a", "b"])

    assert plain_batch(batch) is batch


def test_lists_of_views_in_any_order_keep_their_values() -> None:
    views = pa.ListViewArray.from_arrays([3, 0, 0], [1, 2, 0], pa.array(["a", "b", "c", "d"], pa.string_view()))

    assert plain(views, plain_type(views.type)).to_pylist() == [["d"], ["a", "b"], []]
    assert pc.list_value_length(views).to_pylist() == [1, 2, 0]
