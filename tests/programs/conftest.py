"""A streamd process of its own for each test of a program."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.process import ServerProcess


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a server that has executed nothing yet. It must end without an error of its own."""
    with ServerProcess(tmp_path / "data", "--appendfsync", "no") as server:
        yield server.port
        code, _, errors = server.stop()
        assert (code, [line for line in errors.splitlines() if "Traceback" in line or " ERROR " in line]) == (0, [])


@pytest.fixture
def url(port: int) -> str:
    """The server's address, as programs take it."""
    return f"redis://127.0.0.1:{port}/0"
