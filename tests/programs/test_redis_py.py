"""redis-py's own tests of users, and of values that it keeps, from the source of the version that is installed."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.unpacked import unpack

redis = pytest.importorskip("redis")

SOURCES = Path("build") / "programs" / "redis-py"
USERS_TESTS_MIN = 14
CACHE_TESTS_MIN = 30


@pytest.fixture
def source() -> Path:
    """The unpacked source, fetched the first time."""
    tree = (SOURCES / f"redis-{redis.__version__}").absolute()
    if not tree.is_dir():
        SOURCES.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "redis", "-d", SOURCES]
        done = subprocess.run([*words, f"redis=={redis.__version__}"], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"redis-py's source cannot be had here: {done.stderr.strip().splitlines()[-1]}")
        with tarfile.open(SOURCES / f"redis-{redis.__version__}.tar.gz") as archive:
            unpack(archive, SOURCES)
    return tree


def run(source: Path, port: int, file: str, chosen: str) -> int:
    """Run tests of a file; return how many passed, all of them."""
    # What is marked redismod asks for the commands of Redis's modules.
    words = ["-q", "-p", "no:cacheprovider", f"tests/{file}", "-k", chosen, "-m", "not redismod", "--tb=short"]
    words += ["--redis-url", f"redis://127.0.0.1:{port}/9"]
    words = [sys.executable, "-m", "pytest", *words]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True, check=False)
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout
    assert passed is not None
    return int(passed[1])


def test_redis_pys_own_tests_of_users_pass(source: Path, port: int):
    assert run(source, port, "test_commands.py", "acl") >= USERS_TESTS_MIN


def test_redis_pys_own_tests_of_its_cache_pass(source: Path, port: int):
    assert run(source, port, "test_cache.py", "not Cluster and not Sentinel and not SSL") >= CACHE_TESTS_MIN
