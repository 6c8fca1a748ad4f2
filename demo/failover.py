"""`python -m demo.failover`: the primary's machine is destroyed under a producer and a Spark job; nothing is lost."""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import redis
from rich.console import Console

from bench.ports import free_port
from demo.check import Comparison, compare
from demo.ending import DemoFailed, tell
from demo.processes import Child, interrupted_later
from spark_source.java import NoJava, spark_environment

PRODUCER = Path(__file__).resolve().parents[1] / "examples" / "failover_producer.py"
NAME = "mymaster"
ORDERS, INVOICES = "orders", "invoices"
REPLICAS = 2
EARLIER = 200  # orders that are there before Spark starts
PAUSE_MS = 5
DOWN_AFTER_MS = 1_000
RUN_SECONDS_MAX = 240
NO_SENTINEL = (
    "demo.failover: the Sentinels are redis-server, which is not in PATH: install Redis 7.0 or newer "
    "(apt install redis-server, brew install redis), or name it by --redis-server"
)


class Server:
    """A streamd on a machine of its own, which here is a directory and a port."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.port = free_port()
        self.directory = directory / name
        self.client = redis.Redis(port=self.port, decode_responses=True)
        self.child: Child
        self.starts = 0

    def role(self) -> str:
        """Return master or slave; of a replica without a link, and of a server that is away, nothing."""
        try:
            info = self.client.info("replication")
        except redis.ConnectionError:
            return ""
        return "" if info.get("master_link_status", "up") != "up" else str(info["role"])


class FailoverDemo:
    """One run: three servers, three Sentinels, a producer, a Spark job, and a machine that is destroyed."""

    def __init__(self, directory: Path, console: Console, orders: int, sentinel_program: str) -> None:
        self.directory = directory
        self.console = console
        self.orders = orders
        self.sentinel_program = sentinel_program
        self.spark_environment = spark_environment()
        self.servers = [Server(name, directory) for name in ("one", "two", "three")]
        self.sentinels: list[int] = []
        self.children: list[Child] = []
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line of the story, with the seconds since the start."""
        self.console.print(f"{time.monotonic() - self.began:5.1f} s  {text}", highlight=False, soft_wrap=True)

    def run(self) -> tuple[Comparison, Comparison]:
        """Run the demo; return what is wrong with the orders and with the invoices."""
        self._start_servers()
        self._start_sentinels()
        self._producer(EARLIER, 0).process.wait()
        self.children[-1].check()
        self.say(f"a producer stored {EARLIER} orders; each is on {REPLICAS} replicas before the next one is sent")
        job = self._start_job()
        self.say("a Spark job starts; it writes an invoice for each order, which is on both replicas, too")
        self._wait(lambda: self._length(INVOICES) >= EARLIER, job)
        self.say(f"{EARLIER} invoices are there; the producer starts again, and sends all {self.orders:,} orders")
        producer = self._producer(self.orders, PAUSE_MS)
        self._wait(lambda: self._length(ORDERS) >= EARLIER + (self.orders - EARLIER) // 3, job, producer)
        self._destroy_the_primary(job, producer)
        self._wait(lambda: producer.ended, job, producer)
        self.say(f"the producer has stored all orders; it says: {producer.last_lines(2).replace(chr(10), '; ')}")
        self._wait(lambda: self._length(INVOICES) >= self.orders, job)
        job.send_line()
        self._wait(lambda: job.ended, job)
        self.say("the Spark job has written all invoices")
        return self._compare(ORDERS), self._compare(INVOICES)

    def end(self) -> None:
        """End all started processes, the servers last."""
        for child in reversed(self.children):
            child.stop()

    # -- processes ----------------------------------------------------------------------------------------------------

    def _start(
        self, name: str, module: str, words: Sequence[str], program: Sequence[str] = (), **environment: str
    ) -> Child:
        log = self.directory / f"{name}-{len(self.children)}.log"
        with interrupted_later():
            child = Child(name, module, words, log, environment, program)
            self.children.append(child)
        return child

    def _start_server(self, server: Server, primary: Server | None) -> None:
        words = ["serve", "--port", str(server.port), "--bind", "127.0.0.1", "--dir", str(server.directory)]
        words += ["--replicaof", "127.0.0.1", str(primary.port)] if primary is not None else []
        server.child = self._start(server.name, "streamd", words, PYTHONUNBUFFERED="1")
        server.child.wait_for("Ready to accept connections", seconds=30)

    def _start_servers(self) -> None:
        first = self.servers[0]
        for server in self.servers:
            self._start_server(server, None if server is first else first)
        for server in self.servers[1:]:
            self._wait(lambda server=server: server.role() == "slave", server.child)  # type: ignore[misc]
        self.say("server one is the primary; two and three are its replicas")

    def _start_sentinels(self) -> None:
        for number in range(3):
            port = free_port()
            place = self.directory / f"sentinel-{number}"
            place.mkdir()
            lines = (
                f"port {port}",
                "bind 127.0.0.1",
                f"dir {place}",
                f"sentinel monitor {NAME} 127.0.0.1 {self.servers[0].port} 2",
                f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS + 100 * number}",
                f"sentinel failover-timeout {NAME} 3000",
            )
            configuration = place / "sentinel.conf"
            configuration.write_text("".join(f"{line}\n" for line in lines))
            program = (self.sentinel_program, str(configuration), "--sentinel")
            self._start(f"sentinel-{number}", "", (), program)
            self.sentinels.append(port)
        for port, child in zip(self.sentinels, self.children[-3:], strict=True):
            self._wait(lambda port=port: self._knows_all(port), child)  # type: ignore[misc]
        self.say("three Sentinels watch them; two of them have to agree that a primary is gone")

    def _knows_all(self, port: int) -> bool:
        try:
            with redis.Redis(port=port) as sentinel:
                # Sentinels greet each other more often than in the field: a minute has to be enough.
                sentinel.execute_command("SENTINEL", "DEBUG", "PUBLISH-PERIOD", 200, "INFO-PERIOD", 500)
                known = [sentinel.execute_command("SENTINEL", what, NAME) for what in ("REPLICAS", "SENTINELS")]
        except redis.ConnectionError:
            return False
        return [len(one) for one in known] == [REPLICAS, 2]

    def _producer(self, orders: int, pause_ms: int) -> Child:
        words = [word for port in self.sentinels for word in ("--sentinel", f"127.0.0.1:{port}")]
        words += ["--name", NAME, "--replicas", str(REPLICAS), "--orders", str(orders), "--pause-ms", str(pause_ms)]
        return self._start("producer", "", words, (sys.executable, str(PRODUCER)))

    def _start_job(self) -> Child:
        temporary = self.directory / "tmp"
        temporary.mkdir()
        environment = {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary), **self.spark_environment}
        places = ",".join(f"127.0.0.1:{port}" for port in self.sentinels)
        arguments = {
            "--url": f"redis+sentinel://{places}/{NAME}",
            "--read": ORDERS,
            "--write": INVOICES,
            "--replicas": str(REPLICAS),
            "--checkpoint": str(self.directory / "checkpoint"),
        }
        words = [word for pair in arguments.items() for word in pair]
        return self._start("spark", "demo.failover_spark", words, **environment)

    # -- the story ----------------------------------------------------------------------------------------------------

    def _destroy_the_primary(self, job: Child, producer: Child) -> None:
        lost = self.servers[0]
        stored, written = self._length(ORDERS), self._length(INVOICES)
        lost.child.kill()
        shutil.rmtree(lost.directory)
        gone = time.monotonic()
        self.say(
            f"[bold]destroyed server one: killed (kill -9), its directory removed[/]; "
            f"{stored:,} orders and {written:,} invoices were there"
        )
        self._wait(lambda: self._primary() is not None, job, producer)
        chosen = self._primary()
        assert chosen is not None
        self.say(f"after {time.monotonic() - gone:.1f} s server {chosen.name} is the primary; Sentinel has chosen it")
        self._start_server(lost, None)
        self.say("server one is repaired, and starts with an empty directory")
        self._wait(lambda: lost.role() == "slave", job, producer)
        self.say(f"Sentinel has made server one a replica; it has all data again, {lost.client.xlen(ORDERS):,} orders")

    def _primary(self) -> Server | None:
        """Return the primary that a Sentinel names, once it is one."""
        for port in self.sentinels:
            with redis.Redis(port=port, decode_responses=True) as sentinel:
                _, named = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
            chosen = next((server for server in self.servers if server.port == int(named)), None)
            if chosen is not None and chosen.role() == "master":
                return chosen
        return None

    def _length(self, stream: str) -> int:
        primary = self._primary()
        try:
            return -1 if primary is None else int(primary.client.xlen(stream))
        except redis.ConnectionError:
            return -1

    def _wait(self, holds: Callable[[], bool], *children: Child) -> None:
        """Wait until something holds. Raises: ChildFailed when one of the processes ends badly; DemoFailed."""
        while not holds():
            for child in children:
                child.check()
            if time.monotonic() - self.began > RUN_SECONDS_MAX:
                raise DemoFailed(f"not done after {RUN_SECONDS_MAX} seconds")
            time.sleep(0.02)
        for child in children:
            child.check()

    def _compare(self, stream: str) -> Comparison:
        primary = self._primary()
        if primary is None:
            raise DemoFailed("there is no primary at the end")
        expected = {}
        for number in range(self.orders):
            cents = 100 + number
            amount = {"cents": str(cents)} if stream == ORDERS else {"with_tax": str(cents * 119 // 100)}
            expected[f"order-{number}"] = {"order": f"order-{number}", **amount}
        found = cast("list[tuple[str, dict[str, str]]]", primary.client.xrange(stream))
        return compare(expected, ((fields.get("order", entry_id), fields) for entry_id, fields in found))


def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.failover", description="the demo of a machine that is lost; takes about a minute"
    )
    parser.add_argument("--orders", type=int, default=1_500, help="that the producer stores (default: 1500)")
    parser.add_argument("--redis-server", metavar="PROGRAM", help="what runs the Sentinels (default: the one in PATH)")
    parser.add_argument("--keep", action="store_true", help="keep the directory with journals, checkpoint and logs")
    options = parser.parse_args()
    if options.orders < EARLIER * 3:
        parser.error(f"--orders must be at least {EARLIER * 3}")
    program = shutil.which(options.redis_server or "redis-server")
    if program is None:
        print(NO_SENTINEL, file=sys.stderr)
        return 2
    console = Console()

    def story(directory: Path) -> int:
        demo = FailoverDemo(directory, console, options.orders, program)
        try:
            results = demo.run()
        finally:
            demo.end()
        return report(console, *results)

    return tell(story, console, "failover", "journals, checkpoint and logs", options.keep, NoJava)


def report(console: Console, orders: Comparison, invoices: Comparison) -> int:
    """Print what was found; return 0 if nothing is lost, there twice or altered."""
    for name, result in ((ORDERS, orders), (INVOICES, invoices)):
        console.print(f"{name}: {result.expected:,} expected, {result.found:,} found", highlight=False)
        for line in result.first_differences():
            console.print(f"{name}: {line}", highlight=False)
    lost = len(orders.lost) + len(invoices.lost)
    duplicated = len(orders.duplicated) + len(invoices.duplicated)
    console.print(f"lost {lost}, duplicated {duplicated}", style="bold", highlight=False)
    return 0 if orders.exact and invoices.exact else 1


if __name__ == "__main__":
    sys.exit(main())
