"""MIGRATE: which keys are sent, which are removed, and who sees the password; the target is a function."""

from collections.abc import Iterator

import pytest

from streamd.catalog.transfer import Target, TargetAway, TargetRefused
from streamd.connected.monitor import redacted
from streamd.rdb.bytes import with_footer
from tests.session import Error

OK = b"+OK"
BUSY = b"-BUSYKEY Target key name already exists."


class FakeTarget:
    """Answers requests with the given lines; an exception among them is raised."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = answers
        self.target: Target | None = None
        self.requests: list[list[bytes]] = []

    def __call__(self, target: Target, requests: Iterator[list[bytes]]) -> Iterator[bytes]:
        self.target = target
        for answer in self.answers:
            if isinstance(answer, Exception):
                raise answer
            self.requests.append(next(requests))
            yield answer


def given(engine, *answers: bytes | Exception) -> FakeTarget:
    """Let the engine reach a target that answers so."""
    engine.do("MSET a 1 b 2 c 3")
    engine.engine.transfer = FakeTarget(*answers)
    return engine.engine.transfer


def test_a_key_is_restored_at_the_target_and_removed_here(engine, clock):
    target = given(engine, OK)
    engine.do("PEXPIRE a 5000")
    records = engine.record()

    assert engine.do("MIGRATE example.org 6380 a 3 700") == "OK"

    assert target.target == (b"example.org", 6380, [], 3, 700)
    assert target.requests == [[b"RESTORE", b"a", b"5000", with_footer(b"\x00\x011", 10)]]
    assert engine.do("EXISTS a") == 0
    assert [words for _, words in records] == [[b"DEL", b"a"]]


def test_a_copy_stays_and_may_replace(engine):
    target = given(engine, OK)

    assert engine.do("MIGRATE h 1 a 0 0 COPY REPLACE") == "OK"

    assert target.requests[0][-1] == b"REPLACE"
    assert target.target.timeout_ms == 1000
    assert engine.do("GET a") == b"1"


def test_only_keys_that_the_target_has_are_removed(engine):
    given(engine, OK, BUSY, OK)

    reply = engine.execute(["MIGRATE", "h", "1", "", "0", "100", "KEYS", "a", "b", "nokey", "c"])

    assert reply == Error("ERR Target instance replied with error: BUSYKEY Target key name already exists.")
    assert engine.do("KEYS *") == [b"b"]


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (TargetAway("reading to target instance"), "IOERR error or timeout reading to target instance"),
        (TargetRefused(b"NOAUTH x"), "ERR Target instance replied with error: NOAUTH x"),
    ],
)
def test_keys_stay_where_the_target_fails_in_between(engine, failure, text):
    given(engine, OK, failure)

    assert engine.execute(["MIGRATE", "h", "1", "", "0", "100", "KEYS", "a", "b", "c"]) == Error(text)
    assert sorted(engine.do("KEYS *")) == [b"b", b"c"]


def test_a_reply_that_is_no_ok_and_no_error_removes_nothing(engine):
    given(engine, b":1")

    assert engine.do("MIGRATE h 1 a 0 100") == Error("IOERR error or timeout reading to target instance")
    assert engine.do("GET a") == b"1"


def test_a_key_that_is_named_twice_is_removed_once(engine):
    target = given(engine, OK, OK)
    records = engine.record()

    assert engine.execute(["MIGRATE", "h", "1", "", "0", "100", "REPLACE", "KEYS", "a", "a"]) == "OK"
    assert len(target.requests) == 2
    assert [words for _, words in records] == [[b"DEL", b"a"]]


@pytest.mark.parametrize(
    ("words", "credentials"),
    [("AUTH pw", [b"pw"]), ("AUTH2 ann pw", [b"ann", b"pw"]), ("AUTH x AUTH2 ann pw", [b"ann", b"pw"])],
)
def test_credentials_go_to_the_target(engine, words, credentials):
    target = given(engine, OK)

    assert engine.do(f"MIGRATE h 1 a 0 100 {words}") == "OK"
    assert target.target.credentials == credentials


@pytest.mark.parametrize(
    ("request_line", "reply"),
    [
        ("MIGRATE h 1 a 0", Error("ERR wrong number of arguments for 'migrate' command")),
        ("MIGRATE h 1 nokey 0 100", "NOKEY"),
        ("MIGRATE h 1 a 0 100 FOO", Error("ERR syntax error")),
        ("MIGRATE h 1 a x x FOO", Error("ERR syntax error")),
        ("MIGRATE h 1 a 0 100 AUTH", Error("ERR syntax error")),
        ("MIGRATE h 1 a 0 100 AUTH2 ann", Error("ERR syntax error")),
        ("MIGRATE h 1 nokey x 100", Error("ERR value is not an integer or out of range")),
        ("MIGRATE h 1 nokey 0 x", Error("ERR value is not an integer or out of range")),
        (
            "MIGRATE h 1 a 0 100 KEYS",
            Error("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string"),
        ),
        ("MIGRATE h 1 a 0 100", Error("IOERR error or timeout connecting to the client")),
    ],
)
def test_words_are_looked_at_before_the_target(engine, request_line, reply):
    engine.do("SET a 1")

    assert engine.do(request_line) == reply
    assert engine.do("GET a") == b"1"


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ("AUTH *", "AUTH pw"),
        ("AUTH2 * *", "AUTH2 ann pw"),
        ("COPY AUTH * FOO AUTH *", "COPY AUTH pw FOO AUTH pw"),
        ("AUTH", "AUTH"),
        ("AUTH2 *", "AUTH2 ann"),
        ("auth * KEYS AUTH key", "auth pw KEYS AUTH key"),
    ],
)
def test_nobody_is_shown_the_credentials(shown, words):
    request = f"MIGRATE h 1 k 0 100 {words}".encode().split()

    expected = f"MIGRATE h 1 k 0 100 {shown}".replace("*", "(redacted)").encode().split()
    assert redacted(request) == expected
    assert redacted([b"COMMAND", b"GETKEYS", *request])[2:] == expected


def test_the_slow_log_has_no_credentials(engine):
    given(engine, OK)
    engine.do("CONFIG SET slowlog-log-slower-than 0")
    engine.do("MIGRATE h 1 a 0 100 AUTH pw")

    assert b"pw" not in b" ".join(engine.do("SLOWLOG GET 1")[0][3])


@pytest.mark.parametrize(
    ("words", "keys"),
    [("k 0 1", [b"k"]), ("k 0 1 AUTH KEYS COPY", [b"k"]), ("k 0 1 AUTH2 KEYS KEYS COPY", [b"k"])],
)
def test_its_keys_are_known_to_rules_of_users(engine, words, keys):
    assert engine.do(f"COMMAND GETKEYS MIGRATE h 1 {words}") == keys
    assert engine.execute(["COMMAND", "GETKEYS", "MIGRATE", "h", "1", "", "0", "1", "COPY", "KEYS", "a", "b"]) == [
        b"a",
        b"b",
    ]
