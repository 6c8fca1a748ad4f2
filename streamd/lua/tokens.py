"""Turns values of commands into tokens for Lua, and the tokens of a script's result into a reply."""

from collections.abc import Iterator
from typing import Final

from streamd.base.errors import CommandError
from streamd.resp.floats import format_float
from streamd.resp.plain import plain
from streamd.resp.types import (
    NULL_ARRAY,
    BigNumber,
    LongDouble,
    Pairs,
    Parts,
    Push,
    Raw,
    Reply,
    SetReply,
    Verbatim,
)

# As in lua/redis.lua. A token is bytes, a number, False for nil, True; or None, then a kind, a count, and so many more.
Token = bytes | int | float | bool | None
STATUS: Final = 1
ERROR: Final = 2
FLAT: Final = 3
NESTED: Final = 4
ARRAY: Final = 5
MAP: Final = 6
SET: Final = 7
DOUBLE: Final = 8
BIG_NUMBER: Final = 9
VERBATIM: Final = 10
NIL: Final = 11
BOOLEAN: Final = 12

_INT64_MIN: Final = -(2**63)


def error_text(error: CommandError) -> bytes:
    """Return an error's line in the form that scripts see."""
    return str(error).encode("utf-8", "surrogateescape")


def put_tokens(tokens: list[Token], reply: Reply, protocol: int) -> None:
    """Append the tokens of a command's reply; protocol: 2 or 3, as the script has asked for by redis.setresp."""
    kind = type(reply)
    if kind is bytes or kind is int:
        tokens.append(reply)
    elif reply is None or reply is NULL_ARRAY:
        if protocol == 2:
            tokens.append(False)
        else:
            tokens += (None, NIL, 0)
    elif kind is list or kind is tuple:
        tokens += (None, ARRAY, len(reply))
        for item in reply:
            put_tokens(tokens, item, protocol)
    elif kind is str:
        tokens += (None, STATUS, 1, reply.encode("utf-8", "surrogateescape"))
    elif isinstance(reply, CommandError):
        tokens += (None, ERROR, 1, error_text(reply))
    elif kind is dict:
        _put_map(tokens, list(reply.items()), protocol)
    else:
        _put_rare(tokens, reply, protocol)


def _put_map(tokens: list[Token], pairs: list[tuple[Reply, Reply]], protocol: int) -> None:
    tokens += (None, MAP, len(pairs)) if protocol == 3 else (None, ARRAY, 2 * len(pairs))
    for key, value in pairs:
        put_tokens(tokens, key, protocol)
        put_tokens(tokens, value, protocol)


def _put_rare(tokens: list[Token], reply: Reply, protocol: int) -> None:
    if isinstance(reply, bool):
        tokens.append(reply if protocol == 3 else int(reply))
    elif isinstance(reply, float):
        if protocol == 3:
            tokens += (None, DOUBLE, 1, reply)
        else:
            tokens.append(format_float(reply))
    elif isinstance(reply, Raw | Parts):
        put_tokens(tokens, plain(reply), protocol)
    elif isinstance(reply, Pairs):
        if protocol == 3:
            _put_map(tokens, reply.items, protocol)
        else:
            put_tokens(tokens, [list(pair) for pair in reply.items], protocol)
    elif isinstance(reply, SetReply):
        tokens += (None, SET if protocol == 3 else ARRAY, len(reply.items))
        for item in reply.items:
            put_tokens(tokens, item, protocol)
    elif isinstance(reply, Push):
        put_tokens(tokens, reply.items, protocol)
    elif isinstance(reply, Verbatim):
        if protocol == 3:
            tokens += (None, VERBATIM, 2, reply.format.encode(), reply.data)
        else:
            tokens.append(reply.data)
    elif isinstance(reply, LongDouble):
        if protocol == 3:
            tokens += (None, DOUBLE, 1, float(reply.digits))
        else:
            tokens.append(reply.digits)
    elif isinstance(reply, BigNumber):
        if protocol == 3:
            tokens += (None, BIG_NUMBER, 1, reply.digits)
        else:
            tokens.append(reply.digits)
    else:
        raise TypeError(f"no reply: {type(reply).__name__}")


def integer(number: float) -> int:
    """Return a Lua number as an integer reply: truncated like a C double, the smallest one if it does not fit."""
    if number != number or not -(2.0**63) <= number < 2.0**63:
        return _INT64_MIN
    return int(number)


def build_reply(tokens: Iterator[Token]) -> Reply:
    """Return the reply for a script's result; it consumes all tokens of one value."""
    token = next(tokens)
    kind = type(token)
    if kind is bytes:
        return token
    if kind is int:
        return token
    if kind is float:
        return integer(token)  # type: ignore[arg-type]
    if token is False:
        return None
    if token is True:
        return 1
    return _build_nested(tokens)


def _build_nested(tokens: Iterator[Token]) -> Reply:
    kind, count = next(tokens), next(tokens)
    assert isinstance(count, int)
    if kind == ARRAY:
        return [build_reply(tokens) for _ in range(count)]
    if kind == MAP:
        return {_hashable(build_reply(tokens)): build_reply(tokens) for _ in range(count)}
    if kind == SET:
        return SetReply([build_reply(tokens) for _ in range(count)])
    value = next(tokens)
    if kind == BOOLEAN:
        return bool(value)
    if kind == DOUBLE:
        return float(value)  # type: ignore[arg-type]
    assert isinstance(value, bytes)
    if kind == ERROR:
        return CommandError(value.decode("utf-8", "surrogateescape"))
    if kind == STATUS:
        return value.decode("utf-8", "surrogateescape")
    if kind == BIG_NUMBER:
        return BigNumber(value.replace(b"\r", b" ").replace(b"\n", b" "))
    assert kind == VERBATIM, kind
    data = next(tokens)
    assert isinstance(data, bytes)
    return Verbatim(data, value[:3].decode("utf-8", "surrogateescape"))


def _hashable(key: Reply) -> Reply:
    """Return a map's key in a form for a dict: an array becomes a tuple, which is sent as the same."""
    if isinstance(key, list):
        return tuple(map(_hashable, key))
    return key
