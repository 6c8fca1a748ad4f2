"""Replay applies what was recorded, and nothing else."""

import pytest

from streamd.base.config import Config
from streamd.durability.replay import Replay
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
