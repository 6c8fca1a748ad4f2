"""Publishing messages: each goes to the shard of its publisher, or of its topic, in the current generation."""

from itertools import groupby
from typing import Any

from streamd.clients.topics import administration, layout, numbers, retention
from streamd.clients.topics.entry_ids import parse_id
from streamd.clients.topics.filters import parse_filter
from streamd.clients.topics.handle import Handle, refresh
from streamd.clients.topics.messages import Message, Prepared, pack, prepare
from streamd.clients.topics.once import MESSAGES_MAX, script_command, script_replies
from streamd.clients.topics.steps import Append, Command, Pipeline, Steps

BATCH_MAX = 1_000  # messages in one round trip: more make it no quicker, and their replies wait for each other
GENERATIONS_MAX = 100  # begun while one batch is on its way
_EXHAUSTED = "exhausted the last possible ID"  # what the server says behind an end entry

Reply = bytes | Exception | None


class NotStored(RuntimeError):
    """The server refused a message of a batch. `ids` has the entry IDs of stored messages, None for other ones."""

    def __init__(self, error: Exception, ids: list[str | None]) -> None:
        missing = sum(one is None for one in ids)
        super().__init__(f"{missing} of {len(ids)} messages were not stored: {error}")
        self.ids = ids


def publish(handle: Handle, messages: list[Message]) -> Steps[list[str]]:
    """Store messages in their order; return their entry IDs.

    All are checked before the first is written. A message with an iid that was stored before is not stored again: its
    ID is the one from then, also if the log has been reconfigured in between.

    Raises: ValueError; LogDropped; NotStored.
    """
    prepared = [prepare(one) for one in messages]
    yield from _check_topics(handle, prepared)
    if not handle.abilities.idmp and not handle.abilities.scripts and any(one.iid for one in prepared):
        raise ValueError(
            "this server has neither XADD IDMP nor scripts, so it cannot store an iid once: use streamd or Redis 8.6, "
            "or publish without iid"
        )
    version = handle.meta.version
    newer = [one.version for one in prepared if one.version > version]
    if newer:
        yield from administration.raise_version(handle, max(newer))
    ids: list[str] = []
    for first in range(0, len(prepared), BATCH_MAX):
        batch = prepared[first : first + BATCH_MAX]
        try:
            ids += yield from _publish_batch(handle, (yield from _numbered(handle, batch)))
        except NotStored as error:
            error.ids = [*ids, *error.ids, *[None] * (len(prepared) - first - len(batch))]
            raise
        if retention.is_due(handle, parse_id(ids[-1])[0]):
            yield from retention.retain(handle)
    return ids


def _numbered(handle: Handle, batch: list[Prepared]) -> Steps[list[Prepared]]:
    """Return messages of which the retained ones have numbers, drawn by one request. Raises: NotStored."""
    count = sum(one.retain for one in batch)
    if not count:
        return batch
    key = layout.numbers_key(handle.name)
    draw = numbers.drawing(key, count)
    reply, noted = yield Pipeline([draw, ("HGET", layout.cleared_key(handle.name), "")])
    if isinstance(noted, bytes):
        handle.highest = max(handle.highest, numbers.parse_number(noted) or numbers.NONE)
    while isinstance(reply, bytes) and parse_id(reply) <= handle.highest[:2]:
        # The stream was removed, and the server's clock is behind; what gave these numbers is lost.
        _, reply = yield Pipeline([numbers.raising(key, handle.highest), draw])
    if not isinstance(reply, bytes):
        raise NotStored(reply, [None] * len(batch))
    drawn = numbers.drawn(reply, count)
    handle.highest = drawn[-1]
    each = iter(drawn)
    return [
        one._replace(words=(*one.words, b"n", numbers.format_number(next(each)))) if one.retain else one
        for one in batch
    ]


