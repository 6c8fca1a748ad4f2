"""The example of a reader that keeps its place together with its results."""

import subprocess
import sys
from pathlib import Path

from streamd.testing import Clock, EmbeddedServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "exactly_once_reader.py"


def test_a_reader_that_keeps_iterator_and_result_together_counts_each_message_once_though_it_is_killed():
    with EmbeddedServer(Clock()) as server:
        url = f"redis://127.0.0.1:{server.port}"
        command = [sys.executable, str(EXAMPLE), "--url", url, "--messages", "700", "--kills", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "messages 700, reader killed 1 times, each counted once" in done.stdout
