"""Each command that waits refuses the time-outs that Redis 8.10.2 refuses, and takes the others."""

import time

import pytest

from streamd.base.clock import ManualClock
from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Session

pytestmark = needs_redis

IN_SECONDS = [
    *(
        "BLPOP none {}",
        "BRPOP none {}",
        "BLMOVE none to LEFT LEFT {}",
        "BRPOPLPUSH none to {}",
        "BLMPOP {} 1 none LEFT",
    ),
    *("BZPOPMIN none {}", "BZPOPMAX none {}", "BZMPOP {} 1 none MIN"),
]
IN_MILLISECONDS = [
    *("XREAD BLOCK {} STREAMS s $", "XREADGROUP GROUP g c BLOCK {} STREAMS s >", "WAIT 1 {}", "WAITAOF 0 1 {}"),
    "CLIENT PAUSE {}",
]
# Seconds that pass between the readings of both servers' clocks, at most.
APART_S = 30


def seconds(now_s: int) -> list[str]:
    last = (2**63 - 1) // 1000 - now_s
    return [
        *(
            "0",
            "-0",
            "0.0",
            "-0.0001",
            "-0.001",
            "-0.0011",
            "-1",
            "1",
            "1.5",
            "0.0001",
            "1e-400",
            "1e3",
            "1e15",
            "1e16",
        ),
        *("1e400", "-1e400", "inf", "-inf", "nan", "0x10", "0x1.8p1", "-0x.8", "", " 1", "1 ", "1_0", "x", "1e", "+1"),
        *("0xfffffffffp999", "-0xfffffffffp999", "0x1p9999", "0x1p-9999", f"0x{'f' * 300}", "0x", "0x.", "0xp1"),
        *(str(last - APART_S), f"{last - APART_S}.5", str(last + APART_S), f"{last + APART_S}.5"),
        *("9223370000000000", "9223372000000000", "9223372036854774", "9223372036854775", "9223372036854775.807"),
        *("9223372036854776", "-9223372036854775", "-9223372036854776", "-9223372036854775808", "9" * 18, "9" * 30),
    ]


def milliseconds(now_s: int) -> list[str]:
    last = 2**63 - 1 - now_s * 1000
    return [
        *("0", "-0", "1", "-1", "01", "+1", "1.5", "", "x", " 1", "1e3", "9" * 18, "9" * 30, str(2**31), str(2**53)),
        *(str(last - APART_S * 1000), str(last + APART_S * 1000), "9223370000000000000", "9223372000000000000"),
        *(str(2**63 - 2**41), str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1)),
    ]


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.mark.parametrize("form", [*IN_SECONDS, *IN_MILLISECONDS], ids=lambda form: form.split(" {")[0])
def test_time_outs_are_refused_as_by_redis(port, form):
    """In a transaction nothing waits, so a time-out that is taken has the reply of one that is over."""
    now_s = int(time.time())
    redis, streamd = RawClient(port), Session(ManualClock(now_s * 1000))
    differences = []
    for setting in ("FLUSHALL", "XGROUP CREATE s g $ MKSTREAM"):
        redis.ask(setting.encode().split())
        streamd.raw(setting.encode().split())
    for timeout in seconds(now_s) if form in IN_SECONDS else milliseconds(now_s):
        request = [timeout.encode() if word == "{}" else word.encode() for word in form.split()]
        replies = []
        for ask in (redis.ask, streamd.raw):
            ask([b"MULTI"])
            ask(request)
            ask([b"CLIENT", b"UNPAUSE"])
            replies.append(ask([b"EXEC"]))
        if replies[0] != replies[1]:
            differences.append((timeout, *replies))
    redis.close()
    assert differences == []
