"""Turns nested values of Spark's rows into a form for Arrow: Spark 4.0 hands rows to a streaming writer."""

from typing import Any

import pyarrow as pa

from spark_source.values.json_read import is_nested, is_variant


def arrow_values(values: list[Any], kind: pa.DataType) -> list[Any]:
    """Return a column's values in the form that `pa.array` takes for a type; values that are not nested unchanged."""
    return [_nested(value, kind) for value in values] if is_nested(kind) else values


def _nested(value: Any, kind: pa.DataType) -> Any:
    """Return rows as dicts, dicts as lists of pairs, variants as their two parts."""
    if value is None or not is_nested(kind):
        return value
    if is_variant(kind):
        return {"value": bytes(value.value), "metadata": bytes(value.metadata)}
    if pa.types.is_struct(kind):
        return {field.name: _nested(part, field.type) for field, part in zip(kind, value, strict=True)}
    if pa.types.is_map(kind):
        return [(_nested(key, kind.key_type), _nested(item, kind.item_type)) for key, item in value.items()]
    return [_nested(item, kind.value_type) for item in value]
