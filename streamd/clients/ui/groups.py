"""Consumer groups: their progress, their consumers, their pending entries."""

from dataclasses import dataclass
from typing import Any

from streamd.clients.ui.source import Source, SourceError, pairs
from streamd.clients.ui.streams import Stream

# Redis has no pages of groups and of consumers, only whole lists. Beyond this length a page does not ask for them.
LISTED_MAX = 1_000
PENDING_PER_PAGE = 50
# An acknowledgement or a claim names at most so many entries: what one page shows.
CHANGED_MAX = PENDING_PER_PAGE


@dataclass(frozen=True)
class Group:
    """A consumer group. lag: undelivered entries, None if the server does not know."""

    name: bytes
    consumers: int
    pending: int
    last_delivered_id: bytes
    lag: int | None


@dataclass(frozen=True)
class Consumer:
    """A consumer. idle_ms: since its last request; inactive_ms: since its last entry, None if never or unknown."""

    name: bytes
    pending: int
    idle_ms: int
    inactive_ms: int | None


@dataclass(frozen=True)
class PendingEntry:
    """An entry that was delivered and not acknowledged."""

    id: bytes
    consumer: bytes
    idle_ms: int
    deliveries: int


def groups_of(source: Source, stream: Stream) -> list[Group] | None:
    """Return the groups of a stream by name; None if there are too many to ask for. Raises: SourceError."""
    if stream.groups > LISTED_MAX:
        return None
    found = [_group(pairs(facts)) for facts in source.ask("XINFO GROUPS", stream.key)]
    return sorted(found, key=lambda group: group.name)


def consumers_of(source: Source, stream: Stream, group: Group) -> list[Consumer] | None:
    """Return the consumers of a group by name; None if there are too many to ask for. Raises: SourceError."""
    if group.consumers > LISTED_MAX:
        return None
    found = [_consumer(pairs(facts)) for facts in source.ask("XINFO CONSUMERS", stream.key, group.name)]
    return sorted(found, key=lambda consumer: consumer.name)


def pending_of(
    source: Source, stream: Stream, group: bytes, after: bytes = b"", consumer: bytes = b"", idle_ms: int = 0
) -> tuple[list[PendingEntry], bool]:
    """Return pending entries by ID, and whether more follow.

    after: the ID behind which to begin; consumer: only its entries; idle_ms: only entries idle for at least that long.
    Raises: SourceError.
    """
    words: list[Any] = ["IDLE", idle_ms] if idle_ms else []
    words += [b"(" + after if after else b"-", "+", PENDING_PER_PAGE + 1]
    reply = source.ask("XPENDING", stream.key, group, *words, *([consumer] if consumer else []))
    found = [PendingEntry(one[0], one[1], int(one[2]), int(one[3])) for one in reply]
    return found[:PENDING_PER_PAGE], len(found) > PENDING_PER_PAGE


def acknowledge(source: Source, key: bytes, group: bytes, ids: list[bytes]) -> int:
    """Acknowledge entries; return how many were pending. Raises: SourceError."""
    _check(ids)
    return int(source.change("XACK", key, group, *ids))


def claim(source: Source, key: bytes, group: bytes, consumer: bytes, min_idle_ms: int, ids: list[bytes]) -> int:
    """Claim pending entries for a consumer; return how many it got. Raises: SourceError."""
    _check(ids)
    if not consumer:
        raise SourceError("say for which consumer to claim", 400)
    return len(source.change("XCLAIM", key, group, consumer, min_idle_ms, *ids, "JUSTID"))


def _check(ids: list[bytes]) -> None:
    if not ids:
        raise SourceError("no entry was chosen", 400)
    if len(ids) > CHANGED_MAX:
        raise SourceError(f"at most {CHANGED_MAX} entries at once", 400)


def _group(facts: dict[bytes, Any]) -> Group:
    lag = facts.get(b"lag")
    return Group(
        name=facts[b"name"],
        consumers=int(facts[b"consumers"]),
        pending=int(facts[b"pending"]),
        last_delivered_id=facts[b"last-delivered-id"],
        lag=None if lag is None else int(lag),
    )


def _consumer(facts: dict[bytes, Any]) -> Consumer:
    inactive_ms = facts.get(b"inactive", -1)
    return Consumer(
        name=facts[b"name"],
        pending=int(facts[b"pending"]),
        idle_ms=int(facts[b"idle"]),
        inactive_ms=None if inactive_ms is None or int(inactive_ms) < 0 else int(inactive_ms),
    )
