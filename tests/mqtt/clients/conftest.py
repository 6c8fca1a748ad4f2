"""One gateway for all of them."""

from collections.abc import Iterator

import pytest

from tests.mqtt.clients.process import gateway


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a gateway with a server of its own."""
    with gateway(tmp_path_factory.mktemp("gateway")) as found:
        yield found
