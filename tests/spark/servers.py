"""Servers for the tests of the data source: streamd as a process, and Redis 8.10.2."""

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from tests.differential.redis_process import judge
from tests.integration.process import ServerProcess


@contextmanager
def streamd_server(directory: Path, *options: str) -> Iterator[int]:
    """Run streamd; gives its port."""
    with ServerProcess(directory, "--loglevel", "warning", *options) as server:
        yield server.port


@contextmanager
def old_redis_server(*options: str) -> Iterator[int]:
    """Run redis-server 7.0.15, which knows no idempotent IDs; gives its port. Skips the test where there is none."""
    program = shutil.which("redis-server") or pytest.skip("there is no redis-server 7.0.15")
    with redis_server(*options, program=program) as port:
        yield port


@contextmanager
def redis_server(*options: str, port: int | None = None, program: str = "") -> Iterator[int]:
    """Run Redis 8.10.2 without persistence; gives its port. Skips the test where it cannot be made."""
    port = port or free_port()
    words = [
        program or str(judge()),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        *options,
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert any("Ready to accept connections" in line for line in process.stdout), "redis-server did not start"
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=60)


def client(port: int) -> redis.Redis:
    return redis.Redis(host="127.0.0.1", port=port, protocol=2)


class Proxy:
    """Stands between a sink and its server, and breaks connections on purpose.

    cut(n): close the n-th further chunk's connection after the server has its bytes, before the client has the replies.
    hold(n): let n further chunks through, then keep everything back; `holding` is set when that has begun.
    A chunk is what one read of the client's side brings; only those that carry XADD count.
    """

    def __init__(self, port: int) -> None:
        self.target = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.cuts: set[int] = set()
        self.chunks = 0
        self.hold_at: int | None = None
        self.holding = threading.Event()
        self.released = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *numbers: int) -> None:
        with self.lock:
            self.cuts = {self.chunks + number for number in numbers}

    def hold(self, number: int) -> None:
        with self.lock:
            self.hold_at = self.chunks + number

    def close(self) -> None:
        self.released.set()
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            dropped = threading.Event()
            threading.Thread(target=self._forward, args=(client, server, dropped), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client, dropped), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, dropped: threading.Event) -> None:
        with client, server:
            while data := _read(client):
                if b"XADD" in data:
                    with self.lock:
                        self.chunks += 1
                        if self.chunks in self.cuts:
                            dropped.set()
                        holds = self.hold_at is not None and self.chunks > self.hold_at
                    if holds:
                        self.holding.set()
                        self.released.wait()
                        return
                server.sendall(data)
                if dropped.is_set():
                    server.shutdown(socket.SHUT_WR)
                    while _read(server):  # the server is done with what it was given when it closes
                        pass
                    return

    def _answer(self, server: socket.socket, client: socket.socket, dropped: threading.Event) -> None:
        while data := _read(server):
            if dropped.is_set():
                continue
            try:
                client.sendall(data)
            except OSError:
                return


def _read(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except OSError:
        return b""
