"""The fields of a message that few messages have, from the columns of rows that are published to a topic log."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.errors import BadRow
from spark_source.settings.topic_filters import LENGTH_BYTES_MAX

EXPIRY_MS_END = 1e18  # a reader takes more for never
NEWER_COLUMNS = frozenset(("payload_format", "content_type", "response_topic", "correlation"))
NEWER_VERSION = 2  # of a log whose entries have these: see docs/topics.md


def rarer_fields(columns: dict[str, pa.Array]) -> list[tuple[str, pa.Array]]:
    """Return the field and the values of each of these columns; null where a row's message does not have the field.

    Raises: BadRow, for a value that no message can have.
    """
    return [(field, make(name, columns[name])) for name, (field, make) in _MAKERS.items() if name in columns]


def _qos(name: str, column: pa.Array) -> pa.Array:
    return _small_number(name, column, 2, "give 0, 1 or 2, or null for 0")


def _payload_format(name: str, column: pa.Array) -> pa.Array:
    return _small_number(name, column, 1, "give 1 for text in UTF-8, or 0 or null")


def _small_number(name: str, column: pa.Array, most: int, what_to_do: str) -> pa.Array:
    _refuse(name, column, pc.and_(pc.greater_equal(column, 0), pc.less_equal(column, most)), what_to_do)
    return pc.if_else(pc.greater(column, 0), column.cast(pa.string()).cast(pa.binary()), _ABSENT)


def _expiry_ms(name: str, column: pa.Array) -> pa.Array:
    expiries_ms = pc.round(pc.multiply(column.cast(pa.float64(), safe=False), 1_000.0))
    fits = pc.and_(pc.greater_equal(expiries_ms, 1.0), pc.less(expiries_ms, EXPIRY_MS_END))
    _refuse(name, column, fits, "give seconds above 0, or null for never")
    return expiries_ms.cast(pa.int64()).cast(pa.string()).cast(pa.binary())


def _retain(name: str, column: pa.Array) -> pa.Array:
    return pc.if_else(column, pa.scalar(b"1"), _ABSENT)


def _short(name: str, column: pa.Array) -> pa.Array:
    values = column.cast(pa.binary())
    _refuse(name, column, _is_short(values), f"give at most {LENGTH_BYTES_MAX} bytes, or null")
    return values


def _topic(name: str, column: pa.Array) -> pa.Array:
    values = column.cast(pa.binary())
    fits = pc.and_(_is_short(values), pc.greater(pc.binary_length(values), 0))
    for one in (b"+", b"#", b"\0"):
        fits = pc.and_(fits, pc.invert(pc.match_substring(values, one)))
    _refuse(name, column, fits, f"a topic has 1 to {LENGTH_BYTES_MAX} bytes without +, # and NUL; or give null")
    return values


def _is_short(values: pa.Array) -> pa.Array:
    return pc.less_equal(pc.binary_length(values), LENGTH_BYTES_MAX)


def _refuse(name: str, column: pa.Array, fits: pa.Array, what_to_do: str) -> None:
    """Raise BadRow if a value that is not null does not fit."""
    at = pc.index(fits, pa.scalar(False)).as_py()
    if at >= 0:
        value = column[at].as_py()
        shown = repr(value)[:60] if isinstance(value, str | bytes) else str(value)
        raise BadRow(f"{name} {shown} in a row: {what_to_do}")


_ABSENT = pa.scalar(None, pa.binary())
_MAKERS: dict[str, tuple[str, Callable[[str, pa.Array], pa.Array]]] = {
    "qos": ("q", _qos),
    "retain": ("r", _retain),
    "expiry_s": ("e", _expiry_ms),
    "payload_format": ("pf", _payload_format),
    "content_type": ("ct", _short),
    "response_topic": ("rt", _topic),
    "correlation": ("cd", _short),
}
