"""Trimming: removing the oldest entries of a stream, by length or by ID."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamd.stream.entry_id import format_id

if TYPE_CHECKING:
    from streamd.stream.stream import Stream


@dataclass(frozen=True, slots=True)
class Trim:
    """How to trim.

    by: `maxlen` or `minid`; threshold: the length that stays, or the first ID that stays.
    approximate: whole segments alone go; limit: at most so many entries, 0 for any number.
    references: what becomes of pending entries: keep, delete, or acked: what is still pending or unread stays.
    """

    by: str
    threshold: int
    approximate: bool
    limit: int
    references: str

    def apply(self, stream: "Stream") -> list[list[bytes]]:
        """Trim; return what repeats it exactly, as commands without their key (name first): empty if nothing went."""
        log = stream.log
        if self.by == "maxlen":
            if not log.trim_to_length(self.threshold, self.approximate, self.limit):
                return []
            return [[b"XTRIM", b"MAXLEN", b"=", b"%d" % len(log)]]
        if not log.trim_before(self.threshold, self.approximate, self.limit):
            return []
        first = log.first_id
        return [[b"XTRIM", b"MINID", b"=", format_id(self.threshold if first is None else first)]]
