"""The commands of docs/large-streams.md, in their order, in one directory."""

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer
from tests.documents.blocks import blocks_for
from tests.documents.test_shell_blocks import Shell, lines_of

ENTRIES = 30_000


class Machine:
    """A shell, and the server that a line of it has started last."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.files: list[int] = []  # how many segment files there were behind each block

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.shell.port)

    def run(self, line: str) -> None:
        line = self.shell.of_this_place(line)
        if line.startswith("streamd check"):
            self.shell.end()  # it wants the directory for itself
            self.shell.serving.clear()
        if line.startswith(("streamd serve", "redis-server")):
            self.shell.end()
            self.shell.serving.clear()
            self.shell.start(line)
            return
        done = self.shell.run(line)
        assert done.returncode == 0, f"{line}: {done.stdout}"

    def fill(self) -> None:
        """Write a stream, and have what can be moved moved."""
        client, chance = self.client(), random.Random(3)
        for _ in range(0, ENTRIES, 1_000):
            with client.pipeline(transaction=False) as pipe:
                for _ in range(1_000):
                    pipe.xadd("telemetry", {"data": chance.randbytes(100)})
                pipe.execute()
        self.rewrite()

    def rewrite(self) -> None:
        client = self.client()
        before = client.info("persistence")["aof_rewrites"]
        client.bgrewriteaof()
        self.wait_for_rewrites(before + 1)

    def wait_for_rewrites(self, count: int) -> None:
        client = self.client()
        while (info := client.info("persistence"))["aof_rewrites"] < count or info["aof_rewrite_in_progress"]:
            pass


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with EmbeddedServer(Clock()) as aside:  # whose port no other program gets
        shell = Shell(tmp_path, aside)
    shell.environment |= {"STREAMD_PORT": str(shell.port), "STREAMD_BIND": "127.0.0.1"}
    (tmp_path / "stand-ins" / "redis-cli").write_text(
        f'#!/bin/sh\nexec {shutil.which("redis-cli")} -p {shell.port} "$@"\n'
    )
    (tmp_path / "var" / "lib" / "streamd").mkdir(parents=True)
    (tmp_path / "backups").mkdir()
    machine = Machine(shell)
    yield machine
    for process in shell.serving:
        process.kill()
        process.wait()


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server")
def test_the_commands_of_the_document_do_what_it_says(machine):
    serve, look, check, backup, back, export = [lines_of(one.text) for one in blocks_for(__file__)]
    directory = machine.shell.place / "var" / "lib" / "streamd" / "appendonlydir"

    for line in (*serve, *look):
        machine.run(line)
    assert machine.client().config_get("stream-memory") == {"stream-memory": str(1024**3)}
    machine.fill()
    info = machine.client().info("persistence")
    assert info["cold_bytes"] > 100 * ENTRIES // 2
    assert len([*directory.glob("appendonly.aof.*.seg")]) == info["cold_files"] > 0

    for line in (*check, *serve, *backup):
        machine.run(line)
    assert [*(machine.shell.place / "backups" / "large" / "appendonlydir").glob("*.seg")]

    machine.shell.end()
    machine.shell.serving.clear()
    refused = subprocess.run(
        [
            shutil.which("redis-server") or "",
            "--dir",
            directory.parent,
            "--appendonly",
            "yes",
            "--port",
            str(machine.shell.port),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 1
    assert "Unknown command 'STREAMCOLD'" in refused.stdout

    for line in export:
        machine.run(line)
    assert machine.client().xlen("telemetry") == ENTRIES

    for line in back:
        machine.run(line)
    machine.wait_for_rewrites(1)
    assert machine.client().xlen("telemetry") == ENTRIES
    while [*directory.glob("*.seg")]:
        pass
