"""Turns columns of any Arrow layout into the plain one: Spark hands over large types, too, if its settings say so."""

import pyarrow as pa
import pyarrow.compute as pc

_TEXT = (pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_LISTS = (pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list)
_VIEWS = (pa.types.is_list_view, pa.types.is_large_list_view)


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose columns are of plain types: the same values, and the batch itself where it is plain already.

    Raises: pyarrow.ArrowInvalid for more bytes than a plain column can hold.
    """
    kinds = [plain_type(column.type) for column in batch.columns]
    if kinds == [column.type for column in batch.columns]:
        return batch
    columns = [plain(column, kind) for column, kind in zip(batch.columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with 32 bit offsets, in which texts, bytes and lists stand one after the other."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if any(check(kind) for check in _TEXT):
        return pa.string()
    if any(check(kind) for check in _BYTES):
        return pa.binary()
    if any(check(kind) for check in (*_LISTS, *_VIEWS)):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field), kind.keys_sorted)
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column as its plain type."""
    if column.type == kind:
        return column
    if pa.types.is_run_end_encoded(column.type):
        return plain(pc.run_end_decode(column), kind)
    if pa.types.is_dictionary(column.type):
        return plain(column.dictionary, kind).take(column.indices)  # (views cannot be taken from)
    if pa.types.is_struct(kind):
        parts = [plain(column.field(i), field.type) for i, field in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=_nulls(column))
    if pa.types.is_map(kind):
        first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
        keys = plain(column.keys[first:last], kind.key_type)
        items = plain(column.items[first:last], kind.item_type)
        offsets = pc.subtract(column.offsets, first)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=_nulls(column))
    if pa.types.is_list(kind):
        sizes = pc.fill_null(pc.list_value_length(column), 0)
        ends = pc.cumulative_sum(sizes).cast(pa.int32())
        values = plain(column.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(pa.concat_arrays([_ZERO, ends]), values, type=kind, mask=_nulls(column))
    return column.cast(kind)


_ZERO = pa.array([0], pa.int32())


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None
