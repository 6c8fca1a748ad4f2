"""A base that names segment files is for this version alone: Redis and earlier versions refuse it, and lose nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from tests.cold.cold_restartable import ColdRestartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.differential.redis_process import judge, needs_redis
from tests.integration.process import ServerProcess, run_cli

OLD_REDIS, OLD_CHECK = shutil.which("redis-server"), shutil.which("redis-check-aof")
SERVERS = [
    pytest.param("8.10.2", marks=needs_redis),
    pytest.param("7.0.15", marks=pytest.mark.skipif(OLD_REDIS is None, reason="there is no redis-server 7.0.15")),
]
ENTRIES = [(f"{number}-1".encode(), {b"f": b"value %d" % number}) for number in range(1, 201)]


def put(disk: SimulatedDisk, directory: Path) -> None:
    """Write the files of a simulated disk to a data directory."""
    for path, inode in disk.names.items():
        target = directory / path.removeprefix("data/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bytes(inode.data))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A data directory with 180 entries in a segment file."""
    server = ColdRestartable()
    server.cool()
    server.rewrite()
    put(server.disk, tmp_path / "data")
    return tmp_path / "data"


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.glob("appendonlydir/*")}


@pytest.mark.parametrize("version", SERVERS)
def test_redis_refuses_the_base_and_leaves_all_as_it_is(version: str, directory: Path):
    program, before = judge() if version == "8.10.2" else OLD_REDIS, contents(directory)
    options = f"--port {free_port()} --appendonly yes --aof-use-rdb-preamble no --dir {directory}"
    done = subprocess.run([str(program), *options.split(), "--save", ""], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Unknown command 'STREAMCOLD' reading the append only file appendonly.aof.2.base.aof" in done.stdout
    assert contents(directory) == before


@pytest.mark.skipif(OLD_CHECK is None, reason="there is no redis-check-aof 7.0.15")
def test_redis_check_aof_calls_it_valid(directory: Path):
    manifest = directory / "appendonlydir/appendonly.aof.manifest"
    done = subprocess.run([str(OLD_CHECK), str(manifest)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "All AOF files and manifest are valid" in done.stdout


@pytest.mark.skipif(os.environ.get("STREAMD_TEST_FORM") == "compiled", reason="runs the source of an older one")
def test_the_version_before_refuses_it(version_before: Path, directory: Path):
    before = contents(directory)
    done = run_cli("serve", "--port", "0", "--dir", str(directory), source=version_before)
    assert done.returncode == 5
    assert "appendonly.aof.2.base.aof" in done.stderr
    assert contents(directory) == before


def test_a_rewrite_without_segment_files_leaves_none(directory: Path):
    with ServerProcess(directory, "--stream-memory", "0") as server:
        client = redis.Redis(port=server.port)
        assert client.xrange("s") == ENTRIES
        client.save()
        while list(directory.glob("appendonlydir/*.seg")):
            client.ping()
    with ServerProcess(directory, "--stream-memory", "0") as server:
        assert redis.Redis(port=server.port).xrange("s") == ENTRIES


def test_a_start_without_the_option_goes_on_with_the_files(directory: Path):
    for _ in range(2):
        with ServerProcess(directory) as server:
            client = redis.Redis(port=server.port)
            assert client.config_get("stream-memory") == {"stream-memory": str(16 * 1024 * 1024)}
            assert client.xrange("s") == ENTRIES
            client.save()
        assert len(list(directory.glob("appendonlydir/*.seg"))) == 1


def test_config_set_0_brings_all_back(directory: Path):
    with ServerProcess(directory) as server:
        client = redis.Redis(port=server.port)
        with pytest.raises(redis.ResponseError, match="stream-memory needs a journal"):
            client.config_set("appendonly", "no")
        client.config_set("stream-memory", 0)
        assert client.xrange("s") == ENTRIES
        while list(directory.glob("appendonlydir/*.seg")):
            client.ping()
        client.config_set("appendonly", "no")
        client.config_set("appendonly", "yes")
        assert client.xrange("s") == ENTRIES
    with ServerProcess(directory) as server:
        assert redis.Redis(port=server.port).xrange("s") == ENTRIES


def test_a_missing_file_is_named_in_one_line(directory: Path):
    (directory / "appendonlydir/appendonly.aof.1.seg").unlink()
    done = run_cli("serve", "--port", "0", "--dir", str(directory))
    assert done.returncode == 5
    assert "appendonly.aof.1.seg is not there, and streams have entries in it" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
