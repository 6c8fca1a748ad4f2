"""The servers that the tests of sessions run on: streamd by both protocol versions, and redis-server where it is."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis

from streamd.testing import EmbeddedServer
from tests.differential.redis_process import RawClient, needs_redis, running_redis


class Server:
    """A server that is empty when a test begins. `streamd`: None for a redis-server."""

    def __init__(self, port: int, protocol: int, streamd: EmbeddedServer | None) -> None:
        self.port = port
        self.protocol = protocol
        self.streamd = streamd
        self.stack = ExitStack()
        self.client = self.stack.enter_context(redis.Redis(port=port, protocol=protocol))
        self.client.flushall()
        self.client.script_flush()

    def raw(self) -> RawClient:
        """A further connection, words in and bytes out."""
        connection = RawClient(self.port)
        self.stack.callback(connection.close)
        if self.protocol == 3:
            connection.ask([b"HELLO", b"3"])
        return connection

    def let_pass(self, seconds: int, *keys: str) -> None:
        """Let keys have so many seconds less to live; nobody waits for it."""
        if self.streamd is not None:
            self.streamd.advance(seconds=seconds)
            return
        for key in keys:
            self.client.pexpire(key, self.client.pttl(key) - seconds * 1000)

    def let_expire(self, seconds: float, *keys: str) -> None:
        """Let time pass until keys are gone that expire within so many seconds; nobody waits for it."""
        if self.streamd is not None:
            self.streamd.advance(seconds=seconds)
            return
        for key in keys:
            assert 0 < self.client.pttl(key) <= seconds * 1000
            self.client.pexpire(key, 1)
        while self.client.exists(*keys):
            pass


@pytest.fixture(scope="session")
def ports(tmp_path_factory) -> Iterator[dict]:
    """What was started already: kind -> port; `stack` ends it."""
    with ExitStack() as stack:
        yield {"stack": stack, "directory": tmp_path_factory.mktemp("redis")}


@pytest.fixture(params=["streamd-2", "streamd-3", pytest.param("redis-2", marks=needs_redis)])
def server(request, ports) -> Iterator[Server]:
    """A server of each kind in turn."""
    kind, _, protocol = request.param.partition("-")
    if kind not in ports:
        if kind == "redis":
            ports[kind] = ports["stack"].enter_context(running_redis(ports["directory"]))
        else:
            ports["embedded"] = ports["stack"].enter_context(EmbeddedServer())
            ports[kind] = ports["embedded"].port
    embedded = ports["embedded"] if kind == "streamd" else None
    server = Server(ports[kind], int(protocol), embedded)
    with server.stack:
        yield server
    assert embedded is None or embedded.internal_errors == 0


@pytest.fixture
def client(server) -> redis.Redis:
    """A client of each kind of server in turn."""
    return server.client
