"""What clients of a simulation were told, and whether the servers keep it in the end."""

from collections import defaultdict
from typing import Any

from streamd.data.growing import GrowingString
from streamd.engine.engine import Engine
from streamd.stream.stream import Stream

Name = tuple[bytes, bytes, int]  # stream, producer, number


class Broken(Exception):
    """A promise is broken; the message says which."""


class Ledger:
    """What was promised.

    acked: entries that all replicas had, and the IDs that the producer was told. sequential: producers whose entries
    stand in order. done: entries that a group has acknowledged. values: what registers and counters have at least, and
    at most. deleted: entries that clients have deleted, or tried to.
    """

    def __init__(self) -> None:
        self.acked: dict[Name, bytes] = {}
        self.done: dict[tuple[bytes, bytes, bytes], int] = {}
        self.values: dict[bytes, list[int]] = defaultdict(lambda: [0, 0])
        self.deleted: set[bytes] = set()
        self.told = 0

    def note_acked(self, stream: bytes, producer: bytes, number: int, entry_id: bytes) -> None:
        """A producer was told that an entry has an ID, and that all replicas have it."""
        self.told += 1
        name = stream, producer, number
        before = self.acked.setdefault(name, entry_id)
        if before != entry_id:
            raise Broken(
                f"{_text(name)} was stored as {before.decode()} for all replicas, and now as {entry_id.decode()}"
            )

    def note_done(self, stream: bytes, group: bytes, entry_id: bytes, now_ms: int) -> None:
        """A consumer was told that an entry is acknowledged, and that all replicas know it."""
        self.told += 1
        self.done.setdefault((stream, group, entry_id), now_ms)

    def check_delivery(self, stream: bytes, group: bytes, entry_id: bytes, asked_ms: int) -> None:
        """Raise Broken for an entry that was delivered though it was acknowledged before. asked_ms: when the consumer
        asked.
        """
        done_ms = self.done.get((stream, group, entry_id))
        if done_ms is not None and done_ms < asked_ms:
            raise Broken(f"{entry_id.decode()} of {stream.decode()} was acknowledged, and is delivered again")

    # -- the end --------------------------------------------------------------------------------------------------

    def check(self, engine: Engine) -> None:
        """Compare what was told with the state of a server. Raises: Broken."""
        values = engine.state.keyspace[0].values
        found: dict[Name, bytes] = {}
        for key, value in values.items():
            if isinstance(value, Stream) and key[:1] in (b"s", b"d"):
                self._check_stream(engine, key, value, found)
        for name, entry_id in self.acked.items():
            there = found.get(name)
            if there is None and entry_id not in self.deleted:
                raise Broken(f"{_text(name)} was stored as {entry_id.decode()} for all replicas, and is lost")
            if there not in (None, entry_id):
                raise Broken(f"{_text(name)} was stored as {entry_id.decode()}, and is there as {there!r}")
        for key, (least, most) in self.values.items():
            value = values.get(key, b"0")
            number = int(value.whole() if isinstance(value, GrowingString) else value)
            if not least <= number <= most:
                raise Broken(f"{key.decode()} is {number}, and should be from {least} to {most}")

    def _check_stream(self, engine: Engine, key: bytes, stream: Stream, found: dict[Name, bytes]) -> None:
        last: dict[bytes, int] = {}
        rows: Any = engine.call(engine.connect(), [b"XRANGE", key, b"-", b"+"])
        for entry_id, fields in rows:
            producer, number = fields[1], int(fields[3])
            name = (key, producer, number)
            if name in found:
                raise Broken(f"{_text(name)} is there twice: {found[name].decode()} and {entry_id.decode()}")
            if number < last.get(producer, -1):
                raise Broken(f"{_text(name)} stands behind a later one: {entry_id.decode()}")
            found[name] = entry_id
            last[producer] = number
        for group in stream.groups or {}:
            pending: Any = engine.call(engine.connect(), [b"XPENDING", key, group, b"-", b"+", b"100000"])
            for entry_id, *_ in pending:
                if (key, group, entry_id) in self.done:
                    raise Broken(f"{entry_id.decode()} of {key.decode()} was acknowledged, and is pending")


def _text(name: Name) -> str:
    return f"entry {name[2]} of {name[1].decode()} in {name[0].decode()}"
