"""Numbers, times and bytes in a form for readers."""

from datetime import UTC, datetime


def count(number: int | None) -> str:
    """Return a number as 1,234,567; None as a dash."""
    return "–" if number is None else f"{number:,}"


def plural(number: int, one: str, more: str = "") -> str:
    """Return a number with its word: 1 stream, 1,234 streams. more: the word for several, if not with an s."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def size(number_bytes: int | None) -> str:
    """Return a number of bytes as 12.3 MB, in powers of 1024; None as a dash."""
    if number_bytes is None:
        return "–"
    amount, unit = float(number_bytes), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1024 or unit == "TB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


def rate(per_second: float | None) -> str:
    """Return a rate as 12.3/s, or per minute, hour or day if it is low; None as a dash."""
    if per_second is None:
        return "–"
    for amount, unit in ((per_second, "s"), (per_second * 60, "min"), (per_second * 3_600, "h")):
        if amount >= 1:
            return f"{amount:,.0f}/{unit}" if amount >= 10 else f"{amount:.1f}/{unit}"
    return f"{per_second * 86_400:.1f}/day" if per_second else "0/s"


def duration(milliseconds: int | None) -> str:
    """Return a duration as 3 min 20 s, in its two greatest units; None as a dash."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    seconds, parts = milliseconds // 1_000, []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if seconds >= length:
            parts.append(f"{seconds // length} {unit}")
            seconds %= length
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def moment(milliseconds: int) -> str:
    """Return a time as 2026-01-31 14:05:00.123 in UTC; one beyond the calendar, as an ID may have, as a dash."""
    try:
        second = datetime.fromtimestamp(milliseconds // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return "–"
    return f"{second:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03}"
