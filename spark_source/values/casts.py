"""Casts of field values, which are text in bytes, to columns of a user's schema.

Arrow casts whole columns. A column with a value that Arrow refuses, or reads otherwise than Spark, is cast value by
value, by the rules of Spark's own cast: blanks around a value are ignored, and an invalid value becomes null.
"""

import re
from collections.abc import Callable
from datetime import time
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.values.moments import BLANKS, days_of, micros_of

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")  # (Spark takes the digits of all scripts, too)
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_TIME = re.compile(
    r"(?:T|(?=[0-9]+:))([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?(?:[\x00-\x20\x7f]*([AaPp])[Mm])?"
)
# What Arrow and Spark read alike.
_ZONELESS = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_ZONED = _ZONELESS[:-1] + r"(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])$"
_TRUE = {"true", "t", "yes", "y", "1"}
_FALSE = {"false", "f", "no", "n", "0"}
_SPECIAL = {"nan": "nan", "inf": "inf", "+inf": "inf", "infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}


def cast_column(
    values: pa.Array, target: pa.DataType, zone: str = "UTC", digits: int = 6
) -> tuple[pa.Array, list[int]]:
    """Return binary values as a column of `target`, and the rows whose value could not be cast (null there).

    `zone`: the session's time zone, for times without one. `digits`: of a second, in a time of day.
    """
    if pa.types.is_binary(target):
        return values, []
    if pa.types.is_time(target):
        made, bad = _cast(values, target, zone)
        return _cut(made, digits), bad
    return _cast(values, target, zone)


def _cast(values: pa.Array, target: pa.DataType, zone: str) -> tuple[pa.Array, list[int]]:
    try:
        text = values.cast(pa.string())
        if pa.types.is_string(target):
            return text, []
        return _fast(text, target, zone), []
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError):
        return _slow(values, target, zone)


def _cut(times: pa.Array, digits: int) -> pa.Array:
    """Return times of day in nanoseconds, truncated to this many digits of a second."""
    step, since_midnight = 10 ** (9 - digits), times.cast(pa.int64())
    return pc.multiply(pc.divide(since_midnight, step), step).cast(times.type)


def _fast(text: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    if pa.types.is_integer(target):
        _refuse(text, "x", True)  # Arrow reads 0x1F as a number
    elif pa.types.is_timestamp(target):
        return _moments(text, target, zone)
    elif pa.types.is_boolean(target):
        return text.cast(target)
    return text.cast(target)


def _refuse(text: pa.Array, pattern: str, ignore_case: bool) -> None:
    if pc.any(pc.match_substring(text, pattern, ignore_case=ignore_case)).as_py():
        raise pa.ArrowInvalid(pattern)


def _moments(text: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    if target.tz and _all_match(text, _ZONED):
        return text.cast(pa.timestamp("us", "UTC")).cast(target)
    if not _all_match(text, _ZONELESS):
        raise pa.ArrowInvalid("not in one form")
    local = text.cast(pa.timestamp("us"))
    if not target.tz:
        return local.cast(target)
    # Of an hour that comes twice Spark takes the first, too. One that is left out in spring goes value by value.
    return pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="raise").cast(target)


def _all_match(text: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(text, pattern)).as_py() is not False


def _slow(values: pa.Array, target: pa.DataType, zone: str) -> tuple[pa.Array, list[int]]:
    convert = _converter(target, zone)
    made: list[object] = []
    bad: list[int] = []
    for row, value in enumerate(values.to_pylist()):
        if value is None:
            made.append(None)
            continue
        try:
            made.append(convert(value.decode().strip(BLANKS) if not pa.types.is_string(target) else value.decode()))
        except (ValueError, ArithmeticError):
            made.append(None)
            bad.append(row)
    if pa.types.is_timestamp(target):
        return pa.array(made, pa.int64()).cast(pa.timestamp("us", target.tz)).cast(target), bad
    if pa.types.is_date32(target):
        return pa.array(made, pa.int32()).cast(target), bad
    return pa.array(made, target), bad


def _converter(target: pa.DataType, zone: str) -> Callable[[str], object]:
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
        return days_of
    if pa.types.is_time(target):
        return _time
    assert pa.types.is_timestamp(target), target
    return lambda text: micros_of(text, zone if target.tz else None)


def _integer(text: str, limit: int) -> int:
    value = int(text) if _INTEGER.fullmatch(text) and len(text) < 30 else None
    if value is None or not -limit <= value < limit:
        raise ValueError
    return value


def _floating(text: str) -> float:
    match = _NUMBER.fullmatch(text)
    return float(match[1] if match else _SPECIAL.get(text.lower(), ""))


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in _TRUE and word not in _FALSE:
        raise ValueError
    return word in _TRUE


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    if not _DECIMAL.fullmatch(text):
        raise ValueError
    try:
        value = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    except InvalidOperation:
        raise ValueError from None
    if value.adjusted() >= precision - scale and value:
        raise ValueError
    return value


def _time(text: str) -> time:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError
    hour = int(match[1])
    if match[5]:
        if not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + (12 if match[5] in "pP" else 0)
    micros = (match[4] or "").ljust(6, "0")[:6]
    return time(hour, int(match[2] or 0), int(match[3] or 0), int(micros))
