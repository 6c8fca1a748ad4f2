"""A replica by its option alone: its journal says where it stands, also when it was rewritten since the copy."""

from tests.replication.clusters import nodes, wait_until


def test_a_rewrite_behind_the_copy_keeps_the_place_in_the_history(tmp_path):
    with nodes(tmp_path, 1) as (primary, replica):
        primary.client.set("key", "v")
        primary.client.execute_command("WAIT", 1, 5_000)
        replica.client.execute_command("BGREWRITEAOF")
        wait_until(lambda: replica.client.info("persistence")["aof_rewrites"] == 1, "it is rewritten")
        (base,) = (replica.directory / "appendonlydir").glob("*.base.aof")
        assert b"#streamd note HISTORY " in base.read_bytes()
        replica.kill()
        replica.start("--replicaof", "127.0.0.1", str(primary.port))
        wait_until(replica.is_linked, "it is linked")
        assert replica.client.get("key") == b"v"
