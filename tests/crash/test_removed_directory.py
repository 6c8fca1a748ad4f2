"""The journal's directory is removed, moved or lost in part while the server runs: it notices and says so."""

import logging
import shutil
import time
from pathlib import Path

import pytest
import redis

from tests.crash.restartable import DIRECTORY, INCREMENT, Restartable
from tests.crash.sample_journal import JOURNAL
from tests.crash.state_dump import dump
from tests.integration.process import ServerProcess


def second(server: Restartable) -> None:
    """Let a second pass, with what it brings."""
    server.clock.advance(1_001)
    server.engine.cron()
    while server.jobs:
        server.jobs[0].wait()


def test_under_always_nothing_is_acknowledged_any_more():
    server = Restartable()
    assert server.send("SET", "k", "1") == b"+OK\r\n"
    server.disk.remove_directory(JOURNAL.rstrip("/"))
    assert server.send("SET", "k", "2") is None
    assert "cannot sync data/appendonlydir" in server.dead
    assert "no such file" in server.dead.lower()


@pytest.mark.parametrize("lost", [INCREMENT, JOURNAL + "appendonly.aof.manifest"])
def test_under_always_a_loss_is_noticed_within_a_second_though_nobody_writes(lost):
    server = Restartable()
    server.send("SET", "k", "1")
    server.disk.unlink(lost)
    second(server)
    assert server.dead is not None


@pytest.mark.parametrize("policy", ["everysec", "no"])
@pytest.mark.parametrize("lost", [None, INCREMENT, JOURNAL + "appendonly.aof.manifest"])
def test_under_the_others_a_rewrite_puts_all_of_it_into_a_new_directory(policy, lost, caplog):
    server = Restartable(appendfsync=policy)
    server.send("XADD", "s", "IDMP", "p", "1", "*", "f", "v")
    if lost is None:
        server.disk.remove_directory(JOURNAL.rstrip("/"))
    else:
        server.disk.unlink(lost)
    with caplog.at_level(logging.WARNING):
        server.clock.advance(1_001)
        server.engine.cron()
        while server.jobs and server.persistence.fields()["aof_last_write_status"] == "ok":
            server.jobs[0].wait()
    assert server.persistence.fields()["aof_last_write_status"] == "err"
    assert server.send("SET", "k", "2").startswith(b"-MISCONF Errors writing to the AOF file: No such file")
    assert server.send("XLEN", "s") == b":1\r\n"
    assert "No such file" in caplog.text
    assert "writes are refused" in caplog.text
    server.cron()
    assert server.persistence.fields()["aof_last_write_status"] == "ok"
    assert server.send("SET", "k", "3") == b"+OK\r\n"
    assert dump(server.restart().engine) == dump(server.engine)


@pytest.mark.parametrize("policy", ["everysec", "no"])
def test_a_data_directory_that_is_no_longer_this_servers_is_left_alone(policy):
    server = Restartable(appendfsync=policy)
    server.send("SET", "k", "1")
    for directory in (JOURNAL.rstrip("/"), DIRECTORY):
        server.disk.remove_directory(directory)
    other = Restartable(server.disk)  # somebody else's, of the same name
    other.send("SET", "k", "other")
    before = {path: bytes(inode.data) for path, inode in server.disk.names.items()}
    for _ in range(5):
        second(server)
    assert server.send("SET", "k", "2").startswith(b"-MISCONF")
    assert {path: bytes(inode.data) for path, inode in server.disk.names.items()} == before
    assert server.persistence.close() is not None
    assert {path: bytes(inode.data) for path, inode in server.disk.names.items()} == before


@pytest.mark.parametrize("policy", ["everysec", "no"])
def test_a_stop_within_the_second_brings_all_of_it_back(policy):
    server = Restartable(appendfsync=policy)
    server.send("SET", "k", "1")
    server.disk.remove_directory(JOURNAL.rstrip("/"))
    assert server.persistence.close() is None
    assert server.restart().send("GET", "k") == b"$1\r\n1\r\n"


def test_a_process_under_always_ends_with_6_and_under_everysec_keeps_what_it_acknowledged(tmp_path: Path):
    for policy in "always", "everysec":
        directory = tmp_path / policy
        server = ServerProcess(directory, "--appendonly", "yes", "--appendfsync", policy)
        client = redis.Redis(port=server.port, retry=None)
        client.set("before", 1)
        shutil.rmtree(directory / "appendonlydir")
        acknowledged = 0
        try:
            for number in range(100):
                client.set(f"k{number}", 1)
                acknowledged += 1
        except redis.RedisError:
            pass
        if policy == "always":
            assert acknowledged == 0
            server.process.wait(10)
        else:
            until = time.monotonic() + 60
            while not (directory / "appendonlydir" / "appendonly.aof.manifest").exists() and time.monotonic() < until:
                time.sleep(0.05)
        code, _, errors = server.stop()
        assert code == (6 if policy == "always" else 0)
        assert "No such file" in errors
        if policy == "everysec":
            with ServerProcess(directory, "--appendonly", "yes") as again:
                assert redis.Redis(port=again.port).dbsize() == 1 + acknowledged


def test_a_process_whose_data_directory_is_gone_does_not_end_with_0(tmp_path: Path):
    directory = tmp_path / "data"
    server = ServerProcess(directory, "--appendonly", "yes", "--appendfsync", "everysec")
    redis.Redis(port=server.port).set("k", 1)
    shutil.rmtree(directory)
    code, _, errors = server.stop()
    assert code == 6
    assert "No such file" in errors
