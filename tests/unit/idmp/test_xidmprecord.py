"""XIDMPRECORD names an entry that a stream has, as Redis does."""

import pytest

from tests.session import Error
from tests.unit.idmp.test_idempotence_facts import ID_ERROR, NEW, NO_KEY, WRONG_TYPE, fields, idmp


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["none", "", "", "x"], ID_ERROR),
        (["none", "", "", "1-1"], "ERR producer ID must be non-empty"),
        (["none", "p", "", "1-1"], "ERR idempotent ID must be non-empty"),
        (["none", "p", "i", "1-1"], NO_KEY),
        (["string", "p", "i", "1-1"], WRONG_TYPE),
        (["s", "p", "i", "1-1"], "ERR No such message in stream"),
        (["s", "p", "i"], "ERR wrong number of arguments for 'xidmprecord' command"),
    ],
)
def test_errors_of_xidmprecord(engine, words, error):
    engine.do("SET string x")
    engine.do("XADD s * f v")
    assert engine.execute(["XIDMPRECORD", *words]) == Error(error)


def test_xidmprecord_remembers_the_iid_of_an_entry_as_the_youngest(engine):
    engine.do("XADD s * f v")
    engine.do("XADD s * f v")
    assert engine.do(f"XIDMPRECORD s p i {NEW.decode()}") == "OK"
    assert engine.do(f"XIDMPRECORD s p i {NEW.decode()}") == "OK"
    assert idmp(engine) == (1, 1, 1, 0)
    other = Error("ERR IID already exists for this producer with a different stream ID")
    assert engine.do("XIDMPRECORD s p i 1000000000000-1") == other
    assert engine.do("XADD s IDMP p i * f v") == NEW


@pytest.mark.parametrize("others", [0, 3, 60], ids=["alone", "few", "many"])
def test_xidmprecord_counts_an_iid_that_is_expired_from_the_beginning_once(engine, others):
    engine.do("XADD s 1-0 f v")
    for number in range(others):
        engine.do(f"XADD s IDMP p other-{number} * f v")
    for _ in range(3):
        assert engine.do("XIDMPRECORD s p i 1-0") == "OK"
        assert fields(engine)[b"iids-added"] == others + 1


def test_xidmprecord_of_a_forgotten_iid_with_an_id_ahead_of_the_clock_remembers_it_again(engine, clock):
    engine.do("XADD s 9000000000000-0 f v")
    engine.do("XIDMPRECORD s p i 9000000000000-0")
    clock.advance(100_000)
    assert engine.do("XIDMPRECORD s p i 9000000000000-0") == "OK"
    assert fields(engine)[b"iids-added"] == 2
    assert engine.do("XADD s IDMP p i * f v") == b"9000000000000-0"


def test_xidmprecord_pushes_out_the_oldest(engine):
    engine.do("XADD s * f v")
    engine.do("XCFGSET s IDMP-MAXSIZE 1")
    engine.do("XADD s IDMP p old * f v")
    engine.do("XIDMPRECORD s p new 1000000000000-0")
    assert idmp(engine) == (1, 1, 2, 0)
    assert engine.do("XADD s IDMP p new * f v") == NEW
