"""The retained messages: a fold over the logs, with a checkpoint in the store.

    {<log>}:retained      hash: for each topic its message, and in the field without a name the position of the fold
    {<log>}:cleared       hash: removals, by topic, and in the field without a name the highest number of the fold

So a topic's last retained message outlives the log's retention. A start folds what came after the checkpoint.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import hiredis

from streamd.clients.mqtt.store.asked_count import AskedCount, size_of
from streamd.clients.mqtt.store.link import Words, encode
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.retained_fold import RetainedFold
from streamd.clients.mqtt.store.stored import Stored, parse_stored
from streamd.clients.topics import layout, numbers
from streamd.clients.topics.entry_ids import END, format_id, parse_id

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.store.records import Waiting
    from streamd.clients.mqtt.store.tailing import TailedLog

_PAGE: Final = 2_000
_SCAN: Final = 1_000
_PAGE_BYTES: Final = 16 * 2**20
_DROPPED_AT_ONCE: Final = 1_000
REMOVALS_SPARE: Final = 10_000  # so many more removals than retained messages are kept, at most


class Retained:
    """The retained messages of all logs.

    One gateway of a store writes the checkpoint; is_noting, is_keeping: this one notes changes, and writes them.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._fold = RetainedFold(gateway.now_ms)
        self._tree = self._fold.tree
        # By log and topic: the message, or its removal; None for a removal that is forgotten.
        self._changed: dict[str, dict[bytes, Stored | None]] = {}
        self._is_forgetting = False
        self._written: dict[str, Position] = {}
        self._stored_removals: dict[str, set[bytes]] = {}  # the topics that are in the checkpoint's second hash
        self._is_noting = self._is_keeping = False
        self._shown: set[bytes] = set()
        self._shows = 0

    def __len__(self) -> int:
        """Return the number of topics with a message of a client."""
        return len(self._tree) - len(self._shown)

    def has_room(self, topic: bytes, is_removal: bool) -> bool:
        """Return whether a topic may have a retained message, or the removal of one, which is kept for some minutes."""
        if self._tree.get(topic) is not None:
            return True
        most, removals = self._gateway.limits.retained_max, self._fold.removals
        if topic not in removals and len(removals) >= most + REMOVALS_SPARE:
            return False
        if is_removal or len(self) < most:
            return True
        self._drop_expired(self._gateway.now_ms())
        return len(self) < most

    def drop_expired(self) -> None:
        """Remove messages whose time is over, not very many in a turn."""
        now_ms = self._gateway.now_ms()
        self._drop_expired(now_ms)
        if self._fold.expiries.has_due(now_ms):
            self._gateway.loop.call_soon(self.drop_expired)

    def _drop_expired(self, now_ms: int) -> None:
        for removal in self._fold.expired(now_ms, _DROPPED_AT_ONCE):
            self._note(removal.log, removal.topic, removal)

    def forget_old(self) -> None:
        """Forget removals that nothing older can follow, once all was read that was stored until now.

        As with messages whose time is over there may be many thousands a second.
        """
        now_ms = self._gateway.now_ms()
        if not self._is_forgetting and self._fold.has_old(now_ms):
            self._is_forgetting = True
            self._gateway.tail.when_read_anew(partial(self._forget, now_ms))

    def _forget(self, read_ms: int) -> None:
        self._is_forgetting = False
        for removal in self._fold.forget_old(read_ms, _DROPPED_AT_ONCE):
            self._note(removal.log, removal.topic, None)
        if self._fold.has_old(read_ms):
            self._is_forgetting = True
            self._gateway.loop.call_soon(self._forget, read_ms)

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
        """Take a message with the retain flag, unless a newer one came first."""
        name = tailed.log.name
        if self._fold.fold(entry):
            self._note(name, entry.topic, self._fold.newest(entry.topic))
        self._note_number(name, entry)

    def _note_number(self, name: str, entry: Stored) -> None:
        """Let messages that are published here have higher numbers."""
        if entry.number is not None:
            numbering = self._gateway.publishing.numbering(name)
            numbering.highest = max(numbering.highest, entry.rank[:3])

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

    def _commands(self, tailed: TailedLog, with_number: bool = False) -> list[Words]:
        name = tailed.log.name
        key, cleared_key = layout.retained_key(name), layout.cleared_key(name)
        stored = self._stored_removals.setdefault(name, set())
        put: list[bytes | str] = []
        removals: list[bytes | str] = []
        gone: list[bytes] = []
        outlived: list[bytes] = []
        for topic, entry in self._changed.pop(name, {}).items():
            if entry is not None and entry.payload:
                put += (topic, _to_text(entry))
            else:
                gone.append(topic)
            if entry is not None and not entry.payload:
                removals += (topic, _to_text(entry))
                stored.add(topic)
            elif topic in stored:
                outlived.append(topic)
                stored.remove(topic)
        commands: list[Words] = []
        if removals or with_number:
            highest = self._gateway.publishing.numbering(name).highest
            commands.append(("HSET", cleared_key, *removals, "", numbers.format_number(highest)))
        if outlived:
            commands.append(("HDEL", cleared_key, *outlived))
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
            self._changed.setdefault(name, {})[entry.topic] = self._fold.newest(entry.topic)

        for tailed in self._gateway.tail.logs:
            position = await self._position_of(tailed)
            async for removal in self._removals_of(tailed):
                if removal.topic not in self._fold.removals:
                    note(tailed.log.name, removal)
            await self._read_from(tailed, position, note)
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
                commands += self._commands(tailed, with_number=True)
        return commands

    async def load(self, tailed: TailedLog) -> int:
        """Read the checkpoint of a log, and fold what came after it; return the number of entries that were read."""
        name = tailed.log.name
        # Before all else: what changes meanwhile is folded again.
        position = await self._position_of(tailed)
        async for topic, text in self._scan(layout.retained_key(name)):
            if topic and (entry := _from_text(name, text)) is not None:
                self._fold.fold(entry)
                self._note_number(name, entry)
        async for removal in self._removals_of(tailed):
            is_in_both = self._tree.get(removal.topic) is not None
            self._fold.fold(removal)
            if is_in_both:
                self._changed.setdefault(name, {})[removal.topic] = self._fold.newest(removal.topic)
        count = await self._read_from(tailed, position, self._fold_old)
        if self._gateway.ownership.is_keeper:
            self._is_noting = self._is_keeping = True
            self._gateway.tell_store(self._commands(tailed))
        else:
            self._changed.pop(name, None)
        return count

    async def _position_of(self, tailed: TailedLog) -> Position | None:
        (text,) = await self._gateway.history.demand(("HGET", layout.retained_key(tailed.log.name), ""))
        return None if text is None else Position.from_text(text.decode())

    async def _removals_of(self, tailed: TailedLog) -> AsyncIterator[Stored]:
        """Yield the removals in the checkpoint, and note its highest number."""
        name = tailed.log.name
        stored = self._stored_removals[name] = set()
        async for topic, text in self._scan(layout.cleared_key(name)):
            if topic:
                stored.add(topic)
                if (removal := _from_text(name, text)) is not None:
                    yield removal
            elif (number := numbers.parse_number(text)) is not None:
                numbering = self._gateway.publishing.numbering(name)
                numbering.highest = max(numbering.highest, number)

    async def _scan(self, key: str) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yield the fields and values of a hash."""
        cursor = b"0"
        scanned = AskedCount(_SCAN, _PAGE_BYTES)
        while True:
            words = ("HSCAN", key, cursor, "COUNT", scanned.per_stream(1))
            ((cursor, fields),) = await self._gateway.history.demand(words)
            scanned.came(len(fields) // 2, sum(map(len, fields)))
            for pair in zip(fields[::2], fields[1::2], strict=True):
                yield pair
            if cursor == b"0":
                return

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
        """Fold an entry of the past: shards are read one after the other, so older ones follow newer ones."""
        changed = self._changed.setdefault(name, {})
        if self._fold.fold(entry):
            changed[entry.topic] = self._fold.newest(entry.topic)
        self._note_number(name, entry)


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
