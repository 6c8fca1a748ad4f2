"""A primary is killed, its directory removed, and it starts again at once: its replicas keep all that they have."""

import shutil
from pathlib import Path

import pytest
import redis

from tests.replication.clusters import Node, evidence, nodes, sentinels, wait_until

ENTRIES = 50


def fill(primary: Node) -> None:
    pipeline = primary.client.pipeline(transaction=False)
    for number in range(ENTRIES):
        pipeline.xadd("orders", {"number": number}, idmp=("svc-7", str(number)))
    pipeline.execute_command("WAIT", 2, 10_000)
    assert pipeline.execute()[-1] == 2


def start_again_empty(primary: Node, replicas: list[Node], takes_writes: bool) -> None:
    """Lose the primary's data and start it; a client that writes again and again may come before the replicas do."""
    for replica in replicas:
        replica.freeze()
    primary.kill()
    shutil.rmtree(primary.directory)
    primary.start()
    assert primary.client.xlen("orders") == 0
    if takes_writes:
        primary.client.xadd("orders", {"number": ENTRIES}, idmp=("svc-7", str(ENTRIES)))
    for replica in replicas:
        replica.thaw()


def wait_until_refused(primary: Node, replicas: list[Node]) -> None:
    """Wait until each replica has asked the empty primary for its state."""
    for replica in replicas:
        asked = int(replica.link()["master_total_sync_attempts"])
        wait_until(
            lambda replica=replica, asked=asked: int(replica.link()["master_total_sync_attempts"]) > asked,
            "the replica has asked the empty primary",
        )
        assert replica.link()["master_link_status"] == "down"
    assert primary.link()["connected_slaves"] == 0


@pytest.mark.parametrize("takes_writes", [False, True])
def test_without_sentinel_the_replicas_keep_all_and_one_can_be_promoted(tmp_path: Path, takes_writes: bool):
    with nodes(tmp_path, 2) as (primary, *replicas):
        fill(primary)
        start_again_empty(primary, replicas, takes_writes)
        wait_until_refused(primary, replicas)
        assert [replica.client.xlen("orders") for replica in replicas] == [ENTRIES] * 2

        chosen, other = replicas
        chosen.client.replicaof("NO", "ONE")
        for node in (primary, other):
            node.client.replicaof("127.0.0.1", chosen.port)
            wait_until(node.is_linked, "it follows the promoted one")
            assert node.client.xlen("orders") == ENTRIES


@pytest.mark.redis
def test_sentinels_that_did_not_see_it_down_empty_nothing_and_fail_over_when_told(newest_redis: Path, tmp_path: Path):
    late = (20_000, 20_000, 20_000)
    with (
        nodes(tmp_path, 2) as (primary, *replicas),
        sentinels(newest_redis, tmp_path, primary.port, down_ms=late) as ports,
    ):
        fill(primary)
        start_again_empty(primary, replicas, takes_writes=True)
        wait_until_refused(primary, replicas)
        with redis.Redis(port=ports[0]) as sentinel:
            named = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
            assert int(named[1]) == primary.port
            assert [replica.client.xlen("orders") for replica in replicas] == [ENTRIES] * 2

            # Of a replica without a link Sentinel asks INFO once a second, and takes it for fresh for three periods.
            sentinel.execute_command("SENTINEL", "DEBUG", "info-period", 1_000)
            # It elects no replica that has had no link for ten times down-after.
            sentinel.execute_command("SENTINEL", "SET", "mymaster", "down-after-milliseconds", 100)
            wait_until(lambda: all(one.link()["master_link_down_since_seconds"] > 1 for one in replicas), "time passes")
            with pytest.raises(redis.ResponseError, match="NOGOODSLAVE"):
                sentinel.execute_command("SENTINEL", "FAILOVER", "mymaster")
            sentinel.execute_command("SENTINEL", "SET", "mymaster", "down-after-milliseconds", 600_000)
            assert sentinel.execute_command("SENTINEL", "FAILOVER", "mymaster")
            try:
                wait_until(
                    lambda: [one.link().get("role") for one in replicas].count("master") == 1, "one is the primary"
                )
                wait_until(primary.is_linked, "the empty one is a replica")
            except AssertionError as error:
                raise AssertionError(f"{error}\n{evidence(tmp_path)}") from None
        assert [node.client.xlen("orders") for node in (primary, *replicas)] == [ENTRIES] * 3
