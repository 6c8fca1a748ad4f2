"""Every reply to a table of requests is, byte for byte, that of redis-server."""

import shlex
import time
from pathlib import Path

import pytest

from streamd.base.clock import ManualClock
from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Session

pytestmark = needs_redis

TABLE = Path(__file__).with_name("commands.txt")
# Their replies come in no particular order.
UNORDERED = {b"keys"}


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


def requests() -> list[list[bytes]]:
    lines = (line for line in TABLE.read_text().splitlines() if line and not line.startswith("#"))
    return [[word.encode().decode("unicode_escape").encode("latin-1") for word in shlex.split(line)] for line in lines]


@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_are_those_of_redis(port, protocol):
    redis = RawClient(port)
    redis.ask([b"FLUSHALL"])
    streamd = Session(ManualClock(time.time_ns() // 1_000_000))
    if protocol == 3:
        redis.ask([b"HELLO", b"3"])
        streamd.raw([b"HELLO", b"3"])
    differences = []
    for words in requests():
        theirs, ours = redis.ask(words), streamd.raw(words)
        if words[0] in UNORDERED:
            theirs, ours = b"".join(sorted(theirs.split(b"\r\n"))), b"".join(sorted(ours.split(b"\r\n")))
        if theirs != ours:
            differences.append((words, theirs, ours))
    redis.close()
    assert differences == []
