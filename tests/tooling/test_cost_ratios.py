"""What hot paths cost, as a multiple of a fixed piece of Python timed beside them.

A regression shows; a slow or busy machine does not.

Each limit is about twice what was measured when it was set. The CPU time of the process counts, the least of some
rounds, in which path and yardstick take turns.
"""

import gc
import time
from collections.abc import Callable, Iterator

import pytest

from streamd.base.clock import ManualClock
from streamd.base.collector import THRESHOLDS
from streamd.base.limits import AUTHENTICATED
from streamd.engine.engine import Engine
from streamd.resp.fast_decoder import HIREDIS_BYTES_MIN, FastDecoder
from streamd.resp.template import RequestColumns, Template

ROUNDS = 7
VALUE = b"x" * 64
XADD = [b"XADD", b"s", b"*", b"f", VALUE]


@pytest.fixture(autouse=True)
def collector_as_in_a_server() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def yardstick() -> None:
    """A thousand entry IDs, formatted: about 0.2 us each."""
    entry_id = 1_795_248_000_000 << 64
    for number in range(1_000):
        entry_id += number
        b"%d-%d" % (entry_id >> 64, entry_id & 0xFFFF_FFFF_FFFF_FFFF)


def cost(path: Callable[[], object], operations: int) -> float:
    """Return the CPU time of one operation over that of one entry ID."""

    def timed(action: Callable[[], object]) -> float:
        start = time.process_time()
        action()
        return time.process_time() - start

    path()
    pairs = [(timed(path), timed(yardstick)) for _ in range(ROUNDS)]
    return min(pair[0] for pair in pairs) / operations / (min(pair[1] for pair in pairs) / 1_000)


def engine_turns(turns: int, *requests: list[bytes]) -> Callable[[], None]:
    engine = Engine(ManualClock())
    client = engine.connect()
    client.flush = client.out.clear

    def run() -> None:
        for _ in range(turns):
            engine.run(client, [*requests])
            engine.end_turn()

    return run


def test_a_single_xadd():
    assert cost(engine_turns(1_000, XADD), 1_000) < 22


def test_a_long_pipeline_by_columns_of_which_the_slow_log_takes_all():
    engine = Engine(ManualClock())
    client = engine.connect()
    client.flush = client.out.clear
    engine.call(client, [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"])
    engine.run(client, [XADD])
    requests = RequestColumns(Template((*XADD,), (4,)), 1_000, (VALUE,) * 1_000)

    def run() -> None:
        assert engine.gathering.take_columns(client, requests)
        engine.end_turn()

    assert cost(run, 1_000) < 30
    assert engine.state.slowlog.entries[0].words == XADD


def test_a_pipelined_xadd():
    assert cost(engine_turns(100, *[XADD] * 16), 1_600) < 8


def test_a_single_ping():
    assert cost(engine_turns(1_000, [b"PING"]), 1_000) < 15


def test_a_warm_range_of_a_hundred():
    engine = Engine(ManualClock())
    client = engine.connect()
    client.flush = client.out.clear
    engine.run(client, [XADD] * 1_000)
    engine.end_turn()

    def run() -> None:
        for _ in range(200):
            engine.run(client, [[b"XRANGE", b"s", b"-", b"+", b"COUNT", b"100"]])
            engine.end_turn()

    assert cost(run, 200) < 60


@pytest.mark.skipif(HIREDIS_BYTES_MIN > 10**6, reason="hiredis is not installed")
def test_decoding_a_pipeline():
    chunk = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$64\r\n" + VALUE + b"\r\n"
    decoder = FastDecoder(AUTHENTICATED)

    def run() -> None:
        for _ in range(100):
            received = decoder.receive(chunk * 16)
            if isinstance(received, RequestColumns):
                received.rows()

    assert cost(run, 1_600) < 4
