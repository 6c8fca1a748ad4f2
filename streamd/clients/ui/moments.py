"""A position in a stream in a user's words: an entry ID, a time, or an age."""

import re
from datetime import UTC, datetime

_ID = re.compile(r"\d{1,20}(-\d{1,20})?")
_AGO = re.compile(r"(\d{1,9})\s*(s|m|h|d)")
_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
HOW = "give an entry ID (1700000000000-0), a time (2026-01-31 14:05, in UTC), or how long ago (5m, 2h, 3d)"


def entry_id_of(text: str, now_ms: int) -> bytes:
    """Return the entry ID to begin at. Raises: ValueError, with valid forms."""
    text = text.strip()
    if is_entry_id(text):
        return text.encode()
    if ago := _AGO.fullmatch(text.removesuffix(" ago")):
        return b"%d" % max(now_ms - int(ago[1]) * _MS[ago[2]], 0)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no place in a stream: {HOW}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return b"%d" % max(round(moment.timestamp() * 1000), 0)


def is_entry_id(text: str) -> bool:
    """Return whether a text is an entry ID, in full or without its sequence number."""
    return _ID.fullmatch(text) is not None and all(int(part) < 2**64 for part in text.split("-"))
