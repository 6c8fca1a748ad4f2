"""The counts and latencies of one run, which all its clients share."""

from time import monotonic

from streamd.clients.mqtt.bench.latencies import Latencies
from streamd.clients.mqtt.bench.ledger import Arrival
from streamd.clients.mqtt.codec.reason_codes import Reason


class Tally:
    """What was sent, acknowledged and delivered.

    accepted: messages of QoS 1 and 2 that PUBACK or PUBREC took; refused: those that these refused, by reason code.
    delivered: all that came; again, late: those of them that had come before, or came out of order. foreign: PUBLISHes
    that this run has not sent.
    """

    def __init__(self) -> None:
        self.sent = self.accepted = self.delivered = self.again = self.late = self.foreign = 0
        self.refused: dict[int, int] = {}
        self.acknowledgements, self.deliveries, self.connects = Latencies(), Latencies(), Latencies()

    def take(self, arrival: Arrival, sent_s: float) -> None:
        """Enter a delivery of a message that was sent at this time."""
        self.delivered += 1
        self.deliveries.add(monotonic() - sent_s)
        if arrival:
            if arrival is Arrival.AGAIN:
                self.again += 1
            else:
                self.late += 1

    def accept(self, sent_s: float, reason: int) -> None:
        """Enter a PUBACK or PUBREC of a message that was sent at this time."""
        if reason >= Reason.UNSPECIFIED_ERROR:
            self.refused[reason] = self.refused.get(reason, 0) + 1
            return
        self.accepted += 1
        self.acknowledgements.add(monotonic() - sent_s)

    @property
    def refusals(self) -> int:
        """The number of messages that were refused."""
        return sum(self.refused.values())
