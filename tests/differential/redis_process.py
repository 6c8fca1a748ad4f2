"""Redis 8.10.2, the judge of tests that compare, and clients that return the bytes it sends."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.ports import free_port
from scripts.newest_redis import NoRedis, newest_redis

# Marks the tests that start the judge: they are counted, see tests/judged.py.
needs_redis = pytest.mark.redis


def judge() -> Path:
    """Return the program of Redis 8.10.2. Without it the test is skipped, or fails where MUST_COMPARE=true."""
    try:
        return newest_redis()
    except NoRedis as error:
        if os.environ.get("MUST_COMPARE") == "true":
            raise
        pytest.skip(f"no Redis 8.10.2 to compare with: {error}")


class RawClient:
    """A connection: words in, bytes out."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # not behind an acknowledgement
        self.socket.settimeout(60)

    def send(self, *requests: list[bytes]) -> None:
        self.socket.sendall(b"".join(encode_request(words) for words in requests))

    def ask(self, words: list[bytes]) -> bytes:
        """Return the reply to one request."""
        self.send(words)
        data = b""
        while not complete_replies(data):
            data += self.receive()
        return data

    def receive(self) -> bytes:
        """Return what is there, or comes next."""
        data = self.socket.recv(1 << 16)
        assert data, "redis-server closed the connection"
        return data

    def arrived(self) -> bytes:
        """Return what is there, without waiting."""
        self.socket.setblocking(False)
        data = b""
        try:
            while more := self.socket.recv(1 << 16):
                data += more
        except BlockingIOError:
            pass
        except ConnectionResetError:
            pass
        self.socket.settimeout(60)
        return data

    def close(self) -> None:
        self.socket.close()


def encode_request(words: list[bytes]) -> bytes:
    """Return a request in RESP."""
    return b"*%d\r\n%b" % (len(words), b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))


def complete_replies(data: bytes) -> int:
    """Return how many whole replies the bytes hold."""
    found, missing, at = 0, 1, 0
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return found
        kind, head, at = data[at : at + 1], data[at + 1 : end], end + 2
        missing -= 1
        if kind in b"$=" and head != b"-1":
            at += int(head) + 2
            if at > len(data):
                return found
        elif kind in b"*~>%" and head != b"-1":
            missing += int(head) * (2 if kind == b"%" else 1)
        if not missing:
            found += 1
            missing = 1


@contextmanager
def running_redis(directory: Path, server: Path | None = None, *options: str) -> Iterator[int]:
    """Start a Redis without persistence on a free port, and return the port.

    server: another program than that of Redis 8.10.2. options: words behind those given here, which they override.
    """
    port = free_port()
    words = f"--port {port} --bind 127.0.0.1 --appendonly no --enable-debug-command yes --save".split()
    command = [server or judge(), *words, "", *options]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if b"Ready to accept connections" in line:
                break
        yield port
    finally:
        process.kill()
        process.communicate()
