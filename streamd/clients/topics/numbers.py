"""Numbers for retained messages: they put those of a topic in one order, whatever streams they are in.

A publisher draws a number before it appends the message. So of two messages, the one that was published after the other
had been stored has the higher number. A number is the entry ID of an XADD to `{log}:numbers`, and the message's place
among those that it was drawn for. The server gives IDs that rise, and takes them from its clock where the stream was
lost: after a DEL, a restored backup or a failover numbers go on above those from before.

A message may be appended long after its number was drawn: its publisher stood still. It ranks as if the number had been
drawn `LATE_MS` before, at the latest. So nothing that is still to come ranks below that, and readers forget removals
that are older.
"""

from streamd.clients.topics.entry_ids import Id, format_id, parse_id
from streamd.clients.topics.steps import Command

Number = tuple[int, int, int]
# A number, or zeros, and the message's place in the log: of two messages the one with the higher rank is the newer one.
Rank = tuple[int, int, int, int, int, int, int]

NONE: Number = (0, 0, 0)
LATE_MS = 300_000
_MS_DIGITS_MAX = 15  # until the year 33,658
_DIGITS_MAX = 18


def parse_number(text: bytes | None) -> Number | None:
    """Return the number in a field of an entry; None for anything else."""
    parts = [] if text is None else text.split(b"-")
    if len(parts) != 3 or len(parts[0]) > _MS_DIGITS_MAX or not all(_is_decimal(one) for one in parts):
        return None
    ms, seq, place = parts
    return int(ms), int(seq), int(place)


def _is_decimal(text: bytes) -> bool:
    return text.isdigit() and len(text) <= _DIGITS_MAX


def format_number(number: Number) -> bytes:
    """Return a number as the field of an entry."""
    return b"%d-%d-%d" % number


def rank_of(number: Number | None, generation: int, entry_id: Id, shard: int) -> Rank:
    """Return the rank of a retained message; one without a number is below all that have one."""
    ms, seq = entry_id
    if number is None:
        return 0, 0, 0, generation, ms, seq, shard
    if number[0] < ms - LATE_MS:
        number = ms - LATE_MS, 0, 0
    return *number, generation, ms, seq, shard


def drawing(key: str, count: int) -> Command:
    """Return the command that draws numbers for so many messages."""
    return ("XADD", key, "MAXLEN", 1, "*", "n", count)


def raising(key: str, above: Number) -> Command:
    """Return the command after which numbers are higher than a known one; refused where they are so already."""
    return ("XADD", key, "MAXLEN", 1, format_id((above[0], above[1] + 1)), "n", 0)


def drawn(reply: bytes, count: int) -> list[Number]:
    """Return the numbers that a reply gives to so many messages, in their order."""
    ms, seq = parse_id(reply)
    return [(ms, seq, place) for place in range(count)]
