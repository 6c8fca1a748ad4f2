"""The servers that the tests of topics run on: streamd by both protocols, Redis 8.10.2, and 7.0.15 by scripts."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import needs_redis, running_redis

OLD_REDIS = shutil.which("redis-server")
SERVERS = [
    pytest.param("streamd-2"),
    pytest.param("streamd-3"),
    pytest.param("redis", marks=needs_redis),
    pytest.param("old", marks=pytest.mark.skipif(OLD_REDIS is None, reason="there is no redis-server 7.0.15")),
]


class Servers:
    """Servers that are started when a test first wants them."""

    def __init__(self, directory) -> None:
        self.directory = directory
        self.stack = ExitStack()
        self.ports: dict[str, int] = {}
        self.streamd: EmbeddedServer | None = None

    def port(self, kind: str) -> int:
        if kind not in self.ports:
            if kind in ("redis", "old"):
                program = Path(OLD_REDIS or "") if kind == "old" else None
                self.ports[kind] = self.stack.enter_context(running_redis(self.directory, program))
            else:
                self.streamd = self.stack.enter_context(EmbeddedServer(Clock()))
                self.ports["streamd"] = self.streamd.port
        return self.ports[kind]


@pytest.fixture(scope="session")
def topic_servers(tmp_path_factory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("redis"))
    with servers.stack:
        yield servers


@pytest.fixture(params=SERVERS)
def client(request, topic_servers) -> Iterator[redis.Redis]:
    """A client of each kind of server in turn; the server is empty."""
    kind, _, protocol = request.param.partition("-")
    with redis.Redis(port=topic_servers.port(kind), protocol=int(protocol or 2)) as client:
        client.flushall()
        yield client
    if topic_servers.streamd is not None:
        assert topic_servers.streamd.internal_errors == 0


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """A streamd with a clock that the test moves."""
    with EmbeddedServer() as server:
        yield server
        assert server.internal_errors == 0
