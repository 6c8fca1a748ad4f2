"""The demo of streams that are larger than memory, in its small form, without Spark."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_finds_each_entry_once_though_the_server_is_killed_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-m", "demo.large", "--no-spark", "--entries", "200000", "--memory-mb", "127"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("killed the server (kill -9)") == 2
    assert done.stdout.count("started it again") == 2
    assert "lost 0, duplicated 0" in done.stdout
    assert "replayed by filter: 200 readings of a device, each once, in order" in done.stdout
    files = re.search(r"segment files +│ +(\d+), (\d+) MB", done.stdout)
    assert files is not None
    assert int(files[2]) >= 5  # of about 8 MB; the others are in memory
    # What takes long says so; and nothing is left.
    assert re.search(r"^demo: [\d,]+ of [\d,]+ readings are written$", done.stderr, re.MULTILINE)
    assert not [*tmp_path.iterdir()]
