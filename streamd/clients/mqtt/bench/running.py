"""One run of a load: connect, warm up, measure, wait for what is under way, disconnect."""

import asyncio
import gc
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from time import monotonic

from streamd.clients.mqtt.bench import processes
from streamd.clients.mqtt.bench.client import Client
from streamd.clients.mqtt.bench.connecting import Opener, close_all, forget_all
from streamd.clients.mqtt.bench.figures import Figures, Interval
from streamd.clients.mqtt.bench.load import Load
from streamd.clients.mqtt.bench.pacer import Pacer
from streamd.clients.mqtt.bench.publisher import Publisher
from streamd.clients.mqtt.bench.subscriber import Subscriber
from streamd.clients.mqtt.bench.tally import Tally

_LOOK_S = 0.02
_SETTLE_S = 1.0


def run(load: Load) -> Figures:
    """Run a load and return its figures. Raises: Refused, ProcessGone, OSError for a file of certificates."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(_Run(load).run())


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class _Run:
    """One run, and its clients."""

    def __init__(self, load: Load) -> None:
        self._load, self._tally = load, Tally()
        self._name = secrets.randbits(32)
        self._publishers: list[Publisher] = []
        self._subscribers: list[Subscriber] = []
        self._lost: asyncio.Future[None]

    async def run(self) -> Figures:
        load = self._load
        self._lost = asyncio.get_running_loop().create_future()
        figures = Figures(load, self._tally)
        self._make()
        clients: list[Client] = [*self._subscribers, *self._publishers]
        gc.collect()
        try:
            figures.memory_before = processes.anonymous_bytes(load.processes)
            cpu_s = processes.cpu_s(load.processes)
            figures.connecting_s = await Opener(load).open_all(clients)
            figures.connecting_cpu_s = processes.cpu_s(load.processes) - cpu_s
            gc.freeze()  # nothing of a message is in a circle, and walking these objects again and again takes time
            gc.disable()
            pings = self._pings(clients)
            if load.kind == "idle":
                await self._wait(_SETTLE_S)
                figures.memory_after = processes.anonymous_bytes(load.processes)
                await self._measure(figures)
            else:
                await self._publish(figures)
            if pings is not None:
                pings.stop()
            await close_all(load, clients)
            if load.persistent and load.version == 4:
                await forget_all(replace(load, persistent=False), clients)
        finally:
            gc.enable()
            gc.unfreeze()
        return figures

    def _make(self) -> None:
        """Make the clients: those that receive, and those that send."""
        load, name = self._load, f"{self._load.prefix}-{self._name:08x}"
        topic = f"{load.prefix}/{self._name:08x}"
        subscribers = {"in": 1}.get(load.kind, load.clients)
        publishers = {"out": 1, "idle": 0}.get(load.kind, load.clients)
        filters = {"in": f"{topic}/+", "out": f"{topic}/0"}
        delivered = self._delivered if not load.rate and (load.until_delivery or not load.qos) else None
        for number in range(subscribers):
            topic_filter = filters.get(load.kind, f"{topic}/{number}")
            self._subscribers.append(
                Subscriber(load, self._tally, self._lost, f"{name}-s{number}", topic_filter, self._name, delivered)
            )
        for number in range(publishers):
            topic_name = f"{topic}/{number}".encode()
            client_id = f"{name}-p{number}"
            self._publishers.append(Publisher(load, self._tally, self._lost, client_id, topic_name, self._name, number))
        self._copies_to_come = load.copies

    def _delivered(self, number: int) -> None:
        """Go on with the next message of this publisher's closed loop, when the last copy has come."""
        if self._load.copies > 1:
            self._copies_to_come -= 1
            if self._copies_to_come:
                return
            self._copies_to_come = self._load.copies
        self._publishers[number].completed()

    def _pings(self, clients: Sequence[Client]) -> Pacer | None:
        """Begin to send PINGREQs, evenly over the shortest keep alive that is in force."""
        keep_alive_s = min((client.keep_alive_s for client in clients if client.keep_alive_s), default=0)
        if not keep_alive_s:
            return None
        turns = cycle(clients)
        return Pacer(len(clients) / keep_alive_s, lambda now_s: next(turns).ping())

    async def _publish(self, figures: Figures) -> None:
        load, pacer = self._load, None
        if load.rate:
            turns = cycle(self._publishers)
            pacer = Pacer(load.rate, lambda now_s: next(turns).publish(now_s))
        else:
            for publisher in self._publishers:
                for _ in range(load.under_way):
                    publisher.publish(monotonic())
        await self._wait(load.warm_up_s)
        for latencies in (self._tally.acknowledgements, self._tally.deliveries):
            latencies.clear()
        if pacer is not None:
            pacer.late.clear()
        await self._measure(figures)
        if pacer is not None:
            pacer.stop()
            figures.late = pacer.late
        for publisher in self._publishers:
            publisher.stop()
        await self._drain()

    async def _measure(self, figures: Figures) -> None:
        """Take the figures of some seconds, latencies included."""
        begin = self._look()
        await self._wait(self._load.seconds)
        figures.measured = self._look().since(begin)
        figures.keep_latencies()

    def _look(self) -> Interval:
        tally = self._tally
        cpu_s = processes.cpu_s(self._load.processes)
        accepted = tally.accepted if self._load.qos else tally.sent
        return Interval(monotonic(), cpu_s, time.process_time(), accepted, tally.delivered)

    async def _drain(self) -> None:
        """Wait until all that was sent has been acknowledged and has come, or nothing has come for some time."""
        tally, seen, since_s = self._tally, (-1, -1), monotonic()
        while True:
            expected = (tally.sent - tally.refusals) * self._load.copies
            is_open = any(publisher.open for publisher in self._publishers)
            if not is_open and tally.delivered - tally.again >= expected:
                return
            now = (tally.accepted, tally.delivered)
            if now != seen:
                seen, since_s = now, monotonic()
            elif monotonic() - since_s > self._load.drain_s:
                return
            await self._wait(_LOOK_S)

    async def _wait(self, seconds: float) -> None:
        """Raises: Refused, when a connection has ended meanwhile."""
        if seconds > 0:
            await asyncio.wait([self._lost], timeout=seconds)
        if self._lost.done():
            self._lost.result()
