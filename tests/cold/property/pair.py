"""Runs the steps of a history on both servers and compares what their clients get.

Replies are compared by client and in order, once all waits have ended; pushes of RESP3 without their order. Left out
are MEMORY USAGE, INFO and OBJECT IDLETIME; after a start nodes, the time when a consumer was seen last, and the order
of keys, which the last rewrite decides; the events of DEBUG RELOAD and LOADAOF; keyspace_hits, since a request that
waited looks its keys up again. While clients are blocked others send one request at a time: in a pipeline the cold
server may serve a blocked client, whose entries it reads first, behind a later request.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from streamd.base.clock import ManualClock
from streamd.stream.log.absent import Absent
from tests.cold.property.sides import PROTOCOLS, ColdSide, Side, Words
from tests.crash import restartable
from tests.crash.state_dump import dump
from tests.differential.allowances import UNFIT
from tests.differential.replies import Reply, parse_all
from tests.session import Session

# Numbers of the product that are small here, so that short streams have many blocks and files.
SMALL = {
    "streamd.cold.block.BLOCK_BYTES": 300,
    "streamd.cold.cold_list.WRITTEN_EARLY_BYTES": 400,
    "streamd.cold.queues.WRITTEN_EARLY_BYTES": 400,
    "streamd.cold.queues.WRITTEN_LATE_BYTES": 100,
    "streamd.cold.cold_list.WRITTEN_LATE_BYTES": 100,
    "streamd.cold.use._SMALL_FILES": 4,
    "streamd.cold.mover._SURVEY_MS": 100,
    "streamd.cold.cache._CACHED_BYTES": 20,
    "streamd.engine.absences._LARGE_PART": 1,
    "streamd.stream.entry_replies.SLICED_ITEMS_MIN": 30,
    "streamd.stream.log.entry_log.SLICED_ITEMS_MIN": 30,
}
ID_OF = re.compile(rb"<id of (\d+)>")


# Stands for a client in the order of what is executed: time passes.
TIME = -1


class Difference(Exception):
    """What one server answered and the other one did not."""


class Undecided(Exception):
    """What follows depends on the order in which several clients go on."""


class Step:
    """A step of a history.

    salt: the seed of what goes on beside it. kind: what is done; what: the client and its requests, or a number.
    """

    def __init__(self, salt: int, kind: str, what: Any = None) -> None:
        self.salt, self.kind, self.what = salt, kind, what

    def __repr__(self) -> str:
        return f"Step({self.salt}, {self.kind!r}, {self.what!r})"


@contextmanager
def small() -> Iterator[None]:
    """Have small blocks and short waits of the mover, and all handlers watched that the servers of tests share."""
    handlers = [(command, command.handler) for command in restartable._COMMANDS.leaves()]
    with ExitStack() as stack:
        for name, number in SMALL.items():
            stack.enter_context(patch(name, number))
        for command, handler in handlers:
            command.handler = partial(Order.noted, handler)
        try:
            yield
        finally:
            for command, handler in handlers:
                command.handler = handler


class Order:
    """Notes the order in which one server executes requests."""

    state: Any = None
    log: list[tuple[int, Words]] = []

    @classmethod
    def noted(cls, handler: Any, context: Any, request: Words) -> Any:
        try:
            reply = handler(context, request)
        except Absent:
            raise
        except BaseException:
            cls.note(context, request)
            raise
        cls.note(context, request)
        return reply

    @classmethod
    def note(cls, context: Any, request: Words) -> None:
        if context.state is cls.state:
            cls.log.append((context.id, request))


class Pair:
    """Both servers, empty, with the same clients."""

    def __init__(self, limit_bytes: int, rules: Sequence[bytes] = ()) -> None:
        """rules: those of the user that the third client is; without, it may do all."""
        self.counts: Counter[str] = Counter()
        # (Each has its own: in a burst time passes on the cold server first.)
        self.plain = Side(ManualClock(1_700_000_000_000), rules)
        self.cold = ColdSide(ManualClock(1_700_000_000_000), limit_bytes, self.counts, rules)
        self.is_exact = False

    def run(self, step: Step) -> None:
        """Raises: Difference, Undecided."""
        getattr(self, "_" + step.kind)(random.Random(step.salt), step.what)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _send(self, chance: random.Random, what: tuple[int, list[Words]]) -> None:
        at, requests = what
        requests = [self._with_ids(one) for one in requests if _is_fit(one)]
        waiting = self._waiters()
        if waiting and len(requests) > 1 and at not in waiting:
            requests = requests[:1]
        if not requests:
            return
        self.counts["requests"] += len(requests)
        if chance.random() < 0.5:
            self.cold.evict(chance)
        is_shared = chance.random() < 0.3
        waiters = {one: self.plain.clients[one].client.waiter for one in waiting}
        self.plain.send(at, requests, is_shared)
        self.plain.settle(chance)
        went_on = [one for one, waiter in waiters.items() if self.plain.clients[one].client.waiter is not waiter]
        self.cold.send(at, requests, is_shared)
        self.cold.settle(chance)
        if any(waiting[one] for one in went_on) and len(went_on) > 1:
            raise Undecided
        self._compare(requests)

    def _burst(self, chance: random.Random, what: list[tuple[int, list[Words]]]) -> None:
        """Let several clients send at once: what the cold server executes first the other one does, too."""
        if self._waiters() or any(one.client.transaction is not None for one in self.plain.clients):
            return
        self.counts["bursts"] += 1
        if chance.random() < 0.7:
            self.cold.evict(chance)
        Order.state, Order.log = self.cold.engine.state, []
        left: dict[int, list[Words]] = {}
        for at, requests in what:
            left.setdefault(at, []).extend(one for one in requests if _is_fit(one))
        for at, requests in left.items():
            self.counts["requests"] += len(requests)
            self.cold.send(at, requests)
        numbers = {one.client.id: at for at, one in enumerate(self.cold.clients)}
        lost = self._lose_one(chance, [*left])
        if chance.random() < 0.2:
            self._let_time_pass(chance)
        self.cold.settle(chance)
        Order.state = None
        for client_id, request in Order.log:
            if client_id == TIME:
                self.plain.clock.advance(int(request[0]))
                self.plain.pass_time()
                self.plain.settle(chance)
            requests = left.get(numbers.get(client_id, -1), [])
            # (A request that was refused before has no handler: it goes before the next one of its client.)
            while request in requests:
                first = requests.pop(0)
                self.plain.send(numbers[client_id], [first])
                self.plain.settle(chance)
                if first == request:
                    break
        for at, requests in left.items():
            for request in requests if at != lost else ():
                self.plain.send(at, [request])
                self.plain.settle(chance)
        if lost is not None:
            self.plain.lose(lost)
            self.cold.received(lost)
        self._compare(what)

    def _reads(self, chance: random.Random, what: list[tuple[int, list[Words]]]) -> None:
        """Let several clients send in one turn what changes nothing, so that its order does not count."""
        if self._waiters() or any(one.client.transaction is not None for one in self.plain.clients):
            return
        if chance.random() < 0.7:
            self.cold.evict(chance)
        is_shared = chance.random() < 0.7
        for side in (self.plain, self.cold):
            for at, requests in what:
                if requests:
                    side.send(at, requests, is_shared)
            side.settle(chance)
        self._compare(what)

    def _lose_one(self, chance: random.Random, clients: list[int]) -> int | None:
        """Have a client of the cold server go away, seldom: what it has sent and was not executed is dropped."""
        if not clients or chance.random() > 0.1:
            return None
        for _ in range(chance.randrange(3)):
            if self.cold.reader.waiting:
                self.cold.reader.waiting[0].wait()
        self.counts["lost"] += 1
        lost = chance.choice(clients)
        if self.cold.clients[lost].client.waiter is not None:
            self.counts["lost while they waited"] += 1
        self.cold.lose(lost)
        return lost

    def _let_time_pass(self, chance: random.Random) -> None:
        """Have time pass on the cold server while clients wait for blocks."""
        if self.cold.reader.waiting and chance.random() < 0.5:
            self.cold.reader.waiting[0].wait()
        if self.cold.reader.waiting:
            self.counts["times passed meanwhile"] += 1
        milliseconds = chance.choice([1, 50, 2_000, 150_000])
        Order.log.append((TIME, [b"%d" % milliseconds]))
        self.cold.clock.advance(milliseconds)
        self.cold.pass_time()

    def _time(self, chance: random.Random, milliseconds: int) -> None:
        waiting = self._waiters()
        for side in (self.plain, self.cold):
            side.clock.advance(milliseconds)
            side.pass_time()
            side.settle(chance)
        went_on = [one for one in waiting if self.plain.clients[one].client.waiter is None]
        if len(went_on) > 1 and any(waiting[one] for one in went_on):
            raise Undecided
        self._compare(("time", milliseconds))

    def _evict(self, chance: random.Random, what: None) -> None:
        self.cold.evict(chance)

    def _move(self, chance: random.Random, what: None) -> None:
        self.cold.move(chance)

    def _work(self, chance: random.Random, what: int) -> None:
        for _ in range(what):
            self.cold.work(chance)

    def _all(self, chance: random.Random, what: None) -> None:
        self.cold.work_out()

    def _rewrite(self, chance: random.Random, what: None) -> None:
        self.counts["rewrites"] += 1
        for side in (self.plain, self.cold):
            side.rewrite()
            side.settle(chance)

    def _limit(self, chance: random.Random, what: int) -> None:
        self.cold.limit_bytes = what
        if self.cold.store is not None and self.cold.store.limit_bytes:
            self.cold.store.set_limit(what)

    def _off(self, chance: random.Random, what: None) -> None:
        self.counts["turned off"] += 1
        self.cold.turn_off()

    def _on(self, chance: random.Random, what: None) -> None:
        self.cold.turn_on()

    def _reload(self, chance: random.Random, word: bytes) -> None:
        self.is_exact = True
        for side in (self.plain, self.cold):
            side.send(0, [[b"DEBUG", word]])
            side.settle(chance)
            # (Its events, and what it tells clients that track keys, are those of the journal, which is rewritten at
            # other times.)
            for at in range(len(PROTOCOLS)):
                side.lose(at)
        self.plain.listen()
        self.cold.listen()
        self.check_state()

    def _restart(self, chance: random.Random, how: str) -> None:
        self.counts["restarts"] += 1
        self.is_exact = True
        for side in (self.plain, self.cold):
            side.restart(how, chance.getrandbits(32))
        self.check_state()

    # -- comparing ------------------------------------------------------------------------------------------------

    def _waiters(self) -> dict[int, bool]:
        """Return which clients are blocked, and whether they have sent more."""
        return {
            at: bool(one.client.backlog or one._decoder.buffered_bytes)
            for at, one in enumerate(self.plain.clients)
            if one.client.waiter is not None
        }

    def _with_ids(self, request: Words) -> Words:
        first = min(self.plain.engine.state.clients)
        return [ID_OF.sub(lambda found: b"%d" % (first + int(found[1])), word) for word in request]

    def _compare(self, what: Any) -> None:
        for at in range(len(PROTOCOLS)):
            plain, cold = self.plain.received(at), self.cold.received(at)
            if plain == cold:
                continue
            pairs = parse_all(plain), parse_all(cold)
            left, right = [[one for one in some if one.kind != b">"] for some in pairs]
            pushes = [sorted(_text(one) for one in some if one.kind == b">") for some in pairs]
            if left != right:
                left, right = [[_restored(one) for one in some] for some in (left, right)]
            if left != right:
                left, right = [[_without(one, _SWEPT_FIELDS) for one in some] for some in (left, right)]
            if self.is_exact:
                left, right = [[_without(one, _NODE_FIELDS) for one in some] for some in (left, right)]
            if left != right or pushes[0] != pushes[1]:
                shown = _first_difference([*map(_text, left), pushes[0]], [*map(_text, right), pushes[1]], "replies")
                raise Difference(f"client {at}, {what!r}\n  {shown}")
        for at in range(len(PROTOCOLS)):
            is_closed = [side.transports[side.clients[at]].closed for side in (self.plain, self.cold)]
            if is_closed[0] != is_closed[1]:
                raise Difference(f"client {at}, {what!r}\n closed: plain, cold {is_closed}")
            if is_closed[0]:
                self.plain.lose(at)
                self.cold.lose(at)
        self.plain.check()
        self.cold.check()
        if self.cold.bugs:
            raise Difference(f"{what!r}\n{self.cold.bugs}")

    def check_state(self) -> None:
        """Compare all that is in both. Raises: Difference."""
        plain, cold = self.plain.seen(), self.cold.seen()
        if self.is_exact:
            plain, cold = _without_times(plain), _without_times(cold)
        if plain != cold:
            keys = [key for key in {*plain, *cold} if plain.get(key) != cold.get(key)]
            shown = [_first_difference(plain.get(key), cold.get(key), str(key)) for key in sorted(keys)]
            raise Difference("states differ: " + "; ".join(shown))

    def end(self, chance: random.Random) -> None:
        """Compare all once more; with all cold work done. Raises: Difference."""
        self.check_state()
        # (keyspace_hits differ: a request that waited looks its keys up again. And of a client that went away it is not
        # known whether a request was refused, or dropped.)
        errors = [side.engine.state.stats.errors for side in (self.plain, self.cold)]
        if errors[0] != errors[1] and not self.counts["lost"]:
            raise Difference(f"counts of errors: plain, cold {errors}")
        self.cold.end()
        self.cold.work_out()
        self.check_state()


def _without_times(shown: Any) -> Any:
    if isinstance(shown, dict):
        return {name: _without_times(value) for name, value in shown.items() if name not in _NODE_FIELDS}
    return [_without_times(one) for one in shown] if isinstance(shown, (list, tuple)) else shown


def _first_difference(one: Any, other: Any, where: str) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if one.get(key) != other.get(key):
                return _first_difference(one.get(key), other.get(key), f"{where} {key!r}")
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) != len(other):
            where += f" ({len(one)} and {len(other)})"
        for at, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                return _first_difference(left, right, f"{where}[{at}]")
    return f"{where}: plain {str(one)[:300]}, cold {str(other)[:300]}"


def _is_fit(request: Words) -> bool:
    words = [word.upper() for word in request]
    return not (UNFIT["random choices"](words) or UNFIT["SYNC"](words))


def _text(reply: Reply) -> Any:
    return reply.kind, reply.text, [_text(one) for one in reply.items or ()]


# How entries are spread over nodes is not the same after a start, which packs them anew where they were in memory. When
# a consumer was seen last is in a base alone, and the servers write theirs at different times.
_NODE_FIELDS = (b"radix-tree-keys", b"radix-tree-nodes", b"seen-time", b"idle")
# Expired names count until the cron frees them; beside requests that wait it comes at another time.
_SWEPT_FIELDS = (b"pids-tracked", b"iids-tracked")


def _restored(reply: Reply) -> Reply:
    """Return a reply of DUMP as what RESTORE makes of it: how large entries are spread over nodes is not compared."""
    if reply.items is not None:
        return replace(reply, items=[_restored(one) for one in reply.items])
    session = Session(ManualClock(1_700_000_000_000))
    if reply.kind != b"$" or session.raw([b"RESTORE", b"s", b"0", reply.text]) != b"+OK\r\n":
        return reply
    return Reply(b"$", repr(dump(session.engine)).encode())


def _without(reply: Reply, fields: Sequence[bytes]) -> Reply:
    if reply.items is None:
        return reply
    items = list(reply.items)
    for at in range(1, len(items)):
        if items[at - 1].text in fields:
            items[at] = Reply(b":", b"0")
    return replace(reply, items=[_without(one, fields) for one in items])
