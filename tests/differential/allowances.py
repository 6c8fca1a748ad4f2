"""What replies may differ in: the rows of docs/differences.md, and nothing else.

FIELDS of a reply are left out, or compared with a tolerance. Requests that are UNFIT are not sent: their reply depends
on the moment at which a server looks at its clock, or they mean something else to 7.0.15. RULES accept one particular
pair of replies to one particular request. STATE names what the driver makes equal in both servers behind a request.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from streamd.base.errors import CommandError, WrongType
from streamd.connected.client import Client
from streamd.data.member_set import MemberSet
from streamd.stream.entry_id import parse_id
from streamd.stream.stream import Stream
from tests.differential.replies import Reply

# How far apart in milliseconds two times may be that are the same but for when the servers read their clocks. All times
# that requests name are further from each other.
TOLERANCE_MS = 120_000

_NO_NUMBER = -(2**64)  # what no request says


# -- fields -----------------------------------------------------------------------------------------------------------

NEWER_FIELDS = {
    b"stream": {
        *(b"idmp-duration", b"idmp-maxsize", b"pids-tracked", b"iids-tracked", b"iids-added", b"iids-duplicates"),
        *(b"producers-tracked", b"nacked-count", b"active-time"),
    },
    b"consumers": {b"inactive"},
}
NODE_FIELDS = {b"radix-tree-keys", b"radix-tree-nodes"}
COUNTED_FIELDS = {b"entries-read", b"lag"}
TIME_FIELDS = {b"stream": {b"seen-time"}, b"consumers": {b"idle"}}
# Commands that reply a time, and its unit in milliseconds.
TIMES = {b"ttl": 1000, b"pttl": 1, b"expiretime": 1000, b"pexpiretime": 1}
# Commands whose replies, or what comes second in them, have no order.
UNORDERED = {b"keys", b"smembers", b"sinter", b"sunion", b"sdiff", b"spop", b"srandmember"}
UNORDERED_SECOND = {b"scan", b"sscan", b"zscan"}

FIELDS = {"newer fields of XINFO", "radix-tree-*", "lag, entries-read", "times", "order of keys and members"}
STATE = {"when a consumer is made", "a reader woken for nothing", "order of events"}


@dataclass(slots=True)
class Leniency:
    """What may differ for now.

    counts: entries were deleted or trimmed, or a group's count was set, which 7.0.15 treats differently.
    consumers: the consumers that one server has and the other has not yet.
    """

    counts: bool = False
    consumers: frozenset[bytes] = frozenset()


def same(request: list[bytes], theirs: Reply, ours: Reply, leniency: Leniency) -> bool:
    """Return whether both replies to a request say the same, but for what may differ."""
    if theirs == ours:
        return True
    command = request[0].lower()
    sub = request[1].lower() if len(request) > 1 else b""
    if command == b"xinfo" and sub in (b"stream", b"groups", b"consumers"):
        return _same_info(sub, theirs, ours, leniency)
    if command == b"xpending" and theirs.items is not None and ours.items is not None:
        return len(request) > 3 and _same_rows(theirs.items, ours.items, 2)
    if command in TIMES:
        return _close(theirs, ours, TIMES[command])
    if command in UNORDERED:
        return _sorted(theirs) == _sorted(ours)
    if command in UNORDERED_SECOND and theirs.items is not None and ours.items is not None:
        return len(theirs.items) == len(ours.items) == 2 and _sorted(theirs.items[1]) == _sorted(ours.items[1])
    if command == b"xgroup" and sub == b"createconsumer" and request[-1] in leniency.consumers:
        return theirs.kind == ours.kind == b":"
    return any(rule(request, theirs, ours) for rule in RULES.values())


def _same_info(sub: bytes, theirs: Reply, ours: Reply, leniency: Leniency) -> bool:
    """Compare two replies of XINFO, by field."""
    if theirs.items is None or ours.items is None:
        return theirs == ours
    if sub == b"stream":
        return _same_fields(sub, theirs, ours, leniency)
    left, right = ours.items, theirs.items
    if sub == b"consumers":
        left, right = _without(left, leniency.consumers), _without(right, leniency.consumers)
    return _all_same(right, left, lambda one, other: _same_fields(sub, one, other, leniency))


def _without(consumers: list[Reply], names: frozenset[bytes]) -> list[Reply]:
    """Leave consumers out."""
    return [one for one in consumers if dict(one.fields())[b"name"].text not in names]


def _same_fields(sub: bytes, theirs: Reply, ours: Reply, leniency: Leniency) -> bool:
    left = [(name, value) for name, value in ours.fields() if name not in NEWER_FIELDS.get(sub, ())]
    right = list(theirs.fields())
    if theirs.kind != ours.kind or [name for name, _ in left] != [name for name, _ in right]:
        return False
    for (name, value), (_, other) in zip(left, right, strict=True):
        if name in NODE_FIELDS or (name in COUNTED_FIELDS and leniency.counts):
            continue
        if name == b"consumers" and leniency.consumers:
            if value.items is None or other.items is None:
                continue
            value = replace(value, items=_without(value.items, leniency.consumers))
            other = replace(other, items=_without(other.items, leniency.consumers))
        if name in TIME_FIELDS.get(sub, ()):
            if not _close(value, other, 1):
                return False
        elif name in (b"groups", b"consumers") and value.items is not None and other.items is not None:
            if not _all_same(other.items, value.items, lambda a, b: _same_fields(sub, a, b, leniency)):
                return False
        elif name == b"pending" and value.items is not None and other.items is not None:
            # Of the group: ID, consumer, time, count. Of a consumer: ID, time, count.
            if not _same_rows(other.items, value.items, -2):
                return False
        elif value != other:
            return False
    return True


def _all_same(theirs: list[Reply], ours: list[Reply], same_item: Callable[[Reply, Reply], bool]) -> bool:
    return len(theirs) == len(ours) and all(map(same_item, theirs, ours))


def _same_rows(theirs: list[Reply], ours: list[Reply], time_at: int) -> bool:
    """Compare arrays in each of which one element is a time."""

    def same_row(one: Reply, other: Reply) -> bool:
        left, right = list(one.items or ()), list(other.items or ())
        if not left or len(left) != len(right):
            return False
        return _close(left.pop(time_at), right.pop(time_at), 1) and left == right

    return _all_same(theirs, ours, same_row)


def _close(theirs: Reply, ours: Reply, unit_ms: int) -> bool:
    """Return whether two integers are times of so many milliseconds that may be the same; -1 and -2 are none."""
    if theirs.kind != b":" or ours.kind != b":":
        return theirs == ours
    one, other = int(theirs.text), int(ours.text)
    return one == other or (one >= 0 <= other and abs(one - other) * unit_ms <= TOLERANCE_MS)


def _sorted(reply: Reply) -> tuple[bytes, list[bytes]]:
    return reply.kind, sorted(item.text for item in reply.items or ())


# -- requests that are not sent ---------------------------------------------------------------------------------------


def is_unfit(request: list[bytes], client: Client, alone: bool) -> bool:
    """Return whether a request would be answered by the clock, or means something else to 7.0.15.

    alone: nothing goes with it that may put another stream under the key.
    """
    words = [word.upper() for word in request]
    if any(unfit(words) for unfit in UNFIT.values()):
        return True
    value = client.db.values.get(request[1]) if len(request) > 2 else None
    if not alone or client.waiter is not None or client.transaction is not None:
        value = None
    return len(request) > 2 and any(unfit(words, value, client) for unfit in UNFIT_NOW.values())


def _takes_clock(words: list[bytes], value: object, client: Client) -> bool:
    """Whether an ID would come from the clock: `*` is sent only behind an ID of the far future."""
    last_id = value.last_id if isinstance(value, Stream) else 0
    return words[0] == b"XADD" and b"*" in words[2:] and last_id >> 64 <= client.now_ms + TOLERANCE_MS


def _sets_below_deleted(words: list[bytes], value: object, client: Client) -> bool:
    """Whether XSETID would go below the greatest deleted ID, which 7.0.15 allows."""
    if words[0] != b"XSETID":
        return False
    try:
        return not isinstance(value, Stream) or parse_id(words[2]) < value.max_deleted_id
    except CommandError:
        return False


def _stores_where_one_waits(words: list[bytes], value: object, client: Client) -> bool:
    """Whether a result may come to a key of another type for which a pop waits: that wakes nobody there."""
    said = words if words[0].startswith(b"EVAL") else words[:1]
    return any(word.endswith(b"STORE") for word in said) and (bool(client.db.waiting) or client.transaction is not None)


def _leaves_a_set_as_it_is(words: list[bytes], value: object, client: Client) -> bool:
    """Whether SORT shows a set in the order that it happens to have: the pattern of BY has no asterisk."""
    if words[0] not in (b"SORT", b"SORT_RO") or not any(b"*" not in word for word in _behind(words, b"BY")):
        return False
    return value is None or isinstance(value, MemberSet)


def _number(word: bytes) -> int:
    try:
        return int(word)
    except ValueError:
        return _NO_NUMBER


def _soon(words: Iterable[bytes], limit: int = TOLERANCE_MS) -> bool:
    return any(0 < _number(word) <= limit for word in words)


def _behind(words: list[bytes], *options: bytes) -> list[bytes]:
    return [words[at + 1] for at in range(len(words) - 1) if words[at] in options]


def _ends_soon(words: list[bytes]) -> bool:
    if words[0] in (b"EXPIRE", b"SETEX"):
        return _soon(words[2:3], 60)
    if words[0] in (b"PEXPIRE", b"PSETEX"):
        return _soon(words[2:3], 60_000)
    if words[0] in (b"SET", b"GETEX"):
        return _soon(_behind(words, b"EX"), 60) or _soon(_behind(words, b"PX"), 60_000)
    if words[0] in _WAITS_BEHIND and len(words) > 1:
        return 0 < _fraction(words[_WAITS_BEHIND[words[0]]]) * 1000 <= TOLERANCE_MS
    return words[0] in (b"XREAD", b"XREADGROUP") and _soon(_behind(words, b"BLOCK"))


# Where the seconds stand that a pop waits.
_WAITS_BEHIND = {
    **dict.fromkeys((b"BLPOP", b"BRPOP", b"BRPOPLPUSH", b"BLMOVE", b"BZPOPMIN", b"BZPOPMAX"), -1),
    **dict.fromkeys((b"BLMPOP", b"BZMPOP"), 1),
}


def _fraction(word: bytes) -> float:
    try:
        return float(word)
    except ValueError:
        return 0.0


def _measures_idle(words: list[bytes]) -> bool:
    if words[0] in (b"XCLAIM", b"XAUTOCLAIM"):
        return _soon(words[4:5]) or _soon(_behind(words, b"IDLE"))
    return words[0] == b"XPENDING" and _soon(_behind(words, b"IDLE"))


def _reads_last(words: list[bytes]) -> bool:
    return words[0] in (b"XREAD", b"XREADGROUP") and b"+" in words


def _takes_memory(words: list[bytes]) -> bool:
    return words[0] == b"XAUTOCLAIM" and any(_number(word) > 10**6 for word in _behind(words, b"COUNT"))


def waits_for_reads(request: list[bytes]) -> bool:
    """Return whether a request is a read that may wait."""
    words = [word.upper() for word in request]
    return words[0] in (b"XREAD", b"XREADGROUP") and b"BLOCK" in words


def _waits_twice(words: list[bytes]) -> bool:
    if not waits_for_reads(words) or b"STREAMS" not in words:
        return False
    behind = words[words.index(b"STREAMS") + 1 :]
    keys = behind[: len(behind) // 2]
    return len(set(keys)) < len(keys)


def _counts_far(words: list[bytes]) -> bool:
    return any(_number(word) > 2**62 for word in _behind(words, b"RETRYCOUNT", b"ENTRIESADDED", b"ENTRIESREAD"))


def _asks_for_several(words: list[bytes]) -> bool:
    return words[:2] == [b"CONFIG", b"GET"] and any(set(word) & set(b"*?[") for word in words[2:])


def _goes_on(words: list[bytes]) -> bool:
    at = {b"SCAN": 1, b"HSCAN": 2, b"ZSCAN": 2, b"SSCAN": 2}.get(words[0], len(words))
    return _number(words[at]) not in (0, _NO_NUMBER) if at < len(words) else False


def _chooses(words: list[bytes]) -> bool:
    """Whether a server would choose: all members, none, or those of a key that nobody writes are no choice."""
    if words[0] not in (b"SPOP", b"SRANDMEMBER", b"ZRANDMEMBER", b"HRANDFIELD") or words[1:2] == [b"NOTHING"]:
        return False
    return len(words) < 3 or _number(words[2]) < 0 or 0 < _number(words[2]) < 100


UNFIT: dict[str, Callable[[list[bytes]], bool]] = {
    "times": lambda words: _ends_soon(words) or _measures_idle(words),
    "XREAD +": _reads_last,
    "great XAUTOCLAIM COUNT": _takes_memory,
    "one stream twice": _waits_twice,
    "counters at 2^63": _counts_far,
    "cursors": _goes_on,
    "CONFIG GET of several": _asks_for_several,
    "random choices": _chooses,
    "rank with score": lambda words: words[0] in (b"ZRANK", b"ZREVRANK") and len(words) > 3,
    "SYNC": lambda words: words[0] in (b"SYNC", b"PSYNC"),
}

UNFIT_NOW: dict[str, Callable[[list[bytes], object, Client], bool]] = {
    "times": _takes_clock,
    "XSETID below a deleted ID": _sets_below_deleted,
    "order of keys and members": _leaves_a_set_as_it_is,
    "a result over another type": _stores_where_one_waits,
}

# -- pairs of replies that differ because the versions do -------------------------------------------------------------


def is_empty_read(reply: Reply) -> bool:
    """Return whether a reply of XREAD or XREADGROUP shows one stream without entries."""
    items = reply.items or []
    if reply.kind == b"*" and len(items) == 1:
        items = items[0].items or []
    return len(items) == 2 and items[1].items == []


def _wait_ended(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether the key or the group of a blocked XREADGROUP went away, for which 7.0.15 has words of its own."""
    if request[0].upper() != b"XREADGROUP" or theirs.kind != b"-" or ours.kind != b"-":
        return False
    old = (
        b"UNBLOCKED the stream key no longer exists",
        b"NOGROUP the consumer group this client was blocked on no longer exists",
    )
    return theirs.text in old and ours.text.startswith((b"NOGROUP No such key", b"WRONGTYPE"))


