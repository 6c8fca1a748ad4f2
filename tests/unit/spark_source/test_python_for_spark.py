"""Spark gets this Python under a path without blanks."""

import os
import sys
from pathlib import Path

import pytest

from spark_source import java


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    return tmp_path


def test_a_path_without_blanks_is_taken_as_it_is(caches):
    assert java.python_for_spark() == sys.executable
    assert not (caches / "cache").exists()


def test_of_a_path_with_blanks_a_link_is_made_to_the_environment(caches, monkeypatch):
    home = caches / "with a blank"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").touch()
    monkeypatch.setattr(sys, "executable", str(home / "bin" / "python"))
    for _ in range(2):
        python = java.python_for_spark()
        assert python.startswith(str(caches / "cache" / "streamd" / "python-"))
        assert " " not in python
        assert os.path.realpath(python) == str(home / "bin" / "python")


def test_a_cache_with_a_blank_is_passed_over(caches, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches / "my cache"))
    monkeypatch.setattr(sys, "executable", str(caches / "a b" / "bin" / "python"))
    assert java.python_for_spark().startswith(str(caches / "temporary"))
