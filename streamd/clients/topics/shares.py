"""The agreement of a shared replay's members, and the state of one of them."""

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamd.clients.topics import layout, retention
from streamd.clients.topics.administration import ATTEMPTS
from streamd.clients.topics.entry_ids import BEGIN, END, Id, before_ms, format_id, parse_id
from streamd.clients.topics.filters import TopicFilter, parse_filter
from streamd.clients.topics.handle import Handle, server_ms
from streamd.clients.topics.messages import Entry, is_expired, to_entry
from streamd.clients.topics.reading import Start, State, check_start, first_place
from streamd.clients.topics.steps import Command, Commit, Pipeline, Steps, Watch, run_all

LEASE_MS_MIN = 10  # below, a member loses what it has while the reply is on its way
Place = tuple[int, int]  # generation, shard
RawEntries = list[tuple[bytes, Mapping[bytes, bytes]]]


class Delivery(NamedTuple):
    """The result of a member's `next`: see `Batch` for the states."""

    entries: list[Entry]
    state: State


@dataclass(frozen=True, slots=True)
class Agreement:
    """The settings of a shared replay: the first member's, which all others follow."""

    filter: str
    ordered: bool
    lease_ms: int
    start: str
    generation: int
    at: tuple[str, ...]
    floor_ms: int | None

    def to_text(self) -> str:
        """Return its text in the hash of shared replays."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, ensure_ascii=False)

    @classmethod
    def from_text(cls, text: bytes) -> "Agreement":
        """Return the agreement of a text."""
        said = json.loads(text)
        said["at"] = tuple(said["at"])
        return cls(**said)


@dataclass(slots=True)
class Holding:
    """A shard that is leased to a member of an ordered replay.

    cursor: from where the pending entries of its last owner are still to be taken over; None when they are.
    """

    cursor: str | None = "0-0"
    last: str = "$"


@dataclass(slots=True)
class Member:
    """One reader of a shared replay.

    is_first: it set the start; that of later ones is ignored. grouped: generations whose streams have the consumer
    group. delivered: generations of which nothing new is left; finished: of which nothing is pending either.
    claimed_ms: the server's time when it last looked for idle work. unacknowledged: entry IDs by place.
    """

    handle: Handle
    share: str
    name: str
    agreement: Agreement
    is_first: bool
    pattern: TopicFilter
    grouped: set[int] = field(default_factory=set)
    delivered: set[int] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)
    claimed_ms: int | None = None
    turn: int = 0
    unacknowledged: dict[Place, set[str]] = field(default_factory=dict)
    holdings: dict[Place, Holding] = field(default_factory=dict)

    def key(self, place: Place) -> str:
        """Return the key of a stream."""
        return layout.stream_key(self.handle.name, place[1], place[0])

    def lease_key(self, place: Place) -> str:
        """Return the key that names the member with the lease of a shard."""
        return layout.lease_key(self.handle.name, place[1], place[0], self.share)


class News(NamedTuple):
    """A member's state before it reads: the log, the server's time, and when each member was last seen."""

    meta: layout.Meta
    now_ms: int
    seen_ms: dict[str, int]


def new_name() -> str:
    """Return a unique name for a member."""
    return secrets.token_hex(6)


def join(
    handle: Handle, share: str, pattern: str, start: Start, name: str, lease_ms: int, ordered: bool
) -> Steps[Member]:
    """Return a member; the first one of a shared replay sets its start.

    Raises: ValueError, also if the others have another filter, or order.
    """
    layout.check_name("shared replay", share)
    layout.check_name("member", name)
    if ":" in share:
        raise ValueError(f"shared replay {share!r}: its name has no ':'")
    if isinstance(lease_ms, bool) or not isinstance(lease_ms, int) or lease_ms < LEASE_MS_MIN:
        raise ValueError(f"lease_ms {lease_ms!r}: give whole milliseconds, {LEASE_MS_MIN} or more")
    compiled, start_ms = parse_filter(pattern), check_start(start)
    yield from retention.retain(handle)
    key, mine = layout.shares_key(handle.name), None
    for _ in range(ATTEMPTS):
        said, fields, now = yield Watch(
            [key, layout.meta_key(handle.name)],
            [("HGET", key, share), ("HGETALL", layout.meta_key(handle.name)), ("TIME",)],
        )
        meta = handle.take(layout.parse_meta(handle.name, fields), server_ms(now))
        if said is not None:
            agreement = Agreement.from_text(said)
            _refuse_other(share, agreement, pattern, ordered)
            is_first = agreement == mine  # written by this one, and the reply was lost
            return Member(handle, share, name, agreement, is_first, compiled)
        number, at, floor_ms = yield from first_place(handle, start, start_ms)
        text = start if isinstance(start, str) else start.isoformat()
        ids = tuple(format_id(one) for one in at)
        agreement = mine = Agreement(pattern, ordered, lease_ms, text, number, ids, floor_ms)
        first = meta.generation(number)
        assert first is not None
        groups: list[Command] = [
            _group_command(handle, stream, share, entry_id, compiled)
            for stream, entry_id in zip(layout.stream_keys(meta.name, first), ids, strict=True)
        ]
        if (yield Commit([("HSET", key, share, agreement.to_text()), *groups])) is not None:
            return Member(handle, share, name, agreement, True, compiled, grouped={number})
    raise RuntimeError(f"shared replay {share!r}: others changed it {ATTEMPTS} times meanwhile; try again")


def _group_command(handle: Handle, key: str, share: str, start: str, pattern: TopicFilter) -> Command:
    """Return the command that makes a shared replay's group; where the server can, it gets only matching entries."""
    by_server = handle.abilities.xfilter and not pattern.is_all
    words = ("FILTER", "FIELD", "t", "MQTT", pattern.text) if by_server else ()
    return ("XGROUP", "CREATE", key, share, start, *words)


