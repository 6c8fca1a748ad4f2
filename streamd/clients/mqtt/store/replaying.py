"""Reads older entries for sessions that are too far behind the tail: many of them share one scan."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from streamd.clients.mqtt.store.asked_count import AskedCount, size_of
from streamd.clients.mqtt.store.link import Link, StoreFault, Words
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.refusals import Refusals
from streamd.clients.mqtt.store.stored import Stored, parse_stored
from streamd.clients.mqtt.store.tailing import TailedLog
from streamd.clients.topics.entry_ids import BEGIN, END, Id, format_id, parse_id
from streamd.clients.topics.handle import LogDropped

_PAGE: Final = 2_000  # entries of one request
_PAGE_LEAST: Final = 125  # while readers have no room for more
_PAGE_BYTES: Final = 8 * 2**20
_PAGES_MAX: Final = 20  # of a shard in one pass; then others have their turn
# So many sessions with few filters are served by the store's own search; more share a scan of all entries.
_ALONE_MAX: Final = 6
_FILTERS_MAX: Final = 4
_PAUSE_S: Final = 0.2


class Reader(Protocol):
    """A session that reads older entries of one log."""

    position: Position

    @property
    def filters(self) -> Sequence[str]:
        """The filters of its subscriptions."""

    def offer_all(self, entries: Sequence[Stored]) -> int:
        """Take entries, or pass over them, in their order; return how many: fewer if there was no room for the next."""

    def missed(self, shard: int) -> None:
        """Note that the next entries were removed before they were read."""


class Replay:
    """The readers of one log that are behind its ring.

    A reader is added when it is behind, and again whenever it has room. `caught_up` gets it when it has come to where
    the ring begins; one of a crowd when it has come to where the ring ended a pass before, so that no crowd walks the
    ring one by one. receivers: the readers that messages of a topic in a log may be for, and others.
    """

    def __init__(
        self,
        link: Link,
        tailed: TailedLog,
        has_search: bool,
        receivers: Callable[[str, bytes], Iterable[Reader]],
        caught_up: Callable[[Reader], None],
        say: Callable[[str], None],
    ) -> None:
        self._link, self.tailed, self._has_search = link, tailed, has_search
        self._receivers, self._caught_up = receivers, caught_up
        self.refusals = Refusals(f"sessions that are behind in log {tailed.log.name} wait", say)
        self._passed = 0  # turns since a read was refused
        # Those that have room: who has waited longest for a page comes first.
        self._able: OrderedDict[Reader, None] = OrderedDict()
        self._served: set[Reader] = set()  # in this pass
        self._is_gathering = False  # this pass begins at those that are furthest behind
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._asked = AskedCount(_PAGE, _PAGE_BYTES)
        self._page = _PAGE  # entries of the next page of a scan
        self.read = 0  # entries that were read from the store

    def add(self, reader: Reader) -> None:
        """Go on reading for a session."""
        if reader not in self._able:
            self._able[reader] = None
            self._wake.set()

    def remove(self, reader: Reader) -> None:
        """Read no more for a session."""
        self._able.pop(reader, None)

    @property
    def is_crowd(self) -> bool:
        """Whether the readers share scans, because there are many of them."""
        return len(self._able) > _ALONE_MAX

    async def close(self) -> None:
        """End reading."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            while self._able:
                first = self._lead()
                self._served = {first}
                try:
                    await self._pass(first)
                    self._passed += 1
                    if self._passed >= len(self._able):  # for all
                        self.refusals.over()
                except (StoreFault, LogDropped) as fault:
                    self._passed = 0
                    self.refusals.note(fault)
                    await asyncio.sleep(_PAUSE_S)
                for one in self._served:
                    if one in self._able:
                        self._able.move_to_end(one)
                await asyncio.sleep(0)
            self._wake.clear()

    def _lead(self) -> Reader:
        """Return the reader whose position is next: in turn the one that has waited longest, and the one furthest back.

        Readers that were full for a while are a little behind the others. From the last one on a scan serves them all,
        and they go on together.
        """
        self._is_gathering = not self._is_gathering
        if self._is_gathering:
            return min(self._able, key=lambda one: one.position)
        return next(iter(self._able))

    async def _pass(self, first: Reader) -> None:
        """Read one span from the position of a reader on, for all that are within it."""
        log, goal = self.tailed.log, self._goal
        generation = log.handle.meta.generation(first.position.generation)
        if generation is None:
            await self._leave_generation(first)
            return
        for shard in range(generation.shards):
            together = [one for one in self._able if one.position.generation == generation.number]
            if not together:
                break
            key = log.keys_of(generation)[shard]
            has_room = first in self._able and first.position.generation == generation.number
            if (
                self._has_search
                and len(together) <= _ALONE_MAX
                and len(first.filters) <= _FILTERS_MAX
                and "#" not in first.filters
            ):
                if has_room:
                    await self._search(first, key, generation.number, shard)
            elif has_room and not self._is_gathering:
                await self._scan(first.position.at[shard], key, generation.number, shard)
            else:
                start = min(one.position.at[shard] for one in together)
                await self._scan(start, key, generation.number, shard)
        for one in list(self._able):
            if one.position.generation == generation.number and one.position.is_closed:
                await self._leave_generation(one)
        self._hand_over(goal)

    async def _leave_generation(self, reader: Reader) -> None:
        """Let a reader go on in the generation that follows."""
        log = self.tailed.log
        before = reader.position.generation
        following = log.handle.meta.after(before)
        if following is None:
            await log.refresh()
            following = log.handle.meta.after(before)
            if following is None:
                await asyncio.sleep(_PAUSE_S)
                return
        if not reader.position.is_closed:  # it was dropped before it was read
            reader.missed(0)
        reader.position = Position.begin(following.number, following.shards)

    @property
    def _goal(self) -> Position:
        """Where readers leave for the ring."""
        ring = self.tailed.ring
        return ring.end if self.is_crowd else ring.start

    def _target(self, generation: int, shard: int) -> Id:
        goal = self._goal
        return goal.at[shard] if goal.generation == generation else END

    async def _scan(self, at: Id, key: bytes, generation: int, shard: int) -> None:
        """Read pages of all entries from an ID on, while one of the readers is there."""
        for _ in range(_PAGES_MAX):
            target = self._target(generation, shard)
            if at >= target:
                return
            asked = min(self._asked.per_stream(1), self._page)
            request = ("XRANGE", key, f"({format_id(at)}", "+", "COUNT", asked)
            entries, trimmed = await self._read(request, generation, shard)
            self._asked.came(len(entries), size_of(entries))
            self._note_trim(entries, trimmed, generation, shard, at)
            end = parse_id(entries[-1][0]) if len(entries) >= asked else max(target, at, *_last(entries))
            self.read += len(entries)
            if not self._offer_to_all(entries, generation, shard, at, end):
                self._page = max(_PAGE_LEAST, self._page // 2)  # what nobody had room for is read again
                return
            self._page = min(_PAGE, 2 * self._page)
            at = end

    async def _search(self, reader: Reader, key: bytes, generation: int, shard: int) -> None:
        """Read by the store's own search: each filter by itself, and merged."""
        for _ in range(_PAGES_MAX):
            at, target = reader.position.at[shard], self._target(generation, shard)
            if at >= target or reader not in self._able:
                return
            start = f"({format_id(at)}"
            trim = self.tailed.log.trimmed_command(generation, shard)
            asked = self._asked.per_stream(max(1, len(reader.filters)))
            searches: list[Words] = [
                ("XFILTER", key, start, "+", "COUNT", asked, "FIELD", "t", "MQTT", one) for one in reader.filters
            ]
            before, *replies, after = await self._link.demand(trim, *searches, trim)
            self._asked.came(sum(len(found) for _, found in replies), sum(size_of(found) for _, found in replies))
            if reader not in self._able:
                return  # its client has left, or it has gone on in the ring
            if before != after:
                continue  # what was searched may lack what was trimmed meanwhile
            ends = []
            merged: dict[Id, list[Any]] = {}
            for searched_to, found in replies:
                end = parse_id(searched_to)
                ends.append(end if len(found) >= asked or end < target else max(end, target))
                for entry in found:
                    merged[parse_id(entry[0])] = entry
            if not ends:  # no subscription any more
                ends = [target]
            end = min(ends)
            if end == at:  # the search has come to the end
                end = max(target, at)
            trimmed = None if after is None else parse_id(after)
            if trimmed is not None and trimmed > at:
                reader.missed(shard)
                reader.position = reader.position.moved(shard, trimmed)
                at = trimmed
            log = self.tailed.log.name
            found = [
                parse_stored(log, generation, shard, one, merged[one][1]) for one in sorted(merged) if at < one <= end
            ]
            self._offer(reader, [one for one in found if one is not None], generation, shard)
            if reader in self._able:
                reader.position = reader.position.moved(shard, max(end, at))
            self.read += len(found)

    async def _read(self, request: Words, generation: int, shard: int) -> tuple[list[Any], Id | None]:
        entries, trimmed = await self._link.demand(request, self.tailed.log.trimmed_command(generation, shard))
        return entries, None if trimmed is None else parse_id(trimmed)

    def _note_trim(self, entries: list[Any], trimmed: Id | None, generation: int, shard: int, at: Id) -> None:
        """Tell readers that have missed entries. A trim behind the request does not count: its reply is complete."""
        if trimmed is None or trimmed <= at or (entries and parse_id(entries[0][0]) <= trimmed):
            return
        for one in self._able:
            if one.position.generation == generation and one.position.at[shard] < trimmed:
                one.missed(shard)
                one.position = one.position.moved(shard, trimmed)

    def _offer_to_all(self, entries: list[Any], generation: int, shard: int, start: Id, end: Id) -> int:
        """Offer the entries behind `start` to their receivers between start and end, and move all of these.

        The receivers of a topic are looked up once in a page, and each of them gets what is its own. Offered to every
        reader, a million entries would be a billion of calls for a thousand readers. Returns how many readers were
        moved, which are those that still have room.
        """
        log, able, receivers = self.tailed.log.name, self._able, self._receivers
        of_topics: dict[bytes, list[tuple[Id, list[Stored]]]] = {}
        of_readers: dict[Reader, list[Stored]] = {}
        for text, fields in entries:
            topic = fields[1] if fields[0] == b"t" and fields.count(b"t") == 1 else _topic_of(fields)
            if topic is None:
                continue
            found = of_topics.get(topic)
            if found is None:
                found = of_topics[topic] = []
                for reader in receivers(log, topic):
                    position = reader.position
                    if reader in able and position.generation == generation and start <= position.at[shard] < end:
                        found.append((position.at[shard], of_readers.setdefault(reader, [])))
            if not found:  # nearly all, when few of those that are behind have room
                continue
            ms, seq = text.split(b"-")
            entry_id = int(ms), int(seq)
            stored = parse_stored(log, generation, shard, entry_id, fields)
            assert stored is not None
            for seen, its in found:
                if seen < entry_id:
                    its.append(stored)
        for reader, its in of_readers.items():
            self._offer(reader, its, generation, shard)
        return self._move(generation, shard, start, end)

    def _offer(self, reader: Reader, entries: list[Stored], generation: int, shard: int) -> None:
        """Offer entries to a reader, which is removed, right before the next one, when it is full."""
        taken = reader.offer_all(entries)
        if taken < len(entries):
            reader.position = reader.position.moved(shard, _before(entries[taken].entry_id))
            self.remove(reader)

    def _move(self, generation: int, shard: int, start: Id, end: Id) -> int:
        """Move all readers between start and end to the end; return their number."""
        moved: dict[Position, Position] = {}
        last_from = last_to = None
        count = 0
        for one in self._able:
            position = one.position
            if position is not last_from:  # those that go on together have one position, that is one object
                if position.generation != generation or not start <= position.at[shard] < end:
                    continue
                last_from, last_to = position, moved.get(position)
                if last_to is None:
                    last_to = moved[position] = position.moved(shard, end)
            assert last_to is not None
            one.position = last_to
            self._served.add(one)
            count += 1
        return count

    def _hand_over(self, goal: Position) -> None:
        start = self.tailed.ring.start  # it may have passed the goal meanwhile
        for one in list(self._able):
            if one.position.has_reached(goal) and one.position.has_reached(start):
                self.remove(one)
                self._caught_up(one)


def _topic_of(fields: list[bytes]) -> bytes | None:
    """Return the topic of a message that does not begin with it, as another program may have stored it."""
    return dict(zip(fields[::2], fields[1::2], strict=True)).get(b"t")


def _before(entry_id: Id) -> Id:
    """Return the ID before one."""
    ms, seq = entry_id
    return (ms, seq - 1) if seq else (ms - 1, END[1])


def _last(entries: list[Any]) -> list[Id]:
    return [parse_id(entries[-1][0])] if entries else [BEGIN]
