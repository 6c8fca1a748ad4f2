"""Reads field values that hold JSON as nested Arrow columns: structs, arrays, maps and variants.

The values are split level by level, so that the innermost ones are cast as whole columns, by the same rules as fields
without JSON.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from json.encoder import encode_basestring
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

Cast = Callable[[pa.Array, pa.DataType], tuple[pa.Array, list[int]]]
"""Casts a column of text in bytes; returns it with the rows that could not be cast, which are null."""

_CONSTANT = re.compile(rb"[:\[,]\s*-?(?:NaN|Inf)")  # Arrow takes them for numbers, JSON does not have them

MISSING = object()  # an absent value, which for a variant differs from null


class Number(str):
    """A number with all digits of its text."""

    __slots__ = ()


class _Piece(str):
    """A part of a text that is JSON already."""

    __slots__ = ()


def is_nested(kind: pa.DataType) -> bool:
    """Return whether a column of this type is read from, and written as, JSON."""
    return bool(pa.types.is_nested(kind))


def is_variant(kind: pa.DataType) -> bool:
    """Return whether a struct is the form in which Spark hands over a variant."""
    if not pa.types.is_struct(kind) or kind.get_field_index("metadata") < 0:
        return False
    return (kind.field("metadata").metadata or {}).get(b"variant") == b"true"


def read_json(values: Sequence[bytes | None], kind: pa.DataType, cast: Cast) -> tuple[pa.Array, list[int], list[int]]:
    """Return JSON values as a column of a nested type, the rows that do not fit the type in full or in part (null
    there), and the rows that lack a value that the type requires.
    """
    made = _all_at_once(values, kind)
    if made is not None:
        return made, [], []
    reading = _Reading(cast)
    items = [MISSING if value is None else reading.parse(row, value) for row, value in enumerate(values)]
    column = reading.build(items, range(len(items)), kind)
    return column, sorted(reading.bad), sorted(reading.lacking)


def _all_at_once(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array | None:
    """Return objects as a column if Arrow's own reader takes all of them, None otherwise.

    It takes a tenth of the time, and accepts no value that `_Reading` would have to convert or refuse. Each value
    begins and ends with braces and stands on a line of its own. Between two values no object is open, since only a
    comma could stand there, and no string, since no string holds a line's end. So as many rows as values mean one row
    for each value.
    """
    if not _is_plain(kind) or not pa.types.is_struct(kind):
        return None
    absent = [value is None for value in values]
    lines = pa.array([b"{}" if value is None else value for value in values], pa.binary())
    if not pc.all(pc.and_(pc.starts_with(lines, b"{"), pc.ends_with(lines, b"}"))).as_py():
        return None
    text = b"\n".join(lines.to_pylist())
    if _CONSTANT.search(text):
        return None
    from pyarrow import json as arrow_json

    try:
        text.decode()
        table = arrow_json.read_json(
            pa.BufferReader(text),
            arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            arrow_json.ParseOptions(pa.schema(list(kind)), unexpected_field_behavior="ignore"),
        ).combine_chunks()
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if table.num_rows != len(values):
        return None
    columns = [pa.concat_arrays(column.chunks) for column in table.columns]
    try:
        for column in columns:
            column.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pa.array(absent))


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether Arrow reads a type from JSON by the same rules, all of it may be null, and none of its structs is
    empty.
    """
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(field.nullable and _is_plain(field.type) for field in kind)
    if pa.types.is_list(kind):
        return kind.value_field.nullable and _is_plain(kind.value_type)
    is_number = pa.types.is_integer(kind) or pa.types.is_float64(kind) or pa.types.is_float32(kind)
    return is_number or pa.types.is_string(kind) or pa.types.is_boolean(kind)


