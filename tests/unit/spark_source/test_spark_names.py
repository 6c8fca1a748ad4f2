"""Columns with names that mean something else: `fields`, `_id` and its kin."""

import json
import logging
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_source.errors import BadRow, OptionError
from spark_source.settings.options import RESERVED_COLUMNS, parse_options
from spark_source.values import encode
from spark_source.values.arrow import MappedConverter
from spark_source.values.encode import RowEncoder, warn_of_names
from spark_source.values.schema import RESERVED, check_user_schema
from tests.spark.schemas import schema

PAIRS = "pairs"


def written(ddl: str, rows: list[dict], **options) -> list[list[bytes]]:
    """Return the fields and values of each row, as an entry has them."""
    columns = schema(ddl)
    batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(columns, timezone="UTC"))
    encoder = RowEncoder(columns, (), "s", **options)
    payloads = [payload for rows in encoder.encode(batch) for payload in rows.payloads.to_pylist()]
    return [payload.split(b"\r\n")[1::2] for payload in payloads]


@pytest.mark.parametrize("names", ["id", "id, v"])
@pytest.mark.parametrize("kind", ["map<string,string>", "map<string,binary>", PAIRS])
def test_a_map_that_would_overwrite_other_columns_is_refused_with_their_names(names: str, kind: str) -> None:
    given = dict.fromkeys(names.split(", "), "9") | {"w": "8"}
    value = [{"field": name, "value": one} for name, one in given.items()] if kind == PAIRS else list(given.items())
    good = {"id": 1, "v": "a", "fields": None}

    with pytest.raises(BadRow, match=rf"column fields holds {names} in a row.*of the row \{{id: 2"):
        written(f"id int, v string, fields {kind}", [good, good, {"id": 2, "v": "b", "fields": value}, good])


def test_a_map_beside_columns_that_it_leaves_alone_is_written() -> None:
    rows = [
        {"id": 1, "v": "a", "fields": [("w", "8")]},
        {"id": 2, "v": None, "fields": [("v", "own")]},  # there is no other v in the entry
        {"id": 3, "v": "c", "fields": [("v", None)]},
    ]
    found = written("id int, v string, fields map<string,string>", rows)

    assert found == [
        [b"id", b"1", b"v", b"a", b"w", b"8"],
        [b"id", b"2", b"v", b"own"],
        [b"id", b"3", b"v", b"c"],
    ]


def test_a_field_of_pairs_that_stands_twice_is_written_twice() -> None:
    value = [{"field": "w", "value": "1"}, {"field": "w", "value": "2"}]

    assert written(f"fields {PAIRS}", [{"fields": value}]) == [[b"w", b"1", b"w", b"2"]]


def test_as_json_a_column_named_fields_is_one_field_and_is_read_back() -> None:
    columns = "id int, fields map<string,string>"
    (entry,) = written(columns, [{"id": 1, "fields": [("id", "9"), ("a", "b")]}], value_format="json")

    assert entry == [b"id", b"1", b"fields", b'{"id":"9","a":"b"}']
    (row,) = MappedConverter(schema(columns), True).convert("s", [[b"5-1", entry]]).to_pylist()
    assert row == {"id": 1, "fields": [("id", "9"), ("a", "b")]}


OWN = "_stream int, _id int, _ts string, _seq double, _corrupt boolean, v string"
OWN_ROW = {"_stream": 7, "_id": 1, "_ts": "noon", "_seq": 0.5, "_corrupt": True, "v": "a"}


def test_columns_of_fieldcolumns_are_written_and_read_back_as_fields() -> None:
    (entry,) = written(OWN, [OWN_ROW], field_columns=RESERVED_COLUMNS)
    converter = MappedConverter(schema(OWN), True, field_columns=RESERVED_COLUMNS)

    check_user_schema(schema(OWN), field_columns=RESERVED_COLUMNS)
    assert converter.convert("s", [[b"5-1", entry]]).to_pylist() == [OWN_ROW]


@pytest.mark.parametrize("name", RESERVED_COLUMNS)
def test_each_of_fieldcolumns_is_a_field_and_the_others_stay_those_of_the_entry(name: str) -> None:
    columns = ", ".join(
        f"{one} string" if one == name else f"{one} {RESERVED[one].simpleString()}" for one in RESERVED_COLUMNS
    )
    entry = [b"5-1", [name.encode(), b"own", b"n", b"x"]]
    converter = MappedConverter(schema(columns + ", n int"), False, field_columns=(name,))
    (row,) = converter.convert("s", [entry]).to_pylist()
    assert row.pop(name) == "own"
    usual = {"_stream": "s", "_id": "5-1", "_seq": 1, "_ts": datetime(1970, 1, 1, 0, 0, 0, 5_000, UTC), "n": None}
    usual["_corrupt"] = json.dumps({name: "own", "n": "x"})
    assert row == {one: value for one, value in usual.items() if one != name}


def test_fieldcolumns_takes_reserved_names_that_the_schema_has() -> None:
    assert set(RESERVED_COLUMNS) == set(RESERVED)
    assert parse_options({"fieldColumns": "_id, _ts"}).read.field_columns == ("_id", "_ts")
    with pytest.raises(OptionError, match="fieldColumns=n is not allowed: give some of _stream, _id"):
        parse_options({"fieldColumns": "n"})
    with pytest.raises(OptionError, match="fieldColumns cannot be used with log"):
        parse_options({"fieldColumns": "_id", "log": "devices"})
    with pytest.raises(OptionError, match="fieldColumns names column _id, the schema only has n"):
        check_user_schema(schema("n int"), field_columns=("_id",))


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(encode, "_told", set())
    caplog.set_level(logging.WARNING, "spark_source")
    return caplog


@pytest.mark.parametrize(
    ("keys", "field_columns", "names"),
    [
        ((), (), "_id,_ts"),
        (("_stream", "_id"), (), "_ts"),
        (("_stream", "_id"), ("_ts",), ""),
        ((), ("_id", "_ts"), ""),
    ],
)
def test_a_write_of_a_column_that_is_not_read_back_is_logged_once(
    told: pytest.LogCaptureFixture, keys: tuple[str, ...], field_columns: tuple[str, ...], names: str
) -> None:
    columns = schema("_stream string, _id string, _ts timestamp, n int")
    for _ in range(3):
        warn_of_names(RowEncoder(columns, keys, "s", field_columns=field_columns))

    lines = [record.getMessage() for record in told.records]
    assert [line.partition(" are written")[0] for line in lines] == ([f"columns {names}"] if names else [])


def test_a_map_fields_that_becomes_json_is_logged(told: pytest.LogCaptureFixture) -> None:
    warn_of_names(RowEncoder(schema("fields map<string,string>"), (), "s", value_format="json"))

    assert "column fields is written as JSON" in told.text
