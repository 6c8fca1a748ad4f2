"""Libraries of functions outlive a server: in its journal, in a rewritten one, in Redis's, and after a kill."""

import os
from pathlib import Path

import pytest
import redis
from redis.exceptions import ResponseError

from bench.ports import free_port
from streamd.lua import runtime as runtime_module
from tests.crash.restartable import Restartable
from tests.crash.test_redis_reads_it import RedisProcess, rewrite
from tests.differential.redis_process import needs_redis
from tests.integration.process import ServerProcess

LIBRARY = "#!lua name={}\nredis.register_function('{}', function(keys, args) return redis.call('INCR', keys[1]) end)"
FIRST, SECOND, THIRD = (LIBRARY.format(name, f"f_{name}") for name in ("one", "two", "three"))


def names(client: redis.Redis) -> list[bytes]:
    """Return the names of the libraries."""
    return sorted(library[1] for library in client.function_list())


@pytest.mark.parametrize("rewritten", [False, True], ids=["increment", "base"])
def test_functions_and_their_effects_are_there_after_a_restart(rewritten):
    server = Restartable()
    assert server.send("FUNCTION", "LOAD", FIRST) == b"$3\r\none\r\n"
    server.send("FUNCTION", "LOAD", SECOND)
    server.send("FUNCTION", "DELETE", "one")
    server.send("FUNCTION", "LOAD", THIRD)
    dumped = server.send("FUNCTION", "DUMP")
    assert server.send("FCALL", "f_two", "1", "k") == b":1\r\n"
    server.send("FLUSHDB")
    server.send("FCALL", "f_two", "1", "k")
    if rewritten:
        server.send("BGREWRITEAOF")
        for _ in range(20):
            server.cron()
            server.end_turn()
    again = server.restart()
    assert again.send("FUNCTION", "DUMP") == dumped
    assert again.send("GET", "k") == b"$1\r\n1\r\n"
    assert again.send("FCALL", "f_three", "1", "k") == b":2\r\n"
    assert again.send("FCALL", "f_one", "1", "k") == b"-ERR Function not found\r\n"


def test_a_dump_that_was_restored_is_there_after_a_restart():
    server = Restartable()
    server.send("FUNCTION", "LOAD", FIRST)
    dumped = server.send("FUNCTION", "DUMP")
    payload = dumped.partition(b"\r\n")[2][:-2]
    server.send("FUNCTION", "FLUSH")
    assert server.send("FUNCTION", "RESTORE", payload) == b"+OK\r\n"
    assert server.restart().send("FUNCTION", "DUMP") == dumped


def test_a_server_that_was_killed_has_its_functions(tmp_path: Path):
    options = "--appendonly", "yes", "--appendfsync", "always"
    with ServerProcess(tmp_path, *options) as server:
        client = redis.Redis(port=server.port, protocol=2)
        assert client.function_load(FIRST) == b"one"
        assert client.fcall("f_one", 1, "k") == 1
        server.process.kill()
        server.process.wait(10)
    with ServerProcess(tmp_path, *options) as server:
        client = redis.Redis(port=server.port, protocol=2)
        assert client.fcall("f_one", 1, "k") == 2
        with pytest.raises(ResponseError, match="already exists"):
            client.function_load(FIRST)


@needs_redis
@pytest.mark.parametrize("saved", [False, True], ids=["increment", "base"])
def test_functions_go_to_redis_and_back(tmp_path: Path, saved: bool):
    port = free_port()
    with ServerProcess(tmp_path, "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port, protocol=2)
        client.function_load(FIRST)
        assert client.fcall("f_one", 1, "k") == 1
        if saved:
            client.save()
    with RedisProcess("8.10.2", tmp_path, port) as client:
        assert client.fcall("f_one", 1, "k") == 2
        client.function_load(SECOND)
        client.function_delete("one")
        client.function_load(THIRD)
        if saved:
            rewrite(client, "redis")
    with ServerProcess(tmp_path, "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port, protocol=2)
        assert names(client) == [b"three", b"two"]
        assert client.fcall("f_two", 1, "k") == 3


@pytest.mark.skipif(os.environ.get("STREAMD_TEST_FORM") == "compiled", reason="compiled modules cannot be patched")
def test_a_journal_with_functions_is_not_loaded_without_lua(monkeypatch):
    def missing() -> None:
        raise runtime_module.NoLua

    server = Restartable()
    server.send("FUNCTION", "LOAD", FIRST)
    monkeypatch.setattr(runtime_module, "_lua", missing)
    with pytest.raises(Exception, match=r"holds functions, which need Lua: pip install 'streamd-server\[lua\]'"):
        server.restart()
    monkeypatch.undo()
    assert server.restart().send("FCALL", "f_one", "1", "k") == b":1\r\n"
