"""The keep alive of a client whose packet is on its way: a part of a packet is not silence."""

from types import SimpleNamespace

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.connection import Connection
from streamd.clients.mqtt.gateway.counters import Counters
from streamd.clients.mqtt.gateway.keep_alive import KeepAlive
from streamd.clients.mqtt.gateway.limits import Limits

KEEP_ALIVE_S = 3.0  # one and a half of what the client has said
RATE = 10_000
PUBLISH = encode(p.Publish(b"t", bytes(100_000 - 8)), 4)
CONNECT = encode(p.Connect(4, "d", True, 2), 4)


class Uploading:
    """A connection whose client has sent CONNECT, and a keep alive; the clock is moved."""

    def __init__(self, frame_moved_s=None):
        self.now_s = 1_000.0
        loop = SimpleNamespace(time=lambda: self.now_s)
        self.gateway = SimpleNamespace(
            loop=loop, counters=Counters(), limits=Limits(packet_bytes_max=200_000), ticked_s=self.now_s, held_up=None
        )
        self.keep_alive = KeepAlive(loop, self.gateway.counters, RATE)
        self.connection = connection = Connection(self.gateway, "mqtt")
        connection.decoder.feed(CONNECT)
        self.frame_moved_s = frame_moved_s
        connection.transport = SimpleNamespace(get_extra_info=lambda name: self.frame_moved_s)
        connection.heard_s, connection.keep_alive_s = self.now_s, KEEP_ALIVE_S
        self.keep_alive.watch(connection)

    def is_open(self, seconds, data=b""):
        """Let seconds pass; then some bytes come. Return whether the connection is open still."""
        for _ in range(round(seconds * 10)):
            self.now_s += 0.1
            self.keep_alive.check()
        if data:
            self.connection.data_received(data)
        return not self.gateway.counters.keep_alive_timeouts


@pytest.fixture
def closed(monkeypatch):
    reasons = []
    monkeypatch.setattr(Connection, "close", lambda connection, *words, **more: reasons.append(words[0]))
    return reasons


pytestmark = pytest.mark.interpreted(reason="the gateway and the transport are not the ones of a compiled connection")


def test_a_packet_that_makes_progress_keeps_the_connection_as_long_as_it_may_take(closed):
    one = Uploading()
    assert one.is_open(0, PUBLISH[:1_000])
    for _ in range(6):  # 100,000 bytes at 10,000 a second, and the keep alive: 13 seconds
        assert one.is_open(2, b"x")
    assert not one.is_open(2)
    assert closed == [Reason.KEEP_ALIVE_TIMEOUT]


def test_a_packet_that_makes_no_progress_does_not_keep_the_connection(closed):
    one = Uploading()
    assert one.is_open(2.5, PUBLISH[:50_000])
    assert one.is_open(2.5)
    assert not one.is_open(2)


def test_a_small_packet_that_comes_byte_by_byte_does_not_keep_the_connection(closed):
    one = Uploading()
    small = encode(p.Publish(b"t", bytes(50)), 4)
    assert one.is_open(2.5, small[:4])
    assert not one.is_open(2, small[4:5])


def test_a_frame_of_a_web_socket_may_take_as_long_as_the_largest_packet(closed):
    one = Uploading(frame_moved_s=1_000.0)
    for _ in range(11):  # 200,000 bytes at 10,000 a second, and the keep alive: 23 seconds
        assert one.is_open(2)
        one.frame_moved_s = one.now_s
    assert not one.is_open(2)
