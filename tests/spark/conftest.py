"""Servers and the one Spark session that the tests of the data source share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import redis

from tests.spark import servers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.whole_writes import Context


@pytest.fixture(scope="session")
def streamd_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with servers.streamd_server(tmp_path_factory.mktemp("streamd")) as port:
        yield port


@pytest.fixture(scope="session")
def redis_port() -> Iterator[int]:
    with servers.redis_server() as port:
        yield port


@pytest.fixture(params=["streamd", pytest.param("redis", marks=pytest.mark.redis)])
def either(request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """A client of an empty server: of streamd, and of Redis."""
    yield from _emptied(request.getfixturevalue(f"{request.param}_port"))


@pytest.fixture
def streamd(streamd_port: int) -> Iterator[redis.Redis]:
    """A client of an empty streamd."""
    yield from _emptied(streamd_port)


@pytest.fixture
def plain_redis() -> Iterator[redis.Redis]:
    """A client of an empty redis-server 7.0.15, which knows no idempotent IDs."""
    with servers.old_redis_server() as port, servers.client(port) as client:
        yield client


@pytest.fixture
def other_redis(redis_port: int) -> Iterator[redis.Redis]:
    """A client of an empty Redis 8.10.2."""
    yield from _emptied(redis_port)


def _emptied(port: int) -> Iterator[redis.Redis]:
    with servers.client(port) as client:
        client.flushall()
        yield client


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> "Context":
    """What writers are told by Spark about the task that they run in."""
    from spark_source.writing import writer as writers
    from tests.spark.whole_writes import Context

    context = Context()
    monkeypatch.setattr(writers, "_context", lambda: context)
    return context


@pytest.fixture
def proxy(streamd_port: int) -> Iterator[servers.Proxy]:
    """A proxy before streamd that cuts and holds connections."""
    proxy = servers.Proxy(streamd_port)
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The one Spark session: two threads, four attempts per task, quiet."""
    from tests.spark.sessions import quiet_session

    session = quiet_session()
    yield session
    session.stop()
