"""Consumer groups: their progress, their consumers, their pending entries."""

from dataclasses import dataclass
from typing import Any

from streamd.clients.ui.source import Request, Source, SourceError, needed, pairs
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


@dataclass(frozen=True)
class GroupPage:
    """A group with its consumers and pending entries, of one moment. more: whether pending entries follow.

    group, consumers: None if there are too many to ask for.
    """

    group: Group | None
    consumers: list[Consumer] | None
    pending: list[PendingEntry]
    more: bool


def groups_of(source: Source, stream: Stream) -> list[Group] | None:
    """Return the groups of a stream by name; None if there are too many to ask for. Raises: SourceError."""
    if stream.groups > LISTED_MAX:
        return None
    return listed(source.ask("XINFO GROUPS", stream.key))


def listed(reply: Any) -> list[Group]:
    """Return the groups in a reply of XINFO GROUPS by name."""
    return sorted((_group(pairs(facts)) for facts in reply), key=lambda group: group.name)


def group_of(
    source: Source, stream: Stream, name: bytes, after: bytes = b"", consumer: bytes = b"", idle_ms: int = 0
) -> GroupPage:
    """Return a group with a page of its pending entries by ID.

    after: the ID behind which to begin; consumer: only its entries; idle_ms: only entries idle for at least that long.
    Raises: SourceError.
    """
    words: list[Any] = ["IDLE", idle_ms] if idle_ms else []
    words += [b"(" + after if after else b"-", "+", PENDING_PER_PAGE + 1, *([consumer] if consumer else [])]
    requests: list[Request] = [("XPENDING", stream.key, name, *words)]
    known = groups_of(source, stream)
    before = next((one for one in known or () if one.name == name), None)
    if before is not None:
        requests.append(("XINFO GROUPS", stream.key))
        if before.consumers <= LISTED_MAX:
            requests.append(("XINFO CONSUMERS", stream.key, name))
    replies = [needed(reply) for reply in source.ask_all(requests)]
    pending = [PendingEntry(one[0], one[1], int(one[2]), int(one[3])) for one in replies[0]]
    group = next((one for one in listed(replies[1]) if one.name == name), None) if len(replies) > 1 else None
    consumers = sorted(map(_consumer, map(pairs, replies[2])), key=lambda one: one.name) if len(replies) > 2 else None
    return GroupPage(group, consumers, pending[:PENDING_PER_PAGE], len(pending) > PENDING_PER_PAGE)


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
