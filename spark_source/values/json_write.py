"""Turns nested Arrow columns into JSON, in the forms of Spark's to_json.

A null field of a struct is left out, a null in an array or a map is not; bytes are in base64, times in ISO 8601.
Texts are joined in Arrow, level by level; only values whose form Arrow does not have pass through Python.
"""

import base64
import math
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.errors import BadRow
from spark_source.values.json_read import is_variant

_TO_ESCAPE = r'[\x00-\x1f"\\]'
_TO_ESCAPE_BYTES = re.compile(_TO_ESCAPE.encode())
_EMPTY = pa.scalar("")
_QUOTE = pa.scalar('"')


def json_texts(column: pa.Array) -> pa.Array:
    """Return a column's values as JSON; null stays null."""
    kind = column.type
    if is_variant(kind):
        return _by_value(column, _variant)
    if pa.types.is_struct(kind):
        pieces = _pieces(column)
        return _structs(column) if pieces is None else _one_join(pieces)
    if pa.types.is_map(kind):
        return _maps(column)
    if pa.types.is_list(kind):
        return _enclosed("[", _joined(column, _or_null(json_texts(_inner(column, column.values)))), "]", column)
    return _leaves(column)


def _pieces(column: pa.Array) -> "list[str | pa.Array] | None":
    """Return the pieces of a struct's texts, in order, with the pieces of nested structs; None if it has nulls."""
    if column.null_count or not column.type.num_fields:
        return None
    pieces: list[str | pa.Array] = []
    for at, field in enumerate(column.type):
        inner = column.field(at)
        if inner.null_count:
            return None
        pieces.append(("," if at else "{") + encode_basestring(field.name) + ":")
        below = None
        if pa.types.is_struct(field.type) and not is_variant(field.type):
            below = _pieces(inner)
        elif pa.types.is_string(field.type) and not _may_need_escapes(inner):
            below = ['"', inner, '"']
        pieces += [json_texts(inner)] if below is None else below
    return [*pieces, "}"]


def _one_join(pieces: "list[str | pa.Array]") -> pa.Array:
    words: list[str | pa.Array] = []
    for piece in pieces:
        if words and isinstance(piece, str) and isinstance(words[-1], str):
            words[-1] += piece
        else:
            words.append(piece)
    return pc.binary_join_element_wise(*(pa.scalar(one) if isinstance(one, str) else one for one in words), _EMPTY)


def _structs(column: pa.StructArray) -> pa.Array:
    pieces = []
    for at, field in enumerate(column.type):
        head = pa.scalar(f",{encode_basestring(field.name)}:")
        pieces.append(pc.binary_join_element_wise(head, json_texts(column.field(at)), _EMPTY))
    if not pieces:
        return _enclosed("{", pa.array([""] * len(column), pa.string()), "}", column)
    fields = pc.binary_join_element_wise(*pieces, _EMPTY, null_handling="replace", null_replacement="")
    return _enclosed("{", pc.ascii_ltrim(fields, ","), "}", column)


def _maps(column: pa.MapArray) -> pa.Array:
    keys, items = _inner(column, column.keys), _inner(column, column.items)
    pairs = pc.binary_join_element_wise(_keys(keys), pa.scalar(":"), _or_null(json_texts(items)), _EMPTY)
    return _enclosed("{", _joined(column, pairs), "}", column)


def _keys(keys: pa.Array) -> pa.Array:
    """Return keys as JSON strings; other types are converted."""
    texts = json_texts(keys)
    if pa.types.is_string(keys.type):
        return texts
    return _by_value(texts, lambda text: text if text.startswith('"') else encode_basestring(text))


def _inner(column: pa.Array, values: pa.Array) -> pa.Array:
    """Return the values of a list or a map, which may be a slice of a longer one."""
    offsets = column.offsets
    first = offsets[0].as_py()
    return values.slice(first, offsets[len(offsets) - 1].as_py() - first)


def _joined(column: pa.Array, texts: pa.Array) -> pa.Array:
    """Return for each list or map the texts of its parts with commas between them."""
    offsets = pc.subtract(column.offsets, column.offsets[0])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")


def _enclosed(begin: str, texts: pa.Array, end: str, column: pa.Array) -> pa.Array:
    """Return texts in brackets, null where the column is."""
    made = pc.binary_join_element_wise(pa.scalar(begin), texts, pa.scalar(end), _EMPTY)
    return made if not column.null_count else pc.if_else(column.is_valid(), made, pa.scalar(None, pa.string()))


def _or_null(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts, "null")


def _leaves(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind):
        return _quoted(column)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind):
        return column.cast(pa.string())
    if pa.types.is_float64(kind):
        return _doubles(column)
    if pa.types.is_floating(kind):
        return _by_value(column, _floating)
    if pa.types.is_decimal(kind):
        return _by_value(column, lambda value: format(value, "f"))
    if pa.types.is_binary(kind):
        return _by_value(column, lambda value: encode_basestring(base64.b64encode(value).decode()))
    if pa.types.is_timestamp(kind):
        return _quoted(pc.replace_substring(time_texts(column), " ", "T", max_replacements=1))
    return _by_value(column, lambda value: f'"{value.isoformat()}"')


def _doubles(column: pa.Array) -> pa.Array:
    """Return numbers as Python writes them: Arrow finds the same digits, but differs in large and small ones."""
    texts = column.cast(pa.string())
    whole = pc.match_substring_regex(texts, r"^-?(?:0|[1-9]\d{0,14})$")
    texts = pc.if_else(whole, pc.binary_join_element_wise(texts, pa.scalar(".0"), _EMPTY), texts)
    alike = pc.match_substring_regex(texts, r"^-?(?:0\.(?:0|0{0,3}[1-9]\d*)|[1-9]\d{0,14}\.\d+)$")
    others = pc.fill_null(pc.invert(alike), False)
    if not others.true_count:
        return texts
    return pc.replace_with_mask(texts, others, _by_value(column.filter(others), _floating))


def time_texts(column: pa.Array) -> pa.Array:
    """Return times and dates as text, in UTC where they have a zone, times with six digits of a second.

    Raises: BadRow for a time beyond the calendar.
    """
    kind = column.type
    if pa.types.is_time(kind):
        column = column.cast(pa.time64("us"))
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz and "UTC"))
    texts = column.cast(pa.string())
    if pc.any(pc.starts_with(texts, "<")).as_py():
        raise BadRow("a time is further away than the year 32767")  # Arrow writes `<value out of range: ...>`
    return texts


def _quoted(texts: pa.Array) -> pa.Array:
    """Return texts as JSON strings."""
    quoted = pc.binary_join_element_wise(_QUOTE, texts, _QUOTE, _EMPTY)
    if not _may_need_escapes(texts):
        return quoted
    special = pc.fill_null(pc.match_substring_regex(texts, _TO_ESCAPE), False)
    if not special.true_count:
        return quoted
    return pc.replace_with_mask(quoted, special, _by_value(texts.filter(special), encode_basestring))


def _may_need_escapes(texts: pa.Array) -> bool:
    data = texts.buffers()[2]  # of the whole array: a tenth of what looking at each text costs
    return data is not None and _TO_ESCAPE_BYTES.search(data) is not None


def _by_value(column: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in column.to_pylist()], pa.string())


def _floating(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _variant(value: dict[str, bytes]) -> str:
    from pyspark.sql.types import VariantVal

    try:
        return VariantVal(value["value"], value["metadata"]).toJson()
    except RecursionError:  # (Spark's function calls itself for each level.)
        raise BadRow("a variant has more levels than can be written as JSON") from None
