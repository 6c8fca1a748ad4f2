"""Reads what comes into the logs: once for all sessions."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from streamd.clients.mqtt.store.asked_count import AskedCount
from streamd.clients.mqtt.store.link import Link, encode
from streamd.clients.mqtt.store.logs import OpenLog
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.publishing import Publishing
from streamd.clients.mqtt.store.read_order import in_order
from streamd.clients.mqtt.store.refusals import Refusals
from streamd.clients.mqtt.store.ring import Ring
from streamd.clients.mqtt.store.ring_topics import RingTopics
from streamd.clients.mqtt.store.stored import Stored, parse_stored
from streamd.clients.topics.entry_ids import BEGIN, END, Id, format_id, parse_id
from streamd.clients.topics.handle import LogDropped

_COUNT: Final = 2_000  # entries of a shard in one reply
_BYTES: Final = 32 * 2**20  # of a reply
_ASK_S: Final = 0.005  # between two looks while others write
_UNHEARD_S: Final = 0.02  # the same while nobody here subscribes to what they write
_IDLE_S: Final = 0.03  # without an entry, until a request waits for the next one
_WAIT_MS: Final = 5_000
_HINDERED_S: Final = 0.1
# Publishers wait while the tail is so many entries behind what they have stored.
LAG_MAX: Final = 10_000


class TailedLog:
    """The tail of one log."""

    def __init__(self, log: OpenLog, position: Position, ring: Ring) -> None:
        self.log = log
        self.ring = ring
        self.topics = RingTopics(ring)
        self.at = list(position.at)
        self.generation = position.generation
        self.keys = log.keys_of(log.handle.meta.generation(position.generation) or log.generation)

    @property
    def position(self) -> Position:
        """How far it was read."""
        return self.ring.end


# Gets the entries, and the number of the first in the ring; returns whether a session subscribes to any of them.
Deliver = Callable[[TailedLog, list[Stored], int], bool]


class Tail:
    """The tail of all logs.

    While this gateway publishes, the request follows each batch of messages, one at a time. When others publish, it
    asks now and then, less often if no session here subscribes to that. While nothing comes, a request waits at the
    store, on a connection of its own.
    """

    def __init__(
        self, link: Link, waiting_link: Link, publishing: Publishing, deliver: Deliver, say: Callable[[str], None]
    ) -> None:
        self._link, self._waiting_link = link, waiting_link
        self._publishing, self._deliver = publishing, deliver
        self.refusals = Refusals("no messages are delivered", say)
        self._loop = asyncio.get_running_loop()
        self.logs: list[TailedLog] = []
        self._places: dict[bytes, tuple[TailedLog, int]] = {}
        self._asked = AskedCount(_COUNT, _BYTES)
        self._is_asking = self._is_waiting = self._is_wanted = False
        self._stored_at_request = 0
        self._stored_seen = 0
        self._last_entry_s = 0.0
        self._is_heard = False
        self._timer: asyncio.TimerHandle | None = None
        self._between: set[TailedLog] = set()  # logs whose next generation is not read yet
        self._reached: list[tuple[int, Callable[[], None]]] = []
        self._fresh: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_closed = False
        publishing.around = self._around_batch

    async def open(self, log: OpenLog, entries_max: int, bytes_max: int) -> TailedLog:
        """Begin at the present end of a log; the bounds are those of its ring."""
        infos = await self._link.demand(*[("XINFO", "STREAM", key) for key in log.keys])
        ids = [parse_id(info[info.index(b"last-generated-id") + 1]) for info in infos]
        position = Position(log.generation.number, tuple(ids))
        tailed = TailedLog(log, position, Ring(position, entries_max, bytes_max))
        self.add(tailed)
        return tailed

    def add(self, tailed: TailedLog) -> None:
        """Read a log, too."""
        self.logs.append(tailed)
        for shard, key in enumerate(tailed.keys):
            self._places[key] = tailed, shard

    def start(self) -> None:
        """Begin to read."""
        self._ask()

    @property
    def lag(self) -> int:
        """How many entries that this gateway has stored were not read yet, at most."""
        return self._publishing.stored - self._stored_seen

    def when_read(self, done: Callable[[], None]) -> None:
        """Call a function when all was read that this gateway has stored until now; at once if it was."""
        stored = self._publishing.stored
        if self._stored_seen >= stored:
            done()
            return
        self._reached.append((stored, done))
        if not self._is_asking:
            self._ask()

    def when_read_anew(self, done: Callable[[], None]) -> None:
        """Call a function when all was read that anybody has stored until now."""
        self._fresh.append(done)
        if not self._is_asking:
            if self._timer is not None:
                self._timer.cancel()
            self._ask()

    def _around_batch(self) -> tuple[bytes, int, bytes, Callable[[list[Any]], None] | None]:
        before, count = b"", 0
        if self._is_waiting and self._waiting_link.client_id:
            before, count = encode(("CLIENT", "UNBLOCK", self._waiting_link.client_id)), 1
        if self._is_asking or self._has_ended():
            self._is_wanted = True
            return before, count, b"", None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_asking = True
        # The batch's own replies come before.
        asked = self._asked.per_stream(len(self._places))
        request = self._request(asked)
        was_between = bool(self._between)
        return (
            before,
            count,
            request,
            lambda replies: self._replied(replies, 0 if was_between else self._publishing.stored, asked),
        )

    def _request(self, asked: int, wait_ms: int | None = None) -> bytes:
        keys, ids = [], []
        for tailed in self.logs:
            for shard, key in enumerate(tailed.keys):
                if tailed.at[shard] != END:
                    keys.append(key)
                    ids.append(format_id(tailed.at[shard]))
        block = () if wait_ms is None else ("BLOCK", wait_ms)
        return encode(("XREAD", "COUNT", asked, *block, "STREAMS", *keys, *ids))

    def _ask(self) -> None:
        self._timer = None
        if self._is_asking or self.is_closed:
            self._is_wanted = True
            return
        if self._has_ended():
            self._later()
            return
        self._is_asking = True
        stored, asked = 0, self._asked.per_stream(len(self._places))
        fresh: list[Callable[[], None]] = []
        if not self._between:
            stored, fresh, self._fresh = self._publishing.stored, self._fresh, []
        self._link.send(self._request(asked), 1, lambda replies: self._replied(replies, stored, asked, fresh))

    def _replied(self, replies: list[Any], stored: int, asked: int, fresh: Sequence[Callable[[], None]] = ()) -> None:
        self._is_asking = False
        if self.is_closed:
            return
        count, is_full = self._take(replies[0], asked)
        is_refused = isinstance(replies[0], Exception)
        if not is_refused:  # (one that waited may have begun before the store refused another)
            self.refusals.over()
        if is_full or is_refused or self._between:
            self._fresh[:0] = fresh
        else:
            self._stored_seen = max(self._stored_seen, stored)
            self._call_reached()
            for one in fresh:
                one()
        if is_refused or self._has_ended():
            self._later()
        elif is_full or self._is_wanted or (not self._between and (self._reached or self._fresh)):
            self._is_wanted = False
            self._ask()
        else:
            self._plan(count)

    def _has_ended(self) -> bool:
        """Return whether there is nothing to ask for just now: all logs are between generations, or were dropped."""
        return all(tailed.position.is_closed for tailed in self.logs)

    def _later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(_HINDERED_S, self._ask)

    def _plan(self, count: int) -> None:
        if self._timer is not None or self._is_waiting:
            return
        now = self._loop.time()
        if count:
            self._last_entry_s = now
        if now - self._last_entry_s < _IDLE_S:
            self._timer = self._loop.call_later(_ASK_S if self._is_heard else _UNHEARD_S, self._ask)
        else:
            self._wait()

    def _wait(self) -> None:
        self._is_waiting = True
        asked = self._asked.per_stream(len(self._places))
        self._waiting_link.send(self._request(asked, _WAIT_MS), 1, lambda replies: self._waited(replies, asked))

    def _waited(self, replies: list[Any], asked: int) -> None:
        self._is_waiting = False
        if self.is_closed:
            return
        count, is_full = self._take(replies[0], asked)
        self._call_reached()
        if self._is_asking:
            return  # its reply decides what follows
        if isinstance(replies[0], Exception) or self._has_ended():
            self._later()
        elif is_full or self._reached:
            self._ask()
        elif count or self._publishing.backlog:
            self._plan(count)
        else:
            self._wait()

    def _call_reached(self) -> None:
        while self._reached and self._reached[0][0] <= self._stored_seen:
            self._reached.pop(0)[1]()

    def _take(self, reply: Any, asked: int) -> tuple[int, bool]:
        """Hand entries on; return their number, and whether there may be more."""
        if isinstance(reply, Exception):
            self.refusals.note(reply)
            return 0, False
        if not reply:
            return 0, False
        found: dict[str, tuple[TailedLog, list[Stored]]] = {}
        is_full, has_retained, count, size_bytes = False, False, 0, 0
        for key, entries in reply:
            place = self._places.get(key)
            if place is None:
                continue
            tailed, shard = place
            is_full |= len(entries) >= asked
            mine = found.setdefault(tailed.log.name, (tailed, []))[1]
            at: Id = tailed.at[shard]
            name, generation = tailed.log.name, tailed.generation
            for text, fields in entries:
                ms, seq = text.split(b"-")
                entry_id = int(ms), int(seq)
                if entry_id <= at:
                    continue  # it came by the other connection
                at = entry_id
                count += 1
                if fields is None:
                    continue
                one = parse_stored(name, generation, shard, entry_id, fields)
                if one is not None:
                    mine.append(one)
                    has_retained |= one.is_retained
                else:
                    size_bytes += sum(map(len, fields))
            tailed.at[shard] = at
        is_heard = False
        for tailed, stored in found.values():
            if has_retained:
                stored = in_order(stored)
            first = tailed.ring.next
            size_bytes += tailed.ring.append(stored, Position(tailed.generation, tuple(tailed.at)))
            if stored:
                is_heard |= self._deliver(tailed, stored, first)
            if tailed.ring.end.is_closed:
                self._between.add(tailed)
                task = self._loop.create_task(self._next_generation(tailed))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        if count:
            self._is_heard = is_heard
        self._asked.came(count, size_bytes)
        return count, is_full

    async def _next_generation(self, tailed: TailedLog) -> None:
        """Go on in the generation that follows one that was closed."""
        before = tailed.generation
        while tailed.generation == before and not self.is_closed:
            try:
                await tailed.log.refresh()
                following = tailed.log.handle.meta.after(before)
            except LogDropped:  # nothing more comes, and others need not wait for it
                self._between.discard(tailed)
                return
            except Exception:  # the store is away
                following = None
            if following is None:
                await asyncio.sleep(0.1)
                continue
            for key in tailed.keys:
                self._places.pop(key, None)
            tailed.keys = tailed.log.keys_of(following)
            tailed.generation = following.number
            tailed.at = [BEGIN] * following.shards
            for shard, key in enumerate(tailed.keys):
                self._places[key] = tailed, shard
            tailed.ring.append([], Position(following.number, tuple(tailed.at)))
            self._between.discard(tailed)
            self._ask()
