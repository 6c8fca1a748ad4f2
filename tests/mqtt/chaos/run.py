"""A run of chaos: devices, subscribers and kills for so many seconds, then silence, and the checker's verdict."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from streamd.clients.topics.filters import TopicFilter
from tests.mqtt.chaos.checker import DUPLICATED, FOREIGN, LOST, REORDERED, Finding, check
from tests.mqtt.chaos.devices import Device
from tests.mqtt.chaos.faulty_proxy import FaultyProxy
from tests.mqtt.chaos.links import pause
from tests.mqtt.chaos.processes import STORES, Gateway, Killable, Mosquitto, read_log
from tests.mqtt.chaos.records import NAMED, PLAIN, QOS2, Received, Record, Stored
from tests.mqtt.chaos.subscribers import Manner, Subscriber
from tests.mqtt.chaos.world import World

STARTED_S = 30.0
FROZEN_S = (2.5, 9.0)  # a lease is 5 s, and a gateway waits for 2 s until another lets a client go
ZONES = 10
HISTORIES_MAX = 8
WITNESS = "witness"
STEADY, CUT = Manner(), Manner(packets_per_cut=400)
SLOW = Manner(packets_per_cut=150, answers_after_s=0.05, receive_maximum=5)
DEAF = Manner(packets_per_cut=300, stops_reading_s=2.0)
ABSENT = Manner(packets_per_cut=200, away_s=4.0, receive_maximum=20)
# Name, version, QoS, filter, manner. Zones are tenths of the devices.
SUBSCRIBERS = (
    ("all-2", 5, 2, "chaos/#", CUT),
    ("all-1", 4, 1, "chaos/#", CUT),
    ("zone-2", 4, 2, "chaos/1/#", Manner(packets_per_cut=60)),
    ("zone-1", 5, 1, "chaos/2/#", Manner(packets_per_cut=60)),
    ("slow-2", 5, 2, "chaos/3/#", SLOW),
    ("slow-1", 5, 1, "chaos/4/#", SLOW),
    ("deaf-2", 5, 2, "chaos/5/#", DEAF),
    ("deaf-1", 4, 1, "chaos/6/#", DEAF),
    ("absent-2", 5, 2, "chaos/7/#", ABSENT),
    ("absent-3", 4, 2, "chaos/8/#", ABSENT),
    ("absent-1", 5, 1, "chaos/9/#", ABSENT),
    ("sensor-2", 5, 2, "chaos/+/+/a", ABSENT),
)
SHARE = "$share/group/chaos/#"
MEMBERS = (("share-a", CUT), ("share-b", Manner(packets_per_cut=200, away_s=3.0)), ("share-c", SLOW))


@dataclass(frozen=True)
class Options:
    """What a run is to be. rate: messages a second of all devices; broker: another one, "mosquitto" for one of its own.

    gateways: of the store. kill_s: between two kills, on average. quiet_s: a run is over when nothing has come for so
    long.

    plant: a fault of the proxy's; every: each so many.
    """

    seconds: float = 60.0
    devices: int = 1_000
    seed: int = 1
    rate: float = 250.0
    store: str = "streamd"
    has_kills: bool = True
    has_share: bool = True
    only_kill: str | None = None
    kill_s: float = 3.5
    broker: str | None = None
    plant: str | None = None
    every: int = 50
    quiet_s: float = 45.0  # longer than the lease of an entry of a shared group, which is 30 s
    gateway_options: tuple[str, ...] = ()
    gateways: int = 1


@dataclass
class Outcome:
    """What was found. findings: lost, duplicated, reordered and foreign messages; faults: other breaches."""

    findings: list[Finding]
    faults: list[str]
    counts: dict[str, int]
    planted: int = 0
    histories: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return not self.findings and not self.faults

    def of_kind(self, kind: str) -> int:
        """Return how many findings are of a kind."""
        return sum(one.kind == kind for one in self.findings)

    def by_place(self) -> dict[tuple[str, str], list[Finding]]:
        """Return the findings of each kind and place, in their order."""
        found: dict[tuple[str, str], list[Finding]] = defaultdict(list)
        for one in self.findings:
            found[one.kind, one.where].append(one)
        return dict(found)

    def __str__(self) -> str:
        said = f"lost {self.of_kind(LOST)}, duplicated {self.of_kind(DUPLICATED)}, reordered {self.of_kind(REORDERED)}"
        if foreign := self.of_kind(FOREIGN):
            said += f", foreign {foreign}"
        return said + (f", other faults {len(self.faults)}" if self.faults else "")


class Chaos:
    """One run, in a directory of its own. say: is called with a line now and then."""

    def __init__(self, options: Options, directory: Path, say: Callable[[str], None] = lambda line: None) -> None:
        self.options, self.directory, self.say = options, directory, say
        self.record = Record(directory)
        self.killable: list[Killable] = []
        self.store: Killable | None = None
        self.chance = random.Random(options.seed)
        self.gateways: list[Gateway] = []
        self.proxy: FaultyProxy | None = None
        self.devices: list[Device] = []
        self.subscribers: list[Subscriber] = []
        self.stuck = 0
        self.has_killed_enough = asyncio.Event()

    async def run(self) -> Outcome:
        """Do it, and return what was found."""
        try:
            address, *others = await self._start()
            has_kills = self.options.has_kills and self.options.broker is None
            world = World(self.record, address, self.options.seed, self.options.devices / self.options.rate, ZONES)
            world.is_gateway, world.has_kills = self.options.broker is None, has_kills
            world.others = tuple(others)
            self._people(world)
            log = await self._let_live(world, has_kills)
            return self._judge(log, has_kills)
        finally:
            for process in self.killable:
                process.stop()
            self.record.close()

    async def _start(self) -> list[tuple[str, int]]:
        options = self.options
        if options.broker is None:
            self.store = STORES[options.store](self.directory / options.store)
            for number in range(1, options.gateways + 1):
                name = f"gateway-{number}" if options.gateways > 1 else "gateway"
                self.gateways.append(Gateway(self.directory / name, self.store, *options.gateway_options, name=name))
            self.killable = [self.store, *self.gateways]
        elif options.broker == "mosquitto":
            self.killable = [Mosquitto(self.directory / "mosquitto")]
        for process in self.killable:
            await asyncio.to_thread(process.start)
        if self.killable:
            addresses = [("127.0.0.1", one.port) for one in self.gateways or self.killable]
        else:
            assert options.broker is not None
            host, _, port = options.broker.rpartition(":")
            addresses = [(host or "127.0.0.1", int(port))]
        if options.plant is not None:
            self.proxy = FaultyProxy(addresses[0], options.plant, options.every, WITNESS)
            await self.proxy.start()
            addresses[0] = ("127.0.0.1", self.proxy.port)
        return addresses

    def _people(self, world: World) -> None:
        """Make devices and subscribers."""
        for number in range(self.options.devices):
            self.devices.append(Device(f"d{number}", (NAMED, QOS2, PLAIN)[number % 3], world))
        for name, version, qos, text, manner in SUBSCRIBERS:
            self._add(name, version, qos, manner, world, Received(name, text, qos))
        group = Received("the group", SHARE, 1, is_shared=True)
        for name, manner in MEMBERS if self.options.has_share else ():
            self._add(name, 5, 1, manner, world, group)
        if self.options.broker is not None:
            self._add(WITNESS, 5, 2, STEADY, world, Received(WITNESS, "chaos/#", 2))

    def _add(self, name: str, version: int, qos: int, manner: Manner, world: World, received: Received) -> None:
        self.subscribers.append(Subscriber(name, version, qos, received.filter, manner, world, received))
        if received not in self.record.received:
            self.record.received.append(received)

    async def _let_live(self, world: World, has_kills: bool) -> list[Stored]:
        tasks = [asyncio.create_task(one.run()) for one in self.subscribers]
        async with asyncio.timeout(STARTED_S):
            while not all(one.subscribed.is_set() for one in self.subscribers):
                await pause(0.05)
                self._look(tasks)
        for device in self.devices:
            # Each has its first message at a moment of its own.
            device.begin()
        devices = [asyncio.create_task(one.run()) for one in self.devices]
        killing = asyncio.create_task(self._kill()) if has_kills else None
        began = time.monotonic()
        while (passed := time.monotonic() - began) < self.options.seconds:
            await pause(min(5.0, self.options.seconds - passed))
            self._look(tasks + devices + ([killing] if killing is not None else []))
            self.say(self._progress(time.monotonic() - began))
        if killing is not None:
            self.has_killed_enough.set()
            await killing  # what it has ended is there again then
        world.is_over = True
        self.record.event("run", "nothing new from here on")
        await self._until_quiet(devices)
        self.stuck = sum(bool(device.in_flight) for device in self.devices)
        log = await self._log()
        await self._until_delivered(log, tasks)
        for subscriber in self.subscribers:
            subscriber.stop()
        for task in devices:
            task.cancel()
        await asyncio.gather(*tasks)
        await asyncio.gather(*devices, return_exceptions=True)
        return self._witnessed() if self.store is None else log

    def _look(self, tasks: list[asyncio.Task[None]]) -> None:
        """Raise what one of these, or a process, has ended with."""
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        for process in self.killable:
            if process.kills == 0 or not self.options.has_kills:
                process.check()

    def _progress(self, seconds: float) -> str:
        acknowledged = sum(one.is_acknowledged for one in self.record.messages.values())
        delivered = sum(len(member) for one in self.record.received for member in one.members.values())
        kills = ", ".join(
            f"{one.name} {done} {times}"
            for one in self.killable
            for done, times in (("killed", one.kills), ("frozen", one.freezes), ("drained", one.stops))
            if times
        )
        said = f"{seconds:4.0f} s: {len(self.record.messages):,} published, {acknowledged:,} acknowledged"
        return f"{said}, {delivered:,} delivered{'; ' if kills else ''}{kills}"

    async def _kill(self) -> None:
        """Kill one of the processes and start it again, and so on."""
        thawing: set[asyncio.Task[None]] = set()
        while not self.has_killed_enough.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.chance.uniform(0.5, 1.5) * self.options.kill_s):
                    await self.has_killed_enough.wait()
                    break
            gateways: list[Killable] = [one for one in self.gateways if not one.is_frozen]
            stores = [one for one in self.killable if one not in self.gateways]
            which = {None: stores + gateways, "store": stores, "gateway": gateways}[self.options.only_kill]
            # Now and then all at once, and now and then a gateway ends in an orderly way, or does nothing for a while.
            draw = self.chance.random()
            killed = which if draw < 0.15 else [self.chance.choice(which)]
            if draw > 0.7 and len(gateways) > 1 and killed[0] in gateways:
                thawing.add(asyncio.create_task(self._freeze(killed[0])))
                continue
            for process in killed:
                if process in gateways and (draw > 0.9 or (draw > 0.5 and len(self.gateways) > 1)):
                    self.record.event("run", f"{process.name} is told to stop")
                    await asyncio.to_thread(process.terminate)
                else:
                    self.record.event("run", f"kill -9 of {process.name}")
                    process.kill()
            await asyncio.gather(*(asyncio.to_thread(process.start) for process in killed))
            self.record.event("run", f"{' and '.join(one.name for one in killed)} there again")
        await asyncio.gather(*thawing)

    async def _freeze(self, process: Killable) -> None:
        """Stop a gateway for longer than others wait for it to let a client go, often for longer than its lease."""
        seconds = self.chance.uniform(*FROZEN_S)
        self.record.event("run", f"SIGSTOP of {process.name} for {seconds:.1f} s")
        process.freeze()
        await pause(seconds)
        process.thaw()
        self.record.event("run", f"SIGCONT of {process.name}")

    async def _until_quiet(self, devices: list[asyncio.Task[None]]) -> None:
        """Wait until each device has its answers, or nothing was acknowledged for so long."""
        left, since = -1, time.monotonic()
        while not all(task.done() for task in devices):
            await pause(0.25)
            self._look(devices)
            now = sum(len(device.in_flight) for device in self.devices)
            if now != left:
                left, since = now, time.monotonic()
            elif time.monotonic() - since > self.options.quiet_s:
                return

    async def _log(self) -> list[Stored]:
        return [] if self.store is None else await asyncio.to_thread(read_log, self.store.port)

    def _witnessed(self) -> list[Stored]:
        """Return what the witness got, which stands for the log of a broker that has none."""
        witness = next(one for one in self.record.received if one.name == WITNESS)
        return [
            Stored(one.key, one.topic, None, f"witness/{at}") for at, one in enumerate(witness.members.get(WITNESS, ()))
        ]

    async def _until_delivered(self, log: list[Stored], tasks: list[asyncio.Task[None]]) -> None:
        """Wait until each subscriber has what is stored, or nothing has come for so long."""
        acknowledged = {key for key, message in self.record.messages.items() if message.is_acknowledged}
        stored = acknowledged | {one.key for one in log}
        topics: dict[str, set[str]] = defaultdict(set)
        for key in stored:
            topics[self.record.messages[key].topic if key in self.record.messages else "?"].add(key)
        wanted = {}
        for received in self.record.received:
            matching = TopicFilter(received.filter.split("/", 2)[2] if received.is_shared else received.filter)
            wanted[received.name] = set().union(*(keys for topic, keys in topics.items() if matching.matches(topic)))
        came, since = -1, time.monotonic()
        while True:
            await pause(0.5)
            self._look(tasks)
            seen = {
                one.name: {delivery.key for member in one.members.values() for delivery in member}
                for one in self.record.received
            }
            if all(keys <= seen[name] for name, keys in wanted.items()):
                await pause(1.0)  # for what should not come
                return
            now = sum(len(member) for one in self.record.received for member in one.members.values())
            if now != came:
                came, since = now, time.monotonic()
                left = sum(len(keys - seen[name]) for name, keys in wanted.items())
                self.say(f"{left:,} deliveries are left")
            elif time.monotonic() - since > self.options.quiet_s:
                return

    def _judge(self, log: list[Stored], has_kills: bool) -> Outcome:
        findings = check(self.record.messages, log, self.record.received, has_kills=has_kills)
        faults = list(self.record.faults)
        if self.stuck:
            faults.append(f"{self.stuck} devices never got their answer")
        if not self.record.messages:
            faults.append("nothing was published")
        outcome = Outcome(findings, faults, self._counts(log), self.proxy.planted if self.proxy else 0)
        firsts = [found[0].key for found in outcome.by_place().values()]
        outcome.histories = self.record.histories(firsts[:HISTORIES_MAX])
        for process in self.killable:
            process.check()
        return outcome

    def _counts(self, log: list[Stored]) -> dict[str, int]:
        messages = self.record.messages.values()
        return {
            "messages": len(self.record.messages),
            "acknowledged": sum(one.is_acknowledged for one in messages),
            "sent again": sum(max(0, one.sends - 1) for one in messages),
            "entries": len(log),
            "deliveries": sum(len(member) for one in self.record.received for member in one.members.values()),
            **{f"kills of {one.name}": one.kills for one in self.killable},
            **{f"freezes of {one.name}": one.freezes for one in self.killable if one.freezes},
            **{f"orderly stops of {one.name}": one.stops for one in self.killable if one.stops},
            **{f"starts of {one.name} that failed": one.failed_starts for one in self.killable if one.failed_starts},
            **dict(self.record.counts.most_common()),
        }