def _seqs_used_up(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether the millisecond that XADD names has no seq left: 7.0.15 then gives what reason was last noted."""
    return (
        request[0].upper() == b"XADD"
        and any(word.endswith(b"-*") for word in request[2:])
        and theirs.text == b"ERR Elements are too large to be stored"
        and ours.text == b"ERR The ID specified in XADD is equal or smaller than the target stream top item"
    )


def _names_encoding(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether both name how a value is kept."""
    if [word.upper() for word in request[:2]] != [b"OBJECT", b"ENCODING"]:
        return False
    return theirs.kind == ours.kind == b"$" and b"stream" not in (theirs.text, ours.text)


def _woken_by_one(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether an XREAD that waited shows only the stream that ended the wait, as 7.0.15 does."""
    words = [word.upper() for word in request]
    if words[0] != b"XREAD" or b"BLOCK" not in words or theirs.items is None:
        return False
    left, right = theirs.items, ours.items or []
    if ours.text == str(WrongType()).encode():  # of another key
        return len(left) == (2 if theirs.kind == b"%" else 1)
    if theirs.kind == b"%":
        return len(left) == 2 < len(right) and left in [right[at : at + 2] for at in range(0, len(right), 2)]
    return len(left) == 1 < len(right) and left[0] in right


def _unbalanced(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """The text that 7.0.15 has for both commands; newer ones name the command."""
    return b"Unbalanced" in theirs.text and b"Unbalanced" in ours.text


def _waits_too_long(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether a wait is longer than a 64-bit number of milliseconds, which 7.0.15 takes for a negative one."""
    return ours.text == b"ERR timeout is out of range" and theirs.text == b"ERR timeout is negative"


def _negative_zero(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether a large sorted set shows -0 for a score, where a small one, and streamd, show 0."""
    return b"Z" in request[0].upper()[:2] and _without_negative_zero(theirs) == _without_negative_zero(ours)


def _without_negative_zero(reply: Reply) -> Reply:
    if reply.items is not None:
        return replace(reply, items=[_without_negative_zero(item) for item in reply.items])
    return replace(reply, text=b"0") if reply.text == b"-0" else reply


def _no_number_of_keys(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether a script was refused whose number of keys is none: there was no key to be refused."""
    return (
        request[0].upper().startswith(b"EVAL")
        and (theirs.kind, ours.kind) == (b"-", b"-")
        and theirs.text.startswith(b"NOPERM")
        and ours.text == b"ERR value is not an integer or out of range"
    )


RULES: dict[str, Callable[[list[bytes], Reply, Reply], bool]] = {
    "end of a wait": _wait_ended,
    "XADD ms-* without a seq left": _seqs_used_up,
    "OBJECT ENCODING": _names_encoding,
    "unbalanced XREAD": _unbalanced,
    "a wait beyond 2^63": _waits_too_long,
    "a score of -0": _negative_zero,
    "XREAD that waited for several streams": _woken_by_one,
    "a number of keys like +1": _no_number_of_keys,
}

ALLOWED = {*FIELDS, *STATE, *UNFIT, *UNFIT_NOW, *RULES}
