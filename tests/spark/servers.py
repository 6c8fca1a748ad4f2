"""Servers for the tests of the data source: streamd as a process, and redis-server where it is installed."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from tests.integration.process import ServerProcess


@contextmanager
def streamd_server(directory: Path, *options: str) -> Iterator[int]:
    """Run streamd; gives its port."""
    with ServerProcess(directory, "--loglevel", "warning", *options) as server:
        yield server.port


@contextmanager
def redis_server(*options: str, port: int | None = None) -> Iterator[int]:
    """Run redis-server without persistence; gives its port. Skips the test where it is not installed."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    port = port or free_port()
    words = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert any("Ready to accept connections" in line for line in process.stdout), "redis-server did not start"
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def client(port: int) -> redis.Redis:
    return redis.Redis(host="127.0.0.1", port=port, protocol=2)
