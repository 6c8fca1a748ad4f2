"""A server with its threads whose searches make notes on segment files, and use them after a restart."""

import random
import stat
from pathlib import Path
from typing import Any

import pytest

from streamd.testing import EmbeddedServer
from tests.cold.test_larger_than_memory import start, until

redis = pytest.importorskip("redis")
ENTRIES = 40_000
PLACE = 1_000  # of the entries of one topic


def fill(server: EmbeddedServer) -> None:
    """Add 20 MB of entries whose topics change now and then, and have them moved."""
    client, chance = server.client(), random.Random(1)
    for low in range(1, ENTRIES + 1, PLACE):
        pipe = client.pipeline(transaction=False)
        for number in range(low, low + PLACE):
            pipe.xadd("s", {"topic": f"t/{low // PLACE}", "f": chance.randbytes(500)}, id=f"{number}-0")
        pipe.execute()
    client.bgrewriteaof()
    until(lambda: client.info("persistence")["aof_rewrites"] == 1)
    until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])


def found(client: Any, *pattern: str) -> list[bytes]:
    """Return the IDs of all entries that a filter lets through."""
    ids: list[bytes] = []
    start, before = b"-", None
    while True:
        passed, entries = client.execute_command("XFILTER", "s", start, "+", "COUNT", 300, "FIELD", "topic", *pattern)
        ids += [entry[0] for entry in entries]
        if passed == before:
            return ids
        start, before = b"(" + passed, passed


def ids_of(*topics: int) -> list[bytes]:
    return [b"%d-0" % number for topic in topics for number in range(topic * PLACE + 1, (topic + 1) * PLACE + 1)]


def test_notes_are_made_used_and_there_after_a_restart(tmp_path: Path) -> None:
    server = start(tmp_path)
    fill(server)
    client = server.client()
    assert found(client, "EQ", "t/3") == ids_of(3)
    until(lambda: list((tmp_path / "appendonlydir").glob("*.notes-*")))
    info = client.info("persistence")
    assert info["cold_notes_bytes"] > 0
    misses, passed = info["cold_block_misses"], info["cold_rows_passed"]
    assert found(client, "EQ", "nowhere") == []
    assert found(client, "MQTT", "+/39") == ids_of(39)
    after = client.info("persistence")
    assert after["cold_rows_passed"] > passed + 500
    assert after["cold_block_misses"] < misses + 100
    for path in (tmp_path / "appendonlydir").glob("*.notes-*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.internal_errors == 0
    server.stop()

    server = start(tmp_path)
    client = server.client()
    assert found(client, "GLOB", "t/[03]") == ids_of(0, 3)
    info = client.info("persistence")
    assert info["cold_rows_passed"] > 300
    assert info["cold_block_misses"] < 200
    client.delete("s")
    client.bgrewriteaof()
    until(lambda: not [*(tmp_path / "appendonlydir").glob("*.seg"), *(tmp_path / "appendonlydir").glob("*.notes-*")])
    assert server.internal_errors == 0
    server.stop()
