"""Encodes a record batch of rows for XADD: each row's fields and values as RESP.

Arrow does all of it, column by column. The bytes of a row, `$5\\r\\nprice\\r\\n$4\\r\\n9.50\\r\\n...`, are also its
identity, since every name and value carries its length. A null field is not written.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructType,
)

from spark_source.connecting.failures import first_line
from spark_source.errors import BadRow, OptionError
from spark_source.values.json_read import is_nested
from spark_source.values.json_write import json_texts, time_texts
from spark_source.values.named_rows import shown_row
from spark_source.values.plain import plain_batch
from spark_source.values.schema import RESERVED, unusable

SOURCE_COLUMN = "_stream"  # where a row was read, see `schema.RESERVED`: never a field
SLICE_BYTES = 4 << 20  # rows that are encoded at once: several arrays of that size stand in memory meanwhile

log = logging.getLogger("spark_source")

_told: set[str] = set()

UNWRITABLE = (BadRow, pa.ArrowException, ValueError, OverflowError)  # what a value may make of its row

_END = pa.scalar(b"\r\n")
_NONE = b""


@dataclass(frozen=True)
class Rows:
    """Encoded rows: their bytes, their numbers of words, their streams, and the bytes of their keys."""

    payloads: pa.Array
    words: list[int] | int
    targets: list[str] | None
    keys: pa.Array | None

    def __len__(self) -> int:
        return len(self.payloads)


class RowEncoder:
    """Encodes the rows of one schema. All rows go to `stream`, or each row to the stream in `target_column`.

    Raises: OptionError for a column that cannot be written, or a key or target column that is not there.
    """

    def __init__(
        self,
        schema: StructType,
        key_columns: tuple[str, ...],
        stream: str | None,
        target_column: str | None = None,
        value_format: str = "text",
        field_columns: tuple[str, ...] = (),
    ) -> None:
        names = schema.fieldNames()
        self.stream = stream
        self.target_column = target_column
        if target_column is None and stream is None:
            raise OptionError("stream is missing: name one stream to write to, or give streamColumn, a column of names")
        if target_column is not None:
            if target_column not in names:
                raise OptionError(f"streamColumn names column {target_column}, the rows only have {', '.join(names)}")
            if not isinstance(schema[target_column].dataType, StringType):
                raise OptionError(f"column {target_column} must be a string, the name of the stream each row goes to")
        missing = [name for name in key_columns if name not in names]
        if missing:
            raise OptionError(f"idempotencyKey names column {missing[0]}, the rows only have {', '.join(names)}")
        unwritten = {target_column, SOURCE_COLUMN}.difference(field_columns)
        self.columns = [i for i, name in enumerate(names) if name not in unwritten]
        self.target_at = names.index(target_column) if target_column is not None else None
        self.key_at = [names.index(name) for name in key_columns]
        self.names = names
        # As JSON a map is one field, whatever its name: so it is read back.
        pairs = [i for i in self.columns if _is_pairs(names[i], schema.fields[i].dataType)]
        self.spread = [] if value_format == "json" else pairs
        self.as_json = [names[i] for i in pairs] if value_format == "json" else []
        self.beside = {names[i].encode(): i for i in self.columns if i not in self.spread}
        self.misread = [name for name in RESERVED if self._is_misread(name, key_columns, field_columns)]
        for i in self.columns:
            kind = schema.fields[i].dataType
            doubt = None if i in self.spread or isinstance(kind, NullType) else unusable(kind, value_format)
            if doubt:
                raise OptionError(f"column {names[i]} of type {doubt}")
            if i in self.spread and i in self.key_at:
                raise OptionError(f"idempotencyKey cannot name column {names[i]}, which holds several fields")
        if not self.columns:
            raise OptionError("there is nothing to write: the rows have no column besides those that name streams")

    def _is_misread(self, name: str, key_columns: tuple[str, ...], field_columns: tuple[str, ...]) -> bool:
        """Return whether a column is written as a field that a read of this column does not return."""
        return name.encode() in self.beside and name not in (*key_columns, *field_columns)

    def encode(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        """Yield the rows of a batch, encoded, in slices of bounded size.

        Raises: BadRow for a row without any value, without a key, or without a stream to go to.
        """
        if batch.num_rows == 0:
            return
        step = max(1, int(batch.num_rows * min(1.0, SLICE_BYTES / max(batch.nbytes, 1))))
        for start in range(0, batch.num_rows, step):
            piece = batch.slice(start, step)
            try:
                piece = plain_batch(piece)
                rows = self._encode(piece)
            except UNWRITABLE as error:
                raise self._named(piece, error) from None
            yield rows

    def _named(self, batch: pa.RecordBatch, error: Exception) -> BadRow:
        """Return the error with the first row that cannot be encoded, found by halving."""
        while len(batch) > 1:
            half = batch.slice(0, len(batch) // 2)
            try:
                self._encode(half)
                batch = batch.slice(len(half))
            except UNWRITABLE as found:
                batch, error = half, found
        what = str(error) if isinstance(error, BadRow) else f"a row cannot be written ({first_line(error)})"
        return BadRow(f"{what}; that is of the row {_shown(batch)}")

    def _encode(self, batch: pa.RecordBatch) -> Rows:
        pieces: list[pa.Array] = []
        fields: pa.Array | int = 0
        for i in self.columns:
            if i in self.spread:
                self._check_spread(batch, batch.column(i))
                piece, held = _spread(batch.column(i))
            else:
                piece = _column(self.names[i], batch.column(i))
                held = 1 if piece.null_count == 0 else piece.is_valid().cast(pa.int32())
            pieces.append(piece)
            fields = fields + held if isinstance(fields, int) and isinstance(held, int) else pc.add(fields, held)
        payloads = pc.binary_join_element_wise(*pieces, _NONE, null_handling="replace", null_replacement=_NONE)
        words: list[int] | int
        if isinstance(fields, int):
            words = 2 * fields
        else:
            words = counts = pc.multiply(fields, 2).to_pylist()
            if 0 in counts:
                raise BadRow("a row has no value that is not null, and an entry needs a field: filter such rows out")
        return Rows(payloads, words, self._targets(batch), self._keys(batch))

    def _check_spread(self, batch: pa.RecordBatch, column: pa.Array) -> None:
        """Raise BadRow for a row whose map or pairs hold a field that another column of the row is written as."""
        names, values = _pairs(column)
        names = as_bytes(names)
        doubtful = pc.and_(pc.is_in(names, pa.array(list(self.beside), pa.binary())), values.is_valid())
        if not pc.any(doubtful, min_count=0).as_py():
            return
        offsets = column.offsets
        first = offsets[0].as_py()
        listed = pa.ListArray.from_arrays(pc.subtract(offsets, offsets[0]), pc.if_else(doubtful, names, None)[first:])
        for row, given in enumerate(listed.to_pylist()):
            if not column[row].is_valid:
                continue
            twice = [name for name in given if name in self.beside and batch.column(self.beside[name])[row].is_valid]
            if twice:
                shown = ", ".join(sorted({name.decode() for name in twice}))
                raise BadRow(
                    f"column fields holds {shown} in a row, which has a column of that name as well, and a read keeps "
                    "only one: drop or rename the column, or take the name out of fields"
                )

    def _targets(self, batch: pa.RecordBatch) -> list[str] | None:
        if self.target_at is None:
            return None
        named = batch.column(self.target_at).to_pylist()
        if self.stream is None and not all(named):
            raise BadRow(
                f"column {self.target_column} is null or empty in a row: fill it, or give option stream for such rows"
            )
        return [target or self.stream for target in named]  # type: ignore[misc]

    def _keys(self, batch: pa.RecordBatch) -> pa.Array | None:
        if not self.key_at:
            return None
        for i in self.key_at:
            if batch.column(i).null_count:
                raise BadRow(f"column {self.names[i]} of idempotencyKey is null in a row: fill it or take another key")
        return pc.binary_join_element_wise(*(_column(self.names[i], batch.column(i)) for i in self.key_at), _NONE)


def warn_of_names(encoder: RowEncoder) -> None:
    """Log, once in a process, columns whose names mean something else when the entries are read."""
    told = []
    if encoder.misread:
        names = ",".join(encoder.misread)
        told.append(
            f"columns {names} are written as fields, but a read gives such columns other values: rename them, or set "
            f"fieldColumns={names} here and where they are read"
        )
    if encoder.as_json:
        told.append(
            "column fields is written as JSON in one field of this name (valueFormat=json): leave valueFormat out to "
            "write each of its pairs as a field"
        )
    for text in told:
        if text not in _told:
            _told.add(text)
            log.warning("%s", text)


def _shown(batch: pa.RecordBatch) -> str:
    """Return the one row of a batch as text for a message."""
    values: dict[str, object] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            values[name] = column[0].as_py()
        except (ValueError, OverflowError):
            values[name] = f"a {column.type} that cannot be shown"
    return shown_row(values)


def _is_pairs(name: str, kind: DataType) -> bool:
    """Return whether a column is the raw schema's `fields`, whose pairs become fields."""
    if name != "fields":
        return False
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, (StringType, BinaryType))
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        return kind.elementType.fieldNames() == ["field", "value"] and all(
            isinstance(part.dataType, (StringType, BinaryType)) for part in kind.elementType.fields
        )
    return False


