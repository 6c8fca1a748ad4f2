"""Commands on sets behind the first few, and random choices of all collections."""

import pytest

from tests.session import Error, Session

SYNTAX = Error("ERR syntax error")


@pytest.fixture
def sets(engine: Session) -> Session:
    engine.do("SADD s a b c")
    engine.do("SADD t b c d")
    return engine


@pytest.mark.parametrize(
    ("request_line", "reply", "stored"),
    [
        ("SMISMEMBER s a d", [1, 0], None),
        ("SINTER s t", [b"b", b"c"], None),
        ("SINTER s none", [], None),
        ("SUNION s t none", [b"a", b"b", b"c", b"d"], None),
        ("SDIFF s t", [b"a"], None),
        ("SINTERSTORE n s t", 2, [b"b", b"c"]),
        ("SUNIONSTORE n s t", 4, [b"a", b"b", b"c", b"d"]),
        ("SDIFFSTORE n s none", 3, [b"a", b"b", b"c"]),
        ("SDIFFSTORE n s s", 0, []),
        ("SINTERCARD 2 s t", 2, None),
        ("SINTERCARD 2 s t LIMIT 1", 1, None),
        ("SINTERCARD 0 s", Error("ERR numkeys should be greater than 0"), None),
        ("SINTERCARD 3 s t", Error("ERR Number of keys can't be greater than number of args"), None),
        ("SINTERCARD 1 s LIMIT -1", Error("ERR LIMIT can't be negative"), None),
        ("SMOVE s n a", 1, [b"a"]),
        ("SMOVE s n x", 0, []),
        ("SPOP none", None, None),
        ("SPOP s -1", Error("ERR value is out of range, must be positive"), None),
        ("SPOP s 1 1", SYNTAX, None),
        ("SRANDMEMBER s 1 1", SYNTAX, None),
        ("SRANDMEMBER s 0", [], None),
    ],
)
def test_a_request_on_sets(sets, request_line, reply, stored):
    found = sets.do(request_line)
    assert (sorted(found) if isinstance(found, list) and request_line[:3] != "SMI" else found) == reply
    if stored is not None:
        assert sorted(sets.do("SMEMBERS n")) == stored


def test_other_types_are_refused_wherever_they_stand(sets):
    sets.do("SET k v")
    for line in ("SINTER none k", "SUNION s k", "SDIFFSTORE n s k", "SMOVE s k a", "SINTERCARD 2 s k"):
        assert sets.do(line).text.startswith("WRONGTYPE"), line
    assert sets.do("SUNIONSTORE k s") == 3


def test_what_is_taken_at_random_is_recorded_as_what_it_is(sets):
    records = sets.record()
    first = sets.do("SPOP s")
    rest = sets.do("SPOP s 5")
    assert sorted([first, *rest]) == [b"a", b"b", b"c"]
    assert sets.do("EXISTS s") == 0
    assert [words for _, words in records] == [[b"SREM", b"s", first], [b"SREM", b"s", *rest]]


def test_a_record_names_one_key_alone(sets):
    """So that a rewrite can have written one of two keys and not the other."""
    sets.do("SET word a")
    records = sets.record()
    for line in ("SMOVE s t a", "SUNIONSTORE n s t", "BITOP NOT bits word", "RPUSH l 1 2", "LMOVE l m LEFT LEFT"):
        sets.do(line)
    assert [words[:2] for _, words in records] == [
        *([b"SREM", b"s"], [b"SADD", b"t"], [b"SADD", b"n"], [b"SET", b"bits"], [b"RPUSH", b"l"]),
        *([b"LPOP", b"l"], [b"LPUSH", b"m"]),
    ]


@pytest.mark.parametrize("size", [5, 1000])
@pytest.mark.parametrize(
    ("add", "choose"),
    [("SADD k {}", "SRANDMEMBER k"), ("HSET k {} v", "HRANDFIELD k"), ("ZADD k 1 {}", "ZRANDMEMBER k")],
)
def test_random_elements_differ_unless_they_may_repeat(engine: Session, size, add, choose):
    everything = {b"%d" % number for number in range(size)}
    for member in everything:
        engine.do(add.format(member.decode()))
    assert engine.do(choose) in everything
    few = engine.do(f"{choose} 3")
    assert len(set(few)) == 3
    assert set(few) <= everything
    assert set(engine.do(f"{choose} {size + 1}")) == everything
    many = engine.do(f"{choose} -{size * 2}")
    assert len(many) == size * 2
    assert set(many) <= everything
    met = {engine.do(choose) for _ in range(300)}
    assert len(met) > min(size, 100) // 2
    assert engine.do(f"{choose} -9999999999") == Error("ERR value is out of range")


def test_a_large_set_is_scanned_in_pages_while_it_changes(engine: Session):
    engine.execute(["SADD", "s", *(f"m{number}" for number in range(1000))])
    cursor, met = b"0", []
    while True:
        cursor, page = engine.do(f"SSCAN s {int(cursor)} COUNT 20")
        assert len(page) <= 20
        met += page
        engine.do(f"SREM s m{len(met) % 50}")
        engine.do(f"SADD s new{len(met)}")
        if cursor == b"0":
            break
    assert len(met) == len(set(met))
    assert {b"m%d" % number for number in range(50, 1000)} <= set(met)


def test_a_fraction_is_added_to_a_field(engine: Session):
    assert engine.do("HINCRBYFLOAT h f 0.1") == b"0.1"
    assert engine.do("HINCRBYFLOAT h f 0.2") == b"0.3"
    engine.do("HSET h word x")
    assert engine.do("HINCRBYFLOAT h word 1") == Error("ERR hash value is not a float")
    assert engine.do("HINCRBYFLOAT h f x") == Error("ERR value is not a valid float")
    assert engine.do("HINCRBYFLOAT h f inf") == Error("ERR value is NaN or Infinity")


def test_fields_are_shown_with_their_values(engine: Session):
    engine.do("HSET h f v")
    assert engine.do("HRANDFIELD h 1 WITHVALUES") == [b"f", b"v"]
    assert engine.connect(protocol=3).do("HRANDFIELD h 1 WITHVALUES") == [[b"f", b"v"]]
    assert engine.do("HRANDFIELD h 1 x") == SYNTAX
