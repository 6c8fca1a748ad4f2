"""Unions, intersections and differences of sets."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, filterfalse, islice

from streamd.base.errors import CommandError, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments
from streamd.catalog.counted_keys import CountedKeys, take_counted_keys
from streamd.commands.keys.results import store_result
from streamd.data.member_set import MemberSet
from streamd.data.types import SET
from streamd.resp.types import Reply, SetReply


def _operands(context: Context, keys: list[bytes]) -> list[MemberSet]:
    return [context.db.read_as(key, SET) or MemberSet() for key in keys]


def common(operands: Sequence[Collection[bytes]]) -> Iterator[bytes]:
    """Yield the common members: each of the smallest set is looked up in the others, smaller ones first."""
    least, *others = sorted(operands, key=len)
    found = iter(least)
    for other in others:
        found = filter(other.__contains__, found)
    return found


def _union(operands: list[MemberSet]) -> Iterable[bytes]:
    return dict.fromkeys(chain.from_iterable(operands))


def _difference(operands: list[MemberSet]) -> Iterator[bytes]:
    first, *others = operands
    found = iter(first)
    for other in others:
        found = filterfalse(other.__contains__, found)
    return found


def _declare(name: str, operation: Callable[[list[MemberSet]], Iterable[bytes]], what: str) -> None:
    def show(context: Context, args: list[bytes]) -> Reply:
        return SetReply(list(operation(_operands(context, args[1:]))))

    def store(context: Context, args: list[bytes]) -> Reply:
        found = MemberSet(operation(_operands(context, args[2:])))
        return store_result(context, args[1], SET, found, "s", f"{name.lower()}store")

    complexity = "O(N), N the members of all"
    command(
        name, arity=-2, flags="readonly", keys=(1, -1, 1), since="1.0.0", complexity=complexity, group="set",
        syntax="key [key ...]", access="RO access", tips="nondeterministic_output_order",
        summary=f"Return {what} sets.",
    )(show)  # fmt: skip
    command(
        f"{name}STORE", arity=-3, flags="write denyoom", keys=(1, -1, 1), since="1.0.0", complexity=complexity,
        group="set", syntax="destination key [key ...]", access="OW update; RO access",
        summary=f"Put {what} sets at a key; return how many members it has.",
    )(store)  # fmt: skip


_declare("SINTER", common, "the intersection of")
_declare("SUNION", _union, "the union of")
_declare("SDIFF", _difference, "what the first has and no other of")


def _declare_card(
    name: str, since: str, complexity: str, operation: Callable[[list[MemberSet]], Iterable[bytes]],
    options: str, summary: str,
) -> None:  # fmt: skip
    """options: words that may stand beside LIMIT; APPROX allows an estimate, and the number is exact all the same."""

    def handler(context: Context, args: list[bytes]) -> Reply:
        words = Arguments(args, 1)
        keys = take_counted_keys(
            words, "ERR numkeys should be greater than 0", "ERR Number of keys can't be greater than number of args"
        )
        limit = take_limit(words, b"APPROX" if options else b"")
        found = operation(_operands(context, keys))
        return sum(1 for _ in (islice(found, limit) if limit else found))

    command(
        name, arity=-3, flags="readonly", since=since, complexity=complexity, group="set", find_keys=CountedKeys(1),
        syntax=f"numkeys:integer key [key ...] {options}[LIMIT limit:integer]", access="RO access", summary=summary,
    )(handler)  # fmt: skip


_declare_card(
    "SINTERCARD", "7.0.0", "O(N*K), N the members of the smallest of K", common, "",
    "Return the number of members that all sets share, counted up to a limit.",
)  # fmt: skip
_declare_card(
    "SUNIONCARD", "8.10.0", "O(N), N the members of all", _union, "[APPROX] ",
    "Return the number of members of the union of sets, counted up to a limit.",
)  # fmt: skip
_declare_card(
    "SDIFFCARD", "8.10.0", "O(N), N the members of all", _difference, "",
    "Return the number of members that the first set has and no other, counted up to a limit.",
)  # fmt: skip


def take_limit(words: Arguments, ignored: bytes = b"") -> int:
    """Parse an optional `LIMIT number`, and a word that is ignored; 0 for no limit. Raises: CommandError."""
    limit = 0
    error = CommandError("ERR LIMIT can't be negative")
    while words.left():
        if ignored and words.flag(ignored):
            continue
        if not words.flag(b"LIMIT", followed_by=1):
            raise SyntaxError_()
        limit = words.integer(error)
        if limit < 0:
            raise error
    return limit
