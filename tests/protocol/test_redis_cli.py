"""redis-cli works with streamd in a terminal: its hints come from COMMAND DOCS, and wrong shapes crash it."""

import os
import pty
import select
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from streamd.testing import EmbeddedServer

pytestmark = [
    pytest.mark.redis,
    pytest.mark.skipif(shutil.which("redis-cli") is None, reason="there is no redis-cli"),
    pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals"),
]

PATIENCE_S = 20


class Terminal:
    """redis-cli in a terminal of 50 lines and 240 columns."""

    def __init__(self, port: int) -> None:
        import fcntl
        import termios

        self.fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 240, 0, 0))
        self.process = subprocess.Popen(
            ["redis-cli", "-p", str(port)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", "REDISCLI_HISTFILE": "/dev/null"},
            start_new_session=True,
        )
        os.close(slave)

    def until(self, expected: bytes) -> bytes:
        """Return what is shown up to and with `expected`."""
        shown = b""
        while expected not in shown:
            assert select.select([self.fd], [], [], PATIENCE_S)[0], shown
            shown += os.read(self.fd, 65536)
        return shown

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def run(self, line: str, expected: bytes) -> bytes:
        """Type a line; return what is shown up to and with `expected`, once the next prompt is there as well.

        redis-cli throws away what is typed while it is not at its prompt.
        """
        self.type(line + "\r")
        shown = self.until(expected)
        if b"> " not in shown.partition(expected)[2]:
            self.until(b"> ")
        return shown

    def close(self) -> None:
        os.close(self.fd)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with EmbeddedServer() as server:
        terminal = Terminal(server.port)
        terminal.until(b"> ")
        yield terminal
        assert terminal.process.poll() is None, "redis-cli has crashed"
        terminal.close()


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("set ", b"[GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|"),
        ("xadd ", b"field value [field value ...]"),
        ("config get ", b"parameter [parameter ...]"),
        ("xinfo stream ", b"key [FULL [COUNT count]]"),
        ("xread ", b"STREAMS key [key ...] id [id ...]"),
    ],
)
def test_a_hint_shows_what_a_command_takes(terminal, typed, hint):
    terminal.type(typed)
    terminal.until(hint)


def test_commands_help_and_completion(terminal):
    terminal.run("set k v", b"OK\r\n")
    assert b"Let a key expire after a number of seconds" in terminal.run("help expire", b"group:")
    terminal.run("help @stream", b"XTRIM")
    terminal.type("client k\t")
    terminal.until(b"CLIENT KILL")
    terminal.type("\x15")
    terminal.run("hello 3", b'"modules" => (empty array)')
    terminal.run("config get hz", b'1# "hz" => "10"')
    terminal.type("subscribe news\r")
    terminal.until(b"(integer) 1")
