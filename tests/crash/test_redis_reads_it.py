"""Redis loads what streamd wrote, and streamd what Redis wrote, back and forth in one directory.

Redis is 8.10.2, and Debian's 7.0.15 where that is installed.
"""

import resource
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from bench.ports import free_port
from tests.differential.redis_process import judge, needs_redis
from tests.integration.process import ServerProcess

OLD_REDIS = shutil.which("redis-server")
SERVERS = [
    pytest.param("8.10.2", marks=needs_redis),
    pytest.param("7.0.15", marks=pytest.mark.skipif(OLD_REDIS is None, reason="there is no redis-server 7.0.15")),
]


class RedisProcess:
    """A Redis of a version on a directory."""

    def __init__(self, version: str, directory: Path, port: int) -> None:
        program = judge() if version == "8.10.2" else OLD_REDIS
        options = f"--port {port} --bind 127.0.0.1 --appendonly yes --aof-use-rdb-preamble no --save"
        words = [str(program), *options.split()]
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


def windows(client: redis.Redis) -> list:
    """Return what the windows of the streams remember: a resent name gets the first ID; nothing is added."""
    length = client.xlen("w")
    resent = [client.execute_command("XADD", "w", *words, "*", "n", n) for words, n in named()]
    assert client.xlen("w") == length
    info = client.xinfo_stream("w")
    names = ("iids-tracked", "pids-tracked", "idmp-duration", "idmp-maxsize")
    pending = client.xpending_range("w", "g", "-", "+", 100)
    return [
        *resent,
        *(info[name] for name in names),
        *((row["message_id"], row["consumer"], row["times_delivered"]) for row in pending),
    ]


def named() -> list[tuple[tuple[str, ...], int]]:
    """Return idempotence options, and the value that is written with them."""
    return [*((("IDMP", "p", f"i{n}"), n) for n in range(9)), *((("IDMPAUTO", "q"), n) for n in range(9))]


def write_names(client: redis.Redis, deletes: bool) -> None:
    """Fill a stream with names, pending entries that were given back, and perhaps entries that are gone."""
    client.execute_command("XADD", "w", "1-1", "n", "0")
    client.execute_command("XCFGSET", "w", "IDMP-DURATION", 3600, "IDMP-MAXSIZE", 50)
    client.xgroup_create("w", "g", "0")
    given = [client.execute_command("XADD", "w", *words, "*", "n", n) for words, n in named()]
    client.xreadgroup("g", "c", {"w": ">"}, count=6)
    client.execute_command("XNACK", "w", "g", "FATAL", "IDS", 2, given[2], given[1])
    if deletes:
        client.execute_command("XDELEX", "w", "DELREF", "IDS", 1, given[0])
        client.execute_command("XACKDEL", "w", "g", "IDS", 1, given[3])
    client.xreadgroup("g", "d", {"w": ">"}, count=1, claim_min_idle_time=0)


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


@pytest.mark.parametrize("version", SERVERS)
def test_a_journal_without_windows_goes_to_redis_and_back(tmp_path, version):
    port = free_port()
    with ServerProcess(tmp_path, "--appendonly", "yes") as streamd:
        client = redis.Redis(port=streamd.port)
        client.xgroup_create("s", "g", "0", mkstream=True)
        write(client, "streamd")
        before = seen(client)
    with RedisProcess(version, tmp_path, port) as client:
        assert seen(client) == before
        write(client, "redis")
        before = seen(client)
    with ServerProcess(tmp_path, "--appendonly", "yes") as streamd:
        client = redis.Redis(port=streamd.port)
        assert seen(client) == before
        client.save()
    with RedisProcess(version, tmp_path, port) as client:
        assert seen(client) == before  # the base
        client.bgrewriteaof()


@needs_redis
@pytest.mark.parametrize("first", ["streamd", "redis"])
@pytest.mark.parametrize("saved", [False, True], ids=["increment", "base"])
def test_windows_and_groups_go_to_redis_and_back(tmp_path, first, saved):
    """Each name is known on the other side, in a journal that was rewritten and in one that was not.

    (Redis's rewrite forgets the names of entries that are gone.)
    """
    port = free_port()
    turns = ["streamd", "redis", "streamd", "redis"][first == "redis" :][:3]
    before = None
    for kind in turns:
        with ExitStack() as stack:
            if kind == "redis":
                client = stack.enter_context(RedisProcess("8.10.2", tmp_path, port))
            else:
                server = stack.enter_context(ServerProcess(tmp_path, "--appendonly", "yes"))
                client = redis.Redis(port=server.port)
            if before is None:
                write_names(client, deletes=not saved)
                before = windows(client)
            else:
                assert windows(client) == before
            if saved:
                rewrite(client, kind)
                assert windows(client) == before


def rewrite(client: redis.Redis, kind: str) -> None:
    """Have the journal rewritten, and wait for the end of that."""
    if kind == "streamd":
        client.save()
        return
    client.bgrewriteaof()
    while (info := client.info("persistence"))["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]:
        pass
    assert info["aof_last_bgrewrite_status"] == "ok"


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