def _column(name: str, column: pa.Array) -> pa.Array:
    """Return a column's part of each row: name and value with their lengths; null for a null value."""
    word = name.encode()
    head = pa.scalar(b"$%d\r\n%b\r\n$" % (len(word), word))
    values = as_bytes(column)
    return pc.binary_join_element_wise(head, _lengths(values), _END, values, _END, _NONE)


def _spread(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the encoded fields of a map or a list of pairs, joined per row, and each row's number of fields."""
    names, values = map(as_bytes, _pairs(column))
    dollar = pa.scalar(b"$")
    pieces = pc.binary_join_element_wise(
        dollar, _lengths(names), _END, names, _END, dollar, _lengths(values), _END, values, _END, _NONE
    )
    offsets = column.offsets
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, pc.fill_null(pieces, _NONE)), _NONE)
    counted = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), pieces.is_valid().cast(pa.int32())]))
    held = pc.subtract(counted.take(offsets.slice(1)), counted.take(offsets.slice(0, len(offsets) - 1)))
    if column.null_count:
        here = column.is_valid()
        joined = pc.if_else(here, joined, pa.scalar(_NONE))
        held = pc.if_else(here, held, pa.scalar(0, pa.int32()))
    return joined, held


def _pairs(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the names and the values of a map or a list of pairs, of all rows one after the other."""
    if pa.types.is_map(column.type):
        return column.keys, column.items
    return column.values.field("field"), column.values.field("value")


def _lengths(values: pa.Array) -> pa.Array:
    return pc.binary_length(values).cast(pa.string()).cast(pa.binary())


def as_bytes(column: pa.Array) -> pa.Array:
    """Return a column's values as text in bytes: numbers in decimal, times in ISO 8601 and UTC, true, false, JSON."""
    kind = column.type
    if pa.types.is_binary(kind):
        return column
    if pa.types.is_null(kind):
        return column.cast(pa.binary())
    if is_nested(kind):
        return json_texts(column).cast(pa.binary())
    if pa.types.is_temporal(kind):
        column = time_texts(column)
    elif not pa.types.is_string(kind):
        column = column.cast(pa.string())
    return column.cast(pa.binary())
