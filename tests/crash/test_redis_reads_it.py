"""redis-server loads what streamd wrote, and streamd what redis-server wrote, back and forth in one directory."""

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from bench.ports import free_port
from tests.integration.process import ServerProcess

needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="needs a redis-server binary")


class RedisProcess:
    """A redis-server on a directory."""

    def __init__(self, directory: Path, port: int) -> None:
        words = f"redis-server --port {port} --bind 127.0.0.1 --appendonly yes --aof-use-rdb-preamble no --save".split()
        self._process = subprocess.Popen([*words, "", "--dir", str(directory)], stdout=subprocess.DEVNULL)
        errors = [redis.ConnectionError, redis.exceptions.BusyLoadingError]
        self.client = redis.Redis(port=port, retry=Retry(ConstantBackoff(0.05), 100), retry_on_error=errors)

    def __enter__(self) -> redis.Redis:
        assert self.client.ping()
        return self.client

    def __exit__(self, *failure: object) -> None:
        self._process.terminate()
        self._process.wait(10)


def seen(client: redis.Redis) -> tuple:
    """What both servers can say of the data."""
    info = client.xinfo_stream("s")
    groups = [(group["name"], group["last-delivered-id"], group["pending"]) for group in client.xinfo_groups("s")]
    return (
        client.xrange("s"),
        info["last-generated-id"],
        info["entries-added"],
        groups,
        [row["message_id"] for row in client.xpending_range("s", "g", "-", "+", 100)],
        client.get("k"),
        client.hgetall("h"),
        client.get("m2"),
        client.expiretime("k"),
    )


def write(client: redis.Redis, name: str) -> None:
    for number in range(5):
        client.xadd("s", {"from": name, "n": number})
    client.xtrim("s", maxlen=8)
    client.xreadgroup("g", name, {"s": ">"}, count=2)
    client.set("k", name, ex=10_000)
    client.hset("h", name, "1")
    with client.pipeline() as transaction:
        transaction.set("m1", name)
        transaction.set("m2", name)
        transaction.execute()


@needs_redis
def test_a_journal_without_windows_goes_to_redis_and_back(tmp_path):
    port = free_port()
    with ServerProcess(tmp_path, "--appendonly", "yes") as streamd:
        client = redis.Redis(port=streamd.port)
        client.xgroup_create("s", "g", "0", mkstream=True)
        write(client, "streamd")
        before = seen(client)
    with RedisProcess(tmp_path, port) as client:
        assert seen(client) == before
        write(client, "redis")
        before = seen(client)
    with ServerProcess(tmp_path, "--appendonly", "yes") as streamd:
        client = redis.Redis(port=streamd.port)
        assert seen(client) == before
        client.save()
    with RedisProcess(tmp_path, port) as client:
        assert seen(client) == before  # the base
        client.bgrewriteaof()


def add_once(client: redis.Redis, acknowledged: list[bytes]) -> str | None:
    """Add an entry; return why it was refused, or None."""
    try:
        acknowledged.append(client.xadd("s", {"x": "y" * 100}))
    except redis.ResponseError as error:
        return str(error)
    return None


def add_until_refused(client: redis.Redis, acknowledged: list[bytes]) -> str | None:
    for _ in range(1_000):
        refusal = add_once(client, acknowledged)
        if refusal is not None:
            return refusal
    return None


def test_on_a_full_disk_writes_are_refused_and_what_was_acknowledged_stays(tmp_path):
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY)); "
        "from streamd.cli import main; sys.exit(main())"
    )
    words = [sys.executable, "-c", limited, "serve", "--port", "0", "--dir", str(tmp_path), "--appendonly", "yes"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = next(int(line.rpartition(":")[2]) for line in process.stdout if line.startswith("Ready"))
    client = redis.Redis(port=port, socket_timeout=5)
    acknowledged = []
    refusal = add_until_refused(client, acknowledged)
    assert refusal == "MISCONF Errors writing to the AOF file: File too large"
    assert len(acknowledged) > 50
    assert client.xlen("s") >= len(acknowledged)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    while add_once(client, acknowledged) is not None:
        pass  # the server tries again ten times a second
    process.kill()
    process.wait()
    with ServerProcess(tmp_path, "--appendonly", "yes") as streamd:
        ids = [entry_id for entry_id, _ in redis.Redis(port=streamd.port).xrange("s")]
        assert set(acknowledged) <= set(ids)
        assert len(ids) == len(set(ids))
