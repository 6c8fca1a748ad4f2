"""Names that users import, which stay where they are until a version says otherwise; and those that have moved."""

import importlib
import importlib.metadata
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from streamd.base import form
from streamd.cli import main

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {
    "pyspark_streamd": ["DefaultSource"],
    "spark_source": ["StreamdSource"],
    "spark_source.listener": ["BatchFigures", "StreamdListener"],
    "streamd": ["__version__"],
    "streamd.clients.sessions": ["AsyncDeviceStore", "BufferedStore", "DeviceStore", "Message", "Session"],
    "streamd.clients.topics": ["AsyncTopicLog", "IidsForgotten", "Message", "TopicFilter", "TopicLog"],
    "streamd.pytest_plugin": ["streamd_client", "streamd_server"],
    "streamd.testing": ["EmbeddedServer"],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_public_name_is_found_at_its_path(module: str):
    found = importlib.import_module(module)
    assert [name for name in PUBLIC[module] if not hasattr(found, name)] == []


@pytest.mark.parametrize("name", ["topics", "sessions"])
def test_a_client_library_that_has_moved_says_where_it_is(name: str):
    program = f"import streamd.{name}"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: streamd.{name} is streamd.clients.{name} now: write `from streamd.clients.{name} import ...`"
    )


def test_pytest_finds_the_fixtures_by_the_entry_point():
    (found,) = importlib.metadata.entry_points(group="pytest11", name="streamd")
    assert found.value == "streamd.pytest_plugin"


# -- compiled files ---------------------------------------------------------------------------------------------------


@pytest.mark.interpreted(reason="setup.py is not beside the compiled form")
def test_a_room_that_is_compiled_is_compiled_with_its_rooms():
    setup = runpy.run_path(str(ROOT / "setup.py"))
    rooms = setup["ROOMS"]
    whole = [room for room in rooms if not rooms[room]]
    below = {
        str(file.parent.relative_to(ROOT / "streamd"))
        for room in whole
        for file in (ROOT / "streamd" / room).rglob("*.py")
        if file.name != "__init__.py"
    }
    assert sorted(below) == sorted(whole)
    files = [file for room in rooms for file in setup["files_of"](room)]
    assert [file for file in (*files, *setup["INTERPRETED"]) if not (ROOT / file).is_file()] == []


@pytest.mark.interpreted(reason="the compiled form is not taken apart here")
def test_a_compiled_file_of_an_earlier_layout_stops_the_start_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "base").mkdir()
    monkeypatch.setattr(form, "__file__", str(tmp_path / "base" / "form.py"))
    monkeypatch.setattr(form, "is_compiled", lambda: True)
    (tmp_path / "base" / "clock.py").touch()
    (tmp_path / "base" / "clock.cpython-311-x86_64-linux-gnu.so").touch()
    assert form.stale_file() == ""
    stale = tmp_path / "session" / "client.cpython-311-x86_64-linux-gnu.so"
    stale.parent.mkdir()
    stale.touch()
    assert form.stale_file() == str(stale)
    assert main(["serve"]) == 2
    said = capsys.readouterr().err
    assert said == f"streamd: {stale} was compiled from an earlier version: remove it, or install streamd anew\n"
