"""`make demo` as a newcomer meets it: as a process, to its end and interrupted."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.spark


def start(directory: Path, *arguments: str, module: str = "demo") -> subprocess.Popen[str]:
    """Start a demo with its temporary files, and a mark in the environment of all that it starts, in a directory."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(directory), "STREAMD_DEMO_TEST": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A shell that runs the tests in the background has its children ignore Ctrl-C, and they theirs.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def left_over(directory: Path) -> list[str]:
    """Return the commands that were started with this mark and still run, after giving them a moment to end."""
    mark = f"STREAMD_DEMO_TEST={directory}".encode()
    deadline = time.monotonic() + 10
    while True:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
            except OSError:
                continue
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def row(output: str, name: str) -> list[int]:
    """Return the numbers of a row of the demo's last table, one per stream."""
    cells = re.search(rf"^│ {name} +│(.*)│$", output, re.MULTILINE)
    assert cells is not None, output
    return [int(cell.replace(",", "")) for cell in cells[1].split("│")]


@pytest.mark.long
def test_the_demo_loses_nothing_duplicates_nothing_and_leaves_nothing_behind(tmp_path):
    demo = start(tmp_path)
    output, _ = demo.communicate(timeout=330)  # it gives up by itself at 300

    assert demo.returncode == 0, output
    assert "lost 0, duplicated 0" in output
    assert re.search(r"killed the driver \(kill -9\) in batch \d+: [\d,]+ of its [\d,]+ rows were written", output)
    sent, duplicates = row(output, "XADDs sent"), row(output, "duplicates suppressed")
    assert row(output, "entries found") == row(output, "entries expected") == [30_000, 30_000]
    assert row(output, "lost") == row(output, "duplicated") == row(output, "altered") == [0, 0]
    assert min(duplicates) > 0
    assert all(count >= 30_000 + suppressed for count, suppressed in zip(sent, duplicates, strict=True))
    assert "Traceback" not in output
    assert left_over(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_ends_everything_that_it_started(tmp_path, number):
    demo = start(tmp_path)
    assert demo.stdout is not None
    for line in demo.stdout:
        if "Spark driver starts" in line:
            break
    demo.send_signal(number)
    output, _ = demo.communicate(timeout=60)

    assert demo.returncode == 130, output
    assert "Traceback" not in output
    assert left_over(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_feed_that_is_too_short_is_refused_in_one_line(tmp_path):
    demo = start(tmp_path, "--orders", "100")
    output, _ = demo.communicate(timeout=60)

    assert demo.returncode == 2
    assert "at least 20000" in output.splitlines()[-1]
