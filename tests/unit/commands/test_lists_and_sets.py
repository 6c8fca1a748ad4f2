"""The few list and set commands."""

from tests.session import Error, Session

WRONGTYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")


def test_a_list_is_pushed_to_read_and_popped_from_both_ends(engine: Session):
    assert engine.do("LPUSH l b a") == 2
    assert engine.do("RPUSH l c d") == 4
    assert engine.do("LLEN l") == 4
    assert engine.do("LRANGE l 0 -1") == [b"a", b"b", b"c", b"d"]
    assert engine.do("LRANGE l -3 2") == [b"b", b"c"]
    assert engine.do("LRANGE l 3 1") == engine.do("LRANGE l 9 10") == engine.do("LRANGE none 0 -1") == []
    assert engine.do("LRANGE l 0 -9") == []
    assert engine.do("LPOP l") == b"a"
    assert engine.do("RPOP l 2") == [b"d", b"c"]
    assert engine.do("TYPE l") == "list"
    assert engine.do("OBJECT ENCODING l") == b"listpack"
    assert engine.do("LPOP l 5") == [b"b"]
    assert engine.do("EXISTS l") == 0
    assert engine.do("LPOP l") is None
    assert engine.raw(["LPOP", "l", "2"]) == b"*-1\r\n"
    for count in ("-1", "x", "9223372036854775808"):
        assert engine.do(f"LPOP l {count}") == Error("ERR value is out of range, must be positive")
    assert engine.do("RPOP l 1 1") == Error("ERR wrong number of arguments for 'rpop' command")


def test_a_set_has_each_member_once(engine: Session):
    assert engine.do("SADD s a b a") == 2
    assert engine.do("SADD s b c") == 1
    assert (engine.do("SCARD s"), engine.do("SISMEMBER s c"), engine.do("SISMEMBER s d")) == (3, 1, 0)
    assert sorted(engine.do("SMEMBERS s")) == [b"a", b"b", b"c"]
    assert engine.do("TYPE s") == "set"
    assert engine.do("SREM s a b x") == 2
    assert engine.do("SREM s c") == 1
    assert engine.do("EXISTS s") == 0


def test_other_types_are_refused_and_refuse(engine: Session):
    engine.do("XADD x * f v")
    engine.do("LPUSH l a")
    engine.do("SADD s a")
    for request in ("LPUSH x a", "LLEN s", "SADD l a", "SMEMBERS x", "GET l", "HGET s f", "XLEN l", "XADD s * f v"):
        assert engine.do(request) == WRONGTYPE, request


def test_copies_are_independent(engine: Session):
    engine.do("RPUSH l a")
    engine.do("SADD s a")
    engine.do("COPY l l2")
    engine.do("COPY s s2")
    engine.do("RPUSH l2 b")
    engine.do("SADD s2 b")
    assert (engine.do("LLEN l"), engine.do("SCARD s")) == (1, 1)
