"""COMMAND INFO describes every command that redis-server 7.0.15 knows as that does."""

import pytest

from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Session, decode

pytestmark = needs_redis

# Subcommands that answer as unknown ones do: modules and a debugger.
MISSING = {
    *(b"module|load", b"module|loadex", b"module|unload"),
    b"script|debug",
}
# They take WITHSCORE since 7.2.
NEWER_ARITY = {b"zrank": 3, b"zrevrank": 3}


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


def described(reply) -> dict:
    """Return commands and subcommands by name; what has no order sorted; Redis's notes left out."""
    found = {}
    for name, arity, flags, first, last, step, categories, tips, specs, subcommands in filter(None, reply):
        plain = [{word: part for word, part in spec.items() if word != b"notes"} for spec in specs]
        found[name] = [arity, sorted(flags), first, last, step, sorted(categories), sorted(tips), plain]
        found |= described(subcommands)
    return found


def test_commands_are_described_as_redis_describes_them(port):
    streamd, redis = Session(), RawClient(port)
    streamd.do("HELLO 3")
    redis.ask([b"HELLO", b"3"])
    request = [b"COMMAND", b"INFO", *streamd.engine.commands]
    ours, theirs = described(streamd.execute(request)), described(decode(redis.ask(request))[0])
    redis.close()
    assert theirs.keys() - ours.keys() == MISSING
    for name, arity in NEWER_ARITY.items():
        assert ours[name][0] == -arity
        ours[name][0] = arity
    shared = ours.keys() & theirs.keys()
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
