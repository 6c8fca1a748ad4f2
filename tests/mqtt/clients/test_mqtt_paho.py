"""paho with its defaults, in both versions: QoS, retained messages, a will, a session that lasts."""

import threading
from queue import Empty, Queue

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.mqtt.clients.process import WAIT_S

VERSIONS = pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])


class Client:
    """A client whose messages come into a queue."""

    def __init__(self, version, name, lasts=False):
        options = {"clean_session": not lasts} if version != MQTTProtocolVersion.MQTTv5 else {}
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, f"paho-{version}-{name}", protocol=version, **options)
        self.messages = Queue()
        self.paho.on_message = lambda _client, _data, message: self.messages.put(message)
        self.paho.on_connect = self.connected
        self.paho.on_subscribe = lambda *_: self.subscribed.set()
        self.subscribed, self.is_up = threading.Event(), threading.Event()
        self.lasts, self.version = lasts, version
        self.flags = None

    def connected(self, _client, _data, flags, reason, _properties):
        assert not reason.is_failure, reason
        self.flags = flags
        self.is_up.set()

    def connect(self, port):
        words = {}
        if self.version == MQTTProtocolVersion.MQTTv5 and self.lasts:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 1_000
            words = {"clean_start": False, "properties": properties}
        self.is_up.clear()
        self.paho.connect("127.0.0.1", port, **words)
        self.paho.loop_start()
        assert self.is_up.wait(WAIT_S)
        return self

    def subscribe(self, filter, qos):
        self.subscribed.clear()
        self.paho.subscribe(filter, qos)
        assert self.subscribed.wait(WAIT_S)

    def publish(self, topic, payload, qos, **words):
        self.paho.publish(topic, payload, qos, **words).wait_for_publish(WAIT_S)

    def receive(self):
        message = self.messages.get(timeout=WAIT_S)
        return message.topic, message.payload, message.qos, bool(message.retain)

    def leave(self):
        self.paho.disconnect()
        self.paho.loop_stop()


@VERSIONS
def test_paho(port, version):
    publisher, reader = Client(version, "publisher"), Client(version, "reader")
    top = f"paho/{version}"
    publisher.paho.will_set(f"{top}/will", "gone", 1)
    publisher.connect(port)
    publisher.publish(f"{top}/kept", "kept", 1, retain=True)
    reader.connect(port).subscribe(f"{top}/#", 2)
    assert reader.receive() == (f"{top}/kept", b"kept", 1, True)
    for number in range(30):
        publisher.publish(f"{top}/{number % 3}", str(number), number % 3)
    found = sorted([reader.receive() for _ in range(30)], key=lambda one: one[2])
    # (In order for each QoS: a client hands QoS 2 on when it is released.)
    assert found == [(f"{top}/{qos}", b"%d" % number, qos, False) for qos in range(3) for number in range(qos, 30, 3)]
    publisher.paho.loop_stop()
    publisher.paho._sock_close()  # as a device that loses its power
    assert reader.receive() == (f"{top}/will", b"gone", 1, False)
    with pytest.raises(Empty):
        reader.messages.get_nowait()
    reader.leave()


@VERSIONS
def test_paho_comes_back(port, version):
    device, publisher = Client(version, "device", lasts=True), Client(version, "other")
    top = f"back/{version}"
    device.connect(port).subscribe(f"{top}/#", 2)
    assert not device.flags.session_present
    device.leave()
    publisher.connect(port)
    for number in range(30):
        publisher.publish(f"{top}/a", str(number), 2)
    device.connect(port)
    assert device.flags.session_present
    assert [int(device.receive()[1]) for _ in range(30)] == list(range(30))
    device.leave()
    publisher.leave()
