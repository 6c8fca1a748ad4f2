"""Servers that `streamd bench` starts for itself, in memory, on free ports of 127.0.0.1."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Final

from streamd.clients.terminal.failing import Unreachable

_START_S: Final = 30.0
_STOP_S: Final = 10.0


class OwnServer:
    """A server process in a directory of its own, gone when the block ends. kind: "streamd" or "redis-server"."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __enter__(self) -> "OwnServer":
        self._directory = tempfile.TemporaryDirectory(prefix="streamd-bench-")
        port = 0 if self.kind == "streamd" else _free_port()
        program = [sys.executable, "-m", "streamd", "serve", "--loglevel", "warning"]
        if self.kind != "streamd":
            program = [self.kind, "--save", ""]
        words = ["--port", str(port), "--bind", "127.0.0.1", "--dir", self._directory.name, "--appendonly", "no"]
        # Ctrl-C is for this program, which then ends its servers: hence a group of their own.
        self._process = subprocess.Popen(
            [*program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
        )
        try:
            self.url = f"redis://127.0.0.1:{self._wait(port)}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._directory.cleanup()

    def _wait(self, port: int) -> int:
        """Return the port when the server has reported that it is ready. Raises: Unreachable."""
        assert self._process.stdout is not None
        out, said, deadline_s = self._process.stdout.fileno(), b"", time.monotonic() + _START_S
        while (left_s := deadline_s - time.monotonic()) > 0:
            if not select.select([out], [], [], left_s)[0]:
                break
            data = os.read(out, 1 << 16)
            said += data
            at = said.rfind(b"Ready to accept connections")
            if at >= 0 and b"\n" in said[at:]:
                line = said[at:].split(b"\n")[0]
                return port or int(line.rpartition(b":")[2])
            if not data:
                break
        last = said.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise Unreachable(f"{self.kind} did not start: {last[0]}; give a running server with --url")


def is_installed(name: str) -> bool:
    """Return whether a program is on PATH."""
    return shutil.which(name) is not None


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
