"""XREADs of the newest entries reply as those that take the general way."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamd.commands.stream import xread
from streamd.connected.blocking import BLOCKED
from tests.connected import Host

KEYS = ["s", "t", "none", "text", "timed"]
IDS = ["0", "$", "+", ">", "5", "5-1", "6-0", "7-1", "8-3", "12-0", "13-0", "99-9", "x", "-", "5-x", "05-1", "5-01", ""]
HEADS = ["STREAMS", "COUNT % STREAMS", "count % streams", "COUNT % BLOCK 1 STREAMS", "COUNT %", "STREAMS COUNT %"]
COUNTS = ["0", "1", "2", "3", "100", "-1", "01", "x", "12345678901", "99999999999999999999"]
KEY = st.sampled_from([*KEYS, *["s", "t"] * 6])
ID = st.sampled_from([*IDS, *["5-1", "8-3", "12-0", "11-0", "11-2"] * 12])
ASKED = st.lists(st.tuples(KEY, ID), max_size=4).map(lambda pairs: [*map(list, zip(*pairs, strict=True))] or [[], []])
READS = st.builds(
    lambda head, count, asked, cut: f"XREAD {head.replace('%', count)}".split() + asked[0][cut:] + asked[1],
    st.sampled_from([*HEADS[:2] * 5, *HEADS]),
    st.sampled_from([*COUNTS, *["1", "2", "100"] * 5]),
    ASKED,
    st.sampled_from([0] * 9 + [1]),
)
WRITES = st.sampled_from(
    ["XDEL s 12-0", "XADD s 13-0 a b", "XADD t 13-1 a b c d", "XTRIM s MAXLEN 1", "DEL t", "XADD t * long %"]
)


def outcome(requests: list[list[str]], protocol: int) -> tuple[Any, ...]:
    host = Host(stream_node_max_entries=4)
    server = host.restartable
    for number in range(5, 13):
        server.send("XADD", "s", f"{number}-{number % 3}", "f", f"v{number}")
        if number < 9:
            server.send("XADD", "t", f"{number}-{number % 5}", *["f", "v"] * (1 + number % 2))
    for words in ("SET text x", "XADD timed 5-1 f v", "PEXPIRE timed 5"):
        server.send(*words.split())
    client = host.open()
    host.receive(client, [[b"HELLO", b"%d" % protocol]], is_shared=False)
    for words in requests:
        host.receive(client, [[word.replace("%", "x" * 2_000).encode() for word in words]], is_shared=False)
        host.turns()
        server.clock.advance(3)
    db = host.engine.state.keyspace[0]
    assert host.engine.state.stats.internal_errors == 0
    return host.written(client), db.hits, db.misses, {**db.used_s}


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_way_of_the_newest_entries_replies_as_the_general_one(protocol, monkeypatch):
    newest, taken = xread._read_newest, []

    def counted(*arguments):
        reply = newest(*arguments)
        taken.append(reply is not BLOCKED)
        return reply

    @given(st.lists(st.one_of(READS, READS, READS, WRITES.map(str.split)), min_size=1, max_size=8))
    def check(requests):
        with monkeypatch.context() as patch:
            patch.setattr(xread, "_read_newest", counted)
            found = outcome(requests, protocol)
            patch.setattr(xread, "_read_newest", lambda *arguments: BLOCKED)
            assert found == outcome(requests, protocol)

    check()
    assert True in taken
    assert False in taken
