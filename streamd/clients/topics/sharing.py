"""Shared replay without order: every member reads every shard, idle work is claimed after a lease."""

from streamd.clients.topics import layout
from streamd.clients.topics.messages import Entry
from streamd.clients.topics.reading import check_numbers
from streamd.clients.topics.shares import (
    Delivery,
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
from streamd.clients.topics.steps import Command, Pipeline, Steps, run_all

CLAIMS_PER_LEASE = 10  # how often a member looks for idle work


def member_next(member: Member, n: int, block_ms: int) -> Steps[Delivery]:
    """Return up to n entries for this member to work on; wait up to that time for the first."""
    check_numbers(n, block_ms)
    deadline_s = member.handle.monotonic_s() + block_ms / 1_000
    wait_ms = 0
    while True:
        told = yield from news(member)
        if not isinstance(told, News):
            return Delivery([], told)
        generations = unfinished(member, told.meta)
        for one in list(generations):
            if not (yield from ensure_group(member, one)):
                generations.remove(one)
        taken, was_busy = yield from _claim(member, generations, told.now_ms, n)
        if not taken:
            read, is_progress = yield from _read_new(member, generations, told, n, wait_ms)
            taken += read
            was_busy |= is_progress
        if taken:
            return Delivery(taken, "more")
        if was_busy:
            wait_ms = 0
            continue
        left_ms = int((deadline_s - member.handle.monotonic_s()) * 1_000)
        if left_ms <= 0:
            return Delivery([], "live")
        wait_ms = max(1, min(left_ms, member.handle.block_ms_max, member.agreement.lease_ms // 2))


def _claim(
    member: Member, generations: list[layout.Generation], now_ms: int, n: int
) -> Steps[tuple[list[Entry], bool]]:
    """Claim entries that other members have not acknowledged for the time of a lease."""
    lease_ms = member.agreement.lease_ms
    if member.claimed_ms is not None and abs(now_ms - member.claimed_ms) < lease_ms // CLAIMS_PER_LEASE:
        return [], False
    for one in generations:
        if one.number in member.delivered:
            _, is_idle = yield from group_states(member, one)
            if is_idle:
                member.finished.add(one.number)
    places = [(one.number, shard) for one in generations for shard in range(one.shards)]
    places = _some(member, [one for one in places if one[0] not in member.finished], n)
    count = max(1, n // max(1, len(places)))
    claims: list[Command] = [
        ("XAUTOCLAIM", member.key(place), member.share, member.name, lease_ms, "0-0", "COUNT", count)
        for place in places
    ]
    *replies, version = yield Pipeline([*claims, version_command(member)])
    check_read(member, version)
    found: list[tuple[Place, RawEntries]] = []
    for place, reply in zip(places, replies, strict=True):
        if isinstance(reply, Exception):
            _forget_dropped(member, place[0], reply)
        elif reply[1]:
            found.append((place, reply[1]))
    if not found:
        member.claimed_ms = now_ms
    return (yield from sort_out(member, found, now_ms)), bool(found)


def _read_new(
    member: Member, generations: list[layout.Generation], told: News, n: int, wait_ms: int
) -> Steps[tuple[list[Entry], bool]]:
    """Return undelivered entries, and whether any were found, or a generation came to its end."""
    generation = next((one for one in generations if one.number not in member.delivered), None)
    if generation is None:
        return [], False
    places = _some(member, [(generation.number, shard) for shard in range(generation.shards)], n)
    keys = {member.key(place).encode(): place for place in places}
    is_current = generation is told.meta.current
    block = ("BLOCK", wait_ms) if wait_ms and is_current else ()
    count = max(1, n // len(places))
    command: Command = ("XREADGROUP", "GROUP", member.share, member.name, "COUNT", count, *block)
    # Asked for behind the entries: a message of a later version may have come while this waited.
    reply, version = yield Pipeline([(*command, "STREAMS", *keys, *[">"] * len(keys)), version_command(member)])
    check_read(member, version)
    if isinstance(reply, Exception):
        _forget_dropped(member, generation.number, reply)
        return [], True
    found = [(keys[key], entries) for key, entries in group_entries(reply).items()]
    if not found and not is_current:
        is_delivered, _ = yield from group_states(member, generation)
        if is_delivered:
            member.delivered.add(generation.number)
        return [], True
    taken = yield from sort_out(member, found, told.now_ms)
    return taken, bool(found)


def _some(member: Member, places: list[Place], n: int) -> list[Place]:
    """Return at most n places, others each time: so that no more than n entries come, and each place has its turn."""
    if len(places) <= n:
        return places
    member.turn = (member.turn + n) % len(places)
    return (places + places)[member.turn : member.turn + n]


def _forget_dropped(member: Member, generation: int, error: Exception) -> None:
    """Note that a generation's streams, or groups, are gone; other errors are the caller's."""
    if not str(error).startswith("NOGROUP"):
        raise error
    member.grouped.discard(generation)


def renew(member: Member) -> Steps[None]:
    """Restart the lease of this member's pending entries."""
    yield from run_all(
        [
            ("XCLAIM", member.key(place), member.share, member.name, 0, *sorted(ids))
            for place, ids in member.unacknowledged.items()
            if ids
        ]
    )


def leave(member: Member) -> Steps[None]:
    """Hand back this member's pending entries, so that other members get them at once."""
    commands: list[Command] = []
    for place, ids in member.unacknowledged.items():
        if ids:
            words = ("IDLE", member.agreement.lease_ms)
            commands.append(("XCLAIM", member.key(place), member.share, member.name, 0, *sorted(ids), *words))
    meta = member.handle.meta
    places = [(one.number, shard) for one in unfinished(member, meta) for shard in range(one.shards)]
    asked = yield Pipeline([("XINFO CONSUMERS", member.key(place), member.share) for place in places])
    for place, consumers in zip(places, asked, strict=True):
        if isinstance(consumers, Exception):
            continue  # it was dropped meanwhile
        if any(one["name"].decode() == member.name and not one["pending"] for one in consumers):
            commands.append(("XGROUP", "DELCONSUMER", member.key(place), member.share, member.name))
    if commands:
        yield Pipeline(commands)  # what was dropped meanwhile needs no handing back
    member.unacknowledged.clear()
