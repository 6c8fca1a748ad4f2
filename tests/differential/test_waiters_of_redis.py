"""What Redis 8.10.2 gives to clients that wait for IDs ahead, and to consumers that wait while a MULTI adds entries."""

import re

import pytest

from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Session

pytestmark = needs_redis


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.fixture
def redis(port):
    client = RawClient(port)
    client.ask([b"FLUSHALL"])
    yield client
    client.close()


def wait_on_redis(redis: RawClient, port: int, requests: list[str]) -> list[RawClient]:
    """Return clients of Redis, each waiting in one of these requests."""
    readers = []
    for request in requests:
        readers.append(RawClient(port))
        readers[-1].send(request.encode().split())
        while b"blocked_clients:%d\r" % len(readers) not in redis.ask([b"INFO", b"clients"]):
            pass
    return readers


# What waits on `s` and what is done, one request after the other; all IDs are given.
STORIES = {
    "ids below, at and above": (
        ["XREAD BLOCK 0 STREAMS s 20-0", "XREAD BLOCK 0 STREAMS s 10-5", "XREAD COUNT 1 BLOCK 0 STREAMS s 10-5"],
        ["XADD s 3-0 f a", "XADD s 10-5 f b", "XADD s 10-6 f c", "XADD s 20-0 f d", "XADD s 21-0 f e"],
    ),
    "the last ID is set ahead": (
        ["XREAD BLOCK 0 STREAMS s 20-0", "XREAD BLOCK 0 STREAMS s 50-0"],
        ["XADD s 3-0 f a", "XSETID s 30-0", "XADD s 31-0 f b", "XADD s 40-0 f c", "XADD s 60-0 f d"],
    ),
    "the stream is deleted and another takes its name": (
        ["XREAD BLOCK 0 STREAMS s 20-0"],
        ["XADD s 3-0 f a", "DEL s", "XADD s 2-0 f b", "XADD t 30-0 f c", "RENAME t s", "XADD s 31-0 f d"],
    ),
    "a copy comes": (
        ["XREAD BLOCK 0 STREAMS s 20-0"],
        ["XADD t 9-0 f a", "COPY t s", "XADD t 30-0 f b", "SET s x", "COPY t s REPLACE"],
    ),
    "several keys, one of which becomes a string": (
        ["XREAD BLOCK 0 STREAMS s t 20-0 20-0"],
        ["XADD s 3-0 f a", "XADD t 3-0 f a", "SET t x", "XADD s 4-0 f b"],
    ),
    "a consumer waits, too": (
        ["XREAD BLOCK 0 STREAMS s 20-0", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"],
        ["XADD s 3-0 f a", "XADD s 4-0 f b", "XADD s 22-0 f c"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("waits", "done"), STORIES.values(), ids=STORIES)
def test_waiters_for_ids_ahead_get_what_redis_gives_them_at_the_same_request(redis, port, waits, done):
    session = Session()
    for line in ("XGROUP CREATE s g 0 MKSTREAM",):
        session.do(line)
        redis.ask(line.encode().split())
    theirs = wait_on_redis(redis, port, waits)
    ours = [session.connect() for _ in waits]
    for reader, line in zip(ours, waits, strict=True):
        reader.say(line)
    for line in done:
        assert session.raw(line.split()) == redis.ask(line.encode().split()), line
        redis.ask([b"PING"])
        assert [reader.received() for reader in ours] == [reader.arrived() for reader in theirs], line
    for reader in theirs:
        reader.close()


@pytest.mark.parametrize("counts", [(0,), (1, 1, 1), (50, 3, 50), (1_000, 1_000, 1_000), (10, 0, 5), (30, 34, 7)])
def test_a_long_run_serves_consumers_without_acknowledgement_as_a_multi_does_in_redis(redis, port, counts):
    session = Session()
    session.do("XGROUP CREATE s g $ MKSTREAM")
    redis.ask(b"XGROUP CREATE s g $ MKSTREAM".split())
    waits = [
        f"XREADGROUP GROUP g c{number % 2} {f'COUNT {count}' if count else ''} BLOCK 0 NOACK STREAMS s >"
        for number, count in enumerate(counts)
    ]
    theirs = wait_on_redis(redis, port, waits)
    ours = [session.connect() for _ in waits]
    for reader, line in zip(ours, waits, strict=True):
        reader.say(line)
    run = [[b"XADD", b"s", b"*", b"f", b"value-%d" % number] for number in range(70)]
    session.send(*run)
    redis.send([b"MULTI"], *run)
    redis.ask([b"EXEC"])
    redis.ask([b"PING"])
    got = [re.findall(rb"value-\d+", reader.received()) for reader in ours]
    assert got == [re.findall(rb"value-\d+", reader.arrived()) for reader in theirs]
    assert any(got)
    for reader in theirs:
        reader.close()
