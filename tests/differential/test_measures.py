"""LATENCY answers in the shape of Redis 8.10.2: the same types, names and nesting."""

import pytest

from streamd.configuration.server_options import Config
from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Session

pytestmark = needs_redis


@pytest.mark.parametrize("protocol", [2, 3])
def test_latency_has_the_shape_of_redis(tmp_path, protocol):
    session = Session(config=Config(latency_tracking=True))
    with running_redis(tmp_path) as port:
        redis = RawClient(port)
        for words in ("HELLO 3",)[: protocol - 2]:
            redis.ask(words.encode().split())
            session.raw(words.split())
        for words in ("SET a 1", "LATENCY HISTOGRAM set", "LATENCY LATEST", "LATENCY DOCTOR"):
            theirs, ours = redis.ask(words.encode().split()), session.raw(words.split())
            assert shape(ours) == shape(theirs), words
        redis.close()


def shape(reply: bytes) -> list[bytes]:
    """Return the types and the names in a reply, without numbers and other values."""
    lines = reply.split(b"\r\n")
    if reply[:1] == b"=":
        return [b"=", lines[1][:4]]
    if reply[:1] == b"$":
        return [b"$"]
    names = [line for line in lines if line[:1].isalpha() or line[:1] == b"*" or line[:1] == b"%"]
    return [name for name in names if b"histogram" in name or b"." in name or name[:1] in b"*%" or name == b"calls"]
