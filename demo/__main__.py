"""`python -m demo`: runs the whole story on this machine; exits 0 only when nothing was lost or duplicated."""

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import cast

import redis
from rich.console import Console

from demo import feed
from demo.check import compare
from demo.checkpoint import Checkpoint
from demo.ending import DemoFailed, tell
from demo.processes import Child
from demo.proxy import CuttingProxy
from demo.show import Display, StreamResult, aggregate_table, result_table
from spark_source.java import NoJava, spark_environment

ORDERS = "orders"
ENRICHED = "orders-enriched"
PRODUCERS = 4
ENTRIES_PER_TRIGGER = 6_000
# How much of the feed waits for the job at its start; the rest arrives while it runs.
BACKLOG_SHARE = 0.7
LIVE_SECONDS = 12
# A batch worth killing the driver in.
ROWS_MIN = 2_000
RUN_SECONDS_MAX = 300
POLL_SECONDS = 0.002
SHOW_EVERY_POLLS = 25


class Demo:
    """One run: the server, the proxy, the producers, the Spark driver and its successor."""

    def __init__(self, directory: Path, count: int, display: Display) -> None:
        self.directory = directory
        self.count = count
        self.display = display
        self.checkpoint = Checkpoint(directory / "checkpoint")
        self.children: list[Child] = []
        self.producers: list[Child] = []
        self.drivers = 0
        self.deadline = time.monotonic() + RUN_SECONDS_MAX
        self.spark_environment = spark_environment()
        self.client: redis.Redis
        self.proxy: CuttingProxy | None = None

    def run(self) -> list[StreamResult]:
        """Run the demo and return the contents of both streams."""
        (self.directory / "tmp").mkdir()
        self._start_server()
        driver = self._start_driver()
        self._start_producers()
        while not self._kill_in_a_half_written_batch(driver):
            self.display.say("that was too late, the batch was whole: once more")
            driver = self._start_driver()
        successor = self._start_driver()
        self.display.say("started the driver again, from its checkpoint")
        self._wait_for_the_producers(successor)
        successor.send_line()
        while not successor.ended:
            self._pause(SHOW_EVERY_POLLS)
            self._show()
        successor.check()
        self._show()
        self.display.say(f"the job has caught up: {self.checkpoint.committed_batches()} batches committed")
        return [self._orders_result(), self._enriched_result()]

    def end(self) -> None:
        """End all started processes, the server last."""
        for child in reversed(self.children):
            child.stop()
        if self.proxy is not None:
            self.proxy.stop()

    def _start(self, name: str, module: str, *arguments: str, **environment: str) -> Child:
        temporary = str(self.directory / "tmp")  # a killed driver does not clean up
        environment.update(TMPDIR=temporary, SPARK_LOCAL_DIRS=temporary)
        child = Child(name, module, arguments, self.directory / f"{name}.log", environment)
        self.children.append(child)
        return child

    def _start_server(self) -> None:
        data = self.directory / "data"
        server = self._start(
            "streamd", "streamd", "serve", "--port", "0", "--appendonly", "no", "--dir", str(data), PYTHONUNBUFFERED="1"
        )
        banner = server.wait_for("Ready to accept connections", seconds=30)
        port = re.search(r":(\d+)\s*$", banner)
        if port is None:
            raise DemoFailed(f"no port in the server's line: {banner}")
        self.port = int(port[1])
        self.client = redis.Redis(port=self.port, decode_responses=True)
        self.display.say(f"streamd listens on 127.0.0.1:{self.port}")

    def _start_driver(self) -> Child:
        self.drivers += 1
        name = f"spark-{self.drivers}"
        arguments = {
            "--url": f"redis://127.0.0.1:{self.port}/0",
            "--read": ORDERS,
            "--write": ENRICHED,
            "--checkpoint": str(self.checkpoint.path),
            "--entries-per-trigger": str(ENTRIES_PER_TRIGGER),
        }
        words = [word for pair in arguments.items() for word in pair]
        return self._start(name, "demo.spark_job", *words, **self.spark_environment)

    def _start_producers(self) -> None:
        feed_file = self.directory / "feed.jsonl"
        feed.write(feed_file, self.count)
        # A retry must find its iid: the window is set before the first write, and holds a producer's whole share.
        self.client.xgroup_create(ORDERS, "none", mkstream=True)
        self.client.xgroup_destroy(ORDERS, "none")
        self.client.execute_command("XCFGSET", ORDERS, "IDMP-DURATION", 3_600, "IDMP-MAXSIZE", 10_000)
        self.proxy = CuttingProxy(self.port)
        self.proxy.start()
        share = self.count // PRODUCERS
        at_once = int(share * BACKLOG_SHARE)
        for number in range(PRODUCERS):
            arguments = {
                "--port": self.proxy.port,
                "--stream": ORDERS,
                "--feed": feed_file,
                "--number": number,
                "--of": PRODUCERS,
                "--at-once": at_once,
                "--rate": (share - at_once) / LIVE_SECONDS,
            }
            words = [str(word) for pair in arguments.items() for word in pair]
            self.producers.append(self._start(f"producer-{number + 1}", "demo.producer", *words))
        self.display.say(f"{PRODUCERS} producers write {self.count:,} orders through a proxy that cuts connections")
        self.display.say("a Spark driver starts; it will enrich each entry into a second stream")

    def _kill_in_a_half_written_batch(self, driver: Child) -> bool:
        """Wait until part of a batch is in the second stream, kill the driver, say whether it was part of it still."""
        bounds: dict[int, tuple[int, int]] = {}  # batch -> entries of the second stream before and after it
        polls = 0
        while True:
            polls += 1
            if polls % SHOW_EVERY_POLLS == 0:
                self._show()
                driver.check()
                if all(producer.ended for producer in self.producers) and self._length(ENRICHED) == self.count:
                    raise DemoFailed("the job was done before it could be killed")
            self._pause()
            batch = self.checkpoint.open_batch()
            if not batch:  # the first batch may pass: what was committed shall be seen to stay
                continue
            if batch not in bounds:
                ends = self.checkpoint.end_of(batch - 1), self.checkpoint.end_of(batch)
                if None not in ends:
                    bounds[batch] = self._entries_until(ends[0]), self._entries_until(ends[1])
                continue
            before, after = bounds[batch]
            rows = after - before
            if rows >= ROWS_MIN and rows // 10 < self._length(ENRICHED) - before < rows * 9 // 10:
                break
        driver.kill()
        written = self._settled_length(ENRICHED) - before
        self.display.say(
            f"[bold]killed the driver (kill -9) in batch {batch}[/]: {written:,} of its {rows:,} rows were written"
        )
        return written < rows

    def _wait_for_the_producers(self, driver: Child) -> None:
        while not all(producer.ended for producer in self.producers):
            self._pause(SHOW_EVERY_POLLS)
            self._show()
            driver.check()
            for producer in self.producers:
                producer.check()
        assert self.proxy is not None
        for kind, count in self.proxy.cuts.items():
            self.display.say(f"cut {count} connections {kind}")

    def _pause(self, polls: int = 1) -> None:
        if time.monotonic() > self.deadline:
            raise DemoFailed(f"not done after {RUN_SECONDS_MAX} seconds")
        time.sleep(POLL_SECONDS * polls)

    def _length(self, stream: str) -> int:
        return int(self.client.xlen(stream))

    def _settled_length(self, stream: str) -> int:
        """Return the length once the server has executed what had reached it."""
        length = -1
        while length != (length := self._length(stream)):
            self._pause(100)
        return length

    def _show(self) -> None:
        cuts = sum(self.proxy.cuts.values()) if self.proxy else 0
        batches = self.checkpoint.committed_batches()
        self.display.update(self._length(ORDERS), self._length(ENRICHED), cuts, batches)

    def _entries_until(self, entry_id: str | None) -> int:
        return len(self.client.xrange(ORDERS, max=entry_id or "+") or ())

    def _orders_result(self) -> StreamResult:
        expected = {str(order["order"]): feed.as_fields(order) for order in feed.orders(self.count)}
        found = ((fields.get("order", entry_id), fields) for entry_id, fields in self.entries(ORDERS))
        sent = sum(json.loads(producer.last_lines(1))["sent"] for producer in self.producers)
        return StreamResult(ORDERS, "producers", sent, self._info(ORDERS)["iids-duplicates"], compare(expected, found))

    def _enriched_result(self) -> StreamResult:
        expected = {entry_id: feed.enriched(fields) for entry_id, fields in self.entries(ORDERS)}
        found = ((fields.pop("source_id", entry_id), fields) for entry_id, fields in self.entries(ENRICHED))
        info = self._info(ENRICHED)
        sent = info["iids-added"] + info["iids-duplicates"]  # as the server counted them
        return StreamResult(ENRICHED, "Spark", sent, info["iids-duplicates"], compare(expected, found))

    def _info(self, stream: str) -> dict[str, int]:
        return cast("dict[str, int]", self.client.xinfo_stream(stream))

    def entries(self, stream: str) -> list[tuple[str, dict[str, str]]]:
        """Return all entries of a stream: their IDs and fields."""
        return cast("list[tuple[str, dict[str, str]]]", self.client.xrange(stream))


