"""What is freed in slices: who removes it does not wait for that, and who still holds a part keeps it whole."""

import gc
import sys

import pytest

from streamd.data import trash
from streamd.data.expiring import expire_due
from tests.session import Session

FILL = {
    "hash": lambda size: [["HSET", "k", f"f{n}", f"v{n}"] for n in range(size)],
    "set": lambda size: [["SADD", "k", f"m{n}"] for n in range(size)],
    "zset": lambda size: [["ZADD", "k", n, f"m{n}"] for n in range(size)],
    "list": lambda size: [["RPUSH", "k", f"e{n}"] for n in range(size)],
    "stream": lambda size: [
        *(["XADD", "k", "IDMP", f"p{n % 7}", n, "*", "f", f"v{n}"] for n in range(size)),
        ["XGROUP", "CREATE", "k", "g", "0"],
        ["XREADGROUP", "GROUP", "g", "c", "COUNT", size, "STREAMS", "k", ">"],
        *(["XGROUP", "CREATE", "k", f"g{n}", "0"] for n in range(size)),
    ],
    "keys": lambda size: [["SET", f"k{n}", f"v{n}", "EX", n + 1] for n in range(size)],
}
SIZE = 200


@pytest.fixture(autouse=True)
def little(monkeypatch):
    monkeypatch.setattr(trash, "_ELEMENTS_MIN", 10)
    monkeypatch.setattr(trash, "_AT_ONCE", 4)


def filled(kind: str) -> Session:
    session = Session()
    session.send(*FILL[kind](SIZE))
    session.received()
    return session


HOW = ["FLUSHALL", "DEL k", "UNLINK k", "PEXPIRE k 0", "RENAME other k", "expire", "SWAPDB"]


@pytest.mark.parametrize(
    ("kind", "how"), [*((kind, how) for kind in FILL if kind != "keys" for how in HOW), ("keys", "FLUSHALL")]
)
def test_what_is_removed_is_freed_a_little_at_a_time(kind, how):
    session = filled(kind)
    left = session.state.keyspace.trash
    for scan in ("SCAN 0", "HSCAN k 0", "SSCAN k 0", "ZSCAN k 0"):
        session.do(scan)  # which makes an order
    if how == "expire":
        session.do("PEXPIRE k 5")
        session.clock.advance(5)
        expire_due(session.engine.state.keyspace[0], lambda: False)
    elif how == "SWAPDB":
        session.send(["SWAPDB", 0, 1], ["SELECT", 1], ["FLUSHDB"])
    else:
        session.send(["SET", "other", "v"], how.split())
    session.received()
    gc.collect()
    before = sys.getallocatedblocks()

    steps = 0
    while left.free(lambda: True):
        assert sys.getallocatedblocks() <= before + 50
        steps += 1

    assert steps > SIZE // 8
    assert not left
    assert sys.getallocatedblocks() < before - SIZE // 2


WINDOW = {
    "many producers": [["XADD", "k", "IDMP", f"p{n}", "i", "*", "f", "v"] for n in range(SIZE)],
    "some that have many": [["XADD", "k", "IDMP", f"p{n % 3}", f"{n:099}", "*", "f", "v"] for n in range(SIZE)],
}


@pytest.mark.parametrize("requests", WINDOW.values(), ids=WINDOW)
@pytest.mark.parametrize("how", [["XCFGSET", "k", "IDMP-DURATION", 7], ["XIDMP", "CFGSET", "k", "DURATION", 100]])
def test_the_iids_of_a_window_that_is_set_anew_are_freed_a_little_at_a_time(requests, how):
    session = Session()
    session.send(*requests)
    session.received()
    left = session.state.keyspace.trash
    gc.collect()
    before = sys.getallocatedblocks()

    session.send(how)
    assert session.received() == b"+OK\r\n"
    assert session.state.keyspace[0].values[b"k"].idmp.iids_tracked == 0
    assert sys.getallocatedblocks() > before - 20

    most = steps = 0
    more = True
    while more:
        then = sys.getallocatedblocks()
        more = left.free(lambda: True)
        most, steps = max(most, then - sys.getallocatedblocks()), steps + 1
    assert steps > SIZE // 8
    assert most < 40


@pytest.mark.parametrize("kind", ["HSET", "SADD", "RPUSH", "ZADD"])
def test_many_values_that_are_not_large_by_themselves_are_freed_a_few_at_a_time(kind, monkeypatch):
    monkeypatch.setattr(trash, "_ELEMENTS_MIN", 30)
    monkeypatch.setattr(trash, "_AT_ONCE", 16)
    words = {"HSET": ["a", "b"], "SADD": ["a"], "RPUSH": ["a"], "ZADD": ["1", "a"]}[kind]
    session = Session()
    for n in range(100):
        session.send([kind, f"k{n}", *(f"{word}{n}" for n in range(10, 30) for word in words)])
    session.received()
    session.send(["FLUSHALL"])
    session.received()
    gc.collect()

    most = 0
    more = True
    while more:
        then = sys.getallocatedblocks()
        more = session.state.keyspace.trash.free(lambda: True)
        most = max(most, then - sys.getallocatedblocks())

    assert most < 200


def test_what_somebody_still_holds_stays_as_it_is():
    session = filled("hash")
    value = session.state.keyspace[0].values[b"k"]
    rows = dict(value)

    session.do("DEL k")
    while session.state.keyspace.trash.free(lambda: False):
        pass

    assert dict(value) == rows


def test_a_snapshot_of_a_stream_stays_when_the_stream_is_freed():
    session = filled("stream")
    stream = session.state.keyspace[0].values[b"k"]
    entries, pending, iids = list(stream.log.iterate()), list(stream.groups[b"g"].pending.iterate()), list(stream.idmp)
    past = stream.snapshot()
    del stream

    session.do("DEL k")
    while session.state.keyspace.trash.free(lambda: True):
        pass

    assert list(past.log.iterate()) == entries
    assert list(past.groups[b"g"].pending.iterate()) == pending
    assert sorted(past.idmp) == sorted(iids)


def test_what_is_small_is_freed_at_once():
    session = Session()
    session.send(["SET", "a", "x" * 100_000], ["RPUSH", "k", "1"], ["XADD", "s", "*", "f", "v"], ["DEL", "a", "k", "s"])
    assert not session.state.keyspace.trash


def test_the_cron_frees_and_says_that_there_is_more():
    session = filled("list")
    session.do("DEL k")
    session.engine.clock.monotonic_us = iter(range(0, 10**12, 10**6)).__next__  # a look at the time takes a second
    assert session.engine.cron()
    while session.engine.cron():
        pass
    assert not session.state.keyspace.trash
