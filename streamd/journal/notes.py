"""Notes: what the journal says about a state that no Redis command can say.

| note | words behind the database number |
|---|---|
| DEFAULTS | seconds, iids: the settings of streams created from here on |
| XIDMPSETTINGS | key, seconds, iids: the settings of this stream; its window is left as it is |
| XIDMP | CFGSET, key, DURATION, seconds, MAXSIZE, iids: the same, and all iids are forgotten |
| XIDMPIID | key, pid, iid, entry ID: remembered as the youngest; the entry itself is deleted |
| XIDMPDUPLICATE | key, count: how many duplicates there were |
| XGROUPSEEN | key, group, consumer, when it was seen, when it was active (Unix ms; -1 never) |
| XGROUPPENDING | key, group, consumer, entry ID, when it was delivered, how often: pending, though deleted |
| XIDMPCOUNTERS | key, iids added, iids that were duplicates |
"""

from collections.abc import Callable
from typing import Final, Protocol

from streamd.base.errors import CommandError
from streamd.data.keyspace import Keyspace
from streamd.stream.entry_id import parse_id
from streamd.stream.stream import Stream

DEFAULTS: Final = b"DEFAULTS"


class Defaults(Protocol):
    """Who creates streams while a journal is loaded."""

    def set_defaults(self, duration_s: int, maxsize: int) -> None:
        """Take these as the settings of streams that are created from here on."""


def apply_note(keyspace: Keyspace, defaults: Defaults, words: list[bytes]) -> str | None:
    """Apply a note, `[# and name, database, ...]`; return what is wrong with it, or None."""
    try:
        name, db = words[0], keyspace[int(words[1])]
        if name == b"#" + DEFAULTS:
            duration_s, maxsize = map(int, words[2:])
            defaults.set_defaults(duration_s, maxsize)
            return None
        if name == b"#XIDMP":
            words = [*words[:2], words[3], *words[5::2]]
        apply = _APPLY.get(name)
        if apply is None:
            return "this version does not know such a note"
        value = db.values.get(words[2])
        if type(value) is not Stream:
            return "there is no stream at its key"
        return apply(value, words[3:])
    except (ValueError, IndexError, KeyError, CommandError):
        return "its words make no sense"


def _settings(stream: Stream, words: list[bytes]) -> None:
    stream.idmp.duration_s, stream.idmp.maxsize = map(int, words)


def _reconfigure(stream: Stream, words: list[bytes]) -> None:
    stream.idmp.reconfigure(*map(int, words))


def _iid(stream: Stream, words: list[bytes]) -> None:
    pid, iid, entry_id = words
    stream.idmp.record(pid, iid, parse_id(entry_id))


def _duplicates(stream: Stream, words: list[bytes]) -> None:
    stream.idmp.iids_duplicates = int(words[0])


def _counters(stream: Stream, words: list[bytes]) -> None:
    stream.idmp.iids_added, stream.idmp.iids_duplicates = map(int, words)


def _seen(stream: Stream, words: list[bytes]) -> None:
    group = (stream.groups or {})[words[0]]
    consumer, _ = group.consumer(words[1], 0)
    consumer.seen_ms = int(words[2])
    consumer.active_ms = None if words[3] == b"-1" else int(words[3])


def _pending(stream: Stream, words: list[bytes]) -> None:
    group = (stream.groups or {})[words[0]]
    consumer, _ = group.consumer(words[1], 0)
    group.pending.set(parse_id(words[2]), consumer, int(words[3]), int(words[4]))


_APPLY: Final[dict[bytes, Callable[[Stream, list[bytes]], str | None]]] = {
    b"#XIDMPSETTINGS": _settings,
    b"#XIDMP": _reconfigure,
    b"#XIDMPIID": _iid,
    b"#XIDMPDUPLICATE": _duplicates,
    b"#XIDMPCOUNTERS": _counters,
    b"#XGROUPSEEN": _seen,
    b"#XGROUPPENDING": _pending,
}
