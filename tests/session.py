"""A server in the test: an engine on a clock that stands still, and clients without sockets."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from streamd.base.clock import ManualClock
from streamd.catalog import Context
from streamd.configuration.server_options import Config
from streamd.connected.client import Client
from streamd.data.records import ColumnsRecord
from streamd.engine.engine import Engine
from streamd.resp.template import Requests
from tests.engines import noted

Word = bytes | str | int


@dataclass(frozen=True, slots=True)
class Error:
    """An error reply: the whole line behind the `-`."""

    text: str


class SessionClient:
    """One client of a session. Words of a request may be bytes, text or integers."""

    def __init__(self, engine: Engine, protocol: int = 2) -> None:
        self.engine = engine
        self.client: Context = engine.connect()
        self.client.protocol = protocol
        self.pushes: list[Any] = []

    def send(self, *requests: Iterable[Word]) -> None:
        """Run requests as one turn; the replies are left for `replies()` or `received()`."""
        self.engine.run(self.client, [[_word(word) for word in request] for request in requests])
        self.engine.end_turn()
        if self.engine.state.tracking.changed:
            self.engine.tick()  # as the server's loop does, when the engine wants a turn

    def batches(self, name: bytes) -> list[int]:
        """Return a list that gets how many requests each run of a command, by its name in lower case, took."""
        seen: list[int] = []
        command = self.engine.commands[name]
        batch = command.batch
        assert batch is not None

        def watched(context: Context, requests: Requests) -> int:
            seen.append(take(context, requests))
            return seen[-1]

        take = batch.take
        command.batch = replace(batch, take=watched)
        return seen

    def execute(self, request: Iterable[Word]) -> Any:
        """Return the reply to one request: see `decode`. A request that blocks fails the test."""
        self.send(request)
        replies = self.replies()
        assert len(replies) == 1, f"{len(replies)} replies, expected one"
        return replies[0]

    def do(self, line: str) -> Any:
        """Return the reply to a request whose words are separated by blanks."""
        return self.execute(line.split())

    def say(self, line: str) -> None:
        """Run a request whose words are separated by blanks; it may block."""
        self.send(line.split())

    def raw(self, request: Iterable[Word]) -> bytes:
        """Return the bytes of the reply to one request."""
        self.send(request)
        return self.received()

    def received(self) -> bytes:
        """Return the bytes sent to the client since the last call."""
        data = b"".join(self.client.out)
        self.client.out.clear()
        return data

    def replies(self) -> list[Any]:
        """Return the replies that came since the last call; RESP3 pushes go to `pushes`."""
        data, at, found = self.received(), 0, []
        while at < len(data):
            is_push = data[at : at + 1] == b">"
            reply, at = decode(data, at)
            (self.pushes if is_push else found).append(reply)
        return found

    @property
    def blocked(self) -> bool:
        """Whether the client waits in a blocking request."""
        return self.client.waiter is not None

    def disconnect(self) -> None:
        """Close the client's connection."""
        self.engine.disconnect(self.client)


class Session(SessionClient):
    """An engine on a manual clock, with a first client whose methods it has; moving the clock ticks the engine."""

    def __init__(self, clock: ManualClock | None = None, config: Config | None = None) -> None:
        self.clock = clock or ManualClock()
        super().__init__(noted(Engine(self.clock, config)))
        self.state = self.engine.state
        self.state.records = None
        # Commands take no time, and what else the tests' process holds in memory is no matter of this server.
        self.engine.calls.stopwatch = lambda: 0
        self.engine.memory_limit._measure = lambda: 0
        self.clock.on_move(self.engine.tick)

    def connect(self, protocol: int = 2) -> SessionClient:
        """Return a further client."""
        return SessionClient(self.engine, protocol)

    def sweep(self) -> None:
        """Free what has expired, as the cron does."""
        while self.engine.cron():
            pass

    def record(self) -> "list[tuple[int, list[bytes]]]":
        """Start to note the journal's records, and return the growing list of them: (database, words)."""
        journal = RecordingJournal(self.engine)
        self.state.journal = journal
        self.state.records = []
        return journal.records


class RecordingJournal:
    """A journal that only remembers."""

    def __init__(self, engine: Engine) -> None:
        self.records: list[tuple[int, list[bytes]]] = []
        self.writers: list[Client] = []
        self._state = engine.state

    def append_unit(self, records: list[tuple[int, list[bytes]]]) -> None:
        """Take the effects of one unit."""
        for record in records:
            self.records += record.records() if isinstance(record, ColumnsRecord) else [record]

    def end_turn(self) -> None:
        """Let all replies leave."""
        clients, self._state.to_flush = self._state.to_flush, []
        for client in clients:
            client.flush_wanted = False
            client.flush()

    def doubt(self) -> None:
        """Rewrite nothing."""

    def tick(self) -> bool:
        """Have nothing to do."""
        return False


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Return the reply at `at` and where the next one starts.

    Simple strings are str, bulk strings bytes, nulls None, errors Error, arrays lists, maps dicts, sets and
    pushes lists.
    """
    end = data.index(b"\r\n", at)
    kind, head, at = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"+":
        return head.decode("utf-8", "surrogateescape"), at
    if kind == b"-":
        return Error(head.decode("utf-8", "surrogateescape")), at
    if kind == b":":
        return int(head), at
    if kind == b"_":
        return None, at
    if kind == b"#":
        return head == b"t", at
    if kind == b",":
        return float(head), at
    size = int(head)
    if size < 0:
        return None, at
    if kind in b"$=":
        assert data[at + size : at + size + 2] == b"\r\n", "a bulk string that is longer or shorter than it says"
        return data[at : at + size], at + size + 2
    assert kind in b"*~>%", f"no RESP: {data[at - 20 : at]!r}"
    items = []
    for _ in range(size * 2 if kind == b"%" else size):
        item, at = decode(data, at)
        items.append(item)
    if kind == b"%":
        return dict(zip(items[::2], items[1::2], strict=True)), at
    return items, at


def _word(word: Word) -> bytes:
    if isinstance(word, bytes):
        return word
    return str(word).encode("utf-8", "surrogateescape")
