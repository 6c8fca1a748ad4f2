"""Replies as their RESP says them, kinds included, to compare field by field."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Reply:
    """A reply as its RESP says it: kind is the first byte; items are there for arrays, maps, sets and pushes."""

    kind: bytes
    text: bytes
    items: "list[Reply] | None" = None

    def fields(self) -> "Iterator[tuple[bytes, Reply]]":
        """Iterate (name, value) of a map, in RESP2 of the flat array that stands for one."""
        items = self.items or []
        for name, value in zip(items[::2], items[1::2], strict=False):
            yield name.text, value


def parse(data: bytes, at: int = 0) -> tuple[Reply, int]:
    """Return the reply at `at` and where the next one starts."""
    end = data.index(b"\r\n", at)
    kind, head, at = data[at : at + 1], data[at + 1 : end], end + 2
    if kind in b"$=" and head != b"-1":
        size = int(head)
        return Reply(kind, data[at : at + size]), at + size + 2
    if kind in b"*~>%" and head != b"-1":
        items = []
        for _ in range(int(head) * (2 if kind == b"%" else 1)):
            item, at = parse(data, at)
            items.append(item)
        return Reply(kind, head, items), at
    return Reply(kind, head), at


def parse_all(data: bytes) -> list[Reply]:
    """Return the replies that follow each other in `data`."""
    replies, at = [], 0
    while at < len(data):
        reply, at = parse(data, at)
        replies.append(reply)
    return replies
