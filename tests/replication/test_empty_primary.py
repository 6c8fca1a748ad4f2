"""A primary that starts again empty does not empty its replicas; only who says REPLICAOF again has them emptied."""

import shutil
from pathlib import Path

import pytest

from tests.replication.clusters import nodes, wait_until


def test_a_replica_keeps_its_data_until_somebody_says_replicaof_again(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        primary.client.xadd("orders", {"number": 1})
        wait_until(lambda: replica.client.xlen("orders") == 1, "the replica has it")
        primary.kill()
        shutil.rmtree(primary.directory)
        primary.start()
        wait_until(lambda: int(replica.link()["master_total_sync_attempts"]) >= 3, "the replica has tried")
        assert replica.link()["master_link_status"] == "down"
        assert replica.client.xlen("orders") == 1
        assert replica.client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(replica.is_linked, "the replica has taken the empty state")
        assert replica.client.xlen("orders") == 0


def test_what_replicaof_has_allowed_ends_with_the_link_that_it_made(tmp_path: Path):
    with nodes(tmp_path, 2) as (first, primary, replica):
        first.client.xadd("orders", {"number": 1})
        wait_until(lambda: all(one.client.xlen("orders") == 1 for one in (primary, replica)), "both replicas have it")
        primary.client.replicaof("NO", "ONE")
        replica.client.replicaof("127.0.0.1", primary.port)
        wait_until(lambda: replica.is_linked() and primary.link()["connected_slaves"] == 1, "it follows the other")
        assert "replica-continues" in primary.directory.with_suffix(".log").read_text()
        primary.kill()
        shutil.rmtree(primary.directory)
        primary.start()
        primary.client.xadd("orders", {"number": 2})
        asked = int(replica.link()["master_total_sync_attempts"])
        wait_until(lambda: int(replica.link()["master_total_sync_attempts"]) > asked + 1, "the replica has tried")
        assert replica.link()["master_link_status"] == "down"
        assert [fields for _, fields in replica.client.xrange("orders")] == [{b"number": b"1"}]


def test_a_primary_that_is_killed_and_keeps_its_journal_is_followed_again(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        for number in range(3):
            primary.client.xadd("orders", {"number": number})
            primary.kill()
            primary.start()
            wait_until(replica.is_linked, "the replica is linked")
            wait_until(lambda number=number: replica.client.xlen("orders") == number + 1, "it has all")


def test_a_replica_follows_a_primary_that_has_emptied_itself(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        primary.client.xadd("orders", {"number": 1})
        primary.client.flushall()
        replica.kill()
        for number in range(5):
            primary.client.set(f"k{number}", b"x" * 400_000)
        primary.client.flushall()  # and nothing of it is in the backlog any more
        replica.start()
        wait_until(replica.is_linked, "the replica is linked")
        assert replica.client.dbsize() == 0


@pytest.mark.parametrize("local", [0, 1])
def test_waitaof_tells_whose_disks_have_it(tmp_path: Path, local: int):
    with nodes(tmp_path, 1) as (primary, replica):
        pipeline = primary.client.pipeline(transaction=False)
        pipeline.xadd("orders", {"number": 1})
        pipeline.execute_command("WAITAOF", local, 1, 10_000)
        assert pipeline.execute()[1][1] == 1
        replica.kill()
        pipeline.xadd("orders", {"number": 2})
        pipeline.execute_command("WAITAOF", 1, 1, 3_000)
        assert pipeline.execute()[1] == [1, 0]
