"""What the tests of the listeners share: both event loops, and certificates."""

import asyncio

import pytest
import uvloop

from tests.mqtt.listening.front import Certificates, Run


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Run:
    """Runs a coroutine; fails when it or the loop reported anything."""
    return Run(request.param, caplog)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))
