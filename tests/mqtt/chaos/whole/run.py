"""A message from end to end: devices, two gateways, a backend and Spark, whose commands go back to the devices."""

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from streamd.clients.mqtt.bench.file_limit import make_room
from tests.mqtt.chaos.checker import FOREIGN, LOST, REORDERED, Finding
from tests.mqtt.chaos.links import pause
from tests.mqtt.chaos.processes import ROOT, Gateway, Killable
from tests.mqtt.chaos.records import Message, Received
from tests.mqtt.chaos.whole.device import Device, Fleet
from tests.spark.commands.check import COMMANDS, check_commands, readings_in
from tests.spark.commands.job import COMMANDS_LOG
from tests.spark.commands.run import DRIVER, WORKER, Outcome, Plan, Run

BACKEND = "the backend"
CONNECTED_S = 300.0
QUIET_S = 150.0  # longer than Spark takes to begin where others use the processors
FROZEN_S = (2.5, 9.0)


class Backend(Killable):
    """The backend's process."""

    name, ready = "backend", "ready"

    def __init__(self, directory: Path, ports: list[int]) -> None:
        super().__init__(directory)
        self.file = directory / "readings"
        self._ports = ports

    def words(self) -> list[str]:
        """Return the command."""
        ports = [word for port in self._ports for word in ("--port", str(port))]
        return [sys.executable, "-m", "tests.mqtt.chaos.whole.backend", "--file", str(self.file), *ports]

    def readings(self) -> list[str]:
        """Return the keys of the readings that it has noted, in their order."""
        return self.file.read_text().splitlines() if self.file.exists() else []


