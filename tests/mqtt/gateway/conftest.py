"""The stores of the gateway's tests: streamd, and Redis 8.10.2, which has no search of its own."""

import pytest
import redis

from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import needs_redis, running_redis


@pytest.fixture(scope="session")
def redis_store(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis"), None) as port:
        yield port


@pytest.fixture(params=["streamd", pytest.param("redis", marks=needs_redis)])
def store(request):
    """The URL of an empty store of each kind in turn."""
    if request.param == "redis":
        port = request.getfixturevalue("redis_store")
        with redis.Redis(port=port) as client:
            client.flushall()
        yield f"redis://127.0.0.1:{port}"
    else:
        with EmbeddedServer(Clock()) as server:
            yield f"redis://127.0.0.1:{server.port}"
            assert server.internal_errors == 0


@pytest.fixture
def streamd_store():
    """The URL of an empty streamd."""
    with EmbeddedServer(Clock()) as server:
        yield f"redis://127.0.0.1:{server.port}"
        assert server.internal_errors == 0
