"""Casts of field values, which are text in bytes, to columns of a user's schema.

Whole columns are cast by Arrow; only a column that holds something Arrow refuses is gone through value by value, by the
rules below, which are Spark's: blanks around a value do not count, what cannot be cast is null.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?")
_TRUE = {"true", "t", "yes", "y", "1"}
_FALSE = {"false", "f", "no", "n", "0"}
_SPECIAL = {"nan": "nan", "inf": "inf", "+inf": "inf", "infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}


def cast_column(values: pa.Array, target: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Return binary values as a column of `target`, and the rows whose value could not be cast (null there)."""
    if pa.types.is_binary(target):
        return values, []
    try:
        text = values.cast(pa.string())
        if pa.types.is_string(target):
            return text, []
        return _fast(text, target), []
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _slow(values, target)


def _fast(text: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_integer(target):
        _refuse(text, "x", True)  # Arrow reads 0x1F as a number
    elif pa.types.is_timestamp(target):
        return text.cast(pa.timestamp("us", "UTC") if target.tz else pa.timestamp("us")).cast(target)
    elif pa.types.is_boolean(target):
        return text.cast(target)
    return text.cast(target)


def _refuse(text: pa.Array, pattern: str, ignore_case: bool) -> None:
    if pc.any(pc.match_substring(text, pattern, ignore_case=ignore_case)).as_py():
        raise pa.ArrowInvalid(pattern)


def _slow(values: pa.Array, target: pa.DataType) -> tuple[pa.Array, list[int]]:
    convert = _converter(target)
    made: list[object] = []
    bad: list[int] = []
    for row, value in enumerate(values.to_pylist()):
        if value is None:
            made.append(None)
            continue
        try:
            made.append(convert(value.decode().strip() if not pa.types.is_string(target) else value.decode()))
        except (ValueError, ArithmeticError):
            made.append(None)
            bad.append(row)
    return pa.array(made, target), bad


def _converter(target: pa.DataType) -> Callable[[str], object]:
    if pa.types.is_string(target):
        return str
    if pa.types.is_integer(target):
        limit = 1 << (target.bit_width - 1)
        return lambda text: _integer(text, limit)
    if pa.types.is_floating(target):
        return _floating
    if pa.types.is_boolean(target):
        return _boolean
    if pa.types.is_decimal(target):
        return lambda text: _decimal(text, target.precision, target.scale)
    if pa.types.is_date(target):
        return _date
    if pa.types.is_time(target):
        return _time
    assert pa.types.is_timestamp(target), target
    return lambda text: _moment(text, bool(target.tz))


def _integer(text: str, limit: int) -> int:
    value = int(text) if _INTEGER.fullmatch(text) and len(text) < 30 else None
    if value is None or not -limit <= value < limit:
        raise ValueError
    return value


def _floating(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        text = _SPECIAL.get(text.lower(), "")
    return float(text)


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in _TRUE and word not in _FALSE:
        raise ValueError
    return word in _TRUE


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError
    try:
        value = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    except InvalidOperation:
        raise ValueError from None
    if value.adjusted() >= precision - scale and value:
        raise ValueError
    return value


def _date(text: str) -> date:
    match = _DATE.match(text)
    if match is None or (match.end() < len(text) and text[match.end()] not in "T "):
        raise ValueError
    return date(int(match[1]), int(match[2]), int(match[3]))


def _moment(text: str, zoned: bool) -> datetime:
    if not _DATE.match(text):
        raise ValueError
    moment = datetime.fromisoformat(text)
    if zoned:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.replace(tzinfo=None)


def _time(text: str) -> time:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError
    micros = (match[4] or "").ljust(6, "0")[:6]
    return time(int(match[1]), int(match[2]), int(match[3] or 0), int(micros))
