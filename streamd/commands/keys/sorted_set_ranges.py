"""Commands on ranges of a sorted set: by place, by score, by member."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from streamd.base.errors import CommandError, SyntaxError_
from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.catalog import Batch, Context, command
from streamd.catalog.arguments import Arguments, parse_bound, parse_integer
from streamd.commands.keys.results import end_removal, store_result, with_values
from streamd.data.sorted_set import SortedSet
from streamd.data.types import SORTED_SET
from streamd.resp.floats import format_float
from streamd.resp.template import Requests
from streamd.resp.types import Raw, Reply

By = Literal["rank", "score", "lex"]
# Finds the places, `start` and behind the last one, of a range.
Finder = Callable[[SortedSet], tuple[int, int]]

_OLOG: Final = "O(log(N)+M), N the members, M those in the range"


def _by_rank(first: bytes, last: bytes, reverse: bool = False) -> Finder:
    start, stop = parse_integer(first), parse_integer(last)

    def find(value: SortedSet) -> tuple[int, int]:
        length = len(value)
        begin = max(0, start + length if start < 0 else start)
        end = min(length, (stop + length if stop < 0 else stop) + 1)
        return (length - end, length - begin) if reverse else (begin, end)

    return find


def _by_score(least: bytes, most: bytes) -> Finder:
    (low, leaves_low), (high, leaves_high) = parse_bound(least), parse_bound(most)

    def find(value: SortedSet) -> tuple[int, int]:
        start = value.up_to(low) if leaves_low else value.below(low)
        return start, value.below(high) if leaves_high else value.up_to(high)

    return find


def _by_lex(least: bytes, most: bytes) -> Finder:
    for word in (least, most):
        if word not in (b"-", b"+") and word[:1] not in (b"(", b"["):
            raise CommandError("ERR min or max not valid string range item")

    def place(value: SortedSet, bound: bytes, is_start: bool) -> int:
        if bound in (b"-", b"+"):
            return 0 if bound == b"-" else len(value)
        includes = bound[:1] == b"["
        # What comes next behind a word is the word with a zero byte behind it.
        return value.below_word(bound[1:] if includes is is_start else bound[1:] + b"\0")

    return lambda value: (place(value, least, True), place(value, most, False))


_FINDERS: Final[dict[By, Callable[[bytes, bytes], Finder]]] = {"rank": _by_rank, "score": _by_score, "lex": _by_lex}


@dataclass(slots=True)
class _Range:
    """The wanted range: its kind, its order, its limit, whether with scores.

    ready: the stamp of a sorted set -> the reply, short ones only: a set that does not change between two requests is
    asked the same again and again.
    """

    find: Finder
    reverse: bool
    offset: int
    count: int
    shows_scores: bool
    is_by_rank: bool = False
    ready: dict[int, Raw] = field(default_factory=dict)

    def members(self, value: SortedSet) -> list[bytes]:
        """Return the members in the wanted order."""
        start, stop = self.find(value)
        if self.offset < 0 or start >= stop:
            return []
        if self.reverse:
            stop -= self.offset
            start = start if self.count < 0 else max(start, stop - self.count)
            return value.members(start, stop)[::-1] if start < stop else []
        start += self.offset
        stop = stop if self.count < 0 else min(stop, start + self.count)
        return value.members(start, stop) if start < stop else []


def _parse(args: list[bytes], by: By | None, reverse: bool | None, stores: bool = False) -> _Range:
    """Parse a request whose range stands at `args[2]`, or behind the source of a store.

    by, reverse: fixed by the command; None where an option decides. Raises: CommandError.
    """
    at = 3 if stores else 2
    words = Arguments(args, at + 2)
    offset, count, shows_scores = 0, -1, False
    asked_by, asked_reverse = by, reverse
    while words.left():
        if not stores and words.flag(b"WITHSCORES"):
            shows_scores = True
        elif words.flag(b"LIMIT", followed_by=2):
            offset, count = words.integer(), words.integer()
        elif asked_reverse is None and words.flag(b"REV"):
            asked_reverse = True
        elif asked_by is None and words.flag(b"BYLEX"):
            asked_by = "lex"
        elif asked_by is None and words.flag(b"BYSCORE"):
            asked_by = "score"
        else:
            raise SyntaxError_()
    if count != -1 and asked_by in (None, "rank"):
        raise CommandError("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
    if shows_scores and asked_by == "lex":
        raise CommandError("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
    first, last = args[at : at + 2]
    if asked_by in (None, "rank"):
        reverse = bool(asked_reverse)
        return _Range(_by_rank(first, last, reverse), reverse, 0, -1, shows_scores, is_by_rank=True)
    if asked_reverse:
        first, last = last, first
    return _Range(_FINDERS[asked_by](first, last), bool(asked_reverse), offset, count, shows_scores)


# What ZRANGE and ZREVRANGE were asked for by place, by the words behind the key and which of the two it was: clients
# ask for the same again and again.
_asked: Final[dict[tuple[bytes | bool | None, ...], _Range]] = {}
_ASKED_MAX: Final = 200
# Of each so many replies are kept that are no longer: a few megabytes in all.
_READY_MAX: Final = 16
_READY_BYTES_MAX: Final = 1_024


def _show(context: Context, args: list[bytes], by: By | None, reverse: bool | None) -> Reply:
    words = (reverse, *args[2:])
    asked = _asked.get(words) if by is None or by == "rank" else None
    if asked is None:
        asked = _parse(args, by, reverse)
        if asked.is_by_rank and len(words) <= 5:
            if len(_asked) >= _ASKED_MAX:
                _asked.clear()
            _asked[words] = asked
    value = context.db.read_as(args[1], SORTED_SET)
    if value is None:
        return []
    if context.protocol == 2 and not context.in_unit:
        ready = asked.ready.get(value.stamp) or _ready(asked, value)
        if ready is not None:
            return ready
    members = asked.members(value)
    return with_values(context, members, value.scores) if asked.shows_scores else members


def _ready(asked: _Range, value: SortedSet) -> Raw | None:
    """Return a range in RESP2, in a third of the time, and keep it; None for a long one."""
    members, scores = asked.members(value), value.scores
    if len(members) > SLICED_ITEMS_MIN:
        return None
    if not asked.shows_scores:
        words = [b"$%d\r\n%b\r\n" % (len(member), member) for member in members]
    else:
        words = []
        for member in members:
            score = format_float(scores[member])
            words.append(b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(member), member, len(score), score))
    reply = Raw(b"*%d\r\n%b" % (len(words) << asked.shows_scores, b"".join(words)))
    if asked.is_by_rank and len(reply.data) <= _READY_BYTES_MAX:
        if len(asked.ready) >= _READY_MAX:
            asked.ready.clear()
        asked.ready[value.stamped()] = reply
    return reply


def range_run(context: Context, requests: Requests) -> int:
    """Return short ranges by place, as were asked for before: a run of ZRANGEs for whatever keys; see Batch.

    A property test holds this against the handler.
    """
    if context.protocol != 2:
        return 0
    db, name = context.db, requests.first[0]
    expires_ms, now_ms = db.expires_ms, db.time.ms
    replies: list[bytes] = []
    for request in requests.rows():
        asked = _asked.get((None, *request[2:])) if request[0] == name else None
        value = db.values.get(request[1]) if asked is not None else None
        if asked is None or type(value) is not SortedSet:
            break
        if request[1] in expires_ms and expires_ms[request[1]] <= now_ms:
            break
        reply = asked.ready.get(value.stamp) or _ready(asked, value)
        if reply is None or len(reply.data) > _READY_BYTES_MAX:
            break  # the engine counts what is long
        db.touched[request[1]] = db.time.s
        replies.append(reply.data)
    db.hits += len(replies)
    context.out += replies
    return len(replies)


def _declare_range(name: str, since: str, by: By | None, reverse: bool | None, syntax: str, summary: str) -> None:
    def handler(context: Context, args: list[bytes]) -> Reply:
        return _show(context, args, by, reverse)

    command(
        name, arity=-4, flags="readonly", keys=(1, 1, 1), since=since, complexity=_OLOG, group="sorted-set",
        syntax=syntax, access="RO access", batch=Batch(range_run, any_keys=True) if name == "ZRANGE" else None,
        summary=summary,
    )(handler)  # fmt: skip


for _name, _since, _by, _reverse, _syntax, _summary in (
    (
        "ZRANGE", "1.2.0", None, None,
        "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        "Return members of a sorted set between two places, scores or members.",
    ),
    (
        "ZRANGEBYSCORE", "1.0.5", "score", False, "key min:double max:double [WITHSCORES] [LIMIT offset count]",
        "Return members whose scores are between two.",
    ),
    (
        "ZREVRANGE", "1.2.0", "rank", True, "key start:integer stop:integer [WITHSCORES]",
        "Return members between two places, the last ones first.",
    ),
    (
        "ZREVRANGEBYSCORE", "2.2.0", "score", True, "key max:double min:double [WITHSCORES] [LIMIT offset count]",
        "Return members whose scores are between two, the last ones first.",
    ),
    (
        "ZRANGEBYLEX", "2.8.9", "lex", False, "key min max [LIMIT offset count]",
        "Return members between two words, where all scores are the same.",
    ),
    (
        "ZREVRANGEBYLEX", "2.8.9", "lex", True, "key max min [LIMIT offset count]",
        "Return members between two words, the last ones first, where all scores are the same.",
    ),
):  # fmt: skip
    _declare_range(_name, _since, _by, _reverse, _syntax, _summary)  # type: ignore[arg-type]


@command(
    "ZRANGESTORE", arity=-5, flags="write denyoom", keys=(1, 2, 1), since="6.2.0", complexity=_OLOG,
    group="sorted-set", syntax="dst:key src:key min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
    access="OW update; RO access",
)  # fmt: skip
def zrangestore(context: Context, args: list[bytes]) -> Reply:
    """Store a range of a sorted set at another key; return the number of its members."""
    asked = _parse(args, None, None, stores=True)
    value = context.db.read_as(args[2], SORTED_SET)
    stored = SortedSet()
    if value is not None:
        for member in asked.members(value):
            stored.put(member, value.scores[member])
    return store_result(context, args[1], SORTED_SET, stored, "z", "zrangestore")


def _declare_count(name: str, since: str, by: By, syntax: str, summary: str) -> None:
    finder = _FINDERS[by]

    def handler(context: Context, args: list[bytes]) -> Reply:
        find = finder(args[2], args[3])
        value = context.db.read_as(args[1], SORTED_SET)
        if value is None:
            return 0
        start, stop = find(value)
        return max(0, stop - start)

    command(
        name, arity=4, flags="readonly fast", keys=(1, 1, 1), since=since, complexity="O(log(N))",
        group="sorted-set", syntax=syntax, access="RO access", summary=summary,
    )(handler)  # fmt: skip


def _declare_removal(name: str, since: str, by: By, syntax: str, summary: str) -> None:
    finder, event = _FINDERS[by], name.lower()

    def handler(context: Context, args: list[bytes]) -> Reply:
        find = finder(args[2], args[3])
        value = context.db.get_as(args[1], SORTED_SET)
        if value is None:
            return 0
        start, stop = find(value)
        removed = value.drop_places(start, stop) if start < stop else []
        end_removal(context, args[1], value, removed, b"ZREM", "z", event)
        return len(removed)

    command(
        name, arity=4, flags="write", keys=(1, 1, 1), since=since, complexity=_OLOG, group="sorted-set",
        syntax=syntax, access="RW delete", summary=summary,
    )(handler)  # fmt: skip


_declare_count(
    "ZCOUNT", "2.0.0", "score", "key min:double max:double", "Return the number of members with a score in a range."
)
_declare_count(
    "ZLEXCOUNT", "2.8.9", "lex", "key min max",
    "Return the number of members between two words, where all scores are the same.",
)  # fmt: skip
_declare_removal(
    "ZREMRANGEBYRANK", "2.0.0", "rank", "key start:integer stop:integer",
    "Remove the members between two places; return their number.",
)  # fmt: skip
_declare_removal(
    "ZREMRANGEBYSCORE", "1.2.0", "score", "key min:double max:double",
    "Remove the members with a score in a range; return their number.",
)  # fmt: skip
_declare_removal(
    "ZREMRANGEBYLEX", "2.8.9", "lex", "key min max",
    "Remove the members between two words, where all scores are the same; return their number.",
)  # fmt: skip
