"""Stores a result made of other keys, a union or a range, at a key of its own."""

from typing import Any

from streamd.catalog import Context
from streamd.data.types import KeyValue, ValueType


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
    was_there = db.peek(key) is not None
    db.replace(key, value)
    if was_there:
        context.record(b"DEL", key, changes=0)
    assert kind.commands is not None
    for number, words in enumerate(kind.commands(key, value)):
        context.record(*words, changes=0 if number else changes)
    context.changed(key, event_class, event)
    return count
