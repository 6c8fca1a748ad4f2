"""Commands on the members of a sorted set: adding, removing and looking at single ones."""

from collections.abc import Iterable
from math import isnan
from typing import Final

from streamd.base.errors import CommandError, SyntaxError_, WrongArity
from streamd.catalog import Batch, Context, command
from streamd.catalog.arguments import Arguments, parse_double, take_random_count
from streamd.commands.keys.results import end_removal, with_values
from streamd.commands.keys.runs import zadd_run, zscore_run
from streamd.commands.keys.scan_pages import page_reply
from streamd.data.sorted_set import SortedSet
from streamd.data.types import SORTED_SET
from streamd.resp.floats import format_float
from streamd.resp.types import NULL_ARRAY, Reply

_OLOG: Final = "O(log(N)) for each member, N the members"


_OPTIONS: Final = frozenset({b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"})


class _Conditions:
    """When ZADD changes a member: the options in front of its scores."""

    __slots__ = ("counts_changes", "greater", "increments", "less", "new_only", "old_only")

    def __init__(self, words: Arguments) -> None:
        taken: set[bytes | None] = set()
        while (option := words.peek()) in _OPTIONS:
            taken.add(option)
            words.at += 1
        self.new_only, self.old_only = b"NX" in taken, b"XX" in taken
        self.greater, self.less = b"GT" in taken, b"LT" in taken
        self.counts_changes, self.increments = b"CH" in taken, b"INCR" in taken

    def check(self, words: int) -> None:
        """Check that the options agree, with this many words behind them. Raises: CommandError."""
        if words % 2 or not words:
            raise SyntaxError_()
        if self.new_only and self.old_only:
            raise CommandError("ERR XX and NX options at the same time are not compatible")
        if self.greater + self.less + self.new_only > 1:
            raise CommandError("ERR GT, LT, and/or NX options at the same time are not compatible")
        if self.increments and words > 2:
            raise CommandError("ERR INCR option supports a single increment-element pair")

    def score(self, before: float | None, asked: float) -> float | None:
        """Return the new score of a member, None if it does not change. Raises: CommandError."""
        if before is None:
            return None if self.old_only else asked
        if self.new_only:
            return None
        score = before + asked if self.increments else asked
        if isnan(score):
            raise CommandError("ERR resulting score is not a number (NaN)")
        if (self.less and score >= before) or (self.greater and score <= before):
            return None
        return score


def _add(context: Context, key: bytes, conditions: _Conditions, pairs: list[tuple[bytes, float]]) -> Reply:
    value = context.db.get_as(key, SORTED_SET)
    if value is None:
        if conditions.old_only:
            return None if conditions.increments else 0
        context.db.put(key, value := SortedSet())
    scores = value.scores
    added = updated = 0
    score: float | None = None
    decided: list[bytes] = []
    try:
        for member, asked in pairs:
            before = scores.get(member)
            score = conditions.score(before, asked)
            if score is None or score == before:
                continue
            score += 0.0  # of -0.0 that makes 0
            if before is None:
                added += 1
            else:
                updated += 1
            value.put(member, score)
            decided += (format_float(score), member)
    finally:
        if not len(value):
            context.db.remove(key)
        if decided:
            context.record_words([b"ZADD", key, *decided], added + updated)
            context.changed(key, "z", "zincr" if conditions.increments else "zadd")
    if conditions.increments:
        return score
    return added + updated if conditions.counts_changes else added


def _add_one(context: Context, key: bytes, score: float, member: bytes) -> int:
    """Add a member, or change its score, without any condition: a faster `_add`."""
    db = context.db
    if member == db.newest:
        member = db.newest  # a reference to what was stored just now: both hold the same bytes
    value = db.get_as(key, SORTED_SET)
    if value is None:
        db.put(key, value := SortedSet())
    before = value.scores.get(member)
    if before == score:
        return 0
    value.put(member, score)
    state = context.state
    state.dirty += 1
    if state.records is not None:
        state.records.append((db.index, [b"ZADD", key, format_float(score), member]))
    if key in db.followed:
        context.changed(key, "z", "zadd")
    return 1 if before is None else 0


@command(
    "ZADD", arity=-4, flags="write denyoom fast", keys=(1, 1, 1), since="1.2.0", complexity=_OLOG, group="sorted-set",
    syntax="key [NX | XX] [GT | LT] [CH] [INCR] score:double member [score:double member ...]", access="RW update",
    batch=Batch(zadd_run, any_keys=True),
)  # fmt: skip
def zadd(context: Context, args: list[bytes]) -> Reply:
    """Add members to a sorted set or change their scores.

    Reply: the number of new members, with CH also of changed ones; with INCR the score, or nil if a condition kept it
    from being changed.
    """
    if len(args) == 4 and args[2].isdigit() and len(args[2]) < 16:  # most requests
        return _add_one(context, args[1], float(args[2]), args[3])
    if len(args) == 4 and args[2].upper() not in _OPTIONS:
        conditions, at = _NO_CONDITIONS, 2
    else:
        words = Arguments(args, 2)
        conditions, at = _Conditions(words), words.at
        conditions.check(len(args) - at)
    pairs = [(args[at + 1], parse_double(args[at])) for at in range(at, len(args), 2)]
    return _add(context, args[1], conditions, pairs)


_NO_CONDITIONS: Final = _Conditions(Arguments([], 0))
_INCREMENT: Final = _Conditions(Arguments([b"INCR"], 0))


@command(
    "ZINCRBY", arity=4, flags="write denyoom fast", keys=(1, 1, 1), since="1.2.0", complexity=_OLOG,
    group="sorted-set", syntax="key increment:integer member", access="RW access update",
)  # fmt: skip
def zincrby(context: Context, args: list[bytes]) -> Reply:
    """Add to the score of a member and return it; a missing member counts as 0."""
    return _add(context, args[1], _INCREMENT, [(args[3], parse_double(args[2]))])


@command(
    "ZREM", arity=-3, flags="write fast", keys=(1, 1, 1), since="1.2.0", complexity=_OLOG, group="sorted-set",
    syntax="key member [member ...]", access="RW delete",
)  # fmt: skip
def zrem(context: Context, args: list[bytes]) -> Reply:
    """Remove members; return the number of those that existed. A sorted set without members is removed."""
    key, db, state = args[1], context.db, context.state
    value = db.get_as(key, SORTED_SET)
    if value is None:
        return 0
    removed = args[2:]
    if len(removed) > 1 or not value.drop(removed[0]):
        removed = [member for member in removed if value.drop(member)]
    if removed and key not in db.followed:
        # As `end_removal`, where nobody hears of it.
        state.dirty += len(removed)
        if state.records is not None:
            state.records.append((db.index, [b"ZREM", key, *removed]))
        if not value.scores:
            db.remove(key)
    else:
        end_removal(context, key, value, removed, b"ZREM", "z", "zrem")
    return len(removed)


@command(
    "ZCARD", arity=2, flags="readonly fast", keys=(1, 1, 1), since="1.2.0", complexity="O(1)", group="sorted-set",
    syntax="key", access="RO",
)  # fmt: skip
def zcard(context: Context, args: list[bytes]) -> Reply:
    """Return the number of members of a sorted set."""
    value = context.db.read_as(args[1], SORTED_SET)
    return 0 if value is None else len(value)


@command(
    "ZSCORE", arity=3, flags="readonly fast", keys=(1, 1, 1), since="1.2.0", complexity="O(1)", group="sorted-set",
    syntax="key member", access="RO access", batch=Batch(zscore_run, any_keys=True),
)  # fmt: skip
def zscore(context: Context, args: list[bytes]) -> Reply:
    """Return the score of a member, or nil."""
    value = context.db.read_as(args[1], SORTED_SET)
    return None if value is None else value.scores.get(args[2])


@command(
    "ZMSCORE", arity=-3, flags="readonly fast", keys=(1, 1, 1), since="6.2.0", complexity="O(N), N the members",
    group="sorted-set", syntax="key member [member ...]", access="RO access",
)  # fmt: skip
def zmscore(context: Context, args: list[bytes]) -> Reply:
    """Return the scores of members; nil for missing ones."""
    value = context.db.read_as(args[1], SORTED_SET)
    scores = {} if value is None else value.scores
    return [scores.get(member) for member in args[2:]]


def _declare_rank(name: str, side: str, reverse: bool) -> None:
    def handler(context: Context, args: list[bytes]) -> Reply:
        if len(args) > 4:
            raise WrongArity(name.lower())
        words = Arguments(args, 3)
        shows_score = words.flag(b"WITHSCORE")
        words.end()
        value = context.db.read_as(args[1], SORTED_SET)
        if value is None or args[2] not in value.scores:
            return NULL_ARRAY if shows_score else None
        place = value.rank(args[2])
        if reverse:
            place = len(value) - 1 - place
        return [place, value.scores[args[2]]] if shows_score else place

    command(
        name, arity=-3, flags="readonly fast", keys=(1, 1, 1), since="2.0.0", complexity=_OLOG, group="sorted-set",
        syntax="key member [WITHSCORE]", access="RO access",
        summary=f"Return the number of members {side} a member, with its score if asked for; nil if it is missing.",
    )(handler)  # fmt: skip


_declare_rank("ZRANK", "before", reverse=False)
_declare_rank("ZREVRANK", "behind", reverse=True)


@command(
    "ZRANDMEMBER", arity=-2, flags="readonly", keys=(1, 1, 1), since="6.2.0", complexity="O(N), N the members returned",
    group="sorted-set", syntax="key [count [WITHSCORES]]", access="RO access", tips="nondeterministic_output",
)  # fmt: skip
def zrandmember(context: Context, args: list[bytes]) -> Reply:
    """Return random members of a sorted set: one, or several different ones, or with a negative count any."""
    random = context.state.random
    if len(args) == 2:
        value = context.db.read_as(args[1], SORTED_SET)
        if value is None:
            return None
        place = random.randrange(len(value))
        return value.members(place, place + 1)[0]
    count, shows_scores = take_random_count(args, b"WITHSCORES")
    value = context.db.read_as(args[1], SORTED_SET)
    if value is None or not count:
        return []
    if count < 0:
        members = random.choices(value.members(0, len(value)), k=-count)
    elif count >= len(value):
        members = value.members(0, len(value))
    else:
        members = [value.members(place, place + 1)[0] for place in random.sample(range(len(value)), count)]
    return with_values(context, members, value.scores) if shows_scores else members


@command(
    "ZSCAN", arity=-3, flags="readonly", keys=(1, 1, 1), since="2.8.0",
    complexity="O(COUNT)", group="sorted-set",
    syntax="key cursor [MATCH pattern] [COUNT count]", access="RO access", tips="nondeterministic_output",
)  # fmt: skip
def zscan(context: Context, args: list[bytes]) -> Reply:
    """Return a page of the members with their scores, and the cursor of the next page; a small set is one page.

    A member that is there all the time is returned, and only once unless others are removed and added meanwhile.

    Reply: array of the next cursor, 0 at the end, and an array of members and scores.
    """

    def beside(value: SortedSet, members: list[bytes]) -> Iterable[bytes]:
        return map(format_float, map(value.scores.__getitem__, members))

    return page_reply(context, args, SORTED_SET, beside)
