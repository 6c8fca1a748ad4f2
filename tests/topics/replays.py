"""Reading logs to their ends, and what every test asks of what was read."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from streamd.clients.topics import Entry, Iterator, TopicLog, layout


def replay(log: TopicLog, pattern: str = "#", start: Any = "earliest", n: int = 100) -> list[Entry]:
    """Return all that an iterator gives until it is live; a gap fails the test."""
    entries, _, states = drain(log, log.iterator(pattern, start), n)
    assert "gap" not in states
    return entries


def drain(log: TopicLog, iterator: Iterator, n: int = 100) -> tuple[list[Entry], Iterator, list[str]]:
    """Return what comes until there is no more, the iterator behind it, and the states that were met."""
    found, states = [], []
    while True:
        entries, iterator, state = log.next(iterator, n)
        assert len(entries) <= n
        found += entries
        states.append(state)
        if state in ("live", "end"):
            return found, iterator, states


def work_off(members: Iterable[Any], n: int = 10, each: Callable[[Any, Entry], None] | None = None) -> list[Entry]:
    """Let members take turns, acknowledging all, until none of them has anything; return it in the order of work."""
    members, found, idle = list(members), [], 0
    while idle < 3 * len(members):
        for member in members:
            entries, state = member.next(n)
            found += entries
            if each:
                for entry in entries:
                    each(member, entry)
            member.ack(entries)
            idle = idle + 1 if state != "more" and not entries else 0
    return found


def payloads(entries: Iterable[Entry]) -> list[str]:
    """Return payloads as text."""
    return [entry.payload.decode() for entry in entries]


def by_pair(entries: Iterable[Entry]) -> dict[tuple[str | None, str], list[int]]:
    """Return the numbers that are the payloads, by publisher and topic, in the order of reading."""
    found = defaultdict(list)
    for entry in entries:
        found[entry.publisher, entry.topic].append(int(entry.payload))
    return dict(found)


def put(client: Any, log: TopicLog, ms: int, topic: str, payload: str, publisher: str | None = None) -> None:
    """Write a message with a time of one's own choice, as redis-cli could."""
    generation = log._handle.meta.current
    shard = generation.shard_of(topic.encode(), publisher.encode() if publisher else None)
    fields = {"t": topic, "p": payload} | ({"c": publisher} if publisher else {})
    client.xadd(layout.stream_key(log.name, shard, generation.number), fields, id=f"{ms}-*")


def dump(client: Any) -> dict[bytes, Any]:
    """Return all that a server holds."""
    found = {}
    for key in client.keys("*"):
        kind = client.type(key)
        if kind == b"stream":
            found[key] = [client.xrange(key), client.xinfo_groups(key)]
        else:
            found[key] = client.hgetall(key) if kind == b"hash" else client.get(key)
    return found


class Paused:
    """The logic of one caller, which does something else before its k-th request (from 0) leaves."""

    def __init__(self, steps: Any, before: int, meanwhile: Callable[[], Any]) -> None:
        self.steps = steps
        self.before = before
        self.meanwhile = meanwhile
        self.was_paused = False

    def run(self) -> Any:
        """Be the logic's generator."""
        number, reply = 0, None
        try:
            while True:
                step = self.steps.send(reply)
                if number == self.before:
                    self.was_paused = True
                    self.meanwhile()
                reply = yield step
                number += 1
        except StopIteration as stop:
            return stop.value
