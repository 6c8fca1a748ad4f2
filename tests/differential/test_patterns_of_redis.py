"""Glob patterns match the keys that they match on redis-server."""

import random
import re

import pytest

from streamd.base.glob import compile_glob
from streamd.base.long_glob import LongGlob
from tests.differential.redis_process import RawClient, needs_redis, running_redis

pytestmark = needs_redis

LETTERS = [b"ab*?[-]", b"aB\\[]^-*", bytes(range(0, 256, 9)) + b"*?[]^-\\", b"a*"]
PATTERNS = 400


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        client = RawClient(port)
        yield client
        client.close()


def matched(reply: bytes) -> list[bytes]:
    """Return the bulk strings of an array, sorted."""
    found, at = [], reply.index(b"\r\n") + 2
    while at < len(reply):
        head = re.compile(rb"\$(\d+)\r\n").match(reply, at)
        assert head is not None
        found.append(reply[head.end() : head.end() + int(head[1])])
        at = head.end() + int(head[1]) + 2
    return sorted(found)


@pytest.mark.parametrize("letters", LETTERS)
def test_faults2_3_4_random_patterns_match_the_keys_that_they_match_on_redis(redis, letters):
    chance = random.Random(letters)
    keys = {bytes(chance.choices(letters, k=chance.randrange(1, 7))) for _ in range(300)}
    redis.ask([b"FLUSHALL"])
    redis.ask([b"MSET", *(word for key in sorted(keys) for word in (key, b"v"))])
    for _ in range(PATTERNS):
        pattern = bytes(chance.choices(letters, k=chance.randrange(1, 9)))
        expected = matched(redis.ask([b"KEYS", pattern]))
        for matches in (compile_glob(pattern), LongGlob(pattern, False).matches):
            assert sorted(filter(matches, keys)) == expected, pattern


@pytest.mark.parametrize("letters", ["aZz_[]^-\\*?", "mMxX-*?[]"])
def test_faults2_3_4_options_are_matched_in_any_case_as_on_redis(redis, letters):
    chance = random.Random(letters)
    names = [b"maxmemory", b"appendonly", b"maxclients", b"save", b"dir", b"zset-max-listpack-entries"]
    for _ in range(PATTERNS):
        name = chance.choice(names).decode()
        pattern = list(name)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(pattern))
            pattern[at] = chance.choice(["*", "?", f"[{''.join(chance.choices(letters, k=3))}]", pattern[at].upper()])
        words = "".join(pattern).encode()
        if not {*b"*?["}.intersection(words):
            continue
        expected = {name for name in matched(redis.ask([b"CONFIG", b"GET", words])) if name in names}
        for matches in (compile_glob(words, ignore_case=True), LongGlob(words, True).matches):
            assert {one for one in names if matches(one)} == expected, words
