"""Requests that wait for each other: when they do, and that each gets its own answer."""

import asyncio

import hiredis
import pytest

from streamd.clients.mqtt.store.finding import Finding
from streamd.clients.mqtt.store.gathering import Gathering
from streamd.clients.mqtt.store.link import StoreFault
from streamd.clients.mqtt.store.records import Found, Pointer


class Loop:
    now_s = 1_000.0

    def time(self):
        return self.now_s


@pytest.mark.interpreted(reason="the clock of the loop is replaced")
@pytest.mark.parametrize(
    ("turns_per_s", "in_a_turn", "waits"),
    [(50, 1, False), (100, 4, False), (150, 4, True), (330, 24, True), (3_000, 1, False), (1_500, 2, False)],
)
def test_requests_wait_while_many_come_and_share_turns(monkeypatch, turns_per_s, in_a_turn, waits):
    loop, waited = Loop(), 0
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    gathering = Gathering()
    for _ in range(turns_per_s):
        waited += bool(gathering.wait_s())
        gathering.left(in_a_turn)
        loop.now_s += 1 / turns_per_s
    assert waited > turns_per_s * 0.7 if waits else waited <= 10, waited
    loop.now_s += 10
    assert not gathering.wait_s()


class StubLink:
    def __init__(self, *replies):
        self.sent, self.replies = [], list(replies)

    def send(self, packed, count, done):
        self.sent.append(packed)
        done([self.replies.pop(0) for _ in range(count)])


async def find(link, *client_ids, together):
    finding = Finding(link, lambda: 0)
    finding._gathering.wait_s = lambda: 0.001 if together else 0
    return await asyncio.gather(*[finding.find(one) for one in client_ids], return_exceptions=True)


@pytest.mark.interpreted(reason="what decides how long to wait is replaced")
@pytest.mark.parametrize("together", [False, True])
def test_each_look_up_gets_its_own_answer(together):
    link = StubLink(b"7 -", hiredis.ReplyError("NOPERM no right"), None, [b"user", b"a"])
    first, second, third = asyncio.run(find(link, "c1", "c2", "c3", together=together))
    assert (first, third) == (Found(Pointer(7, None), [b"user", b"a"]), Found(None, []))
    assert isinstance(second, StoreFault)
    assert str(second) == "NOPERM no right"
    assert [one.count(b"GET\r\n") for one in link.sent[:-1]] == ([3] if together else [1, 1, 1])
    assert link.sent[-1].count(b"HGETALL") == 1
