"""Keyspace events are, message for message and in the same order, those of Redis 8.10.2."""

import time
from pathlib import Path

import pytest

from streamd.base.clock import ManualClock
from tests.differential.redis_process import RawClient, complete_replies, needs_redis, running_redis
from tests.differential.test_scenarios import Step, run_on_redis, run_on_streamd, scenarios
from tests.session import Session

TABLE = Path(__file__).with_name("events.txt")
OPTION = b"notify-keyspace-events"
LISTEN = [b"psubscribe", b"__*"]
ALL = [b"config", b"set", OPTION, b"AnocmKESTIV"]
# Commands with the flag `write` that publish nothing by themselves, one that needs a second server, and streamd's own.
SILENT = {"function|load", "function|delete", "function|flush", "function|restore"}
ELSEWHERE = {"migrate", "xidmp|cfgset"}
LETTERS = "Ag$lshzxeKEtmdnocaSTIV"
CLASSES = [
    "", *LETTERS, *(f"A{letter}" for letter in LETTERS), LETTERS, LETTERS[::-1], LETTERS[2:], LETTERS[:1:-1],
    "g$lshzxetda", "g$lshzxetd", "noc", "VITS", "?", "K E", "Kx,", "\x80",
]  # fmt: skip


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


def named_scenarios() -> list:
    """Return each part of the table, with the comment above it as its name."""
    names = [line[2:].rstrip(".") for line in TABLE.read_text().splitlines() if line.startswith("# ")][1:]
    return [pytest.param(steps, id=name) for name, steps in zip(names, scenarios(TABLE), strict=True)]


@needs_redis
@pytest.mark.parametrize("steps", named_scenarios())
def test_a_listener_gets_what_redis_publishes(port, steps):
    steps: list[Step] = [("listener", [LISTEN]), ("a", [ALL]), *steps]
    theirs, ours = run_on_redis(port, steps), run_on_streamd(steps)
    differences = [
        (step, redis, streamd) for step, redis, streamd in zip(steps, theirs, ours, strict=True) if redis != streamd
    ]
    assert differences == []


def test_the_table_has_every_command_that_writes():
    asked = set()
    for steps in scenarios(TABLE):
        for _, requests in steps:
            for words in requests:
                asked |= {words[0].decode().lower(), b"|".join(words[:2]).decode("latin-1").lower()}
    written = {one.name for one in Session().engine.commands.leaves() if "write" in one.flags}
    assert written - asked == SILENT | ELSEWHERE


@needs_redis
@pytest.mark.parametrize("classes", CLASSES)
def test_the_option_takes_and_shows_what_redis_does(port, classes):
    redis, streamd = RawClient(port), Session()
    redis.ask([b"CONFIG", b"SET", OPTION, b""])
    for words in ([b"CONFIG", b"SET", OPTION, classes.encode("latin-1")], [b"CONFIG", b"GET", OPTION]):
        assert streamd.raw(words) == redis.ask(words)
    redis.close()


@needs_redis
@pytest.mark.parametrize(
    "requests",
    [
        [b"set k v px 20"],
        [b"hset k f v g w", b"hpexpire k 20 fields 1 g"],
        [b"hset k f v", b"hpexpire k 20 fields 1 f"],
    ],
    ids=["key", "field", "last field"],
)
def test_what_ends_by_time_is_published_as_redis_does(port, requests):
    redis, listener = RawClient(port), RawClient(port)
    session = Session(ManualClock(time.time_ns() // 1_000_000))
    ours = session.connect()
    for words in ([b"FLUSHALL"], ALL):
        redis.ask(words)
        session.raw(words)
    assert listener.ask(LISTEN) == ours.raw(LISTEN)
    for line in requests:
        assert redis.ask(line.split()) == session.raw(line.split())

    session.clock.advance(20)
    session.sweep()
    expected, got = ours.received(), b""
    while complete_replies(got) < complete_replies(expected):
        got += listener.receive()
    redis.ask([b"PING"])
    redis.ask([b"PING"])

    assert got + listener.arrived() == expected
    redis.close()
    listener.close()
