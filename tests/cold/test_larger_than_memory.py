"""A server with the option stream-memory, its threads and its files: entries go to the disk and come back."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer

redis = pytest.importorskip("redis")
MIB = 1024 * 1024
LIMIT = 16 * MIB
ENTRIES = 40_000
WAIT_S = 60


def start(path: Path, **options: Any) -> EmbeddedServer:
    options = {"stream_memory": LIMIT, **options}
    return EmbeddedServer(Clock(), appendonly=True, dir=str(path), appendfsync="no", **options).start()


def fill(server: EmbeddedServer, key: str = "s") -> None:
    """Add 40 MB of entries 1-0, 2-0 ... to a stream."""
    client, chance = server.client(), random.Random(1)
    for low in range(1, ENTRIES + 1, 1_000):
        pipe = client.pipeline(transaction=False)
        for number in range(low, low + 1_000):
            pipe.xadd(key, {"f": chance.randbytes(1_000)}, id=f"{number}-0")
        pipe.execute()


def until(condition: Any) -> None:
    """Wait for what the server's threads do."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline


def in_memory(client: Any) -> int:
    """Return the bytes of entries in memory. (They may be more than the limit while entries come quickly.)"""
    found = client.info("persistence")
    return int(found["cold_cache_bytes"] + found["cold_unwritten_bytes"])


def is_whole(server: EmbeddedServer, key: str = "s") -> bool:
    """Return whether all entries are there, by ranges and in one reply."""
    chance, client = random.Random(1), server.client()
    entries = client.xrange(key)
    assert [entry for entry, _ in entries] == [b"%d-0" % number for number in range(1, ENTRIES + 1)]
    assert all(fields == {b"f": chance.randbytes(1_000)} for _, fields in entries)
    for number in (1, 1_234, 20_000, ENTRIES):
        assert client.xrange(key, f"{number}-0", f"{number}-0") == [entries[number - 1]]
    return True


def test_entries_beyond_the_limit_are_on_the_disk_and_can_be_read(tmp_path):
    server = start(tmp_path)
    client = server.client()
    fill(server)
    until(lambda: in_memory(client) <= LIMIT)
    found = client.info("persistence")
    assert found["cold_files"] >= 1
    assert found["cold_bytes"] > 20 * MIB
    assert found["cold_move_failed"] == ""
    assert is_whole(server)
    assert client.xlen("s") == ENTRIES
    assert server.internal_errors == 0
    server.stop()

    server = start(tmp_path)
    assert is_whole(server)
    assert server.internal_errors == 0
    server.stop()


def test_a_rewrite_names_the_files_and_a_start_reads_no_entry_of_them(tmp_path):
    server = start(tmp_path)
    client = server.client()
    fill(server)
    client.bgrewriteaof()
    until(lambda: client.info("persistence")["aof_rewrites"] == 1)
    (base,) = (tmp_path / "appendonlydir").glob("*.base.aof")
    assert base.stat().st_size < 2 * MIB
    server.stop()

    server = start(tmp_path)
    client = server.client()
    assert client.info("persistence")["cold_block_misses"] == 0
    assert client.xlen("s") == ENTRIES
    assert is_whole(server)
    client.delete("s")
    client.bgrewriteaof()
    until(lambda: client.info("persistence")["cold_files"] == 0)
    until(lambda: not list((tmp_path / "appendonlydir").glob("*.seg")))
    assert server.internal_errors == 0
    server.stop()


def test_switched_off_all_entries_come_back_into_memory(tmp_path):
    server = start(tmp_path)
    client = server.client()
    fill(server)
    until(lambda: client.info("persistence")["cold_files"])
    client.config_set("stream-memory", "0")
    until(lambda: "cold_files" not in client.info("persistence"))
    assert is_whole(server)
    until(lambda: not list((tmp_path / "appendonlydir").glob("*.seg")))
    client.config_set("stream-memory", "16mb")
    until(lambda: client.info("persistence")["cold_unwritten_bytes"] < LIMIT)
    assert is_whole(server)
    assert server.internal_errors == 0
    server.stop()
