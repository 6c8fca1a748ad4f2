"""Replies as plain values: ready-made RESP in them taken apart."""

from streamd.base.errors import CommandError
from streamd.resp.types import NULL_ARRAY, Later, LongArray, Pairs, Parts, Pause, Push, Raw, Reply, SetReply, Sliced


def plain(reply: Reply) -> Reply:
    """Return a reply without ready-made bytes in it, for callers that want values: the same lists, words and numbers.

    Ready-made bytes are the same in both protocols (see `Raw`): arrays, strings of both kinds, integers, errors.
    """
    kind = type(reply)
    if kind is Raw:
        return _values(reply.data)
    if kind is Parts:
        return _values(b"".join(reply.pieces))
    if kind is Sliced:
        return plain(reply.content)
    if kind is LongArray:
        for _ in () if isinstance(reply.count, int) else reply.count:
            pass
        items: list[Reply] = []
        for part in reply.parts:
            if type(part) is bytes:
                items += _several(part)
            elif type(part) is not Pause:
                items += map(plain, part)
        return dict(zip(items[::2], items[1::2], strict=True)) if reply.is_map else items
    if kind is Later:
        return plain(next(step for step in reply.steps if step is not None and type(step) is not Pause))
    if kind is list or kind is tuple:
        return [plain(item) for item in reply]
    if kind is dict:
        return {key: plain(value) for key, value in reply.items()}
    if kind is Pairs:
        return Pairs([(plain(key), plain(value)) for key, value in reply.items])
    if kind is SetReply or kind is Push:
        return kind([plain(item) for item in reply.items])
    return reply


def _values(data: bytes) -> Reply:
    values = _several(data)
    return values[0] if len(values) == 1 else values


def _several(data: bytes) -> list[Reply]:
    values = []
    at = 0
    while at < len(data):
        value, at = _value(data, at)
        values.append(value)
    return values


def _value(data: bytes, at: int) -> tuple[Reply, int]:
    """Return the value at `at` and where the next one begins."""
    end = data.index(b"\r\n", at)
    kind, head, at = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"+":
        return head.decode("utf-8", "surrogateescape"), at
    if kind == b"-":
        return CommandError(head.decode("utf-8", "surrogateescape")), at
    if kind == b":":
        return int(head), at
    size = int(head)
    if kind == b"$":
        return (None, at) if size < 0 else (data[at : at + size], at + size + 2)
    assert kind in b"*>", data[:20]
    if size < 0:
        return NULL_ARRAY, at
    items: list[Reply] = []
    for _ in range(size):
        item, at = _value(data, at)
        items.append(item)
    return Push(items) if kind == b">" else items, at
