"""The journal ends and begins while the server runs: what the directory then brings back, whatever fails."""

import errno
from pathlib import Path

import pytest
import redis

from tests.crash.histories import SMALL, play
from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump
from tests.integration.process import ServerProcess


def test_a_journal_that_ended_keeps_what_was_until_then_and_one_that_began_all():
    server = Restartable()
    play(server, SMALL[:5])
    until_then = dump(server.engine)
    server.turn_off()
    play(server, SMALL[5:])
    assert dump(server.restart().engine) == until_then

    server.turn_on()
    assert dump(server.restart().engine) == until_then  # as in Redis, until the first rewrite has ended
    play(server, ["XADD s IDMP p9 meanwhile * f v"])
    server.cron()
    play(server, ["XADD s IDMP p9 afterwards * f v"])
    after = server.restart()
    assert dump(after.engine) == dump(server.engine)
    assert after.persistence.cut is None


def test_a_stop_before_the_first_rewrite_has_ended_ends_it():
    server = Restartable()
    server.turn_off()
    play(server, SMALL)
    server.turn_on()
    play(server, ["XADD s IDMP p9 last * f v"])
    server.persistence.close()
    assert dump(server.restart().engine) == dump(server.engine)


@pytest.mark.parametrize("fails_for", [1, 10**9], ids=["once", "for good"])
@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_whichever_operation_fails_there_is_the_old_state_or_the_new_one(policy, fails_for):
    place = 0
    while True:
        place += 1
        server = Restartable(appendfsync=policy)
        play(server, SMALL[:5])
        states = [dump(server.engine)]
        server.turn_off()
        play(server, SMALL[5:])
        server.disk.failure, server.disk.fails_for = errno.EIO, fails_for
        server.disk.fail_at = server.disk.operations + place
        try:
            server.turn_on()
        except OSError:
            assert dump(server.restart().engine) == states[0]
            assert server.send("SET", "k", "goes on") == b"+OK\r\n"
            continue
        states.append(dump(server.engine))
        play(server, ["XADD s IDMP p9 meanwhile * f v"])
        states.append(dump(server.engine))
        server.cron()
        server.clock.advance(1_000)
        server.cron()
        found = dump(server.restart().engine)
        assert found in states
        if server.dead is None and fails_for == 1:
            assert found == states[-1]
            assert not server.persistence.journal.is_unsaved
        if not server.disk.failed:
            break
    assert place > 20


def test_clients_turn_it_off_and_on(tmp_path: Path):
    with ServerProcess(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        client = redis.Redis(port=server.port)
        client.set("before", 1)
        assert client.config_set("appendonly", "no")
        assert client.info("persistence")["aof_enabled"] == 0
        with pytest.raises(redis.ResponseError, match="appendonly is disabled"):
            client.execute_command("WAITAOF", 1, 0, 0)
        client.set("between", 2)
        (tmp_path / "appendonlydir" / "appendonly.aof.manifest").rename(tmp_path / "aside")
        (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_text("no manifest")
        with pytest.raises(redis.ResponseError, match=r"'appendonly'.* - Unable to turn on AOF\. Check server logs"):
            client.config_set("appendonly", "yes")
        assert client.config_get("appendonly") == {"appendonly": "no"}
        (tmp_path / "aside").rename(tmp_path / "appendonlydir" / "appendonly.aof.manifest")
        assert client.config_set("appendonly", "yes")
        client.set("after", 3)
        assert client.execute_command("WAITAOF", 1, 0, 10_000) == [1, 0]
        server.process.kill()
    with ServerProcess(tmp_path, "--appendonly", "yes") as server:
        assert redis.Redis(port=server.port).mget("before", "between", "after") == [b"1", b"2", b"3"]


def test_a_new_policy_holds_for_the_reply_that_sets_it_and_after():
    server = Restartable(appendfsync="no", at_once=False)
    server.send("SET", "k", "1")
    assert not server.jobs
    assert server.send("CONFIG", "SET", "appendfsync", "always") is None  # held until what came before is synced
    server.jobs[0].wait()
    assert server.replies[server.client][-1] == b"+OK\r\n"
    assert server.send("SET", "k", "2") is None
    assert server.send("CONFIG", "SET", "appendfsync", "everysec") is None  # behind a reply that waits
    server.jobs[0].wait()
    assert server.send("SET", "k", "3") == b"+OK\r\n"
