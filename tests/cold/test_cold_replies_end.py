"""A long reply that has waited for blocks leaves nothing that keeps the stream's files."""

import gc

from streamd.cold.files import STREAM
from tests.cold.cold_server import ColdSession


def test_a_stream_that_was_read_lets_go_of_its_files_with_its_key():
    session = ColdSession()
    session.cool(b"s", 20_000)
    gc.collect()
    gc.disable()
    try:
        session.send([b"XRANGE", b"s", b"-", b"+"])
        while session.reader.jobs or session.wants_turn:
            session.turn()
            session.read()
        assert len(session.replies()[0]) == 20_000
        session.send([b"DEL", b"s"])
        while session.engine.cron():
            pass
        session.store.small.clear()
        session.store.unwritten.clear()
        session.store.settle()
        assert session.store.held[STREAM] == 0
    finally:
        gc.enable()
