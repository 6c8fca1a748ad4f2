"""Cases of clients that close right behind what they send: what has arrived before the end is worked on, in order."""

import socket

from streamd.clients.mqtt.codec.packets import (
    Disconnect,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from tests.mqtt.conformance.cases import case, same
from tests.mqtt.conformance.device import Stream
from tests.mqtt.conformance.web_socket import CLOSE, WebSocket


def closes(stream):
    stream.close()


def closes_one_half(stream):
    stream._socket.shutdown(socket.SHUT_WR)


def closes_in_order(stream):
    stream.frame(CLOSE, b"\x03\xe8")
    stream.close()


TCP = (closes, closes_one_half)
OVER_WEB_SOCKETS = (*TCP, closes_in_order)


def before_the_end(scene):
    """Return what a client sends at once: packets that wait for something, and a message."""
    subscribe = Subscribe(7, (Subscription(scene.topic("b"), 0),))
    unsubscribe = Unsubscribe(8, (scene.topic("b"),))
    message = Publish(scene.topic("a").encode(), b"1")
    return [(*first, message) for first in ((), (subscribe,), (unsubscribe,))]


def wills_of_clients(scene, opens, ways, *behind):
    """Return the wills of clients that send their packets at once, and close in one of the ways; all are published."""
    other = scene.client()
    other.subscribes(scene.topic("a"), qos=1)
    wills = []
    for closing in ways:
        for number, sent in enumerate(before_the_end(scene)):
            name = f"{closing.__name__}{number}"
            stream = opens()
            device = scene.client(name, stream=stream, will=Will(scene.topic("a").encode(), b"gone"))
            device.send(*sent, *behind)
            closing(stream)
            other.receives(b"1")
            wills.append(other.payloads_from(scene.client(name)))  # it comes behind all that the one before has sent
    return wills


@case("3:3.14.4-3", "5:3.14.4-3")
def a_client_that_closes_right_behind_its_disconnect_has_sent_its_messages_and_has_no_will(scene):
    wills = wills_of_clients(scene, lambda: Stream(scene.broker.port), TCP, Disconnect())
    same(wills, [[]] * len(wills))


@case("3:3.14.4-3", "5:3.14.4-3", "5:6.0.0-1")
def a_client_that_closes_a_web_socket_right_behind_its_disconnect_has_sent_its_messages(scene):
    wills = wills_of_clients(scene, lambda: WebSocket(scene.broker.ws_port), OVER_WEB_SOCKETS, Disconnect())
    same(wills, [[]] * len(wills))


@case("3:3.1.2-8", "5:3.1.2-8")
def the_will_of_a_client_that_closes_without_disconnect_follows_its_messages(scene):
    wills = wills_of_clients(scene, lambda: Stream(scene.broker.port), TCP)
    same(wills, [[b"gone"]] * len(wills))


@case("3:3.8.4-1", "5:3.8.4-1")
def a_client_that_closes_its_half_gets_the_answers_to_what_it_has_sent(scene):
    device = scene.client()
    device.send(*before_the_end(scene)[1])
    closes_one_half(device.stream)
    device.expects(Suback)
    device.is_closed()


@case("3:3.1.2-4", "5:3.1.2-5")
def a_client_that_closes_right_behind_its_subscribe_has_subscribed(scene):
    for closing in TCP:
        stream = Stream(scene.broker.port)
        device = scene.lasting(closing.__name__, stream=stream)
        device.send(Subscribe(7, (Subscription(scene.topic("a"), 1),)), Disconnect())
        closing(stream)
        device = scene.lasting(closing.__name__)
        scene.client().publishes(scene.topic("a"), b"1", 1)
        device.receives(b"1")
