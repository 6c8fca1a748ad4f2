"""Which Python `make` takes, and how a table names it."""

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
import python_build
import set_up

ROOT = Path(__file__).resolve().parents[2]

# A Python that answers as it is told: its build, and whether it can make a virtual environment.
FAKE = """#!/bin/sh
case "$1 $2" in
    scripts/python_build.py*) exit {build} ;;
    *ensurepip*) exit {ensurepip} ;;
    "-c import sys"*) exit 0 ;;
esac
echo "taken: $0"
"""


@pytest.mark.parametrize(
    ("arguments", "prefix", "release", "is_optimised"),
    [
        ("'--enable-optimizations' '--with-lto'", "/opt/python", None, True),
        ("'--enable-shared'", "/opt/python", {"ID": "debian"}, False),
        ("'--enable-shared'", "/usr", {"ID": "debian", "PRETTY_NAME": "Debian"}, True),
        ("'--enable-shared'", "/usr", {"ID": "mint", "ID_LIKE": "ubuntu debian", "PRETTY_NAME": "Mint"}, True),
        ("'--enable-shared'", "/usr", {"ID": "other", "PRETTY_NAME": "Other"}, False),
        ("'--enable-shared'", "/usr", None, False),
    ],
)
def test_an_optimised_build_says_so_or_is_debians(monkeypatch, arguments, prefix, release, is_optimised):
    def of_system():
        if release is None:
            raise OSError
        return release

    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: arguments)
    monkeypatch.setattr(platform, "freedesktop_os_release", of_system)
    monkeypatch.setattr(sys, "base_prefix", prefix)
    assert python_build.is_optimised() is is_optimised
    words = python_build.described()
    assert words.startswith(platform.python_version())
    assert words.endswith(f"{'with' if is_optimised else 'without'} profile-guided optimisation")
    if prefix == "/usr" and release:
        assert f" of {release['PRETTY_NAME']} " in words


def place(tmp_path, pythons):
    """Return a directory with set_up.sh and the files that it reads, and one with these fake Pythons."""
    work, programs = tmp_path / "work", tmp_path / "bin"
    (work / "scripts").mkdir(parents=True)
    programs.mkdir()
    for name in ("pyproject.toml", "constraints.txt", "scripts/set_up.py"):
        (work / name).touch()
    text = (ROOT / "scripts" / "set_up.sh").read_text().replace('"/usr/bin/$python"', f'"{tmp_path}/usr/$python"')
    (work / "scripts" / "set_up.sh").write_text(text)
    for name, (build, ensurepip) in pythons.items():
        program = programs / name
        program.write_text(FAKE.format(build=build, ensurepip=ensurepip))
        program.chmod(0o755)
    for tool in ("cksum", "cat"):
        (programs / tool).symlink_to(f"/usr/bin/{tool}")
    return work, programs


def chosen(work, programs, **variables):
    environment = {"PATH": str(programs), **variables}
    done = subprocess.run(["/bin/sh", "scripts/set_up.sh", "server"], cwd=work, env=environment, capture_output=True)
    said = done.stdout.decode().splitlines()
    return [Path(line.removeprefix("taken: ")).name for line in said if line.startswith("taken: ")], said


@pytest.mark.parametrize(
    ("pythons", "wanted", "is_said"),
    [
        # name: exit codes of "built with optimisation" and "can make a virtual environment"
        ({"python3": (1, 0), "python3.11": (0, 0), "python3.12": (0, 0)}, "python3.11", False),
        ({"python3": (1, 0), "python3.11": (1, 0)}, "python3", False),
        ({"python3": (1, 0), "python3.11": (0, 1)}, "python3", True),
        ({"python3": (1, 1), "python3.11": (1, 0)}, "python3.11", False),
        ({"python3": (0, 1)}, "python3", False),
        ({"python3": (1, 1)}, "python3", False),
    ],
)
def test_make_takes_an_optimised_python_that_can_make_an_environment(tmp_path, pythons, wanted, is_said):
    taken, said = chosen(*place(tmp_path, pythons))
    assert taken == [wanted]
    assert any("python3-venv" in line for line in said) is is_said


def test_a_python_that_is_named_is_taken_as_it_is(tmp_path):
    work, programs = place(tmp_path, {"python3": (0, 0), "python3.12": (1, 0)})
    assert chosen(work, programs, PYTHON="python3.12")[0] == ["python3.12"]


@pytest.mark.parametrize(
    ("here", "there", "is_said"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_an_environment_keeps_its_python_and_a_line_says_which_one_takes_less_cpu(
    tmp_path, monkeypatch, capsys, here, there, is_said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "kept").touch()
    monkeypatch.setattr(set_up, "works", lambda python: True)
    monkeypatch.setattr(set_up, "remove_earlier_name", lambda python: None)
    monkeypatch.setattr(set_up, "install", lambda *words: None)
    monkeypatch.setattr(set_up, "is_optimised", lambda: here)
    monkeypatch.setattr(set_up, "asked_of", lambda python: there)
    assert set_up.main("x", "server") == 0
    assert (tmp_path / ".venv" / "kept").exists()
    assert ("keeps its Python" in capsys.readouterr().out) is is_said


def test_another_python_is_asked_how_it_was_built():
    assert set_up.asked_of(Path(sys.executable)) is python_build.is_optimised()
    assert os.access(set_up.PYTHON_BUILD, os.R_OK)
