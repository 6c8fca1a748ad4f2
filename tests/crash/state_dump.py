"""All that clients can see of a server's state, as one value that two servers can be compared by."""

from typing import Any

from streamd.base.errors import CommandError
from streamd.data.element_list import ElementList
from streamd.data.growing import GrowingString
from streamd.data.hash import Hash
from streamd.data.member_set import MemberSet
from streamd.data.sorted_set import SortedSet
from streamd.data.timed_hash import times_of
from streamd.data.types import type_of
from streamd.engine.engine import Engine
from streamd.stream.stream import Stream

# How entries are spread over segments is no part of the state: a rewrite, or a restart, may change it. How many iids
# are in memory includes expired ones for about a second; `iids` has those that count.
_NOT_STATE = {b"radix-tree-keys", b"radix-tree-nodes", b"pids-tracked", b"iids-tracked"}


def dump(engine: Engine) -> dict[tuple[int, bytes], Any]:
    """Return (database, key) -> type, expiry and everything that commands show of the value."""
    context = engine.connect()
    found = {}
    for db in engine.state.keyspace:
        context.db = db
        for key in sorted(db.keys()):
            value = db.values[key]
            shown: Any = value
            if isinstance(value, Stream):
                shown = {
                    "info": _plain(engine.call(context, [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"])),
                    "groups": _plain(engine.call(context, [b"XINFO", b"GROUPS", key])),
                    "released": {name: list(group.pending.nacked) for name, group in (value.groups or {}).items()},
                    "entries": list(value.log.iterate()),
                    "iids": _remembered(value, engine.clock.now_ms()),
                    "settings": (value.idmp.duration_s, value.idmp.maxsize),
                    "counters": (value.idmp.iids_added, value.idmp.iids_duplicates),
                }
            elif isinstance(value, GrowingString):
                shown = value.whole()
            elif isinstance(value, SortedSet):
                shown = (dict(value.scores), value.members(0, len(value)))
            elif isinstance(value, Hash):
                shown = (dict(value), dict(times_of(value))) if times_of(value) else dict(value)
            elif isinstance(value, MemberSet):
                shown = set(value)
            elif isinstance(value, ElementList):
                shown = list(value)
            found[(db.index, key)] = (type_of(value).name, db.expires_ms.get(key), shown)
    engine.disconnect(context.client)
    return found


def _remembered(stream: Stream, now_ms: int) -> list[tuple[Any, ...]]:
    """Return (pid, iid, entry ID), and when it was recorded where that counts, by producer, each one's oldest first."""
    found = sorted(stream.idmp.remembered(now_ms), key=lambda row: row[0])
    times = {pid: stream.idmp.recorded_ms(pid) for pid, *_ in found}
    return [(pid, iid, made, times[pid][iid]) if iid in times[pid] else (pid, iid, made) for pid, iid, made in found]


def _plain(reply: Any) -> Any:
    if isinstance(reply, dict):
        return {_plain(name): _plain(value) for name, value in reply.items() if name not in _NOT_STATE}
    if isinstance(reply, (list, tuple)):
        return [_plain(value) for value in reply]
    if isinstance(reply, CommandError):
        return str(reply)
    return reply
