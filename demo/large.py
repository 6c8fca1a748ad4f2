"""`python -m demo.large`: a stream that is larger than its server's memory, killed, started again, and replayed."""

import argparse
import json
import re
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Final

import redis
from rich.console import Console
from rich.table import Table

from demo.ending import DemoFailed, tell
from demo.large_feed import DEVICES, STREAM, Producer, numbers_of
from demo.processes import Child
from spark_source.java import NoJava, spark_environment
from streamd.base.progress import ProgressLine

MB: Final = 1_000_000
ENTRIES, MEMORY_MB = 20_000_000, 200
# What the interpreter, the tail of the stream, and requests under way take of the memory beside entries.
_BESIDE_MB: Final = 110
_STREAM_MB_MIN: Final = 17
_DISK_BYTES_EACH: Final = 100
RUN_SECONDS_MAX: Final = 3_600
DEVICE: Final = 417
_AT_ONCE: Final = 1_000


class LargeDemo:
    """One run: the server, which is killed twice, the producer, a replay by filter, Spark.

    peak_bytes: the most memory that a life of the server had; 0 where the system does not say it.
    """

    def __init__(self, directory: Path, console: Console, entries: int, memory_mb: int) -> None:
        self.directory = directory
        self.console = console
        self.entries = entries
        self.memory_mb = memory_mb
        self.children: list[Child] = []
        self.progress = ProgressLine("demo")
        self.lives = self.peak_bytes = self.known = 0
        self.ready_s: list[float] = []
        self.took_s: dict[str, float] = {}
        self.deadline = time.monotonic() + RUN_SECONDS_MAX
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])

    def say(self, text: str) -> None:
        """Print a line of the story."""
        self.progress.end()
        self.console.print(text, highlight=False)

    def run(self) -> None:
        """Have the stream written, and the server killed in the middle."""
        free = shutil.disk_usage(self.directory).free
        if free < (wanted := self.entries * _DISK_BYTES_EACH + 300 * MB):
            raise DemoFailed(
                f"it takes up to {wanted // MB:,} MB in {self.directory}, where {free // MB:,} MB are free"
            )
        self.start_server()
        self.say(
            f"{DEVICES:,} devices write {self.entries:,} readings; the server may take {self.memory_mb} MB of memory"
        )
        producer = Producer(self.port, self.entries)
        began_s = time.monotonic()
        self.write(producer, self.entries // 2, and_kill=True)
        self.start_server()
        producer.resume()
        self.write(producer, self.entries)
        self.took_s["writing"] = time.monotonic() - began_s
        info = self.client().xinfo_stream(STREAM)
        self.known = int(info["iids-duplicates"])
        self.say(
            f"the producer sent {producer.repeated:,} readings again, which had no reply; "
            f"the server had {self.known:,} of them already"
        )
        self.rewrite()

    def write(self, producer: Producer, until: int, and_kill: bool = False) -> None:
        """Send readings until so many have replies; kill the server then, while others are on their way, or not."""
        for done in producer.run():
            self.progress.say(f"{done:,} of {self.entries:,} readings are written")
            self.look()
            if done >= until and and_kill:
                self.say(f"{done:,} readings are written, and more are on their way")
                self.kill_server()
                return

    def rewrite(self) -> None:
        """Have the journal rewritten, which then only names the segment files."""
        client = self.client()
        began_s = time.monotonic()
        before = client.info("persistence")["aof_rewrites"]
        try:
            client.bgrewriteaof()
        except redis.ResponseError:  # one has begun by itself; what it writes is the same but for the last entries
            pass
        while (info := client.info("persistence"))["aof_rewrites"] == before or info["aof_rewrite_in_progress"]:
            self.progress.say(f"the journal is rewritten, {time.monotonic() - began_s:.0f} s")
            time.sleep(0.02)
            self.look()
        self.took_s["rewriting the journal"] = time.monotonic() - began_s

    def replay(self) -> list[int]:
        """Return the numbers of one device's readings, by a filter in the server, which is killed in the middle."""
        name = f"d{DEVICE:04d}"
        self.say(f"replay the readings of {name}: XFILTER {STREAM} - + FIELD device EQ {name}")
        found: list[int] = []
        start, searched = "-", ""
        is_killed = False
        began_s = time.monotonic()
        client = self.client()
        wanted = len(numbers_of(DEVICE, self.entries))
        while True:
            words = ("XFILTER", STREAM, start, "+", "COUNT", _AT_ONCE, "FIELD", "device", "EQ", name)
            reply = client.execute_command(*words)
            until, entries = reply[0].decode(), reply[1]
            for _, fields in entries:
                values = dict(zip(fields[::2], fields[1::2], strict=True))
                found.append(int(values[b"n"]))
            if until == searched:
                break
            start, searched = f"({until}", until
            self.progress.say(f"{len(found):,} of {wanted:,} readings are replayed")
            self.look()
            if not is_killed and len(found) >= wanted // 2:
                is_killed = True
                client.close()
                self.kill_server()
                self.say(f"that was in the middle: {len(found):,} of {wanted:,} readings were replayed")
                self.start_server()
                client = self.client()
        self.took_s["replaying by filter"] = time.monotonic() - began_s
        return found

    def spark_counts(self, environment: dict[str, str]) -> dict[str, list[int]]:
        """Return what Spark reads of the whole stream: readings, and the sum of their numbers, by device."""
        self.say("Spark reads the whole stream")
        arguments = ("--url", f"redis://127.0.0.1:{self.port}/0", "--stream", STREAM)
        began_s = time.monotonic()
        job = self.child("spark", "demo.large_spark", *arguments, **environment)
        while not job.ended:
            self.progress.say(f"Spark is at work, {time.monotonic() - began_s:.0f} s")
            time.sleep(0.1)
            self.look()
            job.check()
        job.check()
        self.took_s["reading with Spark"] = time.monotonic() - began_s
        counts: dict[str, list[int]] = json.loads(job.last_lines(1))
        return counts

    def child(self, name: str, module: str, *arguments: str, **environment: str) -> Child:
        """Start a process whose log is in the directory."""
        child = Child(name, module, arguments, self.directory / f"{name}.log", environment)
        self.children.append(child)
        return child

    def start_server(self) -> None:
        """Start the server on what its directory holds."""
        self.lives += 1
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        stream_mb = max(self.memory_mb - _BESIDE_MB, _STREAM_MB_MIN)
        began_s = time.monotonic()
        self.server = self.child(
            f"streamd-{self.lives}",
            "streamd",
            *("serve", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(data)),
            *("--stream-memory", f"{stream_mb}mb", "--stream-idmp-maxsize", "10000"),
        )
        self.server.wait_for("Ready to accept connections", seconds=60)
        self.ready_s.append(time.monotonic() - began_s)
        if self.lives > 1:
            length = self.client().xlen(STREAM)
            self.say(f"started it again: ready in {self.ready_s[-1]:.1f} s, with {length:,} readings")

    def kill_server(self) -> None:
        """End it with signal 9."""
        self.note_memory()
        self.server.kill()
        self.say("[bold]killed the server (kill -9)[/]")

    def note_memory(self) -> None:
        """Take the most memory that the server has had since its start."""
        try:
            status = Path(f"/proc/{self.server.process.pid}/status").read_text()
        except OSError:
            return
        if peak := re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE):
            self.peak_bytes = max(self.peak_bytes, int(peak[1]) * 1_024)

    def client(self) -> redis.Redis:
        """Return a client."""
        return redis.Redis(port=self.port, socket_timeout=60)

    def look(self) -> None:
        """Notice that the server has failed, or that all takes too long."""
        self.server.check()
        if time.monotonic() > self.deadline:
            raise DemoFailed(f"not done after {RUN_SECONDS_MAX} seconds")

    def figures(self) -> dict[str, str]:
        """Return what it took."""
        self.note_memory()
        info = self.client().info("persistence")
        seg_bytes = int(info["cold_bytes"])
        disk_bytes = sum(one.stat().st_size for one in (self.directory / "data").rglob("*") if one.is_file())
        figures = {
            "most memory of the server": f"{self.peak_bytes / MB:.0f} MB" if self.peak_bytes else "not known",
            "segment files": f"{info['cold_files']}, {seg_bytes / MB:.0f} MB",
            "the data directory": f"{disk_bytes / MB:.0f} MB",
            "starts after a kill": ", ".join(f"{one:.1f} s" for one in self.ready_s[1:]),
        }
        for name, seconds in self.took_s.items():
            figures[name] = f"{seconds:.1f} s"
        return figures

    def end(self) -> None:
        """End everything that was started."""
        self.progress.end()
        for child in reversed(self.children):
            child.stop()


