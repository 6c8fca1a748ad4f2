"""The servers that the commands for a terminal are run against, and a shell to run them in."""

from collections.abc import Callable, Iterator

import pytest
import redis
from click.testing import CliRunner, Result

from streamd.clients.terminal.app import terminal
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import needs_redis, running_redis

Shell = Callable[..., Result]


@pytest.fixture(params=["streamd", pytest.param("redis-server", marks=needs_redis)])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """A client of a streamd in this process, and of a redis-server where that is installed."""
    if request.param == "streamd":
        with EmbeddedServer() as server:
            yield server.client(decode_responses=True)
            assert server.internal_errors == 0
    else:
        with (
            running_redis(tmp_path_factory.mktemp("redis")) as port,
            redis.Redis(port=port, decode_responses=True) as client,
        ):
            yield client


@pytest.fixture
def url(client: redis.Redis) -> str:
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"


@pytest.fixture
def shell(url: str, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run words of the command line on that server; `.output` is what a pipe gets."""
    monkeypatch.delenv("COLUMNS", raising=False)  # which the workers of a test run have
    return lambda *words, **more: CliRunner().invoke(terminal, [*words, "--url", url], prog_name="streamd", **more)
