"""Channels and patterns, and the clients that are subscribed to them."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from streamd.base.glob_table import GlobTable
from streamd.resp.types import Push, Reply


class Subscriber(Protocol):
    """A subscriber: the names of channels and of patterns, each None until there is one."""

    subscriptions: dict[bytes, None] | None
    patterns: dict[bytes, None] | None

    def reply(self, reply: Reply) -> None:
        """Take a push."""


Who = TypeVar("Who", bound=Subscriber)


class PubSub(Generic[Who]):
    """The subscribers of each channel and pattern, in the order they came.

    Shape: channels and patterns map a name to its clients (a dict used as an ordered set), and patterns are found by a
    channel without comparing all of them; a client carries its own sets of both. wants_flush(client): have a client's
    output sent at the end of the turn.
    """

    def __init__(self, wants_flush: Callable[[Who], None]) -> None:
        self.channels: dict[bytes, dict[Who, None]] = {}
        self.patterns: GlobTable[dict[Who, None]] = GlobTable()
        self._wants_flush = wants_flush

    def subscribe(self, client: Who, channel: bytes) -> None:
        """Subscribe a client to a channel."""
        if client.subscriptions is None:
            client.subscriptions = {}
        client.subscriptions[channel] = None
        self.channels.setdefault(channel, {})[client] = None

    def subscribe_pattern(self, client: Who, pattern: bytes) -> None:
        """Subscribe a client to the channels that match a pattern."""
        if client.patterns is None:
            client.patterns = {}
        client.patterns[pattern] = None
        clients = self.patterns.get(pattern)
        if clients is None:
            self.patterns.add(pattern, {client: None})
        else:
            clients[client] = None

    def unsubscribe(self, client: Who, channel: bytes) -> None:
        """End a subscription, if there is one."""
        if client.subscriptions is not None:
            client.subscriptions.pop(channel, None)
        _drop(self.channels, channel, client)

    def unsubscribe_pattern(self, client: Who, pattern: bytes) -> None:
        """End a subscription to a pattern, if there is one."""
        if client.patterns is not None:
            client.patterns.pop(pattern, None)
        _drop(self.patterns, pattern, client)

    def leave(self, client: Who) -> None:
        """End all subscriptions of a client."""
        for channel in client.subscriptions or ():
            _drop(self.channels, channel, client)
        for pattern in client.patterns or ():
            _drop(self.patterns, pattern, client)
        client.subscriptions = client.patterns = None

    def publish(self, channel: bytes, message: bytes) -> int:
        """Send a message to all subscribers; return how many times it was sent."""
        receivers = list(self.channels.get(channel, ()))
        for client in receivers:
            client.reply(Push([b"message", channel, message]))
            self._wants_flush(client)
        sent = len(receivers)
        for pattern, clients in self.patterns.find(channel) if len(self.patterns) else ():
            for client in list(clients):
                client.reply(Push([b"pmessage", pattern, channel, message]))
                self._wants_flush(client)
                sent += 1
        return sent


def _drop(subscribers: dict[bytes, dict[Who, None]] | GlobTable[dict[Who, None]], name: bytes, client: Who) -> None:
    clients = subscribers.get(name)
    if clients is not None and client in clients:
        del clients[client]
        if not clients:
            del subscribers[name]
