"""Which tests run on which worker, where `make test` has two."""

import os
from typing import Any

import pytest

# What takes long is begun first, so that both workers end at about the same time.
LONG = ("spark", "crash", "differential", "topics", "integration", "sessions", "property")


def scope_of(nodeid: str) -> str:
    """Return what runs on one worker: the tests of one file; or all with Spark, which takes a gigabyte and a quarter of
    a minute to start.
    """
    file = nodeid.partition("::")[0]
    return "tests/spark" if file.startswith("tests/spark/") else file


def place_of(nodeid: str) -> int:
    """Return which tests are begun first: smaller is earlier."""
    room = nodeid.split("/")[1]
    return LONG.index(room) if room in LONG else len(LONG)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin what takes long first, where there are workers; mark what starts Redis 8.10.2.

    Raises: UsageError for a name that is another each time.
    """
    for item in items:
        if "newest_redis" in getattr(item, "fixturenames", ()):
            item.add_marker("redis")
        if " object at 0x" in item.nodeid:
            raise pytest.UsageError(f"workers must know a test by the same name: give ids to {item.nodeid}")
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: place_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return who hands tests to workers."""
    from xdist.scheduler import LoadScopeScheduling

    class Scopes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    config.option.loadscopereorder = False
    return Scopes(config, log)
