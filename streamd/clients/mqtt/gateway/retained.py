"""The retained messages: a fold over the logs, with a checkpoint in the store.

    {<log>}:retained      hash: for each topic its message, and in the field without a name the position of the fold

So a topic's last retained message outlives the log's retention. A start folds what came after the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import hiredis

from streamd.clients.mqtt.session.expiries import Expiries
from streamd.clients.mqtt.session.retained_tree import RetainedTree
from streamd.clients.mqtt.store.asked_count import AskedCount, size_of
from streamd.clients.mqtt.store.link import Words, encode
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.stored import Stored, parse_stored
from streamd.clients.topics.entry_ids import END, format_id, parse_id

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.store.records import Waiting
    from streamd.clients.mqtt.store.tailing import TailedLog

_PAGE: Final = 2_000
_SCAN: Final = 1_000
_PAGE_BYTES: Final = 16 * 2**20
_DROPPED_AT_ONCE: Final = 1_000


class Retained:
    """The retained messages of all logs.

    One gateway of a store writes the checkpoint; is_noting, is_keeping: this one notes changes, and writes them.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._tree: RetainedTree[Stored] = RetainedTree()
        self._changed: dict[str, dict[bytes, Stored | None]] = {}
        self._written: dict[str, Position] = {}
        self._is_noting = self._is_keeping = False
        self._shown: set[bytes] = set()
        self._shows = 0
        self._expiries = Expiries()

    def __len__(self) -> int:
        """Return the number of topics with a message of a client."""
        return len(self._tree) - len(self._shown)

    def has_room(self, topic: bytes) -> bool:
        """Return whether a topic may have a retained message."""
        most = self._gateway.limits.retained_max
        if len(self) < most or self._tree.get(topic) is not None:
            return True
        self.drop_expired()
        return len(self) < most

    def drop_expired(self) -> None:
        """Remove messages whose time is over, not very many at once."""
        now_ms = self._gateway.now_ms()
        for topic in self._expiries.due(now_ms, _DROPPED_AT_ONCE):
            entry = self._tree.get(topic)
            if entry is None or entry.expires_ms is None:
                continue
            if entry.is_expired(now_ms):
                self._tree.remove(topic)
                self._note(entry.log, topic, None)
            else:
                self._expiries.add(entry.expires_ms, topic)
        self._expiries.tidy(len(self._tree), self._expires_ms)

    def _expires_ms(self, topic: bytes) -> int | None:
        entry = self._tree.get(topic)
        return None if entry is None else entry.expires_ms

    def _put(self, entry: Stored) -> None:
        if entry.expires_ms is not None:
            known_ms = self._expires_ms(entry.topic)
            if known_ms is None or known_ms > entry.expires_ms:
                self._expiries.add(entry.expires_ms, entry.topic)
        self._tree.put(entry.topic, entry)

    def waiting(self, waiting: Waiting) -> Iterator[Stored]:
        """Yield the present messages that match a new subscription, from where it has come to."""
        return self._tree.matching(waiting.filter, waiting.place)

    def positions(self) -> dict[str, Position]:
        """Return how far messages were folded, by log; the gateway's own have no log, and a number each."""
        found = {tailed.log.name: tailed.position for tailed in self._gateway.tail.logs}
        found[""] = Position(0, ((self._shows, 0),))
        return found

    def show(self, entry: Stored) -> None:
        """Keep a message of the gateway's own, which no log has."""
        self._shown.add(entry.topic)
        self._shows += 1
        entry.entry_id = self._shows, 0
        self._tree.put(entry.topic, entry)

    def fold(self, tailed: TailedLog, entry: Stored) -> None:
        """Take a message with the retain flag, unless a newer one of another shard came first."""
        known = self._tree.get(entry.topic)
        if known is not None and known.log and (known.generation, known.entry_id) > (entry.generation, entry.entry_id):
            return
        if entry.payload:
            self._put(entry)
        else:
            self._tree.remove(entry.topic)
        self._note(tailed.log.name, entry.topic, entry if entry.payload else None)

    def _note(self, name: str, topic: bytes, entry: Stored | None) -> None:
        """Write a change to the checkpoint of a log, with others of this turn, if no other gateway does that."""
        if not self._is_noting:
            return
        changed = self._changed.get(name)
        if changed is None:
            changed = self._changed[name] = {}
            if self._is_keeping:
                self._gateway.loop.call_soon(self._write, name)
        changed[topic] = entry

    def _write(self, name: str) -> None:
        if not self._is_keeping or not self._gateway.ownership.is_keeper:
            return
        for tailed in self._gateway.tail.logs:
            if tailed.log.name == name:
                self._gateway.tell_store(self._commands(tailed))

    def _commands(self, tailed: TailedLog) -> list[Words]:
        name = tailed.log.name
        changed = self._changed.pop(name, {})
        key = _key(name)
        put: list[bytes | str] = []
        gone: list[bytes] = []
        for topic, entry in changed.items():
            if entry is None:
                gone.append(topic)
            else:
                put += (topic, _to_text(entry))
        commands: list[Words] = []
        if gone:
            commands.append(("HDEL", key, *gone))
        # The position comes last: a start folds again what may have been lost.
        commands.append(("HSET", key, *put, "", tailed.position.to_text()))
        self._written[name] = tailed.position
        return commands

    async def keep(self) -> None:
        """Write the checkpoint from now on, and what the gateway that did it before had not written."""
        if self._is_keeping:
            return
        self._is_noting = True

        def note(name: str, entry: Stored) -> None:
            self._changed.setdefault(name, {})[entry.topic] = self._tree.get(entry.topic)

        for tailed in self._gateway.tail.logs:
            (text,) = await self._gateway.history.demand(("HGET", _key(tailed.log.name), ""))
            await self._read_from(tailed, None if text is None else Position.from_text(text.decode()), note)
        self._is_keeping = True
        for tailed in self._gateway.tail.logs:
            self._write(tailed.log.name)

    def let_go(self) -> None:
        """Leave the checkpoint to another gateway."""
        if self._is_noting:
            self._is_noting = self._is_keeping = False
            self._changed.clear()

    def checkpoint(self) -> list[Words]:
        """Return the commands that move the positions on, so that a start has less to fold."""
        commands: list[Words] = []
        if not self._is_keeping or not self._gateway.ownership.is_keeper:
            return commands
        for tailed in self._gateway.tail.logs:
            if self._written.get(tailed.log.name) != tailed.position:
                commands += self._commands(tailed)
        return commands

    async def load(self, tailed: TailedLog) -> int:
        """Read the checkpoint of a log, and fold what came after it; return the number of entries that were read."""
        link = self._gateway.history
        name = tailed.log.name
        position: Position | None = None
        cursor = b"0"
        scanned = AskedCount(_SCAN, _PAGE_BYTES)
        while True:
            words = ("HSCAN", _key(name), cursor, "COUNT", scanned.per_stream(1))
            ((cursor, fields),) = await link.demand(words)
            scanned.came(len(fields) // 2, sum(map(len, fields)))
            for field, value in zip(fields[::2], fields[1::2], strict=True):
                if field:
                    entry = _from_text(name, value)
                    if entry is not None:
                        self._put(entry)
                else:
                    position = Position.from_text(value.decode())
            if cursor == b"0":
                break
        count = await self._read_from(tailed, position, self._fold_old)
        if self._gateway.ownership.is_keeper:
            self._is_noting = self._is_keeping = True
            self._gateway.tell_store(self._commands(tailed))
        else:
            self._changed.pop(name, None)
        return count

    async def _read_from(
        self, tailed: TailedLog, position: Position | None, take: Callable[[str, Stored], None]
    ) -> int:
        """Hand on the retained messages between a position and the tail's; return the number of entries."""
        log, count = tailed.log, 0
        asked = AskedCount(_PAGE, _PAGE_BYTES)
        for generation in log.handle.meta.generations:
            if position is not None and generation.number < position.generation:
                continue
            at = position.at if position is not None and position.generation == generation.number else None
            for shard, key in enumerate(log.keys_of(generation)):
                start = format_id(at[shard]) if at is not None else "0-0"
                target = tailed.position.at[shard] if generation.number == tailed.generation else END
                while True:
                    page = asked.per_stream(1)
                    (entries,) = await self._gateway.history.demand(("XRANGE", key, f"({start}", "+", "COUNT", page))
                    asked.came(len(entries), size_of(entries))
                    for text, fields in entries:
                        entry_id = parse_id(text)
                        if entry_id > target:
                            break
                        count += 1
                        entry = parse_stored(log.name, generation.number, shard, entry_id, fields)
                        if entry is not None and entry.is_retained:
                            take(log.name, entry)
                    if len(entries) < page or parse_id(entries[-1][0]) >= target:
                        break
                    start = entries[-1][0].decode()
        return count

    def _fold_old(self, name: str, entry: Stored) -> None:
        """Fold an entry of the past; shards are read one after the other, so the newest message of a topic counts."""
        changed = self._changed.setdefault(name, {})
        known = changed.get(entry.topic) or self._tree.get(entry.topic)
        if known is not None and (known.generation, known.entry_id) > (entry.generation, entry.entry_id):
            return
        if entry.payload:
            self._put(entry)
        else:
            self._tree.remove(entry.topic)
        changed[entry.topic] = entry if entry.payload else None


def _key(name: str) -> str:
    return f"{{{name}}}:retained"


def _to_text(entry: Stored) -> bytes:
    return encode((str(entry.generation), str(entry.shard), format_id(entry.entry_id), *entry.fields))


def _from_text(name: str, text: bytes) -> Stored | None:
    reader = hiredis.Reader()
    reader.feed(text)
    found: Any = reader.gets()
    if not isinstance(found, list) or len(found) < 5:
        return None
    generation, shard, entry_id, *fields = found
    return parse_stored(name, int(generation), int(shard), parse_id(entry_id), fields)
