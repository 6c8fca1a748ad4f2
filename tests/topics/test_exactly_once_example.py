"""The example of a reader that keeps its place together with its results."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.topics.conftest import SERVERS

EXAMPLE = Path(__file__).parents[2] / "examples" / "exactly_once_reader.py"


@pytest.mark.parametrize("client", SERVERS[1:], indirect=True)
def test_a_reader_that_keeps_iterator_and_result_together_counts_each_message_once_though_it_is_killed(client):
    url = f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"
    command = [sys.executable, str(EXAMPLE), "--url", url, "--messages", "1400", "--kills", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "messages 1400, reader killed 2 times, each counted once" in done.stdout
