"""`python -m demo.mqtt`: readings from devices, commands to devices, and everything on their way is killed."""

import argparse
import asyncio
import json
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import redis
from rich.console import Console

from bench.ports import free_port
from demo.ending import DemoFailed, tell
from demo.mqtt_backend import AFTER, BEFORE, SUBSCRIBED
from demo.mqtt_device import COMMANDS, Device
from demo.mqtt_report import Commands, Outcome, Readings, report
from demo.processes import Child
from demo.proxy import CuttingProxy
from spark_source.java import NoJava, spark_environment
from streamd.base.progress import ProgressLine
from streamd.clients.topics import Message, TopicLog

DEVICES = 12
READINGS = 600
PAUSE_S = 0.02  # between two readings of a device
LOG, FILTER = "mqtt", "devices/+/temperature"
GATEWAYS = ("gateway 1", "gateway 2")
# At this share of the acknowledged readings these are killed.
KILLS = (
    (0.2, ("gateway 1",)),
    (0.4, ("server",)),
    (0.6, ("gateway 2",)),
    (0.8, ("gateway 1", "server")),
)
# At this share of its own work the backend is killed: where.
BACKEND_KILLS = ((0.25, BEFORE), (0.55, AFTER))
READS_BETWEEN_CUTS = (40, 160)  # of a connection, while readings are published
READS_OF_COMMANDS = (2, 3)  # and when a command comes: CONNECT and PUBREC, or CONNECT, PUBREC and PUBCOMP
SILENCE_S = 20.0  # so long the demo waits for a reading or a command that is missing
RUN_SECONDS_MAX = 240


