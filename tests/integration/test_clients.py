"""redis-py and redis-cli against a real process."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import redis

from tests.integration.process import ServerProcess

needs_cli = pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not on PATH")


@pytest.fixture(scope="module", params=["native", "pure"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with hiredis and uvloop, and one that has neither."""
    directory = tmp_path_factory.mktemp("data")
    with ServerProcess(directory, "--appendonly", "no", pure=request.param == "pure") as process:
        yield process


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_retries_an_idempotent_xadd_and_the_stream_has_one_entry(server: ServerProcess, protocol: int):
    with redis.Redis(port=server.port, protocol=protocol, decode_responses=True) as client:
        client.delete("orders")
        first = client.xadd("orders", {"n": "1"}, idmp=("svc-7", "order-123"))
        again = client.xadd("orders", {"n": "1"}, idmp=("svc-7", "order-123"))
        assert first == again
        assert client.xlen("orders") == 1
        assert client.xrange("orders") == [(first, {"n": "1"})]
        automatic = client.xadd("orders", {"n": "2"}, idmpauto="svc-7")
        assert client.xadd("orders", {"n": "2"}, idmpauto="svc-7") == automatic
        info = client.xinfo_stream("orders")
        assert (info["length"], info["iids-duplicates"], info["pids-tracked"]) == (2, 2, 1)


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_works_asynchronously(server: ServerProcess, protocol: int):
    async def work() -> None:
        async with redis.asyncio.Redis(port=server.port, protocol=protocol, decode_responses=True) as client:
            await client.delete("async")
            async with client.pipeline(transaction=True) as pipeline:
                for number in range(3):
                    pipeline.xadd("async", {"n": number})
                ids = await pipeline.execute()
            assert [entry[0] for entry in await client.xrange("async")] == ids

            async def later() -> None:
                async with redis.asyncio.Redis(port=server.port) as other:
                    await other.xadd("async", {"n": "last"})

            reading = asyncio.create_task(client.xread({"async": ids[-1]}, block=10_000))
            writing = asyncio.create_task(later())
            got = await reading
            await writing
            streams = got if isinstance(got, dict) else dict(got)
            assert "last" in str(streams["async"])

    asyncio.run(work())


@needs_cli
def test_redis_cli_looks_at_a_stream(server: ServerProcess):
    def cli(*words: str) -> str:
        command = ["redis-cli", "-p", str(server.port), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

    cli("DEL", "seen")
    first = cli("XADD", "seen", "IDMP", "p", "i", "*", "f", "v")
    assert cli("XADD", "seen", "IDMP", "p", "i", "*", "f", "v") == first
    assert cli("XRANGE", "seen", "-", "+") == f"{first}\nf\nv"
    assert cli("FOO").startswith("ERR unknown command 'FOO'")


@needs_cli
def test_redis_cli_pipes_100_000_entries_in(server: ServerProcess):
    lines = b"".join(b"XADD piped * n %d\r\n" % number for number in range(100_000))
    with redis.Redis(port=server.port) as client:
        client.delete("piped")
        command = ["redis-cli", "-p", str(server.port), "--pipe"]
        done = subprocess.run(command, input=lines, capture_output=True, timeout=60, check=True)
        assert b"errors: 0, replies: 100000" in done.stdout
        assert client.xlen("piped") == 100_000
        assert [fields[b"n"] for _, fields in client.xrange("piped", count=3)] == [b"0", b"1", b"2"]
