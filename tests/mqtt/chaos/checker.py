"""What a broker did wrong: messages that are lost, duplicated, reordered, or nobody's.

| | in the log | at a subscriber |
|---|---|---|
| stored once (QoS 2, iid) | exactly once | |
| others of QoS 1 | once, and again at most as often as it was sent again | |
| QoS 2 by both sides | | each entry exactly once |
| QoS 1 by either side | | each entry at least once; on one connection only once; twice without DUP only after a kill |
| order | of first entries, per device and topic | of first deliveries, per device and topic (not in a shared group) |
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streamd.clients.topics.filters import TopicFilter
from tests.mqtt.chaos.records import Delivery, Message, Received, Stored

LOST, DUPLICATED, REORDERED, FOREIGN = "lost", "duplicated", "reordered", "foreign"
LOG = "the log"


class Finding(NamedTuple):
    """A fault: its kind, where it was seen, the key of the message, and how it shows."""

    kind: str
    where: str
    key: str
    text: str


def check(
    messages: dict[str, Message], log: Sequence[Stored], received: Iterable[Received], *, has_kills: bool
) -> list[Finding]:
    """Return what is wrong with a log and with what subscribers got. has_kills: the broker was killed in between."""
    findings = list(_of_log(messages, log))
    copies = Counter(stored.key for stored in log if stored.key in messages)
    for one in received:
        findings += _of_received(messages, copies, one, has_kills)
    return findings


def _of_log(messages: dict[str, Message], log: Sequence[Stored]) -> Iterable[Finding]:
    copies = Counter(stored.key for stored in log)
    for stored in log:
        message = messages.get(stored.key)
        if message is None:
            yield Finding(FOREIGN, LOG, stored.key, f"{stored.place}: nobody published it")
        elif message.topic != stored.topic or stored.publisher not in (None, message.device):
            yield Finding(FOREIGN, LOG, stored.key, f"{stored.place}: topic {stored.topic}, of {stored.publisher}")
    for key, message in messages.items():
        found, most = copies[key], 1 if message.is_once else max(1, message.sends)
        if message.is_acknowledged and not found:
            yield Finding(LOST, LOG, key, "acknowledged, and not stored")
        if found > most:
            yield Finding(DUPLICATED, LOG, key, f"stored {found} times; sent {message.sends} times")
    yield from _out_of_order(messages, (stored.key for stored in log), LOG)


def _of_received(
    messages: dict[str, Message], copies: Counter[str], received: Received, has_kills: bool
) -> Iterable[Finding]:
    wanted = TopicFilter(received.filter.split("/", 2)[2] if received.is_shared else received.filter)
    matching = {topic: wanted.matches(topic) for topic in {message.topic for message in messages.values()}}
    everything = [delivery for member in received.members.values() for delivery in member]
    found = Counter(delivery.key for delivery in everything)
    for key, count in copies.items():
        if matching[messages[key].topic] and found[key] < count:
            yield Finding(LOST, received.name, key, f"stored {count} times, delivered {found[key]} times")
    for delivery in everything:
        message = messages.get(delivery.key)
        if message is None or message.topic != delivery.topic or not matching[message.topic]:
            yield Finding(FOREIGN, received.name, delivery.key, f"delivered under {delivery.topic}")
        elif delivery.qos != min(message.qos, received.qos):
            yield Finding(FOREIGN, received.name, delivery.key, f"delivered with QoS {delivery.qos}")
    for name, member in received.members.items():
        yield from _twice(messages, copies, member, name, has_kills)
        if not received.is_shared:
            yield from _out_of_order(messages, (delivery.key for delivery in member), name)


def _twice(
    messages: dict[str, Message], copies: Counter[str], deliveries: list[Delivery], where: str, has_kills: bool
) -> Iterable[Finding]:
    by_key: dict[str, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        if delivery.key in messages:
            by_key[delivery.key].append(delivery)
    for key, found in by_key.items():
        # Of a message that is not in the log each delivery is one too many only from the second on: it is foreign.
        most = max(1, copies[key])
        if len(found) <= most:
            continue
        if found[0].qos == 2:
            yield Finding(DUPLICATED, where, key, f"stored {most} times, delivered {len(found)} times with QoS 2")
            continue
        link, times = Counter(delivery.link for delivery in found).most_common(1)[0]
        firsts = sum(not delivery.is_dup for delivery in found)
        if times > most:
            yield Finding(DUPLICATED, where, key, f"delivered {times} times on connection {link}")
        elif firsts > most and not has_kills:
            yield Finding(DUPLICATED, where, key, f"delivered {firsts} times without DUP")


def _out_of_order(messages: dict[str, Message], keys: Iterable[str], where: str) -> Iterable[Finding]:
    """Yield each message whose first copy is behind that of a later one of its device and topic."""
    newest: dict[str, Message] = {}  # by topic: a topic is of one device
    seen = set()
    for key in keys:
        message = messages.get(key)
        if message is None or key in seen:
            continue
        seen.add(key)
        before = newest.get(message.topic)
        if before is not None and before.number > message.number:
            yield Finding(REORDERED, where, key, f"behind {before.key} of the same topic")
        else:
            newest[message.topic] = message
