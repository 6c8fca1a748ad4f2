"""Requests that wait for blocks and meet expired keys: what time removes is no change of theirs."""

import pytest

from tests.cold.cold_server import ColdSession, evict


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("XREAD COUNT 1 STREAMS other s 0 500", 1),
        ("XREAD COUNT 1 STREAMS other hash s 0 0 500", "WRONGTYPE"),
    ],
)
def test_a_request_waits_though_its_access_has_removed_what_had_expired(line, reply):
    session = ColdSession()
    session.cool(b"s", 1_000)
    records = session.record()
    session.do("SET other x")
    session.do("PEXPIRE other 10")
    session.do("HSET hash a 1 b 2")
    session.do("HPEXPIRE hash 10 FIELDS 1 a")
    session.state.active_expire = False
    session.clock.advance(20)
    evict(session.engine)

    session.say(line)
    waits = session.blocked
    session.read()

    [found] = session.replies()
    if reply == 1:
        assert waits
        assert found[0][1][0][0] == b"501-0"
        assert len(found) == 1
    else:
        assert found.text.startswith(reply)
    assert (0, [b"DEL", b"other"]) in records
    assert session.state.stats.internal_errors == 0
