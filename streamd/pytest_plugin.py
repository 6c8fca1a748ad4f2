"""The pytest fixtures `streamd_server` and `streamd_client`, installed with streamd."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from streamd.testing import EmbeddedServer

if TYPE_CHECKING:
    import redis


@pytest.fixture
def streamd_server() -> Iterator[EmbeddedServer]:
    """An EmbeddedServer whose clock the test moves with `streamd_server.advance(seconds=...)`."""
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def streamd_client(streamd_server: EmbeddedServer) -> "redis.Redis":
    """A redis-py client of `streamd_server`, which returns str."""
    return streamd_server.client(decode_responses=True)