def _refuse_other(share: str, agreement: Agreement, pattern: str, ordered: bool) -> None:
    if agreement.filter != pattern:
        raise ValueError(
            f"shared replay {share!r} reads {agreement.filter!r}, not {pattern!r}: join with that, or take another name"
        )
    if agreement.ordered != ordered:
        raise ValueError(f"shared replay {share!r} was begun with ordered={agreement.ordered}: join with that")


def news(member: Member) -> Steps[News | State]:
    """Return the news: `end` if the log or the shared replay was dropped, `gap` to one member after a loss."""
    name, key, mark = member.handle.name, layout.shares_key(member.handle.name), f"gap:{member.share}"
    fields, now, (said, gap), seen = yield from run_all(
        [
            ("HGETALL", layout.meta_key(name)),
            ("TIME",),
            ("HMGET", key, member.share, mark),
            ("HGETALL", layout.members_key(name, member.share)),
        ]
    )
    meta = layout.parse_meta(name, fields)
    if meta is None or said is None or meta.uid != member.handle.meta.uid:
        return "end"
    if gap is not None:
        (removed,) = yield from run_all([("HDEL", key, mark)])
        if removed:
            return "gap"
    member.handle.take(meta, server_ms(now))
    member.agreement = Agreement.from_text(said)
    return News(meta, server_ms(now), {one.decode(): int(ms) for one, ms in seen.items()})


def unfinished(member: Member, meta: layout.Meta) -> list[layout.Generation]:
    """Return the generations of the shared replay with work left, oldest first."""
    first = member.agreement.generation
    return [one for one in meta.generations if one.number >= first and one.number not in member.finished]


def ensure_group(member: Member, generation: layout.Generation) -> Steps[bool]:
    """Make the consumer group in a generation that began later; return whether the generation exists."""
    if generation.number in member.grouped:
        return True
    floor_ms = member.agreement.floor_ms
    begin = format_id(BEGIN if floor_ms is None else before_ms(floor_ms))
    keys = layout.stream_keys(member.handle.name, generation)
    replies = yield Pipeline([_group_command(member.handle, key, member.share, begin, member.pattern) for key in keys])
    for reply in replies:
        if isinstance(reply, Exception) and "BUSYGROUP" not in str(reply):
            return False  # it was dropped meanwhile
    member.grouped.add(generation.number)
    return True


