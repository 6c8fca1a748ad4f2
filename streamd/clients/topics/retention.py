"""Removes messages older than a log's retention."""

from itertools import pairwise

from streamd.clients.topics import administration, layout
from streamd.clients.topics.entry_ids import BEGIN, Id, following, format_id, parse_id
from streamd.clients.topics.handle import Handle, refresh
from streamd.clients.topics.steps import Command, Commit, Steps, Watch, run_all

# Publishers look for it by themselves, so many times in the span of a retention, and not more often than once a second.
LOOKS_PER_RETENTION = 100


def is_due(handle: Handle, now_ms: int) -> bool:
    """Return whether a publisher is to check the retention at this time of the server."""
    interval_ms = max(1_000, handle.meta.retention_s * 1_000 // LOOKS_PER_RETENTION)
    return abs(now_ms - handle.retained_ms) >= interval_ms


def retain(handle: Handle) -> Steps[int]:
    """Trim every shard to the retention, and drop closed generations that are empty.

    Trims are exact, and the last removed entry ID is stored with them: so a reader can tell whether it has missed
    entries.

    Returns the number of removed entries. Where another client does this already, that one goes on.
    """
    meta = yield from refresh(handle)
    handle.retained_ms = handle.now_ms
    horizon: Id = (max(0, handle.now_ms - meta.retention_s * 1_000), 0)
    places = [(one, shard) for one in meta.generations for shard in range(one.shards)]
    found = yield Watch(
        sorted({layout.shard_meta_key(meta.name, shard) for _, shard in places}),
        [
            (
                "XREVRANGE",
                layout.stream_key(meta.name, shard, one.number),
                f"({format_id(horizon)}",
                "-",
                "COUNT",
                1,
            )
            if horizon > BEGIN
            else ("XREVRANGE", "topics:none", "+", "-", "COUNT", 1)
            for one, shard in places
        ],
    )
    last = {place: parse_id(entries[0][0]) for place, entries in zip(places, found, strict=True) if entries}
    commands: list[Command] = []
    for (one, shard), entry_id in last.items():
        key = layout.stream_key(meta.name, shard, one.number)
        trimmed = (layout.trimmed_field(one.number), format_id(entry_id))
        commands.append(("HSET", layout.shard_meta_key(meta.name, shard), *trimmed))
        commands.append(("XTRIM", key, "MINID", format_id(following(entry_id))))
    marks = yield from _marks(meta.name, {(one.number, shard): at for (one, shard), at in last.items()})
    replies = yield Commit([*commands, *marks])
    if replies is None:
        return 0
    yield from _drop_emptied(handle, horizon[0])
    return sum(int(removed) for removed in replies[1 : len(commands) : 2])


def _marks(name: str, last: dict[tuple[int, int], Id]) -> Steps[list[Command]]:
    """Return the commands that tell shared replays of entries that are removed before they have read them."""
    if not last:
        return []
    (shares,) = yield Watch([], [("HGETALL", layout.shares_key(name))])
    if not shares:
        return []
    keys = {layout.stream_key(name, shard, number): at for (number, shard), at in last.items()}
    all_groups = yield Watch([], [("XINFO GROUPS", key) for key in keys])
    marked, to_ask = set(), []
    for (key, at), groups in zip(keys.items(), all_groups, strict=True):
        for group in groups:
            if group["name"] not in shares:
                continue
            if parse_id(group["last-delivered-id"]) < at:
                marked.add(group["name"])
            elif group["pending"]:
                to_ask.append((key, group["name"], at))
    pending = yield Watch([], [("XPENDING", key, group) for key, group, _ in to_ask])
    for (_, group, at), summary in zip(to_ask, pending, strict=True):
        if summary["min"] is not None and parse_id(summary["min"]) <= at:
            marked.add(group)
    return [("HSET", layout.shares_key(name), b"gap:" + share, "retention") for share in sorted(marked)]


def _drop_emptied(handle: Handle, horizon_ms: int) -> Steps[None]:
    """Drop the oldest generations, if they were closed before the retention and hold nothing but their end entries."""
    for one, successor in pairwise(handle.meta.generations):
        if successor.since_ms >= horizon_ms:
            return  # a reader may be in it that has missed nothing
        lengths = yield from run_all([("XLEN", key) for key in layout.stream_keys(handle.name, one)])
        if any(int(length) > 1 for length in lengths):
            return
        yield from administration.drop_generation(handle, one.number)
