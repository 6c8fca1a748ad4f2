"""The listeners of the MQTT gateway: TCP, TLS, WebSocket and Unix sockets, without any MQTT in them."""

from streamd.clients.mqtt.listening.admission import Counts
from streamd.clients.mqtt.listening.faults import ListenFault
from streamd.clients.mqtt.listening.listening import Factory, Listening, start
from streamd.clients.mqtt.listening.options import Listeners

__all__ = ["Counts", "Factory", "ListenFault", "Listeners", "Listening", "start"]
