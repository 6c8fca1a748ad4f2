"""What XREADGROUP claims where some of its streams are read again, as Redis 8.10.2 does it."""

import itertools
import re

import pytest

from tests.differential.redis_process import RawClient, running_redis

LIMITS = [
    *([], ["COUNT", "1"], ["COUNT", "3"], ["MAXCOUNT", "3"], ["MAXCOUNT", "5"]),
    *(["COUNT", "3", "MAXCOUNT", "5"], ["NOACK"]),
]
STATE = [["XPENDING", key, "g"] for key in "abc"] + [["XINFO", "CONSUMERS", key, "g"] for key in "abc"]


def words(*text: str) -> list[bytes]:
    return [word.encode() for word in text]


def histories():
    """Yield (limits, IDs) of requests to three streams, of which each has pending and new entries."""
    for limits in LIMITS:
        for ids in itertools.product([">", "0", "1-0"], repeat=3):
            yield limits, ids


def prepare(ask) -> None:
    """Make three streams of six entries; of each, one consumer has two and another two."""
    ask(words("FLUSHALL"))
    for key in "abc":
        for number in range(1, 7):
            ask(words("XADD", key, f"{number}-0", "f", f"{key}{number}"))
        ask(words("XGROUP", "CREATE", key, "g", "0"))
        for consumer in ("c1", "c2"):
            ask(words("XREADGROUP", "GROUP", "g", consumer, "COUNT", "2", "STREAMS", key, ">"))


def without_times(reply: bytes) -> bytes:
    """Return a reply in which idle times, which differ from run to run, are left out; counts of deliveries stay."""
    reply = re.sub(rb":\d+\r\n:(\d+)", rb":t\r\n:\1", reply)
    return re.sub(rb"(idle|inactive)\r\n:-?\d+", rb"\1\r\n:t", reply)


def test_faults2_4_2_claim_ends_at_the_first_stream_that_is_read_again(engine, clock):
    prepare(engine.execute)
    clock.advance(100)

    reply = engine.do("XREADGROUP GROUP g c1 CLAIM 50 STREAMS a b c > 0 >")

    assert [[len(entry) for entry in entries] for _, entries in reply] == [[4] * 6, [2] * 2, [2] * 2]
    assert engine.execute(words("XPENDING", "c", "g"))[3] == [[b"c1", b"4"], [b"c2", b"2"]]


def test_faults2_4_2_streams_behind_a_reached_maxcount_are_not_touched(engine):
    prepare(engine.execute)
    read = words("XREADGROUP", "GROUP", "g", "new", "MAXCOUNT", "2", "STREAMS", "a", "b", ">", "0")
    assert [key for key, _ in engine.execute(read)] == [b"a"]
    assert len(engine.execute(words("XINFO", "CONSUMERS", "b", "g"))) == 2


@pytest.mark.redis
def test_faults2_4_2_every_mix_of_claimed_and_repeated_streams_is_as_in_redis(engine, clock, newest_redis, tmp_path):
    with running_redis(tmp_path, newest_redis) as port:
        client = RawClient(port)
        for limits, ids in histories():
            both = []
            for ask in (engine.raw, client.ask):
                prepare(ask)
                claim = ["XREADGROUP", "GROUP", "g", "c1", *limits, "CLAIM", "0", "STREAMS", *"abc", *ids]
                both.append([without_times(ask(words(*request))) for request in [claim, *STATE]])
            assert both[0] == both[1], (limits, ids)
        client.close()


def test_faults2_4_3_a_user_who_may_only_write_a_key_learns_no_entry_ids_of_it(engine):
    for number in range(1, 5):
        engine.do(f"XADD s {number}-0 f v")
    engine.do("ACL SETUSER writer on nopass %W~s +xsplit +xlen")
    engine.do("AUTH writer x")
    assert engine.do("XLEN s") == 4
    assert engine.do("XSPLIT s - + 1").text.startswith("NOPERM")
