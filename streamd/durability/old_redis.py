"""Recorded commands in the form of Redis 7.0, without what it does not know."""

from typing import Final

from streamd.base.errors import CommandError
from streamd.commands.stream.options import parse_recorded_append
from streamd.data.entry_record import NAME

# The recorded commands that Redis 7.0 does not know; it lacks some options of XADD, too.
_UNKNOWN: Final = frozenset((b"XCFGSET", b"XIDMPRECORD", b"XNACK", b"XDELEX", b"XACKDEL"))


def for_old_redis(words: list[bytes]) -> list[bytes] | None:
    """Return a recorded command in the form of Redis 7.0, None if Redis 7.0 does not know it."""
    name = words[0].upper()
    if name[:1] == b"#" or name in _UNKNOWN:
        return None
    return _without_iid(words) if name == NAME else words


def _without_iid(words: list[bytes]) -> list[bytes] | None:
    """Return the record of an entry without producer and iid; None for the record of a reply to a duplicate."""
    try:
        options = parse_recorded_append(words)
    except (CommandError, IndexError):
        return words  # a server that loads it reports the fault
    if words[options.at] == b"*":
        return None
    if options.pid_at:
        return words[: options.pid_at - 1] + words[(options.iid_at or options.pid_at) + 1 :]
    return words
