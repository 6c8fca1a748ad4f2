"""The servers that a page is tried on, and a browser without a screen: the page's own application, asked in-process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import redis
from starlette.testclient import TestClient

from streamd.base.clock import Clock
from streamd.clients.ui.page_guard import Rules
from streamd.clients.ui.pages import application
from streamd.clients.ui.source import Source
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import needs_redis, running_redis

ORIGIN = "http://127.0.0.1:8001"


@pytest.fixture(scope="session")
def streamd_port() -> Iterator[int]:
    with EmbeddedServer(Clock()) as server:
        yield server.port
        assert server.internal_errors == 0


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory) -> Iterator[int]:
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.fixture(params=["streamd", pytest.param("redis", marks=needs_redis)])
def client(request) -> Iterator[redis.Redis]:
    """A client of each kind of server in turn; the server is empty."""
    with redis.Redis(port=request.getfixturevalue(f"{request.param}_port")) as client:
        client.flushall()
        yield client


@pytest.fixture
def page_of() -> Iterator[Callable[..., TestClient]]:
    """Make a page that shows a client's server: `page_of(client, allow_writes=True, rules=Rules(...), user="ann")`."""
    with ExitStack() as stack:

        def make(client: redis.Redis, *, allow_writes: bool = False, rules: Rules | None = None, user: str = ""):
            port = client.connection_pool.connection_kwargs["port"]
            source = Source(f"redis://{user and user + ':p@'}127.0.0.1:{port}", allow_writes=allow_writes)
            stack.callback(source.close)
            return TestClient(application(source, rules or Rules()), base_url=ORIGIN, follow_redirects=False)

        yield make


@pytest.fixture
def page(client, page_of) -> TestClient:
    """A page that shows the client's server and changes nothing."""
    return page_of(client)
