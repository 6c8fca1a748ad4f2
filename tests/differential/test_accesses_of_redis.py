"""What requests count and touch is what redis-server counts and touches."""

import re

import pytest

from tests.accesses import ACCESSES, KEYS, PREPARED
from tests.differential.redis_process import RawClient, needs_redis, running_redis

pytestmark = needs_redis

IDLE_S = 1_000


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield RawClient(port)


def bulk(reply: bytes) -> bytes:
    head, _, rest = reply.partition(b"\r\n")
    return rest[: int(head[1:])]


def counted(redis: RawClient) -> tuple[int, ...]:
    text = redis.ask([b"INFO", b"stats"])
    return tuple(int(re.search(rb"keyspace_%b:(\d+)" % name, text)[1]) for name in (b"hits", b"misses"))


def prepare(redis: RawClient) -> None:
    redis.ask([b"FLUSHALL"])
    for line in PREPARED:
        redis.ask(line.encode().split())
    for key in KEYS.encode().split():
        dump = bulk(redis.ask([b"DUMP", key]))
        expiry = b"100000000" if key == b"vol" else b"0"
        assert redis.ask([b"RESTORE", key, expiry, dump, b"REPLACE", b"IDLETIME", b"%d" % IDLE_S]) == b"+OK\r\n"
    redis.ask([b"CONFIG", b"RESETSTAT"])


@pytest.mark.parametrize(("request_", "hits", "misses", "touched"), ACCESSES, ids=[row[0] for row in ACCESSES])
def test_the_table_of_accesses_is_what_redis_does(redis, request_, hits, misses, touched):
    prepare(redis)

    redis.ask(request_.encode().split())

    assert counted(redis) == (hits, misses)
    fresh = []
    for key in [*KEYS.split(), "no", "other"]:
        reply = redis.ask([b"OBJECT", b"IDLETIME", key.encode()])
        if reply.startswith(b":") and int(reply[1:]) < IDLE_S:
            fresh.append(key)
    assert sorted(fresh) == sorted(touched.split())
    redis.ask([b"UNWATCH"])
