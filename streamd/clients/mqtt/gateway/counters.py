"""What a gateway counts, for $SYS, /metrics and its log."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Numbers since the start; those that end in `_now` are of this moment."""

    connections_now: int = 0
    connections: int = 0
    connects_refused: int = 0
    messages_received: int = 0  # packets
    messages_sent: int = 0
    publishes_received: int = 0
    publishes_sent: int = 0
    publishes_refused: int = 0
    publishes_dropped: int = 0  # larger than a client takes
    bytes_received: int = 0
    bytes_sent: int = 0
    faults: int = 0
    keep_alive_timeouts: int = 0
    takeovers: int = 0
    wills_published: int = 0
    gaps: int = 0
    sessions_ended: int = 0
