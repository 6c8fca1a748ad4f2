"""Creating, opening, reconfiguring, dropping a topic log: each is one transaction."""

import json
import secrets
from collections.abc import Iterable
from typing import Any

from streamd.clients.topics import layout
from streamd.clients.topics.entry_ids import END, format_id
from streamd.clients.topics.handle import Abilities, Handle, read_abilities, read_meta, refresh, server_ms
from streamd.clients.topics.messages import END_FIELD
from streamd.clients.topics.steps import Command, Commit, Steps, Watch, run_all

ATTEMPTS = 100  # of a transaction, each of which somebody else's came before


def create(
    name: str, shards: int, by: str, retention_s: int, filters: Iterable[str], is_rest: bool = False
) -> Steps[Handle]:
    """Make a log, and return it open.

    is_rest: it is for the topics that no other log takes; it is registered without filters, and so overlaps none.

    Raises: ValueError, also if a log has this name, or overlapping filters.
    """
    layout.check_name("log", name)
    layout.check_shards(shards)
    layout.check_by(by)
    layout.check_retention(retention_s)
    texts = layout.check_filters(filters)
    abilities = yield from read_abilities()
    uid = secrets.token_hex(8)
    for _ in range(ATTEMPTS):
        registered, meta, now = yield Watch(
            [layout.REGISTRY, layout.meta_key(name)],
            [("XRANGE", layout.REGISTRY, "-", "+"), ("HGETALL", layout.meta_key(name)), ("TIME",)],
        )
        if meta:
            if meta[b"uid"].decode() == uid:
                break  # it was this one's, and its reply was lost
            raise ValueError(f"log {name!r} exists: open it, or drop it first")
        if not is_rest:
            _refuse_overlaps(name, texts, registered)
        (number,) = yield Watch([], [("INCR", layout.COUNTER)])
        generation = layout.Generation(int(number), shards, by, texts, 0, server_ms(now))
        fields = ["version", "1", "uid", uid, "retention_s", str(retention_s)]
        done = yield Commit(
            [
                # (A gateway that still ran may have written them behind the drop of the log before.)
                ("UNLINK", *layout.retained_keys(name)),
                ("HSET", layout.meta_key(name), *fields),
                *_begin(name, generation, abilities),
                _register(name, uid, () if is_rest else texts),
            ]
        )
        if done is not None:
            break
    else:
        raise _too_busy(name)
    return (yield from open_log(name, abilities))


def open_log(name: str, abilities: Abilities | None = None) -> Steps[Handle]:
    """Return an open log. Raises: ValueError, if no log has this name."""
    layout.check_name("log", name)
    if abilities is None:
        abilities = yield from read_abilities()
    meta, now_ms = yield from read_meta(name)
    if meta is None:
        raise ValueError(f"no log {name!r}: create it, with TopicLog.create or `streamd topics create {name}`")
    handle = Handle(meta, abilities, now_ms)
    handle.begin()
    return handle


def reconfigure(
    handle: Handle,
    shards: int | None,
    by: str | None,
    filters: Iterable[str] | None,
    retention_s: int | None,
) -> Steps[None]:
    """Begin a generation with other shards or filters; or only set the retention.

    The streams of the older generation get an end entry, which has the highest ID: the server refuses all behind it,
    so that a publisher which has not heard of this finds out by its next XADD.

    Raises: ValueError.
    """
    texts = None if filters is None else layout.check_filters(filters)
    if shards is not None:
        layout.check_shards(shards)
    if by is not None:
        layout.check_by(by)
    if retention_s is not None:
        layout.check_retention(retention_s)
    name, meta_key = handle.name, layout.meta_key(handle.name)
    began = handle.meta.uid, 0
    for _ in range(ATTEMPTS):
        registered, fields, now = yield Watch(
            [layout.REGISTRY, meta_key],
            [("XRANGE", layout.REGISTRY, "-", "+"), ("HGETALL", meta_key), ("TIME",)],
        )
        meta = handle.take(layout.parse_meta(name, fields), server_ms(now))
        old = meta.current
        if began[1] and old.number == began[1]:
            return  # it was this one's, and its reply was lost
        commands: list[Command] = []
        if retention_s is not None:
            commands.append(("HSET", meta_key, "retention_s", retention_s))
        if not (shards is None and by is None and texts is None):
            new_filters = old.filters if texts is None else texts
            if texts is not None or not _is_rest(name, registered):
                _refuse_overlaps(name, new_filters, registered)
            (number,) = yield Watch([], [("INCR", layout.COUNTER)])
            began = meta.uid, int(number)
            new = layout.Generation(
                int(number), shards or old.shards, by or old.by, new_filters, old.number, server_ms(now)
            )
            ends = [("XADD", key, format_id(END), END_FIELD, new.number) for key in layout.stream_keys(name, old)]
            commands += [*_begin(name, new, handle.abilities), *ends]
            if texts is not None:
                commands += [*_unregister(name, registered), _register(name, meta.uid, texts)]
        if not commands or (yield Commit(commands)) is not None:
            yield from refresh(handle)
            return
    raise _too_busy(name)


