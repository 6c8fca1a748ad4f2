"""`python -m demo.topics`: a day of devices, replayed from 14:05 by a crowd, while the server is killed."""

import argparse
import json
import random
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import redis
from rich.console import Console
from rich.table import Table

from demo.ending import DemoFailed, tell
from demo.processes import Child
from spark_source.java import NoJava, spark_environment
from streamd.base.progress import ProgressLine
from streamd.clients.topics import Message, TopicLog

LOG, FILTER = "telemetry", "devices/+/temperature"
DEVICES = 12
STEP = timedelta(minutes=5)
KILLED_AT, RECONFIGURED_AT, START = timedelta(hours=10), timedelta(hours=17), timedelta(hours=14, minutes=5)
MEMBERS = 3
RUN_SECONDS_MAX = 240

Readings = dict[str, list[float]]


class TopicsDemo:
    """One run: the server, which is killed twice, the devices, the members, Spark."""

    def __init__(self, directory: Path, console: Console, step: timedelta = STEP) -> None:
        self.directory = directory
        self.console = console
        self.children: list[Child] = []
        self.progress = ProgressLine("demo")
        self.lives = 0
        self.step = step
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.midnight = today - timedelta(days=1)
        self.now = self.midnight
        self.readings: Readings = {}
        self.repeated = 0
        self.deadline = time.monotonic() + RUN_SECONDS_MAX
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])

    @property
    def start(self) -> datetime:
        """The time from which the day is replayed."""
        return self.midnight + START

    def say(self, text: str) -> None:
        """Print a line of the story."""
        self.progress.end()
        self.console.print(f"{self.now:%H:%M} {text}", highlight=False)

    def run(self) -> None:
        """Publish the day."""
        self.start_server()
        log = TopicLog.create(self.client(), LOG, shards=4, retention_s=2 * 86_400, filters=["devices/#"])
        minutes = self.step // timedelta(minutes=1)
        self.say(f"{DEVICES} devices publish temperature and humidity every {minutes} minutes of {self.midnight:%A}")
        for step in range(timedelta(days=1) // self.step):
            self.go_to(self.midnight + step * self.step)
            is_deadly = self.now == self.midnight + KILLED_AT
            if is_deadly:
                self.kill_server()
                self.start_server()
            self.publish(log, step, is_deadly)
            self.progress.say(f"{self.now:%H:%M}, {2 * DEVICES * (step + 1):,} messages are published")
            if self.now == self.midnight + RECONFIGURED_AT:
                log.reconfigure(shards=6)
                self.say("a generation with six shards begins; nothing is rewritten")
        self.go_to(self.midnight + timedelta(days=1))

    def publish(self, log: TopicLog, step: int, is_repeated: bool) -> None:
        """Publish what all devices measure; after a kill also what came before it, as devices do that saw no reply."""
        messages = list(self.measure(step))
        if is_repeated:
            before = list(self.measure(step - 1, is_noted=False))
            log.publish_many(before)
            self.repeated += len(before)
            self.say(f"the devices send {len(before)} messages again, whose replies they might not have seen")
        log.publish_many(messages)

    def measure(self, step: int, is_noted: bool = True) -> Iterator[Message]:
        """Yield the messages of a step; the same each time."""
        for device in range(DEVICES):
            chance = random.Random(step * 1_000 + device)
            name = f"d{device:02d}"
            for kind, value in (("temperature", 20 + chance.gauss(device, 2)), ("humidity", chance.uniform(20, 80))):
                if is_noted and kind == "temperature" and self.now >= self.start:
                    self.readings.setdefault(name, []).append(round(value, 3))
                yield Message(f"devices/{name}/{kind}", f"{value:.3f}", name, f"{kind}-{step}")

    def replay(self) -> dict[str, Readings]:
        """Share the replay among members, kill the server in the middle; return what each member noted, by device."""
        results = self.directory / "results.sqlite"
        with sqlite3.connect(results) as db:
            db.execute("pragma journal_mode=wal")
            db.execute("create table result (place text primary key, device text, value real, member text)")
        self.say(f"replay yesterday, {FILTER}, from {self.start:%H:%M}, by {MEMBERS} members")
        start_ms = str(int(self.start.timestamp() * 1_000))
        members = []
        for number in range(MEMBERS):
            words = ("--port", str(self.port), "--log", LOG, "--filter", FILTER, "--start-ms", start_ms)
            name = f"member-{number + 1}"
            members.append(self.child(name, "demo.topics_member", *words, "--name", name, "--results", str(results)))
        wanted = sum(map(len, self.readings.values()))
        while (done := self.count(results)) < wanted // 3:
            self.progress.say(f"{done:,} of {wanted:,} messages are worked on")
            self.pause(members)
        self.kill_server()
        self.say(f"that was in the middle: {self.count(results):,} of {wanted:,} messages were worked on")
        self.start_server()
        while not all(member.ended for member in members):
            self.progress.say(f"{self.count(results):,} of {wanted:,} messages are worked on")
            self.pause(members)
        found: dict[str, Readings] = {}
        with sqlite3.connect(results) as db:
            for device, value, member in db.execute("select device, value, member from result order by rowid"):
                found.setdefault(member, {}).setdefault(device, []).append(value)
        return found

    def spark_averages(self, environment: dict[str, str]) -> dict[str, list[float]]:
        """Return what Spark reads from the same streams: readings and average by device."""
        self.say("Spark reads the same log")
        start_ms = str(int(self.start.timestamp() * 1_000))
        url = f"redis://127.0.0.1:{self.port}/0"
        arguments = ("--url", url, "--start-ms", start_ms, "--log", LOG, "--filter", FILTER)
        job = self.child("spark", "demo.topics_spark", *arguments, **environment)
        started_s = time.monotonic()
        while not job.ended:
            self.progress.say(f"Spark is at work, {time.monotonic() - started_s:.0f} s")
            self.pause([job])
        job.check()
        averages: dict[str, list[float]] = json.loads(job.last_lines(1))
        return averages

    def child(self, name: str, module: str, *arguments: str, **environment: str) -> Child:
        """Start a process whose log is in the directory."""
        child = Child(name, module, arguments, self.directory / f"{name}.log", environment)
        self.children.append(child)
        return child

    def start_server(self) -> None:
        """Start the server in its own time, on what its journal holds."""
        self.lives += 1
        self.server = self.child(
            f"streamd-{self.lives}",
            "demo.topics_server",
            *("--port", str(self.port), "--dir", str(self.directory / "data")),
            *("--now-ms", str(int(self.now.timestamp() * 1_000))),
        )
        self.server.wait_for("Ready to accept connections", seconds=30)

    def kill_server(self) -> None:
        """End it with signal 9."""
        self.server.kill()
        self.say("[bold]killed the server (kill -9)[/], and started it again")

    def go_to(self, moment: datetime) -> None:
        """Let the server's clock say a time."""
        self.now = moment
        assert self.server.process.stdin is not None
        wanted_ms = int(moment.timestamp() * 1_000)
        self.server.process.stdin.write(b"%d\n" % wanted_ms)
        self.server.process.stdin.flush()
        client = self.client()
        while True:
            seconds, micro = client.time()
            if seconds * 1_000 + micro // 1_000 >= wanted_ms:
                return
            self.pause([self.server], 0.001)

    def client(self) -> redis.Redis:
        """Return a client."""
        return redis.Redis(port=self.port)

    def count(self, results: Path) -> int:
        """Return how many results were noted."""
        with sqlite3.connect(results) as db:
            return int(db.execute("select count(*) from result").fetchone()[0])

    def pause(self, children: list[Child], seconds: float = 0.05) -> None:
        """Wait a moment, and notice what failed."""
        for child in children:
            child.check()
        if time.monotonic() > self.deadline:
            raise DemoFailed(f"not done after {RUN_SECONDS_MAX} seconds")
        time.sleep(seconds)

    def end(self) -> None:
        """End everything that was started."""
        self.progress.end()
        for child in reversed(self.children):
            child.stop()


def report(console: Console, demo: TopicsDemo, found: dict[str, Readings], spark: dict[str, list[float]] | None) -> int:
    """Print a row per device and the verdict; return 0 when nothing is wrong."""
    table = Table(title=f"{FILTER}, yesterday from {demo.start:%H:%M}")
    for column in ("device", "readings", "member", "average", "Spark's"):
        table.add_column(column, justify="left" if column in ("device", "member") else "right")
    lost = duplicated = disordered = different = 0
    for device, values in sorted(demo.readings.items()):
        got = [(member, mine[device]) for member, mine in sorted(found.items()) if device in mine]
        everything = [value for _, mine in got for value in mine]
        lost += max(0, len(values) - len(everything))
        duplicated += max(0, len(everything) - len(values))
        # A device's shard may have gone from one member to another: each has worked on its part in order.
        disordered += sum(not is_part_in_order(mine, values) for _, mine in got)
        average = sum(everything) / max(1, len(everything))
        shown = "-"
        if spark is not None:
            readings, its_average = spark.get(device, [0, 0.0])
            different += readings != len(values) or abs(its_average - sum(values) / len(values)) > 1e-6
            shown = f"{its_average:.3f}"
        names = ", ".join(member.removeprefix("member-") for member, _ in got)
        table.add_row(device, f"{len(everything):,}", names, f"{average:.3f}", shown)
    console.print(table)
    order = "kept" if not disordered else f"[red]broken for {disordered}[/]"
    console.print(f"lost {lost}, duplicated {duplicated}, order {order}", style="bold", highlight=False)
    if different:
        console.print(f"[red]Spark's average differs for {different} devices[/]")
    return 0 if lost == duplicated == disordered == different == 0 and len(found) > 1 else 1


def is_part_in_order(part: list[float], whole: list[float]) -> bool:
    """Say whether a list comes out of another by leaving out some."""
    rest = iter(whole)
    return all(value in rest for value in part)


def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.topics", description="the demo of topics; takes about a minute"
    )
    parser.add_argument(
        "--every", type=int, default=5, choices=(1, 5, 10, 20, 30, 60), metavar="MINUTES", help="how often they publish"
    )
    parser.add_argument("--no-spark", action="store_true", help="leave out Spark's averages")
    parser.add_argument("--keep", action="store_true", help="keep the directory with journal, results and logs")
    options = parser.parse_args()
    console = Console()

    def story(directory: Path) -> int:
        demo = TopicsDemo(directory, console, timedelta(minutes=options.every))
        try:
            demo.run()
            found = demo.replay()
            spark = None if options.no_spark else demo.spark_averages(spark_environment())
        finally:
            demo.end()
        return report(console, demo, found, spark)

    return tell(story, console, "topics", "journal, results and logs", options.keep, NoJava)


if __name__ == "__main__":
    sys.exit(main())
