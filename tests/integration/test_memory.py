"""What a server's memory comes back to when what filled it is gone."""

import re
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.differential.redis_process import encode_request
from tests.integration.process import ServerProcess

STREAMS = 100_000
AT_ONCE = 100
ROUNDS = 2
# A pool of small objects with one survivor in it stays; arenas that once held hundreds of times as many must not.
GROWN_AT_MOST = 2.5
QUIET_S = 30


def private_bytes(pid: int) -> int:
    """Return what a process alone holds, without the files it has mapped."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"Pss_Anon:\s+(\d+) kB", text)[1]) * 1024


class Client:
    """A connection that sends pipelines and reads as many replies."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")

    def ask(self, *requests: list[bytes]) -> bytes:
        """Return the first line of the last reply, all of which are bulk strings or one line."""
        self.socket.sendall(b"".join(map(encode_request, requests)))
        for _ in requests:
            line = self.file.readline()
            if line.startswith(b"$"):
                self.file.read(int(line[1:]) + 2)
        return line


@pytest.mark.skipif(
    sys.platform != "linux" or not Path("/proc/self/smaps_rollup").exists(), reason="wants Linux's smaps_rollup"
)
def test_memory_comes_back_when_many_streams_are_gone(tmp_path):
    with ServerProcess(tmp_path) as server:
        client = Client(server.port)
        client.ask([b"PING"])
        at_start = private_bytes(server.process.pid)
        peak = 0
        for _ in range(ROUNDS):
            names = [b"%d" % number for number in range(STREAMS)]
            parts = [names[at : at + AT_ONCE] for at in range(0, STREAMS, AT_ONCE)]
            for part in parts:
                client.ask(*[[b"XADD", b"s:" + name, b"IDMP", b"p" + name, b"i", b"*", b"f", b"v"] for name in part])
            peak = max(peak, private_bytes(server.process.pid))
            for part in parts:
                assert client.ask([b"DEL", *[b"s:" + name for name in part]]) == b":%d\r\n" % AT_ONCE
        assert client.ask([b"DBSIZE"]) == b":0\r\n"

        until = time.monotonic() + QUIET_S  # a rewrite of the journal may still be under way
        left = peak
        while left >= GROWN_AT_MOST * at_start and time.monotonic() < until:
            assert client.ask([b"MEMORY", b"PURGE"]) == b"+OK\r\n"
            left = private_bytes(server.process.pid)
        assert peak > 5 * at_start
        assert left < GROWN_AT_MOST * at_start, f"{at_start:,} bytes at the start, {left:,} left of {peak:,}"
