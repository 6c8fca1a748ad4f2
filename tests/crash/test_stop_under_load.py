"""SIGTERM while clients write with pipelines: the server ends in time, and what it acknowledged is there."""

import signal
import socket
import threading
import time
from pathlib import Path

import pytest
import redis

from tests.integration.process import ServerProcess

WRITERS = 4
PIPELINE = 20
# The process is asked to stop when so many replies have come.
REPLIES_BEFORE = 2_000
STOP_S_MAX = 5.0


class Writer(threading.Thread):
    """Sends pipelines of XADD with idempotent IDs, keeping three of them under way, until the connection ends.

    replies: the entry IDs that came, in the order of the requests: that of number n is replies[n]. sent: how many
    requests were written to the socket, the last of them maybe in part.
    """

    def __init__(self, name: str, port: int) -> None:
        super().__init__(daemon=True)
        self.producer = name.encode()
        self.replies: list[bytes] = []
        self.sent = 0
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.settimeout(60)

    def run(self) -> None:
        rest = b""
        try:
            while True:
                while self.sent - len(self.replies) < 3 * PIPELINE:
                    self._send()
                data = self._socket.recv(65536)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\r\n")
                self.replies += [line for line in lines if not line.startswith(b"$")]
        except OSError:
            pass  # the server has closed it
        finally:
            self._socket.close()

    def _send(self) -> None:
        text = b""
        for number in range(self.sent, self.sent + PIPELINE):
            text_of = b"%d" % number
            words = [b"XADD", b"s", b"IDMP", self.producer, text_of, b"*", b"p", self.producer, b"n", text_of]
            text += b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        self.sent += PIPELINE
        self._socket.sendall(text)


@pytest.mark.parametrize("policy", ["always", "everysec"])
@pytest.mark.parametrize("rewriting", [False, True], ids=["", "while it rewrites"])
def test_a_server_that_is_asked_to_stop_under_load_loses_nothing_that_it_acknowledged(
    tmp_path: Path, policy: str, rewriting: bool
):
    server = ServerProcess(tmp_path, "--appendonly", "yes", "--appendfsync", policy)
    writers = [Writer(f"p{number}", server.port) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    deadline = time.monotonic() + 60
    while sum(len(writer.replies) for writer in writers) < REPLIES_BEFORE:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    if rewriting:
        redis.Redis(port=server.port).bgrewriteaof()
    asked = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0
    took_s = time.monotonic() - asked
    for writer in writers:
        writer.join(10)
    server.stop()
    assert took_s < STOP_S_MAX

    with ServerProcess(tmp_path, "--appendonly", "yes") as again:
        found: dict[bytes, list[tuple[int, bytes]]] = {writer.producer: [] for writer in writers}
        for entry_id, fields in redis.Redis(port=again.port).xrange("s"):
            found[fields[b"p"]].append((int(fields[b"n"]), entry_id))
    for writer in writers:
        # All that was answered, with the IDs that were answered, and behind it some that were not: each of them once.
        numbers, ids = zip(*found[writer.producer], strict=True)
        assert numbers == tuple(range(len(numbers)))
        assert list(ids[: len(writer.replies)]) == writer.replies
        assert len(ids) <= writer.sent