def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="streamd's demo; takes about a minute")
    parser.add_argument("--orders", type=int, default=30_000, help="length of the feed (default: 30000)")
    parser.add_argument("--keep", action="store_true", help="keep the directory with feed, checkpoint and logs")
    options = parser.parse_args()
    if options.orders < 20_000:
        parser.error("--orders must be at least 20000: a shorter feed is written before anything can be killed")
    console = Console()

    def story(directory: Path) -> int:
        with Display(console, options.orders) as display:
            demo = Demo(directory, options.orders, display)
            try:
                results = demo.run()
                rows = [fields for _, fields in demo.entries(ENRICHED)]
            finally:
                demo.end()
        return report(console, results, rows)

    return tell(story, console, "demo", "feed, checkpoint and logs", options.keep, NoJava)


def report(console: Console, results: list[StreamResult], rows: list[dict[str, str]]) -> int:
    """Print the tables and the verdict; return 0 when nothing is wrong and the streams are not empty."""
    console.print(aggregate_table(rows))
    console.print(result_table(results))
    for result in results:
        for line in result.comparison.first_differences():
            console.print(f"{result.name}: {line}", highlight=False)
    lost = sum(len(result.comparison.lost) for result in results)
    duplicated = sum(len(result.comparison.duplicated) for result in results)
    idle = [result.writer for result in results if result.duplicates == 0]
    console.print(f"lost {lost}, duplicated {duplicated}", style="bold", highlight=False)
    if idle:
        console.print(f"nothing was shown: no duplicate had to be suppressed from {' and '.join(idle)}")
    return 0 if not idle and all(result.comparison.exact for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