class Whole(Run):
    """One run. seconds: for so long readings are sent, and a process is killed each kill_s on average."""

    def __init__(
        self, plan: Plan, directory: Path, say: Callable[[str], None], seconds: float, kill_s: float, gateways: int = 2
    ) -> None:
        super().__init__(plan, directory, say)
        self.seconds, self.kill_s = seconds, kill_s
        options = ["--log", f"{COMMANDS_LOG}=commands", *_application_options()]
        self.gateways = [
            Gateway(directory / f"gateway-{number}", self.store, *options, name=f"gateway-{number}")
            for number in range(1, gateways + 1)
        ]
        self.backend = Backend(directory / "backend", [one.port for one in self.gateways])
        self.killable: list[Killable] = [self.store, *self.gateways, self.backend]
        places = [("127.0.0.1", one.port) for one in self.gateways]
        self.fleet = Fleet(self.record, places, plan.devices / plan.rate, plan.seed)
        self.things: list[Device] = []
        self.chance = random.Random(plan.seed)

    async def run(self) -> Outcome:
        """Return the outcome. Raises: AssertionError if the run does not come to its end."""
        for name in ("events", "local"):
            (self.directory / name).mkdir()
        make_room(self.plan.devices + 1_000)
        try:
            await self._begin()
            await self._live()
            return await self._finish()
        finally:
            self._stop()

    def _stop(self) -> None:
        for one in self.things:
            one.stop()
        if self.driver is not None:
            self.driver.kill()
        for process in self.killable:
            process.stop()
        self.record.close()

    async def _begin(self) -> None:
        for process in (self.store, *self.gateways, self.backend):
            await asyncio.to_thread(process.start)
        self._start_driver()
        began = time.monotonic()
        for number in range(self.plan.devices):
            name = f"d{number}"
            received = Received(f"{name}-commands", f"{COMMANDS}{name}", 2)
            self.record.received.append(received)
            self.things.append(Device(name, self.fleet, received))
            self.things[-1].connect()
        await self._within(CONNECTED_S, "all devices subscribe", lambda: self.fleet.subscribed == self.plan.devices)
        self.say(f"{self.plan.devices:,} devices are connected after {time.monotonic() - began:.1f} s")
        self.things[0].read()
        await self._within(QUIET_S, "a command comes", lambda: self.fleet.delivered > 0)
        self.say("the first command has come")
        for thing in self.things[1:]:
            thing.begin()

    async def _live(self) -> None:
        """Kill one process after the other, for so many seconds."""
        ends, said = time.monotonic() + self.seconds, 0.0
        kills_at = time.monotonic() + self.kill_s
        which = [*self.killable, WORKER, DRIVER]
        self.chance.shuffle(which)
        while (now := time.monotonic()) < ends:
            await pause(0.2)
            self._keep_driver()
            if now > said + 10:
                said = now
                self.say(self._progress())
            if now >= kills_at:
                chosen = which.pop(0)
                which.append(chosen)
                await self._end_one(chosen)
                kills_at = time.monotonic() + self.chance.uniform(0.5, 1.5) * self.kill_s
        self.fleet.is_over = True
        self.say("no reading from here on")

    async def _end_one(self, chosen: Killable | str) -> None:
        if isinstance(chosen, str):
            await self._kill(chosen)
            return
        draw = self.chance.random() if chosen in self.gateways else 0.0
        if draw > 0.7:
            self.say(f"SIGSTOP of {chosen.name}")
            chosen.freeze()
            await pause(self.chance.uniform(*FROZEN_S))
            chosen.thaw()
            return
        if draw > 0.5:
            self.say(f"{chosen.name} is told to stop")
            await asyncio.to_thread(chosen.terminate)
        else:
            self.say(f"kill -9 of {chosen.name}")
            chosen.kill()
        await asyncio.to_thread(chosen.start)

    def _progress(self) -> str:
        fleet = self.fleet
        return f"{len(self.record.messages):,} readings, {fleet.in_flight:,} in flight, {fleet.delivered:,} commands"

    async def _finish(self) -> Outcome:
        fleet = self.fleet
        await self._within(QUIET_S, "all readings are stored", lambda: not fleet.in_flight)
        log = await self._log()
        readings = readings_in(log)
        count = readings.total()
        done, since = (-1, -1), time.monotonic()
        seen: list[str] = []
        while True:
            await pause(0.5)
            self._keep_driver()
            seen = self.backend.readings()
            now = fleet.delivered, len(seen)
            is_whole = fleet.delivered >= count and readings.keys() <= set(seen)
            if is_whole and self.checkpoint.open_batch() is None:
                await pause(2.0)  # for what should not come
                break
            if now != done:
                done, since = now, time.monotonic()
            if time.monotonic() - since > QUIET_S:
                break
        seen = self.backend.readings()
        log = await self._log()
        findings = [
            *check_commands(self.record.messages, log, self.record.received),
            *check_backend(self.record.messages, readings_in(log), seen),
        ]
        latencies = sorted(fleet.latencies_s) or [0.0]
        self.say(
            f"from a reading to its command: median {latencies[len(latencies) // 2]:.2f} s, "
            f"99 % {latencies[len(latencies) * 99 // 100]:.2f} s"
        )
        counts = self.counts + self.record.counts
        counts.update({"readings": count, "commands": len(log) - count, "delivered": fleet.delivered})
        counts.update({"noted by the backend": len(seen), "noted again": len(seen) - len(set(seen))})
        counts["sent again"] = sum(max(0, one.sends - 1) for one in self.record.messages.values())
        for one in self.killable:
            for what, times in (("kills", one.kills), ("freezes", one.freezes), ("orderly stops", one.stops)):
                counts.update({f"{what} of {one.name}": times} if times else {})
        return Outcome(findings, self.record.faults, counts, await asyncio.to_thread(self._recognised), 0)

    async def _within(self, seconds: float, what: str, reached: Callable[[], bool], pause_s: float = 0.1) -> None:
        began = time.monotonic()
        while not reached():
            assert time.monotonic() - began < seconds, f"not within {seconds:.0f} s: {what}; {self._progress()}"
            self._keep_driver()
            await pause(pause_s)

    async def _until(self, what: str, reached: Callable[[], bool], pause_s: float = 0.05) -> None:
        await self._within(QUIET_S, what, reached, pause_s)

    def _keep_driver(self) -> None:
        """Start the driver again when it has ended: its query cannot begin while a Python worker is killed."""
        if self.driver is not None and self.driver.ended:
            self.say(f"the driver has ended, and begins again: {self.driver.last_lines()[-200:]!r}")
            self.counts["drivers that had ended"] += 1
            self.counts[DRIVER] += 1
            self._start_driver()


def check_backend(messages: dict[str, Message], readings: Counter[str], seen: list[str]) -> list[Finding]:
    """Return what is wrong with what a backend of QoS 1 has noted: all readings, the first time in their order."""
    findings = [Finding(LOST, BACKEND, key, "stored, and not noted") for key in readings.keys() - set(seen)]
    newest: dict[str, int] = {}
    for key in dict.fromkeys(seen):
        message = messages.get(key)
        if message is None:
            findings.append(Finding(FOREIGN, BACKEND, key, "nobody sent this reading"))
        elif newest.get(message.topic, 0) > message.number:
            findings.append(Finding(REORDERED, BACKEND, key, f"behind reading {newest[message.topic]} of its device"))
        else:
            newest[message.topic] = message.number
    return findings


def _application_options() -> list[str]:
    """Return the options with which a gateway serves the backend as an application, if it can."""
    words = [sys.executable, "-m", "streamd", "mqtt", "--help"]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return ["--application", "backend*"] if "--application" in said else []