def raise_version(handle: Handle, version: int) -> Steps[None]:
    """Allow entries of a later version in a log; libraries that do not know it refuse the log from then on."""
    meta_key = layout.meta_key(handle.name)
    for _ in range(ATTEMPTS):
        fields, now = yield Watch([meta_key], [("HGETALL", meta_key), ("TIME",)])
        meta = handle.take(layout.parse_meta(handle.name, fields), server_ms(now))
        if meta.version >= version:
            return
        if (yield Commit([("HSET", meta_key, "version", version)])) is not None:
            yield from refresh(handle)
            return
    raise _too_busy(handle.name)


def drop_generation(handle: Handle, number: int) -> Steps[None]:
    """Remove a closed generation with all its messages, in one step. Raises: ValueError."""
    name, meta_key = handle.name, layout.meta_key(handle.name)
    for attempt in range(ATTEMPTS):
        shares, fields, now = yield Watch(
            [meta_key], [("HGETALL", layout.shares_key(name)), ("HGETALL", meta_key), ("TIME",)]
        )
        meta = handle.take(layout.parse_meta(name, fields), server_ms(now))
        generation = meta.generation(number)
        if generation is None and attempt:
            return  # it was this one's doing, and its reply was lost; or somebody else's, at the same time
        if generation is None:
            there = ", ".join(str(one.number) for one in meta.generations)
            raise ValueError(f"log {name!r} has no generation {number}: it has {there}")
        if generation is meta.current:
            raise ValueError(
                f"generation {number} of log {name!r} is the current one: reconfigure the log first, or drop all of it"
            )
        marks = yield from _unread_by(name, generation, shares)
        if (yield Commit([*marks, *_remove(name, generation), ("HDEL", meta_key, f"g{number}")])) is not None:
            yield from refresh(handle)
            return
    raise _too_busy(name)


def drop_log(handle: Handle) -> Steps[None]:
    """Remove a log with all that belongs to it, in one step. Raises: LogDropped, if it was removed before."""
    name = handle.name
    for attempt in range(ATTEMPTS):
        registered, fields, shares = yield Watch(
            [layout.REGISTRY, layout.meta_key(name), layout.shares_key(name)],
            [
                ("XRANGE", layout.REGISTRY, "-", "+"),
                ("HGETALL", layout.meta_key(name)),
                ("HGETALL", layout.shares_key(name)),
            ],
        )
        if attempt and not fields:
            return  # it was this one's doing, and its reply was lost; or somebody else's, at the same time
        meta = handle.take(layout.parse_meta(name, fields), handle.now_ms)
        removals = [command for one in meta.generations for command in _remove(name, one, shares)]
        members = [layout.members_key(name, share.decode()) for share in shares]
        keys = [layout.meta_key(name), layout.shares_key(name), *layout.retained_keys(name), *members]
        if (yield Commit([*removals, ("UNLINK", *keys), *_unregister(name, registered)])) is not None:
            return
    raise _too_busy(name)


