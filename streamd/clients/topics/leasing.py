"""Shared replay in order: a shard is leased to one member at a time, generations are read one after the other.

A lease is a key with an expiry, which names the member. Each read of a shard is a transaction that watches the lease
and extends it: a member that has lost it reads no further. The next owner begins with the pending entries.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from streamd.clients.topics import layout
from streamd.clients.topics.reading import State, check_numbers, wait_for_match
from streamd.clients.topics.shares import (
    Delivery,
    Holding,
    Member,
    News,
    Place,
    RawEntries,
    check_read,
    ensure_group,
    group_entries,
    group_states,
    news,
    sort_out,
    unfinished,
    version_command,
)
from streamd.clients.topics.steps import Command, Commit, Steps, Watch, run_all

T = TypeVar("T")
# What makes of raw entries those that are for the replay, and acknowledges the others: see shares.sort_out.
Sort = Callable[[Member, Iterable[tuple[Place, RawEntries]], int], Steps[list[T]]]


def member_next(member: Member, n: int, block_ms: int) -> Steps[Delivery]:
    """Return up to n entries of the shards that this member has a lease of; wait up to that time for the first."""
    return Delivery(*(yield from sorted_next(member, n, block_ms, sort_out)))


def sorted_next(member: Member, n: int, block_ms: int, sort: Sort[T]) -> Steps[tuple[list[T], State]]:
    """Do the work of `member_next`, with entries as `sort` makes them."""
    check_numbers(n, block_ms)
    deadline_s = member.handle.monotonic_s() + block_ms / 1_000
    while True:
        told = yield from news(member)
        if not isinstance(told, News):
            return [], told
        generation = unfinished(member, told.meta)[0]
        if not (yield from ensure_group(member, generation)):
            continue  # it was dropped just now
        readable = yield from _lease(member, generation, told)
        is_taking_over = any(member.holdings[place].cursor is not None for place in readable)
        found = yield from _read(member, readable, n)
        if found is None:
            continue  # a lease was lost in between
        taken = yield from sort(member, found, told.now_ms)
        if taken:
            return taken, "more"
        if found or is_taking_over:
            continue
        if generation is not told.meta.current and (yield from _finish(member, generation)):
            continue
        left_ms = int((deadline_s - member.handle.monotonic_s()) * 1_000)
        if left_ms <= 0:
            return [], "live"
        wait_ms = max(1, min(left_ms, member.handle.block_ms_max, member.agreement.lease_ms // 3))
        yield from _wait(member, readable, wait_ms)


def _lease(member: Member, generation: layout.Generation, told: News) -> Steps[list[Place]]:
    """Lease free shards up to this member's share, release shards above it; return the shards to read."""
    places = [(generation.number, shard) for shard in range(generation.shards)]
    members_key = layout.members_key(member.handle.name, member.share)
    _, *owners = yield from run_all(
        [
            ("HSET", members_key, member.name, told.now_ms),
            *[("GET", member.lease_key(place)) for place in places],
        ]
    )
    me, lease_ms = member.name.encode(), member.agreement.lease_ms
    for place, owner in zip(places, owners, strict=True):
        if owner != me:
            _lose(member, place)
        elif place not in member.holdings:
            member.holdings[place] = Holding()  # of an earlier life of this member
    present = {name for name, seen in told.seen_ms.items() if abs(told.now_ms - seen) < lease_ms} | {member.name}
    gone = told.seen_ms.keys() - present
    share, rest = divmod(len(places), len(present))
    fair = share + (sorted(present).index(member.name) < rest)
    mine = [place for place in places if place in member.holdings]
    surplus = set(mine[fair:])
    for place in sorted(surplus):
        if not member.unacknowledged.get(place):
            yield from _release(member, place)
    free = [place for place, owner in zip(places, owners, strict=True) if owner is None]
    wanted = free[: max(0, fair - len(mine))]
    replies = yield from run_all(
        [
            *[("SET", member.lease_key(place), member.name, "NX", "PX", lease_ms) for place in wanted],
            *[("HDEL", members_key, name) for name in sorted(gone)],
        ]
    )
    for place, reply in zip(wanted, replies, strict=False):
        if reply:
            member.holdings[place] = Holding()
    return [place for place in places if place in member.holdings and place not in surplus]


