"""JSON as the sink writes it, joined in Arrow, is what a plain writer makes of each value."""

import base64
import datetime
import decimal
import math
import random
from json import dumps
from typing import Any

import pyarrow as pa
import pytest

from spark_source.values.json_write import json_texts

LEAVES = [
    pa.string(), pa.int64(), pa.int8(), pa.float64(), pa.float32(), pa.bool_(), pa.decimal128(20, 9), pa.binary(),
    pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.time64("us"),
]  # fmt: skip
CHARS = ["a", '"', "\\", "\n", "\t", "\x00", "\x1f", "\x7f", " ", "é", "😀"]


def plain(value: Any, kind: pa.DataType) -> str:
    """Return a value as JSON, one by one."""
    if value is None:
        return "null"
    if pa.types.is_struct(kind):
        parts = [(field, value[field.name]) for field in kind]
        return "{" + ",".join(f"{quoted(f.name)}:{plain(one, f.type)}" for f, one in parts if one is not None) + "}"
    if pa.types.is_map(kind):
        pairs = [(plain(key, kind.key_type), plain(item, kind.item_type)) for key, item in value]
        return "{" + ",".join((key if key[:1] == '"' else quoted(key)) + ":" + item for key, item in pairs) + "}"
    if pa.types.is_list(kind):
        return "[" + ",".join(plain(one, kind.value_type) for one in value) + "]"
    if isinstance(value, bytes):
        return quoted(base64.b64encode(value).decode())
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        text = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return quoted(text.isoformat(timespec="microseconds") + ("Z" if value.tzinfo else ""))
    if isinstance(value, (datetime.date, datetime.time)):
        return quoted(value.isoformat())
    return quoted(value) if isinstance(value, str) else dumps(value)


def quoted(text: str) -> str:
    return dumps(text, ensure_ascii=False)


def some_type(chance: random.Random, depth: int) -> pa.DataType:
    inner = random.Random.choice
    if depth == 0 or chance.random() < 0.4:
        return inner(chance, LEAVES)
    which = chance.randrange(3)
    if which == 0:
        return pa.list_(some_type(chance, depth - 1))
    if which == 1:
        return pa.map_(inner(chance, LEAVES), some_type(chance, depth - 1))
    return pa.struct([(f'f"é{n}', some_type(chance, depth - 1)) for n in range(chance.randrange(4))])


def some_value(chance: random.Random, kind: pa.DataType, may_be_null: bool = True) -> Any:
    def some(inner: pa.DataType, may_be_null: bool = may_be_null) -> Any:
        return some_value(chance, inner, may_be_null)

    year, day = chance.choice([2, 999, 1969, 2024, 9998]), chance.randint(1, 28)
    if may_be_null and chance.random() < 0.2:
        return None
    if pa.types.is_list(kind):
        return [some(kind.value_type) for _ in range(chance.randrange(4))]
    if pa.types.is_map(kind):
        return [(some(kind.key_type, False), some(kind.item_type)) for _ in range(chance.randrange(4))]
    if pa.types.is_struct(kind):
        return {field.name: some(field.type) for field in kind}
    if pa.types.is_string(kind):
        return "".join(chance.choice(CHARS) for _ in range(chance.randrange(5)))
    if pa.types.is_floating(kind):
        return chance.choice([0.0, -0.0, 1.5, 1e30, math.nan, math.inf, -math.inf, chance.random(), 1e16, 1e-7])
    if pa.types.is_decimal(kind):
        return decimal.Decimal(chance.randint(-(10**12), 10**12)).scaleb(-9)
    if pa.types.is_timestamp(kind):
        zone = datetime.UTC if kind.tz else None
        return datetime.datetime(year, 6, day, 23, 5, 9, chance.choice([0, 1, 999_999]), zone)
    if pa.types.is_date(kind):
        return datetime.date(year, 6, day)
    if pa.types.is_time(kind):
        return datetime.time(chance.randrange(24), 5, 0, chance.choice([0, 5]))
    if pa.types.is_binary(kind):
        return chance.randbytes(chance.randrange(6))
    return chance.random() < 0.5 if pa.types.is_boolean(kind) else chance.randint(-128, 127)


@pytest.mark.parametrize("seed", range(300))
def test_nested_values_are_written_as_a_plain_writer_does(seed: int) -> None:
    chance = random.Random(seed)
    kind = some_type(chance, 3)
    column = pa.array([some_value(chance, kind, seed % 2 == 0) for _ in range(chance.randrange(9))], kind)
    for part in (column, column.slice(1), column.slice(0, 3).slice(1)):
        expected = [None if value is None else plain(value, kind) for value in part.to_pylist()]
        if pa.types.is_nested(kind):
            assert json_texts(part).to_pylist() == expected
