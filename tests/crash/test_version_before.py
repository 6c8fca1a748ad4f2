"""The version before starts on a journal of this one that has times of names, and behaves as it did."""

import os
import shutil
from pathlib import Path

import pytest
import redis

from tests.integration.process import ServerProcess, run_cli

# In the environment of the compiled form that would be found in place of the source.
pytestmark = pytest.mark.skipif(
    os.environ.get("STREAMD_TEST_FORM") == "compiled", reason="runs the source of an older one"
)
AHEAD = "32503680000000-0"  # of the year 3000
MARK = b"#streamd note XIDMPDUPLICATE 0 s "


def add(client: redis.Redis, iid: str) -> bytes:
    return client.execute_command("XADD", "s", "IDMP", "p", iid, "*", "name", iid)


def seen(client: redis.Redis) -> tuple:
    info = client.xinfo_stream("s")
    counters = [info[name] for name in ("entries-added", "last-generated-id", "iids-added", "iids-duplicates")]
    return client.xrange("s"), counters, client.get("k")


def marks(directory: Path) -> int:
    return sum(path.read_bytes().count(MARK) for path in directory.glob("appendonlydir/*.aof"))


@pytest.fixture(scope="module", params=["increment", "base and increment"])
def written(request, tmp_path_factory) -> tuple[Path, list[bytes], tuple]:
    """A data directory, the IDs of the names a to g, and what clients saw."""
    directory = tmp_path_factory.mktemp("written")
    with ServerProcess(directory, "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port)
        client.xadd("s", {"f": "v"}, id=AHEAD)
        given = [add(client, iid) for iid in "abc"]
        assert add(client, "a") == given[0]
        client.xdel("s", given[1])
        if request.param != "increment":
            client.save()
        given.append(add(client, "d"))
        with client.pipeline(transaction=True) as transaction:
            for iid in "efc":
                add(transaction, iid)
            given += transaction.execute()[:2]
        client.execute_command("EVAL", "return redis.call('XADD', 's', 'IDMP', 'p', 'g', '*', 'f', 'v')", 0)
        client.set("k", "v")
        before = seen(client)
    assert marks(directory) >= 7
    return directory, given, before


@pytest.fixture
def directory(written: tuple, tmp_path: Path) -> Path:
    """A copy of the data directory that a test may change."""
    return Path(shutil.copytree(written[0], tmp_path / "data"))


def test_the_version_before_loads_the_journal_and_knows_the_names(version_before: Path, written, directory: Path):
    _, given, before = written
    with ServerProcess(directory, "--appendonly", "yes", source=version_before) as server:
        client = redis.Redis(port=server.port)
        assert seen(client) == before
        assert [add(client, iid) for iid in "abcdef"] == given
        added = add(client, "new")
        last = seen(client)
    with ServerProcess(directory, "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port)
        assert seen(client) == last
        assert add(client, "new") == added


def test_check_and_fix_of_the_version_before_find_it_whole_and_change_nothing(version_before: Path, directory: Path):
    before = {path: path.read_bytes() for path in directory.glob("appendonlydir/*")}
    for words in ([], ["--fix"]):
        done = run_cli("check", str(directory), *words, source=version_before)
        assert (done.returncode, done.stderr) == (0, "")
        assert "The journal is whole." in done.stdout
        assert {path: path.read_bytes() for path in directory.glob("appendonlydir/*")} == before


def test_the_version_before_rewrites_it_without_a_loss(version_before: Path, written, directory: Path):
    _, given, before = written
    with ServerProcess(directory, "--appendonly", "yes", source=version_before) as server:
        redis.Redis(port=server.port).save()
    assert marks(directory) == 0
    with ServerProcess(directory, "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port)
        assert seen(client) == before
        assert [add(client, iid) for iid in "abcdef"] == given
