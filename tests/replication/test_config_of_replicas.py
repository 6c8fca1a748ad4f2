"""CONFIG SET and CONFIG GET of the options of replication, as those of Redis 8.10.2, and what the options do."""

from pathlib import Path

import pytest
import redis

from streamd.base.clock import Clock
from streamd.configuration.replication_options import REPLICATION_ALIASES, REPLICATION_OPTIONS
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.replication.clusters import Node, nodes, wait_until
from tests.session import Error, Session

NAMES = [*(one[0] for one in REPLICATION_OPTIONS), *REPLICATION_ALIASES, "replicaof", "replica-read-only"]
VALUES = ["-1", "x", "0", "7", "no", "yes", "2mb", "2147483648"]
# What streamd refuses, and Redis does not; and the TLS that the judge was made without.
OWN = {
    *((name, value) for name in ("replica-read-only", "slave-read-only") for value in VALUES if value != "yes"),
    *(("repl-backlog-size", value) for value in ("0", "7")),
    ("tls-replication", "yes"),
}


@needs_redis
def test_options_are_set_and_shown_as_by_redis(tmp_path: Path):
    session = Session()
    differences = []
    with running_redis(tmp_path) as port:
        judge = RawClient(port)
        for name in NAMES:
            requests = [["CONFIG", "GET", name]]
            for value in (value for value in VALUES if (name, value) not in OWN):
                requests += [["CONFIG", "SET", name, value], ["CONFIG", "GET", name]]
            for request in requests:
                words = [word.encode() for word in request]
                theirs, ours = judge.ask(words), session.raw(words)
                if theirs != ours:
                    differences.append((request, theirs, ours))
        judge.close()
    assert differences == []


@pytest.mark.parametrize("name", ["replica-read-only", "slave-read-only"])
def test_a_replica_that_takes_writes_is_refused_in_one_line(engine: Session, name: str):
    reply = engine.do(f"CONFIG SET {name} no")
    assert isinstance(reply, Error)
    assert reply.text.startswith(f"ERR CONFIG SET failed (possibly related to argument '{name}')")
    assert "\n" not in reply.text
    assert engine.do("CONFIG GET replica-read-only") == [b"replica-read-only", b"yes"]


def test_a_small_backlog_is_refused(engine: Session):
    assert isinstance(engine.do("CONFIG SET repl-backlog-size 7"), Error)
    assert engine.do("CONFIG GET repl-backlog-size") == [b"repl-backlog-size", b"1048576"]


def test_config_rewrite_without_a_file_fails_and_does_no_harm_to_a_promotion(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        primary.client.set("k", "v")
        wait_until(lambda: replica.client.get("k") == b"v", "the replica has it")
        pipeline = replica.client.pipeline(transaction=True)  # as Sentinel sends it
        for request in ("SLAVEOF NO ONE", "CONFIG REWRITE", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"):
            pipeline.execute_command(*request.split())
        promoted, rewritten, *killed = pipeline.execute(raise_on_error=False)
        assert promoted in (True, b"OK")
        assert str(rewritten) == "The server is running without a config file"
        assert [type(one) for one in killed] == [int, int]
        assert replica.link()["role"] == "master"
        assert replica.client.set("k", "w")
        replica.kill()
        replica.start("--replicaof", "127.0.0.1", str(primary.port))
        assert replica.link()["role"] == "master"
        assert replica.client.get("k") == b"w"


def test_config_rewrite_writes_the_options_of_replication(tmp_path: Path):
    configuration = tmp_path / "streamd.conf"
    configuration.write_text("# kept\nreplica-priority 5\n")
    server = Node(tmp_path / "data", str(configuration))
    try:
        assert server.client.config_get("replica-priority") == {"replica-priority": "5"}
        server.client.config_set("slave-priority", 0, "repl-timeout", 7, "replica-announce-ip", "10.0.0.6")
        server.client.config_rewrite()
    finally:
        server.kill()
    written = configuration.read_text().splitlines()
    assert written[:2] == ["# kept", "replica-priority 0"]
    assert {"repl-timeout 7", "replica-announce-ip 10.0.0.6"} <= set(written)


def test_a_replica_ignores_maxmemory_until_it_is_a_primary(tmp_path: Path):
    with (
        EmbeddedServer(Clock(), appendonly=True, dir=str(tmp_path / "a")) as primary,
        EmbeddedServer(Clock(), appendonly=True, dir=str(tmp_path / "b"), maxmemory=1_000_000) as replica,
    ):
        there, here = primary.client(), replica.client()
        here.replicaof("127.0.0.1", primary.port)
        wait_until(lambda: here.info("replication")["master_link_status"] == "up", "the link is up")
        pipeline = there.pipeline(transaction=False)
        pipeline.set("k", "v" * 1_000_000)
        pipeline.execute_command("WAIT", 1, 20_000)
        assert pipeline.execute() == [True, 1]
        assert here.strlen("k") == 1_000_000
        with pytest.raises(redis.ReadOnlyError):
            here.set("k", "w")
        here.replicaof("NO", "ONE")

        def is_refused() -> bool:
            try:
                here.set("k", "w")
            except redis.OutOfMemoryError:
                return True
            return False

        wait_until(is_refused, "a primary keeps to the limit")
