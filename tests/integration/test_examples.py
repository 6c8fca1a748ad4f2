"""The examples run and end well."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_worker_group_does_each_job_once_although_a_worker_is_killed():
    command = [sys.executable, str(EXAMPLES / "worker_group.py"), "--jobs", "600"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed 1, results 600" in done.stdout
    assert "lost 0, duplicated 0" in done.stdout