def _publish_batch(handle: Handle, batch: list[Prepared]) -> Steps[list[str]]:
    ids: list[str | None] = [None] * len(batch)
    for _ in range(GENERATIONS_MAX):
        for generation in (*handle.closed_generations(), handle.meta.current):
            is_current = generation.number == handle.meta.current.number
            waiting = [
                number
                for number, one in enumerate(batch)
                if ids[number] is None and (is_current or one.iid is not None)
            ]
            replies = yield from _append(handle, generation, [batch[number] for number in waiting])
            errors = []
            for number, reply in zip(waiting, replies, strict=True):
                if isinstance(reply, bytes):
                    ids[number] = reply.decode("ascii")
                elif reply is not None:
                    errors.append(reply)
            if errors:
                raise NotStored(errors[0], ids)
        stored = [one for one in ids if one is not None]
        if len(stored) == len(batch):
            return stored
        # A generation was closed meanwhile: what is left goes to the one that follows, if it is still the log's.
        before = handle.meta.current.number
        yield from refresh(handle)
        if handle.meta.current.number == before:
            raise NotStored(
                ValueError(
                    f"a stream of log {handle.name!r} is missing or ended by hand: reconfigure the log, which makes new"
                ),
                ids,
            )
        yield from _check_topics(handle, [one for number, one in enumerate(batch) if ids[number] is None])
    raise NotStored(RuntimeError(f"log {handle.name!r} was reconfigured {GENERATIONS_MAX} times meanwhile"), ids)


def _append(handle: Handle, generation: layout.Generation, messages: list[Prepared]) -> Steps[list[Reply]]:
    """Return the reply to the XADD of each message: None if the generation is closed."""
    if not messages:
        return []
    keys = layout.stream_keys(handle.name, generation)
    names = [generation.name_of(topic, publisher) for topic, publisher, *_ in messages]
    places = {name: generation.shard_named(name) for name in set(names)}
    shards = [places[name] for name in names]
    if not handle.abilities.idmp and any(one.iid for one in messages):
        return (yield from _append_by_script(keys, shards, messages))
    # Shard by shard, in order within each: a server is quicker with requests that are like those before.
    numbers = sorted(range(len(messages)), key=shards.__getitem__)
    heads = [pack((b"XADD", key.encode(), b"NOMKSTREAM")) for key in keys]
    packed = []
    for number in numbers:
        _, publisher, iid, words, *_ = messages[number]
        head = heads[shards[number]]
        if iid is None or publisher is None:
            packed.append(b"*%d\r\n%b$1\r\n*\r\n%b" % (4 + len(words), head, pack(words)))
        else:
            named = pack((b"IDMP", publisher, iid, b"*"))
            packed.append(b"*%d\r\n%b%b%b" % (7 + len(words), head, named, pack(words)))
    known = [handle.recorded.newest((generation.number, shard)) for shard in range(generation.shards)]
    replies: list[Any] = yield Append(packed)
    found: list[Reply] = [None] * len(messages)
    for number, reply in zip(numbers, replies, strict=True):
        found[number] = None if isinstance(reply, Exception) and _EXHAUSTED in str(reply) else reply
    for shard, group in groupby(numbers, shards.__getitem__):
        last: Reply = None
        publishers = []
        for number in group:
            one = messages[number]
            if one.iid is not None and one.publisher is not None:
                publishers.append(one.publisher)
                last = found[number]
        if isinstance(last, bytes):
            handle.recorded.count((generation.number, shard), publishers, parse_id(last), known[shard])
    return found


def _append_by_script(keys: list[str], shards: list[int], messages: list[Prepared]) -> Steps[list[Reply]]:
    commands: list[Command] = []
    places: list[list[int]] = []
    for shard, key in enumerate(keys):
        mine = [number for number, its_shard in enumerate(shards) if its_shard == shard]
        for first in range(0, len(mine), MESSAGES_MAX):
            numbers = mine[first : first + MESSAGES_MAX]
            places.append(numbers)
            commands.append(script_command(key, [messages[number] for number in numbers]))
    replies: list[Any] = yield Pipeline(commands)
    found: list[Reply] = [None] * len(messages)
    for numbers, reply in zip(places, replies, strict=True):
        each = [reply] * len(numbers) if isinstance(reply, Exception) else script_replies(reply, len(numbers))
        for number, one in zip(numbers, each, strict=True):
            found[number] = one
    return found


def _check_topics(handle: Handle, messages: list[Prepared]) -> Steps[None]:
    topics = {one.topic for one in messages}
    if _outside(handle, topics) is None:
        return
    yield from refresh(handle)  # before anything is refused: the log may take more than it did
    topic = _outside(handle, topics)
    if topic is not None:
        raise ValueError(
            f"topic {topic.decode()!r} is outside of log {handle.name!r}, whose filters are "
            f"{', '.join(handle.meta.current.filters)}: publish to another log, or reconfigure this one"
        )


def _outside(handle: Handle, topics: set[bytes]) -> bytes | None:
    filters = [parse_filter(text) for text in handle.meta.current.filters]
    outside = [topic for topic in topics if not any(one.matches(topic) for one in filters)]
    return min(outside, default=None)
