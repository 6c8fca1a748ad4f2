"""Commands on keys that Redis has since 8.4: comparing strings, bounded counters, moving several elements."""

import pytest

from streamd.base.clock import ManualClock
from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump
from tests.session import Error, Session

SYNTAX = Error("ERR syntax error")
NO_DIGEST = Error("ERR must be exactly 16 hexadecimal characters")


@pytest.mark.parametrize(
    ("request_line", "reply", "after"),
    [
        ("SET s new IFEQ abc", "OK", b"new"),
        ("SET s new IFEQ x", None, b"abc"),
        ("SET s new IFNE x GET", b"abc", b"new"),
        ("SET s new IFDEQ 78af5f94892f3950", "OK", b"new"),
        ("SET s new IFDEQ 78AF5F94892F3950", "OK", b"new"),
        ("SET s new IFDNE 78af5f94892f3950", None, b"abc"),
        ("SET s new IFDEQ 78af", NO_DIGEST, b"abc"),
        ("SET s new IFEQ abc NX", SYNTAX, b"abc"),
        ("SET s new IFEQ", SYNTAX, b"abc"),
        ("DELEX s IFEQ abc", 1, None),
        ("DELEX s IFNE abc", 0, b"abc"),
        ("DELEX s", 1, None),
        ("DELEX s LIKE abc", Error("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"), b"abc"),
        ("MSETEX 2 s a t b NX", 0, b"abc"),
        ("MSETEX 1 s a XX EX 10", 1, b"a"),
        ("MSETEX 2 s a t", Error("ERR wrong number of key-value pairs"), b"abc"),
        ("INCREX s", Error("ERR value is not an integer or out of range"), b"abc"),
    ],
)
def test_a_string_is_changed_under_a_condition(engine: Session, request_line, reply, after):
    engine.do("SET s abc")
    assert engine.do(request_line) == reply
    assert engine.do("GET s") == after


def test_a_long_string_has_the_digest_that_is_made_at_once(engine: Session):
    from xxhash import xxh3_64_hexdigest

    text = b"0123456789" * 300_000
    engine.execute([b"SET", b"s", text])
    assert engine.do("DIGEST s") == xxh3_64_hexdigest(text).encode()
    assert engine.do("DELEX s IFDEQ " + xxh3_64_hexdigest(text)) == 1


@pytest.mark.parametrize(
    ("request_line", "reply", "after"),
    [
        ("INCREX n", [11, 1], b"11"),
        ("INCREX n BYINT 5 UBOUND 12", [10, 0], b"10"),
        ("INCREX n BYINT 5 UBOUND 12 SATURATE", [12, 2], b"12"),
        ("INCREX n BYFLOAT 0.5", [b"10.5", b"0.5"], b"10.5"),
        ("INCREX n LBOUND 5 UBOUND 4", Error("ERR LBOUND can't be greater than UBOUND"), b"10"),
        ("INCREX n ENX", Error("ERR ENX flag requires an expiration"), b"10"),
        ("INCREX n EXAT 1", [11, 1], None),
    ],
)
def test_a_number_grows_within_its_bounds(engine: Session, request_line, reply, after):
    engine.do("SET n 10")
    assert engine.do(request_line) == reply
    assert engine.do("GET n") == after


@pytest.mark.parametrize(("left", "reply"), [("LEFT", b"2 1"), ("RIGHT", b"1 2")])
def test_one_by_one_elements_turn_round_at_the_same_end(engine: Session, left, reply):
    engine.do("RPUSH l 1 2 3")
    assert engine.do(f"LMOVEM l t LEFT {left} COUNT 2 OBO") == reply.split()
    assert engine.do("LRANGE t 0 -1") == reply.split()
    assert engine.do("LRANGE l 0 -1") == [b"3"]


def test_a_client_waits_for_as_many_elements_as_it_wants(engine: Session):
    waiting = engine.connect()
    waiting.say("BLMOVEM l t LEFT RIGHT 0 EXACTLY 2 BULK")
    engine.do("RPUSH l a")
    assert waiting.blocked
    engine.do("RPUSH l b")
    assert waiting.replies() == [[b"a", b"b"]]


HISTORY = """
SET a v PX 100000 ; SET a w IFEQ v KEEPTTL ; SET b v ; SET b x EXAT 1 ; SET c 5 ; INCREX c BYINT 7 PX 5000
INCREX d BYFLOAT 2.5 ; INCREX e EX 100 ; INCREX e PERSIST ; INCREX f UBOUND 0 ; MSETEX 2 g 1 h 2 PXAT 1700000900000
SET i v ; DELEX i IFEQ v ; RPUSH l 1 2 3 4 5 ; LMOVEM l m LEFT LEFT COUNT 2 OBO ; LMOVEM l l LEFT RIGHT COUNT 2 BULK
SET j abc ; SET k abd ; BITOP ONE n j k ; BITOP DIFF o j k ; ZADD z 1 a 2 b ; ZUNIONSTORE y 2 z z AGGREGATE COUNT
""".replace("\n", " ; ").split(" ; ")


def test_a_restart_brings_back_what_they_did():
    server = Restartable(clock=ManualClock(1_700_000_000_000))
    for line in filter(None, HISTORY):
        assert not server.send(*line.split()).startswith(b"-"), line
    found = dump(server.engine)
    assert dump(server.restart().engine) == found