def sort_out(member: Member, found: Iterable[tuple[Place, RawEntries]], now_ms: int) -> Steps[list[Entry]]:
    """Return the entries that match, and acknowledge the others, which no member gets."""
    taken = []
    acknowledged: list[Command] = []
    is_begun = False
    for place, entries in found:
        others: list[bytes] = []
        for text, fields in entries:
            entry_id = parse_id(text)
            is_begun |= entry_id != END
            if is_wanted(member, entry_id, fields, now_ms):
                entry = to_entry(entry_id, fields, *place)
                taken.append(entry)
                member.unacknowledged.setdefault(place, set()).add(entry.id)
            else:
                others.append(text)
        if others:
            acknowledged.append(("XACK", member.key(place), member.share, *others))
    if is_begun and member.agreement.floor_ms is not None:
        # The replay has come to its start: later generations are read from their beginning.
        said: dict[str, Any] = {name: getattr(member.agreement, name) for name in Agreement.__slots__}
        member.agreement = Agreement(**{**said, "floor_ms": None})
        key = layout.shares_key(member.handle.name)
        acknowledged.append(("HSET", key, member.share, member.agreement.to_text()))
    yield from run_all(acknowledged)
    return taken


def is_wanted(member: Member, entry_id: Id, fields: Mapping[bytes, bytes] | None, now_ms: int) -> bool:
    """Return whether an entry is a message for this replay."""
    topic = fields.get(b"t") if fields else None
    return topic is not None and member.pattern.matches(topic) and not is_expired(entry_id, fields or {}, now_ms)


def version_command(member: Member) -> Command:
    """Return the command that asks for the version of the entries that were read before it."""
    return ("HGET", layout.meta_key(member.handle.name), "version")


def check_read(member: Member, version: bytes | Exception | None) -> None:
    """Refuse entries of a later version; they stay pending, for a member that knows it. Raises: ValueError."""
    if isinstance(version, Exception):
        raise version
    if version is not None:  # else the log was dropped just now
        layout.check_version(member.handle.name, version)


def group_states(member: Member, generation: layout.Generation) -> Steps[tuple[bool, bool]]:
    """Return whether all of a generation was delivered, and whether nothing of it is pending."""
    keys = layout.stream_keys(member.handle.name, generation)
    replies = yield Pipeline([("XINFO GROUPS", key) for key in keys])
    delivered = idle = True
    for groups in replies:
        if isinstance(groups, Exception):
            continue  # the stream was dropped
        for group in groups:
            if group["name"].decode() == member.share:
                delivered &= parse_id(group["last-delivered-id"]) == END
                idle &= group["pending"] == 0
    return delivered, idle


def acknowledge(member: Member, entries: Iterable[Entry]) -> Steps[int]:
    """Acknowledge entries; return how many were pending."""
    by_place: dict[Place, list[str]] = {}
    for entry in entries:
        by_place.setdefault((entry.generation, entry.shard), []).append(entry.id)
    replies = yield from run_all([("XACK", member.key(place), member.share, *ids) for place, ids in by_place.items()])
    for place, ids in by_place.items():
        member.unacknowledged.get(place, set()).difference_update(ids)
    return sum(int(reply) for reply in replies)


def group_entries(reply: object) -> dict[bytes, RawEntries]:
    """Return the entries of an XREADGROUP reply by key, in either protocol version."""
    if not reply:
        return {}
    if isinstance(reply, dict):
        return {key: (value[0] if value and isinstance(value[0], list) else value) for key, value in reply.items()}
    assert isinstance(reply, list)
    return dict(reply)


def drop_share(handle: Handle, share: str) -> Steps[None]:
    """Remove a shared replay; its members get `end`. Raises: ValueError."""
    name, key = handle.name, layout.shares_key(handle.name)
    said, fields = yield from run_all([("HGET", key, share), ("HGETALL", layout.meta_key(name))])
    meta = layout.parse_meta(name, fields)
    if said is None or meta is None:
        raise ValueError(f"log {name!r} has no shared replay {share!r}: log.info() lists those that it has")
    commands: list[Command] = [("HDEL", key, share, f"gap:{share}"), ("UNLINK", layout.members_key(name, share))]
    for one in meta.generations:
        for shard, stream in enumerate(layout.stream_keys(name, one)):
            commands.append(("UNLINK", layout.lease_key(name, shard, one.number, share)))
            commands.append(("XGROUP", "DESTROY", stream, share))
    yield Pipeline(commands)  # a stream that goes meanwhile took its group along
