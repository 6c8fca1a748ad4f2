"""Fixtures that all tests share."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamd.base.clock import ManualClock
from streamd.stream.groups.group import Group
from tests.differential.redis_process import judge
from tests.engines import free_scripts
from tests.judged import pytest_terminal_summary
from tests.session import Session
from tests.version_before import unpack_version_before
from tests.workers import pytest_collection_modifyitems, pytest_xdist_make_scheduler

__all__ = [
    "clock",
    "engine",
    "newest_redis",
    "pytest_collection_modifyitems",
    "pytest_terminal_summary",
    "pytest_xdist_make_scheduler",
    "version_before",
]

OPEN_FILES_MAX = 500

try:
    from hypothesis import settings
except ImportError:  # the environments that have only the programs that are tested, or another Spark
    pass
else:
    # A busy machine is no fault: what a test shows is not how long it takes.
    # What .ci/run tests is the same each time: `make fuzz` and the programs of properties look for what is new.
    settings.register_profile("streamd", deadline=None, derandomize=os.environ.get("MUST_COMPARE") == "true")
    settings.load_profile("streamd")


def pytest_configure() -> None:
    """Let tests interrupt programs: jobs in the background of a shell, and their children, may ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _scripts_freed() -> Iterator[None]:
    yield
    free_scripts()


@pytest.fixture(scope="module", autouse=True)
def _few_files_left_open() -> Iterator[None]:
    """The tests of a file close what they open: `select`, which some libraries wait with, knows 1,024 descriptors."""
    yield
    if Path("/proc/self/fd").exists():
        assert len(os.listdir("/proc/self/fd")) < OPEN_FILES_MAX, "tests left files open: see /proc/self/fd"


@pytest.fixture(scope="module", autouse=True)
def _shared_objects_stay_empty() -> Iterator[None]:
    """Groups without pending entries share an object: nothing may have come into it."""
    yield
    assert not Group(0).pending


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands at 2001-09-09 01:46:40 UTC (1,000,000,000,000 ms) until it is moved."""
    return ManualClock()


@pytest.fixture
def engine(clock: ManualClock) -> Iterator[Session]:
    """A session with an empty server; a handler that fails with anything but a CommandError fails the test."""
    session = Session(clock)
    yield session
    assert session.state.stats.internal_errors == 0, "a handler raised something else than a CommandError: see the log"


@pytest.fixture(scope="session")
def newest_redis() -> Path:
    """The program of Redis 8.10.2; where it cannot be made the test is skipped, and fails with MUST_COMPARE=true."""
    return judge()


@pytest.fixture(scope="session")
def version_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the source of the version before; where it cannot be had the test is skipped."""
    return unpack_version_before(tmp_path_factory.mktemp("before"))
