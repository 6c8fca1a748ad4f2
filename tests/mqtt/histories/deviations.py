"""What other brokers do otherwise than the standard says, or than we would: known, and allowed to them alone."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Deviations:
    """Each is one thing that a broker may do.

    any_qos_of_overlapping: a 3.1.1 client with several matching subscriptions gets one copy, with any of their QoS
    (5:3.3.4-2, 3:3.3.5-1: the highest).
    keeps_first_options: another SUBSCRIBE to the same filter changes QoS and identifier, but neither No Local nor
    Retain As Published (5:3.8.4-3: it replaces the subscription).
    above_receive_maximum: what is sent again may be more than the receive maximum (5:3.3.4-9).
    stalls_behind_expired: where messages in flight have expired, the next ones do not come when the client returns
    (5:4.5.0-1).
    no_will_at_takeover: another connection of a client whose session goes on ends the first one without its will
    (5:3.1.2-8, 3:3.1.2-8); where the session ends, too, its client gets that will in the new one (3:3.1.2-6).
    qos_0_again_after_kill: what a session that lasts got with QoS 0 comes again after a kill of the gateway, as its
    position is written behind (5:4.3.1: at most once).
    expires_early_s: so long before its time a message may be gone; above 1 it may also come without its expiry
    (5:3.3.2-6), as whole seconds of the clock are counted.
    """

    any_qos_of_overlapping: bool = False
    keeps_first_options: bool = False
    above_receive_maximum: bool = False
    stalls_behind_expired: bool = False
    no_will_at_takeover: bool = False
    qos_0_again_after_kill: bool = False
    expires_early_s: float = 0.3


NONE = Deviations()
GATEWAY = Deviations()
MOSQUITTO_2_0_11 = Deviations(
    any_qos_of_overlapping=True,
    keeps_first_options=True,
    above_receive_maximum=True,
    stalls_behind_expired=True,
    no_will_at_takeover=True,
    expires_early_s=1.1,
)
