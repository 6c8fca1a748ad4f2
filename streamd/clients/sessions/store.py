"""The store of sessions for brokers with threads, or with none."""

from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType

import redis

from streamd.clients.sessions.messages import Message, Messages
from streamd.clients.sessions.outbox import FLUSH_COMMANDS, FLUSH_MS, Outbox
from streamd.clients.sessions.requests import TTL_S, Requests, Session, single_server


class DeviceStore:
    """Keeps the messages of offline subscribers.

    Each method is one atomic step, and returns when the server has answered. `buffered` has the same methods for busy
    brokers.

    Raises, all methods: ValueError for wrong arguments, before anything is sent; redis.RedisError. After a lost
    connection it is unknown whether the step was taken: `session` tells the last packet ID.
    """

    def __init__(
        self,
        client: redis.Redis,
        limit: int | None = None,
        ttl_s: int = TTL_S,
        *,
        prefix: str = "",
        flush_commands: int = FLUSH_COMMANDS,
        flush_ms: float = FLUSH_MS,
    ) -> None:
        """limit: the number of messages that a session keeps, the newest ones; at most 65,535. By default that of the
        variable STREAMD_SESSIONS_LIMIT; without the variable 10,000. ttl_s: the time to live of messages without one of
        their own. prefix: the beginning of all keys.
        """
        self._requests = Requests(limit, ttl_s, prefix)
        self._outbox = Outbox(single_server(client), flush_commands, flush_ms)
        self.buffered = BufferedStore(self._requests, self._outbox)

    def add(self, client_id: str, messages: Message | Iterable[Message]) -> list[int]:
        """Add messages to a session, in their order; return their packet IDs."""
        request = self._requests.add(client_id, messages)
        return [] if request is None else self._outbox.run(request)

    def get(self, client_id: str) -> Messages:
        """Return a session's messages in the order in which they were added.

        A stored value that is no message is left out: `damaged` of the result names it, and a warning is logged.
        """
        return self._outbox.run(self._requests.get(client_id))

    def remove(self, client_id: str, packet_id: int) -> None:
        """Remove a message; a missing one counts as removed."""
        self._outbox.run(self._requests.remove(client_id, packet_id))

    def remove_all(self, client_id: str) -> None:
        """Remove a session: its messages, and its last packet ID."""
        self._outbox.run(self._requests.remove_all(client_id))

    def mark_pubrel(self, client_id: str, packet_id: int) -> None:
        """Note that a message of QoS 2 has come to its PUBREL; from then on it does not expire."""
        self._outbox.run(self._requests.mark_pubrel(client_id, packet_id))

    def session(self, client_id: str) -> Session | None:
        """Return a session's last packet ID and when it was given; or None."""
        return self._outbox.run(self._requests.session(client_id))

    def set_last_packet_id(self, client_id: str, packet_id: int) -> None:
        """Let the next message get the packet ID behind this one."""
        self._outbox.run(self._requests.set_last_packet_id(client_id, packet_id))

    def flush(self) -> None:
        """Send the requests of `buffered`, and return when they are answered."""
        self._outbox.flush()

    def close(self) -> None:
        """Send the requests of `buffered`, and end. The client stays open."""
        self._outbox.close()

    def __enter__(self) -> "DeviceStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BufferedStore:
    """The methods of a store that return at once: their requests are sent together.

    They are sent when `flush_commands` (150) wait, `flush_ms` (3) after the first of them, or with the next call of the
    store itself. The thread that adds the last request sends them all, so calls come back as quickly as the server
    works.
    The order of all calls is kept.
    """

    def __init__(self, requests: Requests, outbox: Outbox) -> None:
        self._requests = requests
        self._outbox = outbox

    def add(self, client_id: str, messages: Message | Iterable[Message]) -> "Future[list[int]]":
        """As `DeviceStore.add`."""
        request = self._requests.add(client_id, messages)
        if request is not None:
            return self._outbox.put(request)
        nothing: Future[list[int]] = Future()
        nothing.set_result([])
        return nothing

    def get(self, client_id: str) -> "Future[Messages]":
        """As `DeviceStore.get`."""
        return self._outbox.put(self._requests.get(client_id))

    def remove(self, client_id: str, packet_id: int) -> "Future[None]":
        """As `DeviceStore.remove`."""
        return self._outbox.put(self._requests.remove(client_id, packet_id))

    def remove_all(self, client_id: str) -> "Future[None]":
        """As `DeviceStore.remove_all`."""
        return self._outbox.put(self._requests.remove_all(client_id))

    def mark_pubrel(self, client_id: str, packet_id: int) -> "Future[None]":
        """As `DeviceStore.mark_pubrel`."""
        return self._outbox.put(self._requests.mark_pubrel(client_id, packet_id))

    def session(self, client_id: str) -> "Future[Session | None]":
        """As `DeviceStore.session`."""
        return self._outbox.put(self._requests.session(client_id))

    def set_last_packet_id(self, client_id: str, packet_id: int) -> "Future[None]":
        """As `DeviceStore.set_last_packet_id`."""
        return self._outbox.put(self._requests.set_last_packet_id(client_id, packet_id))
