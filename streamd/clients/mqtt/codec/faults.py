"""What a peer has sent that MQTT does not allow."""

from streamd.clients.mqtt.codec.reason_codes import Reason


class Fault(ValueError):
    """A packet that cannot be accepted; the connection has to be closed.

    reason: for 5.0's DISCONNECT, or CONNACK in answer to CONNECT. connack_3: the return code that answers a CONNECT of
    3.1.1, None where nothing is answered. The text is one line for a log.
    """

    def __init__(self, reason: Reason, text: str, connack_3: int | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.connack_3 = connack_3


def malformed(text: str) -> Fault:
    """Return the fault of a packet that cannot be parsed."""
    return Fault(Reason.MALFORMED_PACKET, text)


def against_protocol(text: str) -> Fault:
    """Return the fault of a packet that can be parsed, and must not be sent."""
    return Fault(Reason.PROTOCOL_ERROR, text)
