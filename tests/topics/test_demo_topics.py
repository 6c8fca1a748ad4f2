"""The demo of topics, without Spark."""

import re
import subprocess
import sys
from pathlib import Path


def test_the_demo_loses_nothing_repeats_nothing_and_keeps_order_though_the_server_is_killed():
    command = [sys.executable, "-m", "demo.topics", "--no-spark", "--every", "20"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("killed the server (kill -9)") == 2
    assert "lost 0, duplicated 0, order kept" in done.stdout
    # What takes long says so, in a line a second.
    assert re.search(r"^demo: [\d,]+ of [\d,]+ messages are worked on$", done.stderr, re.MULTILINE)
