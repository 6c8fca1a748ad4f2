"""Stores messages in their logs: what comes in a turn leaves together, and each message is stored once."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from time import perf_counter
from typing import Any, Final

from streamd.clients.mqtt.store.gathering import Gathering
from streamd.clients.mqtt.store.link import Link
from streamd.clients.mqtt.store.logs import OpenLog, head_of
from streamd.clients.mqtt.store.numbering import Group, Numbering
from streamd.clients.mqtt.store.stored import PackedFields
from streamd.clients.topics import layout
from streamd.clients.topics.messages import pack

# Messages that may be on their way: fewer than the names of one producer that a window keeps, so that a message that is
# sent again after a lost connection is always recognised.
UNDER_WAY_MAX: Final = 8_000
TAKEN: Final = "another gateway has taken the session"
_HELD_S: Final = 0.02
_EXHAUSTED: Final = "exhausted the last possible ID"

# Gets the entry ID as the store says it, or None and the error.
Done = Callable[[bytes | None, str | None], None]


class Publication:
    """A message on its way into a log.

    fields: of the entry. producer, iid: its name; every message has one. awaiting: the key and the packet identifier
    that are noted with it. goes_to: the generation that it may be stored in, as those before do not know its name.
    is_retained: it gets a number before it is sent; the number is not part of its name.
    """

    __slots__ = (
        "awaiting",
        "done",
        "fields",
        "generation",
        "goes_to",
        "iid",
        "is_retained",
        "log",
        "producer",
        "publisher",
        "size_bytes",
        "words",
    )

    def __init__(
        self,
        log: OpenLog,
        publisher: bytes,
        fields: PackedFields,
        producer: bytes,
        iid: bytes,
        awaiting: str | None,
        done: Done,
        is_retained: bool = False,
    ) -> None:
        self.is_retained = is_retained
        self.log, self.publisher = log, publisher
        self.words, self.fields = fields
        self.producer, self.iid, self.awaiting, self.done = producer, iid, awaiting, done
        self.generation = 0  # that it was sent to last
        self.goes_to = log.handle.meta.current.number
        self.size_bytes = len(self.fields)

    def put_number(self, number: bytes) -> None:
        """Add the number of a retained message to its fields."""
        self.words += 2
        self.fields += b"$1\r\nn\r\n$%d\r\n%b\r\n" % (len(number), number)


class _OfLog:
    """The messages of one log that wait; under_way: how many of them were sent, to one generation."""

    __slots__ = ("generation", "is_refreshing", "numbering", "refused", "under_way", "waiting")

    def __init__(self) -> None:
        self.numbering: Numbering | None = None  # once a message was retained
        self.waiting: list[Publication] = []
        self.refused: list[Publication] = []  # by a generation that was closed; in their order
        self.is_refreshing = False
        self.generation = self.under_way = 0


class Publishing:
    """The way of all messages into the logs.

    run: a name that no other run of a gateway has. numbers_link: for the numbers of retained messages; it need not wait
    for replicas.

    may_send: says whether messages may be sent now; until then they wait. around: returns requests that have to be
    before a batch, and those that have to follow it, with the function that takes their single reply each. on_stored:
    gets how long a batch took from its first message to the store's answer, in seconds, and how many messages it has.
    """

    def __init__(self, link: Link, run: str) -> None:
        self._link = self.numbers_link = link
        self._loop = asyncio.get_running_loop()
        # No client identifier holds a zero byte.
        self.own_producer = b"\0" + run.encode()
        self._own_head = pack((b"IDMP", self.own_producer))
        self._count = 0
        self._logs: dict[str, _OfLog] = {}
        self._waiting = 0
        self._unnumbered = 0
        self._under_way = 0
        self._is_planned = False
        self._gathering = Gathering()
        self._began_s = 0.0  # when the first came of those that wait
        self.may_send: Callable[[], bool] = lambda: True
        self.stored = 0
        self.backlog_bytes = 0  # of the messages that are not stored yet
        self.on_stored: Callable[[float, int], None] = lambda took_s, count: None
        self.around: Callable[[], tuple[bytes, int, bytes, Callable[[list[Any]], None] | None]] = lambda: (
            b"",
            0,
            b"",
            None,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def backlog(self) -> int:
        """Messages that are not stored yet."""
        return self._waiting + self._unnumbered + self._under_way

    def own_name(self) -> bytes:
        """Return a name for a message that its publisher has not named."""
        self._count += 1
        return b"%d" % self._count

    def publish(self, one: Publication) -> None:
        """Store a message; its `done` is called when the store has answered."""
        of_log = self._logs.get(one.log.name)
        if of_log is None:
            of_log = self._of_log(one.log.name)
        if one.is_retained or (of_log.numbering is not None and of_log.numbering.holds(one.publisher)):
            self.numbering(one.log.name).add(one)
            self._unnumbered += 1
        else:
            of_log.waiting.append(one)
            if not self._waiting:
                self._began_s = perf_counter()
            self._waiting += 1
        self.backlog_bytes += one.size_bytes
        if not self._is_planned:
            self._plan()

    def _of_log(self, name: str) -> _OfLog:
        of_log = self._logs.get(name)
        if of_log is None:
            of_log = self._logs[name] = _OfLog()
        return of_log

    def numbering(self, log: str) -> Numbering:
        """Return what gives numbers to the retained messages of a log."""
        of_log = self._of_log(log)
        if of_log.numbering is None:
            of_log.numbering = Numbering(self.numbers_link, log, partial(self._numbered, of_log))
        return of_log.numbering

    def _numbered(self, of_log: _OfLog, group: Group, error: str | None) -> None:
        """Send messages that have got their numbers; those of the next turn wait for their own request."""
        self._unnumbered -= len(group.messages)
        if error is not None:
            for one in group.messages:
                self.backlog_bytes -= one.size_bytes
                one.done(None, error)
            return
        self._began_s = min(self._began_s, group.began_s) if self._waiting else group.began_s
        of_log.waiting += group.messages
        self._waiting += len(group.messages)
        if self.may_send():
            self._send()
        elif not self._is_planned:
            self._plan()

    def _plan(self) -> None:
        self._is_planned = True
        wait_s = self._gathering.wait_s()
        if wait_s:
            self._loop.call_later(wait_s, self._flush)
        else:
            self._loop.call_soon(self._flush)

    def drop(self, publisher: bytes) -> None:
        """Forget the messages of a client that wait to be sent: it has gone elsewhere, and sends them again there."""
        for of_log in self._logs.values():
            gone = [one for one in of_log.waiting if one.publisher == publisher]
            of_log.waiting = [one for one in of_log.waiting if one.publisher != publisher]
            self._waiting -= len(gone)
            if of_log.numbering is not None:
                unnumbered = of_log.numbering.drop(publisher)
                self._unnumbered -= len(unnumbered)
                gone += unnumbered
            for one in gone:
                self.backlog_bytes -= one.size_bytes
                one.done(None, TAKEN)

    def _flush(self) -> None:
        if not self.may_send():
            self._loop.call_later(_HELD_S, self._flush)
            return
        self._is_planned = False
        if self._unnumbered:
            for of_log in self._logs.values():
                if of_log.numbering is not None:
                    of_log.numbering.draw()
        self._send()

    def _send(self) -> None:
        room = UNDER_WAY_MAX - self._under_way
        parts: list[bytes] = []
        batch: list[Publication] = []
        counts: list[tuple[_OfLog, int]] = []
        replies = 0
        for of_log in self._logs.values():
            if not of_log.waiting or of_log.is_refreshing or room <= 0:
                continue
            log = of_log.waiting[0].log
            if of_log.under_way and of_log.generation != log.generation.number:
                continue  # what is under way may be refused, and must not be overtaken
            if of_log.generation != log.generation.number and self._are_ahead(of_log, log):
                of_log.is_refreshing = True
                self._spawn(self._ask_older(log, of_log))
                continue
            taken, of_log.waiting = of_log.waiting[:room], of_log.waiting[room:]
            of_log.generation = log.generation.number
            of_log.under_way += len(taken)
            counts.append((of_log, len(taken)))
            # Shard by shard: a server is quicker with requests that are like those before.
            taken.sort(key=lambda one: log.shard_of(one.publisher))
            room -= len(taken)
            for one in taken:
                parts.append(self._packed(one))
                replies += 1 if one.awaiting is None else 4
            batch += taken
        if not batch:
            return
        self._waiting -= len(batch)
        self._under_way += len(batch)
        self._gathering.left(len(batch))
        began_s = self._began_s
        before, before_count, behind, done = self.around()
        if before:
            self._link.send(before, before_count, _ignore)
        self._link.send(b"".join(parts), replies, partial(self._stored, batch, counts, began_s))
        if done is not None:
            self._link.send(behind, 1, done)
        self._link.send_now()

    def _packed(self, one: Publication) -> bytes:
        log = one.log
        one.generation = log.generation.number
        producer = self._own_head if one.producer is self.own_producer else pack((b"IDMP", one.producer))
        packed = _addition(one, log.heads[log.shard_of(one.publisher)], producer)
        if one.awaiting is None:
            return packed
        key, packet_id = one.awaiting.rsplit(" ", 1)
        note = pack((b"HSET", key.encode(), packet_id.encode(), b"1"))
        return b"*1\r\n$5\r\nMULTI\r\n%b*4\r\n%b*1\r\n$4\r\nEXEC\r\n" % (packed, note)

    def _stored(
        self, batch: list[Publication], counts: list[tuple[_OfLog, int]], began_s: float, replies: list[Any]
    ) -> None:
        self._under_way -= len(batch)
        for of_log, count in counts:
            of_log.under_way -= count
        self.on_stored(perf_counter() - began_s, len(batch))
        at = 0
        for one in batch:
            if one.awaiting is None:
                reply = replies[at]
                at += 1
            else:
                reply = _of_transaction(replies[at : at + 4])
                at += 4
            if type(reply) is bytes:
                self.stored += 1
                self.backlog_bytes -= one.size_bytes
                one.done(reply, None)
            elif reply is None or _EXHAUSTED in str(reply):
                self._refused(one)
            else:
                self.backlog_bytes -= one.size_bytes
                one.done(None, str(reply))
        if self._waiting and not self._is_planned:
            self._plan()

    def _refused(self, one: Publication) -> None:
        """Keep a message of a generation that was closed; it goes to the next one, in its order."""
        of_log = self._logs[one.log.name]
        of_log.refused.append(one)
        if not of_log.is_refreshing:
            of_log.is_refreshing = True
            self._spawn(self._refresh(one.log, of_log))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _refresh(self, log: OpenLog, of_log: _OfLog) -> None:
        await self._link.ask(("PING",))  # behind all that is under way
        error: str | None = None
        try:
            await log.refresh()
            # The tail may have read the log's settings just before.
            if any(one.generation == log.generation.number for one in of_log.refused):
                error = f"a stream of log {log.name!r} is missing or was ended by hand: reconfigure the log"
            for one in of_log.refused:
                following = log.handle.meta.after(one.generation)
                one.goes_to = log.generation.number if following is None else following.number
        except Exception as fault:  # the log was dropped, or the store is away
            error = str(fault)
        refused, of_log.refused = of_log.refused, []
        of_log.is_refreshing = False
        if error is not None:
            for one in refused:
                self.backlog_bytes -= one.size_bytes
                one.done(None, error)
        else:
            of_log.waiting = refused + of_log.waiting
            self._waiting += len(refused)
        if self._waiting and not self._is_planned:
            self._plan()

    def _are_ahead(self, of_log: _OfLog, log: OpenLog) -> bool:
        """Return whether a generation has begun since messages with names came: the one before may know them."""
        number = log.generation.number
        return any(one.goes_to < number and one.producer is not self.own_producer for one in of_log.waiting)

    async def _ask_older(self, log: OpenLog, of_log: _OfLog) -> None:
        """Ask the generations before the present one for the messages that wait, and that they may know."""
        while self._are_ahead(of_log, log):
            meta = log.handle.meta
            current = log.generation.number
            waiting = [one for one in of_log.waiting if one.goes_to < current and one.producer is not self.own_producer]
            asked = [
                (one, generation)
                for one in waiting
                for generation in meta.generations
                if one.goes_to <= generation.number < current
            ]
            replies = await self._link.ask(*[_closed_addition(one, generation) for one, generation in asked])
            known: dict[Publication, bytes] = {}
            for (one, _), reply in zip(asked, replies, strict=True):
                if type(reply) is bytes:
                    known.setdefault(one, reply)
            for one in waiting:
                one.goes_to = current
            of_log.waiting = [one for one in of_log.waiting if one not in known]
            self._waiting -= len(known)
            for one, found in known.items():
                self.backlog_bytes -= one.size_bytes
                one.done(found, None)
        of_log.is_refreshing = False
        if self._waiting and not self._is_planned:
            self._plan()

    async def find_in(self, one: Publication, generations: list[layout.Generation]) -> bytes | None:
        """Return the entry ID of a named message that a closed generation has; None if none of them has it.

        A closed generation refuses the message, unless it knows its name.
        """
        for generation in generations:
            (reply,) = await self._link.ask(_closed_addition(one, generation))
            if type(reply) is bytes:
                found: bytes = reply
                return found
        return None


def _addition(one: Publication, head: bytes, producer: bytes) -> bytes:
    """Return the XADD of a message. head, producer: its first words, and those of IDMP."""
    iid = one.iid
    return b"*%d\r\n%b%b$%d\r\n%b\r\n$1\r\n*\r\n%b" % (7 + one.words, head, producer, len(iid), iid, one.fields)


def _closed_addition(one: Publication, generation: layout.Generation) -> bytes:
    """Return the XADD of a named message for a generation that is closed."""
    key = one.log.keys_of(generation)[generation.shard_named(one.publisher)]
    return _addition(one, head_of(key), pack((b"IDMP", one.producer)))


def _of_transaction(replies: list[Any]) -> Any:
    """Return the reply to the XADD of a transaction, or its error."""
    result = replies[3]
    if type(result) is list:
        return result[0] if not isinstance(result[1], Exception) else result[1]
    # It was refused when it was queued: the reason stands there.
    return next((one for one in replies[1:3] if isinstance(one, Exception)), result)


def _ignore(replies: list[Any]) -> None:
    pass
