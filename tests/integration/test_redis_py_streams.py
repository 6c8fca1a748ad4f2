"""Every x-command of redis-py, and what its parsers make of the replies: sync and async, RESP2 and RESP3."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import redis
import redis.asyncio

from streamd.testing import EmbeddedServer


class InTurn:
    """An asyncio client whose methods are called like those of the other one."""

    def __init__(self, client: redis.asyncio.Redis, runner: asyncio.Runner) -> None:
        self.client, self.runner = client, runner

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, getattr(self.client, name))

    def _call(self, method: Any, *args: Any, **options: Any) -> Any:
        async def call() -> Any:
            return await method(*args, **options)

        return self.runner.run(call())


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


@pytest.fixture(params=["sync-2", "sync-3", "async-2", "async-3"])
def r(request: pytest.FixtureRequest, server: EmbeddedServer) -> Iterator[Any]:
    kind, protocol = request.param.split("-")
    options: dict[str, Any] = {"port": server.port, "protocol": int(protocol), "decode_responses": True}
    if kind == "sync":
        client = redis.Redis(**options)
        client.flushall()
        yield client
        client.close()
    else:
        with asyncio.Runner() as runner:
            calls = InTurn(redis.asyncio.Redis(**options), runner)
            calls.flushall()
            yield calls
            calls.aclose()
    assert server.internal_errors == 0


def streams_of(reply: Any) -> dict[str, list[Any]]:
    """Return what XREAD gave as a dict: redis-py gives lists of pairs in RESP2, in RESP3 a dict of lists of lists."""
    if isinstance(reply, dict):
        return {key: entries[0] for key, entries in reply.items()}
    return dict(reply)


def fill(r: Any, *ids: str, key: str = "s") -> None:
    for entry_id in ids:
        r.xadd(key, {"n": entry_id}, id=entry_id)


def entries(*ids: str) -> list[Any]:
    return [(entry_id, {"n": entry_id}) for entry_id in ids]


def test_entries_are_added_read_counted_trimmed_and_deleted(r):
    assert r.xadd("s", {"n": "1-1"}, id="1-1") == "1-1"
    assert r.xadd("no", {"n": "1"}, nomkstream=True) is None
    fill(r, "2-1", "3-1", "4-1")
    assert r.xlen("s") == 4
    assert r.xrange("s") == entries("1-1", "2-1", "3-1", "4-1")
    assert r.xrange("s", min="2-1", max="3-1", count=1) == entries("2-1")
    assert r.xrevrange("s", count=2) == entries("4-1", "3-1")
    assert r.xdel("s", "2-1", "9-9") == 1
    assert r.xtrim("s", maxlen=2, approximate=False) == 1
    assert r.xtrim("s", minid="4-1", approximate=False, ref_policy="ACKED") == 1
    assert r.xadd("s", {"n": "5-1"}, id="5-1", maxlen=1, approximate=False, ref_policy="DELREF") == "5-1"
    assert r.xrange("s") == entries("5-1")


def test_an_order_is_taken_once(r):
    first = r.xadd("s", {"order": "1"}, idmp=("svc-7", b"order-1"))
    assert r.xadd("s", {"order": "1"}, idmp=("svc-7", b"order-1")) == first
    by_content = r.xadd("s", {"order": "2", "cents": "5"}, idmpauto="svc-8")
    assert r.xadd("s", {"cents": "5", "order": "2"}, idmpauto="svc-8") == by_content != first
    info = r.xinfo_stream("s")
    names = ("length", "pids-tracked", "iids-tracked", "iids-added", "iids-duplicates")
    assert [info[name] for name in names] == [2, 2, 2, 2, 2]
    assert (info["idmp-duration"], info["idmp-maxsize"]) == (100, 100)


def test_the_window_is_set(r):
    fill(r, "1-1")
    assert r.xcfgset("s", idmp_duration=200, idmp_maxsize=500)
    info = r.xinfo_stream("s")
    assert (info["idmp-duration"], info["idmp-maxsize"]) == (200, 500)
    with pytest.raises(redis.ResponseError, match="no such key"):
        r.xcfgset("none", idmp_duration=200)


def test_several_streams_are_read_at_once(r):
    fill(r, "1-1", "2-1", "3-1")
    fill(r, "7-1", "8-1", key="t")
    both = {"s": "0", "t": "7-1"}
    assert streams_of(r.xread(both)) == {"s": entries("1-1", "2-1", "3-1"), "t": entries("8-1")}
    assert streams_of(r.xread(both, count=1)) == {"s": entries("1-1"), "t": entries("8-1")}
    assert streams_of(r.xread(both, max_count=2)) == {"s": entries("1-1", "2-1")}
    assert streams_of(r.xread(both, max_size=1)) == {"s": entries("1-1")}
    assert streams_of(r.xread({"s": "+"})) == {"s": entries("3-1")}
    assert not r.xread({"s": "$"})


def test_groups_and_consumers_come_and_go(r):
    assert r.xgroup_create("s", "g", id="0", mkstream=True)
    fill(r, "1-1", "2-1")
    assert r.xgroup_create("s", "late", id="$", entries_read=2)
    assert r.xgroup_createconsumer("s", "g", "ann") == 1
    assert r.xgroup_setid("s", "g", "1-1", entries_read=1)
    assert r.xinfo_groups("s") == [
        {"name": "g", "consumers": 1, "pending": 0, "last-delivered-id": "1-1", "entries-read": 1, "lag": 1},
        {"name": "late", "consumers": 0, "pending": 0, "last-delivered-id": "2-1", "entries-read": 2, "lag": 0},
    ]
    assert r.xgroup_delconsumer("s", "g", "ann") == 0
    assert r.xgroup_destroy("s", "g")
    with pytest.raises(redis.ResponseError, match="BUSYGROUP"):
        r.xgroup_create("s", "late")


def test_what_is_delivered_is_pending_until_acknowledged(r):
    fill(r, "1-1", "2-1", "3-1")
    r.xgroup_create("s", "g", id="0")
    assert streams_of(r.xreadgroup("g", "ann", {"s": ">"}, count=2)) == {"s": entries("1-1", "2-1")}
    assert streams_of(r.xreadgroup("g", "bob", {"s": ">"}, noack=True)) == {"s": entries("3-1")}
    assert not r.xreadgroup("g", "bob", {"s": ">"})
    assert r.xpending("s", "g") == {
        "pending": 2,
        "min": "1-1",
        "max": "2-1",
        "consumers": [{"name": "ann", "pending": 2}],
    }
    rows = r.xpending_range("s", "g", min="-", max="+", count=10, consumername="ann")
    assert [(row["message_id"], row["consumer"], row["times_delivered"]) for row in rows] == [
        ("1-1", "ann", 1),
        ("2-1", "ann", 1),
    ]
    assert r.xpending_range("s", "g", min="-", max="+", count=10, idle=100_000) == []
    assert r.xack("s", "g", "1-1", "9-9") == 1
    assert streams_of(r.xreadgroup("g", "ann", {"s": "0"})) == {"s": entries("2-1")}
    consumers = r.xinfo_consumers("s", "g")
    assert [(one["name"], one["pending"]) for one in consumers] == [("ann", 1), ("bob", 0)]


def test_pending_entries_are_claimed(r, server):
    fill(r, "1-1", "2-1", "3-1")
    r.xgroup_create("s", "g", id="0")
    r.xreadgroup("g", "ann", {"s": ">"})
    assert r.xclaim("s", "g", "bob", 100_000, ["1-1"]) == []
    server.advance(seconds=100)
    assert r.xclaim("s", "g", "bob", 100_000, ["1-1"]) == entries("1-1")
    assert r.xclaim("s", "g", "bob", 0, ["2-1"], idle=5, retrycount=7, justid=True) == ["2-1"]
    assert r.xautoclaim("s", "g", "cid", 100_000) == ["0-0", entries("3-1"), []]
    r.xdel("s", "1-1")
    assert r.xautoclaim("s", "g", "cid", 0, count=1) == ["2-1", [], ["1-1"]]
    assert r.xautoclaim("s", "g", "cid", 0, start_id="2-1", justid=True) == ["2-1", "3-1"]


def test_a_reader_claims_what_is_idle_before_it_reads_on(r, server):
    fill(r, "1-1", "2-1")
    r.xgroup_create("s", "g", id="0")
    r.xreadgroup("g", "ann", {"s": ">"}, count=1)
    server.advance(seconds=5)
    found = streams_of(r.xreadgroup("g", "bob", {"s": ">"}, claim_min_idle_time=5_000))["s"]
    assert [tuple(entry)[:2] for entry in found] == entries("1-1", "2-1")
    assert [[int(word) for word in entry[2:]] for entry in found] == [[5_000, 1], [0, 0]]


def test_released_entries_belong_to_nobody(r):
    fill(r, "1-1", "2-1", "3-1")
    r.xgroup_create("s", "g", id="0")
    r.xreadgroup("g", "ann", {"s": ">"}, count=2)
    assert r.xnack("s", "g", "FAIL", "1-1", "9-9") == 1
    assert r.xnack("s", "g", "FATAL", "2-1") == 1
    assert r.xnack("s", "g", "SILENT", "3-1", force=True, retrycount=4) == 1
    rows = r.xpending_range("s", "g", min="-", max="+", count=10)
    assert [(row["message_id"], row["consumer"], row["times_delivered"]) for row in rows] == [
        ("1-1", "", 1),
        ("2-1", "", 2**63 - 1),
        ("3-1", "", 4),
    ]


def test_entries_are_deleted_with_a_look_at_the_groups(r):
    fill(r, "1-1", "2-1", "3-1", "4-1")
    r.xgroup_create("s", "g", id="0")
    r.xreadgroup("g", "ann", {"s": ">"}, count=3)
    assert r.xdelex("s", "1-1", "9-9", ref_policy="ACKED") == [2, 2]
    assert r.xdelex("s", "1-1", ref_policy="DELREF") == [1]
    assert r.xackdel("s", "g", "1-1", "2-1", "9-9") == [-1, 1, -1]
    assert r.xackdel("s", "g", "3-1", ref_policy="ACKED") == [1]
    assert r.xrange("s") == entries("4-1")
    assert r.xpending("s", "g")["pending"] == 0


def test_a_stream_is_described(r):
    fill(r, "1-1", "2-1")
    r.xgroup_create("s", "g", id="0")
    r.xreadgroup("g", "ann", {"s": ">"}, count=1)
    info = r.xinfo_stream("s")
    assert (info["length"], info["groups"], info["last-generated-id"]) == (2, 1, "2-1")
    assert (info["first-entry"], info["last-entry"]) == (entries("1-1")[0], entries("2-1")[0])
    full = r.xinfo_stream("s", full=True)
    (group,) = full["groups"]
    assert (full["entries-added"], full["max-deleted-entry-id"]) == (2, "0-0")
    assert (group["name"], group["pel-count"], group["nacked-count"], group["lag"]) == ("g", 1, 0, 1)
    assert [one["name"] for one in group["consumers"]] == ["ann"]


def test_a_reader_waits(r, server):
    r.xgroup_create("s", "g", id="0", mkstream=True)
    other = server.client(decode_responses=True)

    async def served() -> Any:
        async with redis.asyncio.Redis(port=server.port, protocol=3, decode_responses=True) as waiting:
            reading = asyncio.create_task(waiting.xreadgroup("g", "ann", {"s": ">"}, block=0))
            while not await asyncio.to_thread(lambda: other.info("clients")["blocked_clients"]):
                pass
            await asyncio.to_thread(fill, other, "1-1")
            return await reading

    assert streams_of(asyncio.run(served())) == {"s": entries("1-1")}
    assert r.xpending("s", "g")["pending"] == 1