def report(console: Console, demo: LargeDemo, found: list[int], spark: dict[str, list[int]] | None) -> int:
    """Print the figures and the verdict; return 0 when nothing is wrong."""
    table = Table(title=f"{demo.entries:,} entries, {demo.memory_mb} MB of memory")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in demo.figures().items():
        table.add_row(name, value)
    console.print(table)
    length = demo.client().xlen(STREAM)
    lost, duplicated = max(0, demo.entries - length), max(0, length - demo.entries)
    console.print(f"lost {lost}, duplicated {duplicated}", style="bold", highlight=False)
    is_right = not lost and not duplicated
    if found != [*numbers_of(DEVICE, demo.entries)]:
        console.print(f"[red]the replay by filter differs: {len(found):,} readings[/]")
        is_right = False
    else:
        console.print(f"replayed by filter: {len(found):,} readings of a device, each once, in order", highlight=False)
    if spark is not None:
        numbers = {f"d{one:04d}": numbers_of(one, demo.entries) for one in range(DEVICES)}
        if spark != {name: [len(mine), sum(mine)] for name, mine in numbers.items() if mine}:
            console.print("[red]Spark's counts differ[/]")
            is_right = False
        else:
            read = sum(count for count, _ in spark.values())
            console.print(f"counted by Spark: {read:,} readings of {len(spark):,} devices", highlight=False)
    if demo.peak_bytes > max(demo.memory_mb, _STREAM_MB_MIN + _BESIDE_MB) * MB:
        console.print(f"[red]the server took more than {demo.memory_mb} MB[/]")
        is_right = False
    return 0 if is_right else 1


def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.large", description="a stream that is larger than memory; takes some minutes"
    )
    parser.add_argument("--entries", type=int, default=ENTRIES, help=f"how many (default: {ENTRIES:,})")
    parser.add_argument(
        "--memory-mb", type=int, default=MEMORY_MB, metavar="MB", help=f"of the server (default: {MEMORY_MB})"
    )
    parser.add_argument("--no-spark", action="store_true", help="leave out Spark")
    parser.add_argument("--keep", action="store_true", help="keep the directory with data and logs")
    options = parser.parse_args()
    console = Console()

    def story(directory: Path) -> int:
        demo = LargeDemo(directory, console, options.entries, options.memory_mb)
        try:
            demo.run()
            found = demo.replay()
            spark = None if options.no_spark else demo.spark_counts(spark_environment())
            return report(console, demo, found, spark)
        finally:
            demo.end()

    return tell(story, console, "large", "data and logs", options.keep, NoJava)


if __name__ == "__main__":
    sys.exit(main())
