"""Replay applies what was recorded, and nothing else."""

import pytest

from streamd.configuration.server_options import Config
from streamd.durability.replay import Replay
from streamd.journal.loader import Loader
from streamd.journal.parsing import Parsed
from tests.session import Session


@pytest.mark.parametrize("line", [b"SHUTDOWN", b"GET k", b"CONFIG SET maxmemory 1", b"DEBUG SLEEP 9", b"FOO", b"SET k"])
def test_what_no_server_records_is_refused(line: bytes):
    session = Session()
    stopped: list[object] = []
    session.engine.on_shutdown = stopped.append
    assert Replay(session.state).apply(0, line.split()) is not None
    assert not stopped


def test_what_was_recorded_is_applied():
    session = Session()
    assert Replay(session.state).apply(3, [b"SET", b"k", b"v"]) is None
    assert session.state.keyspace[3].values == {b"k": b"v"}


def test_a_string_that_was_once_allowed_to_be_so_long_is_loaded_by_a_server_that_allows_less():
    session = Session(config=Config(proto_max_bulk_len=2**20))
    replay = Replay(session.state)
    replay.borrow()
    assert replay.apply(0, [b"SETRANGE", b"k", b"%d" % 2**20, b"v"]) is None
    replay.finish()
    assert session.do(f"SETRANGE k {2**20} v").text.startswith("ERR string exceeds maximum allowed size")


IDS = [b"%d-1" % number for number in range(1, 101)]
XCLAIM = [b"XCLAIM", b"s", b"g", b"c", b"0", *IDS, *b"TIME 5 RETRYCOUNT 1 FORCE JUSTID".split()]


@pytest.mark.parametrize(
    ("words", "fewest", "most"),
    [
        ([b"XADD", b"t", b"#-1", b"f", b"v"], 100, 300),
        ([b"SET", b"k#", b"v"], 100, 300),
        (XCLAIM, 10, 30),
    ],
    ids=["XADD", "SET", "XCLAIM of 100"],
)
def test_a_slice_of_loading_has_fewer_commands_the_longer_they_take(words, fewest, most):
    session = Session()
    session.do("XGROUP CREATE s g 0 MKSTREAM")
    replay = Replay(session.state)
    replay.borrow()
    loader = Loader(session.state.keyspace, replay)
    commands = [[word.replace(b"#", b"%d" % number) for word in words] for number in range(1, 4_001)]
    slices, before = [], 0

    for _ in loader.take(Parsed(commands, [])):
        slices.append(loader.commands - before)
        before = loader.commands
    slices.append(loader.commands - before)

    assert sum(slices) == 4_000
    assert slices[0] == 0  # for what the piece took to be parsed
    assert all(fewest <= one <= most for one in slices[1:-1])
    assert slices[-1] <= most
