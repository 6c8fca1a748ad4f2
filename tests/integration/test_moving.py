"""Moving from streamd to Redis: what the windows remembered there Redis 8.10.2 remembers, too."""

import shutil
from pathlib import Path

import pytest
import redis

from tests.differential.redis_process import running_redis
from tests.integration.process import ServerProcess, run_cli
from tests.spark.failing_over import Node
from tests.spark.one_task import ROWS, write
from tests.spark.sessions import fill
from tests.spark.test_stream_reader import numbers, reader, step, through_json

NAMES = [(f"p{number % 3}", f"i{number}") for number in range(60)]


def add_all(client: redis.Redis) -> list[bytes]:
    return [client.execute_command("XADD", "s", "IDMP", pid, iid, "*", "name", iid) for pid, iid in NAMES]


def facts(client: redis.Redis) -> dict:
    """Return what is known of the stream but for how it lies in memory."""
    names = ["length", "last-generated-id", "max-deleted-entry-id", "entries-added", "recorded-first-entry-id"]
    info = client.xinfo_stream("s")
    return {name: info[name] for name in [*names, "idmp-duration", "idmp-maxsize"]} | {
        "entries": client.xrange("s"),
        "groups": client.xinfo_groups("s"),
    }


@pytest.mark.parametrize(
    "removing",
    [
        [],
        [["XTRIM", "s", "MAXLEN", "10"]],
        [["XTRIM", "s", "MAXLEN", "0"]],
        [["XTRIM", "s", "MAXLEN", "20"], ["XDEL", "s", *range(45, 55)]],
        [["XDEL", "s", *range(60)]],
        [["XDEL", "s", *range(50, 60)]],
    ],
    ids=["nothing", "trimmed", "trimmed away", "trimmed and deleted", "deleted", "the newest deleted"],
)
@pytest.mark.parametrize("saved", [False, True])
def test_every_name_comes_along_also_of_entries_that_are_gone(
    newest_redis: Path, tmp_path: Path, removing: list[list], saved: bool
) -> None:
    with ServerProcess(tmp_path / "streamd", "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port, protocol=2)
        client.xadd("s", {"first": "x"}, id="1-1")
        client.execute_command("XCFGSET", "s", "IDMP-DURATION", 3600, "IDMP-MAXSIZE", 50)
        client.xgroup_create("s", "g", "0")
        given = add_all(client)
        for words in removing:
            client.execute_command(*(given[word] if isinstance(word, int) else word for word in words))
        client.set("k", "v", ex=1000)
        if saved:
            client.save()
        before = facts(client)
    made = run_cli("check", str(tmp_path / "streamd"), "--export", str(tmp_path / "out"), "--windows")
    assert made.returncode == 0, made.stderr

    node = Node(newest_redis, tmp_path, "--appendonly", "yes", "--dir", str(tmp_path / "out"))
    try:
        assert facts(node.client) == before
        assert 0 < node.client.ttl("k") <= 1000
        assert add_all(node.client) == given
        assert facts(node.client) == before
    finally:
        node.close()


def test_a_query_goes_on_from_its_checkpoint_where_its_streams_have_moved_to(
    newest_redis: Path, tmp_path: Path
) -> None:
    """The offsets stand for the same entries there; a batch that was half written is known, and completed."""
    with ServerProcess(tmp_path / "streamd", "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port, protocol=2)
        fill(client, 60)
        client.xtrim("in", maxlen=50, approximate=False)
        source = reader(client, maxEntriesPerTrigger=20)
        end, before = step(source, through_json(source.initialOffset()))
        write(client, ROWS[:12], maxLen="5")
    run_cli("check", str(tmp_path / "streamd"), "--export", str(tmp_path / "out"), "--windows")

    node = Node(newest_redis, tmp_path, "--appendonly", "yes", "--dir", str(tmp_path / "out"))
    try:
        moved = reader(node.client)
        last, after = step(moved, end)
        assert (before, after) == (numbers(10, 30), numbers(30, 60))
        assert step(moved, last) == (last, [])
        known = write(node.client, ROWS, attempt=1, onRowsChanged="continue")
        assert (known.rows, known.duplicates) == ({"s": 20}, 12)
    finally:
        node.close()


def with_pending_entries(directory: Path, then: str = "PING") -> list:
    """Leave a journal with entries that are pending for two consumers, deleted, trimmed and released; return them.

    then: a command behind a rewrite.
    """
    with ServerProcess(directory, "--appendonly", "yes") as server, redis.Redis(port=server.port) as client:
        for number in range(1, 9):
            client.xadd("s", {"f": "v"}, id=f"{number}-0")
        client.xgroup_create("s", "g", "0")
        client.xreadgroup("g", "ann", {"s": ">"}, count=5)
        client.xreadgroup("g", "bob", {"s": ">"}, count=2)
        client.execute_command("XNACK", "s", "g", "FAIL", "IDS", 2, "4-0", "6-0")
        client.xtrim("s", minid="2-0", approximate=False)
        client.xdel("s", "3-0", "7-0", "6-0")
        client.save()
        client.execute_command(*then.split())
        return client.xpending_range("s", "g", "-", "+", 20)


def test_pending_entries_come_along_to_redis_also_deleted_and_released_ones(newest_redis: Path, tmp_path: Path) -> None:
    before = with_pending_entries(tmp_path / "streamd")
    made = run_cli("check", str(tmp_path / "streamd"), "--export", str(tmp_path / "out"), "--windows")
    assert "not exported" not in made.stdout
    node = Node(newest_redis, tmp_path, "--appendonly", "yes", "--dir", str(tmp_path / "out"))
    try:
        after = node.client.xpending_range("s", "g", "-", "+", 20)
        shown = ("message_id", "consumer", "times_delivered")
        assert [[one[name] for name in shown] for one in after] == [[one[name] for name in shown] for one in before]
        assert [one[0] for one in node.client.xrange("s")] == [b"2-0", b"4-0", b"5-0", b"8-0"]
        info = node.client.xinfo_stream("s")
        assert (info["entries-added"], info["max-deleted-entry-id"]) == (8, b"7-0")
    finally:
        node.close()


def test_an_older_redis_gets_released_entries_and_the_lost_ones_are_counted(tmp_path: Path) -> None:
    if (older := shutil.which("redis-server")) is None:
        pytest.skip("needs Debian's redis-server")
    with_pending_entries(tmp_path / "streamd", then="XGROUP DELCONSUMER s g ann")
    made = run_cli("check", str(tmp_path / "streamd"), "--export", str(tmp_path / "out"))
    assert made.returncode == 0
    lines = [line for line in made.stdout.splitlines() if line.startswith("not exported: ")]
    assert [line.partition(":")[2].partition(":")[0] for line in lines] == [
        " 3 pending entries of the group g of the stream s"
    ]
    options = "--appendonly", "yes", "--dir", str(tmp_path / "out")
    with running_redis(tmp_path, Path(older), *options) as port, redis.Redis(port=port) as client:
        pending = {one["message_id"]: one["consumer"] for one in client.xpending_range("s", "g", "-", "+", 20)}
        assert pending == {b"4-0": b"released"}
        _, claimed, _ = client.xautoclaim("s", "g", "eve", 1_000_000_000)
        assert [one[0] for one in claimed] == [b"4-0"]


def test_windows_without_an_export_are_refused(tmp_path: Path) -> None:
    refused = run_cli("check", str(tmp_path), "--windows")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--windows needs --export" in refused.stderr
