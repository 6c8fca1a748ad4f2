"""Scripts over a socket: redis-py, locks, and a server that answers while a script runs for ever."""

import threading

import pytest
import redis

from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer


@pytest.fixture
def server():
    with EmbeddedServer(clock=Clock(), busy_reply_threshold=50) as server:
        yield server
        assert server.internal_errors == 0


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_registers_and_runs_scripts(server, protocol):
    client = server.client(protocol=protocol)
    script = client.register_script(
        "redis.call('SET', KEYS[1], ARGV[1]) return cjson.encode({value = redis.call('GET', KEYS[1])})"
    )
    assert script(keys=["k"], args=["v"]) == b'{"value":"v"}'
    client.script_flush()
    assert script(keys=["k"], args=["w"]) == b'{"value":"w"}'
    pipe = client.pipeline(transaction=True)
    for number in range(3):
        script(keys=["k"], args=[number], client=pipe)
    assert pipe.execute() == [b'{"value":"%d"}' % number for number in range(3)]


def test_redis_pys_lock_works(server):
    client, other = server.client(), server.client()
    with client.lock("job", timeout=60):
        assert other.lock("job", timeout=60).acquire(blocking=False) is False
    lock = other.lock("job", timeout=60)
    assert lock.acquire(blocking=False)
    lock.extend(60)
    lock.release()
    with pytest.raises(redis.exceptions.LockError):
        lock.release()


@pytest.mark.parametrize(
    "source", ["while true do end", "local co = coroutine.wrap(function() while true do pcall(error) end end) co()"]
)
def test_a_server_answers_while_a_script_runs_for_ever(server, source):
    failed = []

    def run():
        try:
            server.client().eval(source, 0)
        except redis.ResponseError as error:
            failed.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    client = server.client()
    replies = []
    while len(replies) < 3:
        try:
            client.ping()
        except redis.exceptions.ResponseError as error:
            replies.append(str(error))
    assert all("Redis is busy running a script" in text for text in replies)
    client.script_kill()
    thread.join(10)
    assert failed[0].startswith("Script killed by user with SCRIPT KILL...")
    assert client.ping()


def test_clients_pipelines_of_scripts_are_answered_in_order(server):
    client = server.client()
    pipe = client.pipeline(transaction=False)
    sha = client.script_load("return redis.call('INCR', KEYS[1])")
    for _ in range(500):
        pipe.evalsha(sha, 1, "n")
    assert pipe.execute() == list(range(1, 501))
