"""Turns a page of entries, as the server sent it, into one Arrow record batch.

A page is a list of `[entry ID, [field, value, field, value ...]]`, all bytes. Columns are taken from it by slices. When
all entries of a page have the same field list, which is the usual case and checked once, the values of a column are
every n-th element of one long list.
"""

import json
from collections.abc import Sequence
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from spark_source import ids
from spark_source.errors import BadRow
from spark_source.values.casts import cast_column
from spark_source.values.json_read import entry_json, is_nested, read_json
from spark_source.values.schema import RESERVED, arrow_schema

Page = Sequence[Sequence]  # of [bytes, list[bytes]]; the parser of redis-py makes lists

MS_MAX = (2**63 - 1) // 1000
LONG_MAX = 2**63 - 1


class RawConverter:
    """Makes the columns stream, id, ts, seq and fields of the raw schema; or value, the fields as JSON."""

    def __init__(self, schema: StructType) -> None:
        self.schema = arrow_schema(schema)
        self.pairs = self.schema.field(4).type
        self.as_json = pa.types.is_string(self.pairs)
        if self.as_json:
            return
        self.as_map = pa.types.is_map(self.pairs)
        self.value_type = self.pairs.item_type if self.as_map else self.pairs.value_type.field("value").type

    def convert(self, stream: str, page: Page) -> pa.RecordBatch:
        """Return the page as one record batch."""
        entry_ids = pa.array([entry[0] for entry in page], pa.binary()).cast(pa.string())
        moments, numbers = id_columns(entry_ids)
        names = pa.array([stream], pa.string()).take(pa.array([0] * len(page), pa.int8()))
        columns = [names, entry_ids, moments, numbers, self._pairs(page)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _pairs(self, page: Page) -> pa.Array:
        lists = [entry[1] for entry in page]
        if self.as_json:
            return pa.array([entry_json(fields) for fields in lists], pa.string())
        if self.as_map:
            lists = without_repeats(lists)
        flat = list(chain.from_iterable(lists))
        offsets = pa.array([0, *(len(fields) // 2 for fields in lists)], pa.int32())
        offsets = pc.cumulative_sum(offsets)
        fields = as_text(pa.array(flat[0::2], pa.binary()))
        values = pa.array(flat[1::2], pa.binary())
        if pa.types.is_string(self.value_type):
            values = as_text(values)
        if self.as_map:
            return pa.MapArray.from_arrays(offsets, fields, values, type=self.pairs)
        struct = pa.StructArray.from_arrays([fields, values], fields=list(self.pairs.value_type))
        return pa.ListArray.from_arrays(offsets, struct, type=self.pairs)


class MappedConverter:
    """Makes the columns of a user's schema: fields by name, cast from text, and the reserved ones."""

    def __init__(
        self, schema: StructType, failfast: bool, zone: str = "UTC", field_columns: tuple[str, ...] = ()
    ) -> None:
        self.schema = arrow_schema(schema)
        self.reserved = {name for name in schema.fieldNames() if name in RESERVED and name not in field_columns}
        self.failfast = failfast
        self.cast = partial(cast_column, zone=zone)
        self.names = schema.fieldNames()
        self.digits = [getattr(column.dataType, "precision", 6) for column in schema.fields]  # of Spark's TIME

    def convert(self, stream: str, page: Page) -> pa.RecordBatch:
        """Return the page as one record batch.

        Raises: BadRow in mode failfast, or for a null in a column that allows none.
        """
        lists = [entry[1] for entry in page]
        layout = one_layout(lists)
        flat = list(chain.from_iterable(lists)) if layout is not None else None
        reserved = self._reserved(stream, page)
        bad: set[int] = set()
        columns: list[pa.Array] = []
        for column, digits in zip(self.schema, self.digits, strict=True):
            if column.name in self.reserved:
                columns.append(reserved.get(column.name))
                continue
            name = column.name.encode()
            if flat is not None and layout is not None:
                values = _strided(flat, layout, name, len(page))
            else:
                values = _picked(lists, name)
            if is_nested(column.type):
                made, failed, lacking = read_json(values, column.type, self.cast)
                if lacking:
                    raise BadRow(
                        f"entry {page[lacking[0]][0].decode()} of stream {stream}: {column.name} has a null where "
                        "the schema says there is none: make that part nullable"
                    )
            else:
                made, failed = self.cast(pa.array(values, pa.binary()), column.type, digits=digits)
            if failed and self.failfast:
                value = (values[failed[0]] or b"")[:60].decode(errors="replace")
                raise BadRow(
                    f"entry {page[failed[0]][0].decode()} of stream {stream}: field {column.name}={value!r} is no "
                    f"{column.type}: correct the schema, or set mode=permissive to read null"
                )
            bad.update(failed)
            columns.append(made)
        for i, column in enumerate(self.schema):
            if column.name == "_corrupt" and column.name in self.reserved:
                shown = [_as_json(lists[row]) if row in bad else None for row in range(len(page))]
                columns[i] = pa.array(shown, pa.string())
            elif not column.nullable and columns[i].null_count:
                row = columns[i].is_null().index(True).as_py()
                raise BadRow(
                    f"entry {page[row][0].decode()} of stream {stream} has no {column.name}, which the schema says is "
                    "never null: make the column nullable"
                )
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _reserved(self, stream: str, page: Page) -> dict[str, pa.Array]:
        found: dict[str, pa.Array] = {}
        names = self.reserved
        if "_stream" in names:
            found["_stream"] = pa.array([stream] * len(page), pa.string())
        if {"_id", "_ts", "_seq"} & names:
            entry_ids = pa.array([entry[0] for entry in page], pa.binary()).cast(pa.string())
            found["_id"] = entry_ids
            if {"_ts", "_seq"} & names:
                found["_ts"], found["_seq"] = id_columns(entry_ids)
        return found


def id_columns(entry_ids: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return (timestamp in UTC, sequence number) of entry IDs; null where a number is beyond the column's type."""
    try:
        halves = pc.split_pattern(entry_ids, "-").flatten()
        at = pa.array(range(0, len(halves), 2), pa.int32())
        ms = halves.take(at).cast(pa.int64())
        numbers = halves.take(pc.add(at, 1)).cast(pa.int64())
        micros = pc.multiply_checked(ms, 1000)
        return micros.cast(pa.timestamp("us", "UTC")), numbers
    except pa.ArrowInvalid:
        pairs = [ids.parse(entry_id) for entry_id in entry_ids.to_pylist()]
        moments = pa.array([ms * 1000 if ms <= MS_MAX else None for ms, _ in pairs], pa.int64())
        numbers = pa.array([seq if seq <= LONG_MAX else None for _, seq in pairs], pa.int64())
        return moments.cast(pa.timestamp("us", "UTC")), numbers


def one_layout(lists: Sequence[list[bytes]]) -> list[bytes] | None:
    """Return the field names that all entries share in this order, None when they differ."""
    names = lists[0][0::2]
    size = len(lists[0])
    for fields in lists:
        if len(fields) != size or fields[0::2] != names:
            return None
    return names


def _strided(flat: list[bytes], layout: list[bytes], name: bytes, rows: int) -> Sequence[bytes | None]:
    if name not in layout:
        return [None] * rows
    last = len(layout) - 1 - layout[::-1].index(name)  # of a field given twice the last value counts
    return flat[2 * last + 1 :: 2 * len(layout)]


def _picked(lists: Sequence[list[bytes]], name: bytes) -> Sequence[bytes | None]:
    picked: list[bytes | None] = []
    for fields in lists:
        names = fields[0::2]
        if name in names:
            picked.append(fields[2 * (len(names) - 1 - names[::-1].index(name)) + 1])
        else:
            picked.append(None)
    return picked


def without_repeats(lists: Sequence[list[bytes]]) -> list[list[bytes]]:
    """Return field lists with each field once, with its last value, because a map cannot hold two."""
    known: dict[tuple[bytes, ...], bool] = {}
    made = []
    for fields in lists:
        names = tuple(fields[0::2])
        repeats = known.get(names)
        if repeats is None:
            repeats = len(set(names)) < len(names)
            if len(known) < 1_000:
                known[names] = repeats
        if repeats:
            fields = list(chain.from_iterable(dict(zip(names, fields[1::2], strict=True)).items()))
        made.append(fields)
    return made


def as_text(values: pa.Array) -> pa.Array:
    """Return bytes as text; invalid UTF-8 becomes replacement characters."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode(errors="replace") for value in values.to_pylist()], pa.string())


def _as_json(fields: list[bytes]) -> str:
    text = [part.decode(errors="replace") for part in fields]
    return json.dumps(dict(zip(text[0::2], text[1::2], strict=True)), ensure_ascii=False)
