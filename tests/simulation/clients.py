"""The clients of a simulation: producers that name their entries, counters, a consumer group, and others."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.caller import Caller, Refused, Request
from tests.simulation.ledger import Ledger
from tests.simulation.network import Host
from tests.simulation.sentinel import Sentinel
from tests.simulation.world import SimulatedWorld

WAIT_MS = (50, 200, 600)


class Actor(Caller):
    """A client that goes on until it is told to end; then it only ends what it has begun.

    wanted: replicas that must have what it writes. told: called when it has been told that they have.
    """

    def __init__(
        self, world: SimulatedWorld, sentinel: Sentinel, ledger: Ledger, name: str, host: Host, wanted: int
    ) -> None:
        # (An attempt that gets there late, behind one that was answered and lost, would be stored out of order. That
        # cannot be where all replicas have what was answered.)
        super().__init__(world, sentinel, name, host, keeps=wanted >= 2)
        self.ledger, self.wanted = ledger, wanted
        self.is_ending = self.is_idle = False
        self.told: Callable[[], None] = lambda: None
        self.pace_ms = world.chance.choice((60, 200, 400))
        world.later(world.chance.randrange(300), self.step)

    def step(self) -> None:
        """Begin the next request, or end."""
        if self.is_ending:
            self.is_idle = True
            self.disconnect()
        else:
            self.begin()

    def begin(self) -> None:
        """Send the next request."""
        raise NotImplementedError

    def soon(self) -> None:
        """Go on after a moment."""
        self.world.later(self.world.chance.randrange(self.pace_ms + 1), self.step)

    def wait(self) -> Request:
        """Return the request that waits for replicas."""
        return [b"WAIT", b"%d" % self.wanted, b"%d" % self.world.chance.choice(WAIT_MS)]

    def has_all(self, replies: list[Any] | None) -> bool:
        """Return whether the replies of a pipeline with WAIT at its end say that enough replicas have its writes."""
        if replies is None or any(isinstance(one, Refused) for one in replies):
            return False
        return not self.wanted or (isinstance(replies[-1], int) and replies[-1] >= self.wanted)

    def again_later(self, action: Callable[[], None], replies: list[Any] | None) -> None:
        """Try again after a moment, at times on another connection."""
        chance = self.world.chance
        if chance.random() < 0.5:
            self.disconnect()
        why = (
            "no answer" if replies is None else next((one for one in replies if isinstance(one, Refused)), replies[-1])
        )
        self.note(f"tries again: {why}")
        self.world.later(chance.choice((20, 100, 250)), action)


class Batch(NamedTuple):
    """Entries that a producer sends together: the requests that add them, and the place of their IDs."""

    stream: bytes
    numbers: range
    requests: list[Request]
    is_unit: bool

    def ids(self, replies: list[Any]) -> list[Any]:
        """Return the IDs of the entries, or what was replied in their place."""
        found = replies[len(self.numbers) + 1] if self.is_unit else replies[: len(self.numbers)]
        return found if isinstance(found, list) else [found]


class Producer(Actor):
    """Adds entries with names, in batches, and repeats a batch by its names until enough replicas have it.

    Now and then it has forgotten how far it was, and repeats a batch that all replicas have; or it deletes entries,
    whose names stay.
    """

    number = 0

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._sent: deque[Batch] = deque(maxlen=5)

    def begin(self) -> None:
        chance, name = self.world.chance, self.name.encode()
        if self._sent and chance.random() < 0.15:
            self._send(chance.choice(self._sent))
            return
        numbers = range(self.number, self.number + chance.choice((1, 1, 1, 2, 4, 9)))
        self.number = numbers.stop
        stream = chance.choice((b"s0", b"s1", b"d"))
        requests: list[Request] = []
        is_named = chance.random() < 0.8
        for number in numbers:
            words = [b"IDMP", name, b"n%d" % number] if is_named else [b"IDMPAUTO", name]
            requests.append([b"XADD", stream, *words, b"*", b"p", name, b"n", b"%d" % number])
        is_unit = chance.random() < 0.15
        if is_unit:
            requests = [[b"MULTI"], *requests, [b"EXEC"]]
        self._send(Batch(stream, numbers, requests, is_unit))

    def _send(self, batch: Batch) -> None:
        wait = [self.wait()] if self.wanted else []
        self.call([*batch.requests, *wait], lambda replies: self._take(batch, replies))

    def _take(self, batch: Batch, replies: list[Any] | None) -> None:
        if replies is None or not self.has_all(replies) or any(isinstance(one, Refused) for one in batch.ids(replies)):
            self.again_later(lambda: self._send(batch), replies)
            return
        ids, numbers = batch.ids(replies), batch.numbers
        self.note(f"{batch.stream.decode()} {numbers.start}..{numbers.stop - 1}: {ids[0].decode()} at {self.port}")
        if self.wanted >= 2:
            for number, entry_id in zip(numbers, ids, strict=True):
                self.ledger.note_acked(batch.stream, self.name.encode(), number, entry_id)
            if batch not in self._sent:
                self._sent.append(batch)
            self.told()
            if batch.stream == b"d" and self.world.chance.random() < 0.5:
                self.ledger.deleted.update(ids)
                self.call([[b"XDEL", b"d", *ids]], lambda replies: self.soon())
                return
        self.soon()


class Counter(Actor):
    """Counts, and sets a register to greater and greater numbers."""

    number = 0

    def begin(self) -> None:
        name = self.name.encode()
        self.number += 1
        if self.world.chance.random() < 0.5:
            self._set(b"r-" + name, self.number)
        else:
            self.ledger.values[b"c-" + name][1] += 1
            self.call([[b"INCR", b"c-" + name], self.wait()], self._counted)

    def _counted(self, replies: list[Any] | None) -> None:
        if self.has_all(replies):
            assert replies is not None
            bounds = self.ledger.values[b"c-" + self.name.encode()]
            bounds[0] = max(bounds[0], replies[0])
            self.told()
        self.soon()

    def _set(self, key: bytes, number: int) -> None:
        bounds = self.ledger.values[key]
        bounds[1] = number

        def take(replies: list[Any] | None) -> None:
            if not self.has_all(replies):
                self.again_later(lambda: self._set(key, number), replies)
                return
            bounds[0] = number
            self.told()
            self.soon()

        self.call([[b"SET", key, b"%d" % number], self.wait()], take)


class Consumer(Actor):
    """Reads a stream in a group, and acknowledges what all replicas know that it has."""

    is_there = False

    def begin(self) -> None:
        chance, name = self.world.chance, self.name.encode()
        if not self.is_there:
            self.call([[b"XGROUP", b"CREATE", b"s0", b"g", b"0", b"MKSTREAM"], self.wait()], self._created)
            return
        count = b"%d" % chance.choice((1, 3, 10))
        if chance.random() < 0.75:
            read = [b"XREADGROUP", b"GROUP", b"g", name, b"COUNT", count, b"STREAMS", b"s0", b">"]
        else:
            read = [b"XAUTOCLAIM", b"s0", b"g", name, b"0", b"0", b"COUNT", count]
        asked_ms = self.world.now_ms
        self.call([read, self.wait()], lambda replies: self._read(asked_ms, replies))

    def _created(self, replies: list[Any] | None) -> None:
        if replies is not None and (replies[0] == b"OK" or str(replies[0]).startswith("BUSYGROUP")):
            self.is_there = replies[-1] == self.wanted
        self.soon()

    def _read(self, asked_ms: int, replies: list[Any] | None) -> None:
        if replies is not None and isinstance(replies[0], Refused) and replies[0].startswith("NOGROUP"):
            self.is_there = False
        if not self.has_all(replies):
            self.soon()
            return
        assert replies is not None
        found = replies[0]
        if found and isinstance(found[0], bytes):  # XAUTOCLAIM
            rows = found[1]
        else:
            rows = found[0][1] if found else []
        ids = [row[0] for row in rows]
        for entry_id in ids:
            self.ledger.check_delivery(b"s0", b"g", entry_id, asked_ms)
        if ids and self.world.chance.random() < 0.8:
            self._acknowledge(ids)
        else:
            self.soon()

    def _acknowledge(self, ids: list[bytes]) -> None:
        def take(replies: list[Any] | None) -> None:
            if not self.has_all(replies):
                self.again_later(lambda: self._acknowledge(ids), replies)
                return
            self.note(f"has acknowledged {ids[0].decode()} .. {ids[-1].decode()}")
            for entry_id in ids:
                self.ledger.note_done(b"s0", b"g", entry_id, self.world.now_ms)
            self.told()
            self.soon()

        self.call([[b"XACK", b"s0", b"g", *ids], self.wait()], take)


class Other(Actor):
    """Writes whatever else there is, and expects nothing of it."""

    number = 0

    def begin(self) -> None:
        chance = self.world.chance
        requests: list[Request] = []
        for _ in range(chance.choice((1, 1, 3))):
            self.number += 1
            number = b"%d" % self.number
            key = b"k%d" % chance.randrange(6)
            requests.append(
                chance.choice(
                    (
                        [b"SET", key, number, b"PX", b"%d" % chance.choice((50, 500, 3_000, 70_000))],
                        [b"SET", key, number],
                        [b"PEXPIRE", key, b"%d" % chance.choice((100, 2_000))],
                        [b"DEL", key],
                        [b"RPUSH", b"l", number],
                        [b"LPOP", b"l"],
                        [b"XADD", b"t", b"MAXLEN", b"~", b"6", b"*", b"n", number],
                        [b"XADD", b"t", b"IDMP", b"o", b"%d" % chance.randrange(9), b"*", b"n", number],
                        [b"XTRIM", b"t", b"MAXLEN", b"4"],
                        [b"HSET", b"h", key, number],
                        [b"ZADD", b"z", number, key],
                        [b"SWAPDB", b"1", b"2"],
                        [b"XGROUP", b"CREATE", b"t", key, b"$", b"MKSTREAM"],
                        [b"XREADGROUP", b"GROUP", key, b"c", b"NOACK", b"STREAMS", b"t", b">"],
                    )
                )
            )
        if chance.random() < 0.2:
            requests = [[b"MULTI"], *requests, [b"EXEC"]]
        self.call(requests, lambda replies: self.soon())
