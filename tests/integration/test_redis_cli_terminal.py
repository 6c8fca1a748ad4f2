"""redis-cli on a terminal: its hints come from COMMAND DOCS, and it crashes on shapes that it does not expect."""

import os
import pty
import select
import shutil
import time
from pathlib import Path

import pytest

from tests.integration.process import ServerProcess

pytestmark = pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not on PATH")

WAIT_S = 20


class Terminal:
    """redis-cli in a pseudo-terminal."""

    def __init__(self, port: int, home: Path) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", HOME=str(home), COLUMNS="200")
            os.execvp("redis-cli", ["redis-cli", "-p", str(port)])
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait_for(self, text: str) -> str:
        """Return what the screen got up to `text`; fails if it does not come."""
        deadline = time.monotonic() + WAIT_S
        while text not in self._seen:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {self._seen!r}"
            if select.select([self._fd], [], [], left)[0]:
                try:
                    self._seen += os.read(self._fd, 65_536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"redis-cli ended; no {text!r} in {self._seen!r}")
        before, _, self._seen = self._seen.partition(text)
        return before + text

    def close(self) -> int:
        """Leave with Ctrl-D and return the exit code."""
        self.type("\x03")
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_redis_cli_shows_hints_and_help_and_lives(tmp_path: Path):
    with ServerProcess(tmp_path) as server:
        terminal = Terminal(server.port, tmp_path)
        terminal.wait_for(f"127.0.0.1:{server.port}> ")
        terminal.type("XADD ")
        hint = terminal.wait_for("field value")
        assert "IDMP" in hint
        terminal.type("s IDMP p i * f v\r")
        terminal.wait_for('-0"')
        terminal.type("XSPLIT ")
        terminal.wait_for("count")
        terminal.type("s - + 1\r")
        terminal.wait_for("(empty array)")
        terminal.type("help xinfo stream\r")
        terminal.wait_for("summary:")
        terminal.type("help @stream\r")
        terminal.wait_for("XTRIM")
        terminal.type("CLIENT INFO\r")
        terminal.wait_for("lib-name=")
        terminal.close()
