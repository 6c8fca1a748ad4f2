"""Fields that hold JSON: structs, arrays, maps and variants, to columns and back."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from spark_source.errors import BadRow, OptionError
from spark_source.values.arrow import MappedConverter, RawConverter
from spark_source.values.casts import cast_column
from spark_source.values.encode import RowEncoder
from spark_source.values.json_read import read_json
from spark_source.values.json_write import json_texts
from spark_source.values.schema import arrow_schema, check_user_schema, raw_schema

LINE = StructType(
    [
        StructField("item", StringType()),
        StructField("cents", LongType()),
        StructField("at", TimestampType()),
        StructField("tags", ArrayType(StringType())),
        StructField("more", MapType(StringType(), DoubleType())),
        StructField("price", DecimalType(30, 2)),
        StructField("raw", BinaryType()),
        StructField("day", DateType()),
        StructField("paid", BooleanType()),
    ]
)
FULL = (
    '{"item":"a \\"b\\" ü","cents":9007199254740993,"at":"2026-01-31T12:00:00.250000Z","tags":["x",null,"y"],'
    '"more":{"k":1.5,"n":null,"i":"Infinity"},"price":12345678901234567890123456.78,"raw":"AP8=","day":"2026-01-31",'
    '"paid":true}'
)


def arrow_type(kind: DataType) -> pa.DataType:
    return arrow_schema(StructType([StructField("x", kind)])).field("x").type


def read(kind: DataType, *values: str | None) -> tuple[list, list[int]]:
    column, bad, lacking = read_json([value and value.encode() for value in values], arrow_type(kind), cast_column)
    column.validate(full=True)
    assert column.type == arrow_type(kind)
    assert lacking == []
    return column.to_pylist(), bad


def test_a_struct_is_read_with_all_its_parts_and_written_as_it_was() -> None:
    rows, bad = read(LINE, FULL, None, "{}")

    assert bad == []
    assert rows[1] is None
    assert set(rows[2].values()) == {None}
    assert rows[0] == {
        "item": 'a "b" ü',
        "cents": 9007199254740993,
        "at": datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC),
        "tags": ["x", None, "y"],
        "more": [("k", 1.5), ("n", None), ("i", float("inf"))],
        "price": Decimal("12345678901234567890123456.78"),
        "raw": b"\x00\xff",
        "day": date(2026, 1, 31),
        "paid": True,
    }
    column, _, _ = read_json([FULL.encode(), None, b"{}"], arrow_type(LINE), cast_column)
    assert json_texts(column).to_pylist() == [FULL, None, "{}"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ArrayType(IntegerType()), '[1, 2.5, "3", true]', [1, None, 3, None]),
        (ArrayType(IntegerType()), "{}", None),
        (ArrayType(IntegerType()), "[1", None),
        (ArrayType(IntegerType()), "[NaN]", None),
        (ArrayType(IntegerType()), "[[1]]", [None]),
        (MapType(IntegerType(), StringType()), '{"x": "a", "2": "b"}', None),
        (StructType([StructField("a", ArrayType(LongType()))]), '{"a": 5}', {"a": None}),
    ],
)
def test_what_does_not_fit_is_null_and_its_row_is_told(kind: DataType, text: str, value: object) -> None:
    assert read(kind, None, text) == ([None, value], [1])


def test_text_stays_the_text_of_what_stands_there() -> None:
    kind = StructType([StructField("t", StringType())])
    given = ['{"t": "x"}', '{"t": 1.50}', '{"t": true}', '{"t": {"b": [1.0, null, "\\u00e9"]}}', '{"t": null}']

    assert [row["t"] for row in read(kind, *given)[0]] == ["x", "1.50", "true", '{"b":[1.0,null,"é"]}', None]


def test_a_variant_holds_any_json_and_null_is_one() -> None:
    texts = ['{"a":[1,2.5,"x"]}', "null", '"text"', "12345678901234567890", None, "{"]
    column, bad, _ = read_json([text and text.encode() for text in texts], arrow_type(VariantType()), cast_column)

    assert bad == [5]
    assert json_texts(column).to_pylist() == [*texts[:5], None]
    nested = ArrayType(VariantType())
    column, bad, _ = read_json([b'[1,{"b":null},null]'], arrow_type(nested), cast_column)
    assert (json_texts(column).to_pylist(), bad) == (['[1,{"b":null},null]'], [])


def test_a_null_where_the_schema_allows_none_is_an_error_with_the_entry() -> None:
    schema = StructType([StructField("lines", ArrayType(IntegerType(), containsNull=False))])
    page = [[b"1-0", [b"lines", b"[1]"]], [b"2-0", [b"lines", b"[1,null]"]]]

    assert MappedConverter(schema, False).convert("s", page[:1]).to_pylist() == [{"lines": [1]}]
    with pytest.raises(BadRow, match=r"entry 2-0 of stream s: lines has a null where the schema says there is none"):
        MappedConverter(schema, False).convert("s", page)


def test_a_column_of_json_stands_beside_others_and_bad_json_is_shown() -> None:
    schema = StructType(
        [
            StructField("n", IntegerType()),
            StructField("l", ArrayType(IntegerType())),
            StructField("_corrupt", StringType()),
        ]
    )
    page = [[b"1-0", [b"n", b"1", b"l", b"[1,2]"]], [b"2-0", [b"n", b"2", b"l", b"no"]]]

    first, second = MappedConverter(schema, False).convert("s", page).to_pylist()
    assert first == {"n": 1, "l": [1, 2], "_corrupt": None}
    assert second == {"n": 2, "l": None, "_corrupt": '{"n": "2", "l": "no"}'}
    with pytest.raises(BadRow, match=r"entry 2-0 of stream s: field l='no' is no list"):
        MappedConverter(schema, True).convert("s", page)


def test_a_time_without_a_zone_is_one_of_the_sessions_inside_json_as_well() -> None:
    kind = StructType([StructField("at", TimestampType())])
    schema = StructType([StructField("at", TimestampType()), StructField("it", kind)])
    page = [[b"1-1", [b"at", b"2026-01-31 12:00:00", b"it", b'{"at": "2026-1-31 12:00:00"}']]]
    batch = MappedConverter(schema, True, "America/New_York").convert("s", page)

    noon = datetime(2026, 1, 31, 17, 0, 0, 0, UTC)
    assert batch.to_pylist() == [{"at": noon, "it": {"at": noon}}]


def test_without_a_schema_value_holds_the_entry_as_an_object() -> None:
    fields = [b"o", b"o-1", b"n", b"5", b"l", b'[{"a": 1}]', b"q", b'"x"', b"z", b"null", b"i", b"007", b"\xff", b"tru"]
    page = [[b"1700000000000-0", fields], [b"1700000000000-1", [b"n", b"1", b"n", b"2"]]]
    rows = RawConverter(raw_schema(False, "map", "json")).convert("s", page).to_pylist()

    assert rows[0]["value"] == ('{"o":"o-1","n":5,"l":[{"a": 1}],"q":"\\"x\\"","z":"null","i":"007","\ufffd":"tru"}')
    assert json.loads(rows[1]["value"]) == {"n": 2}
    assert list(rows[0]) == ["stream", "id", "ts", "seq", "value"]


WORDS = st.text(st.sampled_from('ab"\\\n\u00e9\u2028\U0001f600{}[],:'), max_size=6)
LONGS = st.sampled_from([0, -1, 2**53 + 1, 2**63 - 1, -(2**63)])
DOUBLES = st.sampled_from([0.1, -1e300, 1e-9, 5.0, float("inf"), float("-inf")])
ROWS = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "s": st.none() | WORDS,
            "a": st.none() | st.lists(st.none() | LONGS, max_size=3),
            "m": st.none() | st.dictionaries(WORDS, st.none() | DOUBLES, max_size=3),
            "r": st.none() | st.lists(st.none() | st.fixed_dictionaries({"b": st.none() | st.booleans()}), max_size=3),
        }
    ),
    max_size=4,
)


@given(ROWS)
def test_what_is_written_is_read_again(rows: list) -> None:
    kind = arrow_type(
        StructType(
            [
                StructField("s", StringType()),
                StructField("a", ArrayType(LongType())),
                StructField("m", MapType(StringType(), DoubleType())),
                StructField("r", ArrayType(StructType([StructField("b", BooleanType())]))),
            ]
        )
    )
    given_rows = [row and {**row, "m": row["m"] if row["m"] is None else list(row["m"].items())} for row in rows]
    column = pa.array(given_rows, kind)
    texts = json_texts(column).to_pylist()
    again, bad, lacking = read_json([text and text.encode() for text in texts], kind, cast_column)

    again.validate(full=True)
    assert again.to_pylist() == column.to_pylist()
    assert (bad, lacking) == ([], [])
    for text, row in zip(texts, rows, strict=True):
        if row is not None:
            assert json.loads(text).get("s") == row["s"]


def test_rows_with_structs_are_encoded_only_where_json_is_asked_for() -> None:
    schema = StructType([StructField("l", LINE)])
    with pytest.raises(
        OptionError, match=r"^column l of type struct<.*> is JSON in its field: set valueFormat=json, or"
    ):
        RowEncoder(schema, (), "s")
    with pytest.raises(OptionError, match="set valueFormat=json"):
        check_user_schema(schema)

    check_user_schema(schema, "json")
    encoder = RowEncoder(schema, (), "s", value_format="json")
    batch = pa.RecordBatch.from_pylist([{"l": {"item": "x"}}], schema=arrow_schema(schema))
    assert next(encoder.encode(batch)).payloads.to_pylist() == [b'$1\r\nl\r\n$12\r\n{"item":"x"}\r\n']


def test_a_time_of_the_day_is_text_both_ways() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    if not hasattr(types, "TimeType"):
        pytest.skip("Spark has no TIME before 4.1")
    kind = arrow_type(types.TimeType())
    texts = [b"01:02:03.5", b"1:2", b"23:59:59.999999", b"24:00:00", b"x", None]
    column, bad = cast_column(pa.array(texts, pa.binary()), kind)

    assert column.to_pylist() == [time(1, 2, 3, 500_000), time(1, 2), time(23, 59, 59, 999_999), None, None, None]
    assert bad == [3, 4]
    schema = StructType([StructField("t", types.TimeType())])
    batch = pa.RecordBatch.from_arrays([column.slice(0, 1)], schema=arrow_schema(schema))
    assert b"01:02:03.500000" in next(RowEncoder(schema, (), "s").encode(batch)).payloads.to_pylist()[0]


@pytest.mark.parametrize("depth", [1, 800, 100_000])
def test_json_of_any_depth_becomes_text_or_a_row_that_does_not_fit(depth: int) -> None:
    deep = "[" * depth + '{"a":[1,null,true],"b":{}}' + "]" * depth

    rows, bad = read(StructType([StructField("a", StringType())]), '{"a":' + deep + "}", '{"a":[1]}')

    assert (rows[0], bad) in (({"a": deep}, []), (None, [0]), ({"a": None}, [0]))
    assert rows[1] == {"a": "[1]"}
    assert bad == [] or depth > 800
    rows, bad = read(VariantType(), deep, "[1]")
    assert rows[1] is not None
    assert bad in ([], [0])
    assert bad == [] or depth > 1


def test_a_type_of_more_levels_than_arrow_takes_is_refused() -> None:
    def nested(levels: int) -> StructType:
        kind: DataType = LongType()
        for at in range(levels):
            kind = ArrayType(kind) if at % 2 else StructType([StructField("a", kind)])
        return StructType([StructField("x", kind)])

    check_user_schema(nested(63), "json")
    for levels in (64, 200):
        with pytest.raises(OptionError, match="more than 63 levels"):
            check_user_schema(nested(levels), "json")
        with pytest.raises(OptionError, match="more than 63 levels"):
            RowEncoder(nested(levels), (), "s", None, "json")
