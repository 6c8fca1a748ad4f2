"""What a user with rules may do when many requests come at once and are executed together."""

import pytest

from tests.session import Error
from tests.unit.test_acl import KEY, client_of


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("SET {} new", "OK"),
        ("SET {} new EX 9", "OK"),
        ("ZADD {} 2 m", 0),
        ("ZSCORE {} m", b"1"),
        ("ZRANGE {} 0 -1", [b"m"]),
        ("XADD {} 2-1 f v", b"2-1"),
        ("XADD {} MAXLEN ~ 5 2-1 f v", b"2-1"),
        ("GET {}", None),
    ],
)
@pytest.mark.parametrize("protocol", [2, 3])
def test_rules_hold_for_each_key_of_requests_that_are_executed_together(engine, line, reply, protocol):
    """Whatever the keys of a run are, and whichever of them was asked for before."""
    name = line.split()[0]
    keys = [b"a%d" % number for number in range(40)]
    for key in [*keys, b"secret"]:
        if name.startswith("Z"):
            engine.execute([b"ZADD", key, b"1", b"m"])
        elif name.startswith("X"):
            engine.execute([b"XADD", key, b"1-1", b"f", b"v"])
    before = engine.execute([b"TYPE", b"secret"]), engine.do("DBSIZE")
    client = client_of(engine, "+@all -acl ~a*")
    if protocol == 3:
        client.do("HELLO 3")
    requests = [line.format(key.decode()).encode().split() for key in keys]
    forbidden = line.format("secret").encode().split()
    if protocol == 3 and reply == b"1":
        reply = 1.0

    for place in (1, 3, 20, 39):
        fresh = [[word if word != b"2-1" else b"%d-1" % (place + 2) for word in one] for one in requests]
        client.send(*fresh[:place], forbidden, *fresh[place:])
        replies = client.replies()
        assert replies[place] == Error(KEY)
        others = replies[:place] + replies[place + 1 :]
        if name != "XADD":
            assert others == [reply] * 40 or (name == "ZADD" and set(others) == {0})
        else:
            assert others == [b"%d-1" % (place + 2)] * 40
        # And where nothing but what is forbidden is sent.
        client.send(*[forbidden] * 20)
        assert client.replies() == [Error(KEY)] * 20

    assert engine.execute([b"TYPE", b"secret"]) == before[0]
    if name == "SET":
        assert engine.do("EXISTS secret") == 0
    elif name == "ZADD":
        assert engine.do("ZSCORE secret m") == b"1"
    elif name == "XADD":
        assert engine.do("XLEN secret") == 1
