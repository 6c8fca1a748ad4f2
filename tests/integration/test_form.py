"""Which form of the source runs, as users learn it; and what is built where."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import redis

from streamd.base.form import form
from tests.integration.process import ServerProcess, run_cli

ROOT = Path(__file__).resolve().parents[2]
# What these tests are to run on: else they would show nothing of the form that `make test-compiled` built.
WANTED = os.environ.get("STREAMD_TEST_FORM", "pure")


def build(directory: Path, **environment: str) -> tuple[str, str]:
    """Build a wheel with the words of a user; return its name, and what was said of compiling."""
    pip = [sys.executable, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps", "-w", str(directory), "."]
    where = {**os.environ, **environment, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(pip, cwd=ROOT, env=where, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "pure Python" in line]
    assert "Traceback" not in done.stdout + done.stderr
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith((".so", "summaries.json"))]
    return wheel.name, "\n".join(said)


def test_a_server_and_the_tests_run_in_the_form_that_is_meant(tmp_path: Path):
    assert form() == WANTED
    with ServerProcess(tmp_path) as server:
        assert redis.Redis(port=server.port).info("server")["streamd_form"] == WANTED


def test_the_version_says_the_form():
    assert run_cli("--version").stdout.strip().endswith(f", {WANTED}")


def test_every_command_has_its_summary_in_either_form(engine):
    docs = iter(engine.execute([b"COMMAND", b"DOCS"]))
    summaries = {
        name: dict(zip(*[iter(about)] * 2, strict=True))[b"summary"] for name, about in zip(docs, docs, strict=False)
    }
    assert summaries[b"xadd"].startswith(b"Append an entry to a stream and return its ID")
    assert summaries[b"xinfo"] == b"A container for XINFO commands"
    assert [name for name, summary in summaries.items() if not summary] == []


@pytest.mark.interpreted(reason="the build of the pure form is the same wherever it is started")
def test_a_wheel_is_a_pure_one_unless_compiling_is_asked_for(tmp_path: Path):
    assert build(tmp_path, STREAMD_COMPILE="0") == ("streamd_server-0.1.0-py3-none-any.whl", "")


@pytest.mark.interpreted(reason="the build of the pure form is the same wherever it is started")
def test_without_a_c_compiler_it_is_a_pure_one_and_a_line_says_what_is_missing(tmp_path: Path):
    name, said = build(tmp_path, STREAMD_COMPILE="1", CC=str(tmp_path / "no-such-compiler"))
    assert name == "streamd_server-0.1.0-py3-none-any.whl"
    assert said == (
        "streamd: built as pure Python, not compiled: no C compiler finds Python.h here "
        "(Debian and Ubuntu: packages gcc and python3-dev)"
    )


@pytest.mark.interpreted(reason="the build of the pure form is the same wherever it is started")
def test_without_mypyc_it_is_a_pure_one_and_a_line_says_what_is_missing(tmp_path: Path):
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text("import sys; sys.modules['mypyc'] = None\n")
    name, said = build(tmp_path, STREAMD_COMPILE="1", PYTHONPATH=str(tmp_path / "path"))
    assert name == "streamd_server-0.1.0-py3-none-any.whl"
    missing = "mypyc is not installed (pip install 'mypy[mypyc]>=2.4,<3')"
    assert said == f"streamd: built as pure Python, not compiled: {missing}"
