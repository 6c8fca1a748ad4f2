"""What happened in a run: each message, each delivery, and every event as a line of a file."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

NAMED, QOS2, PLAIN = "named", "qos2", "plain"  # the kinds of devices
EVENTS = "events.txt"
LINES_OF_HISTORY_MAX = 60


@dataclass(slots=True)
class Message:
    """A message that a device published: `key` is in its payload and names it.

    number: its place among the messages of its device. sends: how often it was sent, also in part. is_once: the broker
    stores it once, however often it was sent.
    """

    key: str
    device: str
    topic: str
    number: int
    qos: int
    is_once: bool
    sends: int = 0
    is_acknowledged: bool = False


class Delivery(NamedTuple):
    """A message that came to a subscriber; link: the number of its connection."""

    key: str
    topic: str
    link: int
    qos: int
    is_dup: bool


class Stored(NamedTuple):
    """An entry of the log. place: a name that no other entry has."""

    key: str
    topic: str
    publisher: str | None
    place: str


@dataclass
class Received:
    """What a subscriber, or a group of them that share, must get and got.

    members: the deliveries to each, in their order. qos: of the subscription.
    """

    name: str
    filter: str
    qos: int
    is_shared: bool = False
    members: dict[str, list[Delivery]] = field(default_factory=dict)

    def add(self, member: str, delivery: Delivery) -> None:
        """Note a delivery."""
        self.members.setdefault(member, []).append(delivery)


def key_of(payload: bytes) -> str:
    """Return the key of the message with this payload; of a damaged payload a key that no message has."""
    key, _, padding = payload.partition(b" ")
    if padding.strip(b"."):
        return f"damaged {payload[:40]!r}"
    return key.decode("utf-8", "replace")


def payload_of(key: str, length_bytes: int) -> bytes:
    """Return a payload of about that length."""
    return key.encode() + b" " + b"." * length_bytes


class Record:
    """Messages by key, what subscribers got, and the file of events."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / EVENTS
        self.messages: dict[str, Message] = {}
        self.received: list[Received] = []
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []  # that are neither lost, duplicated nor reordered
        self._file = self.path.open("w", buffering=1 << 20)
        self._began = time.monotonic()

    def event(self, who: str, what: str, key: str = "", link: int = 0) -> None:
        """Write down what somebody did or saw; key: of the message, link: the number of the connection."""
        self._file.write(f"{time.monotonic() - self._began:10.6f}\t{who}\t{link or ''}\t{key}\t{what}\n")

    def fault(self, who: str, what: str, key: str = "", link: int = 0) -> None:
        """Write down what no broker may do."""
        self.event(who, f"FAULT: {what}", key, link)
        self.faults.append(f"{who} (connection {link}): {what} {key}".strip())

    def histories(self, keys: Iterable[str]) -> dict[str, list[str]]:
        """Return the events of messages."""
        self._file.flush()
        found: dict[str, list[str]] = {key: [] for key in keys}
        with self.path.open() as file:
            for line in file:
                key = line.split("\t", 4)[3]
                if key in found:
                    found[key].append(line.rstrip("\n").expandtabs(4))
        return {key: lines[:LINES_OF_HISTORY_MAX] for key, lines in found.items()}

    def close(self) -> None:
        """Write what is left."""
        self._file.close()
