"""`python -m demo.mqtt`: devices publish over cut connections, gateway and server are killed, Spark computes."""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

import redis
from rich.console import Console
from rich.table import Table

from bench.ports import free_port
from demo.ending import DemoFailed, tell
from demo.mqtt_device import Backend, Device
from demo.processes import Child
from demo.proxy import CuttingProxy
from spark_source.java import NoJava, spark_environment
from streamd.base.progress import ProgressLine
from streamd.clients.topics import TopicLog

DEVICES = 12
READINGS = 600
PAUSE_S = 0.02  # between two readings of a device
LOG, FILTER = "mqtt", "devices/+/temperature"
# At this share of the readings these are killed.
KILLS = ((0.2, ("gateway",)), (0.4, ("server",)), (0.6, ("gateway",)), (0.8, ("gateway", "server")))
SILENCE_S = 20.0  # so long the backend waits for a reading that is missing
RUN_SECONDS_MAX = 240

Readings = dict[str, list[float]]


class MqttDemo:
    """One run: server, gateway, devices, the backend, the kills, Spark."""

    def __init__(self, directory: Path, console: Console, devices: int, readings: int) -> None:
        self.directory, self.console = directory, console
        self.children: list[Child] = []
        self.progress = ProgressLine("demo")
        self.server_port, self.gateway_port = free_port(), free_port()
        self.proxy = CuttingProxy(self.gateway_port, reads_between_cuts=(40, 160), seed=7)
        self.server: Child
        self.gateway: Child
        self.deadline = time.monotonic() + RUN_SECONDS_MAX
        self.begin_ms = int(time.time() * 1_000) - 3_600_000
        self.readings: Readings = {}
        self.qos: dict[str, int] = {}
        chance = random.Random(7)
        for number in range(devices):
            name = f"d{number:02d}"
            self.readings[name] = [round(20 + chance.gauss(number, 2), 3) for _ in range(readings)]
            self.qos[name] = 1 + number % 2
        self.total = devices * readings
        self.devices: list[Device] = []
        self.backend: Backend

    def say(self, text: str) -> None:
        """Print a line of the story."""
        self.progress.end()
        self.console.print(text, highlight=False, soft_wrap=True)

    # -- processes ----------------------------------------------------------------------------------------------------

    def start(self, name: str, ready: str, *words: str) -> Child:
        """Start a command of streamd and wait until it serves."""
        child = Child(name, "streamd", words, self.directory / f"{name}-{len(self.children)}.log")
        self.children.append(child)
        child.wait_for(ready, seconds=60)
        return child

    def start_server(self) -> None:
        """Start streamd on what its journal holds."""
        words = ("--port", str(self.server_port), "--bind", "127.0.0.1", "--dir", str(self.directory / "data"))
        self.server = self.start("server", "Ready to accept connections", "serve", *words)

    def start_gateway(self) -> None:
        """Start a gateway, which knows only what the server holds."""
        words = ("--url", f"redis://127.0.0.1:{self.server_port}", "--port", str(self.gateway_port))
        self.gateway = self.start("gateway", "  ready", "mqtt", *words)

    async def kill(self, names: tuple[str, ...]) -> None:
        """End gateway, server or both with signal 9, and start them again."""
        for name in names:
            (self.gateway if name == "gateway" else self.server).kill()
        self.say(f"[bold]killed the {' and the '.join(names)} (kill -9)[/], and started again")
        if "server" in names:
            await asyncio.to_thread(self.start_server)
        if "gateway" in names:
            await asyncio.to_thread(self.start_gateway)

    def end(self) -> None:
        """End everything that was started."""
        self.progress.end()
        for child in reversed(self.children):
            child.stop()

    # -- the story ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Publish all readings, and deliver them to the backend."""
        self.start_server()
        self.start_gateway()
        self.proxy.start()
        try:
            asyncio.run(self.publish())
        finally:
            self.proxy.stop()
        self.gateway.stop()
        cuts = sum(self.proxy.cuts.values())
        self.say(f"{self.total:,} readings are acknowledged; {cuts} connections were cut in the middle of something;")
        self.say(f"the backend recognised {self.backend.repeated} readings that came again")

    async def publish(self) -> None:
        """Let devices and backend do their work, while gateway and server are killed."""
        port = self.proxy.port
        self.backend = Backend("backend", port, FILTER)
        backend = asyncio.create_task(self.backend.run())
        try:
            await asyncio.wait_for(self.backend.is_subscribed.wait(), 30)
            self.devices = [
                Device(name, port, self.qos[name], [f"{one:.3f}" for one in readings], PAUSE_S)
                for name, readings in self.readings.items()
            ]
            self.say(f"{len(self.devices)} devices publish {self.total:,} readings: half of them with QoS 1 and a name")
            self.say("for each reading (iid), half with QoS 2 and no name; a backend subscribes with QoS 2")
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
            await self.until_delivered()
        finally:
            backend.cancel()
            await asyncio.wait([backend])
            backend.cancelled() or backend.exception()

    async def until_delivered(self) -> None:
        """Wait until the backend has all readings, or gets no more of them."""
        count, since = -1, time.monotonic()
        while self.backend.count < self.total and time.monotonic() < since + SILENCE_S:
            if self.backend.count > count:
                count, since = self.backend.count, time.monotonic()
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # for one that comes twice

    @property
    def acknowledged(self) -> int:
        """The readings whose devices have the last answer."""
        return sum(device.acknowledged for device in self.devices)

    async def pause(self, work: "asyncio.Future[list[None]]") -> None:
        """Wait a moment, and notice what failed."""
        for child in (self.server, self.gateway):
            child.check()
        if time.monotonic() > self.deadline:
            raise DemoFailed(f"not done after {RUN_SECONDS_MAX} seconds")
        self.progress.say(f"{self.acknowledged:,} of {self.total:,} readings are acknowledged")
        await asyncio.wait([work], timeout=0.02)

    # -- what is in the log -------------------------------------------------------------------------------------------

    def stored(self) -> Readings:
        """Return the readings in the log, by device, as a reader of the topics library gets them."""
        found: Readings = {}
        with redis.Redis(port=self.server_port) as client:
            log = TopicLog.open(client, LOG)
            iterator, state = log.iterator(FILTER, start="earliest"), "more"
            while state == "more":
                entries, iterator, state = log.next(iterator, 1_000)
                for entry in entries:
                    found.setdefault(entry.topic.split("/")[1], []).append(float(entry.payload))
        return found

    def spark_averages(self, environment: dict[str, str]) -> dict[str, list[float]]:
        """Return what Spark computes from the log: number of readings and average by device."""
        self.say("Spark computes the average of each device from the log")
        url = f"redis://127.0.0.1:{self.server_port}/0"
        words = ("--url", url, "--start-ms", str(self.begin_ms), "--log", LOG, "--filter", FILTER)
        job = Child("spark", "demo.topics_spark", words, self.directory / "spark.log", environment)
        self.children.append(job)
        started_s = time.monotonic()
        while not job.ended:
            self.progress.say(f"Spark is at work, {time.monotonic() - started_s:.0f} s")
            self.server.check()
            if time.monotonic() > self.deadline:
                raise DemoFailed(f"not done after {RUN_SECONDS_MAX} seconds")
            time.sleep(0.05)
        job.check()
        averages: dict[str, list[float]] = json.loads(job.last_lines(1))
        return averages


