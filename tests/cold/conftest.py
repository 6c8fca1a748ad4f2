"""What every test of segment files leaves as it was: the open files of the process."""

from collections.abc import Iterator

import pytest

from tests.cold.cold_world import OPENED


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()
