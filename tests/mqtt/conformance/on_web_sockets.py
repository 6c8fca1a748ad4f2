"""Cases of MQTT over WebSockets."""

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import Connect, Publish, Will
from tests.mqtt.conformance.cases import case, must, same
from tests.mqtt.conformance.device import Stream
from tests.mqtt.conformance.web_socket import BINARY, CONTINUATION, PING, TEXT, WebSocket


def opened(scene, **more):
    stream = WebSocket(scene.broker.ws_port, **more)
    must(stream.is_accepted, "the handshake is refused")
    return stream


@case("5:6.0.0-1", "3:6.0.0-1", "5:6.0.0-4", "3:6.0.0-4", "5:6.0.0-3", "3:6.0.0-3")
def messages_go_through_binary_frames(scene):
    stream = opened(scene)
    same(stream.chosen, "mqtt")
    device, other = scene.client(stream=stream), scene.client()
    device.subscribes(scene.topic("a"), qos=2)
    for size in (1, 200, 70_000):
        other.publishes(scene.topic("a"), b"x" * size, 2)
        same(len(device.receives(qos=2).payload), size)
        device.publishes(scene.topic("a"), b"y" * size, 2)
        same(len(device.receives(qos=2).payload), size)


@case("5:6.0.0-2", "3:6.0.0-2")
def packets_and_frames_are_not_aligned(scene):
    stream = opened(scene)
    device = scene.opens(stream=stream)
    connect = Connect(scene.version, scene.id("a"), True)
    device.asked = connect
    for byte in encode(connect, scene.version):
        stream.frame(BINARY, bytes((byte,)))
    device.expects(packets.Connack, reason=0)
    ping = encode(packets.Pingreq(), 4)
    stream.frame(BINARY, ping * 3 + ping[:1])
    stream.frame(BINARY, ping[1:], last=False)
    stream.frame(CONTINUATION, ping[:1], last=False)
    stream.frame(PING, b"between")
    stream.frame(CONTINUATION, ping[1:])
    for _ in range(5):
        device.expects(packets.Pingresp)
    same(stream.pongs, [b"between"])


@case("5:6.0.0-1", "3:6.0.0-1")
def a_text_frame_closes_the_connection(scene):
    other = scene.client()
    other.subscribes(scene.topic("will"))
    stream = opened(scene)
    device = scene.client(stream=stream, will=Will(scene.topic("will").encode(), b"gone"))
    stream.frame(TEXT, b"\xc0\0")
    device.is_closed()
    other.receives(b"gone")


@case("5:6.0.0-4", "3:6.0.0-4")
def mqtt_is_chosen_from_a_list_on_any_path(scene):
    for offered, path in (("mqtt", "/"), ("foo, mqtt", "/mqtt"), ("mqtt, mqttv3.1", "/any/path?x=1")):
        stream = opened(scene, offered=offered, path=path)
        same(stream.chosen, "mqtt")
        scene.client(stream=stream).pings()


@case("5:6.0.0-4", "3:6.0.0-4")
def the_first_subprotocol_of_mqtt_that_is_offered_is_chosen_and_a_handshake_needs_none(scene):
    for offered in ("mqttv3.1", "mqttv3.1, mqtt", "foo, mqttv3.1"):
        stream = opened(scene, offered=offered)
        same(stream.chosen, "mqttv3.1")
        scene.client(stream=stream).pings()
    stream = opened(scene, offered=None)
    same(stream.chosen, None)
    stream.close()


@case("5:6.0.0-3", "3:6.0.0-3")
def another_subprotocol_is_not_taken_for_mqtt(scene):
    stream = WebSocket(scene.broker.ws_port, offered="foo")
    must(not stream.is_accepted or stream.chosen is None, f"{stream.chosen}")
    stream.close()


@case("3:3.14.4-2", "5:3.14.4-2", "5:6.0.0-1")
def a_disconnect_closes_the_web_socket(scene):
    device = scene.client(stream=opened(scene))
    device.disconnects()


@case("5:6.0.0-4", "3:6.0.0-4", takes_seconds=True)
def a_large_frame_that_comes_slowly_is_taken(scene):
    stream = opened(scene)
    device = scene.client(stream=stream, keep_alive_s=1)
    packet = Publish(scene.topic("a").encode(), bytes(60_000), 1, packet_id=7)
    data = stream.bytes_of(BINARY, encode(packet, scene.version))
    for at in range(0, len(data), 6_001):
        device.is_silent_for(0.4)
        Stream.send(stream, data[at : at + 6_001])
    device.expects(packets.Puback, packet_id=7)
