"""Scripts and kill -9: after it each script has happened whole, or not at all."""

import threading

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from streamd.clients.sessions import DeviceStore, Message
from tests.crash.cut_loop import cut_at
from tests.crash.restartable import INCREMENT, Restartable
from tests.integration.process import ServerProcess

# Writes the same number to keys of several types; what it replaces it reads first.
SPREAD = """
local number = redis.call('INCR', KEYS[1])
for i = 1, 8 do redis.call('SET', KEYS[1] .. ':' .. i, number) end
redis.call('ZADD', KEYS[1] .. ':zset', number, 'member')
redis.call('RPUSH', KEYS[1] .. ':list', number)
redis.call('HSET', KEYS[1] .. ':hash', 'field', number)
redis.call('XADD', KEYS[1] .. ':stream', number .. '-1', 'n', number)
return number
"""


def check_spread(ask, name):
    """All that the script writes is of the same run of it; return which one."""
    number = int(ask("GET", name) or 0)
    wanted = str(number).encode() if number else None
    assert [ask("GET", f"{name}:{i}") for i in range(1, 9)] == [wanted] * 8
    assert float(ask("ZSCORE", f"{name}:zset", "member") or 0) == number
    assert int(ask("LLEN", f"{name}:list")) == number
    assert ask("HGET", f"{name}:hash", "field") == wanted
    assert int(ask("XLEN", f"{name}:stream")) == number
    return number


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_a_journal_cut_at_any_byte_has_whole_scripts(in_pipeline):
    server = Restartable()
    requests = [[b"EVAL", SPREAD.encode(), b"1", b"k"] for _ in range(3)]
    ends = [len(server.disk.names[INCREMENT].data)]
    for part in [requests] if in_pipeline else [[one] for one in requests]:
        server.run(*part)
        server.end_turn()
        ends.append(len(server.disk.names[INCREMENT].data))
    found = set()
    for length in [*range(ends[0], ends[-1], 1 if not in_pipeline else 3), ends[-1]]:
        engine = Restartable(cut_at(server.disk, length)).engine
        client = engine.connect()

        def ask(*words, engine=engine, client=client):
            return engine.call(client, [word.encode() for word in words])

        number = check_spread(ask, "k")
        if not in_pipeline:
            assert number == sum(end <= length for end in ends[1:])
        found.add(number)
    assert found == {0, 1, 2, 3}


def test_a_killed_server_has_whole_scripts_and_all_that_it_acknowledged(tmp_path):
    known = [0] * 4
    stored = [0] * 4

    def work(number, port):
        client = redis.Redis(port=port, retry=Retry(NoBackoff(), 0))
        store = DeviceStore(client)
        try:
            while True:
                known[number] = client.eval(SPREAD, 1, f"k{number}")
                (stored[number],) = store.add(f"c{number}", Message("t", b"%d" % (stored[number] + 1)))
        except redis.RedisError:
            return

    lives = 0
    for _ in range(4):
        server = ServerProcess(tmp_path, "--bind", "127.0.0.1", "--appendonly", "yes")
        try:
            client = redis.Redis(port=server.port)
            for number in range(4):
                count = check_spread(client.execute_command, f"k{number}")
                assert count in (known[number], known[number] + 1)
                messages = DeviceStore(client).get(f"c{number}")
                assert len(messages) in (stored[number], stored[number] + 1)
                assert [message.packet_id for message in messages] == [*range(1, len(messages) + 1)]
                assert [int(message.payload) for message in messages] == [*range(1, len(messages) + 1)]
                session = DeviceStore(client).session(f"c{number}")
                assert (session.last_packet_id if session else 0) == len(messages)
                known[number], stored[number] = count, len(messages)
            threads = [threading.Thread(target=work, args=(number, server.port)) for number in range(4)]
            for thread in threads:
                thread.start()
            wanted = [number + 15 for number in known]
            while any(one < least for one, least in zip(known, wanted, strict=True)):
                assert any(thread.is_alive() for thread in threads)
            server.process.kill()
            for thread in threads:
                thread.join(20)
            lives += 1
        finally:
            server.process.kill()
            server.process.communicate()
    assert lives == 4
    assert min(known) >= 45
