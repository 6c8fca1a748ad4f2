"""What the documents show of two machines runs: servers, variables, commands, Sentinels, and both ways to hand over."""

import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from tests.documents.blocks import blocks_for
from tests.replication.clusters import Node, evidence, nodes, sentinels, wait_until

PAGE = blocks_for(__file__, "docs/two-machines.md")
(UPGRADE,) = blocks_for(__file__, "docs/operations.md")
HOSTS = ("10.0.0.5", "10.0.0.6", "10.0.0.7")
PASSWORD = "a-long-password"
# A server that says it is of a later version.
NEWER = "import sys, streamd.base.version as v; v.VERSION = '9.0.0'; from streamd.cli import main; sys.exit(main())"
UNITS = {"streamd.service", "redis-sentinel.service"}  # ours, and the one of Debian's package redis-sentinel


def blocks_of(language: str) -> list[str]:
    return [one.text for one in PAGE if one.language == language]


class Machines:
    """The machines of the documents: servers by their addresses, and Sentinels."""

    def __init__(self, servers: dict[str, Node], sentinels: dict[str, int], password: str = "") -> None:
        self.servers, self.sentinels = servers, sentinels
        self._environment = {**os.environ, "REDISCLI_AUTH": password}

    def run(self, line: str) -> str:
        """Run a line of a document here, and return what it prints."""
        words = shlex.split(line)
        if words[0] == "ssh":
            host, *command = words[1:]
            assert command == ["systemctl", "restart", "streamd.service"]
            self.servers[host].stop()
            self.servers[host].start()
            return ""
        if words[0] == "systemctl":
            assert words[1:3] == ["enable", "--now"]
            assert words[3] in UNITS
            return ""
        assert words[:2] == ["redis-cli", "-h"]
        environment = self._environment
        if words[3:5] == ["-p", "26379"]:
            port, rest = self.sentinels[words[2]], words[5:]
            environment = {**environment, "REDISCLI_AUTH": ""}
        else:
            port, rest = self.servers[words[2]].port, words[3:]
        for at, word in enumerate(rest):
            if word in self.servers:
                assert rest[at + 1] == "6379"
                rest[at : at + 2] = ["127.0.0.1", str(self.servers[word].port)]
        command = ["redis-cli", "-h", "127.0.0.1", "-p", str(port), *rest]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout


class Producer(threading.Thread):
    """Adds one entry after the other at the primary that it finds, without WAIT; each again until it is answered."""

    def __init__(self, servers: list[Node]) -> None:
        super().__init__()
        self._clients = [one.client for one in servers]
        self._ends = threading.Event()
        self.answered = 0

    def run(self) -> None:
        """Add until the end."""
        client = self._clients[0]
        while not self._ends.wait(0.002):
            try:
                client.execute_command("XADD", "orders", "IDMP", "svc-7", self.answered, "*", "n", self.answered)
                self.answered += 1
            except redis.RedisError:
                client = next((one for one in self._clients if self._leads(one)), client)

    def _leads(self, client: redis.Redis) -> bool:
        try:
            return client.role()[0] == b"master"
        except redis.RedisError:
            return False

    def end(self) -> int:
        """End, and return how many were answered."""
        self._ends.set()
        self.join(60)
        return self.answered


@contextmanager
def producing(servers: list[Node]) -> Iterator[Producer]:
    """Have a producer at work."""
    producer = Producer(servers)
    producer.start()
    try:
        wait_until(lambda: producer.answered > 50, "the producer is at work")
        yield producer
    finally:
        producer.end()


def stored(node: Node) -> list[int]:
    return [int(fields[b"n"]) for _, fields in node.client.xrange("orders")]


def test_the_servers_of_the_page_are_linked(tmp_path: Path):
    primary_line, replica_line, asked = blocks_of("sh")[0].splitlines()
    assert shlex.split(asked) == ["redis-cli", "-p", "6380", "INFO", "replication"]
    assert primary_line == "streamd serve --port 6379 --dir a"
    primary = Node(tmp_path / "a")
    words = shlex.split(replica_line.replace("6379", str(primary.port)))
    assert words[:6] == ["streamd", "serve", "--port", "6380", "--dir", "b"]
    replica = Node(tmp_path / "b", *words[6:])
    try:
        wait_until(replica.is_linked, "the link is up")
    finally:
        replica.kill()
        primary.kill()


def test_the_commands_of_the_page(tmp_path: Path):
    stored_lines, failover = blocks_of("redis")
    with nodes(tmp_path, 1) as (primary, replica):
        pipeline = primary.client.pipeline(transaction=False)
        for line in stored_lines.splitlines():
            pipeline.execute_command(*shlex.split(line))
        assert pipeline.execute()[1] == 1
        line = failover.replace("10.0.0.6 6379", f"127.0.0.1 {replica.port}")
        assert primary.client.execute_command(*shlex.split(line))
        wait_until(lambda: replica.link().get("role") == "master", "the roles have changed")


