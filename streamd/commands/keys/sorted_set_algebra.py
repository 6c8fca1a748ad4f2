"""Unions, intersections and differences of sorted sets, of plain sets too."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from math import isnan
from typing import Final

from streamd.base.errors import CommandError, NotAnInteger, SyntaxError_, WrongType
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_double
from streamd.catalog.counted_keys import CountedKeys, take_counted_keys
from streamd.commands.keys.results import store_result, with_values
from streamd.commands.keys.set_algebra import common, take_limit
from streamd.data.member_set import MemberSet
from streamd.data.sorted_set import SortedSet
from streamd.data.types import SORTED_SET
from streamd.resp.types import Reply

Scores = dict[bytes, float]
Aggregate = Callable[[float, float], float]


def _sum(one: float, other: float) -> float:
    total = one + other
    return 0.0 if isnan(total) else total


_AGGREGATES: Final[dict[bytes, Aggregate]] = {b"SUM": _sum, b"COUNT": _sum, b"MIN": min, b"MAX": max}


@dataclass(slots=True)
class _Asked:
    """The operands of a request, with their weights, and how scores are combined.

    counts: whether each score counts as 1 before it is weighted.
    """

    operands: list[Scores]
    weights: list[float] = field(default_factory=list)
    aggregate: Aggregate = _sum
    counts: bool = False
    shows_scores: bool = False


def _operand(context: Context, key: bytes) -> Scores:
    value = context.db.read(key)
    if value is None:
        return {}
    if isinstance(value, SortedSet):
        return value.scores
    if isinstance(value, MemberSet):
        return value
    raise WrongType()


def _parse(context: Context, args: list[bytes], at: int, stores: bool, weighted: bool) -> _Asked:
    """Parse a request from the number of its keys on. Raises: CommandError."""
    words = Arguments(args, at)
    operands = _operands(context, words, args[0].decode().lower())
    asked = _Asked(operands, [1.0] * len(operands))
    while words.left():
        if weighted and words.flag(b"WEIGHTS", followed_by=len(operands)):
            error = CommandError("ERR weight value is not a float")
            asked.weights = [parse_double(words.word(), error) for _ in operands]
        elif weighted and words.flag(b"AGGREGATE", followed_by=1):
            name = words.word().upper()
            if name not in _AGGREGATES:
                raise SyntaxError_()
            asked.aggregate, asked.counts = _AGGREGATES[name], name == b"COUNT"
        elif not stores and words.flag(b"WITHSCORES"):
            asked.shows_scores = True
        else:
            raise SyntaxError_()
    return asked


def _operands(context: Context, words: Arguments, name: str) -> list[Scores]:
    """Take a number and so many keys, and return their values. Raises: CommandError."""
    too_few = f"ERR at least 1 input key is needed for '{name}' command"
    return [_operand(context, key) for key in take_counted_keys(words, too_few, no_number=NotAnInteger())]


def _weighted(score: float, weight: float) -> float:
    product = score * weight
    return 0.0 if isnan(product) else product


def _smallest_first(asked: _Asked) -> list[tuple[Scores, float]]:
    return sorted(zip(asked.operands, asked.weights, strict=True), key=lambda pair: len(pair[0]))


def _union(asked: _Asked) -> Scores:
    found: Scores = {}
    for scores, weight in _smallest_first(asked):
        for member, score in scores.items():
            score = _weighted(1.0 if asked.counts else score, weight)
            found[member] = asked.aggregate(found[member], score) if member in found else score
    return found


def _intersection(asked: _Asked) -> Scores:
    (least, weight), *others = _smallest_first(asked)
    found: Scores = {}
    for member, score in least.items():
        if all(member in scores for scores, _ in others):
            total = _weighted(1.0 if asked.counts else score, weight)
            for scores, other_weight in others:
                total = asked.aggregate(total, (1.0 if asked.counts else scores[member]) * other_weight)
            found[member] = total
    return found


def _difference(asked: _Asked) -> Scores:
    first, *others = asked.operands
    return {member: score for member, score in first.items() if not any(member in scores for scores in others)}


def _declare(
    name: str, since: str, operation: Callable[[_Asked], Scores], weighted: bool, complexity: str, what: str
) -> None:
    options = " [WEIGHTS weight:integer [weight:integer ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]" if weighted else ""

    def show(context: Context, args: list[bytes]) -> Reply:
        asked = _parse(context, args, 1, stores=False, weighted=weighted)
        found = SortedSet(operation(asked))
        members = found.members(0, len(found))
        return with_values(context, members, found.scores) if asked.shows_scores else members

    def store(context: Context, args: list[bytes]) -> Reply:
        asked = _parse(context, args, 2, stores=True, weighted=weighted)
        # The sum of -0.0 and 0.0 is 0.
        found = SortedSet({member: score + 0.0 for member, score in operation(asked).items()})
        return store_result(context, args[1], SORTED_SET, found, "z", f"{name.lower()}store")

    command(
        name, arity=-3, flags="readonly", since="6.2.0", complexity=complexity, group="sorted-set",
        find_keys=CountedKeys(1), syntax=f"numkeys:integer key [key ...]{options} [WITHSCORES]", access="RO access",
        summary=f"Return {what} sorted sets, with scores if asked for.",
    )(show)  # fmt: skip
    command(
        f"{name}STORE", arity=-4, flags="write denyoom", keys=(1, 1, 1), since=since, complexity=complexity,
        group="sorted-set", find_keys=CountedKeys(2, target=1),
        syntax=f"destination numkeys:integer key [key ...]{options}", access="OW update; RO access",
        summary=f"Put {what} sorted sets at a key; return how many members it has.",
    )(store)  # fmt: skip


_LOG = "O(N)+O(M*log(M)), N the members of all, M those of the result"
_declare("ZUNION", "2.0.0", _union, True, _LOG, "the union of")
_declare("ZINTER", "2.0.0", _intersection, True, _LOG, "the intersection of")
_declare("ZDIFF", "6.2.0", _difference, False, _LOG, "what the first has and no other of")


@command(
    "ZINTERCARD", arity=-3, flags="readonly", since="7.0.0", complexity="O(N*K), N the members of the smallest of K",
    group="sorted-set", find_keys=CountedKeys(1), syntax="numkeys:integer key [key ...] [LIMIT limit:integer]",
    access="RO access",
)  # fmt: skip
def zintercard(context: Context, args: list[bytes]) -> Reply:
    """Return the number of members that all sorted sets share, counted up to a limit."""
    words = Arguments(args, 1)
    operands = _operands(context, words, "zintercard")
    limit = take_limit(words)
    found = common(operands)
    return sum(1 for _ in (islice(found, limit) if limit else found))