def report(console: Console, demo: MqttDemo, stored: Readings, spark: dict[str, list[float]] | None) -> int:
    """Print a row per device and the verdict; return 0 when nothing is wrong."""
    table = Table(title=f"log {LOG}, {FILTER}")
    for column in ("device", "QoS", "published", "in the log", "at the backend", "average", "Spark's"):
        table.add_column(column, justify="left" if column == "device" else "right")
    lost = duplicated = disordered = different = 0
    for device, published in demo.readings.items():
        average = sum(published) / len(published)
        copies = [stored.get(device, []), demo.backend.readings.get(device, [])]
        for copy in copies:
            less, more = difference(published, copy)
            lost += less
            duplicated += more
            disordered += less == more == 0 and copy != published
        shown = "-"
        if spark is not None:
            count, its_average = spark.get(device, [0, 0.0])
            different += count != len(published) or abs(its_average - average) > 1e-6
            shown = f"{its_average:.3f}"
        numbers = [f"{len(one):,}" for one in (published, *copies)]
        table.add_row(device, str(demo.qos[device]), *numbers, f"{average:.3f}", shown)
    console.print(table)
    order = "kept" if not disordered else f"[red]broken {disordered} times[/]"
    console.print(f"lost {lost}, duplicated {duplicated}, order {order}", style="bold", highlight=False)
    if different:
        console.print(f"[red]Spark's average differs for {different} devices[/]")
    return 0 if lost == duplicated == disordered == different == 0 else 1


def difference(published: list[float], copy: list[float]) -> tuple[int, int]:
    """Return how many readings a copy lacks, and how many it has too often."""
    wanted, found = Counter(published), Counter(copy)
    return (wanted - found).total(), (found - wanted).total()


def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.mqtt", description="the demo of MQTT; takes about a minute")
    parser.add_argument("--devices", type=int, default=DEVICES, help=f"how many publish (default {DEVICES})")
    parser.add_argument("--readings", type=int, default=READINGS, help=f"of each of them (default {READINGS})")
    parser.add_argument("--no-spark", action="store_true", help="leave out Spark's averages")
    parser.add_argument("--keep", action="store_true", help="keep the directory with journal and logs")
    options = parser.parse_args()
    console = Console()

    def story(directory: Path) -> int:
        demo = MqttDemo(directory, console, options.devices, options.readings)
        try:
            demo.run()
            stored = demo.stored()
            spark = None if options.no_spark else demo.spark_averages(spark_environment())
        finally:
            demo.end()
        return report(console, demo, stored, spark)

    return tell(story, console, "mqtt", "journal and logs", options.keep, NoJava)


if __name__ == "__main__":
    sys.exit(main())
