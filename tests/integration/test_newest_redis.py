"""The newest Redis that tests compare with: what is made, and what is said where it cannot be."""

import pytest

from scripts import newest_redis as newest
from tests.differential.redis_process import RawClient, running_redis


def test_the_newest_redis_is_the_version_that_is_pinned_and_knows_idempotent_ids(newest_redis, tmp_path):
    with running_redis(tmp_path, newest_redis) as port:
        client = RawClient(port)
        first = client.ask([b"XADD", b"s", b"IDMP", b"p", b"i", b"*", b"f", b"v"])
        assert client.ask([b"XADD", b"s", b"IDMP", b"p", b"i", b"*", b"f", b"v"]) == first
        assert f"redis_version:{newest.VERSION}".encode() in client.ask([b"INFO", b"server"])
        client.close()


def test_a_system_that_has_no_such_binary_is_told_in_one_line_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "sparc")
    with pytest.raises(newest.NoRedis, match=r"^Redis 8\.10\.2 is to be had for Linux on x86-64 alone$"):
        newest.newest_redis(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_program_of_another_version_is_not_taken_for_it(tmp_path):
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho 'Redis server v=7.0.15 sha=0'\n")
    program.chmod(0o755)
    assert not newest.answers(program)
    program.write_text(f"#!/bin/sh\necho 'Redis server v={newest.VERSION} sha=0'\n")
    assert newest.answers(program)
