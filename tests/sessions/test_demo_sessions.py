"""The demo of sessions, in its short form."""

import re
import subprocess
import sys
from pathlib import Path


def test_every_message_arrives_once_and_in_order_though_broker_and_server_are_killed():
    command = [sys.executable, "-m", "demo.sessions", "--devices", "40", "--messages", "12"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("(kill -9)") == 4
    assert "packet IDs began again at 1 on 40 devices" in done.stdout
    assert "lost 0, twice 0, order kept, left behind 0" in done.stdout
    # What takes long says so, in a line a second.
    # A demo that is done within a second has nothing to say on its way.
    assert not done.stderr or re.search(r"^demo: stored [\d,]+ of 480, delivered [\d,]+$", done.stderr, re.MULTILINE)
