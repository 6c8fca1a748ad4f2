"""The package is installed under a name of its own: `streamd` is another project on the package index."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from streamd.distribution import NAME, install_line

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".md", ".py", ".toml", ".sh", ".service", ".yml", ".ipynb", ".txt", ""}
# The other project's name, where something is installed: `pip install streamd`, `'streamd[ui]'`, `streamd==0.1`.
TAKEN = re.compile(r"pip[^\n]* install [^\n`;#]*(?<![\w./-])streamd(?![\w./-])|(?<![\w./-])streamd(?:\[[a-z]|[=<>~!]=)")


def files() -> list[Path]:
    """Files of the repository, but those that hold foreign input, and this one."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("no git here, which lists the files")
    found = [ROOT / name for name in listed.stdout.splitlines() if not name.startswith("tests/fuzz/corpus")]
    return [path for path in found if path.suffix in SUFFIXES and path != Path(__file__) and path.is_file()]


def test_nothing_names_the_package_of_another_project():
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in files()
        for found in TAKEN.finditer(path.read_text("utf-8", errors="replace"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ('pip install "streamd[ui]"', True),
        ("pip install -U streamd", True),
        ("/opt/streamd/bin/pip install streamd", True),
        ("streamd==0.1.0", True),
        ('ui = ["streamd[client]"]', True),
        ("pip install '.[ui]'; streamd ui", False),
        ("pip install 'streamd-server[ui]'", False),
        ("/opt/streamd/bin/pip install dist/streamd_server-0.1.0.whl", False),
    ],
)
def test_the_search_finds_the_other_name_alone(text, is_taken):
    assert bool(TAKEN.search(text)) is is_taken


def test_the_project_has_the_name_that_messages_say():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == NAME
    assert install_line("ui") == f"pip install '{NAME}[ui]'"
