"""A store, and a gateway on it."""

from collections.abc import Iterator

import pytest

from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import needs_redis, running_redis
from tests.mqtt.seen.running import Gateway, gateway


@pytest.fixture(scope="package")
def streamd_url() -> Iterator[str]:
    with EmbeddedServer(Clock()) as server:
        yield server.url
        assert server.internal_errors == 0


@pytest.fixture(scope="package")
def redis_url(tmp_path_factory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture(scope="package", params=["streamd", pytest.param("redis", marks=needs_redis)])
def running(request) -> Iterator[Gateway]:
    """A gateway on each kind of store, which looks at itself each second."""
    url = request.getfixturevalue(f"{request.param}_url")
    options = ("--sys-interval", "1", "--metrics-port", "0", "--log", "plant=plant", "--application", "backend-*")
    with gateway(url, *options) as one:
        yield one