class _Reading:
    """The conversion of one column; owners are the row numbers of a level's items."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.bad: set[int] = set()
        self.lacking: set[int] = set()

    def parse(self, row: int, value: bytes) -> object:
        try:
            return json.loads(value, parse_int=Number, parse_float=Number, parse_constant=_refuse)
        except (ValueError, RecursionError):
            self.bad.add(row)
            return MISSING

    def build(self, items: list[Any], owners: Sequence[int], kind: pa.DataType) -> pa.Array:
        if is_variant(kind):
            return self._variants(items, owners, kind)
        if pa.types.is_struct(kind):
            return self._structs(items, owners, kind)
        if pa.types.is_map(kind):
            return self._maps(items, owners, kind)
        if pa.types.is_list(kind):
            return self._lists(items, owners, kind)
        return self._leaves(items, owners, kind)

    def _of(self, items: list[Any], owners: Sequence[int], wanted: type) -> list[Any]:
        """Return the items of a JSON type, None for others."""
        kept = []
        for item, owner in zip(items, owners, strict=True):
            if isinstance(item, wanted):
                kept.append(item)
                continue
            kept.append(None)
            if item is not None and item is not MISSING:
                self.bad.add(owner)
        return kept

    def _structs(self, items: list[Any], owners: Sequence[int], kind: pa.StructType) -> pa.Array:
        objects = self._of(items, owners, dict)
        columns = []
        for field in kind:
            inner = [MISSING if one is None else one.get(field.name, MISSING) for one in objects]
            column = self.build(inner, owners, field.type)
            here = [None if one is None else owner for one, owner in zip(objects, owners, strict=True)]
            self._check(column, here, field)
            columns.append(column)
        mask = pa.array([one is None for one in objects], pa.bool_())
        if not columns:
            return pa.array([None if one is None else {} for one in objects], kind)
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)

    def _lists(self, items: list[Any], owners: Sequence[int], kind: pa.ListType) -> pa.Array:
        arrays = self._of(items, owners, list)
        flat = [one for array in arrays if array for one in array]
        inner_owners = [owner for array, owner in zip(arrays, owners, strict=True) for _ in array or ()]
        column = self.build(flat, inner_owners, kind.value_type)
        self._check(column, inner_owners, kind.value_field)
        return pa.ListArray.from_arrays(_offsets(arrays), column, type=kind)

    def _maps(self, items: list[Any], owners: Sequence[int], kind: pa.MapType) -> pa.Array:
        objects = self._of(items, owners, dict)
        places = [place for place, one in enumerate(objects) for _ in one or ()]
        inner_owners = [owners[place] for place in places]
        keys = self.build([key for one in objects for key in one or ()], inner_owners, kind.key_type)
        if keys.null_count:  # a key that cannot be cast: a map cannot hold it, so there is none
            wrong = {places[at] for at, is_null in enumerate(keys.is_null().to_pylist()) if is_null}
            return self._maps([None if at in wrong else one for at, one in enumerate(objects)], owners, kind)
        values = self.build([value for one in objects for value in (one or {}).values()], inner_owners, kind.item_type)
        self._check(values, inner_owners, kind.item_field)
        return pa.MapArray.from_arrays(_offsets(objects), keys, values, type=kind)

    def _variants(self, items: list[Any], owners: Sequence[int], kind: pa.StructType) -> pa.Array:
        from pyspark.sql.types import VariantVal

        made = []
        for item, owner in zip(items, owners, strict=True):
            try:
                made.append(None if item is MISSING else VariantVal.parseJson(_text(item)))
            except (ValueError, ArithmeticError, RecursionError):
                self.bad.add(owner)
                made.append(None)
        parts = {
            "value": [b"" if one is None else bytes(one.value) for one in made],
            "metadata": [b"" if one is None else bytes(one.metadata) for one in made],
        }
        mask = pa.array([one is None for one in made], pa.bool_())
        columns = [pa.array(parts[field.name], pa.binary()) for field in kind]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)

    def _leaves(self, items: list[Any], owners: Sequence[int], kind: pa.DataType) -> pa.Array:
        texts: list[bytes | None] = []
        for item, owner in zip(items, owners, strict=True):
            text: bytes | None = None
            if isinstance(item, str):
                text = item.encode("utf-8", "replace")
                if pa.types.is_binary(kind):
                    text = self._unpacked(text, owner)
            elif isinstance(item, bool) or (isinstance(item, (dict, list)) and pa.types.is_string(kind)):
                text = _text(item).encode("utf-8", "replace")
            elif item is not None and item is not MISSING:
                self.bad.add(owner)
            texts.append(text)
        column, failed = self.cast(pa.array(texts, pa.binary()), kind)
        self.bad.update(owners[place] for place in failed)
        return column

    def _unpacked(self, text: bytes, owner: int) -> bytes | None:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            self.bad.add(owner)
            return None

    def _check(self, column: pa.Array, owners: Sequence[int | None], field: pa.Field) -> None:
        if field.nullable or not column.null_count:
            return
        for is_null, owner in zip(column.is_null().to_pylist(), owners, strict=True):
            if is_null and owner is not None:
                self.lacking.add(owner)


def _offsets(parts: Sequence[Any]) -> pa.Array:
    """Return the beginning of each part and the end of the last; null for no part."""
    ends = list(accumulate((len(part or ()) for part in parts), initial=0))
    begins = [None if part is None else at for part, at in zip(parts, ends, strict=False)]
    return pa.array([*begins, ends[-1]], pa.int32())


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _text(item: object) -> str:
    """Return parsed JSON as text again, however deeply it is nested."""
    pieces: list[str] = []
    todo: list[object] = [item]  # last first, with pieces of text between the items
    while todo:
        one = todo.pop()
        if isinstance(one, _Piece | Number):
            pieces.append(str(one))
        elif isinstance(one, str):
            pieces.append(encode_basestring(one))
        elif isinstance(one, dict):
            todo.append(_Piece("}"))
            for at, (key, value) in reversed(list(enumerate(one.items()))):
                todo += (value, _Piece(f"{',' if at else '{'}{encode_basestring(key)}:"))
            if not one:
                todo.append(_Piece("{"))
        elif isinstance(one, list):
            todo.append(_Piece("]"))
            for at, value in reversed(list(enumerate(one))):
                todo += (value, _Piece("," if at else "["))
            if not one:
                todo.append(_Piece("["))
        else:
            pieces.append({None: "null", True: "true", False: "false"}[one])  # type: ignore[index]
    return "".join(pieces)


def entry_json(fields: Sequence[bytes]) -> str:
    """Return an entry as a JSON object of its fields. Values that are JSON objects, arrays, numbers, true or false stay
    JSON; others become text. Of a repeated field the last value counts.
    """
    text = [part.decode(errors="replace") for part in fields]
    named = dict(zip(text[0::2], text[1::2], strict=True))
    return "{" + ",".join(f"{encode_basestring(name)}:{_embedded(value)}" for name, value in named.items()) + "}"


def _embedded(value: str) -> str:
    if value[:1] in _BEGINNINGS and value[-1:] in _ENDS:
        try:
            json.loads(value, parse_int=str, parse_float=str, parse_constant=_refuse)
            return value
        except (ValueError, RecursionError):
            pass
    return encode_basestring(value)


_BEGINNINGS = frozenset("{[-0123456789tf")
_ENDS = frozenset("}]0123456789e")