def _read(member: Member, places: list[Place], n: int) -> Steps[list[tuple[Place, RawEntries]] | None]:
    """Return the next entries of the leased shards, pending ones first. None if a lease is lost."""
    if len(places) > n:
        member.turn = (member.turn + n) % len(places)
    chosen = (places + places)[member.turn : member.turn + n] if len(places) > n else places
    if not places:
        return []
    keys = [member.lease_key(place) for place in places]
    owners = yield Watch(keys, [("GET", key) for key in keys])
    lost = [place for place, owner in zip(places, owners, strict=True) if owner != member.name.encode()]
    for place in lost:
        _lose(member, place)
    if lost:
        return None
    count = max(1, n // len(chosen))
    commands: list[Command] = [("PEXPIRE", member.lease_key(place), member.agreement.lease_ms) for place in places]
    for place in chosen:
        key, cursor = member.key(place), member.holdings[place].cursor
        if cursor is None:
            group = ("XREADGROUP", "GROUP", member.share, member.name)
            commands.append((*group, "COUNT", count, "STREAMS", key, ">"))
        else:
            commands.append(("XAUTOCLAIM", key, member.share, member.name, 0, cursor, "COUNT", count))
    replies = yield Commit([*commands, version_command(member)])
    if replies is None:
        return None
    check_read(member, replies.pop())
    found: list[tuple[Place, RawEntries]] = []
    for place, reply in zip(chosen, replies[len(places) :], strict=True):
        holding = member.holdings[place]
        if holding.cursor is not None:
            cursor = reply[0].decode()
            holding.cursor = None if cursor == "0-0" else cursor
            entries = reply[1]
        else:
            entries = next(iter(group_entries(reply).values()), [])
            if entries:
                holding.last = entries[-1][0].decode()
        if entries:
            found.append((place, entries))
    return found


def _finish(member: Member, generation: layout.Generation) -> Steps[bool]:
    """Leave a closed generation whose entries are all delivered and acknowledged; return whether it was left."""
    is_delivered, is_idle = yield from group_states(member, generation)
    if not (is_delivered and is_idle):
        return False
    member.finished.add(generation.number)
    for place in [place for place in member.holdings if place[0] == generation.number]:
        yield from _release(member, place)
    return True


def _release(member: Member, place: Place) -> Steps[None]:
    """Give a lease back, if it is still this member's."""
    key = member.lease_key(place)
    (owner,) = yield Watch([key], [("GET", key)])
    yield Commit([("UNLINK", key)] if owner == member.name.encode() else [])
    _lose(member, place)


def _lose(member: Member, place: Place) -> None:
    member.holdings.pop(place, None)
    member.unacknowledged.pop(place, None)


def _wait(member: Member, places: list[Place], wait_ms: int) -> Steps[None]:
    """Wait for new entries in the shards, or for changes of the logs."""
    keys = [member.key(place) for place in places] or [layout.REGISTRY]
    if places and member.handle.abilities.xfilter and not member.pattern.is_all:
        # Where the groups have come to, past what they have skipped.
        replies = yield from run_all([("XINFO GROUPS", key) for key in keys])
        name = member.share.encode()
        at = [next((one["last-delivered-id"] for one in groups if one["name"] == name), b"0-0") for groups in replies]
        yield from run_all([wait_for_match(keys, [one.decode() for one in at], member.pattern, wait_ms)])
        return
    ids = [member.holdings[place].last for place in places] or ["$"]
    yield from run_all([("XREAD", "COUNT", 1, "BLOCK", wait_ms, "STREAMS", *keys, *ids)])


def renew(member: Member) -> Steps[None]:
    """Begin this member's leases anew."""
    places = list(member.holdings)
    if not places:
        return
    keys = [member.lease_key(place) for place in places]
    owners = yield Watch(keys, [("GET", key) for key in keys])
    kept = [key for key, owner in zip(keys, owners, strict=True) if owner == member.name.encode()]
    yield Commit([("PEXPIRE", key, member.agreement.lease_ms) for key in kept])


def leave(member: Member) -> Steps[None]:
    """Give all leases back; their next owners get the entries that are still pending."""
    for place in list(member.holdings):
        yield from _release(member, place)
    yield from run_all([("HDEL", layout.members_key(member.handle.name, member.share), member.name)])
