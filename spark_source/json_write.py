"""From nested Arrow columns to JSON, in the forms that Spark's to_json has.

A field of a struct that is null is left out, one of an array or a map is not; bytes are in base64, times in ISO 8601.
"""

import base64
import math
from collections.abc import Callable
from datetime import UTC
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa

from spark_source.json_read import is_variant

Write = Callable[[Any], str]


def json_texts(column: pa.Array) -> pa.Array:
    """Return a column's values as JSON; null stays null."""
    write = _writer(column.type)
    return pa.array([None if value is None else write(value) for value in column.to_pylist()], pa.string())


def _writer(kind: pa.DataType) -> Write:
    """Return what writes a value of a type, which is not null."""
    if is_variant(kind):
        return _variant
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_list(kind):
        return _list(kind)
    return _leaf(kind)


def _struct(kind: pa.StructType) -> Write:
    parts = [(field.name, f"{encode_basestring(field.name)}:", _writer(field.type)) for field in kind]

    def write(value: dict[str, Any]) -> str:
        return "{" + ",".join(head + part(value[name]) for name, head, part in parts if value[name] is not None) + "}"

    return write


def _map(kind: pa.MapType) -> Write:
    write_key, write_item = _writer(kind.key_type), _writer(kind.item_type)
    quoted = pa.types.is_string(kind.key_type)

    def key(value: Any) -> str:
        text = write_key(value)
        return text if quoted or text.startswith('"') else encode_basestring(text)

    def write(value: list[tuple[Any, Any]]) -> str:
        pairs = (f"{key(name)}:{'null' if item is None else write_item(item)}" for name, item in value)
        return "{" + ",".join(pairs) + "}"

    return write


def _list(kind: pa.ListType) -> Write:
    write_item = _writer(kind.value_type)
    return lambda value: "[" + ",".join("null" if item is None else write_item(item) for item in value) + "]"


def _leaf(kind: pa.DataType) -> Write:
    if pa.types.is_string(kind):
        return encode_basestring
    if pa.types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pa.types.is_integer(kind):
        return str
    if pa.types.is_floating(kind):
        return _floating
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_binary(kind):
        return lambda value: encode_basestring(base64.b64encode(value).decode())
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            return lambda value: f'"{value.isoformat(timespec="microseconds")}"'
        return lambda value: f'"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")}Z"'
    return lambda value: f'"{value.isoformat()}"'


def _floating(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _variant(value: dict[str, bytes]) -> str:
    from pyspark.sql.types import VariantVal

    return VariantVal(value["value"], value["metadata"]).toJson()
