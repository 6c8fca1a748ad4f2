"""The version before refuses a journal of this one, and changes nothing; this one loads a journal of that version."""

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


def add(client: redis.Redis, iid: str) -> bytes:
    return client.execute_command("XADD", "s", "IDMP", "p", iid, "*", "name", iid)


def seen(client: redis.Redis) -> tuple:
    info = client.xinfo_stream("s")
    counters = [info[name] for name in ("entries-added", "last-generated-id", "iids-added", "iids-duplicates")]
    return client.xrange("s"), counters, client.get("k")


def written(directory: Path, source: Path | None, rewritten: bool) -> tuple[list[bytes], tuple]:
    """Have a server write a journal; return the IDs of the names a to d, and what clients saw."""
    with ServerProcess(directory, "--appendonly", "yes", source=source) as server:
        client = redis.Redis(port=server.port)
        given = [add(client, iid) for iid in "abc"]
        assert add(client, "a") == given[0]
        client.xdel("s", given[1])
        if rewritten:
            client.save()
        given.append(add(client, "d"))
        client.set("k", "v")
        return given, seen(client)


def files_of(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.glob("appendonlydir/*")}


@pytest.mark.parametrize("rewritten", [False, True], ids=["increment", "base and increment"])
def test_the_version_before_refuses_the_journal_and_changes_nothing(version_before: Path, rewritten, tmp_path: Path):
    written(tmp_path, None, rewritten)
    before = files_of(tmp_path)
    refused = run_cli("serve", "--port", "0", "--dir", str(tmp_path), "--appendonly", "yes", source=version_before)
    assert refused.returncode == 5
    assert f"{next((tmp_path / 'appendonlydir').glob('*.aof')).parent}/appendonly.aof" in refused.stderr
    done = run_cli("check", str(tmp_path), source=version_before)
    assert (done.returncode, "The journal is whole." in done.stdout) == (5, False)
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("rewritten", [False, True], ids=["increment", "base and increment"])
def test_a_journal_of_the_version_before_is_loaded_and_written_on_and_its_rewrite_is_of_this_format(
    version_before: Path, rewritten, tmp_path: Path
):
    given, before = written(tmp_path, version_before, rewritten)
    earlier = Path(shutil.copytree(tmp_path, tmp_path / "earlier", ignore=shutil.ignore_patterns("earlier")))
    with ServerProcess(tmp_path, "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port)
        assert seen(client) == before
        assert [add(client, iid) for iid in "abcd"] == given
        given.append(add(client, "e"))
        last = seen(client)
    with ServerProcess(tmp_path, "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port)
        assert seen(client) == last
        client.save()
        assert [add(client, iid) for iid in "abcde"] == given
    assert not any(b"#streamd journal 2" in data for data in files_of(tmp_path).values())

    (increment,) = (earlier / "appendonlydir").glob("*.incr.aof")
    increment.write_bytes(increment.read_bytes().replace(b"\r\n", b"\n"))
    refused = run_cli("serve", "--port", "0", "--dir", str(earlier), "--appendonly", "yes")
    assert refused.returncode == 5
