"""A data directory with segment files, as a server leaves it."""

import random
from pathlib import Path
from typing import Any

import redis

from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer

OPTIONS: dict[str, Any] = {"appendonly": True, "stream_memory": 16 * 1024 * 1024}
ENTRIES = 4_000


def serve(directory: Path, **options: Any) -> EmbeddedServer:
    """Return a server on a directory, which moves what it can when it rewrites its journal."""
    return EmbeddedServer(Clock(), dir=str(directory), **{**OPTIONS, **options})


def fill(client: redis.Redis) -> None:
    """Write two streams with groups, windows and deletions; after the next rewrite most of them is in segment files."""
    chance = random.Random(7)
    for key in ("s", "t"):
        pipeline = client.pipeline(transaction=False)
        for number in range(1, ENTRIES + 1):
            fields = ("f", chance.randbytes(100), *(("g", number) if number % 7 == 0 else ()))
            pipeline.execute_command("XADD", key, f"{number}-1", *fields)
        pipeline.execute()
        client.execute_command("XCFGSET", key, "IDMP-DURATION", 10_000)
        client.execute_command("XADD", key, "IDMP", "p", "again", "*", "f", "v")
    client.execute_command("XDEL", "s", *(f"{number}-1" for number in (3, 500, 501, 502, 1_500)))
    client.execute_command("XTRIM", "t", "MAXLEN", ENTRIES - 1_234)
    client.execute_command("XDEL", "t", client.xrevrange("t", count=1)[0][0])
    client.execute_command("XGROUP", "CREATE", "s", "g", 0)
    client.execute_command("XREADGROUP", "GROUP", "g", "ann", "COUNT", 700, "STREAMS", "s", ">")
    client.execute_command("XDEL", "s", "600-1", "601-1")
    client.execute_command("SET", "string", "v")


def contents(client: redis.Redis) -> dict[str, Any]:
    """Return what clients see of all keys."""
    found: dict[str, Any] = {"keys": sorted(client.keys()), "string": client.get("string")}
    for key in ("s", "t"):
        info = client.execute_command("XINFO STREAM", key)
        counters = ("length", "last-generated-id", "max-deleted-entry-id", "entries-added")
        found[key] = client.xrange(key), [info[name] for name in counters]
    found["pending"] = [
        (row["message_id"], row["consumer"], row["times_delivered"])
        for row in client.xpending_range("s", "g", "-", "+", 2_000)
    ]
    return found


def segments(directory: Path) -> list[Path]:
    """Return the segment files of a data directory, by their numbers."""
    found = (directory / "appendonlydir").glob("*.seg")
    return sorted(found, key=lambda path: int(path.name.split(".")[2].partition("-")[0]))
