"""Ranges whose end is in front of their start, in every command that takes a range, beside redis-server."""

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.fuzz.mutation import look
from tests.fuzz.targets import requests as target
from tests.session import Session, decode

LENGTH = 11
BOUNDS = range(-LENGTH - 3, LENGTH + 4)
LARGE = (1 - 2**63, -(2**62) - 1, -(2**31), 2**31, 2**62, 2**63 - 1)
PAIRS = [*product(BOUNDS, BOUNDS), *product(LARGE, (5, -5)), *product((5, -5), LARGE), *product(LARGE, LARGE)]
PREPARED = [
    "SET s hello-world",
    f"SETRANGE long 20000 {'x' * 20_000}",
    "APPEND long hello-world",
    "RPUSH l a b c d e f g h i j k",
    "ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h 9 i 10 j 11 k",
    *(f"XADD x {number}-1 f v" for number in range(1, 12)),
]
READS = [
    "GETRANGE s {} {}",
    "SUBSTR s {} {}",
    "GETRANGE none {} {}",
    "GETRANGE long {} {}",
    "LRANGE l {} {}",
    "ZRANGE z {} {}",
    "ZRANGE z {} {} REV WITHSCORES",
    "ZREVRANGE z {} {}",
    "ZRANGEBYSCORE z {} {}",
    "ZRANGEBYSCORE z -inf +inf LIMIT {} {}",
    "ZREVRANGEBYLEX z + - LIMIT {} {}",
    "ZCOUNT z {} {}",
    "BITCOUNT s {} {}",
    "BITCOUNT s {} {} BIT",
    "BITCOUNT long {} {}",
    "BITPOS s 1 {} {}",
    "BITPOS s 0 {} {} BIT",
    "SORT l ALPHA LIMIT {} {}",
    "LPOS l c RANK {} COUNT {}",
    "XRANGE x {} {}",
    "XREVRANGE x {} {}",
]
SHOWN = {"s": "GET s", "l": "LRANGE l 0 -1", "z": "ZRANGE z 0 -1"}
WRITES = ["LTRIM l {} {}", "ZREMRANGEBYRANK z {} {}", "ZREMRANGEBYSCORE z {} {}", "SETRANGE s {} {}", "LREM l {} {}"]


@pytest.fixture(scope="module")
def replies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[object]]]:
    """What Redis answers to each request of each kind."""
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield {kind: asked_of_redis(port, kind) for kind in READS + WRITES}


def lines_of(kind: str) -> list[str]:
    """Return the requests of a kind; one that changes a key comes behind those that make it again."""
    lines = [kind.format(*pair) for pair in PAIRS]
    if kind not in WRITES:
        return [*PREPARED, *lines]
    lines = [line for line in lines if not line.startswith("SETRANGE") or int(line.split()[2]) < 1000]
    return [one for line in lines for one in ("FLUSHALL", PREPARED[0], *PREPARED[3:5], line, SHOWN[line.split()[1]])]


def asked_of_redis(port: int, kind: str) -> list[object]:
    """Return the replies to the requests of a kind, as `decode` does."""
    client = RawClient(port)
    client.ask([b"FLUSHALL"])
    lines = lines_of(kind)
    client.send(*(line.encode().split() for line in lines))
    data, at, found = b"", 0, []
    while len(found) < len(lines):
        try:
            reply, behind = decode(data, at)
        except (ValueError, AssertionError):
            data, at = data[at:] + client.receive(), 0
        else:
            found.append(reply)
            at = behind
    client.close()
    return found


@needs_redis
@pytest.mark.parametrize("kind", READS + WRITES)
def test_faults2_4_1_every_range_is_answered_as_by_redis(kind: str, replies):
    session = Session()
    for line, expected in zip(lines_of(kind), replies[kind], strict=True):
        assert session.do(line) == expected, line
    assert session.state.stats.internal_errors == 0


def test_faults2_4_1_a_part_of_a_string_is_pythons():
    session = Session()
    for length in (0, 1, 5, 20_000):
        text = bytes(number % 251 for number in range(length))
        for grown in (False, True):
            session.execute(["SET", "k", text])
            whole = text + b"tail" if grown else text
            if grown:
                session.execute(["APPEND", "k", "tail"])
            edges = sorted({0, 1, 2, 3, length - 1, length, length + 1, length + 3, length + 4, length + 9} | {-1, -2})
            for start, end in product(edges, edges):
                low = max(0, start + len(whole)) if start < 0 else start
                high = max(0, end + len(whole)) if end < 0 else end
                expected = b"" if start < 0 and end < 0 and start > end else whole[low : high + 1]
                assert session.execute(["GETRANGE", "k", start, end]) == expected, (length, start, end)


def test_faults2_4_1_what_looks_without_coverage_finds_a_request_that_is_answered_by_an_internal_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """It finds a bug with ranges by what it begins with, and writes the input to the corpus."""
    monkeypatch.setattr(random.Random, "sample", lambda self, inputs, count: inputs)

    class Target:
        WORDS = target.WORDS

        @staticmethod
        def seeds() -> list[bytes]:
            return [one for one in target.seeds() if one.startswith((b"LLEN", b"GETRANGE"))]

        @staticmethod
        def check(data: bytes) -> None:
            for words in target.requests_of(data):
                if words[0] == b"GETRANGE" and int(words[2]) > int(words[3]) >= 0:
                    raise SystemError("Negative size passed to PyBytes_FromStringAndSize")

    assert not look(Target, tmp_path, 60, seed=1)
    (found,) = tmp_path.iterdir()
    assert b"GETRANGE str 5 2" in found.read_bytes()
    assert f"Test unit written to {found}" in capsys.readouterr().out
    found.unlink()
    target_that_holds = type("Target", (), {"WORDS": target.WORDS, "check": staticmethod(target.check)})
    (tmp_path / "known").write_bytes(b"GETRANGE str 5 2")
    assert look(target_that_holds, tmp_path, 0.2, seed=1)
