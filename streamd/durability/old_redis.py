"""Recorded commands in the form of Redis 7.0, without what it does not know."""

from typing import Final

from streamd.base.errors import CommandError
from streamd.commands.stream.options import parse_recorded_append
from streamd.data.entry_record import NAME
from streamd.durability.tally import shown

# The recorded commands that Redis 7.0 does not know; it lacks some options of XADD, too.
_UNKNOWN: Final = frozenset((b"XCFGSET", b"XIDMPRECORD", b"XDELEX", b"XACKDEL"))
_PENDING_NOTE: Final = b"#XGROUPPENDING"
# The consumer that has released entries. Nobody removes it, and with it these, unlike a consumer of the group's own.
_RELEASED: Final = b"released"


class ForOldRedis:
    """Brings the commands of one journal into the form of Redis 7.0, one after the other.

    A released entry (XNACK) stays pending, for a consumer named `released`, and can be claimed at once. Pending entries
    that are deleted are lost, and counted.
    """

    def __init__(self) -> None:
        self._lost: dict[tuple[bytes, bytes], int] = {}  # (key, group) -> pending entries that are deleted

    def take(self, words: list[bytes]) -> list[bytes] | None:
        """Return a recorded command in the form of Redis 7.0, None if Redis 7.0 does not know it."""
        name = words[0].upper()
        if name == NAME:
            return _without_iid(words)
        try:
            if name == _PENDING_NOTE:
                group = words[2], words[3]
                self._lost[group] = self._lost.get(group, 0) + 1
            elif name == b"XNACK":
                return _claim(words)
        except (IndexError, ValueError):
            return words  # a server that loads it reports the fault
        return None if name[:1] == b"#" or name in _UNKNOWN else words

    def losses(self) -> list[str]:
        """Return a line for each group of which pending entries are lost."""
        return [
            f"{count} pending entries of the group {shown(group)} of the stream {shown(key)}: they are deleted, "
            "and Redis 7 keeps no such entry pending; --windows exports them for Redis 8.6.2 or later"
            for (key, group), count in self._lost.items()
        ]


def _claim(words: list[bytes]) -> list[bytes]:
    """Return the record of released entries, `XNACK key group FAIL IDS n id... RETRYCOUNT m FORCE`, as a claim."""
    key, group, count = words[1], words[2], int(words[5])
    made = [b"XCLAIM", key, group, _RELEASED, b"0", *words[6 : 6 + count], b"TIME", b"0"]
    return [*made, b"RETRYCOUNT", words[7 + count], b"FORCE", b"JUSTID"]


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
