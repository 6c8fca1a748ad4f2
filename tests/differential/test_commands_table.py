"""Every reply to the requests of each table in tables/ is, byte for byte, that of Redis 8.10.2."""

import shlex
import time
from pathlib import Path

import pytest

from streamd.base.clock import ManualClock
from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Session

pytestmark = needs_redis

TABLES = sorted((Path(__file__).parent / "tables").glob("*.txt"))
# Their replies come in no particular order.
UNORDERED = {b"keys"}


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


def requests(table: Path) -> list[list[bytes]]:
    """Return the words of each line: separated as in a shell, backslash escapes are bytes."""
    lines = (line for line in table.read_text().splitlines() if line and not line.startswith("#"))
    return [[word.encode().decode("unicode_escape").encode("latin-1") for word in shlex.split(line)] for line in lines]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_replies_are_those_of_redis(port, table, protocol):
    redis = RawClient(port)
    redis.ask([b"FLUSHALL"])
    streamd = Session(ManualClock(time.time_ns() // 1_000_000))
    if protocol == 3:
        redis.ask([b"HELLO", b"3"])
        streamd.raw([b"HELLO", b"3"])
    differences = []
    for words in requests(table):
        theirs, ours = redis.ask(words), streamd.raw(words)
        if words[0] in UNORDERED:
            theirs, ours = b"".join(sorted(theirs.split(b"\r\n"))), b"".join(sorted(ours.split(b"\r\n")))
        if theirs != ours:
            differences.append((words, theirs, ours))
    redis.close()
    assert differences == []
