"""All keys of a database, listed in parts between turns of clients."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from streamd.data.keyspace import Database, Keyspace
from streamd.stream.stream import Stream

# Keys that are listed at once: a fifth of a millisecond. (Of a million all at once took ten.)
KEYS_PER_SLICE: Final = 20_000
# So many times the list is begun again because a key came or went between two slices.
LISTS_MAX: Final = 3
# So many keys are looked at in one step, some ten microseconds.
LOOKED_AT: Final = 200


def list_keys(db: Database, listed: list[list[bytes]]) -> Iterator[int]:
    """List the keys of a database, in parts; yields how many keys each has.

    A dict that has changed cannot be gone on with. If that happens again and again it is listed from both ends, in
    halves: then as many keys may be missed as went between these two.
    """
    for _ in range(LISTS_MAX):
        values, size = db.values, len(db.values)
        keys = iter(values)
        listed.clear()
        while db.values is values and len(values) == size:
            try:
                part = list(islice(keys, KEYS_PER_SLICE))
            except RuntimeError:
                break  # a key came for each that went: the size does not tell
            listed.append(part)
            yield len(part)
            if len(part) < KEYS_PER_SLICE:
                return
    listed.clear()
    half = len(db.values) // 2
    listed.append(list(islice(db.values, half)))
    yield half
    listed.append(list(islice(reversed(db.values), len(db.values) - half)))
    yield len(listed[-1])


def taken_out(listed: list[list[bytes]]) -> Iterator[bytes]:
    """Take keys out of their lists one by one: to free a list of a million at once takes as long as to make it."""
    while listed:
        part = listed.pop()
        while part:
            yield part.pop()


def streams_of(keyspace: Keyspace) -> Iterator[Stream | None]:
    """Yield the streams; None now and then between keys, which may come, go and be missed meanwhile."""
    for db in keyspace:
        listed: list[list[bytes]] = []
        for _ in list_keys(db, listed):
            yield None
        left = LOOKED_AT
        for key in taken_out(listed):
            value = db.values.get(key)
            if type(value) is Stream:
                yield value
            left -= 1
            if not left:
                left = LOOKED_AT
                yield None