class MqttDemo:
    """One run: server, gateways, devices, the backend, Spark's commands, the kills.

    has_memory: backend and devices recognise what comes again; without that the demo must fail.
    """

    def __init__(self, directory: Path, console: Console, devices: int, readings: int, has_memory: bool = True) -> None:
        self.directory, self.console = directory, console
        self.has_memory = has_memory
        self.children: list[Child] = []
        self.progress = ProgressLine("demo")
        self.server_port = free_port()
        self.gateway_ports = {name: free_port() for name in GATEWAYS}
        self.proxies = {
            name: CuttingProxy(port, reads_between_cuts=READS_BETWEEN_CUTS, seed=7)
            for name, port in self.gateway_ports.items()
        }
        self.server: Child
        self.gateways: dict[str, Child] = {}
        self.backend: Child
        self.backend_kills = 0
        self.deadline = time.monotonic() + RUN_SECONDS_MAX
        self.readings: Readings = {}
        self.qos: dict[str, int] = {}
        chance = random.Random(7)
        for number in range(devices):
            name = f"d{number:02d}"
            self.readings[name] = [round(20 + chance.gauss(number, 2), 3) for _ in range(readings)]
            self.qos[name] = 1 + number % 2
        self.total = devices * readings
        self.devices: list[Device] = []
        self.commands: Commands | None = None

    def say(self, text: str) -> None:
        """Print a line of the story."""
        self.progress.end()
        self.console.print(text, highlight=False, soft_wrap=True)

    # -- processes ----------------------------------------------------------------------------------------------------

    def start(self, name: str, ready: str, *words: str) -> Child:
        """Start a command of streamd and wait until it serves."""
        child = self.child(name, "streamd", *words)
        child.wait_for(ready, seconds=60)
        return child

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"redis://127.0.0.1:{self.server_port}/0"

    def start_server(self) -> None:
        """Start streamd on what its journal holds."""
        words = ("--port", str(self.server_port), "--bind", "127.0.0.1", "--dir", str(self.directory / "data"))
        self.server = self.start("server", "Ready to accept connections", "serve", *words)

    def start_gateway(self, name: str) -> None:
        """Start a gateway, which knows only what the server holds."""
        words = ("--url", self.url, "--port", str(self.gateway_ports[name]), "--log", f"{COMMANDS}={COMMANDS}")
        self.gateways[name] = self.start(name, "  ready", "mqtt", *words, "--application", "backend-*")

    async def kill(self, names: tuple[str, ...]) -> None:
        """End a gateway, the server or both with signal 9, and start them again."""
        for name in names:
            (self.server if name == "server" else self.gateways[name]).kill()
        self.say(f"[bold]killed {' and '.join(names)} (kill -9)[/], and started it again")
        for name in sorted(names, reverse=True):  # the server first
            await asyncio.to_thread(*((self.start_server,) if name == "server" else (self.start_gateway, name)))

    def start_backend(self) -> None:
        """Start the backend, which dies at its next moment."""
        words = ["--ports", *(str(proxy.port) for proxy in self.proxies.values())]
        words += ["--filter", FILTER, "--database", str(self.database)]
        if self.backend_kills == 0:
            words.append("--is-first")
        if self.backend_kills < len(BACKEND_KILLS):
            share, moment = BACKEND_KILLS[self.backend_kills]
            words += ["--dies", moment, "--after", str(int(share * self.total))]
        if not self.has_memory:
            words.append("--forgetful")
        self.backend = self.child("backend", "demo.mqtt_backend", *words)

    def look_after_backend(self) -> None:
        """Start the backend again if it has been killed."""
        if self.backend.process.poll() != -signal.SIGKILL or self.backend_kills == len(BACKEND_KILLS):
            self.backend.check()
            return
        self.backend_kills += 1
        self.say(f"[bold]killed the backend (kill -9)[/]: it {self.backend.last_lines(1)}")
        self.start_backend()

    def child(self, name: str, module: str, *words: str, **environment: str) -> Child:
        """Start a process whose log is in the directory."""
        log = self.directory / f"{name.replace(' ', '-')}-{len(self.children)}.log"
        child = Child(name, module, words, log, environment)
        self.children.append(child)
        return child

    def end(self) -> None:
        """End everything that was started."""
        self.progress.end()
        for child in reversed(self.children):
            child.stop()
        for proxy in self.proxies.values():
            proxy.stop()

    # -- readings -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Publish all readings, and let the backend work on them."""
        for proxy in self.proxies.values():
            proxy.start()
        self.start_server()
        for name in GATEWAYS:
            self.start_gateway(name)
        self.start_backend()
        self.backend.wait_for(SUBSCRIBED, seconds=30)
        ports = [proxy.port for proxy in self.proxies.values()]
        for number, (name, readings) in enumerate(self.readings.items()):
            at_first = ports if number % 4 < 2 else ports[::-1]
            texts = [f"{one:.3f}" for one in readings]
            self.devices.append(Device(name, at_first, self.qos[name], texts, PAUSE_S, self.has_memory))
        self.say(f"{len(self.devices)} devices publish {self.total:,} readings: half of them with QoS 1 and a name")
        self.say("for each reading (iid), half with QoS 2 and no name; a backend works on the readings")
        asyncio.run(self.publish())
        ((again,),) = self.rows("select count(*) from again")
        connections = [sum(device.connections[port] for device in self.devices) for port in ports]
        self.say(
            f"{self.total:,} readings are acknowledged; {self.cuts} connections were cut in the middle of something;"
        )
        self.say(
            f"devices connected {connections[0]} times to {GATEWAYS[0]} and {connections[1]} times to {GATEWAYS[1]};"
        )
        self.say(f"the backend recognised {again} readings that came again")

    async def publish(self) -> None:
        """Let devices and backend do their work, while everything is killed."""
        work = asyncio.gather(*(device.run() for device in self.devices))
        try:
            for share, names in KILLS:
                while self.acknowledged < share * self.total and not work.done():
                    await self.pause(work)
                await self.kill(names)
            while not work.done():
                await self.pause(work)
            work.result()
        except BaseException:  # Ctrl-C among them: what the tasks say of it is no news
            work.cancel()
            await asyncio.wait([work])
            work.cancelled() or work.exception()
            raise
        await self.until("readings are worked on", self.count_worked, self.total)

    async def until(self, what: str, count: Callable[[], int], wanted: int) -> None:
        """Wait until so many have come, or no more come."""
        before, since = -1, time.monotonic()
        while (now := count()) < wanted and time.monotonic() < since + SILENCE_S:
            if now > before:
                before, since = now, time.monotonic()
            self.check(f"{now:,} of {wanted:,} {what}")
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # for one that comes twice

    @property
    def cuts(self) -> int:
        """The connections that were cut so far."""
        return sum(sum(proxy.cuts.values()) for proxy in self.proxies.values())

    @property
    def acknowledged(self) -> int:
        """The readings whose devices have the last answer."""
        return sum(device.acknowledged for device in self.devices)

    async def pause(self, work: "asyncio.Future[list[None]]") -> None:
        """Wait a moment, and notice what failed."""
        self.check(f"{self.acknowledged:,} of {self.total:,} readings are acknowledged")
        await asyncio.wait([work], timeout=0.02)

    def check(self, progress: str) -> None:
        """Say how far the demo is.

        Raises: ChildFailed, DemoFailed.
        """
        for child in (self.server, *self.gateways.values()):
            child.check()
        self.look_after_backend()
        if time.monotonic() > self.deadline:
            raise DemoFailed(f"not done after {RUN_SECONDS_MAX} seconds")
        self.progress.say(progress)

    # -- commands -----------------------------------------------------------------------------------------------------

    def command(self, spark: dict[str, str] | None) -> None:
        """Send each device a command, while half of the devices are away.

        spark: the environment of a Spark job that writes the commands; None: this process writes them.
        """
        for proxy in self.proxies.values():
            proxy.reads_between_cuts = READS_OF_COMMANDS
        before = self.cuts
        asyncio.run(self.write_and_receive(spark))
        count = self.count_received()
        self.say(
            f"{count} devices have a command; {self.cuts - before} of their connections were cut before or behind it"
        )
        self.commands = {
            topic.split("/")[1]: [payload.decode() for payload in payloads]
            for topic, payloads in self.entries(COMMANDS, f"{COMMANDS}/+").items()
        }

    async def write_and_receive(self, spark: dict[str, str] | None) -> None:
        """Let half of the devices wait for commands, and the others come when these are written."""
        half = len(self.devices) // 2
        listeners = [asyncio.create_task(device.listen()) for device in self.devices[:half]]
        try:
            if spark is not None:
                self.say("Spark computes the average of each device from the log, and sends it in a command;")
                self.say("half of the devices are connected, the others are away")
                await self.run_spark(spark)
            else:
                self.say("a program sends each device its average; half of the devices are connected, the others away")
                await asyncio.to_thread(self.write_commands)
            await self.kill(("gateway 2",))
            listeners += [asyncio.create_task(device.listen()) for device in self.devices[half:]]
            await self.until("commands have come", self.count_received, len(self.devices))
        finally:
            for listener in listeners:
                listener.cancel()
            await asyncio.gather(*listeners, return_exceptions=True)

    async def run_spark(self, environment: dict[str, str]) -> None:
        """Run Spark's query to its end."""
        words = ("--url", self.url, "--log", LOG, "--filter", FILTER, "--commands", COMMANDS)
        checkpoint = str(self.directory / "checkpoint")
        job = self.child("spark", "demo.mqtt_spark", *words, "--checkpoint", checkpoint, **environment)
        started_s = time.monotonic()
        while not job.ended:
            self.check(f"Spark is at work, {time.monotonic() - started_s:.0f} s")
            await asyncio.sleep(0.05)
        job.check()

    def write_commands(self) -> None:
        """Write what Spark would write."""
        with redis.Redis(port=self.server_port) as client:
            averages = {
                device: {"readings": len(readings), "average": sum(readings) / len(readings)}
                for device, readings in self.stored().items()
            }
            messages = [Message(f"{COMMANDS}/{one}", json.dumps(said), qos=2) for one, said in averages.items()]
            TopicLog.open(client, COMMANDS).publish_many(messages)

    def count_received(self) -> int:
        """Return how many devices have a command."""
        return sum(bool(device.commands) for device in self.devices)

    # -- what came of it ----------------------------------------------------------------------------------------------

    def outcome(self) -> Outcome:
        """Return what is in the logs, what the backend worked on, and what devices got."""
        received = {device.name: device.commands for device in self.devices}
        kills_missing = len(BACKEND_KILLS) - self.backend_kills
        return Outcome(self.readings, self.qos, self.stored(), self.worked(), self.commands, received, kills_missing)

    def stored(self) -> Readings:
        """Return the readings in the log, by device."""
        entries = self.entries(LOG, FILTER)
        return {topic.split("/")[1]: [float(one) for one in payloads] for topic, payloads in entries.items()}

    def worked(self) -> Readings:
        """Return the readings on which the backend has worked, by device."""
        found: Readings = {}
        for device, value in self.rows("select device, value from work order by rowid"):
            found.setdefault(device, []).append(value)
        return found

    def count_worked(self) -> int:
        """Return on how many readings the backend has worked."""
        ((count,),) = self.rows("select count(*) from work")
        return int(count)

    @property
    def database(self) -> Path:
        """The file in which the backend keeps its work."""
        return self.directory / "backend.sqlite"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return rows of the backend's database."""
        with closing(sqlite3.connect(self.database)) as db:
            return db.execute(query).fetchall()

    def entries(self, name: str, filter: str) -> dict[str, list[bytes]]:
        """Return the payloads of a log by topic, as a reader of the topics library gets them."""
        found: dict[str, list[bytes]] = {}
        with redis.Redis(port=self.server_port) as client:
            log = TopicLog.open(client, name)
            iterator, state = log.iterator(filter, start="earliest"), "more"
            while state == "more":
                entries, iterator, state = log.next(iterator, 1_000)
                for entry in entries:
                    found.setdefault(entry.topic, []).append(entry.payload)
        return found


def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.mqtt", description="the demo of MQTT; takes about a minute and a half"
    )
    parser.add_argument("--devices", type=int, default=DEVICES, help=f"how many publish (default {DEVICES})")
    parser.add_argument("--readings", type=int, default=READINGS, help=f"of each of them (default {READINGS})")
    parser.add_argument("--no-spark", action="store_true", help="send the commands without Spark")
    parser.add_argument(
        "--forgetful",
        action="store_true",
        help="backend and devices recognise nothing that comes again: the demo must fail",
    )
    parser.add_argument("--keep", action="store_true", help="keep the directory with journal and logs")
    options = parser.parse_args()
    console = Console()

    def story(directory: Path) -> int:
        spark = None if options.no_spark else spark_environment()
        demo = MqttDemo(directory, console, options.devices, options.readings, not options.forgetful)
        try:
            demo.run()
            demo.command(spark)
            return report(console, demo.outcome())
        finally:
            demo.end()

    return tell(story, console, "mqtt", "journal and logs", options.keep, NoJava)


if __name__ == "__main__":
    sys.exit(main())