def describe(handle: Handle) -> Steps[dict[str, Any]]:
    """Return a description of a log: its settings, and each generation's shards with their numbers of entries."""
    meta = yield from refresh(handle)
    shares = yield from run_all([("HGETALL", layout.shares_key(meta.name))])
    generations = []
    for one in meta.generations:
        lengths = yield from run_all([("XLEN", key) for key in layout.stream_keys(meta.name, one)])
        is_closed = one is not meta.current
        generations.append(
            {
                "generation": one.number,
                "by": one.by,
                "filters": list(one.filters),
                "entries": [max(0, int(length) - is_closed) for length in lengths],
            }
        )
    return {
        "log": meta.name,
        "retention_s": meta.retention_s,
        "generations": generations,
        "shares": {name.decode(): json.loads(said) for name, said in shares[0].items() if b":" not in name},
    }


def names() -> Steps[list[str]]:
    """Return the names of all logs of a server, in the order of their creation or last change."""
    (registered,) = yield from run_all([("XRANGE", layout.REGISTRY, "-", "+")])
    return [fields[b"log"].decode() for _, fields in registered]


def _begin(name: str, generation: layout.Generation, abilities: Abilities) -> list[Command]:
    """Return the commands that make a generation's empty streams with their windows, and make it the current one."""
    commands: list[Command] = []
    for key in layout.stream_keys(name, generation):
        commands += [("XGROUP", "CREATE", key, "none", "$", "MKSTREAM"), ("XGROUP", "DESTROY", key, "none")]
        if abilities.idmp:
            window = ("IDMP-DURATION", layout.WINDOW_S, "IDMP-MAXSIZE", layout.WINDOW_MAXSIZE)
            commands.append(("XCFGSET", key, *window))
    fields = ("current", generation.number, f"g{generation.number}", generation.to_text())
    return [*commands, ("HSET", layout.meta_key(name), *fields)]


def _remove(name: str, generation: layout.Generation, shares: Iterable[bytes] = ()) -> list[Command]:
    """Return the commands that remove a generation's streams, their leases and their trim marks."""
    commands: list[Command] = []
    for shard in range(generation.shards):
        leases = [layout.lease_key(name, shard, generation.number, share.decode()) for share in shares]
        commands.append(("UNLINK", layout.stream_key(name, shard, generation.number), *leases))
        commands.append(("HDEL", layout.shard_meta_key(name, shard), layout.trimmed_field(generation.number)))
    return commands


def _unread_by(name: str, generation: layout.Generation, shares: dict[bytes, bytes]) -> Steps[list[Command]]:
    """Return the commands that tell shared replays of a generation's entries that they have not read."""
    if not shares:
        return []
    marked = set()
    replies = yield Watch([], [("XINFO GROUPS", key) for key in layout.stream_keys(name, generation)])
    for groups in replies:
        for group in groups:
            is_read = not group["pending"] and group["last-delivered-id"].decode() == format_id(END)
            if group["name"] in shares and not is_read:
                marked.add(group["name"])
    return [("HSET", layout.shares_key(name), b"gap:" + share, generation.number) for share in sorted(marked)]


def _register(name: str, uid: str, filters: tuple[str, ...]) -> Command:
    return (
        "XADD",
        layout.REGISTRY,
        "*",
        "log",
        name,
        "uid",
        uid,
        "filters",
        json.dumps(filters, ensure_ascii=False),
    )


def _unregister(name: str, registered: list[tuple[bytes, dict[bytes, bytes]]]) -> list[Command]:
    return [("XDEL", layout.REGISTRY, entry_id) for entry_id, fields in registered if fields[b"log"].decode() == name]


def _is_rest(name: str, registered: list[tuple[bytes, dict[bytes, bytes]]]) -> bool:
    return any(fields[b"log"].decode() == name and fields[b"filters"] == b"[]" for _, fields in registered)


def _refuse_overlaps(name: str, filters: tuple[str, ...], registered: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
    for _, fields in registered:
        other = fields[b"log"].decode()
        pair = layout.overlapping(filters, json.loads(fields[b"filters"])) if other != name else None
        if pair is not None:
            raise ValueError(
                f"log {name!r} with filter {pair[0]!r} overlaps log {other!r} with filter {pair[1]!r}: a topic belongs "
                "to one log; choose filters that no topic matches both of"
            )


def _too_busy(name: str) -> RuntimeError:
    return RuntimeError(f"log {name!r}: others changed it {ATTEMPTS} times meanwhile; try again")
