"""The order of entries that were read at once: retained messages of a topic go out by their numbers."""

from collections import deque

from streamd.clients.mqtt.store.stored import Stored


def in_order(entries: list[Stored]) -> list[Stored]:
    """Return entries of one read in the order in which they go out. They are given shard by shard.

    Entries of a shard keep their order, and so do those of a publisher. Retained messages of a topic that lie in
    several shards follow their numbers. Where both cannot be had, since messages were published at the same time, a
    shard's order counts; a message that was published after another one had been stored never goes out before it.
    """
    topics = _of_several_shards(entries)
    if not topics:
        return entries
    shards: dict[int, deque[Stored]] = {}
    for entry in entries:
        shards.setdefault(entry.shard, deque()).append(entry)
    found: list[Stored] = []
    waiting = list(shards.values())
    while waiting:
        count = len(found)
        for shard in waiting:
            while shard and _may_go(shard[0], topics):
                entry = shard.popleft()
                found.append(entry)
                if entry.is_retained and entry.topic in topics:
                    del topics[entry.topic][0]
        waiting = [shard for shard in waiting if shard]
        if len(found) == count:
            # Each waits for one that stands behind another. The one with the lowest number was drawn before any of
            # those that it waits for had been stored.
            entry = min(waiting, key=lambda one: one[0].rank).popleft()
            found.append(entry)
            topics[entry.topic].remove(entry)
    return found


def _may_go(entry: Stored, topics: dict[bytes, list[Stored]]) -> bool:
    return not entry.is_retained or entry.topic not in topics or topics[entry.topic][0] is entry


def _of_several_shards(entries: list[Stored]) -> dict[bytes, list[Stored]]:
    """Return the retained messages of topics that have some in several shards, in their order."""
    topics: dict[bytes, list[Stored]] = {}
    for entry in entries:
        if entry.is_retained:
            topics.setdefault(entry.topic, []).append(entry)
    found = {topic: each for topic, each in topics.items() if len({one.shard for one in each}) > 1}
    for each in found.values():
        each.sort(key=lambda one: one.rank)
    return found
