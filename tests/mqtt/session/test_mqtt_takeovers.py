"""Two devices that share a client identifier: at most one takeover a second, and one line."""

import pytest

from streamd.clients.mqtt.gateway import takeovers
from streamd.clients.mqtt.gateway.takeovers import Takeovers


class Time:
    """A loop whose clock is moved by who sleeps."""

    def __init__(self):
        self.now_s = 100.0

    def time(self):
        return self.now_s

    async def sleep(self, seconds):
        self.now_s += seconds


@pytest.fixture
def time(monkeypatch):
    found = Time()
    monkeypatch.setattr(takeovers.asyncio, "get_running_loop", lambda: found)
    monkeypatch.setattr(takeovers.asyncio, "sleep", found.sleep)
    return found


@pytest.mark.interpreted(reason="the clock is replaced")
def test_a_client_is_taken_over_once_a_second_and_told_once(time):
    lines = []
    found = Takeovers(lines.append)

    def take(client_id="d"):
        coroutine = found.wait(client_id)
        with pytest.raises(StopIteration):
            coroutine.send(None)
        found.note(client_id)
        return time.now_s

    assert [take() for _ in range(4)] == [100, 101, 102, 103]
    assert len(lines) == 1
    assert "'d' connects again and again" in lines[0]
    assert take("other") == 103
    time.now_s += 61
    assert take() == 164
    assert len(lines) == 1
    time.now_s += 61
    for number in range(3):
        take(f"new {number}")
    assert len(found._last) <= 3
    take()
    assert len(lines) == 1, "after a quiet minute a takeover is no fight"
    take()
    assert len(lines) == 2
