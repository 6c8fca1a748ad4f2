"""The requests of a store: each call as a request, with a function that reads its reply.

It knows no socket: `store` sends the requests by redis-py's client, `async_store` by the one for asyncio.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from streamd.clients.sessions.limit import limit_of_variable
from streamd.clients.sessions.messages import EXPIRY_S_MAX, Message, Messages, messages_of, to_fields, to_json
from streamd.clients.sessions.session_keys import PACKET_ID_MAX, Layout, check_integer

T = TypeVar("T")
Word = bytes | str | int

TTL_S: Final = 7 * 86_400


class Script:
    """A script of this package: its text, and the SHA1 that names it."""

    def __init__(self, name: str) -> None:
        self.text = (Path(__file__).parent / "lua" / f"{name}.lua").read_bytes()
        self.sha = hashlib.sha1(self.text, usedforsecurity=False).hexdigest()


ADD, GET = Script("add"), Script("get")
REMOVE, REMOVE_ALL, MARK_PUBREL = Script("remove"), Script("remove_all"), Script("mark_pubrel")


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One command. script: the script that it runs, None for a plain command. read: turns the reply into the result."""

    words: tuple[Word, ...]
    read: Callable[[Any], T]
    script: Script | None = None


class Session(NamedTuple):
    """A session. last_packet_id: the last one given. updated_ms: the server's Unix milliseconds of that moment, None if
    another broker has given all packet IDs.
    """

    last_packet_id: int
    updated_ms: int | None


class Requests:
    """Makes the requests of a store. All methods raise ValueError for wrong arguments, before anything is sent."""

    def __init__(self, limit: int | None, ttl_s: int, prefix: str) -> None:
        if limit is None:
            limit = limit_of_variable(os.environ)
        self.limit = check_integer("the limit of messages of a session", limit, 1, PACKET_ID_MAX)
        self.ttl_s = check_integer("the seconds that a message lives", ttl_s, 1, EXPIRY_S_MAX)
        self.layout = Layout(prefix)

    def _run(
        self, script: Script, keys: tuple[str, ...], words: tuple[Word, ...], read: Callable[[Any], T]
    ) -> Request[T]:
        return Request(("EVALSHA", script.sha, len(keys), *keys, *words), read, script)

    def add(self, client_id: str, messages: Message | Iterable[Message]) -> Request[list[int]] | None:
        """Return the request that adds messages, whose result are their packet IDs; None for no messages."""
        layout = self.layout
        keys = layout.messages(client_id), layout.last_packet_id(client_id), layout.updated_ms(client_id)
        pack = [messages] if isinstance(messages, Message) else list(messages)
        if len(pack) > PACKET_ID_MAX:
            raise ValueError(f"{len(pack)} messages at once: there are {PACKET_ID_MAX} packet IDs")
        for message in pack:
            if not isinstance(message, Message):
                raise ValueError(f"no Message: {message!r}")
            message.check()
        if not pack:
            return None
        now_ms = time.time_ns() // 1_000_000
        text = to_json([to_fields(message, client_id, now_ms) for message in pack])
        count = len(pack)

        def packet_ids(previous: Any) -> list[int]:
            return [(int(previous) + number) % PACKET_ID_MAX + 1 for number in range(count)]

        return self._run(ADD, keys, (self.limit, text, self.ttl_s), packet_ids)

    def get(self, client_id: str) -> Request[Messages]:
        """Return the request for a session's messages."""
        return self._run(GET, (self.layout.messages(client_id),), (), lambda reply: messages_of(client_id, reply))

    def remove(self, client_id: str, packet_id: int) -> Request[None]:
        """Return the request that removes one message."""
        return self._of_one(REMOVE, client_id, packet_id)

    def mark_pubrel(self, client_id: str, packet_id: int) -> Request[None]:
        """Return the request that notes that a message has come to its PUBREL."""
        return self._of_one(MARK_PUBREL, client_id, packet_id)

    def _of_one(self, script: Script, client_id: str, packet_id: int) -> Request[None]:
        check_integer("a packet ID", packet_id, 1, PACKET_ID_MAX)
        return self._run(script, (self.layout.messages(client_id),), (packet_id,), _nothing)

    def remove_all(self, client_id: str) -> Request[None]:
        """Return the request that removes a session."""
        layout = self.layout
        keys = layout.messages(client_id), layout.last_packet_id(client_id), layout.updated_ms(client_id)
        return self._run(REMOVE_ALL, keys, (), _nothing)

    def session(self, client_id: str) -> Request[Session | None]:
        """Return the request for a session's last packet ID and its time."""
        layout = self.layout
        return Request(("MGET", layout.last_packet_id(client_id), layout.updated_ms(client_id)), _session)

    def set_last_packet_id(self, client_id: str, packet_id: int) -> Request[None]:
        """Return the request that sets the last packet ID: the next message gets the one behind it."""
        check_integer("the last packet ID", packet_id, 0, PACKET_ID_MAX)
        return Request(("SET", self.layout.last_packet_id(client_id), packet_id), _nothing)


def _nothing(reply: Any) -> None:
    pass


def _session(reply: Any) -> Session | None:
    last, updated = reply
    return None if last is None else Session(int(last), None if updated is None else int(updated))


def single_server(client: Any) -> Any:
    """Return a client of a single server, which has a pool of connections. Raises: ValueError."""
    if not hasattr(client, "connection_pool"):
        raise ValueError(f"a store of sessions needs a redis.Redis; {type(client).__name__} is not supported")
    return client


def loads(requests: Iterable[Request[Any]]) -> list[tuple[Word, ...]]:
    """Return the commands that load the scripts of these requests.

    They precede every batch of requests. Otherwise, if the server does not know a script and another client loads it
    while the batch runs, only the later requests would be executed, and messages would change their order.
    """
    texts = {request.script.sha: request.script.text for request in requests if request.script is not None}
    return [("SCRIPT", "LOAD", text) for text in texts.values()]
