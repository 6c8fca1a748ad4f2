"""`streamd backup` copies the journal of a server of the version before; the earlier one refuses a journal of this."""

import os
from pathlib import Path

import pytest
import redis

from tests.integration.process import ServerProcess, run_cli

# In the environment of the compiled form that would be found in place of the source.
pytestmark = pytest.mark.skipif(
    os.environ.get("STREAMD_TEST_FORM") == "compiled", reason="runs the source of an older one"
)
# What the documents say that a user for backups needs; the version before has no other name of the command.
RULES = ["on", ">secret", "-@all", "+backup", "+hello", "+client|setinfo"]


def fill(client: redis.Redis) -> None:
    for number in range(500):
        client.xadd("s", {"n": number, "x": "x" * 1000}, idmp=("p", f"name-{number}".encode()))
    client.xgroup_create("s", "g", 0)
    client.xreadgroup("g", "ann", {"s": ">"}, count=10)
    client.xack("s", "g", *(entry for entry, _ in client.xrange("s", count=3)))
    client.set("string", "v" * 300_000)
    client.set("leaving", "v", pxat=32_503_680_000_000)
    client.hset("hash", mapping={"f": "v", "g": "w"})
    client.rpush("list", "a", "b", "c")
    client.sadd("set", "a", "b")
    client.zadd("zset", {"a": 1.5, "b": -2})


def contents(client: redis.Redis) -> dict[str, object]:
    """Return every value as clients see it, after checking that the last name is still known."""
    last, _ = client.xrevrange("s", count=1)[0]
    assert client.xadd("s", {"n": 0}, idmp=("p", b"name-499")) == last
    return {
        "keys": sorted(client.keys()),
        "entries": client.xrange("s"),
        "added": client.xinfo_stream("s")["entries-added"],
        "pending": [(row["message_id"], row["consumer"]) for row in client.xpending_range("s", "g", "-", "+", 99)],
        "string": client.get("string"),
        "leaving": client.execute_command("PEXPIRETIME", "leaving"),
        "hash": client.hgetall("hash"),
        "list": client.lrange("list", 0, -1),
        "set": client.smembers("set"),
        "zset": client.zrange("zset", 0, -1, withscores=True),
    }


def called(client: redis.Redis) -> set[str]:
    """Return the names under which the journal was asked for."""
    names = (name.removeprefix("cmdstat_") for name in client.info("commandstats"))
    return {name for name in names if name.startswith(("journal|", "backup|"))}


def back_up_and_restore(directory: Path, login: str, of_server: Path) -> set[str]:
    """Make a backup, and check that what is restored has the server's contents; return the subcommands called.

    of_server: the directory of its source.
    """
    with ServerProcess(directory / "data", source=of_server) as server:
        client = redis.Redis(port=server.port)
        fill(client)
        before = contents(client)
        client.execute_command("ACL", "SETUSER", "ann", *RULES)
        url = f"redis://{login}127.0.0.1:{server.port}"
        done = run_cli("backup", "--url", url, str(directory / "copy"))
        assert done.returncode == 0, done.stderr
        names = called(client)
    done = run_cli("restore", str(directory / "copy"), str(directory / "again"))
    assert done.returncode == 0, done.stderr
    with ServerProcess(directory / "again") as server:
        assert contents(redis.Redis(port=server.port)) == before
    return names


EARLIER = {"backup|begin", "backup|read", "backup|mark", "backup|end"}


def test_the_client_of_the_version_before_refuses_a_journal_of_this_one_and_leaves_nothing(
    version_before: Path, tmp_path: Path
):
    with ServerProcess(tmp_path / "data") as server:
        fill(redis.Redis(port=server.port))
        url = f"redis://127.0.0.1:{server.port}"
        done = run_cli("backup", "--url", url, str(tmp_path / "copy"), source=version_before)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("login", ["", "ann:secret@"])
def test_this_client_makes_a_backup_of_a_server_of_the_version_before(version_before: Path, tmp_path: Path, login):
    assert back_up_and_restore(tmp_path, login, version_before) == EARLIER
