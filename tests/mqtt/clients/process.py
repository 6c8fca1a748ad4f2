"""A gateway with a server of its own, as a process, for clients that are not ours."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 60


@contextmanager
def gateway(directory: Path | None, *options: str, python: str = sys.executable) -> Iterator[int]:
    """Start `streamd mqtt`, return its port, and end it; nothing of its own doing may have gone wrong.

    directory: of its own server; None for the one that the options name.
    """
    words = [python, "-m", "streamd", "mqtt", "--port", "0", "--retention", "3600", *options]
    if directory is not None:
        words += ["--dir", str(directory)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            port = 0
            assert process.stdout is not None
            for line in process.stdout:
                if line.split()[:1] == ["mqtt"]:
                    port = int(line.rpartition(":")[2])
                if line.strip() == "ready":
                    break
            else:
                raise AssertionError(f"the gateway did not start: {process.communicate()[1]}")
            yield port
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, errors
    assert "internal error" not in errors
    assert "Traceback" not in errors
