"""`make test` runs on several workers: nothing is lost between them, and Spark is started once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdist")
ROOT = Path(__file__).resolve().parents[2]
# Each test says where it ran.
TEST = """
import os, pathlib, pytest
HERE = pathlib.Path(os.environ["PLACES"])
def ran():
    (HERE / f"{__name__}.{os.environ['PYTEST_XDIST_WORKER']}").touch()
@pytest.mark.parametrize("number", range(3))
def test_passes(number):
    ran()
def test_planted():
    ran()
    assert __name__ not in os.environ["FAILING"].split()
"""


def run(directory: Path, *failing: str) -> tuple[int, list[str], dict[str, set[str]]]:
    """Run two files that want Spark and three that do not; return the exit code, the output, and who ran which."""
    places = directory / "places"
    places.mkdir(parents=True)
    names = ("spark/test_one", "spark/test_two", "unit/test_three", "unit/test_four", "crash/test_five")
    for name in names:
        file = directory / "tests" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TEST)
    (directory / "pytest.ini").write_text("[pytest]\naddopts = -q -p no:cacheprovider -p tests.workers\n")
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {"PLACES": str(places), "FAILING": " ".join(failing), "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "pytest", "-n", "2", "tests"]
    done = subprocess.run(words, cwd=directory, env=environment, capture_output=True, text=True, timeout=120)
    workers: dict[str, set[str]] = {}
    for place in places.iterdir():
        module, _, worker = place.name.rpartition(".")
        workers.setdefault(module, set()).add(worker)
    return done.returncode, done.stdout.splitlines(), workers


def test_a_failure_on_either_worker_is_told_and_fails_the_run(tmp_path: Path):
    code, lines, workers = run(tmp_path, "test_two", "test_five")
    assert code == 1
    assert sorted(line.split(" - ")[0] for line in lines if line.startswith("FAILED")) == [
        "FAILED tests/crash/test_five.py::test_planted",
        "FAILED tests/spark/test_two.py::test_planted",
    ]
    assert lines[-1].startswith("2 failed, 18 passed")
    assert workers["test_two"] != workers["test_five"]


def test_all_that_want_spark_run_on_one_worker_and_a_file_on_one(tmp_path: Path):
    code, _, workers = run(tmp_path)
    assert code == 0
    assert [len(which) for which in workers.values()] == [1] * 5
    assert workers["test_one"] == workers["test_two"]
    assert set.union(*workers.values()) == {"gw0", "gw1"}
