"""What other brokers do otherwise than the standard says, or than we would: known, and allowed to them alone."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Deviations:
    """Each is one thing that a broker may do.

    any_qos_of_overlapping: a 3.1.1 client with several matching subscriptions gets one copy, with any of their QoS
    (5:3.3.4-2, 3:3.3.5-1: the highest). above_receive_maximum: what is sent again may be more than the receive maximum.
    """

    any_qos_of_overlapping: bool = False
    above_receive_maximum: bool = False


NONE = Deviations()
MOSQUITTO_2_0_11 = Deviations(any_qos_of_overlapping=True, above_receive_maximum=True)
