"""Entries to record batches and rows to bytes: by the schema, with nothing lost on the way there and back."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_source.errors import BadRow, OptionError
from spark_source.values.arrow import MappedConverter, RawConverter
from spark_source.values.casts import cast_column
from spark_source.values.encode import RowEncoder
from spark_source.values.schema import check_user_schema, raw_schema
from tests.spark.schemas import schema

PAGE = [
    [b"1700000000000-0", [b"n", b"1", b"v", b"a"]],
    [b"1700000000000-1", [b"n", b"2", b"v", b"b"]],
    [b"1700000000001-18446744073709551615", [b"n", b"x", b"w", b"c"]],
]


def mapped(ddl: str, page: list = PAGE, failfast: bool = False) -> list[dict]:
    return MappedConverter(schema(ddl), failfast).convert("s", page).to_pylist()


def payloads(ddl: str, rows: list[dict], **options) -> list[bytes]:
    columns = schema(ddl)
    batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(columns, timezone="UTC"))
    encoder = RowEncoder(columns, options.get("keys", ()), options.get("stream", "s"), options.get("column"))
    return [payload for rows in encoder.encode(batch) for payload in rows.payloads.to_pylist()]


def fields_of(payload: bytes) -> list[bytes]:
    """Read RESP bulk strings."""
    found = []
    while payload:
        size, _, rest = payload.partition(b"\r\n")
        assert size[:1] == b"$"
        found.append(rest[: int(size[1:])])
        assert rest[int(size[1:]) :][:2] == b"\r\n"
        payload = rest[int(size[1:]) + 2 :]
    return found


@pytest.mark.parametrize("text", [False, True])
def test_raw_rows_hold_id_time_number_and_all_fields(text: bool) -> None:
    rows = RawConverter(raw_schema(text, "map")).convert("s", PAGE).to_pylist()

    one = "1" if text else b"1"
    assert rows[0]["stream"] == "s"
    assert rows[0]["id"] == "1700000000000-0"
    assert rows[1]["ts"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert [row["seq"] for row in rows] == [0, 1, None]  # the last is beyond a long
    assert rows[0]["fields"][0] == ("n", one)
    assert [dict(row["fields"]).keys() for row in rows] == [{"n", "v"}, {"n", "v"}, {"n", "w"}]


def test_the_last_value_counts_of_a_field_that_stands_twice_in_a_map() -> None:
    page = [[b"1-0", [b"f", b"1", b"g", b"2", b"f", b"3"]], [b"2-0", [b"f", b"4"]]]
    rows = RawConverter(raw_schema(True, "map")).convert("s", page).to_pylist()

    assert [row["fields"] for row in rows] == [[("f", "3"), ("g", "2")], [("f", "4")]]


def test_the_last_value_counts_in_a_column_too() -> None:
    page = [[b"1-0", [b"f", b"1", b"g", b"2", b"f", b"3"]]]

    assert [mapped("f int", page), mapped("f int", [*page, [b"2-0", [b"g", b"1"]]])[:1]] == [[{"f": 3}]] * 2


def test_an_array_keeps_both() -> None:
    page = [[b"1-0", [b"f", b"1", b"f", b"3"]]]
    rows = RawConverter(raw_schema(False, "array")).convert("s", page).to_pylist()

    assert rows[0]["fields"] == [{"field": "f", "value": b"1"}, {"field": "f", "value": b"3"}]


def test_bytes_that_are_no_text_survive_as_bytes_and_are_shown_as_text() -> None:
    page = [[b"1-0", [b"\xff", b"\xfe"]]]

    assert RawConverter(raw_schema(False, "map")).convert("s", page).to_pylist()[0]["fields"] == [("\ufffd", b"\xfe")]
    assert RawConverter(raw_schema(True, "map")).convert("s", page).to_pylist()[0]["fields"] == [("\ufffd", "\ufffd")]


def test_columns_are_fields_by_name_and_what_is_missing_is_null() -> None:
    rows = mapped("v string, n int, absent double, _id string, _stream string, _seq long, _ts timestamp", PAGE[:2])

    assert [row["v"] for row in rows] == ["a", "b"]
    assert [row["n"] for row in rows] == [1, 2]
    assert [row["absent"] for row in rows] == [None, None]
    assert rows[1]["_id"] == "1700000000000-1"
    assert (rows[1]["_stream"], rows[1]["_seq"]) == ("s", 1)
    assert rows[0]["_ts"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_entries_with_other_fields_are_read_by_name_too() -> None:
    rows = mapped("w string, v string, n string")

    assert [(row["w"], row["v"], row["n"]) for row in rows] == [(None, "a", "1"), (None, "b", "2"), ("c", None, "x")]


def test_a_value_that_cannot_be_cast_is_null_and_the_entry_is_shown() -> None:
    rows = mapped("n int, _corrupt string")

    assert [row["n"] for row in rows] == [1, 2, None]
    assert [row["_corrupt"] for row in rows] == [None, None, '{"n": "x", "w": "c"}']


def test_failfast_names_entry_field_and_value() -> None:
    with pytest.raises(BadRow, match=r"entry 1700000000001-\d+ of stream s: field n='x' is no int32: correct"):
        mapped("n int", failfast=True)


def test_null_in_a_column_that_allows_none_is_an_error() -> None:
    with pytest.raises(BadRow, match="has no v, which the schema says is never null"):
        mapped("v string not null")


CASTS = [
    (
        pa.int8(),
        {b"127": 127, b"-128": -128, b"128": None, b" 5 ": 5, b"+5": 5, b"1_0": None, b"0x1F": None, b"": None},
    ),
    (pa.int64(), {b"9223372036854775807": 2**63 - 1, b"9223372036854775808": None, b"1.0": None, b"\xff": None}),
    (
        pa.float64(),
        {b"1.5": 1.5, b"1e3": 1000.0, b".5": 0.5, b"-inf": float("-inf"), b"Infinity": float("inf"), b"1_0": None},
    ),
    (pa.bool_(), {b"true": True, b"FALSE": False, b"1": True, b"n": False, b"maybe": None}),
    (pa.date32(), {b"2024-02-29": date(2024, 2, 29), b"2023-02-29": None, b"2024-01-02T03:04:05Z": date(2024, 1, 2)}),
    (
        pa.decimal128(5, 2),
        {b"1.5": Decimal("1.50"), b"1.005": Decimal("1.01"), b"1000": None},
    ),
    (pa.string(), {b" a ": " a ", b"\xff": None}),
    (pa.binary(), {b"\xff": b"\xff"}),
    (
        pa.timestamp("us", "UTC"),
        {
            b"2024-01-02 03:04:05": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
            b"2024-01-02T03:04:05.123456Z": datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
            b"2024-01-02T03:04:05+01:00": datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC),
            b"1700000000000": None,
        },
    ),
    (pa.timestamp("us"), {b"2024-01-02T03:04:05": datetime(2024, 1, 2, 3, 4, 5), b"x": None}),
]


@pytest.mark.parametrize(("target", "expected"), CASTS, ids=lambda value: str(value)[:20])
def test_casts(target, expected: dict) -> None:
    """Each value alone, where Arrow may cast it, and among the others, where one bad value sends all the slow way."""
    for value, result in expected.items():
        made, bad = cast_column(pa.array([value, None], pa.binary()), target)
        assert made.to_pylist() == [result, None], value
        assert bad == ([0] if result is None else [])
        assert made.type == target
    made, _ = cast_column(pa.array([*expected, b"\xff"], pa.binary()), target)
    assert made.to_pylist()[:-1] == list(expected.values())


def test_a_schema_says_what_it_cannot_hold() -> None:
    with pytest.raises(OptionError, match="column a of type array<int> is JSON in its field: set valueFormat=json"):
        check_user_schema(schema("a array<int>"))
    with pytest.raises(OptionError, match="column _ts must be of type timestamp"):
        check_user_schema(schema("_ts long"))


EVERY_TYPE = "a string, b binary, c boolean, d tinyint, e bigint, f double, g decimal(10,2), h date, i timestamp"
ROWS = [
    {
        "a": "ä", "b": b"\x00\xff\r\n", "c": True, "d": -1, "e": 2**62, "f": 1.25, "g": Decimal("-7.50"),
        "h": date(2024, 2, 29), "i": datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    },
    dict.fromkeys("bcdefghi") | {"a": ""},
]  # fmt: skip


def test_what_is_written_is_read_again() -> None:
    written = payloads(EVERY_TYPE, ROWS)
    page = [[b"%d-0" % i, fields_of(payload)] for i, payload in enumerate(written)]

    assert mapped(EVERY_TYPE, page) == ROWS
    assert fields_of(written[1]) == [b"a", b""]  # a null is a field that is not written


def test_the_raw_fields_column_becomes_fields() -> None:
    expected = [[b"x", b"1", b"n", b"2", b"m", b"3"], [b"x", b"4"], [b"x", b"5", b"n", b"6"]]
    maps = [
        {"x": 1, "fields": {"n": "2", "m": "3"}},
        {"x": 4, "fields": None},
        {"x": 5, "fields": {"n": "6", "q": None}},
    ]
    pairs = [
        {
            "x": row["x"],
            "fields": [{"field": k, "value": v} for k, v in row["fields"].items()] if row["fields"] else None,
        }
        for row in maps
    ]

    assert [fields_of(one) for one in payloads("x int, fields map<string,string>", maps)] == expected
    ddl = "x int, fields pairs"
    assert [fields_of(one) for one in payloads(ddl, pairs)] == expected


def test_a_slice_of_a_batch_is_encoded_as_the_same_rows_alone() -> None:
    columns = schema("x int, fields map<string,string>")
    rows = [{"x": i, "fields": {f"k{j}": str(j) for j in range(i % 3)}} for i in range(10)]
    batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(columns, timezone="UTC"))
    encoder = RowEncoder(columns, (), "s")
    for start in range(10):
        (part,) = encoder.encode(batch.slice(start, 3))
        assert part.payloads.to_pylist() == payloads("x int, fields map<string,string>", rows[start : start + 3])
        assert part.words == [2 + 2 * (i % 3) for i in range(10)[start : start + 3]]


@pytest.mark.parametrize(
    ("ddl", "options", "said"),
    [
        ("a string", {"stream": None}, "stream is missing: name one stream to write to, or give streamColumn"),
        ("a string, _stream string", {"stream": None}, "stream is missing: name one stream to write to, or give"),
        ("a string, _stream int", {"column": "_stream"}, "column _stream must be a string"),
        ("a string", {"column": "b"}, "streamColumn names column b, the rows only have a"),
        ("a string", {"keys": ("b",)}, "idempotencyKey names column b, the rows only have a"),
        ("a array<int>", {}, "column a of type array<int> is JSON in its field: set valueFormat=json"),
        ("_stream string", {}, "there is nothing to write"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_by_their_schema(ddl: str, options: dict, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        RowEncoder(schema(ddl), options.get("keys", ()), options.get("stream", "s"), options.get("column"))


@pytest.mark.parametrize(
    ("ddl", "row", "options", "said"),
    [
        ("a string, b int", {"a": None, "b": None}, {}, "a row has no value that is not null"),
        ("a string, b int", {"a": None, "b": 1}, {"keys": ("a",)}, "column a of idempotencyKey is null"),
        ("a string, to string", {"a": "x", "to": None}, {"stream": None, "column": "to"}, "column to is null or empty"),
    ],
)
def test_a_row_that_cannot_be_written_is_an_error(ddl: str, row: dict, options: dict, said: str) -> None:
    with pytest.raises(BadRow, match=said):
        payloads(ddl, [row], **options)
