"""FAILOVER: the role goes to a replica that has all, and no write is lost."""

import threading
import time
from pathlib import Path

import pytest
import redis

from tests.replication.clusters import evidence, nodes, wait_until

REFUSED = [
    (["ABORT"], "No failover in progress."),
    (["TIMEOUT", 0], "FAILOVER timeout must be greater than 0"),
    (["TIMEOUT", "x"], "value is not an integer or out of range"),
    (["X"], "syntax error"),
    (["TO", "127.0.0.1"], "syntax error"),
    (["ABORT", "TIMEOUT", 1], "syntax error"),
    (["TO", "127.0.0.1", 1], "FAILOVER target HOST and PORT is not a replica."),
    (["FORCE"], "FAILOVER with force option requires both a timeout and target HOST and IP."),
]


def test_what_cannot_be_has_redis_words(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        for words, said in REFUSED:
            with pytest.raises(redis.ResponseError) as refused:
                primary.client.execute_command("FAILOVER", *words)
            assert str(refused.value) == said
        with pytest.raises(redis.ResponseError) as refused:
            replica.client.execute_command("FAILOVER")
        assert str(refused.value) == "FAILOVER is not valid when server is a replica."


class Writer(threading.Thread):
    """Stores entries by name, at whatever server takes them, and notes the IDs that it was told."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__()
        self._clients = [redis.Redis(port=port, retry=None) for port in ports]
        self.ids: list[bytes] = []
        self.is_over = False

    def run(self) -> None:
        """Store until it is over."""
        place = 0
        while not self.is_over:
            client = self._clients[place % len(self._clients)]
            try:
                entry_id = client.execute_command("XADD", "s", "IDMP", "p", len(self.ids), "*", "n", len(self.ids))
            except redis.RedisError:
                place += 1
                time.sleep(0.002)
                continue
            self.ids.append(entry_id)


def test_under_writers_nothing_is_lost_and_the_other_replica_goes_on(tmp_path: Path):
    with nodes(tmp_path, 2) as all_nodes:
        primary, first, second = all_nodes
        writer = Writer([primary.port, first.port])
        writer.start()
        wait_until(lambda: len(writer.ids) > 200, "the writer is at work")
        primary.client.execute_command("FAILOVER", "TO", "127.0.0.1", first.port, "TIMEOUT", 10_000)
        wait_until(lambda: first.link().get("role") == "master", "the replica is the primary")
        wait_until(primary.is_linked, "the primary is a replica")
        before = len(writer.ids)
        wait_until(lambda: len(writer.ids) > before + 200, "the writer goes on")
        second.client.execute_command("REPLICAOF", "127.0.0.1", first.port)
        wait_until(second.is_linked, "the other replica follows")
        writer.is_over = True
        writer.join()
        assert [entry_id for entry_id, _ in first.client.xrange("s")] == writer.ids
        for one in (primary, second):
            wait_until(lambda one=one: one.client.xlen("s") == len(writer.ids), "the replica has all")
            assert one.client.xrange("s") == first.client.xrange("s")
        assert primary.link()["master_failover_state"] == "no-failover"


def test_a_replica_that_does_not_catch_up_stays_a_replica(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        replica.freeze()
        primary.client.xadd("s", {"n": 1})
        primary.client.execute_command("FAILOVER", "TIMEOUT", 300)
        assert primary.link()["master_failover_state"] == "waiting-for-sync"
        primary.client.xadd("s", {"n": 2})  # waits until the failover has ended
        assert primary.link()["master_failover_state"] == "no-failover"
        assert primary.link()["role"] == "master"
        replica.thaw()
        wait_until(lambda: replica.client.xlen("s") == 2, "the replica has all")


def test_a_replica_that_was_behind_goes_on_at_the_one_that_is_promoted(tmp_path: Path):
    with nodes(tmp_path, 2) as (primary, first, second):
        primary.client.xadd("s", {"n": 1})
        wait_until(lambda: second.client.xlen("s") == 1, "both have it")
        second.freeze()
        for number in range(2, 10):
            primary.client.xadd("s", {"n": number})
        wait_until(lambda: first.client.xlen("s") == 9, "one has all")
        primary.kill()
        first.client.execute_command("REPLICAOF", "NO", "ONE")
        first.client.xadd("s", {"n": 10})
        second.thaw()
        second.client.execute_command("REPLICAOF", "127.0.0.1", first.port)
        wait_until(lambda: second.client.xlen("s") == 10, "the other goes on")
        assert second.client.xrange("s") == first.client.xrange("s")
        assert second.link()["master_replid"] == first.link()["master_replid"]
        assert "replica-copy" not in evidence(tmp_path).split("node-1.log:")[1].split("node-2.log:")[0]
