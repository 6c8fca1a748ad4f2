"""A replica of Redis that is pointed at streamd asks once a second, whatever the reason of the refusal."""

import shutil
import time
from pathlib import Path

import pytest
import redis

from tests.replication.clusters import Node, wait_until
from tests.spark.servers import redis_server

pytestmark = pytest.mark.redis
# Two connections further must take longer; a replica that does not pause makes hundreds in a second.
PAUSES_S_MIN = 0.9
REFUSALS = {
    "it is no streamd": ([], None),
    "this server is a replica without its primary": ([], ("REPLICAOF", "127.0.0.1", "1")),
    "there is no journal": (["--appendonly", "no"], None),
    "it has no password": (["--requirepass", "secret"], None),
    "its user may not": ([], ("ACL", "SETUSER", "default", "-psync")),
}


@pytest.mark.parametrize(
    ("reason", "version"),
    [*((one, "8.10.2") for one in REFUSALS), ("it is no streamd", "7.0.15"), ("it has no password", "7.0.15")],
)
def test_a_replica_of_redis_comes_back_once_a_second(reason, version, tmp_path: Path, newest_redis: Path):
    program = str(newest_redis) if version == "8.10.2" else shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server")
    options, command = REFUSALS[reason]
    node = Node(tmp_path / "node", *options)
    try:
        client = redis.Redis(port=node.port, password="secret" if "secret" in options else None)
        if command:
            client.execute_command(*command)

        def connections() -> int:
            return int(client.info("stats")["total_connections_received"])

        before = connections()
        with redis_server("--dir", str(tmp_path), "--replicaof", "127.0.0.1", str(node.port), program=program):
            wait_until(lambda: connections() > before, "the replica comes")
            first, began_s = connections(), time.monotonic()
            wait_until(lambda: connections() >= first + 2, "the replica comes again")
            assert time.monotonic() - began_s >= PAUSES_S_MIN
            assert client.ping()
            if not command:
                client.set("k", "v")
    finally:
        node.kill()
