"""A store on a server without Lua says what is missing there, and not that a script is."""

import asyncio

import pytest
import redis
import redis.asyncio

from streamd.clients.sessions import AsyncDeviceStore, DeviceStore, Message
from streamd.lua import runtime
from streamd.testing import EmbeddedServer


@pytest.fixture
def port(monkeypatch):
    def missing():
        raise runtime.NoLua

    monkeypatch.setattr(runtime, "_lua", missing)
    with EmbeddedServer() as server:
        yield server.port


def test_every_call_says_what_the_server_needs(port):
    with redis.Redis(port=port) as client:
        store = DeviceStore(client)
        buffered = [store.buffered.add("d", Message("t", b"p")), store.buffered.get("d")]
        store.flush()
        calls = [lambda: store.add("d", Message("t", b"p")), lambda: store.get("d"), lambda: store.remove_all("d")]
        for call in [*calls, *(one.result for one in buffered)]:
            with pytest.raises(redis.ResponseError, match=r"Lua is not installed on this server: .* packages lupa"):
                call()
        store.close()


def test_every_call_says_so_with_asyncio_too(port):
    async def call() -> None:
        async with redis.asyncio.Redis(port=port) as client, AsyncDeviceStore(client) as store:
            await store.get("d")

    with pytest.raises(redis.ResponseError, match="Lua is not installed on this server"):
        asyncio.run(call())
