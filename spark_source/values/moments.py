"""Dates and times from text, by the rules of Spark's own cast: `2024-1-2`, `2024-01-02 3:04`, zones by name or offset.

A time without a zone is in the session's zone (`spark.sql.session.timeZone`). Results are microseconds or days since
1970, because Spark's years go beyond those of Python's dates. A text that Spark's cast refuses is a ValueError.
"""

import os
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

BLANKS = "".join(map(chr, range(0x21))) + "\x7f"  # the characters that Spark strips from a text
DAY_S = 86_400
MICROS_MAX = 2**63

_DATE = r"(?P<sign>[+-]?)(?P<year>[0-9]{4,%d})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})%s)?)?"
_TIME = (
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})"
    r"(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9.].*)?)?)?"
)
_DAY = re.compile(_DATE % (7, "(?:[ T].*)?"), re.DOTALL)
_MOMENT = re.compile(_DATE % (6, f"(?:[ T]{_TIME})?"), re.DOTALL)
_TIME_ALONE = re.compile(f"(?:T|(?=[0-9]+:)){_TIME}", re.DOTALL)
_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?|:([0-9]))?")
_PREFIXED = re.compile(r"(UTC|GMT|UT)(.*)", re.DOTALL)

SHORT_ZONES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
"""Java's short names of zones, ZoneId.SHORT_IDS, which Spark allows."""


def days_of(text: str) -> int:
    """Return the days since 1970 of a date. Raises: ValueError."""
    match = _DAY.fullmatch(text.strip(BLANKS))
    if match is None:
        raise ValueError
    return _days(match)


def micros_of(text: str, zone: str | None) -> int:
    """Return the microseconds since 1970 of a time; with `zone` None taken as UTC, whatever zone it names.

    Raises: ValueError.
    """
    text = text.strip(BLANKS)
    match = _MOMENT.fullmatch(text)
    alone = None if match is not None or zone is None else _TIME_ALONE.fullmatch(text)
    found = match or alone
    if found is None:
        raise ValueError
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    named = zone_of(found["zone"].strip(BLANKS)) if found["zone"] else None
    place = named or zone_of(zone or "UTC")
    if zone is None:
        place = UTC
    days = _days(match) if match is not None else (datetime.now(place).date() - datetime(1970, 1, 1).date()).days
    seconds = days * DAY_S + hour * 3600 + minute * 60 + second
    micros = (seconds - _offset_s(place, seconds)) * 1_000_000 + int((found["fraction"] or "")[:6].ljust(6, "0"))
    if not -MICROS_MAX <= micros < MICROS_MAX:
        raise ValueError
    return micros


@lru_cache(1000)
def zone_of(name: str) -> tzinfo:
    """Return a zone by its name, short name or offset. Raises: ValueError."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    name = SHORT_ZONES.get(name, name)
    prefixed = _PREFIXED.fullmatch(name)
    offset = _OFFSET.fullmatch(prefixed[2] if prefixed else name)
    if offset is not None:
        hours, minutes, seconds = int(offset[2]), int(offset[3] or offset[5] or 0), int(offset[4] or 0)
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > 18 * 3600:
            raise ValueError
        return timezone(timedelta(seconds=-total if offset[1] == "-" else total))
    try:
        return ZoneInfo(name)
    except (OSError, KeyError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise ValueError from error


def session_zone() -> str:
    """Return the time zone of a task's session: the configured one, else this machine's."""
    from pyspark import TaskContext

    context = TaskContext.get()
    named = None if context is None else context.getLocalProperty("spark.sql.session.timeZone")
    return named or _machine_zone()


def _machine_zone() -> str:
    names = [os.environ.get("TZ", "").lstrip(":")]
    try:
        names.append(os.path.realpath("/etc/localtime").partition("zoneinfo/")[2])
    except OSError:
        pass
    for name in names:
        try:
            zone_of(name)
        except ValueError:
            continue
        return name
    return "UTC"


def _days(match: re.Match[str]) -> int:
    year = int(match["sign"] + match["year"])
    month, day = int(match["month"] or 1), int(match["day"] or 1)
    shifted = 2000 + year % 400  # a year with the same calendar, which Python knows
    return (datetime(shifted, month, day) - datetime(1970, 1, 1)).days + (year - shifted) // 400 * 146_097


def _offset_s(place: tzinfo, local_s: int) -> int:
    """Return a zone's offset from UTC at a local time; years beyond Python's use the most similar year."""
    days, rest = divmod(local_s, DAY_S)
    if days < -719_160:  # in the year 1
        days = -719_160
    elif days > 2_932_000:  # in the year 9997
        days -= -(-(days - 2_932_000) // 146_097) * 146_097
    offset = (datetime(1970, 1, 1) + timedelta(days=days, seconds=rest)).replace(tzinfo=place).utcoffset()
    return round(offset.total_seconds()) if offset is not None else 0
