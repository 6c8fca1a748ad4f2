"""A duplicate that a script or a transaction sends is answered and counted as one that a client sends."""

import pytest

from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump
from tests.session import Session

ADD = "return redis.call('XADD', KEYS[1], 'IDMP', ARGV[1], ARGV[2], '*', 'n', ARGV[3])"
AUTO = "return redis.call('XADD', KEYS[1], 'IDMPAUTO', ARGV[1], '*', 'n', ARGV[2])"


def by_script(session: Session, iid: str, value: str = "1") -> bytes:
    return session.execute(["EVAL", ADD, 1, "s", "p", iid, value])


def facts(session: Session) -> tuple[int, int, int]:
    """Return entries, iids added, duplicates."""
    rows = session.do("XINFO STREAM s")
    said = dict(zip(rows[::2], rows[1::2], strict=True))
    return said[b"length"], said[b"iids-added"], said[b"iids-duplicates"]


def test_faults2_5_3_a_duplicate_sent_from_a_script_has_the_id_of_the_entry_that_is_there(engine, clock):
    first = by_script(engine, "a")
    clock.advance(1_000)
    assert by_script(engine, "a", "2") == first
    assert engine.do("XADD s IDMP p a * n 3") == first
    by_client = engine.do("XADD s IDMP p b * n 1")
    assert by_script(engine, "b") == by_client
    sha = engine.execute(["SCRIPT", "LOAD", ADD]).decode()
    assert engine.execute(["EVALSHA", sha, 1, "s", "p", "b", "2"]) == by_client
    assert facts(engine) == (2, 2, 4)
    assert [fields for _, fields in engine.do("XRANGE s - +")] == [[b"n", b"1"], [b"n", b"1"]]


def test_faults2_5_3_a_script_that_sends_the_same_twice_adds_one_entry(engine):
    twice = "return {redis.call('XADD', 's', 'IDMP', 'p', 'a', '*', 'n', 1), "
    twice += "redis.call('XADD', 's', 'IDMP', 'p', 'a', '*', 'n', 2)}"
    one, two = engine.execute(["EVAL", twice, 1, "s"])
    assert one == two
    assert facts(engine) == (1, 1, 1)


def test_faults2_5_3_a_name_made_from_the_content_is_the_same_in_a_script(engine):
    first = engine.do("XADD s IDMPAUTO p * n 7")
    assert engine.execute(["EVAL", AUTO, 1, "s", "p", 7]) == first
    assert engine.execute(["EVAL", AUTO, 1, "s", "p", 8]) != first
    assert facts(engine) == (2, 2, 1)


def test_faults2_5_3_a_duplicate_in_a_transaction_is_one_too(engine):
    first = by_script(engine, "a")
    engine.send(["MULTI"], ["XADD", "s", "IDMP", "p", "a", "*", "n", 2], ["EVAL", ADD, 1, "s", "p", "a", 3], ["EXEC"])
    assert engine.replies()[-1] == [first, first]
    assert facts(engine) == (1, 1, 2)


def test_faults2_5_3_behind_the_window_a_script_adds_again(engine, clock):
    first = by_script(engine, "a")
    clock.advance(100_000)
    assert by_script(engine, "a") != first
    assert facts(engine) == (2, 2, 0)


@pytest.mark.parametrize("rewritten", [False, True])
def test_faults2_5_3_what_scripts_added_is_known_behind_a_restart(rewritten):
    server = Restartable(appendfsync="always")
    sent = ["EVAL", ADD, "1", "s", "p", "a"]
    first = server.send(*sent, "1")
    assert server.send(*sent, "2") == first
    if rewritten:
        server.rewrite()
    before = dump(server.engine)

    server = server.restart()

    assert dump(server.engine) == before
    assert server.send(*sent, "3") == first
    assert server.send("XADD", "s", "IDMP", "p", "a", "*", "n", "4") == first
    assert server.send("XLEN", "s") == b":1\r\n"
