"""The engine: turns, and what is counted of them."""

from tests.session import Error, Session


def test_an_error_that_ends_a_wait_counts_as_a_failure_of_its_command(engine: Session):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    reader = engine.connect()
    reader.send(["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"])
    engine.do("XGROUP DESTROY s g")
    (reply,) = reader.replies()
    assert isinstance(reply, Error)
    assert reply.text.startswith("NOGROUP ")
    assert b"failed_calls=1" in next(line for line in engine.do("INFO commandstats").split() if b"xreadgroup" in line)
    assert b"errorstat_NOGROUP:count=1" in engine.do("INFO errorstats")
