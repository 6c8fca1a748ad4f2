"""A backup of a replica has the primary's state, and its server is a primary with a history of its own."""

from pathlib import Path

import pytest

from tests.integration.process import run_cli
from tests.replication.clusters import Node, nodes, wait_until
from tests.replication.test_compared_servers import compare, fill


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with nodes(tmp_path_factory.mktemp("backup"), 1) as (primary, replica):
        fill(primary.client)
        primary.client.execute_command("WAIT", 1, 5_000)
        yield primary, replica


def ids_of(node: Node) -> set[object]:
    return {node.link()[name] for name in ("master_replid", "master_replid2")} - {0}  # (none is 40 zeros)


def test_a_backup_of_a_replica_is_served_by_a_primary_of_another_history(cluster, tmp_path: Path):
    primary, replica = cluster

    done = run_cli("backup", "--url", f"redis://127.0.0.1:{replica.port}", str(tmp_path / "copy"))

    assert done.returncode == 0, done.stderr
    copy = Node(tmp_path / "copy")
    try:
        assert copy.link()["role"] == "master"
        assert not ids_of(copy) & ids_of(primary)
        assert compare(primary, copy).returncode == 0
        copy.client.set("own", 1)
        # A replica of the old primary that is told to follow it takes the whole state.
        third = Node(tmp_path / "third", "--replicaof", "127.0.0.1", str(primary.port))
        wait_until(third.is_linked, "it is linked")
        third.client.execute_command("REPLICAOF", "127.0.0.1", copy.port)
        wait_until(third.is_linked, "it is linked")
        assert third.client.get("own") == b"1"
        assert compare(copy, third).returncode == 0
        third.kill()
    finally:
        copy.kill()


@pytest.mark.parametrize("is_stopped", [True, False])
@pytest.mark.parametrize("of", [0, 1])
def test_a_directory_that_is_restored_gets_a_history_of_its_own(tmp_path: Path, of: int, is_stopped: bool):
    with nodes(tmp_path, 1) as servers:
        fill(servers[0].client)
        servers[0].client.execute_command("WAIT", 1, 5_000)
        one = servers[of]
        before = ids_of(one)
        if is_stopped:
            one.client.shutdown()
        else:
            one.kill()

        done = run_cli("restore", str(one.directory), str(tmp_path / "again"))

        assert done.returncode == 0, done.stderr
        again = Node(tmp_path / "again")
        try:
            assert again.link()["role"] == "master"
            assert not ids_of(again) & before
            assert again.client.xlen("stream") == 5
        finally:
            again.kill()


def test_a_server_without_replication_is_copied_as_it_is(tmp_path: Path):
    with nodes(tmp_path, 0) as (server,):
        fill(server.client)
        assert run_cli("backup", "--url", f"redis://127.0.0.1:{server.port}", str(tmp_path / "copy")).returncode == 0
    assert len(list((tmp_path / "copy" / "appendonlydir").glob("*.incr.aof"))) == 1
