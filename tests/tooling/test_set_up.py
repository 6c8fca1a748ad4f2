"""What `make` installs, in which form its programs run, and the package's earlier name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
import compiled
import run
import set_up

ROOT = Path(__file__).resolve().parents[2]


def environment(place: Path, *packages: str) -> Path:
    """Make the directories of a virtual environment that has these packages; return its Python."""
    for package in packages:
        (place / "lib" / "python3.11" / "site-packages" / f"{package}-0.1.0.dist-info").mkdir(parents=True)
    (place / "bin").mkdir()
    return place / "bin" / "python"


@pytest.mark.parametrize(("packages", "is_removed"), [(["streamd"], True), (["streamd_server", "streamd_x"], False)])
def test_the_package_is_removed_under_its_earlier_name_and_no_other(tmp_path, monkeypatch, packages, is_removed):
    ran: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    for name in ("streamd.egg-info", "streamd_server.egg-info"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "PKG-INFO").touch()
    monkeypatch.setattr(subprocess, "run", lambda words, check: ran.append(words))
    set_up.remove_earlier_name(environment(tmp_path, *packages))
    assert [words[-1] for words in ran] == ["streamd"] * is_removed
    assert all("uninstall" in words for words in ran)
    assert [path.name for path in tmp_path.glob("*.egg-info")] == ["streamd_server.egg-info"]


@pytest.mark.parametrize(
    ("there", "wanted", "is_ready"),
    [("all", "all", True), ("all", "server", True), ("server", "server", True), ("server", "all", False)],
)
def test_an_environment_with_all_serves_for_the_server_too(tmp_path, monkeypatch, there, wanted, is_ready):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".ready").write_text(f"x {there}\n")
    monkeypatch.setattr(set_up, "works", lambda python: True)
    monkeypatch.setattr(set_up, "remove_earlier_name", lambda python: None)
    monkeypatch.setattr(set_up, "asked_of", lambda python: True)
    installed: list[str] = []
    monkeypatch.setattr(set_up, "install", lambda python, constraints, *words: installed.append(words[-1]))
    assert set_up.main("x", wanted) == 0
    assert (installed == []) is is_ready
    assert (tmp_path / ".venv" / ".ready").read_text() == f"x {there if is_ready else wanted}\n"


@pytest.mark.parametrize("target", ["serve", "mqtt", "ui", "tail"])
def test_what_a_target_runs_comes_with_the_server_and_takes_options(target):
    extra = {"serve": "lua", "tail": "cli"}.get(target, target)
    assert extra in set_up.LEVELS["server"][0].split(",")
    words = ["make", "-n", "-C", str(ROOT), target, "ARGS=--url redis://h"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "scripts/set_up.sh server\n" in done.stdout
    assert re.search(rf"\bstreamd {target} --url redis://h\n", done.stdout)


def test_the_server_comes_without_spark():
    assert "spark" not in set_up.LEVELS["server"][0]
    assert "demo" in set_up.LEVELS["all"][0]


@pytest.mark.parametrize(
    ("built_from", "reason"),
    [("these sources", ""), ("others", "older than the sources: make compiled"), (None, "not built: make compiled")],
)
def test_the_compiled_form_runs_where_it_is_up_to_date_and_else_a_line_says_why_not(
    tmp_path, monkeypatch, capsys, built_from, reason
):
    ready = tmp_path / ".ready"
    if built_from is not None:
        ready.write_text(built_from)
    monkeypatch.setattr(compiled, "READY", ready)
    monkeypatch.setattr(compiled, "digest", lambda: "these sources")
    became: list[list[str]] = []
    monkeypatch.setattr(run.os, "execv", lambda python, words: became.append(words))
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    run.main(["streamd", "serve"])
    said = capsys.readouterr().err
    python = sys.executable if reason else str(compiled.PYTHON.absolute())
    assert became == [[python, "-m", "streamd", "serve"]]
    assert said.count("\n") == bool(reason)
    assert reason in said
