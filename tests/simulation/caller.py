"""A client of a simulation: it finds the primary, sends a pipeline, and gets replies or none."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.network import Host, Wire

if TYPE_CHECKING:
    from tests.simulation.sentinel import Sentinel
    from tests.simulation.world import SimulatedWorld

Request = list[bytes]
Done = Callable[["list[Any] | None"], None]


class Refused(str):
    """An error that a server has replied."""

    __slots__ = ()


def parse_reply(data: bytes, at: int) -> tuple[Any, int] | None:
    """Return the reply that begins at a place, and where it ends; None if it is not complete."""
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return None
    kind, line = data[at : at + 1], data[at + 1 : line_end]
    at = line_end + 2
    if kind == b"+":
        return line, at
    if kind == b"-":
        return Refused(line.decode()), at
    if kind == b":":
        return int(line), at
    count = int(line)
    if count < 0:
        return None, at
    if kind == b"$":
        return None if len(data) < at + count + 2 else (data[at : at + count], at + count + 2)
    assert kind == b"*", data
    items = []
    for _ in range(count):
        found = parse_reply(data, at)
        if found is None:
            return None
        item, at = found
        items.append(item)
    return items, at


def encode(requests: list[Request]) -> bytes:
    """Return a pipeline as it is sent."""
    return b"".join(
        b"*%d\r\n" % len(one) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in one) for one in requests
    )


class Caller:
    """A client on a host, with one pipeline at a time under way.

    keeps: whether what it has sent may still reach the server after it has given up.
    """

    def __init__(self, world: "SimulatedWorld", sentinel: "Sentinel", name: str, host: Host, keeps: bool) -> None:
        self.world, self.sentinel, self.name, self.host, self.keeps = world, sentinel, name, host, keeps
        self.port = 1
        self.timeout_ms = world.chance.choice((300, 700, 2_000))
        self._wire: Wire | None = None
        self._wire_port = 0
        self._data = b""
        self._call = 0
        self._requests: list[Request] = []
        self._done: Done | None = None

    def note(self, text: str) -> None:
        """Write a line of the history."""
        self.world.where = self.name
        self.world.note(text)

    def call(self, requests: list[Request], done: Done) -> None:
        """Send a pipeline to the primary; `done` gets the replies, or None if they have not come."""
        assert self._done is None
        self._call += 1
        call = self._call
        self._requests, self._done = requests, done
        self.world.later(self.timeout_ms, lambda: self._end(None) if call == self._call else None)
        if self._wire is not None:
            self._wire.send(encode(requests))
            return
        # (The answer to a call before this one is late: it is passed over.)
        self.sentinel.ask(self.host, lambda port: self._connect(port) if call == self._call else None)
        if self.world.chance.random() < 0.3:  # what it knew, where Sentinel cannot be reached
            self.world.later(20, lambda: self._connect(self.port) if call == self._call else None)

    def _connect(self, port: int) -> None:
        if self._wire is not None:
            return
        self.port = port
        call = self._call

        def made(wire: Wire) -> None:
            if call != self._call or self._wire is not None:
                wire.close_here()
                return
            self._wire, self._data = wire, b""
            holder.append(wire)
            wire.send(encode(self._requests))

        holder: list[Wire] = []

        def received(data: bytes) -> None:
            if holder and self._wire is holder[0]:
                self._receive(data)

        def lost() -> None:
            if holder and self._wire is holder[0]:
                self._wire = None
                self._end(None)

        self.world.net.connect(
            self.host, self.world.nodes.get(port), None, made,  # type: ignore[arg-type]
            lambda: self._end(None) if call == self._call else None, received, lost,
        )  # fmt: skip

    def _receive(self, data: bytes) -> None:
        self._data += data
        at = 0
        replies = []
        while len(replies) < len(self._requests):
            found = parse_reply(self._data, at)
            if found is None:
                return
            reply, at = found
            replies.append(reply)
        self._data = self._data[at:]
        self._end(replies)

    def _end(self, replies: "list[Any] | None") -> None:
        done, self._done = self._done, None
        if done is None:
            return
        self._call += 1
        if replies is None or any(_is_refusal(one) for one in replies):
            self.disconnect()
        done(replies)

    def disconnect(self) -> None:
        """Close the connection; the next call asks for the primary again."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close_here(self.keeps)


def _is_refusal(reply: Any) -> bool:
    return isinstance(reply, Refused) and not reply.startswith("BUSYGROUP")