def test_the_producer_of_the_page_is_the_example_that_tests_run_behind_sentinels():
    (text,) = blocks_of("python")
    assert f"\n\n{text}\n\n" in (Path(__file__).parents[2] / "examples" / "failover_producer.py").read_text()


@contextmanager
def set_up(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Node]]:
    """Start the servers with the variables of the page."""
    first, others = blocks_of("ini")
    servers: dict[str, Node] = {}
    with ExitStack() as stack:
        for host, text in zip(HOSTS, (first, others, others.replace(HOSTS[1], HOSTS[2])), strict=True):
            for line in text.splitlines():
                name, _, value = line.partition("=")
                assert (name == "STREAMD_BIND") <= (value == host)
                if value == f"{HOSTS[0]} 6379":
                    value = f"127.0.0.1 {servers[HOSTS[0]].port}"
                monkeypatch.setenv(name, value.replace(host, "127.0.0.1"))
            node = servers[host] = Node(directory / host)
            node.client = redis.Redis(port=node.port, password=PASSWORD)
            stack.callback(node.kill)
        yield servers


def sentinel_lines(primary: Node) -> list[str]:
    (text,) = blocks_of("conf")
    port, *lines = text.replace(f"{HOSTS[0]} 6379", f"127.0.0.1 {primary.port}").splitlines()
    assert port == "port 26379"
    return lines


@pytest.mark.redis
def test_machines_are_set_up_watched_and_handed_over_as_on_the_page(
    newest_redis: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _, start, look, sentinel, hand_over = blocks_of("sh")
    with set_up(tmp_path, monkeypatch) as servers, ExitStack() as stack:
        primary, *_ = servers.values()
        machines = Machines(servers, {}, PASSWORD)
        assert [machines.run(line) for line in start.splitlines()] == [""]
        for host in HOSTS[1:]:
            wait_until(servers[host].is_linked, "the link is up")
        wait_until(lambda: primary.link()["connected_slaves"] == 2, "the primary has its replicas")
        shown = [machines.run(line) for line in look.splitlines()]
        assert "connected_slaves:2" in shown[0]
        assert "master_link_status:up" in shown[1]

        ports = stack.enter_context(sentinels(newest_redis, tmp_path, primary.port, sentinel_lines(primary)))
        machines.sentinels = dict(zip(HOSTS, ports, strict=True))
        _, usable, address = [machines.run(line) for line in sentinel.splitlines()]
        assert usable.startswith("OK 3 usable Sentinels")
        assert address.split() == ["127.0.0.1", str(primary.port)]

        refuse, change, ask, take = hand_over.splitlines()
        with producing(list(servers.values())) as producer:
            assert machines.run(refuse) == "OK\n"
            assert machines.run(change) == "OK\n"
            wait_until(lambda: machines.run(ask).split()[1] != str(primary.port), "Sentinel names another one")
            wait_until(lambda: primary.link().get("role") == "slave", f"it is demoted: {evidence(tmp_path)}")
            assert machines.run(take) == "OK\n"
            before = producer.answered
            wait_until(lambda: producer.answered > before + 50, "the producer goes on")
            answered = producer.end()
        elected = next(one for one in servers.values() if one.link()["role"] == "master")
        assert stored(elected) == list(range(answered))
        for one in servers.values():
            wait_until(lambda one=one: one is elected or one.is_linked(), "it follows the new primary")


def test_machines_are_upgraded_one_after_the_other_and_nothing_is_lost(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        machines = Machines(dict(zip(HOSTS, (primary, replica), strict=False)), {})
        restart, look, hand_over, ask, restart_other, look_there = UPGRADE.text.splitlines()
        with producing([primary, replica]) as producer:
            replica.program = ["-c", NEWER]
            machines.run(restart)
            wait_until(lambda: "master_link_status:up" in machines.run(look), "the link is up")
            assert machines.run(hand_over) == "OK\n"
            wait_until(lambda: "role:master" in machines.run(ask), "the roles have changed")
            log = primary.directory.with_suffix(".log")
            wait_until(
                lambda: "the primary is streamd 9.0.0, newer than the " in log.read_text(), "the older one waits"
            )
            assert not primary.is_linked()
            primary.program = ["-c", NEWER]
            machines.run(restart_other)
            wait_until(lambda: "master_link_status:up" in machines.run(look_there), "the link is up again")
            before = producer.answered
            wait_until(lambda: producer.answered > before + 50, "the producer goes on")
            answered = producer.end()
        assert stored(replica) == list(range(answered))
        wait_until(lambda: stored(primary) == list(range(answered)), "both have all")


def test_each_alert_of_replication_is_in_the_table():
    rules = Path(__file__).parents[2] / "deploy" / "prometheus" / "streamd.rules.yml"
    texts = rules.read_text(encoding="utf-8").split("- alert: ")[1:]
    wanted = {one.split("\n")[0] for one in texts if re.search("expr: .*(slave|link|skew)", one)}
    page = (Path(__file__).parents[2] / "docs" / "two-machines.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(Streamd\w+)` \|", page, re.MULTILINE)) == wanted
    assert len(wanted) == 4
