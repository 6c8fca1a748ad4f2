"""What a gateway counts, for $SYS, /metrics and its log."""

from dataclasses import dataclass, field

from streamd.clients.mqtt.gateway.latency import Latency


@dataclass(slots=True)
class Counters:
    """Numbers since the start; those that end in `_now` are of this moment.

    acknowledging: from a PUBLISH until the store has answered; delivering: from then until the tail hands it on.
    """

    connections_now: int = 0
    connections: int = 0
    connects: int = 0  # that were accepted
    connects_refused: int = 0
    messages_received: int = 0  # packets
    messages_sent: int = 0
    packets_dropped: int = 0  # that waited for the one before them when their connection was ended
    publishes_received: int = 0
    publishes_sent: int = 0
    publishes_refused: int = 0
    publishes_dropped: int = 0  # larger than a client takes
    messages_without_receiver: int = 0  # with an expiry; when they came, no client here subscribed to them
    messages_expired: int = 0  # that a session or a group did not get
    publish_bytes_received: int = 0  # payloads
    publish_bytes_sent: int = 0
    subscribes_refused: int = 0  # filters
    bytes_received: int = 0
    bytes_sent: int = 0
    faults: int = 0
    keep_alive_timeouts: int = 0
    takeovers: int = 0
    wills_published: int = 0
    gaps: int = 0
    pack_retries: int = 0  # packs of applications that were not acknowledged in time, and are sent again
    pack_drops: int = 0  # messages of such packs that are not sent again
    sessions_ended: int = 0
    sessions_expired: int = 0  # those of them whose time was over
    acknowledging: Latency = field(default_factory=Latency)
    delivering: Latency = field(default_factory=Latency)
