"""The logs of an MQTT gateway, and how far a position is behind the end of one."""

import json
from dataclasses import dataclass

from streamd.clients.ui.source import Request, Source, pairs

LOGS_MAX = 20
# A look at a log asks for so many of its streams; of a log with more it knows no lag.
STREAMS_MAX = 256
_REGISTRY = "topics:registry"
_END = (1 << 64) - 1

Id = tuple[int, int]


@dataclass(frozen=True)
class Shard:
    """A stream of a log. first, last: of the messages that are there; None without any."""

    length: int
    first: Id | None
    last: Id | None


@dataclass(frozen=True)
class Log:
    """A log at one moment: its generations, oldest first, each with the streams of its shards.

    retention_ms: None if it is not known. filters: of the topics that it takes.
    """

    name: str
    generations: dict[int, list[Shard]]
    retention_ms: int | None = None
    filters: tuple[str, ...] = ("#",)


@dataclass(frozen=True)
class Lag:
    """The messages that follow a position. since_ms: the first of them is not older; None without any.

    is_exact: the number is not estimated by the times of messages.
    """

    messages: int
    is_exact: bool
    since_ms: int | None


def names(source: Source) -> list[str]:
    """Return the names of the topic logs, the first LOGS_MAX. Raises: SourceError."""
    (reply,) = source.ask_all([("XRANGE", _REGISTRY, "-", "+", "COUNT", LOGS_MAX)])
    if not isinstance(reply, list):
        return []
    found = (pairs(fields).get(b"log") for _, fields in reply)
    return sorted({name.decode("utf-8", "replace") for name in found if isinstance(name, bytes)})


def look_at(source: Source, logs: list[str]) -> dict[str, Log]:
    """Return each log that can be read; the streams of all are of one moment. Raises: SourceError."""
    metas = dict(zip(logs, _metas(source, logs), strict=True))
    layouts = {name: _layout(fields) for name, fields in metas.items()}
    wanted = [
        (name, number, f"{{{name}/{shard}}}:g{number}")
        for name, generations in layouts.items()
        if sum(generations.values()) <= STREAMS_MAX
        for number, shards in generations.items()
        for shard in range(shards)
    ]
    replies = source.ask_all([("XINFO STREAM", key) for _, _, key in wanted])
    found: dict[str, dict[int, list[Shard]]] = {}
    unreadable = set()
    for (name, number, _), reply in zip(wanted, replies, strict=True):
        if not isinstance(reply, list):
            unreadable.add(name)
            continue
        found.setdefault(name, {}).setdefault(number, []).append(_shard(pairs(reply)))
    return {
        name: Log(name, generations, _retention_ms(metas[name]), _filters(metas[name]))
        for name, generations in found.items()
        if name not in unreadable
    }


def _metas(source: Source, logs: list[str]) -> list[dict[bytes, bytes]]:
    requests: list[Request] = [("HGETALL", f"{{{name}}}:meta") for name in logs]
    return [pairs(reply) for reply in source.ask_all(requests)]


def _retention_ms(fields: dict[bytes, bytes]) -> int | None:
    text = fields.get(b"retention_s", b"")
    return 1_000 * int(text) if text.isdigit() and len(text) < 20 else None


def _filters(fields: dict[bytes, bytes]) -> tuple[str, ...]:
    """Return the filters of a log's present generation."""
    newest = max(_layout(fields), default=0)
    try:
        said = json.loads(fields.get(b"g%d" % newest, b""))["filters"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ("#",)
    return tuple(map(str, said)) if isinstance(said, list) else ("#",)


def _layout(fields: dict[bytes, bytes]) -> dict[int, int]:
    """Return the number of shards of each generation."""
    found = {}
    for field, value in fields.items():
        if field[:1] == b"g" and field[1:].isdigit():
            try:
                shards = json.loads(value)["shards"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if isinstance(shards, int):
                found[int(field[1:])] = shards
    return dict(sorted(found.items()))


def _shard(facts: dict[bytes, object]) -> Shard:
    length = facts.get(b"length")
    ids: list[Id | None] = []
    for name in (b"first-entry", b"last-entry"):
        entry = facts.get(name)
        ids.append(id_of(entry[0]) if isinstance(entry, list) and entry else None)
    first, last = ids
    if last is not None and last[0] == _END:  # the end entry of a closed generation
        return Shard(max(0, int(str(length)) - 1), first, (last[0] - 1, 0))
    return Shard(int(str(length)), first, last)


def id_of(text: bytes) -> Id | None:
    """Return an entry ID as two numbers; None for anything else."""
    ms, _, sequence = text.partition(b"-")
    return (int(ms), int(sequence)) if ms.isdigit() and sequence.isdigit() else None


def lag_of(log: Log, position: bytes) -> Lag | None:
    """Return how far a position, as a session's record has it, is behind the end of a log; None if it is not valid."""
    number, *texts = position.split(b" ")
    ids = [id_of(text) for text in texts]
    if not number.isdigit() or None in ids:
        return None
    messages, is_exact, times = 0, True, list[int]()
    for generation, shards in log.generations.items():
        if generation < int(number):
            continue
        is_own = generation == int(number)
        if is_own and len(shards) != len(ids):
            return None
        for at, shard in enumerate(shards):
            seen = ids[at] if is_own else (0, 0)
            assert seen is not None
            unread, exact = _unread(shard, seen)
            messages, is_exact = messages + unread, is_exact and exact
            if unread and shard.first is not None:
                times.append(max(seen[0], shard.first[0]))
    return Lag(messages, is_exact, min(times, default=None))


def _unread(shard: Shard, seen: Id) -> tuple[int, bool]:
    """Return how many messages of a shard follow an ID, and whether that is exact."""
    if shard.first is None or shard.last is None or not shard.length or seen >= shard.last:
        return 0, True
    if seen < shard.first:
        return shard.length, True
    if seen == shard.first:
        return shard.length - 1, True
    share = (shard.last[0] - seen[0]) / max(1, shard.last[0] - shard.first[0])
    return min(shard.length - 1, max(1, round(shard.length * share))), False
