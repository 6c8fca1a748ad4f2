"""Commands on lists behind the first few: moving, finding, changing, waiting."""

import pytest

from tests.session import Error, Session

SYNTAX = Error("ERR syntax error")


@pytest.fixture
def listed(engine: Session) -> Session:
    engine.do("RPUSH l a b c b a")
    return engine


@pytest.mark.parametrize(
    ("request_line", "reply", "after"),
    [
        ("LPUSHX l x", 6, "x a b c b a"),
        ("RPUSHX none x", 0, "a b c b a"),
        ("LINDEX l -2", b"b", "a b c b a"),
        ("LINDEX l 5", None, "a b c b a"),
        ("LSET l -1 z", "OK", "a b c b z"),
        ("LSET l 5 z", Error("ERR index out of range"), "a b c b a"),
        ("LSET none 0 z", Error("ERR no such key"), "a b c b a"),
        ("LINSERT l BEFORE b x", 6, "a x b c b a"),
        ("LINSERT l AFTER b x", 6, "a b x c b a"),
        ("LINSERT l AFTER nobody x", -1, "a b c b a"),
        ("LINSERT l ON b x", SYNTAX, "a b c b a"),
        ("LTRIM l 1 -2", "OK", "b c b"),
        ("LTRIM l 3 1", "OK", ""),
        ("LREM l 0 b", 2, "a c a"),
        ("LREM l -1 a", 1, "a b c b"),
        ("LREM l 1 a", 1, "b c b a"),
        ("LPOS l b", 1, "a b c b a"),
        ("LPOS l b RANK -1", 3, "a b c b a"),
        ("LPOS l b COUNT 0", [1, 3], "a b c b a"),
        ("LPOS l b COUNT 0 MAXLEN 2", [1], "a b c b a"),
        ("LPOS l x", None, "a b c b a"),
        ("LPOS l b COUNT -1", Error("ERR COUNT can't be negative"), "a b c b a"),
        ("LPOS l b RANK 0",
         Error("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
               "or use negative to start from the end of the list"), "a b c b a"),
        ("LMOVE l l LEFT RIGHT", b"a", "b c b a a"),
        ("RPOPLPUSH l l", b"a", "a a b c b"),
        ("LMOVE none l LEFT LEFT", None, "a b c b a"),
        ("LMOVE l l UP LEFT", SYNTAX, "a b c b a"),
        ("LMPOP 2 none l RIGHT COUNT 2", [b"l", [b"a", b"b"]], "a b c"),
        ("LMPOP 0 l LEFT", Error("ERR numkeys should be greater than 0"), "a b c b a"),
        ("BLPOP none l 0", [b"l", b"a"], "b c b a"),
        ("BLPOP l x", Error("ERR timeout is not a float or out of range"), "a b c b a"),
        ("BLPOP l -1", Error("ERR timeout is negative"), "a b c b a"),
    ],
)  # fmt: skip
def test_a_request_on_a_list(listed, request_line, reply, after):
    records = listed.record()
    assert listed.do(request_line) == reply
    assert listed.do("LRANGE l 0 -1") == after.encode().split()
    # What the journal has makes the same of the same list.
    other = Session()
    other.do("RPUSH l a b c b a")
    for _, words in records:
        other.execute(words)
    assert other.do("LRANGE l 0 -1") == after.encode().split()


def test_an_element_moves_to_another_list(listed):
    assert listed.do("LMOVE l m RIGHT LEFT") == b"a"
    assert listed.do("RPOPLPUSH l m") == b"b"
    assert listed.do("LRANGE m 0 -1") == [b"b", b"a"]
    listed.do("SET s v")
    assert listed.do("LMOVE l s LEFT LEFT").text.startswith("WRONGTYPE")
    assert listed.do("LLEN l") == 3


def test_a_waiting_client_gets_what_is_pushed_first_come_first_served(engine: Session):
    first, second, third = (engine.connect() for _ in range(3))
    records = engine.record()
    first.say("BLPOP other l 0")
    second.say("BRPOP l 0")
    third.say("BLMOVE l moved RIGHT LEFT 0")
    assert engine.do("RPUSH l a b c d") == 4
    assert (first.replies(), second.replies(), third.replies()) == ([[b"l", b"a"]], [[b"l", b"d"]], [b"c"])
    assert engine.do("LRANGE l 0 -1") == [b"b"]
    assert engine.do("LRANGE moved 0 -1") == [b"c"]
    assert [b" ".join(words) for _, words in records] == [
        b"RPUSH l a b c d", b"LPOP l 1", b"RPOP l 1", b"RPOP l 1", b"LPUSH moved c",
    ]  # fmt: skip


def test_a_chain_of_moves_serves_the_next_in_line(engine: Session):
    first, second = engine.connect(), engine.connect()
    first.say("BRPOPLPUSH b c 0")
    second.say("BLMOVE a b LEFT LEFT 0")
    engine.do("RPUSH a x")
    assert second.replies() == [b"x"]
    assert first.replies() == [b"x"]
    assert engine.do("LRANGE c 0 -1") == [b"x"]


def test_who_waits_in_vain_gets_a_null(engine: Session):
    client = engine.connect()
    for line in ("BLPOP l 0.5", "BLMOVE l l LEFT LEFT 0.5", "BLMPOP 0.5 1 l LEFT"):
        client.say(line)
        engine.do("SET l v")
        engine.do("DEL l")
        engine.clock.advance(499)
        assert client.blocked
        engine.clock.advance(1)
        assert client.received() == b"*-1\r\n"
    engine.do("MULTI")
    engine.do("BLPOP l 0")
    engine.do("BLMOVE l l LEFT LEFT 0")
    assert engine.raw(["EXEC"]) == b"*2\r\n*-1\r\n$-1\r\n"


def test_a_list_of_another_transaction_serves_when_that_has_ended(engine: Session):
    client = engine.connect()
    client.say("BLPOP l 0")
    for line in ("MULTI", "RPUSH l a", "LPUSH l b", "EXEC"):
        engine.do(line)
    assert client.replies() == [[b"l", b"b"]]
