"""Takes elements from the first of several keys that has any, or waits for that."""

from collections.abc import Callable, Sequence
from typing import Any

from streamd.base.errors import CommandError, SyntaxError_
from streamd.catalog import Context
from streamd.catalog.arguments import Arguments
from streamd.catalog.counted_keys import take_counted_keys
from streamd.connected.blocking import BLOCKED
from streamd.data.types import ValueType
from streamd.resp.types import NULL_ARRAY, Reply


def parse_several(words: Arguments, end: bytes, other: bytes) -> tuple[list[bytes], bool, int]:
    """Parse the arguments of LMPOP, ZMPOP and the like: keys, whether from this end or the other, and how many.

    Raises: CommandError.
    """
    keys = take_counted_keys(words, "ERR numkeys should be greater than 0")
    is_end = words.flag(end)
    if not is_end and not words.flag(other):
        raise SyntaxError_()
    count = 1
    if words.flag(b"COUNT", followed_by=1):
        error = CommandError("ERR count should be greater than 0")
        count = words.integer(error)
        if count < 1:
            raise error
    words.end()
    return keys, is_end, count


def take_first(
    context: Context, keys: Sequence[bytes], kind: ValueType[Any, Any], take: Callable[[bytes], Reply | None]
) -> Reply | None:
    """Return the result of `take` for the first key that exists, or None. Raises: WrongType.

    take: returns None where there is too little at the key.
    """
    for key in keys:
        if context.db.get_as(key, kind) is not None:
            return take(key)
    return None


def take_or_wait(
    context: Context,
    keys: Sequence[bytes],
    kind: ValueType[Any, Any],
    take: Callable[[bytes], Reply | None],
    timeout_ms: int,
    in_transaction: Reply = NULL_ARRAY,
) -> Reply:
    """Return the result of `take` for the first key that exists, as soon as one does, and has enough.

    in_transaction: the reply where no client may wait. A key that gets a value of another type ends no wait, but is an
    error at its end if it stands before the key that ends it.
    Raises: WrongType.
    """
    reply = take_first(context, keys, kind, take)
    if reply is not None:
        return reply
    if context.in_unit:
        return in_transaction

    return context.block(keys, timeout_ms, _Attempt(context, keys, kind, take), on_timeout=NULL_ARRAY)


class _Attempt:
    """The command that is repeated for a waiting client. (Compiled, a closure would keep its client in memory.)"""

    __slots__ = ("context", "keys", "kind", "take")

    def __init__(
        self, context: Context, keys: Sequence[bytes], kind: ValueType[Any, Any], take: Callable[[bytes], Reply | None]
    ) -> None:
        self.context = context
        self.keys = keys
        self.kind = kind
        self.take = take

    def __call__(self) -> Reply:
        """Return the result of `take`, or BLOCKED. Raises: WrongType."""
        ready = self.context.state.blocked.serving
        if ready is not None and type(self.context.db.peek(ready)) is not self.kind.holds:
            return BLOCKED
        reply = take_first(self.context, self.keys, self.kind, self.take)
        return BLOCKED if reply is None else reply
