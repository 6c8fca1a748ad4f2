"""Scripts answer byte for byte what they answer on redis-server."""

from pathlib import Path

import pytest

from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Session

pytestmark = needs_redis

# Scripts, each ended by a line of `%%`.
SCRIPTS = Path(__file__).with_name("scripts.txt").read_bytes().removesuffix(b"\n").split(b"\n%%\n")


@pytest.fixture
def redis_port(tmp_path):
    """A server of its own for each test: numbers of math.random go on from script to script."""
    with running_redis(tmp_path) as port:
        yield port


@pytest.mark.parametrize("protocol", [2, 3])
def test_scripts_answer_what_they_answer_on_redis_server(redis_port, protocol):
    theirs = RawClient(redis_port)
    ours = Session().connect(protocol)
    theirs.ask([b"FLUSHALL"])
    theirs.ask([b"HELLO", b"%d" % protocol])
    differences = []
    for script in SCRIPTS:
        request = [b"EVAL", script, b"0", b"arg"]
        expected, answer = theirs.ask(request), ours.raw(request)
        if answer != expected:
            differences.append((script, expected, answer))
    theirs.close()
    assert differences == []
