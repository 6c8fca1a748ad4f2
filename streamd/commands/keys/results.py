"""The last steps of commands on several types: replies in pairs, noted removals, results stored at their own key."""

from collections.abc import Mapping, Sized
from itertools import chain
from typing import Any

from streamd.catalog import Context
from streamd.data.types import KeyValue, ValueType
from streamd.resp.types import Reply


def with_values(context: Context, members: list[bytes], values: Mapping[bytes, Any]) -> Reply:
    """Return members and their values as replies have them: in RESP2 one behind the other, in RESP3 in pairs."""
    rows = zip(members, map(values.__getitem__, members), strict=True)
    return list(chain.from_iterable(rows)) if context.client.protocol == 2 else list(map(list, rows))


def end_removal(
    context: Context, key: bytes, value: Sized, removed: list[bytes], word: bytes, event_class: str, event: str
) -> None:
    """Note that members were removed, as the command `word` does it; a collection without members is removed."""
    if not removed:
        return
    context.record_words([word, key, *removed], len(removed))
    context.changed(key, event_class, event)
    if not len(value):
        context.db.remove(key)
        context.notify(key, "g", "del")


def store_result(
    context: Context,
    key: bytes,
    kind: ValueType[Any, Any],
    value: KeyValue,
    event_class: str,
    event: str,
    changes: int = 1,
) -> int:
    """Replace the value at a key by a result, or remove the key for an empty one; return the number of its elements.

    changes: the number of changes that it counts for, see `save`.
    """
    db, count = context.db, kind.elements(value)
    if not count:
        if db.delete(key):
            context.record(b"DEL", key)
            context.changed(key, "g", "del")
        return 0
    before = db.peek(key)
    context.notify_overwritten(key, before, value)
    db.replace(key, value)
    if before is not None:
        context.record(b"DEL", key, changes=0)
    assert kind.commands is not None
    for number, words in enumerate(kind.commands(key, value)):
        context.record(*words, changes=0 if number else changes)
    context.changed(key, event_class, event)
    return count
