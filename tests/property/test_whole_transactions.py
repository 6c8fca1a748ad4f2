"""Transactions that arrive whole do what their requests do one after the other."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamd.engine.engine import Engine
from streamd.engine.whole_transactions import WholeTransactions
from tests.connected import Host
from tests.crash.state_dump import dump
from tests.property.test_alike_runs import without_seen

ORDINARY = [
    "SET k %", "GET k", "INCR k", "HSET h % 1", "XADD s * f %", "XADD s IDMP p % * f v", "XADD h * f v", "XLEN s",
    "LPUSH l %", "BLPOP l 0", "BLPOP none 0", "XREAD BLOCK 0 STREAMS s $", "DEL s k", "PEXPIRE k 1", "SETEX k 0 v",
    "xadd s * f %", "PING", "PUBLISH c %", "XREADGROUP GROUP g c STREAMS s >", "FLUSHALL", "SWAPDB 0 1",
]  # fmt: skip
ODD = [
    "GET", "SET k", "NOSUCH", "EVAL return(1) 0", "HELLO 3", "HELLO 2", "MULTI", "WATCH k", "UNWATCH", "DISCARD",
    "EXEC x", "SELECT 1", "CLIENT REPLY SKIP", "CLIENT REPLY OFF", "CLIENT TRACKING ON", "SUBSCRIBE c", "RESET", "QUIT",
    "AUTH x", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "CLIENT NO-TOUCH ON", "MONITOR", "DEBUG ERROR",
    "SAVE", "CLIENT PAUSE 5 WRITE",
]  # fmt: skip
WORDS = st.sampled_from([*ORDINARY * 2, *ODD])
TRANSACTIONS = st.builds(
    lambda before, begin, inside, end: [*before, *begin, *inside, *end],
    st.lists(WORDS, max_size=2),
    st.sampled_from(
        [["MULTI"], ["multi"], ["MULTI", "MULTI"], ["MULTI x"], ["WATCH k", "SET k 1", "MULTI"], ["Multi"]]
    ),
    st.lists(st.sampled_from([*ORDINARY * 6, *ODD]), max_size=5),
    st.sampled_from([["EXEC"], ["exec"], ["EXEC"], ["EXEC"], ["DISCARD"], [], ["Exec"], ["EXEC x"]]),
)
RULES = ["", "+@all ~* &*", "+@all -hset ~* &*", "+@all -exec ~* &*", "+@all -multi ~* &*", "+@all ~s ~l &*"]


def counts(engine: Engine) -> Counter[tuple[bytes, str]]:
    """Return how often each command was called, refused and failed."""
    return Counter(
        {
            (name, what): getattr(one, what)
            for name, one in engine.commands.items()
            for what in ("calls", "rejected", "failed")
        }
    )


def outcome(sent: list[list[str]], rules: str, together: bool) -> tuple[Any, ...]:
    host = Host(appendfsync="no")
    server, engine = host.restartable, host.engine
    server.send("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    server.send("RPUSH", "l", "a", "b")
    client, other = host.open(), host.open()
    if rules:
        host.receive(other, [f"ACL SETUSER ann on nopass {rules}".encode().split()], is_shared=False)
        host.receive(client, [b"AUTH ann any".split()], is_shared=False)
        host.turns()
    number, counted = 0, counts(engine)
    for texts in sent:
        requests = []
        for text in texts:
            number += 1
            requests.append([word.replace("%", str(number)).encode() for word in text.split()])
        if together:
            host.receive(client, requests, is_shared=False)
        else:
            for request in requests:
                host.receive(client, [request], is_shared=False)
        host.turns()
        server.clock.advance(3)
    stats = counts(engine) - counted
    last = client.client.last_command if client.client is not None else None
    assert engine.state.stats.internal_errors == 0
    before = dump(engine)
    seen = (host.written(client), host.written(other), stats, last, engine.state.dirty, before)
    assert without_seen(dump(server.restart().engine)) == without_seen(before)
    return seen


@pytest.mark.parametrize("rules", RULES)
def test_whole_or_request_by_request_is_the_same(rules, monkeypatch):
    taken = []
    look = WholeTransactions.look

    def counted(self, client, requests, at):
        commands = look(self, client, requests, at)
        taken.append(len(commands))
        return commands

    monkeypatch.setattr(WholeTransactions, "look", counted)

    @example([["PING", "MULTI", "XADD s * f %", "LPUSH l %", "EXEC"]])
    @given(st.lists(TRANSACTIONS, min_size=1, max_size=4))
    def check(sent):
        assert outcome(sent, rules, together=True) == outcome(sent, rules, together=False)

    check()
    if rules not in (
        "+@all -exec ~* &*",
        "+@all -multi ~* &*",
    ):  # (they may, once RESET has made them the default user)
        assert max(taken) > 1  # the quick way was taken


def test_a_long_transaction_is_run_request_by_request_and_is_the_same():
    sent = [["MULTI", *["INCR k"] * 1_200, "EXEC", "GET k"], ["MULTI", *["INCR k"] * 900, "EXEC", "GET k"]]
    assert outcome(sent, "", together=True) == outcome(sent, "", together=False)
