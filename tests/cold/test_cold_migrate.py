"""MIGRATE of a stream whose entries are in segment files: the other server has all of them, and this one none."""

import redis

from tests.cold.cold_directory import contents, fill, segments, serve
from tests.replication.clusters import wait_until


def test_a_cold_stream_migrates_whole(tmp_path):
    with serve(tmp_path / "here") as here, serve(tmp_path / "there") as there:
        client, other = here.client(), there.client()
        fill(client)
        client.execute_command("BGREWRITEAOF")
        wait_until(lambda: client.info("persistence")["aof_rewrites"] == 1, "it is rewritten")
        assert segments(tmp_path / "here")
        expected = contents(client)
        port = redis.connection.parse_url(there.url)["port"]

        moved = client.execute_command("MIGRATE", "127.0.0.1", port, "", 0, 60_000, "KEYS", "s", "t", "string")

        assert moved == b"OK"
        assert contents(other) == expected
        assert client.keys() == []
        client.execute_command("BGREWRITEAOF")
        wait_until(lambda: not segments(tmp_path / "here"), "the files are unlinked")
