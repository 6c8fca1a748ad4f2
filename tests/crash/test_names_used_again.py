"""A name that is used again after its duration makes a second entry: a restart of Redis loses it, of streamd not."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
import redis

from tests.integration.process import ServerProcess
from tests.spark.deployments import wait_until
from tests.spark.failing_over import Node

AHEAD = "32503680000000-0"  # of the year 3000

pytestmark = pytest.mark.redis


class Running(Protocol):
    """A server that a test starts and ends."""

    client: redis.Redis

    def close(self) -> None:
        """End the process."""


class Streamd(ServerProcess):
    """streamd on a directory, with a client."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "--appendonly", "yes")
        self.client = redis.Redis(port=self.port)

    def close(self) -> None:
        self.client.close()
        self.stop()


Start = Callable[[Path], Running]


@pytest.fixture
def on_redis(newest_redis: Path, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts Redis 8.10.2 on a directory."""
    started: list[Node] = []

    def start(directory: Path) -> Node:
        directory.mkdir(exist_ok=True)
        options = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--appendfsync", "always", "--dir"]
        started.append(Node(newest_redis, tmp_path, *options, str(directory)))
        return started[-1]

    yield start
    for node in started:
        node.close()


@pytest.fixture
def on_streamd() -> Iterator[Start]:
    """Return a function that starts streamd on a directory."""
    started: list[Streamd] = []

    def start(directory: Path) -> Streamd:
        started.append(Streamd(directory))
        return started[-1]

    yield start
    for server in started:
        server.close()


def add(client: redis.Redis, iid: str) -> bytes:
    return client.execute_command("XADD", "s", "IDMP", "p", iid, "*", "name", iid)


def use_again(running: Running) -> None:
    """Write three entries, of which the first and the last have one name."""
    client = running.client
    client.xgroup_create("s", "g", "$", mkstream=True)
    client.execute_command("XCFGSET", "s", "IDMP-DURATION", 1)
    first = add(client, "order")
    client.xadd("s", {"f": "v"})
    wait_until(lambda: client.xinfo_stream("s")["iids-tracked"] == 0)
    assert add(client, "order") != first
    assert client.xlen("s") == 3


def entries(running: Running) -> int:
    """Return how many entries a server has."""
    return running.client.xlen("s")


def test_redis_loses_the_acknowledged_entry_at_a_restart(on_redis: Start, tmp_path: Path):
    running = on_redis(tmp_path / "data")
    use_again(running)
    running.close()
    assert entries(on_redis(tmp_path / "data")) == 2


def test_streamd_has_it_after_a_restart(on_streamd: Start, tmp_path: Path):
    running = on_streamd(tmp_path)
    use_again(running)
    running.close()
    assert entries(on_streamd(tmp_path)) == 3


@pytest.mark.parametrize(("is_rewritten", "left"), [(False, 2), (True, 3)])
def test_a_journal_of_streamd_is_moved_to_redis_behind_a_rewrite(
    on_redis: Start, on_streamd: Start, tmp_path: Path, is_rewritten: bool, left: int
):
    running = on_streamd(tmp_path / "data")
    use_again(running)
    if is_rewritten:
        running.client.save()
    running.close()
    assert entries(on_redis(tmp_path / "data")) == left


def test_redis_loads_a_journal_with_times_of_names(on_redis: Start, on_streamd: Start, tmp_path: Path):
    running = on_streamd(tmp_path / "data")
    running.client.xadd("s", {"f": "v"}, id=AHEAD)
    given = [add(running.client, iid) for iid in "abc"]
    running.client.save()
    given += [add(running.client, iid) for iid in "def"]
    running.close()
    moved = on_redis(tmp_path / "data")
    assert [add(moved.client, iid) for iid in "abcdef"] == given
    assert entries(moved) == 7


def test_names_ahead_of_the_clock_expire_on_streamd_and_never_on_redis(
    on_redis: Start, on_streamd: Start, tmp_path: Path
):
    for place, start in (("streamd", on_streamd), ("redis", on_redis)):
        running = start(tmp_path / place)
        client = running.client
        client.xadd("s", {"f": "v"}, id=AHEAD)
        client.execute_command("XCFGSET", "s", "IDMP-DURATION", 1)
        given = add(client, "order")
        client.xgroup_create("s", "g", "$")
        client.xadd("t", {"f": "v"})
        client.execute_command("XCFGSET", "t", "IDMP-DURATION", 1)
        client.execute_command("XADD", "t", "IDMP", "p", "order", "*", "f", "v")
        wait_until(lambda client=client: client.xinfo_stream("t")["iids-tracked"] == 0)
        assert (add(client, "order") == given) == (place == "redis")
        running.close()
